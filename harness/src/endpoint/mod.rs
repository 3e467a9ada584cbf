//! The way to an OpenAI-compatible endpoint, in layers: a [`Transport`] makes one attempt, [`classify`] says what an
//! answer means, [`with_retries`] repeats and records, [`with_turns`] does so in turn with others. Nothing here asks which
//! vendor or model it is talking to.

mod alias;
mod classify;
mod http;
mod openai;
mod pieces;
mod profile;
mod retry;
mod schema;
mod scripted;
mod secret;

use std::fmt;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::usage::Usage;

pub use alias::Aliases;
pub use classify::classify;
pub use http::{http_client, is_unencrypted};
pub use openai::{OpenAi, OpenAiConfig, OpenAiError, check_base_url};
pub use profile::{NameRule, OutputLimit, Profile, ProfileError, Protocol, Tested};
pub use retry::{Answered, Attempt, GaveUp, RetryPolicy, Turnstile, Why, with_retries, with_turns};
pub(crate) use schema::decoded;
pub use schema::{DropPatterns, Preset, Rewrite, RootCombinators, Rule, SchemaRules, rewrite};
pub use scripted::{Behaviour, Scripted, UnknownBehaviour};
pub use secret::Secret;

/// What is asked for: the path below the base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    Chat,
    Embed,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chat => "chat/completions",
            Self::Embed => "embeddings",
        })
    }
}

/// An answer as it came over the wire, whatever its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireResponse {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After` in milliseconds, at most ten minutes.
    pub retry_after_ms: Option<u64>,
    pub request_id: Option<String>,
    /// At most 16 MiB, without the key that was sent.
    pub body: String,
}

impl WireResponse {
    /// What the body says of tokens, whatever else is wrong with it.
    pub fn usage(&self) -> Option<Usage> {
        let body: Value = serde_json::from_str(&self.body).ok()?;
        Usage::parse(&body["usage"])
    }
}

impl From<Value> for WireResponse {
    /// A 200 with this body.
    fn from(body: Value) -> Self {
        Self { status: 200, retry_after_ms: None, request_id: None, body: body.to_string() }
    }
}

/// There was no complete answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum TransportError {
    #[error("cannot connect to {host}: {reason}; is the server running and the base URL right?")]
    Connect { host: String, reason: String },
    #[error("no complete answer within {after_ms} ms; raise the timeout if the model is slow")]
    Timeout { after_ms: u64 },
    /// Reset in mid-body, too large, or no UTF-8.
    #[error("the answer cannot be read: {reason}")]
    Broken { reason: String },
}

/// An answer that came piece by piece.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    pub response: WireResponse,
    /// Where each piece of the body ended, in bytes, and when it came, in milliseconds after sending. Empty where the transport
    /// does not know.
    pub arrivals: Vec<(usize, f64)>,
}

/// One attempt: sends a body, says what came back. No retry, no cache.
pub trait Transport: Send + Sync {
    fn post<'a>(&'a self, route: Route, body: &'a Value) -> BoxFuture<'a, Result<WireResponse, TransportError>>;

    /// Sends a chat request that asks for a stream, and reads that to its end.
    fn stream<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Result<Streamed, TransportError>> {
        Box::pin(async move { Ok(Streamed { response: self.post(Route::Chat, body).await?, arrivals: Vec::new() }) })
    }

    /// Asks for the list of models; not found where there is none.
    fn models(&self) -> BoxFuture<'_, Result<WireResponse, TransportError>> {
        let body = String::from("there is no list of models");
        let response = WireResponse { status: 404, retry_after_ms: None, request_id: None, body };
        Box::pin(std::future::ready(Ok(response)))
    }

    /// Host and port of the server, where there is one.
    fn server(&self) -> Option<(&str, Option<u16>)> {
        None
    }
}

