//! What a report says, as plain data. Rates, differences and bounds are fractions, not percent.

use std::collections::BTreeMap;

use harness::dataset::Kind;
use harness::metric::score::{Stage, Waste};
use harness::metric::stats::Interval;
use harness::run::manifest::{Axis, SchemaRewrites};
use serde::Serialize;

/// Everything the tables, the plots and `summary.json` show. Texts in it are raw: each renderer escapes for its medium.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the run.
    pub run: String,
    /// Name and value of what a reader needs to judge or repeat the run.
    pub settings: Vec<(&'static str, String)>,
    /// Where, when and from what the run was made.
    pub provenance: Vec<(&'static str, String)>,
    pub strategies: Vec<StrategySettings>,
    /// Label of the strategy that the others are compared with.
    pub reference: Option<String>,
    /// Model, by the name that goes into requests; `None` for a run without one.
    pub model: Option<String>,
    /// Dataset and revision.
    pub dataset: String,
    /// Tokens that one request may use.
    pub context_tokens: Option<u64>,
    /// Estimated input tokens divided by reported ones, over all episodes whose endpoint reported.
    pub estimate_ratio: Option<f64>,
    /// Only where the labels are not those of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescored: Option<Revisions>,
    /// Only where a run under a cap did not begin all of its queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<Subset>,
    /// Ascending by size.
    pub sizes: Vec<SizeSummary>,
    pub warnings: Vec<String>,
    /// Schemas that the endpoint was sent rewritten, each change of each tool; `None` where none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrites: Option<SchemaRewrites>,
    /// Which strategy came out best at the largest size, and whether that is shown.
    pub closing: String,
}

/// Where labels and answers of a rescored run come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revisions {
    pub labels: Revision,
    pub answers: Revision,
}

/// A state of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revision {
    pub revision: String,
    pub digest: String,
}

/// A strategy and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategySettings {
    pub label: String,
    pub kind: String,
    pub version: u32,
    /// JSON, defaults filled in.
    pub params: String,
}

/// How far a run came that was planned under a cap, query by query in random order.
///
/// What was begun is decided by the order of the plan and not by what there is a record of: a query in front of another that was
/// begun was begun as well, however little came of it. Otherwise queries that take long would drop out at the end of every run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subset {
    /// Queries that were begun: a random subset, and all that any figure is about.
    pub begun: u64,
    pub planned: u64,
    /// Begun and not finished; what is missing of them counts as the worst value.
    pub unfinished: Vec<String>,
}

/// One size of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeSummary {
    /// What the size counts; left out for tools.
    #[serde(skip_serializing_if = "Axis::is_tools")]
    pub axis: Axis,
    /// Tools in the catalogue, or skills.
    pub size: u32,
    /// It asks other queries than the size before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other_queries: bool,
    /// Estimated tokens of all tool definitions, where the manifest knows.
    pub definition_tokens: Option<u64>,
    /// Planned queries; of a capped run those that were begun.
    pub queries: u64,
    /// The same by kind: the mix behind every pooled figure.
    pub mix: BTreeMap<Kind, u64>,
    /// In the order of the manifest.
    pub rows: Vec<Row>,
    pub notes: Vec<String>,
}

impl SizeSummary {
    /// The size in words: `1,400 tools`.
    pub fn label(&self) -> String {
        self.axis.count(self.size)
    }
}

/// One strategy at one size, as deployed: what failed, hit a limit, could not run or never ran scores the worst value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub strategy: String,
    pub drives_model: bool,
    pub ranks: bool,
    /// Planned episodes; every rate that is not marked otherwise is out of these.
    pub planned: u64,
    /// Planned episodes without a record.
    pub missing: u64,
    /// Infrastructure failures.
    pub failed: u64,
    /// Ended at a limit.
    pub limited: u64,
    pub not_runnable: u64,
    /// Estimated tokens of the definitions in a prompt, for strategies that show all tools.
    pub prompt_estimate: Option<u64>,
    /// Episodes by outcome, missing ones left out.
    pub outcomes: BTreeMap<String, u64>,
    /// Only for strategies that rank.
    pub retrieval: Option<Retrieval>,
    /// Groups whose tool was defined, out of all groups. Only for strategies that drive a model.
    pub exposed: Option<Share>,
    pub success: Option<Proportion>,
    pub coverage_success: Option<Share>,
    /// Out of the episodes whose query has gold arguments.
    pub success_args: Option<Share>,
    pub comparison: Option<Comparison>,
    pub effort: Option<Effort>,
    pub tokens: Option<Tokens>,
    /// Wasted turns by cause.
    pub waste: BTreeMap<Waste, u64>,
    pub waterfall: Option<Waterfall>,
    /// Success by kind.
    pub success_by_kind: BTreeMap<Kind, Share>,
    /// `recall@5` by kind, over the queries that need a tool.
    pub recall_by_kind: BTreeMap<Kind, Mean>,
    /// Episodes whose view cannot answer; scored as no-tool.
    pub unanswerable: u64,
    /// Calls without the tool's schema in sight.
    pub guesses: u64,
    /// Outer turns that began with other definitions than the turn before.
    pub cache_invalidating_turns: u64,
    /// Answered episodes that need a tool and in which none of the strategy's own tools was called; `None` if it has none.
    pub own_tools_unused: Option<Share>,
    pub leaks: u64,
    pub truncation_suspected: u64,
    /// Episodes decided by a call to an unjudged tool.
    pub hinges_on_unjudged: u64,
}

