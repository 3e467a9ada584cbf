//! Servers that answer over streamable HTTP. rmcp says what to send and when; sending and reading happen here, so that answers
//! are read as those of child processes are, and an answer that is none says what happened and what to do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datasets::import::mcp::Listing;
use harness::endpoint::http_client;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response, Url};
use rmcp::ClientLifecycleMode;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use tokio::task::JoinSet;

use super::events::Events;
use super::heard::{Heard, excerpt};
use super::message::{self, Message, UNREAD};
use super::session::{self, Failure};
use super::{Limits, Tried};

/// Most bytes of one answer.
const MOST_BYTES: usize = 64 << 20;
/// Time until an answer that was cut is asked for again, if the server does not say.
const RETRY: Duration = Duration::from_secs(1);
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Lists the tools of the server at `url`.
pub(super) async fn list(
    url: &str,
    headers: &[(String, String)],
    name: &str,
    lifecycle: ClientLifecycleMode,
    limits: Limits,
) -> Tried {
    let heard = Heard::default();
    let outcome = listing(url, headers, &heard, lifecycle, limits).await;
    let mut heard = heard.take();
    let outcome = outcome.map_err(|failure| match (failure, heard.fault.take()) {
        // What rmcp says of it is less.
        (Failure::Closed { .. } | Failure::Other(_), Some(fault)) => Failure::Other(fault),
        (failure, _) => failure,
    });
    Tried { outcome, troubles: heard.troubles(name), stderr: Vec::new() }
}

async fn listing(
    url: &str,
    headers: &[(String, String)],
    heard: &Heard,
    lifecycle: ClientLifecycleMode,
    limits: Limits,
) -> Result<Listing, Failure> {
    let client =
        http_client(url, None).map_err(|reason| Failure::Other(format!("its `url` cannot be used: {reason}")))?;
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(fields(headers)?);
    let posts = Posts { client, heard: heard.clone() };
    session::list(StreamableHttpClientTransport::with_client(posts, config), lifecycle, limits).await
}

fn fields(headers: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, Failure> {
    let field = |(name, value): &(String, String)| {
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Failure::Other(format!("its `headers` hold {name:?}, which is no name of a header")))?;
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| Failure::Other(format!("the value of its header {name:?} fits no header")))?;
        value.set_sensitive(true);
        Ok((header, value))
    };
    headers.iter().map(field).collect()
}

/// Why a request has no answer, in words for a person.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unanswered(String);

type Failed = StreamableHttpError<Unanswered>;

/// Sends what rmcp wants sent.
#[derive(Clone)]
struct Posts {
    client: reqwest::Client,
    heard: Heard,
}

/// One question and where it goes.
struct Question {
    url: Arc<str>,
    headers: HeaderMap,
    id: RequestId,
}

impl StreamableHttpClient for Posts {
    type Error = Unanswered;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let mut headers: HeaderMap = headers.into_iter().collect();
        let is_in_session = session.is_some();
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(&session).ok()) {
            headers.insert(SESSION, session);
        }
        let response = self.post(&url, &headers, &message)?.send().await.map_err(|error| self.failed(told(&error)))?;
        if response.status() == StatusCode::NOT_FOUND && is_in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.headers().get(SESSION).and_then(|session| session.to_str().ok()).map(str::to_owned);
        let answer = match message {
            JsonRpcMessage::Request(request) => self.answer(response, &Question { url, headers, id: request.id }).await,
            // Nobody waits for what it says to that.
            _ if response.status().is_success() => return Ok(StreamableHttpPostResponse::Accepted),
            _ => Err(refusal(response, &url).await),
        };
        answer.map(|message| StreamableHttpPostResponse::Json(message, session)).map_err(|reason| self.failed(reason))
    }

    async fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let headers: HeaderMap = headers.into_iter().collect();
        // A session that is not ended well is the server's loss.
        let _ = self.client.delete(&*url).headers(headers).header(SESSION, &*session).send().await;
        Ok(())
    }

    /// Nothing is waited for that is no answer.
    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, Failed> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

impl Posts {
    fn post(
        &self,
        url: &str,
        headers: &HeaderMap,
        message: &ClientJsonRpcMessage,
    ) -> Result<RequestBuilder, serde_json::Error> {
        let mut headers = headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        Ok(self.client.post(url).headers(headers).body(serde_json::to_vec(message)?))
    }

    fn failed(&self, reason: String) -> Failed {
        self.heard.fault(reason.clone());
        StreamableHttpError::Client(Unanswered(reason))
    }

