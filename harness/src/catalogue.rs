//! Tools, servers, skills, actors, and the view of a catalogue that one actor has.
//!
//! A value of these types is valid: ids are unique and references resolve. `datasets` reports what is wrong with a file;
//! here the constructors only guard the invariants.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActorId, Digest, ToolId};
use crate::text::Names;

/// What a server says about the effects of a tool (Model Context Protocol, `ToolAnnotations`). Absent means unsaid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Annotations {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// One callable tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tool {
    pub id: ToolId,
    pub description: String,
    /// JSON Schema of the arguments, keys in the order the server sent them.
    pub input_schema: Value,
    pub annotations: Annotations,
    /// Always visible to the model, never deferred.
    pub core: bool,
    pub tags: Vec<String>,
}

impl Tool {
    pub fn name(&self) -> &str {
        self.id.name()
    }

    pub fn read_only(&self) -> bool {
        self.annotations.read_only_hint == Some(true)
    }
}

/// A namespace that owns tools.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    pub name: String,
    pub title: String,
    pub description: String,
}

/// For whom a skill is visible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    Pinned,
    Role(String),
    Personal(ActorId),
}

/// An on-demand capability that names the tools it needs (Agent Skills: `name`, `description`, `allowed-tools`, body).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skill {
    pub name: String,
    /// At most 1,024 characters: what it does and when to use it.
    pub description: String,
    pub allowed_tools: Vec<ToolId>,
    pub tier: Tier,
    pub body: String,
}

/// A grant pattern: `*`, `server/*` or `server/tool`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    Everything,
    Server(String),
    Tool(ToolId),
}

impl Grant {
    pub fn covers(&self, id: &ToolId) -> bool {
        match self {
            Self::Everything => true,
            Self::Server(server) => server == id.server(),
            Self::Tool(tool) => tool == id,
        }
    }
}

/// A person or bot and what it may call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Actor {
    pub id: ActorId,
    pub roles: Vec<String>,
    pub grants: Vec<Grant>,
    /// Narrows the grants to tools annotated read-only.
    pub read_only: bool,
}

impl Actor {
    /// The actor of the scaling curve: granted everything.
    pub fn all() -> Self {
        Self { id: ActorId::new("all"), roles: Vec::new(), grants: vec![Grant::Everything], read_only: false }
    }

    pub fn may_call(&self, tool: &Tool) -> bool {
        (!self.read_only || tool.read_only()) && self.grants.iter().any(|grant| grant.covers(&tool.id))
    }

    /// The tier is for this actor; whether any of the skill's tools is too, is another matter.
    pub fn sees(&self, skill: &Skill) -> bool {
        match &skill.tier {
            Tier::Pinned => true,
            // `all` stands for the whole deployment, so it sees the skills of every role.
            Tier::Role(role) => self.id.as_str() == "all" || self.roles.contains(role),
            Tier::Personal(owner) => *owner == self.id,
        }
    }
}

/// Two things of a catalogue share one id.
#[derive(Debug, thiserror::Error)]
#[error("{what} {id:?} occurs twice")]
pub struct DuplicateId {
    pub what: &'static str,
    pub id: String,
}

/// Servers, tools and skills, in the order of their files.
#[derive(Debug, Serialize)]
pub struct Catalogue {
    pub servers: Vec<Server>,
    pub tools: Vec<Arc<Tool>>,
    pub skills: Vec<Arc<Skill>>,
    #[serde(skip)]
    by_id: HashMap<ToolId, usize>,
    #[serde(skip)]
    digest: Digest,
}

impl Catalogue {
    pub fn new(servers: Vec<Server>, tools: Vec<Tool>, skills: Vec<Skill>) -> Result<Self, DuplicateId> {
        let mut by_id = HashMap::with_capacity(tools.len());
        for (index, tool) in tools.iter().enumerate() {
            if by_id.insert(tool.id.clone(), index).is_some() {
                return Err(DuplicateId { what: "tool", id: tool.id.to_string() });
            }
        }
        let mut names = BTreeSet::new();
        for skill in &skills {
            if !names.insert(&skill.name) {
                return Err(DuplicateId { what: "skill", id: skill.name.clone() });
            }
        }
        let mut catalogue = Self {
            servers,
            tools: tools.into_iter().map(Arc::new).collect(),
            skills: skills.into_iter().map(Arc::new).collect(),
            by_id,
            digest: Digest::of(b""),
        };
        catalogue.digest = Digest::of_json(&catalogue);
        Ok(catalogue)
    }

