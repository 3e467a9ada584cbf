//! From a request to what goes out for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::answer;
use crate::asked::{ApiPath, Asked, digest};
use crate::dialect::Dialect;
use crate::fault::{Applied, Damage, ErrorName, How, Instead};
use crate::flow::{Ending, Flow, Sending, Severed};
use crate::line::Cut;
use crate::log::{End, Log, Ticket};
use crate::refusal::Refusal;
use crate::rules;
use crate::script::Script;
use crate::shape::Shape;
use crate::stream;

const JSON: &str = "application/json";

/// What all connections share.
pub(crate) struct Server {
    pub(crate) script: Script,
    pub(crate) log: Arc<Log>,
    pub(crate) max_body_bytes: usize,
    /// How often each body has come.
    pub(crate) attempts: Mutex<HashMap<[u8; 32], u64>>,
}

/// An answer before anything happens to it.
struct Reply {
    status: u16,
    content_type: String,
    /// The text, in the pieces in which it is sent.
    pieces: Vec<String>,
    headers: Vec<(String, String)>,
    /// Sent in chunks, without a length.
    streamed: bool,
}

impl Reply {
    fn json(status: u16, body: &Value) -> Self {
        Self::text(status, JSON, body.to_string())
    }

    fn text(status: u16, content_type: &str, text: String) -> Self {
        let pieces = if text.is_empty() { Vec::new() } else { vec![text] };
        Self { status, content_type: content_type.to_owned(), pieces, headers: Vec::new(), streamed: false }
    }

    fn events(events: Vec<String>) -> Self {
        Self {
            status: 200,
            content_type: "text/event-stream".to_owned(),
            pieces: events,
            headers: vec![("cache-control".to_owned(), "no-cache".to_owned())],
            streamed: true,
        }
    }
}

impl Server {
    /// Answers, or ends the connection where the script says so.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        cut: Arc<Cut>,
    ) -> Result<Response<Flow>, Severed> {
        let (head, body) = request.into_parts();
        let mut ticket = self.log.arrive(head.method.as_str(), head.uri.path(), &head.headers);
        let text = match Limited::new(body, self.max_body_bytes).collect().await {
            Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Ok(self.refuse(&Refusal::TooLarge(self.max_body_bytes), ticket, cut));
            }
            // The client went away while it sent.
            Err(_) => return Err(Severed),
        };
        let body = serde_json::from_str::<Value>(&text);
        ticket.note(|entry| {
            entry.body = match &body {
                Ok(body) => body.clone(),
                Err(_) if text.is_empty() => Value::Null,
                Err(_) => json!(text),
            };
        });
        let path = match ApiPath::of(head.method.as_str(), head.uri.path()) {
            Ok(path) => path,
            Err(None) => return Ok(self.refuse(&Refusal::NoSuchPath(head.uri.path().to_owned()), ticket, cut)),
            Err(Some(takes)) => return Ok(self.refuse(&Refusal::WrongMethod(takes), ticket, cut)),
        };
        // Models share no body, so the path stands for it.
        let identity = if path == ApiPath::Models { head.uri.path() } else { &text };
        let (read, unreadable) = match body {
            Ok(body) => (body, None),
            Err(error) => (Value::Null, Some(error.to_string()).filter(|_| path != ApiPath::Models)),
        };
        let asked = Asked::new(path, identity, &read, self.attempt(path, identity));
        let applied = Applied::new(&self.script.faults, &asked, self.script.seed);
        ticket.note(|entry| {
            entry.attempt = asked.attempt;
            entry.faults.clone_from(&applied.names);
        });
        sleep(Duration::from_millis(applied.delay_ms)).await;
        if let Some(Damage { how, after: None }) = applied.damage {
            return Err(before_anything(how, &mut ticket, &cut).await);
        }
        let mut reply = match (applied.instead, unreadable) {
            (Some(instead), _) => from_before(instead, &self.script.dialect),
            (None, Some(why)) => self.refusal(&Refusal::Unreadable(why), &ticket),
            (None, None) => match self.reply(&head, &asked, &applied, &ticket).await {
                Ok(reply) => reply,
                Err(refusal) => self.refusal(&refusal, &ticket),
            },
        };
        reply.headers.extend(applied.headers.iter().cloned());
        reply.headers.push(("x-request-id".to_owned(), format!("req-{}", asked.name())));
        let pace = Duration::from_millis(applied.pace_ms);
        Ok(respond(reply, applied.damage, pace, ticket, cut))
    }

    fn attempt(&self, path: ApiPath, text: &str) -> u64 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry(digest(path, text)).or_insert(0);
        *count += 1;
        *count
    }

    fn refusal(&self, refusal: &Refusal, ticket: &Ticket) -> Reply {
        ticket.ruled(refusal.rule());
        let (status, body) = refusal.answer(self.script.dialect.errors);
        Reply::json(status, &body)
    }

    /// What no script decides about.
    fn refuse(&self, refusal: &Refusal, ticket: Ticket, cut: Arc<Cut>) -> Response<Flow> {
        let reply = self.refusal(refusal, &ticket);
        respond(reply, None, Duration::ZERO, ticket, cut)
    }

    /// What the server itself says.
    async fn reply(
        &self,
        head: &Parts,
        asked: &Asked<'_>,
        applied: &Applied<'_>,
        ticket: &Ticket,
    ) -> Result<Reply, Refusal> {
        let Script { behaviour, dialect, seed, .. } = &self.script;
        let authorization = head.headers.get(hyper::header::AUTHORIZATION).map(hyper::http::HeaderValue::as_bytes);
        let wanted = dialect.key.as_ref().map(|key| format!("Bearer {key}"));
        if wanted.is_some_and(|wanted| authorization != Some(wanted.as_bytes())) {
            return Err(Refusal::Named(ErrorName::Unauthorized));
        }
        rules::check(dialect, asked)?;
        let shape = dialect.shape.clone().overlaid(&applied.shape);
        match asked.path {
            ApiPath::Models => models(dialect, head.uri.path()),
            ApiPath::Embeddings => Ok(Reply::json(200, &answer::embeddings(*behaviour, &shape, asked).await)),
            ApiPath::Chat => {
                let answer = answer::chat(*behaviour, dialect, &shape, *seed, asked).await?;
                answer.rules.iter().for_each(|rule| ticket.ruled(rule));
                ticket.note(|entry| entry.tokens = answer.body["usage"]["total_tokens"].as_u64());
                Ok(chat(&answer.body, &shape, asked))
            }
        }
    }
}

