//! What an endpoint does with schemas that it cannot read: they are rewritten before they are sent, and where one is refused it is
//! found out which.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use harness::catalogue::{Annotations, Catalogue, Tool};
use harness::chat::{ChatRequest, Message, ToolDef};
use harness::endpoint::{Profile, RetryPolicy, SchemaRules, Scripted, Transport, WireResponse};
use harness::gateway::{AskError, Caps, Gateway, GatewayParts, refused_schemas};
use harness::ids::ToolId;
use harness::run::manifest::RefusedSchemas;
use harness::store::responses::ResponseStore;
use serde_json::{Value, json};

const LOOKAROUND: &str = "^(?!\\.)[a-z]+$";

/// A made-up catalogue in which these tools have a pattern that looks ahead.
fn catalogue(tools: usize, bad: &[usize]) -> Catalogue {
    let tool = |n: usize| {
        let name =
            if bad.contains(&n) { json!({"type": "string", "pattern": LOOKAROUND}) } else { json!({"type": "string"}) };
        Tool {
            id: ToolId::new("desk", &format!("desk_{n:03}")),
            description: format!("does thing {n}"),
            input_schema: json!({"type": "object", "properties": {"name": name}}),
            annotations: Annotations::default(),
            core: false,
            tags: Vec::new(),
        }
    };
    Catalogue::new(Vec::new(), (0..tools).map(tool).collect(), Vec::new()).unwrap()
}

fn request(catalogue: &Catalogue, profile: &Profile, tools: impl IntoIterator<Item = usize>) -> ChatRequest {
    let definition = |n: usize| {
        let tool = &catalogue.tools[n];
        harness::toolbox::definition(tool, tool.name(), profile)
    };
    ChatRequest {
        model: "m".to_owned(),
        messages: vec![Message::user("do thing 3")],
        tools: tools.into_iter().map(definition).map(Arc::new).collect(),
        tool_choice: Some(json!("auto")),
        response_format: None,
        temperature: Some(0.0),
        max_tokens: Some(64),
        seed: None,
    }
}

fn refusal(message: &str) -> WireResponse {
    let body = json!({"error": {"message": message, "type": "invalid_request_error"}});
    WireResponse { status: 400, retry_after_ms: None, request_id: None, body: body.to_string() }
}

fn yes() -> WireResponse {
    let usage = json!({"prompt_tokens": 50, "completion_tokens": 1});
    json!({"choices": [{"message": {"role": "assistant", "content": "yes"}}], "usage": usage}).into()
}

/// Compiles all schemas together, as a server does whose grammar knows no look-around, and counts what it is asked.
fn strict(sent: &Arc<Mutex<Vec<Value>>>) -> Arc<dyn Transport> {
    let sent = sent.clone();
    Arc::new(Scripted::with(move |_, body| {
        sent.lock().unwrap().push(body.clone());
        let bad = body["tools"].to_string().contains("(?!");
        Ok(if bad { refusal("Failed to initialize samplers: failed to parse grammar") } else { yes() })
    }))
}

struct Desk {
    folder: tempfile::TempDir,
    profile: Profile,
    sent: Arc<Mutex<Vec<Value>>>,
}

impl Desk {
    fn new() -> Self {
        let profile = Profile::hosted("http://127.0.0.1:1/v1", "m");
        Self { folder: tempfile::tempdir().unwrap(), profile, sent: Arc::default() }
    }

    fn gateway(&self, transport: Option<Arc<dyn Transport>>, caps: Caps) -> Gateway {
        Gateway::new(GatewayParts {
            transport,
            store: ResponseStore::open(&self.folder.path().join("responses.jsonl")).unwrap(),
            cassettes: Vec::new(),
            profile: self.profile.clone(),
            policy: RetryPolicy { max_attempts: 1, base_ms: 1, cap_ms: 1, budget_ms: 10 },
            caps,
            price: None,
        })
        .unwrap()
    }

    /// Asks with each of these lists of tools in a process of its own and returns how many requests were sent for all.
    async fn ask(&self, catalogue: &Catalogue, lists: &[Vec<usize>]) -> usize {
        let before = self.sent.lock().unwrap().len();
        let gateway = self.gateway(Some(strict(&self.sent)), Caps::default());
        for list in lists {
            let _ = gateway.chat(&request(catalogue, &self.profile, list.iter().copied()), 100, 0).await;
        }
        self.sent.lock().unwrap().len() - before
    }

