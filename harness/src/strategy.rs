//! The contract of a strategy: `prepare` once per view, `select` per query. Labels are not reachable from here.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::View;
use crate::chat::ToolDef;
use crate::context::EpisodeCx;
use crate::episode::ScoredTool;
use crate::gateway::AskError;
use crate::ids::ToolId;

/// What a strategy is. No version, no measurement: `version` rises with every change of behaviour or prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrategyMeta {
    pub kind: String,
    pub version: u32,
    /// The parameters, defaults filled in.
    pub params: Value,
    /// A model takes part; otherwise the episode is its ranked list.
    pub drives_model: bool,
    /// Its selection is a ranked list; without one it scores as an empty list.
    pub ranks: bool,
    /// Names of its own tools; no catalogue tool may go by them.
    pub own_tools: Vec<String>,
    /// Generations before the agent's own conversation starts.
    pub inner_turns: u32,
    /// Tools the model is shown beside the core tools at most; `None` = all of the view. For the planner.
    pub shown_tools: Option<usize>,
}

/// A strategy could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum StrategyError {
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The strategy broke its contract; a bug in it.
    #[error("{0}")]
    Contract(String),
    /// Something it needs is not there, and how to get it.
    #[error("{0}")]
    Unavailable(String),
}

/// A way of putting the right few tools in front of a model.
pub trait Strategy: Send + Sync {
    fn meta(&self) -> StrategyMeta;

    /// Builds whatever depends on the view alone.
    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>>;
}

/// A strategy ready for the queries of one view.
pub trait Prepared: Send + Sync {
    /// Chooses for one query: `text` is all that is known of it.
    fn select<'a>(
        &'a self,
        text: &'a str,
        cx: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<Selection, StrategyError>>;
}

/// The choice for one query.
#[derive(Default)]
pub struct Selection {
    /// The retrieval view: best first. `None` = selected without ranks.
    pub ranked: Option<Vec<ScoredTool>>,
    /// Skills chosen, if the strategy chooses skills.
    pub skills: Vec<String>,
    /// What the agent's conversation starts with. `None` = the episode ends here, no model is asked.
    pub offer: Option<Offer>,
    /// Answers calls of the strategy's own tools.
    pub responder: Option<Box<dyn Responder>>,
}

/// What the model is shown beside the core tools, which the loop always puts first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// Fully defined catalogue tools, in prompt order.
    pub tools: Vec<ToolId>,
    /// Tools of the strategy itself.
    pub own: Vec<ToolDef>,
    /// Words appended to the base system prompt.
    pub guidance: Option<String>,
}

/// Answers the model's calls of the strategy's own tools during the agent's conversation.
pub trait Responder: Send {
    fn respond<'a>(
        &'a mut self,
        name: &'a str,
        arguments: &'a Value,
        cx: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<OwnAnswer, StrategyError>>;
}

/// The answer to a call of a strategy's own tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnAnswer {
    /// What the model reads.
    pub text: String,
    /// Catalogue tools whose definitions join the next prompt.
    pub define: Vec<ToolId>,
    /// The call was no proper use of the tool, and why.
    pub misuse: Option<String>,
}

/// Ranks the tools of a view for a text. Ties go by `(server, name)`; a tool with no positive score is left out.
pub trait Retriever: Send + Sync {
    fn name(&self) -> &str;

    /// At most `k` tools, best first.
    fn search<'a>(&'a self, text: &'a str, k: usize) -> BoxFuture<'a, Result<Vec<ScoredTool>, StrategyError>>;
}
