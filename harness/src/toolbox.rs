//! A view as a model meets it: wire names, definitions, and which catalogue names must not show up.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use crate::catalogue::{Actor, Catalogue, Tool, View};
use crate::chat::ToolDef;
use crate::endpoint::{Aliases, Profile};
use crate::ids::ToolId;
use crate::text::{Names, mentions};
use crate::tokens;

/// Wire names and definitions of a view, shared by all its episodes.
#[derive(Debug)]
pub struct Toolbox {
    pub view: Arc<View>,
    aliases: Aliases,
    profile: Profile,
    definitions: HashMap<ToolId, OnceLock<(Arc<ToolDef>, u64)>>,
    hidden_names: Names,
    ungranted_names: BTreeSet<String>,
}

impl Toolbox {
    /// `reserved` are wire names taken by the strategy's own tools.
    pub fn new(catalogue: &Catalogue, actor: &Actor, view: Arc<View>, profile: &Profile, reserved: &[&str]) -> Self {
        let aliases = Aliases::new(view.tools().iter().map(|tool| &tool.id), profile.tool_name_rule, reserved);
        let definitions = view.tools().iter().map(|tool| (tool.id.clone(), OnceLock::new())).collect();
        let hidden_names = hidden_names(catalogue, &view);
        let ungranted = catalogue.tools.iter().filter(|tool| !actor.may_call(tool));
        let ungranted_names = ungranted.map(|tool| tool.name().to_owned()).collect();
        Self { view, aliases, profile: profile.clone(), definitions, hidden_names, ungranted_names }
    }

    /// Some tool of the catalogue has this name and the actor may not call it. A tool that the catalogue's size leaves out is
    /// no such tool: at that size it does not exist.
    pub fn is_ungranted(&self, name: &str) -> bool {
        self.ungranted_names.contains(name)
    }

    /// The name a model uses for the tool.
    pub fn wire_name(&self, tool: &ToolId) -> &str {
        self.aliases.alias(tool)
    }

    /// The tool of a wire name, whether it was shown or not.
    pub fn resolve(&self, wire_name: &str) -> Option<&ToolId> {
        self.aliases.tool(wire_name)
    }

    /// Definition as it is sent and its estimated tokens; `None` outside the view.
    pub fn definition(&self, tool: &ToolId) -> Option<&(Arc<ToolDef>, u64)> {
        let cell = self.definitions.get(tool)?;
        let tool = self.view.get(tool)?;
        Some(cell.get_or_init(|| {
            let definition = definition(tool, self.wire_name(&tool.id), &self.profile);
            let tokens = tokens::count_json(&definition);
            (Arc::new(definition), tokens)
        }))
    }

    /// How many names of tools outside the view occur in words of the strategy and not in the person's own.
    pub fn leaks_in(&self, text: &str, query: &str) -> usize {
        self.hidden_names.found_in(text).into_iter().filter(|name| !mentions(query, name)).count()
    }
}

/// The definition of a tool as an endpoint is sent it. Whoever checks arguments goes by the tool's own schema.
pub fn definition(tool: &Tool, wire_name: &str, profile: &Profile) -> ToolDef {
    ToolDef {
        name: wire_name.to_owned(),
        description: tool.description.clone(),
        parameters: profile.fit(&tool.input_schema).0,
    }
}

/// Names that only tools outside the view have, and that no text of the view mentions. One-word names (`get`, `search`) are
/// ordinary words and prove nothing.
fn hidden_names(catalogue: &Catalogue, view: &View) -> Names {
    if view.len() == catalogue.tools.len() {
        return Names::default();
    }
    let visible: BTreeSet<&str> = view.tools().iter().map(|tool| tool.name()).collect();
    let hidden: BTreeSet<&str> = catalogue
        .tools
        .iter()
        .filter(|tool| !view.contains(&tool.id))
        .map(|tool| tool.name())
        .filter(|name| name.contains('_') && !visible.contains(name))
        .collect();
    let names: Names = hidden.iter().copied().collect();
    let said: BTreeSet<&str> = view.tools().iter().flat_map(|tool| names.found_in(&tool.description)).collect();
    hidden.into_iter().filter(|name| !said.contains(name)).collect()
}