/// Why there is no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    Connect,
    Timeout,
    /// The answer broke off, is too large or no text.
    Broken,
    /// The key is missing, wrong or not allowed to do this.
    Unauthorized,
    /// No such model, or no such path.
    ModelNotFound,
    /// The server points elsewhere; redirects are not followed, since they would carry the key along.
    Redirected,
    RateLimited,
    /// A limit that waiting for seconds does not lift.
    QuotaExhausted,
    Server,
    BadRequest,
    /// Prompt and output do not fit the context.
    ContextOverflow,
    /// Too many tools, or too much in all their definitions together.
    ToolLimit,
    /// The server refuses a schema or a name of a tool.
    Schema,
    Filtered,
    /// A success that is no answer: a web page, no choices, half a JSON text.
    Decode,
    /// The server itself refused what the model generated. The model's fault, not the infrastructure's.
    ModelError,
}

impl ErrorKind {
    /// The same request may succeed in a moment.
    pub fn retryable(self) -> bool {
        matches!(self, Self::Connect | Self::Timeout | Self::Broken | Self::RateLimited | Self::Server | Self::Decode)
    }

    /// Every other request will fail as well.
    pub fn fatal(self) -> bool {
        matches!(self, Self::Unauthorized | Self::ModelNotFound | Self::Redirected | Self::QuotaExhausted)
    }

    /// Asking again would only repeat the answer, and it says something of the request or of the model rather than of the
    /// infrastructure.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::ContextOverflow | Self::ToolLimit | Self::Schema | Self::Filtered | Self::ModelError)
    }

    /// As in stored files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Unauthorized => "unauthorized",
            Self::ModelNotFound => "model_not_found",
            Self::Redirected => "redirected",
            Self::RateLimited => "rate_limited",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Server => "server",
            Self::BadRequest => "bad_request",
            Self::ContextOverflow => "context_overflow",
            Self::ToolLimit => "tool_limit",
            Self::Schema => "schema",
            Self::Filtered => "filtered",
            Self::Decode => "decode",
            Self::ModelError => "model_error",
        }
    }
}

/// A failed attempt, understood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{} ({}): {message}", kind.as_str(), status.map_or_else(|| "no status".to_owned(), |s| format!("status {s}")))]
pub struct EndpointError {
    pub kind: ErrorKind,
    /// HTTP status as received; a success may still carry an error.
    pub status: Option<u16>,
    /// At most 600 characters and no control characters: servers put anything here.
    pub message: String,
    pub retry_after_ms: Option<u64>,
}

impl EndpointError {
    /// The schema of a single tool may be behind it. Servers that compile all tools to one grammar say the same of one bad
    /// pattern and of too much altogether.
    pub fn may_be_one_schema(&self) -> bool {
        match self.kind {
            ErrorKind::Schema => true,
            ErrorKind::ToolLimit => self.message.to_lowercase().contains("grammar"),
            _ => false,
        }
    }
}

impl From<TransportError> for EndpointError {
    fn from(error: TransportError) -> Self {
        let kind = match error {
            TransportError::Connect { .. } => ErrorKind::Connect,
            TransportError::Timeout { .. } => ErrorKind::Timeout,
            TransportError::Broken { .. } => ErrorKind::Broken,
        };
        Self { kind, status: None, message: plain(&error.to_string()), retry_after_ms: None }
    }
}

/// One harmless line of at most 600 characters; the rest is cut off with `…`.
fn plain(text: &str) -> String {
    const LIMIT: usize = 600;
    let line = crate::text::plain(text.trim());
    if line.chars().count() <= LIMIT {
        return line;
    }
    line.chars().take(LIMIT - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_bounded_harmless_line() {
        assert_eq!(plain(" a\nb\u{1b}[31m\u{202e} "), r"a b\u{1b}[31m\u{202e}");
        let long = plain(&"é".repeat(5_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (600, true));
        assert!(plain(&"\0".repeat(5_000)).chars().count() <= 600);
    }

    #[test]
    fn kinds_are_stored_under_the_name_they_print() {
        for kind in [ErrorKind::Connect, ErrorKind::ModelNotFound, ErrorKind::QuotaExhausted, ErrorKind::ModelError] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        let error = EndpointError::from(TransportError::Timeout { after_ms: 5 });
        assert!(error.to_string().starts_with("timeout (no status): no complete answer within 5 ms"), "{error}");
    }
}
