//! `run --json`: what happens during a run, one JSON object a line on standard output. EVENTS.md describes each.

use harness::episode::{Episode, Span};
use harness::gateway::Spent;
use harness::ids::{JobKey, QueryId};
use harness::metric::score::Score;
use harness::run::manifest::{Finish, Manifest};
use harness::schedule::Notice;
use harness::text::harmless_json;
use harness::usage::UsageSource;
use serde::Serialize;

use crate::exit::Exit;
use crate::print::print_out;
use crate::progress::words_of;
use crate::setup::Planned;

/// Version of the events. A new field or event does not raise it.
const VERSION: u32 = 1;

/// Nothing here depends on the time of day, so that equal runs tell the same.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'e> {
    Planned {
        version: u32,
        name: &'e str,
        dataset: &'e str,
        revision: &'e str,
        split: &'e str,
        queries: usize,
        sizes: Vec<u32>,
        strategies: Vec<&'e str>,
        episodes: usize,
        estimate: EstimatedUse,
    },
    Started {
        version: u32,
        run: String,
        resumed: bool,
        /// To be run by this process, and finished by earlier ones.
        episodes: usize,
        done: usize,
    },
    Episode {
        done: usize,
        of: usize,
        job: &'e JobKey,
        strategy: &'e str,
        query: &'e QueryId,
        size: u32,
        order: u32,
        repeat: u32,
        outcome: String,
        success: Option<bool>,
        outer_turns: usize,
        inner_turns: usize,
        input_tokens: u64,
        output_tokens: u64,
        token_source: UsageSource,
        spent: Used,
    },
    Paused {
        seconds: f64,
        reason: &'e str,
    },
    Resumed {
        seconds: f64,
    },
    Concurrency {
        limit: usize,
    },
    Warning {
        message: String,
    },
    Report {
        path: String,
    },
    Finished {
        how: &'e str,
        reason: Option<&'e str>,
        exit: u8,
        planned: usize,
        episodes: usize,
        failed: usize,
        not_runnable: usize,
        ok: usize,
        wrong: usize,
        spent: Option<Used>,
    },
    /// An error ended the command before its run did.
    Failed {
        exit: u8,
        reason: String,
    },
}

/// What the plan may take.
#[derive(Debug, Serialize)]
pub struct EstimatedUse {
    requests: u64,
    tokens: u64,
    /// The tokens are a bound: how much a strategy will show is not known.
    at_most: bool,
}

/// What the answers in the run's store took.
#[derive(Debug, Serialize)]
pub struct Used {
    requests: u64,
    tokens: u64,
    /// US dollars; null if the price is unknown.
    cost: Option<f64>,
}

impl From<Spent> for Used {
    fn from(spent: Spent) -> Self {
        let Spent { requests, tokens, cost } = spent;
        Self { requests, tokens, cost }
    }
}

impl<'e> Event<'e> {
    pub fn planned(planned: &'e Planned) -> Self {
        let Manifest { name, dataset, selection, strategies, views, jobs, .. } = &planned.manifest;
        let estimates = || planned.outlooks.iter().filter(|row| !row.never_runs()).map(|row| &row.estimate);
        Self::Planned {
            version: VERSION,
            name,
            dataset: &dataset.name,
            revision: &dataset.revision,
            split: &selection.split,
            queries: selection.queries,
            sizes: views.iter().map(|view| view.size).collect(),
            strategies: strategies.iter().map(|info| info.label.as_str()).collect(),
            episodes: *jobs,
            estimate: EstimatedUse {
                requests: estimates().map(|row| row.requests).sum(),
                tokens: estimates().map(|row| row.input_tokens + row.output_tokens).sum(),
                at_most: planned.outlooks.iter().any(|row| row.at_most),
            },
        }
    }

    pub fn started(run: String, resumed: bool, episodes: usize, done: usize) -> Self {
        Self::Started { version: VERSION, run, resumed, episodes, done }
    }

