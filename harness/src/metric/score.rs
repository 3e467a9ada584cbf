//! One episode against its labels (METHODOLOGY.md, "End-to-end metrics"). A pure function; `rescore` runs it again.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::rank::Measure;
use crate::catalogue::View;
use crate::dataset::{Kind, Labels, Query, RELEVANCE_COVERS};
use crate::episode::{CallRecord, Episode, Level, Outcome, Span, Verdict};
use crate::episode_loop::Mode;
use crate::ids::{IntentId, JobKey, QueryId, ToolId};
use crate::usage::UsageSource;

/// Why a turn was wasted. A turn has at most one cause: the first that applies, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waste {
    Ungranted,
    HallucinatedName,
    InvalidArguments,
    BridgeMisuse,
    EmptySearch,
    RepeatedSearch,
    RepeatedCall,
    WrongCall,
}

impl Waste {
    pub const ALL: [Self; 8] = [
        Self::Ungranted,
        Self::HallucinatedName,
        Self::InvalidArguments,
        Self::BridgeMisuse,
        Self::EmptySearch,
        Self::RepeatedSearch,
        Self::RepeatedCall,
        Self::WrongCall,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ungranted => "ungranted",
            Self::HallucinatedName => "hallucinated name",
            Self::InvalidArguments => "invalid arguments",
            Self::BridgeMisuse => "bridge misuse",
            Self::EmptySearch => "empty search",
            Self::RepeatedSearch => "repeated search",
            Self::RepeatedCall => "repeated call",
            Self::WrongCall => "wrong call",
        }
    }
}

/// The furthest stage that a group's best tool reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Nowhere,
    Named,
    Retrieved,
    Defined,
    Called,
    Valid,
}

/// What is measured of one episode.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "a row of measurements, not a state")]
pub struct Score {
    pub job: JobKey,
    pub strategy: String,
    pub size: u32,
    pub query: QueryId,
    pub intent: IntentId,
    pub kind: Kind,
    pub language: String,
    pub repeat: u32,
    pub outcome: String,
    pub infra_failure: bool,
    pub not_runnable: bool,
    /// Required groups in this view; 0 = no-tool, also where the view cannot answer.
    pub groups: u32,
    /// The actor's view holds no member of a required group: scored as no-tool.
    pub unanswerable: bool,
    /// Measure name → value. Empty for no-tool queries and for strategies without ranks.
    pub retrieval: BTreeMap<String, f64>,
    /// `None` where no model takes part, and for sequential queries in mode `first_call`.
    pub success: Option<bool>,
    /// All groups covered, whatever else was called.
    pub coverage_success: Option<bool>,
    /// The covering calls also had accepted arguments. `None` without gold arguments.
    pub success_args: Option<bool>,
    pub covered: u32,
    /// A failure that could be a success if the unjudged tools called were judged to do the job or to help.
    pub hinges_on_unjudged: bool,
    /// Valid calls to a tool judged 0 or unjudged.
    pub wrong_calls: u32,
    /// Wrong calls to a tool not marked read-only.
    pub harmful_calls: u32,
    /// A core tool was called where a catalogue tool was right.
    pub substituted_core: bool,
    /// Calls made without the tool's schema in sight.
    pub guesses: u32,
    /// Calls of tools that are the strategy's own, such as a search.
    pub own_calls: u32,
    pub turns_outer: u32,
    pub turns_inner: u32,
    /// Outer turns with other definitions in front than the turn before: whatever a server cached of the prompt is lost to them.
    pub cache_invalidating_turns: u32,
    /// Turns up to the last covering call; `None` if not all groups were covered.
    pub turns_to_covered: Option<u32>,
    pub waste: BTreeMap<Waste, u32>,
    /// Furthest stage of each group.
    pub stages: Vec<Stage>,
    /// Tools whose definition the model could see.
    pub defined_tools: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub token_source: UsageSource,
    /// Our estimate of the input, for the calibration ratio.
    pub estimated_input_tokens: u64,
    pub attempts: u32,
    pub leaks: u32,
    pub truncation_suspected: bool,
    /// Milliseconds of retrieval and of the endpoint; `None` for the endpoint where a stored answer took part.
    pub retrieval_ms: f64,
    pub endpoint_ms: Option<f64>,
}

