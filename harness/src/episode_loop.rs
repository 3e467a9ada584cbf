//! The one loop that every strategy runs in (METHODOLOGY.md, "The episode loop").
//!
//! A call is answered by a receipt that does not depend on the labels; the episode ends at the first generation without a
//! call, or at a limit; never because the right tool was called.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::Validators;
use crate::chat::ToolDef;
use crate::clock::Stopwatch;
use crate::context::EpisodeCx;
use crate::conversation::{Conversation, RawCall, Said, Sampling};
use crate::dataset::Query;
use crate::endpoint::{EndpointError, ErrorKind};
use crate::episode::{
    CallRecord, Episode, Level, LimitKind, NotRunnable, Outcome, RANKED_DEPTH, SCHEMA, Span, Split, Verdict,
};
use crate::gateway::{AskError, Gateway};
use crate::ids::{JobKey, ToolId};
use crate::strategy::{Offer, OwnAnswer, Prepared, Responder, Selection, StrategyError};
use crate::tokens;
use crate::toolbox::Toolbox;

/// The receipt of a valid call whose author wrote no result.
pub const RECEIPT: &str = r#"{"status":"ok"}"#;

/// When an episode ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// At the first generation without a call.
    Loop,
    /// After the first generation that calls a catalogue tool. Never mixed with `loop`.
    #[serde(alias = "first-call")]
    FirstCall,
}

/// The base system prompt. Three wordings, so that a report can set their spread beside the strategies'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wording {
    Plain,
    Terse,
    Careful,
}

impl Wording {
    pub fn text(self) -> &'static str {
        match self {
            Self::Plain => include_str!("prompts/base-plain.txt"),
            Self::Terse => include_str!("prompts/base-terse.txt"),
            Self::Careful => include_str!("prompts/base-careful.txt"),
        }
        .trim_end()
    }
}

/// The settings of the loop, the same for every strategy of a run and all in the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopSettings {
    pub mode: Mode,
    pub wording: Wording,
    /// Outer generations at most.
    pub max_turns: u32,
    /// Tokens of all turns at most, as reported or else estimated.
    pub max_episode_tokens: Option<u64>,
    /// Minutes of all answers at most, as they took when they were given. Waiting does not count, stored answers do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_episode_minutes: Option<f64>,
    pub temperature: f64,
    /// Generated tokens at most, per generation.
    pub max_output_tokens: u32,
    pub seed: Option<u64>,
}

/// What all episodes of one strategy on one view share.
pub struct Stage<'s> {
    pub validators: &'s Validators,
    pub toolbox: &'s Toolbox,
    pub prepared: &'s dyn Prepared,
    pub gateway: &'s Gateway,
    pub settings: &'s LoopSettings,
    pub sampling: &'s Sampling,
}

/// Which episode this is.
#[derive(Clone, Debug)]
pub struct Cast<'c> {
    pub job: JobKey,
    pub strategy: &'c str,
    pub query: &'c Query,
    pub size: u32,
    pub order: u32,
    pub repeat: u32,
    pub seed: u64,
}

/// The episode was not finished and leaves no record.
#[derive(Debug, thiserror::Error)]
pub enum Unfinished {
    #[error(transparent)]
    Ask(AskError),
    #[error("strategy {strategy:?} broke its contract: {message}")]
    Contract { strategy: String, message: String },
    #[error("strategy {strategy:?} cannot go on: {message}")]
    Unavailable { strategy: String, message: String },
}

/// Runs one episode to its end.
pub async fn run_episode(stage: &Stage<'_>, cast: &Cast<'_>) -> Result<Episode, Unfinished> {
    let watch = Stopwatch::start();
    let mut cx = EpisodeCx::new(stage.gateway, stage.toolbox, stage.sampling, &cast.query.text, cast.repeat, cast.seed);
    let mut selection = Selection::default();
    let mut failed_attempts = 0;
    let outcome = match stage.prepared.select(&cast.query.text, &mut cx).await {
        Ok(made) => {
            selection = made;
            match selection.offer.take() {
                None => Ok(Outcome::Completed),
                Some(offer) => converse(stage, cast, &mut cx, offer, selection.responder.as_deref_mut()).await,
            }
        }
        Err(error) => Err(error),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(StrategyError::Contract(message)) => {
            return Err(Unfinished::Contract { strategy: cast.strategy.to_owned(), message });
        }
        Err(StrategyError::Unavailable(message)) => {
            return Err(Unfinished::Unavailable { strategy: cast.strategy.to_owned(), message });
        }
        Err(StrategyError::Ask(error)) => end_of(error, &mut failed_attempts)?,
    };
    let mut record = cx.record;
    record.timing.total_ms = watch.elapsed_ms();
    // What was defined for a prompt that no generation read was never visible: not runnable, refused, failed.
    let read = record.turns.iter().filter(|turn| turn.span == Span::Outer).count() as u32;
    record.exposed.retain(|seen| seen.turn < read);
    let view = &stage.toolbox.view;
    Ok(Episode {
        schema: SCHEMA,
        job: cast.job.clone(),
        strategy: cast.strategy.to_owned(),
        query: cast.query.id.clone(),
        actor: view.actor.clone(),
        size: cast.size,
        view_tools: view.len() as u32,
        view_skills: view.skills().len() as u32,
        view: view.digest().clone(),
        order: cast.order,
        repeat: cast.repeat,
        outcome,
        ranked: selection.ranked.map(|mut ranked| {
            ranked.truncate(RANKED_DEPTH);
            ranked
        }),
        skills: selection.skills,
        searches: record.searches,
        exposed: record.exposed,
        turns: record.turns,
        failed_attempts,
        leaks: record.leaks,
        timing: record.timing,
    })
}