    async fn answer(&self, response: Response, question: &Question) -> Result<ServerJsonRpcMessage, String> {
        let status = response.status();
        match kind(&response).as_deref() {
            Some(EVENTS) if status.is_success() => self.answer_among_events(response, question).await,
            Some(JSON) if !is_refusal(status) => {
                let body = body(response).await?;
                match message::read(&body) {
                    Message::Answer { mut message, unreadable } if is_error(&message) || status.is_success() => {
                        self.heard.unreadable(unreadable);
                        message::settle(&mut message, Some(&question.id));
                        Ok(message)
                    }
                    Message::Broken(reason) if status.is_success() => Err(reason),
                    _ if status.is_success() => Err(format!("it answers what is no message: {}", excerpt(&body))),
                    _ => Err(unfit(status, &body)),
                }
            }
            _ if !status.is_success() => Err(refusal(response, &question.url).await),
            _ if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                Err(format!("it answers with status {status} and without an answer to what was asked"))
            }
            other => {
                let kind = other.unwrap_or("none");
                Err(format!("it answers with content type {kind}; expected {JSON} or {EVENTS}"))
            }
        }
    }

    /// The answer in a stream of events. One that ends before it is asked for again, as the protocol says, if it is numbered.
    async fn answer_among_events(
        &self,
        mut response: Response,
        question: &Question,
    ) -> Result<ServerJsonRpcMessage, String> {
        let (mut events, mut bytes, mut replies) = (Events::default(), 0, JoinSet::new());
        loop {
            while let Some(chunk) = response.chunk().await.map_err(|error| told(&error))? {
                bytes += chunk.len();
                if bytes > MOST_BYTES {
                    return Err(too_long());
                }
                for event in events.add(&chunk) {
                    match message::read(&event) {
                        Message::Answer { mut message, unreadable } => {
                            message::settle(&mut message, Some(&question.id));
                            if answers(&message, &question.id) {
                                self.heard.unreadable(unreadable);
                                replies.detach_all();
                                return Ok(message);
                            }
                        }
                        Message::Question(reply) => {
                            while replies.try_join_next().is_some() {}
                            if let Ok(post) = self.post(&question.url, &question.headers, &reply)
                                && replies.len() < UNREAD
                            {
                                replies.spawn(post.send());
                            }
                        }
                        Message::Notice => {}
                        Message::Broken(reason) => return Err(reason),
                        Message::Stray => self.heard.stray(&event),
                    }
                }
            }
            let Some(last) = events.last.as_deref().and_then(|last| HeaderValue::from_str(last).ok()) else {
                return Err("its stream of events ended without an answer to what was asked".to_owned());
            };
            tokio::time::sleep(events.retry.unwrap_or(RETRY)).await;
            events.go_on();
            let again = self.client.get(&*question.url).headers(question.headers.clone());
            let again = again.header(ACCEPT, EVENTS).header(LAST_EVENT, last).send();
            response = again.await.map_err(|error| told(&error))?;
            if !response.status().is_success() || kind(&response).as_deref() != Some(EVENTS) {
                return Err(format!(
                    "its stream of events ended without an answer, and asking for the rest of it is answered with status {}",
                    response.status()
                ));
            }
        }
    }
}

fn is_error(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Error(_))
}

/// Some servers write numbers as text.
fn answers(message: &ServerJsonRpcMessage, asked: &RequestId) -> bool {
    match message {
        JsonRpcMessage::Response(response) => response.id.to_string() == asked.to_string(),
        JsonRpcMessage::Error(error) => error.id.as_ref().is_some_and(|id| id.to_string() == asked.to_string()),
        _ => false,
    }
}

/// Whether a status says more than the body may.
fn is_refusal(status: StatusCode) -> bool {
    status.is_redirection() || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Why a server did not do what was asked, and what to do about it.
async fn refusal(response: Response, url: &str) -> String {
    const HOW: &str = "in `headers` of a file of servers, e.g. \"Authorization\": \"Bearer ${NAME}\"";
    let status = response.status();
    match status {
        StatusCode::UNAUTHORIZED => {
            format!("it answers with status {status}: it wants a key, or another one; give it {HOW}")
        }
        StatusCode::FORBIDDEN => {
            format!(
                "it answers with status {status}: it does not allow this with the key it got, if any; give one that may {HOW}"
            )
        }
        _ if status.is_redirection() => {
            let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
            let place = place.and_then(|place| Url::parse(url).ok()?.join(place).ok());
            // Without the query: it may hold a key that nobody here knows.
            let place = place.map_or_else(
                || "a place that it does not name".to_owned(),
                |place| format!("{}{}", place.origin().ascii_serialization(), place.path()),
            );
            format!(
                "it redirects to {place} (status {status}), which is not followed, for the keys of `headers` and `url` would \
                 travel along; if that is the right place, make it the `url`"
            )
        }
        _ => {
            let is_page = kind(&response).is_none_or(|kind| kind == "text/html");
            let body = if is_page { Vec::new() } else { body(response).await.unwrap_or_default() };
            unfit(status, &body)
        }
    }
}

fn unfit(status: StatusCode, body: &[u8]) -> String {
    let said = excerpt(body);
    if said.is_empty() {
        format!("it answers with status {status}")
    } else {
        format!("it answers with status {status}: {said}")
    }
}

/// The media type of an answer, without what may follow.
fn kind(response: &Response) -> Option<String> {
    let kind = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| told(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > MOST_BYTES {
            return Err(too_long());
        }
    }
    Ok(body)
}

fn too_long() -> String {
    format!("it sent more than {} MiB in one answer", MOST_BYTES >> 20)
}

fn told(error: &reqwest::Error) -> String {
    session::chain(error)
}