impl Score {
    pub fn tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }

    pub fn turns(&self) -> u32 {
        self.turns_outer + self.turns_inner
    }

    pub fn wasted_turns(&self) -> u32 {
        self.waste.values().sum()
    }
}

/// What scoring needs to know beside the episode.
#[derive(Clone, Copy)]
pub struct ScoreInput<'a> {
    pub query: &'a Query,
    pub labels: &'a Labels,
    pub view: &'a View,
    pub mode: Mode,
    pub measures: &'a [Measure],
    /// The strategy's answer is a ranked list: a missing one is an empty one.
    pub ranks: bool,
    pub drives_model: bool,
}

/// Scores an episode.
pub fn score(episode: &Episode, input: &ScoreInput<'_>) -> Score {
    let query = input.query;
    let in_view = input.labels.within(|tool| input.view.contains(tool));
    let unanswerable = in_view.is_none();
    let labels = in_view.unwrap_or_default();
    let groups = labels.groups();
    let calls: Vec<&CallRecord> = episode.turns.iter().flat_map(|turn| &turn.calls).collect();
    let judged = Judged::new(&calls, &labels, input.view);
    let covered = groups.iter().filter(|group| judged.covers(group)).count() as u32;
    let scored_end_to_end = input.drives_model && !(query.sequential && input.mode == Mode::FirstCall);
    let completed = episode.outcome == Outcome::Completed;
    let all_covered = covered as usize == groups.len();
    let no_call = calls.iter().all(|call| matches!(call.verdict, Verdict::Own { .. }));
    let coverage = completed && all_covered && (!groups.is_empty() || no_call);
    let success = coverage && judged.wrong.is_empty();
    // Judged differently, the unjudged calls could turn this failure into a success. Where nothing does the job, every tool
    // has been judged.
    let unjudged: BTreeSet<_> = judged.wrong.iter().filter(|tool| labels.relevance(tool).is_none()).collect();
    let only_unjudged = judged.wrong.iter().all(|tool| labels.relevance(tool).is_none());
    let hinges_on_unjudged = completed
        && !success
        && !groups.is_empty()
        && !unjudged.is_empty()
        && only_unjudged
        && groups.len() - covered as usize <= unjudged.len();
    let (usage, token_source) = episode.usage();
    let turns_outer = episode.turns_in(Span::Outer) as u32;
    Score {
        job: episode.job.clone(),
        strategy: episode.strategy.clone(),
        size: episode.size,
        query: query.id.clone(),
        intent: query.intent.clone(),
        kind: query.kind,
        language: query.language.clone(),
        repeat: episode.repeat,
        outcome: episode.outcome.label(),
        infra_failure: episode.outcome.is_infra_failure(),
        not_runnable: episode.outcome.is_not_runnable(),
        groups: groups.len() as u32,
        unanswerable,
        retrieval: if input.ranks { retrieval(episode, &labels, input.measures) } else { BTreeMap::new() },
        success: scored_end_to_end.then_some(success),
        coverage_success: scored_end_to_end.then_some(coverage),
        success_args: (scored_end_to_end && labels.qrels().iter().any(|qrel| qrel.arguments.is_some()))
            .then(|| success && groups.iter().all(|group| judged.accepted(group))),
        covered,
        hinges_on_unjudged,
        wrong_calls: judged.wrong.len() as u32,
        harmful_calls: judged.wrong.iter().filter(|tool| input.view.get(tool).is_some_and(|t| !t.read_only())).count()
            as u32,
        substituted_core: !all_covered && judged.wrong.iter().any(|tool| input.view.get(tool).is_some_and(|t| t.core)),
        guesses: calls.iter().filter(|call| call.tool.is_some() && !call.defined).count() as u32,
        own_calls: calls.iter().filter(|call| matches!(call.verdict, Verdict::Own { .. })).count() as u32,
        turns_outer,
        cache_invalidating_turns: cache_invalidating_turns(episode),
        turns_inner: episode.turns.len() as u32 - turns_outer,
        turns_to_covered: (all_covered && !groups.is_empty()).then(|| turns_to_covered(episode, &groups)).flatten(),
        waste: waste(episode, &labels),
        stages: groups.iter().map(|group| stage(episode, group)).collect(),
        defined_tools: episode.exposed.iter().filter(|exposure| exposure.level == Level::Defined).count() as u32,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        token_source,
        estimated_input_tokens: episode.turns.iter().map(|turn| turn.split.total()).sum(),
        attempts: episode.turns.iter().map(|turn| turn.attempts).sum::<u32>() + episode.failed_attempts,
        leaks: episode.leaks,
        truncation_suspected: truncation_suspected(episode),
        retrieval_ms: episode.timing.retrieval_ms,
        endpoint_ms: (!episode.turns.iter().any(|turn| turn.timing.stored)).then_some(episode.timing.endpoint_ms),
    }
}