/// How an episode ends for want of an answer.
fn end_of(error: AskError, failed_attempts: &mut u32) -> Result<Outcome, Unfinished> {
    match error {
        AskError::NotRunnable { why, detail } => Ok(Outcome::NotRunnable { why, detail }),
        AskError::Endpoint(failure) => {
            *failed_attempts = failure.attempts;
            // The endpoint cannot serve anybody: no use in recording one failure per query.
            if failure.error.kind.fatal() {
                return Err(Unfinished::Ask(AskError::Endpoint(failure)));
            }
            Ok(outcome_of(&failure.error))
        }
        other => Err(Unfinished::Ask(other)),
    }
}

/// The outcome that a refusal or a failure means for the episode.
fn outcome_of(error: &EndpointError) -> Outcome {
    let not_runnable = |why| Outcome::NotRunnable { why, detail: error.message.clone() };
    match error.kind {
        ErrorKind::ContextOverflow => not_runnable(NotRunnable::Context),
        ErrorKind::ToolLimit => not_runnable(NotRunnable::ToolLimit),
        ErrorKind::Schema => not_runnable(NotRunnable::Schema),
        ErrorKind::Filtered => Outcome::Filtered,
        // The server refused what the model wrote. The model had its turn and it came to nothing.
        ErrorKind::ModelError => Outcome::NoSelection,
        kind => Outcome::Failed { error: kind.as_str().to_owned(), message: error.message.clone() },
    }
}

struct Talk<'t> {
    conversation: Conversation,
    split: Split,
    own: Vec<String>,
    query: &'t Query,
}

impl Talk<'_> {
    fn define(&mut self, definition: impl Into<Arc<ToolDef>>, tokens: u64) {
        self.split.definitions_tokens += tokens;
        self.conversation.define(definition);
    }

    fn answer(&mut self, call: &RawCall, text: &str) {
        self.split.results_tokens += tokens::count(text);
        self.conversation.answer(call, text);
    }
}