fn chat(body: &Value, shape: &Shape, asked: &Asked<'_>) -> Reply {
    if asked.streams() {
        let wants_usage = asked.body["stream_options"]["include_usage"] == true;
        return Reply::events(stream::events(body, shape, wants_usage));
    }
    Reply::json(200, body)
}

fn models(dialect: &Dialect, path: &str) -> Result<Reply, Refusal> {
    let model = |name: &str| json!({"id": name, "object": "model", "created": 0, "owned_by": "mock"});
    if let Some(name) = path.strip_prefix("/v1/models/") {
        rules::known_model(dialect, name)?;
        return Ok(Reply::json(200, &model(name)));
    }
    let data: Vec<_> = dialect.models.iter().map(|name| model(name)).collect();
    Ok(Reply::json(200, &json!({"object": "list", "data": data})))
}

/// What something before the server says.
fn from_before(instead: &Instead, dialect: &Dialect) -> Reply {
    match instead {
        Instead::Raw(raw) => Reply::text(raw.status, &raw.content_type, raw.body.clone()),
        Instead::Error(error) => {
            let (status, body) = Refusal::Named(error.kind).answer(dialect.errors);
            Reply::json(error.status.unwrap_or(status), &body)
        }
    }
}

/// The end of a connection over which nothing was sent.
async fn before_anything(how: How, ticket: &mut Ticket, cut: &Cut) -> Severed {
    match how {
        How::Hang => std::future::pending::<()>().await,
        How::Reset => cut.reset(),
        How::Close | How::Truncate | How::HalfChunk => {}
    }
    ticket.end(End::Severed);
    Severed
}

fn respond(reply: Reply, damage: Option<Damage>, pace: Duration, ticket: Ticket, cut: Arc<Cut>) -> Response<Flow> {
    ticket.note(|entry| entry.status = Some(reply.status));
    let mut response = Response::builder().status(reply.status).header(hyper::header::CONTENT_TYPE, reply.content_type);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let sending = damaged(reply.pieces, reply.streamed, damage, pace);
    response.body(Flow::new(sending, ticket, cut)).expect("a checked script holds only headers that HTTP knows")
}

fn damaged(pieces: Vec<String>, streamed: bool, damage: Option<Damage>, pace: Duration) -> Sending {
    let total: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    let mut pieces: VecDeque<Bytes> = pieces.into_iter().map(Bytes::from).collect();
    let length = (!streamed).then_some(total);
    let Some(Damage { how, after: Some(after) }) = damage else {
        return Sending { pieces, length, pace, ending: Ending::Whole };
    };
    // At least one byte is missing, or it would be no damage.
    let kept = after.min(total.saturating_sub(1));
    let rest = split_off(&mut pieces, kept);
    let (length, ending) = match how {
        How::Truncate => (length.map(|_| kept), Ending::Whole),
        How::Close => (length, Ending::Close),
        How::Reset => (length, Ending::Reset),
        How::Hang => (length, Ending::Hang),
        How::HalfChunk => {
            pieces.push_back(rest.into_iter().flatten().collect());
            (None, Ending::HalfChunk)
        }
    };
    Sending { pieces, length, pace, ending }
}

/// Leaves `kept` bytes; what comes after them is given back.
fn split_off(pieces: &mut VecDeque<Bytes>, mut kept: u64) -> VecDeque<Bytes> {
    let mut rest = std::mem::take(pieces);
    while let Some(mut piece) = rest.pop_front() {
        let room = usize::try_from(kept).unwrap_or(usize::MAX);
        if piece.len() > room {
            let head = piece.split_to(room);
            if !head.is_empty() {
                pieces.push_back(head);
            }
            rest.push_front(piece);
            break;
        }
        kept -= piece.len() as u64;
        pieces.push_back(piece);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(how: How, after: u64, streamed: bool) -> (Vec<String>, Option<u64>, Ending) {
        let pieces = vec!["abcd".to_owned(), "efgh".to_owned()];
        let sending = damaged(pieces, streamed, Some(Damage { how, after: Some(after) }), Duration::ZERO);
        let pieces = sending.pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
        (pieces, sending.length, sending.ending)
    }

    #[test]
    fn pieces_are_cut_where_the_script_says() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(sent(How::Truncate, 6, false), (texts(&["abcd", "ef"]), Some(6), Ending::Whole));
        assert_eq!(sent(How::Truncate, 6, true), (texts(&["abcd", "ef"]), None, Ending::Whole));
        assert_eq!(sent(How::Close, 4, false), (texts(&["abcd"]), Some(8), Ending::Close));
        assert_eq!(sent(How::Reset, 0, false), (texts(&[]), Some(8), Ending::Reset));
        assert_eq!(sent(How::HalfChunk, 2, false), (texts(&["ab", "cdefgh"]), None, Ending::HalfChunk));
        assert_eq!(sent(How::Hang, 99, true), (texts(&["abcd", "efg"]), None, Ending::Hang));
    }
}