    fn found(&self, catalogue: &Catalogue) -> Option<RefusedSchemas> {
        let store = ResponseStore::read(&self.folder.path().join("responses.jsonl")).unwrap();
        refused_schemas(&store, &self.profile, catalogue).unwrap()
    }
}

fn names(found: &RefusedSchemas) -> Vec<&str> {
    found.refused.iter().map(|tool| tool.tool.as_str()).collect()
}

#[tokio::test]
async fn the_one_bad_schema_among_many_is_found_and_named() {
    let desk = Desk::new();
    let catalogue = catalogue(150, &[97]);
    let gateway = desk.gateway(Some(strict(&desk.sent)), Caps::default());
    let asked = gateway.chat(&request(&catalogue, &desk.profile, 0..150), 100, 0).await;
    // What becomes of the request itself is what the endpoint said of it.
    assert!(matches!(&asked, Err(AskError::Endpoint(failure)) if failure.error.may_be_one_schema()), "{asked:?}");
    drop(gateway);
    let found = desk.found(&catalogue).unwrap();
    assert_eq!(names(&found), ["desk/desk_097"]);
    assert!(!found.unexplained);
    assert!(found.refused[0].words.contains("failed to parse grammar"));
    assert_eq!(found.refused[0].advice, ["drop_patterns = \"lookaround\""]);
    let sent = desk.sent.lock().unwrap().clone();
    let (first, probes) = sent.split_first().unwrap();
    assert_eq!(probes.len(), found.probes);
    assert!(found.probes <= 2 * 8 + 2, "{}", found.probes);
    for probe in probes {
        assert_eq!((&probe["max_tokens"], &probe["model"]), (&json!(1), &first["model"]));
        assert!(!probe["messages"].to_string().contains("thing 3"), "a probe says nothing of the episode");
    }
}

#[tokio::test]
async fn several_culprits_are_found_and_one_search_serves_the_run() {
    let desk = Desk::new();
    let catalogue = catalogue(60, &[3, 4, 41]);
    let everything: Vec<usize> = (0..60).collect();
    let turned: Vec<usize> = (0..60).rev().collect();
    let sent = desk.ask(&catalogue, &[everything, turned, vec![1, 2, 3], vec![41, 7]]).await;
    let found = desk.found(&catalogue).unwrap();
    assert_eq!(names(&found), ["desk/desk_003", "desk/desk_004", "desk/desk_041"]);
    assert_eq!(sent, 4 + found.probes, "the other lists are explained by what the first one taught");
    // A process that goes on with the run asks nothing again.
    let again = desk.ask(&catalogue, &[(0..60).collect()]).await;
    assert_eq!(again, 0);
    assert_eq!(desk.ask(&catalogue, &[(0..50).collect()]).await, 1, "it knows what an earlier process learned");
    assert_eq!(desk.found(&catalogue).unwrap(), found);
}

#[tokio::test]
async fn rules_keep_the_endpoint_content() {
    let mut desk = Desk::new();
    let catalogue = catalogue(20, &[5]);
    desk.profile.schema = serde_json::from_value::<SchemaRules>(json!({"preset": "plain_object"})).unwrap();
    assert_eq!(desk.ask(&catalogue, &[(0..20).collect()]).await, 1);
    assert_eq!(desk.found(&catalogue), None);
    let sent = desk.sent.lock().unwrap()[0]["tools"][5]["function"]["parameters"].clone();
    assert_eq!(sent, json!({"type": "object", "properties": {"name": {"type": "string"}}}));
    assert!(catalogue.tools[5].input_schema.to_string().contains("(?!"), "the catalogue keeps the real one");
}

#[tokio::test]
async fn what_is_refused_only_together_is_said_to_be() {
    let desk = Desk::new();
    let catalogue = catalogue(40, &[]);
    let transport = Arc::new(Scripted::with(|_, body| {
        let many = body["tools"].as_array().is_some_and(|tools| tools.len() > 30);
        Ok(if many { refusal("failed to parse grammar") } else { yes() })
    }));
    let gateway = desk.gateway(Some(transport), Caps::default());
    let _ = gateway.chat(&request(&catalogue, &desk.profile, 0..40), 100, 0).await;
    let found = desk.found(&catalogue).unwrap();
    assert!(found.refused.is_empty() && found.unexplained, "{found:?}");
    assert!(found.probes <= 8, "{}", found.probes);
}

