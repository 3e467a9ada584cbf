//! A small view for unit tests.

use harness::catalogue::{Actor, Annotations, Catalogue, Tool, View};
use harness::episode::ScoredTool;
use harness::ids::ToolId;
use serde_json::json;

/// Six tools on two servers, in an order drawn from the seed.
pub(crate) fn view(order_seed: Option<u64>) -> View {
    let texts = [
        ("mail", "mail_send", "Sends a message to people."),
        ("mail", "mail_search", "Finds messages by words."),
        ("mail", "mail_archive", "Takes a message out of the inbox."),
        ("desk", "desk_search", "Finds tickets by words."),
        ("desk", "desk_close", "Closes a ticket."),
        ("agent", "terminal", "Runs a command."),
    ];
    let tools: Vec<Tool> = texts
        .iter()
        .map(|(server, name, description)| Tool {
            id: ToolId::new(server, name),
            description: (*description).to_owned(),
            input_schema: json!({"type": "object", "properties": {"query": {"type": "string"}}}),
            annotations: Annotations::default(),
            core: *server == "agent",
            tags: Vec::new(),
        })
        .collect();
    let subset: Vec<_> = tools.iter().map(|tool| tool.id.clone()).collect();
    let catalogue = Catalogue::new(Vec::new(), tools, Vec::new()).expect("the ids are unique");
    View::new(&catalogue, &Actor::all(), &subset, order_seed)
}

/// The names of ranked tools.
pub(crate) fn names(ranked: &[ScoredTool]) -> Vec<String> {
    ranked.iter().map(|entry| entry.tool.name().to_owned()).collect()
}
