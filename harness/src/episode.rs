//! The record of one episode: strategy × query × size × repeat. Label-free; `metric` judges it later.
//!
//! Everything but the `timing` objects is a pure function of the plan and the stored responses.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActorId, Digest, JobKey, QueryId, ToolId};
use crate::usage::{Usage, UsageSource};

/// Version of this record in `episodes.jsonl`.
pub const SCHEMA: u32 = 1;

/// Ranked lists are recorded to this depth; no measure looks deeper.
pub const RANKED_DEPTH: usize = 20;

/// A tool and the score that ranked it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoredTool {
    pub tool: ToolId,
    pub score: f64,
}

/// Sorts by score descending, then `(server, name)` ascending: the tie rule of our own retrievers.
pub fn rank(scored: &mut [ScoredTool]) {
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.tool.cmp(&b.tool)));
}

/// How an episode ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    /// Nothing came of the generation: the server refused what the model wrote.
    NoSelection,
    /// The request would not fit or is not accepted; decided before sending where the profile knows.
    NotRunnable {
        why: NotRunnable,
        detail: String,
    },
    /// The generation was cut at the output limit.
    Truncated,
    /// The endpoint's content filter stepped in.
    Filtered,
    Limit {
        which: LimitKind,
    },
    /// The infrastructure failed; never the model's fault.
    Failed {
        error: String,
        message: String,
    },
}

impl Outcome {
    /// The short name shown in tables.
    pub fn label(&self) -> String {
        match self {
            Self::Completed => "completed".to_owned(),
            Self::NoSelection => "no_selection".to_owned(),
            Self::NotRunnable { why, .. } => format!("not_runnable({})", why.as_str()),
            Self::Truncated => "truncated".to_owned(),
            Self::Filtered => "filtered".to_owned(),
            Self::Limit { which } => format!("limit({})", which.as_str()),
            Self::Failed { error, .. } => format!("failed({error})"),
        }
    }

    pub fn is_infra_failure(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    pub fn is_not_runnable(&self) -> bool {
        matches!(self, Self::NotRunnable { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotRunnable {
    ToolLimit,
    Context,
    Schema,
    Unsupported,
}

impl NotRunnable {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolLimit => "tool_limit",
            Self::Context => "context",
            Self::Schema => "schema",
            Self::Unsupported => "unsupported",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    Turns,
    Tokens,
    Cost,
    Time,
}

impl LimitKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
        }
    }
}

/// The message list a generation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// The agent's conversation.
    Outer,
    /// A strategy's own helper conversation.
    Inner,
}

/// How much of a tool the model could see, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The exact callable name.
    Named,
    /// The name with a text.
    Described,
    /// The full schema. This is what *exposed* means.
    Defined,
}

/// A tool became visible in the outer conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exposure {
    pub tool: ToolId,
    pub level: Level,
    /// The outer turn whose prompt first showed it, from 0.
    pub turn: u32,
}

/// A retriever was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    pub retriever: String,
    /// The words that were searched for.
    pub text: String,
    /// The model wrote the words; otherwise they are the person's.
    pub by_model: bool,
    /// The first [`RANKED_DEPTH`] results.
    pub ranked: Vec<ScoredTool>,
}

/// What became of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// Granted, arguments fit the schema; answered by a receipt.
    Valid,
    InvalidArguments {
        error: String,
    },
    /// The tool exists in the catalogue and this actor may not call it. The model is told what it would be told of a
    /// tool that does not exist.
    Ungranted,
    /// No tool of the catalogue has this name.
    UnknownName,
    /// A tool of the strategy itself; not a catalogue call.
    Own {
        misuse: Option<String>,
    },
    /// The answer was no choice in the form that the protocol asks for.
    Unreadable,
}

/// One call of a turn, bridges unwrapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The name as the model wrote it.
    pub name: String,
    /// The catalogue tool it stands for, if any.
    pub tool: Option<ToolId>,
    /// Parsed arguments; a JSON string holds what could not be parsed.
    pub arguments: Value,
    pub verdict: Verdict,
    /// The full schema was visible when the call was made. A call without it is a guess.
    pub defined: bool,
}

/// Estimated shares of a prompt. Never added to reported counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    pub definitions_tokens: u64,
    pub results_tokens: u64,
    pub conversation_tokens: u64,
}