async fn converse(
    stage: &Stage<'_>,
    cast: &Cast<'_>,
    cx: &mut EpisodeCx<'_>,
    offer: Offer,
    mut responder: Option<&mut (dyn Responder + '_)>,
) -> Result<Outcome, StrategyError> {
    let system = match &offer.guidance {
        Some(guidance) => {
            cx.count_leaks(guidance);
            format!("{}\n\n{guidance}", stage.settings.wording.text())
        }
        None => stage.settings.wording.text().to_owned(),
    };
    let conversation_tokens = tokens::count(&system) + tokens::count(&cast.query.text);
    let mut talk = Talk {
        conversation: Conversation::new(stage.gateway.profile().protocol, system, &cast.query.text),
        split: Split { conversation_tokens, ..Split::default() },
        own: offer.own.iter().map(|tool| tool.name.clone()).collect(),
        query: cast.query,
    };
    let core: Vec<ToolId> = stage.toolbox.view.core().map(|tool| tool.id.clone()).collect();
    define(stage, cx, &mut talk, &core)?;
    for tool in offer.own {
        cx.count_leaks_in_tool(&tool);
        let tool = stage.gateway.profile().fit_tool(tool);
        let tokens = tokens::count_json(&tool);
        talk.define(tool, tokens);
    }
    define(stage, cx, &mut talk, &offer.tools)?;
    for _ in 0..stage.settings.max_turns {
        if let Some(max) = stage.settings.max_episode_tokens
            && cx.record.turns.iter().map(|turn| turn.usage.total()).sum::<u64>() >= max
        {
            return Ok(Outcome::Limit { which: LimitKind::Tokens });
        }
        if stage.settings.max_episode_minutes.is_some_and(|max| cx.record.timing.endpoint_ms >= max * 60_000.0) {
            return Ok(Outcome::Limit { which: LimitKind::Time });
        }
        let request = talk.conversation.request(stage.sampling);
        let reply = cx.generate(Span::Outer, "agent", &request, talk.split).await?;
        talk.split.conversation_tokens += cx.record.turns.last().map_or(0, |turn| turn.estimated_output_tokens);
        if reply.filtered() {
            return Ok(Outcome::Filtered);
        }
        let cut_short = reply.cut_short();
        let mut records = Vec::new();
        let mut called_catalogue = false;
        match talk.conversation.hear(&reply) {
            Said::Words | Said::Unreadable(_) if cut_short => return Ok(Outcome::Truncated),
            Said::Words => return Ok(Outcome::Completed),
            Said::Unreadable(text) => {
                talk.conversation.reject("That was not one JSON object of the form asked for. Try again.");
                records.push(CallRecord {
                    name: String::new(),
                    tool: None,
                    arguments: Value::String(text),
                    verdict: Verdict::Unreadable,
                    defined: false,
                });
            }
            Said::Calls(calls) => {
                for call in calls {
                    let record = if talk.own.contains(&call.name) {
                        answer_own(stage, cx, &mut talk, &call, responder.as_deref_mut()).await?
                    } else {
                        answer_catalogue(stage, cx, &mut talk, &call)
                    };
                    called_catalogue |= record.tool.is_some();
                    records.push(record);
                }
            }
        }
        if let Some(turn) = cx.record.turns.last_mut() {
            turn.calls = records;
        }
        if called_catalogue && stage.settings.mode == Mode::FirstCall {
            return Ok(Outcome::Completed);
        }
    }
    Ok(Outcome::Limit { which: LimitKind::Turns })
}

/// Defines catalogue tools from the next request on; those already defined stay where they are.
fn define(
    stage: &Stage<'_>,
    cx: &mut EpisodeCx<'_>,
    talk: &mut Talk<'_>,
    tools: &[ToolId],
) -> Result<(), StrategyError> {
    for tool in tools {
        if cx.is_defined(tool) {
            continue;
        }
        cx.expose(std::slice::from_ref(tool), Level::Defined)?;
        if let Some((definition, tokens)) = stage.toolbox.definition(tool) {
            talk.define(definition.clone(), *tokens);
        }
    }
    Ok(())
}

async fn answer_own(
    stage: &Stage<'_>,
    cx: &mut EpisodeCx<'_>,
    talk: &mut Talk<'_>,
    call: &RawCall,
    responder: Option<&mut (dyn Responder + '_)>,
) -> Result<CallRecord, StrategyError> {
    let answer = match (&call.arguments, responder) {
        (Err((why, _)), _) => {
            OwnAnswer { text: format!("Error: {why}"), misuse: Some(why.clone()), ..OwnAnswer::default() }
        }
        (Ok(arguments), Some(responder)) => responder.respond(&call.name, arguments, cx).await?,
        (Ok(_), None) => {
            return Err(StrategyError::Contract(format!("offers {:?} and answers no call of it", call.name)));
        }
    };
    cx.count_leaks(&answer.text);
    talk.answer(call, &answer.text);
    define(stage, cx, talk, &answer.define)?;
    Ok(CallRecord {
        name: call.name.clone(),
        tool: None,
        arguments: recorded_arguments(call),
        verdict: Verdict::Own { misuse: answer.misuse },
        defined: true,
    })
}

fn answer_catalogue(stage: &Stage<'_>, cx: &EpisodeCx<'_>, talk: &mut Talk<'_>, call: &RawCall) -> CallRecord {
    let tool = stage.toolbox.resolve(&call.name).cloned();
    let verdict = match &tool {
        None => {
            if stage.toolbox.is_ungranted(&call.name) {
                Verdict::Ungranted
            } else {
                Verdict::UnknownName
            }
        }
        Some(tool) => match &call.arguments {
            Err((error, _)) => Verdict::InvalidArguments { error: error.clone() },
            Ok(arguments) => match stage.validators.check(tool, arguments) {
                Some(error) => Verdict::InvalidArguments { error },
                None => Verdict::Valid,
            },
        },
    };
    let text = match &verdict {
        Verdict::Valid => {
            tool.as_ref().and_then(|tool| talk.query.results.get(tool)).map_or(RECEIPT, String::as_str).to_owned()
        }
        Verdict::InvalidArguments { error } => format!("Error: invalid arguments for {}: {error}", call.name),
        // The same words for a tool that is hidden and one that does not exist: refusals must not confirm a guess.
        _ => format!("Error: there is no tool named {:?}.", call.name),
    };
    talk.answer(call, &text);
    let defined = tool.as_ref().is_some_and(|tool| cx.is_defined(tool));
    CallRecord { name: call.name.clone(), tool, arguments: recorded_arguments(call), verdict, defined }
}

fn recorded_arguments(call: &RawCall) -> Value {
    match &call.arguments {
        Ok(arguments) => arguments.clone(),
        Err((_, text)) => Value::String(text.clone()),
    }
}