#[tokio::test]
async fn searches_are_bounded_and_can_be_switched_off() {
    let catalogue = catalogue(150, &[97]);
    for (most, expected) in [(0, 0), (3, 3)] {
        let mut desk = Desk::new();
        desk.profile.max_schema_probes = most;
        assert_eq!(desk.ask(&catalogue, &[(0..150).collect()]).await, 1 + expected);
        let found = desk.found(&catalogue).unwrap();
        assert_eq!((found.refused.len(), found.unexplained, found.probes), (0, true, expected));
    }
    // The caps of the run hold for them like for any other request.
    let desk = Desk::new();
    let caps = Caps { max_tokens: Some(60), ..Caps::default() };
    let gateway = desk.gateway(Some(strict(&desk.sent)), caps);
    let _ = gateway.chat(&request(&catalogue, &desk.profile, 0..150), 100, 0).await;
    assert!(gateway.spent().tokens <= 60 + 51, "{:?}", gateway.spent());
}

#[tokio::test]
async fn refusals_of_other_kinds_start_no_search() {
    let desk = Desk::new();
    let catalogue = catalogue(20, &[]);
    for message in
        ["maximum number of tools is 10", "This model's maximum context length is 4096 tokens", "no such thing"]
    {
        let sent = Arc::new(Mutex::new(0));
        let count = sent.clone();
        let transport = Scripted::with(move |_, _| {
            *count.lock().unwrap() += 1;
            Ok(refusal(message))
        });
        let gateway = desk.gateway(Some(Arc::new(transport)), Caps::default());
        let mut request = request(&catalogue, &desk.profile, 0..20);
        request.messages = vec![Message::user(message)];
        assert!(gateway.chat(&request, 100, 0).await.is_err());
        assert_eq!(*sent.lock().unwrap(), 1, "{message}");
    }
    assert_eq!(desk.found(&catalogue), None);
}

#[tokio::test]
async fn a_recording_without_probes_still_plays() {
    let desk = Desk::new();
    let catalogue = catalogue(20, &[5]);
    let mut recorded = Desk::new();
    recorded.profile.max_schema_probes = 0;
    recorded.ask(&catalogue, &[(0..20).collect()]).await;
    let gateway = Gateway::new(GatewayParts {
        transport: None,
        store: ResponseStore::open(&desk.folder.path().join("responses.jsonl")).unwrap(),
        cassettes: vec![ResponseStore::read(&recorded.folder.path().join("responses.jsonl")).unwrap()],
        profile: desk.profile.clone(),
        policy: RetryPolicy::default(),
        caps: Caps::default(),
        price: None,
    })
    .unwrap();
    let asked = gateway.chat(&request(&catalogue, &desk.profile, 0..20), 100, 0).await;
    assert!(matches!(asked, Err(AskError::Endpoint(_))), "{asked:?}");
}

#[tokio::test]
async fn tools_of_one_name_are_told_apart_by_their_server() {
    let desk = Desk::new();
    let tool = |server: &str| Tool {
        id: ToolId::new(server, "find"),
        description: "finds".to_owned(),
        input_schema: json!({"type": "object", "properties": {"q": {"type": "string", "pattern": LOOKAROUND}}}),
        annotations: Annotations::default(),
        core: false,
        tags: Vec::new(),
    };
    let catalogue = Catalogue::new(Vec::new(), vec![tool("a"), tool("b")], Vec::new()).unwrap();
    let gateway = desk.gateway(Some(strict(&desk.sent)), Caps::default());
    let mut request = request(&catalogue, &desk.profile, 0..2);
    for (definition, server) in request.tools.iter_mut().zip(["a", "b"]) {
        *definition = Arc::new(ToolDef { name: format!("{server}__find"), ..ToolDef::clone(definition) });
    }
    let _ = gateway.chat(&request, 100, 0).await;
    let found = desk.found(&catalogue).unwrap();
    assert_eq!(names(&found).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["a/find", "b/find"]));
}