    pub fn get(&self, id: &ToolId) -> Option<&Arc<Tool>> {
        self.by_id.get(id).map(|&index| &self.tools[index])
    }

    /// Digest of every word a model could read, in file order.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The same tools, and of the skills only those named.
    #[must_use]
    pub fn with_skills(&self, names: &BTreeSet<String>) -> Self {
        let skills = self.skills.iter().filter(|skill| names.contains(&skill.name)).cloned().collect();
        let Self { servers, tools, by_id, .. } = self;
        let mut catalogue = Self {
            servers: servers.clone(),
            tools: tools.clone(),
            skills,
            by_id: by_id.clone(),
            digest: Digest::of(b""),
        };
        catalogue.digest = Digest::of_json(&catalogue);
        catalogue
    }
}

/// What a run has at one of its sizes: some tools of a catalogue, with the catalogue's skills.
#[derive(Clone, Debug)]
pub struct Subset {
    pub catalogue: Arc<Catalogue>,
    /// In the order of the catalogue.
    pub tools: Vec<ToolId>,
}

impl Subset {
    /// Everything.
    pub fn whole(catalogue: &Arc<Catalogue>) -> Self {
        let tools = catalogue.tools.iter().map(|tool| tool.id.clone()).collect();
        Self { catalogue: catalogue.clone(), tools }
    }

    /// The view of an actor: of these tools, or of a query's own candidates instead.
    pub fn view(&self, actor: &Actor, candidates: Option<&[ToolId]>, order_seed: Option<u64>) -> View {
        View::new(&self.catalogue, actor, candidates.unwrap_or(&self.tools), order_seed)
    }
}

/// A skill as one actor sees it: only the tools that are in the view.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ViewSkill {
    pub name: String,
    pub description: String,
    pub body: String,
    pub pinned: bool,
    pub tools: Vec<ToolId>,
}

/// Catalogue ∩ grants, in the order in which a prompt lists it: the only thing a strategy ever sees.
#[derive(Debug)]
pub struct View {
    pub actor: ActorId,
    tools: Vec<Arc<Tool>>,
    skills: Vec<ViewSkill>,
    by_id: HashMap<ToolId, usize>,
    digest: Digest,
}

impl View {
    /// The tools of `subset` that `actor` may call, in the order of `subset`, shuffled by `order_seed` if there is one.
    /// Core tools keep their places at the front whatever the shuffle: they head every prompt.
    ///
    /// Skills that keep no tool are dropped, and so is every line of a body that names a tool outside the view.
    pub fn new(catalogue: &Catalogue, actor: &Actor, subset: &[ToolId], order_seed: Option<u64>) -> Self {
        let granted = subset.iter().filter_map(|id| catalogue.get(id)).filter(|tool| actor.may_call(tool));
        let (core, mut deferrable): (Vec<_>, Vec<_>) = granted.cloned().partition(|tool| tool.core);
        if let Some(seed) = order_seed {
            deferrable.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        }
        let tools: Vec<_> = core.into_iter().chain(deferrable).collect();
        let by_id: HashMap<_, _> = tools.iter().enumerate().map(|(index, tool)| (tool.id.clone(), index)).collect();
        let hidden: Names = catalogue
            .tools
            .iter()
            .filter(|tool| !by_id.contains_key(&tool.id) && tool.name().contains('_'))
            .map(|tool| tool.name())
            .filter(|name| !tools.iter().any(|tool| tool.name() == *name))
            .collect();
        let skills: Vec<_> = catalogue
            .skills
            .iter()
            .filter(|skill| actor.sees(skill))
            .map(|skill| ViewSkill {
                name: skill.name.clone(),
                description: skill.description.clone(),
                body: without_lines_naming(&skill.body, &hidden),
                pinned: skill.tier == Tier::Pinned,
                tools: skill.allowed_tools.iter().filter(|id| by_id.contains_key(*id)).cloned().collect(),
            })
            .filter(|skill| !skill.tools.is_empty())
            .collect();
        let digest = Digest::of_json(&(&actor.id, &tools, &skills));
        Self { actor: actor.id.clone(), tools, skills, by_id, digest }
    }

