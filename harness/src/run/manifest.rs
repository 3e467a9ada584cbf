//! What a run was: everything a reader needs to judge or repeat it, and no secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalogue::Tool;
use crate::endpoint::{Profile, Protocol, Rewrite};
use crate::episode_loop::LoopSettings;
use crate::gateway::Lesson;
use crate::ids::{ActorId, Digest, ToolId};
use crate::strategy::StrategyMeta;
use crate::text::plural;
use crate::usage::Price;

/// Version of the run directory: manifest, plan, episodes, responses.
pub const RUN_VERSION: u32 = 1;

/// `manifest.json` of a run directory. Written when the run is planned; `finish` is replaced when it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    pub name: String,
    /// Version of toolgauge that planned the run.
    pub toolgauge: String,
    pub started: String,
    /// Operating system, architecture and processors of the machine that planned it.
    pub host: String,
    pub dataset: DatasetInfo,
    pub selection: QuerySelection,
    pub endpoint: Option<EndpointInfo>,
    pub settings: LoopSettings,
    /// Digest of the base prompt's text; the settings name its wording.
    pub prompt: Digest,
    pub order: OrderInfo,
    pub repeats: u32,
    pub seed: u64,
    /// Label of the strategy that the others are compared with.
    pub reference: Option<String>,
    pub strategies: Vec<StrategyInfo>,
    #[serde(default)]
    pub axis: Axis,
    /// What fills the sizes beside the tools that queries need.
    #[serde(default)]
    pub distractors: DistractorKind,
    pub views: Vec<ViewInfo>,
    /// What each actor who asks has in view, at the sizes at which that is less than the size; queries with candidates of their
    /// own aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actor_views: Vec<ActorView>,
    /// `None` if no query is asked of candidates of its own, or nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<OwnCandidates>,
    /// Schemas that the endpoint is sent rewritten; `None` where none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrites: Option<SchemaRewrites>,
    /// Tools whose schema expands to more checks than are made, so that arguments are checked without some of its references.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked_in_part: Vec<ToolId>,
    pub jobs: usize,
    /// What the run was planned to stop at. Its jobs then stand query by query in random order, so that whatever is done when it
    /// stops is a random subset of the queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capped: Option<PlannedCaps>,
    /// Speed measured to fit a time budget, by two requests outside the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetInfo {
    pub name: String,
    pub revision: String,
    pub licence: String,
    pub digest: Digest,
    /// As given; relative to where the command ran.
    pub path: String,
    pub tools: usize,
    pub queries: usize,
}

/// Which queries were asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuerySelection {
    /// Split, or `all`.
    pub split: String,
    /// Only the queries that are valid at every size.
    pub scaling_only: bool,
    /// Queries in the plan.
    pub queries: usize,
    /// Queries that the selection would have without sampling.
    pub of: usize,
    /// A stratified random subset, drawn with the run's seed.
    pub sampled: bool,
}

/// What a run was planned to stop at, as given when it was planned; a resumed run may have other caps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedCaps {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_minutes: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointInfo {
    /// `openai` or `scripted`.
    pub kind: String,
    /// `None` for a managed local server, whose port means nothing.
    pub base_url: Option<String>,
    /// The name of the environment variable that holds the key; never the key. `None` where it came from a file, whose name is
    /// nobody else's business.
    pub api_key_env: Option<String>,
    pub profile: Profile,
    /// Longest wait for one answer, in seconds.
    pub timeout_s: u64,
    /// US dollars per million tokens; `None` = unknown, never 0.
    pub price: Option<Price>,
    pub price_date: Option<String>,
}

/// Order of tools in a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderInfo {
    pub kind: OrderKind,
    /// Seeded permutations per view.
    pub orders: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// A few permutations per view; each query is assigned to one and queries of one permutation run together.
    Blocked,
    /// The order of the catalogue.
    Fixed,
}

/// What the sizes of a run count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Tools in the catalogue.
    #[default]
    Tools,
    /// Skills, at one catalogue of that many `tools`.
    Skills { tools: u32 },
}

impl Axis {
    pub fn is_tools(&self) -> bool {
        *self == Self::Tools
    }