    pub fn episode(episode: &'e Episode, score: &Score, (done, of): (usize, usize), spent: Spent) -> Self {
        let (usage, token_source) = episode.usage();
        Self::Episode {
            done,
            of,
            job: &episode.job,
            strategy: &episode.strategy,
            query: &episode.query,
            size: episode.size,
            order: episode.order,
            repeat: episode.repeat,
            outcome: episode.outcome.label(),
            success: score.success,
            outer_turns: episode.turns_in(Span::Outer),
            inner_turns: episode.turns_in(Span::Inner),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            token_source,
            spent: spent.into(),
        }
    }

    /// What the way to the endpoint tells, unless the end of the run says it again.
    pub fn notice(notice: &'e Notice) -> Option<Self> {
        Some(match notice {
            Notice::Paused { pause, error } => Self::Paused { seconds: pause.as_secs_f64(), reason: error },
            Notice::Resumed { down } => Self::Resumed { seconds: down.as_secs_f64() },
            Notice::InFlight { limit } => Self::Concurrency { limit: *limit },
            Notice::NoRepetitions { .. } => Self::Warning { message: words_of(notice)? },
            Notice::Halted(_) => return None,
        })
    }

    /// What a finished run has to tell that its table would say in a note.
    pub fn warnings(finish: &Finish) -> Vec<Self> {
        let lessons =
            finish.lessons.iter().map(|lesson| format!("the endpoint refused a parameter: {}", lesson.as_str()));
        let refused = finish.schemas.iter().flat_map(|schemas| &schemas.refused);
        let schemas = refused.map(|schema| format!("the endpoint refuses the schema of {}", schema.tool));
        lessons.chain(schemas).map(|message| Self::Warning { message }).collect()
    }
}

/// Tells events, if anybody asked for them.
#[derive(Clone, Copy, Debug)]
pub struct Events {
    pub on: bool,
}

impl Events {
    pub fn tell(self, event: &Event<'_>) -> anyhow::Result<()> {
        if self.on { print_out(&line(event)?) } else { Ok(()) }
    }

    /// The last line of a command that an error ended.
    pub fn failed(self, exit: Exit, reason: String) -> anyhow::Result<()> {
        self.tell(&Event::Failed { exit: exit as u8, reason })
    }
}

/// Ids are told as they are, for whoever joins on them; what would steer a terminal is escaped as JSON escapes it.
fn line(event: &Event<'_>) -> anyhow::Result<String> {
    Ok(harmless_json(&serde_json::to_string(event)?) + "\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn told(event: &Event<'_>) -> Value {
        let line = line(event).unwrap();
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn notices_are_events_of_their_own() {
        let paused = Notice::Paused { pause: Duration::from_millis(1_500), error: "server (status 500): x".to_owned() };
        let resumed = Notice::Resumed { down: Duration::from_secs(90) };
        let events: Vec<Value> =
            [paused, resumed, Notice::InFlight { limit: 7 }, Notice::NoRepetitions { repetitions: 100 }]
                .iter()
                .map(|notice| told(&Event::notice(notice).unwrap()))
                .collect();
        let message = "too much fails: after 100 repetitions failed attempts are not repeated any more";
        let expected = [
            json!({"event": "paused", "seconds": 1.5, "reason": "server (status 500): x"}),
            json!({"event": "resumed", "seconds": 90.0}),
            json!({"event": "concurrency", "limit": 7}),
            json!({"event": "warning", "message": message}),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn hostile_words_keep_their_value_and_lose_their_effect() {
        let hostile = "a\u{1b}[31m\n\u{202e}\u{85}b";
        let event = Event::Failed { exit: 2, reason: hostile.to_owned() };
        let text = line(&event).unwrap();
        assert!(text.trim_end().chars().all(|char| char.is_ascii_graphic() || char == ' '), "{text}");
        assert_eq!(told(&event), json!({"event": "failed", "exit": 2, "reason": hostile}));
    }
}