    /// All tools, core first.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    pub fn core(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter().filter(|tool| tool.core)
    }

    /// Tools that a strategy may leave out.
    pub fn deferrable(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter().filter(|tool| !tool.core)
    }

    pub fn skills(&self) -> &[ViewSkill] {
        &self.skills
    }

    pub fn get(&self, id: &ToolId) -> Option<&Arc<Tool>> {
        self.by_id.get(id).map(|&index| &self.tools[index])
    }

    pub fn contains(&self, id: &ToolId) -> bool {
        self.by_id.contains_key(id)
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Digest of the actor, the tools in their order, and the skills.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

fn without_lines_naming(body: &str, hidden: &Names) -> String {
    body.split_inclusive('\n').filter(|line| hidden.found_in(line).is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(server: &str, name: &str, read_only: bool, core: bool) -> Tool {
        Tool {
            id: ToolId::new(server, name),
            description: String::new(),
            input_schema: json!({"type": "object"}),
            annotations: Annotations { read_only_hint: Some(read_only), ..Annotations::default() },
            core,
            tags: Vec::new(),
        }
    }

    fn catalogue() -> Catalogue {
        let tools = vec![
            tool("mail", "send", false, false),
            tool("mail", "find", true, false),
            tool("desk", "close", false, false),
            tool("agent", "terminal", true, true),
        ];
        let skill = |name: &str, tier, tools: &[&str]| Skill {
            name: name.to_owned(),
            description: "d".to_owned(),
            allowed_tools: tools.iter().map(|text| text.parse().unwrap()).collect(),
            tier,
            body: String::new(),
        };
        let skills = vec![
            skill("mailing", Tier::Pinned, &["mail/send", "mail/find"]),
            skill("desk-work", Tier::Role("support".to_owned()), &["desk/close"]),
            skill("mine", Tier::Personal(ActorId::new("ana")), &["mail/find"]),
        ];
        Catalogue::new(Vec::new(), tools, skills).unwrap()
    }

    fn subset(catalogue: &Catalogue) -> Vec<ToolId> {
        catalogue.tools.iter().map(|tool| tool.id.clone()).collect()
    }

    #[test]
    fn a_view_holds_only_what_is_granted() {
        let catalogue = catalogue();
        let actor = Actor {
            id: ActorId::new("ana"),
            roles: vec!["support".to_owned()],
            grants: vec![Grant::Server("mail".to_owned()), Grant::Server("agent".to_owned())],
            read_only: true,
        };
        let view = View::new(&catalogue, &actor, &subset(&catalogue), None);
        let names: Vec<_> = view.tools().iter().map(|tool| tool.name()).collect();
        assert_eq!(names, ["terminal", "find"]);
        let skills: Vec<_> = view.skills().iter().map(|skill| (skill.name.as_str(), skill.tools.len())).collect();
        assert_eq!(skills, [("mailing", 1), ("mine", 1)], "desk-work keeps no tool and goes");
    }

    #[test]
    fn bodies_do_not_name_what_is_hidden() {
        let body = "Find it.\n- then call `mail_send`\n- or mail_sender\n";
        assert_eq!(without_lines_naming(body, &Names::from_iter(["mail_send"])), "Find it.\n- or mail_sender\n");
    }

    #[test]
    fn shuffles_are_seeded_and_leave_core_tools_in_front() {
        let catalogue = catalogue();
        let order = |seed| {
            let view = View::new(&catalogue, &Actor::all(), &subset(&catalogue), seed);
            view.tools().iter().map(|tool| tool.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(order(Some(7)), order(Some(7)));
        assert!((0..8).any(|seed| order(Some(seed)) != order(None)));
        assert!((0..8).all(|seed| order(Some(seed))[0] == "terminal"));
    }

    #[test]
    fn a_catalogue_with_fewer_skills_is_another_one() {
        let catalogue = catalogue();
        let kept = BTreeSet::from(["mine".to_owned(), "mailing".to_owned(), "unknown".to_owned()]);
        let fewer = catalogue.with_skills(&kept);
        let names: Vec<_> = fewer.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["mailing", "mine"], "in the order of the file");
        assert_eq!(fewer.tools, catalogue.tools);
        assert_ne!(fewer.digest(), catalogue.digest());
    }

    #[test]
    fn duplicate_tools_are_refused() {
        let twice = vec![tool("mail", "send", false, false), tool("mail", "send", true, false)];
        let error = Catalogue::new(Vec::new(), twice, Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), r#"tool "mail/send" occurs twice"#);
    }
}
