//! The spans of a run: `run` holds `episode`, that holds `turn` or `embed`, and those hold `attempt`.
//!
//! Fields with a dot are for OpenTelemetry: its conventions for generative models (`gen_ai.*`), and what the layer that exports
//! spans reads (`otel.*`); a log leaves them out. No span holds words of a prompt or of an answer.

use tracing::field::Empty;
use tracing::{Span, debug, info_span};

use crate::chat::{ChatReply, ChatRequest};
use crate::endpoint::{Attempt, Route};
use crate::episode;
use crate::gateway::{Answer, AskError};
use crate::run::plan::Job;
use crate::text::plain;

/// Host and port of an endpoint.
pub(crate) type Server<'s> = Option<(&'s str, Option<u16>)>;

/// Whose protocol is spoken, which is all that is known of a server: the conventions want this name for a compatible one too.
const PROVIDER: &str = "openai";

pub(crate) fn run(dataset: &str, jobs: usize, concurrency: usize) -> Span {
    info_span!("run", dataset = %plain(dataset), jobs = signed(jobs as u64), concurrency = signed(concurrency as u64))
}

pub(crate) fn episode(job: &Job) -> Span {
    info_span!(
        "episode",
        job = %job.key,
        strategy = %plain(&job.strategy),
        query = %plain(job.query.as_str()),
        size = i64::from(job.size),
        order = i64::from(job.order),
        repeat = i64::from(job.repeat),
        outcome = Empty,
    )
}

/// One generation, whatever it takes to get it: what the conventions call an inference.
pub(crate) fn turn(span: episode::Span, label: &str, request: &ChatRequest, server: Server<'_>) -> Span {
    let span = match span {
        episode::Span::Outer => "outer",
        episode::Span::Inner => "inner",
    };
    let model = plain(&request.model);
    info_span!(
        "turn",
        span,
        label = %plain(label),
        stored = Empty,
        attempts = Empty,
        "otel.name" = format!("chat {model}"),
        "otel.kind" = kind(server),
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = server.map(|_| PROVIDER),
        "gen_ai.request.model" = model,
        "gen_ai.request.temperature" = request.temperature,
        "gen_ai.request.max_tokens" = request.max_tokens.map(i64::from),
        "gen_ai.response.model" = Empty,
        "gen_ai.response.finish_reasons" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "error.type" = Empty,
        "server.address" = server.map(|(host, _)| host),
        "server.port" = port(server),
    )
}

/// Vectors for some texts.
pub(crate) fn embed(model: &str, server: Server<'_>) -> Span {
    let model = plain(model);
    info_span!(
        "embed",
        stored = Empty,
        attempts = Empty,
        "otel.name" = format!("embeddings {model}"),
        "otel.kind" = kind(server),
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "embeddings",
        "gen_ai.provider.name" = server.map(|_| PROVIDER),
        "gen_ai.request.model" = model,
        "error.type" = Empty,
        "server.address" = server.map(|(host, _)| host),
        "server.port" = port(server),
    )
}

/// One HTTP request.
pub(crate) fn attempt(route: Route, number: usize) -> Span {
    info_span!(
        "attempt",
        route = %route,
        number = signed(number as u64),
        status = Empty,
        kind = Empty,
        elapsed_ms = Empty,
        wait_ms = Empty,
        "otel.status_code" = Empty,
        "error.type" = Empty,
    )
}

fn kind(server: Server<'_>) -> &'static str {
    if server.is_some() { "client" } else { "internal" }
}

fn port(server: Server<'_>) -> Option<i64> {
    server.and_then(|(_, port)| port).map(i64::from)
}

/// The request of a turn has its answer.
pub(crate) fn answered<T>(span: &Span, answer: &Answer<T>) {
    span.record("stored", answer.stored);
    span.record("attempts", i64::from(answer.attempts));
}

/// The answer is a generation. What a stored one used was used before, and is not said again.
pub(crate) fn generated(turn: &Span, answer: &Answer<ChatReply>) {
    answered(turn, answer);
    let reply = &answer.reply;
    if let Some(model) = &reply.model {
        turn.record("gen_ai.response.model", plain(model).as_str());
    }
    let reason = plain(reply.finish_reason.as_deref().unwrap_or_default());
    if !reason.is_empty() {
        turn.record("gen_ai.response.finish_reasons", reason.as_str());
    }
    if let Some(usage) = reply.usage.filter(|_| !answer.stored) {
        turn.record("gen_ai.usage.input_tokens", signed(usage.input_tokens));
        turn.record("gen_ai.usage.output_tokens", signed(usage.output_tokens));
    }
    debug!(
        parent: turn,
        latency_ms = answer.latency_ms,
        queue_ms = answer.queue_ms,
        backoff_ms = answer.backoff_ms,
        input_tokens = reply.usage.map(|usage| usage.input_tokens),
        output_tokens = reply.usage.map(|usage| usage.output_tokens),
        calls = reply.calls.len(),
        reason,
        "generated"
    );
}

/// Whoever exports spans takes unsigned numbers for words.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The request has no answer.
pub(crate) fn unanswered(span: &Span, error: &AskError) {
    let kind = match error {
        AskError::Endpoint(failure) => failure.error.kind.as_str(),
        AskError::NotRunnable { .. } => "not_runnable",
        AskError::Capped(_) => "capped",
        AskError::Down { .. } => "down",
        AskError::Stopping => "interrupted",
        AskError::NotRecorded { .. } => "not_recorded",
        AskError::Store(_) => "store",
    };
    failed(span, kind);
}

/// How an attempt ended: `failure` is `None` where it was answered.
pub(crate) fn attempted(span: &Span, elapsed_ms: f64, failure: Option<&Attempt>) {
    span.record("elapsed_ms", elapsed_ms);
    let Some(failure) = failure else { return };
    span.record("kind", failure.kind.as_str());
    span.record("wait_ms", signed(failure.wait_ms));
    failed(span, failure.kind.as_str());
    debug!(parent: span, reason = failure.message.as_str(), "attempt failed");
}

fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}