impl Row {
    /// Mean of a retrieval measure.
    pub fn retrieved(&self, measure: &str) -> Option<f64> {
        self.retrieval.as_ref()?.means.get(measure).copied()
    }

    /// Nothing of it could run.
    pub fn never_ran(&self) -> bool {
        self.planned > 0 && self.not_runnable == self.planned
    }
}

/// `hits` out of `of`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub hits: u64,
    pub of: u64,
}

impl Share {
    /// Counts one more.
    pub(crate) fn add(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.of += 1;
    }

    /// `None` out of nothing.
    pub fn rate(&self) -> Option<f64> {
        (self.of > 0).then(|| self.hits as f64 / self.of as f64)
    }
}

/// A mean over `n` values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    pub mean: f64,
    pub n: u64,
}

/// Retrieval means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Retrieval {
    /// Episodes whose query needs a tool.
    pub n: u64,
    /// Episodes outside the means, because their query needs none.
    pub no_tool: u64,
    /// By name of the measure. Empty if no query needs a tool.
    pub means: BTreeMap<String, f64>,
}

/// A rate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Proportion {
    pub share: Share,
    pub rate: f64,
    /// Wilson's; with repeats a bootstrap over intents.
    pub interval: Interval,
}

/// A strategy against the reference, paired by query and repeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `success`, or `recall@5` where the reference drives no model.
    pub measure: &'static str,
    pub pairs: u64,
    /// Strategy minus reference.
    pub difference: f64,
    /// 95 %, not adjusted for the number of comparisons. Newcombe's method 10; a bootstrap over intents for `recall@5` and
    /// with repeats.
    pub interval: Interval,
    /// Exact `McNemar`; sign flips over intents where the interval is a bootstrap.
    pub p: f64,
    /// Holm-adjusted over the comparisons of this size.
    pub p_adjusted: f64,
    pub verdict: Verdict,
    /// Share of the pairs on which the two differ.
    pub discordance: f64,
    /// What a run of this size could show with 80 % power; `None` = nothing.
    pub smallest_difference: Option<f64>,
    /// Only where one of the two was not runnable for some queries.
    pub both_run: Option<BothRun>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Better,
    Worse,
    NotShown,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotShown => "not shown",
        }
    }
}

/// The queries that both strategies could run: a selected subset, descriptive only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BothRun {
    pub pairs: u64,
    pub of: u64,
    pub rate: f64,
    pub reference_rate: f64,
}

/// Means over the episodes in which the model answered at least once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effort {
    pub episodes: u64,
    pub outer_turns: f64,
    pub inner_turns: f64,
    pub wasted_turns: f64,
}

impl Effort {
    pub fn turns(&self) -> f64 {
        self.outer_turns + self.inner_turns
    }
}

/// Where the token counts of a row come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    Reported,
    Estimated,
    /// Some episodes reported and some did not: no figure is given.
    Mixed,
}

/// Input and output tokens of all turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tokens {
    pub source: TokenSource,
    /// Mean over the episodes in which the model answered at least once.
    pub per_query: Option<f64>,
    /// All tokens divided by all successes; `None` without a success.
    pub per_success: Option<f64>,
}

/// How far the gold tool of each group got, as recorded and whatever the outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waterfall {
    pub groups: u64,
    /// Groups whose furthest stage is at least this one. Without a retriever the first stage is absent.
    pub reached: BTreeMap<Stage, u64>,
}