impl Split {
    pub fn total(&self) -> u64 {
        self.definitions_tokens + self.results_tokens + self.conversation_tokens
    }
}

/// Times of one generation. Not reproducible, so apart from everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnTiming {
    pub latency_ms: f64,
    pub backoff_ms: f64,
    /// Waiting for its turn: for other requests, rates, and an endpoint that was down.
    #[serde(default)]
    pub queue_ms: f64,
    /// Served from a stored answer: the latency is that of the original call and enters no latency claim.
    pub stored: bool,
}

/// One completed generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub span: Span,
    /// What the generation was for: `agent`, or a strategy's own word (`select skills`).
    pub label: String,
    /// Key of the request in the response store.
    pub key: Digest,
    pub calls: Vec<CallRecord>,
    pub usage: Usage,
    pub source: UsageSource,
    /// Our estimate of the same prompt, whatever the source of `usage`.
    pub split: Split,
    /// Our estimate of the generated tokens.
    pub estimated_output_tokens: u64,
    /// HTTP requests, failed ones included.
    pub attempts: u32,
    pub finish_reason: Option<String>,
    /// Characters of text in the answer.
    pub text_chars: u32,
    pub timing: TurnTiming,
}

/// Times of an episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    pub total_ms: f64,
    pub endpoint_ms: f64,
    pub retrieval_ms: f64,
    pub backoff_ms: f64,
    #[serde(default)]
    pub queue_ms: f64,
}

/// One episode, one line of `episodes.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    pub schema: u32,
    pub job: JobKey,
    /// The label of the strategy in this run.
    pub strategy: String,
    pub query: QueryId,
    pub actor: ActorId,
    /// Tools asked for by the plan; `view_tools` says how many the actor saw.
    pub size: u32,
    pub view_tools: u32,
    pub view_skills: u32,
    pub view: Digest,
    /// Which of the plan's tool orders was used.
    pub order: u32,
    pub repeat: u32,
    pub outcome: Outcome,
    /// The strategy's first ranked list, to [`RANKED_DEPTH`]; `None` if it selects without ranks.
    pub ranked: Option<Vec<ScoredTool>>,
    /// Skills chosen, by strategies that choose skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    pub searches: Vec<SearchRecord>,
    pub exposed: Vec<Exposure>,
    pub turns: Vec<Turn>,
    /// Attempts of a generation that was given up.
    pub failed_attempts: u32,
    /// Anything of a tool outside the view that reached the model. Must be 0.
    pub leaks: u32,
    pub timing: Timing,
}

impl Episode {
    /// Tokens of all turns, from the one source that covers them all: reported if every turn reported, else estimated.
    pub fn usage(&self) -> (Usage, UsageSource) {
        if self.turns.iter().all(|turn| turn.source == UsageSource::Reported) {
            return (self.turns.iter().map(|turn| turn.usage).sum(), UsageSource::Reported);
        }
        let estimate = |turn: &Turn| Usage {
            input_tokens: turn.split.total(),
            output_tokens: turn.estimated_output_tokens,
            ..Usage::default()
        };
        (self.turns.iter().map(estimate).sum(), UsageSource::Estimated)
    }

    pub fn turns_in(&self, span: Span) -> usize {
        self.turns.iter().filter(|turn| turn.span == span).count()
    }

    #[must_use]
    /// The record without its times: equal for an interrupted and an uninterrupted run.
    pub fn without_times(mut self) -> Self {
        self.timing = Timing::default();
        for turn in &mut self.turns {
            turn.timing = TurnTiming::default();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_by_server_and_name() {
        let scored = |name: &str, score| ScoredTool { tool: name.parse().unwrap(), score };
        let mut list = vec![scored("b/a", 1.0), scored("a/b", 1.0), scored("z/z", 2.0), scored("a/a", 1.0)];
        rank(&mut list);
        let order: Vec<_> = list.iter().map(|entry| entry.tool.to_string()).collect();
        assert_eq!(order, ["z/z", "a/a", "a/b", "b/a"]);
    }

    #[test]
    fn outcomes_have_the_words_of_the_tables() {
        let context = Outcome::NotRunnable { why: NotRunnable::Context, detail: String::new() };
        assert_eq!(context.label(), "not_runnable(context)");
        assert_eq!(Outcome::Limit { which: LimitKind::Turns }.label(), "limit(turns)");
    }
}