fn retrieval(episode: &Episode, labels: &Labels, measures: &[Measure]) -> BTreeMap<String, f64> {
    let ranked: Vec<ToolId> = episode.ranked.iter().flatten().map(|entry| entry.tool.clone()).collect();
    let value = |measure: &Measure| Some((measure.to_string(), measure.score(&ranked, labels)?));
    measures.iter().filter_map(value).collect()
}

/// Valid calls sorted by what the labels say.
struct Judged<'a> {
    covering: Vec<&'a CallRecord>,
    /// Called tools that were judged 0 or not at all.
    wrong: Vec<&'a ToolId>,
    labels: &'a Labels,
}

impl<'a> Judged<'a> {
    fn new(calls: &[&'a CallRecord], labels: &'a Labels, view: &View) -> Self {
        let mut judged = Self { covering: Vec::new(), wrong: Vec::new(), labels };
        for call in calls.iter().filter(|call| call.verdict == Verdict::Valid) {
            let Some(tool) = call.tool.as_ref().filter(|tool| view.contains(tool)) else { continue };
            match labels.relevance(tool) {
                Some(relevance) if relevance >= RELEVANCE_COVERS => judged.covering.push(call),
                Some(1) => {}
                _ => judged.wrong.push(tool),
            }
        }
        judged
    }

    fn covers(&self, group: &BTreeSet<&ToolId>) -> bool {
        self.covering.iter().any(|call| call.tool.as_ref().is_some_and(|tool| group.contains(tool)))
    }

    /// A covering call of the group has arguments that its author accepts, or none were given to compare with.
    fn accepted(&self, group: &BTreeSet<&ToolId>) -> bool {
        self.covering.iter().any(|call| {
            let Some(tool) = call.tool.as_ref().filter(|tool| group.contains(tool)) else { return false };
            self.labels
                .qrels()
                .iter()
                .filter(|qrel| qrel.tool == *tool && qrel.relevance >= RELEVANCE_COVERS)
                .all(|qrel| qrel.arguments.iter().flatten().all(|(name, gold)| accepts(gold, call.arguments.get(name))))
        })
    }
}

/// `""` among the accepted values means that the argument may be left out. Strings compare without case and outer blanks,
/// numbers by value.
fn accepts(gold: &[Value], given: Option<&Value>) -> bool {
    let Some(given) = given else { return gold.iter().any(|value| value == "") };
    gold.iter().any(|value| match (value, given) {
        (Value::String(a), Value::String(b)) => a.trim().to_lowercase() == b.trim().to_lowercase(),
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    })
}

fn turns_to_covered(episode: &Episode, groups: &[BTreeSet<&ToolId>]) -> Option<u32> {
    let covers = |call: &CallRecord, group: &BTreeSet<&ToolId>| {
        call.verdict == Verdict::Valid && call.tool.as_ref().is_some_and(|tool| group.contains(tool))
    };
    groups
        .iter()
        .map(|group| {
            let turn = episode.turns.iter().position(|turn| turn.calls.iter().any(|call| covers(call, group)))?;
            Some(turn as u32 + 1)
        })
        .max()
        .flatten()
}

/// Definitions stand at the head of a prompt, so that one more moves everything behind it.
fn cache_invalidating_turns(episode: &Episode) -> u32 {
    let defined = episode.exposed.iter().filter(|seen| seen.level == Level::Defined && seen.turn > 0);
    defined.map(|seen| seen.turn).collect::<BTreeSet<_>>().len() as u32
}

fn stage(episode: &Episode, group: &BTreeSet<&ToolId>) -> Stage {
    let calls = || {
        let of_group = |call: &&CallRecord| call.tool.as_ref().is_some_and(|tool| group.contains(tool));
        episode.turns.iter().flat_map(|turn| &turn.calls).filter(of_group)
    };
    let shown = |level| episode.exposed.iter().any(|seen| group.contains(&seen.tool) && seen.level >= level);
    let ranked = || {
        let lists = episode.searches.iter().map(|search| &search.ranked).chain(&episode.ranked);
        lists.flatten().any(|entry| group.contains(&entry.tool))
    };
    if calls().any(|call| call.verdict == Verdict::Valid) {
        Stage::Valid
    } else if calls().next().is_some() {
        Stage::Called
    } else if shown(Level::Defined) {
        Stage::Defined
    } else if ranked() {
        Stage::Retrieved
    } else if shown(Level::Named) {
        Stage::Named
    } else {
        Stage::Nowhere
    }
}

fn waste(episode: &Episode, labels: &Labels) -> BTreeMap<Waste, u32> {
    let mut waste = BTreeMap::new();
    let mut called: Vec<(&Option<ToolId>, &Value)> = Vec::new();
    for turn in episode.turns.iter().filter(|turn| turn.span == Span::Outer) {
        let causes = turn.calls.iter().filter_map(|call| {
            let repeated = called.contains(&(&call.tool, &call.arguments));
            match &call.verdict {
                Verdict::Ungranted => Some(Waste::Ungranted),
                Verdict::UnknownName => Some(Waste::HallucinatedName),
                Verdict::InvalidArguments { .. } | Verdict::Unreadable => Some(Waste::InvalidArguments),
                Verdict::Own { misuse: Some(_) } => Some(Waste::BridgeMisuse),
                Verdict::Own { misuse: None } => None,
                Verdict::Valid if repeated => Some(Waste::RepeatedCall),
                Verdict::Valid => {
                    let relevance = call.tool.as_ref().and_then(|tool| labels.relevance(tool)).unwrap_or(0);
                    (relevance == 0).then_some(Waste::WrongCall)
                }
            }
        });
        if let Some(cause) = causes.min() {
            *waste.entry(cause).or_insert(0) += 1;
        }
        let valid = turn.calls.iter().filter(|call| call.verdict == Verdict::Valid);
        called.extend(valid.map(|call| (&call.tool, &call.arguments)));
    }
    waste
}

/// Reported prompt tokens that fall although the prompt grew, or that sit at a round context size while our estimate is well
/// above it (METHODOLOGY.md, "Truncation").
fn truncation_suspected(episode: &Episode) -> bool {
    const ROUND_SIZES: [u64; 8] = [2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144];
    let reported: Vec<_> = episode
        .turns
        .iter()
        .filter(|turn| turn.span == Span::Outer && turn.source == UsageSource::Reported)
        .map(|turn| (turn.split.total(), turn.usage.input_tokens))
        .collect();
    let shrank = reported.windows(2).any(|pair| pair[1].0 > pair[0].0 && pair[1].1 <= pair[0].1);
    let capped = reported
        .iter()
        .any(|&(estimated, reported)| ROUND_SIZES.contains(&reported) && estimated as f64 > reported as f64 * 1.1);
    shrank || capped
}