    /// Tools in the catalogue at a size.
    pub fn tools(self, size: u32) -> u32 {
        match self {
            Self::Tools => size,
            Self::Skills { tools } => tools,
        }
    }

    /// A size in words: `1,400 tools`.
    pub fn count(self, size: u32) -> String {
        match self {
            Self::Tools => plural(u64::from(size), "tool", "tools"),
            Self::Skills { .. } => plural(u64::from(size), "skill", "skills"),
        }
    }

    /// What is counted, in the plural.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Skills { .. } => "skills",
        }
    }
}

/// How the distractors of a catalogue size are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DistractorKind {
    /// Uniformly.
    #[default]
    Random,
    /// The nearest first to the tools that scaling queries need.
    Confusable,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrategyInfo {
    /// The name of the row in this run.
    pub label: String,
    pub meta: StrategyMeta,
}

/// One size of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewInfo {
    /// Tools in the catalogue, or skills, as the run's axis says.
    pub size: u32,
    /// Estimated tokens of all their definitions.
    pub definition_tokens: u64,
    pub skills: u32,
    pub digest: Digest,
}

/// What an actor may call at a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActorView {
    pub size: u32,
    pub actor: ActorId,
    pub tools: usize,
    pub skills: usize,
    /// Planned queries of the actor.
    pub queries: usize,
}

/// Queries that are asked of candidates of their own, and not of all tools of a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnCandidates {
    pub queries: usize,
    /// Candidates of such a query, on average and at most.
    pub mean: f64,
    pub most: usize,
}

/// What the rules of a profile change in the schemas of the tools of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchemaRewrites {
    /// Tools that the run may show.
    pub of: usize,
    /// Those of them that are changed, by id.
    pub tools: Vec<ToolRewrites>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRewrites {
    pub tool: ToolId,
    pub rewrites: Vec<Rewrite>,
}

impl SchemaRewrites {
    /// Of these tools, where the endpoint wants any schema rewritten.
    pub fn new<'t>(profile: &Profile, tools: impl IntoIterator<Item = &'t Tool>) -> Option<Self> {
        if profile.schema.is_off() || profile.protocol != Protocol::Native {
            return None;
        }
        let tools: BTreeMap<&ToolId, &Tool> = tools.into_iter().map(|tool| (&tool.id, tool)).collect();
        let of = tools.len();
        let rewritten = tools
            .into_values()
            .map(|tool| ToolRewrites { tool: tool.id.clone(), rewrites: profile.fit(&tool.input_schema).1 });
        Some(Self { of, tools: rewritten.filter(|tool| !tool.rewrites.is_empty()).collect() })
    }
}

/// What a run learned of schemas that its endpoint refuses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedSchemas {
    /// Tools that are refused whatever they are sent with.
    pub refused: Vec<RefusedSchema>,
    /// Some request was refused for a schema, and none of its tools was found to be refused by itself.
    pub unexplained: bool,
    /// Requests that went into finding out.
    pub probes: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedSchema {
    /// `server/name`; the plain name of a strategy's own tool.
    pub tool: String,
    /// The endpoint's words.
    pub words: String,
    /// Lines of the profile's `[schema]` table that would change the schema.
    pub advice: Vec<String>,
}

/// Speed of an endpoint, in tokens per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub prompt_tokens_per_s: f64,
    pub output_tokens_per_s: f64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    pub at: String,
    /// `complete`, `complete with failures`, `capped`, `interrupted` or `failed`.
    pub how: String,
    pub episodes: usize,
    /// The model that answered, by the server's own word.
    pub served_models: Vec<String>,
    /// Requests whose process died before the answer came: possibly billed.
    pub possibly_billed: usize,
    pub failed_attempts: usize,
    /// Tokens of answers that could not be used, by their own word.
    #[serde(default, skip_serializing_if = "no_tokens")]
    pub wasted_tokens: u64,
    /// The most requests that were in flight at once; 0 = none was, or nobody counted. Answers may depend on it.
    #[serde(default)]
    pub most_in_flight: usize,
    /// `None` if no schema was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schemas: Option<RefusedSchemas>,
    /// Parameters that the endpoint refused, and what was sent instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lessons: Vec<Lesson>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn no_tokens(tokens: &u64) -> bool {
    *tokens == 0
}
