//! The way from a probe to the endpoint: every request is counted, bounded in time and tokens, and shown to an observer.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::facts::{Rates, Sample};
use crate::chat::ChatReply;
use crate::clock::{Stopwatch, now_utc};
use crate::endpoint::{
    Answered, Attempt, EndpointError, ErrorKind, RetryPolicy, Route, Streamed, Transport, TransportError, WireResponse,
    classify, with_retries,
};
use crate::tokens;
use crate::usage::Usage;

/// What goes on, for a progress line and a log.
#[derive(Debug)]
pub enum Event<'e> {
    /// A probe begins.
    Probe(&'static str),
    /// An attempt has ended.
    Exchange(Exchange<'e>),
}

/// One HTTP attempt. The key is in none of it.
#[derive(Debug, Serialize)]
pub struct Exchange<'e> {
    /// `r01`, `r02`, …: what the evidence of a finding names.
    pub id: String,
    pub probe: &'static str,
    pub at: String,
    /// The path below the base URL.
    pub route: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<&'e Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The body as it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'e str>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub elapsed_ms: f64,
}

/// Sees every event.
pub type Observer<'o> = &'o (dyn Fn(Event<'_>) + Sync);

/// Why a probe was not tried, or not to its end. It says nothing about the endpoint's abilities.
#[derive(Debug)]
pub(super) enum Stop {
    /// The time of the whole examination is used up, or the request would take longer than is left.
    Time { needed_s: Option<f64>, left_s: f64 },
    /// The request might exceed what all requests together may use.
    Tokens { needed: u64, left: u64 },
    /// The infrastructure, not the request.
    Endpoint(EndpointError),
    /// Another probe found that this one would be pointless.
    Pointless(&'static str),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { needed_s: Some(needed), left_s } => write!(
                f,
                "not enough time: up to {needed:.0} s at the measured speed, {left_s:.0} s were left; allow more with --budget"
            ),
            Self::Time { needed_s: None, .. } => f.write_str("the time was up; allow more with --budget"),
            Self::Tokens { needed, left } => {
                write!(f, "it may use {needed} tokens, {left} are left; allow more with --max-tokens")
            }
            Self::Endpoint(error) => write!(f, "no answer: {}", super::short(&error.to_string(), 200)),
            Self::Pointless(why) => f.write_str(why),
        }
    }
}

/// A usable chat completion.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Value,
    pub(super) reply: ChatReply,
    /// Time and tokens of it.
    pub(super) sample: Sample,
}

/// What a request for a completion came to.
#[derive(Debug)]
pub(super) enum Heard {
    Answer(Box<Answer>),
    /// The server, or the model behind it, does not take this request.
    Refused(EndpointError),
}

impl Heard {
    /// The request itself was taken, whatever the model made of it.
    pub(super) fn accepted(&self) -> bool {
        match self {
            Self::Answer(_) => true,
            Self::Refused(error) => error.kind == ErrorKind::ModelError,
        }
    }
}

/// Requests and tokens so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Used {
    /// HTTP attempts.
    pub requests: u32,
    /// Tokens, reported where the server reports them and estimated where not.
    pub tokens: u64,
    /// Completions.
    pub answers: u32,
    /// Completions that came with usage.
    pub reported: u32,
}

struct State {
    probe: &'static str,
    policy: RetryPolicy,
    deadline: Option<Instant>,
    used: Used,
    rates: Rates,
}

/// An examination under way.
pub(super) struct Session<'s> {
    transport: &'s dyn Transport,
    observe: Observer<'s>,
    max_tokens: u64,
    state: Mutex<State>,
}

impl<'s> Session<'s> {
    pub(super) fn new(transport: &'s dyn Transport, observe: Observer<'s>, max_tokens: u64, time: Duration) -> Self {
        let state = State {
            probe: "",
            policy: RetryPolicy::default(),
            deadline: Some(Instant::now() + time),
            used: Used::default(),
            rates: Rates::default(),
        };
        Self { transport, observe, max_tokens, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used(&self) -> Used {
        self.state().used
    }

    pub(super) fn begin(&self, probe: &'static str) {
        self.state().probe = probe;
        (self.observe)(Event::Probe(probe));
    }

    pub(super) fn set_policy(&self, policy: RetryPolicy) {
        self.state().policy = policy;
    }

    pub(super) fn rates(&self) -> Rates {
        self.state().rates
    }

    pub(super) fn set_rates(&self, rates: Rates) {
        self.state().rates = rates;
    }

    /// From here on only tokens are bounded.
    pub(super) fn lift_time(&self) {
        self.state().deadline = None;
    }

    /// Seconds that are left; `None` if they are not bounded.
    pub(super) fn left_s(&self) -> Option<f64> {
        let deadline = self.state().deadline?;
        Some(deadline.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    pub(super) fn left_tokens(&self) -> u64 {
        self.max_tokens.saturating_sub(self.used().tokens)
    }

    /// Asks for a completion.
    pub(super) async fn chat(&self, body: &Value) -> Result<Heard, Stop> {
        let (input, _) = cost(body);
        let answered = match self.send(Route::Chat, body).await? {
            Ok(answered) => answered,
            Err(error) => return Ok(Heard::Refused(error)),
        };
        // `classify` lets nothing else pass.
        let Ok(reply) = ChatReply::parse(&answered.value) else {
            let message = "the answer is no completion".to_owned();
            let error = EndpointError { kind: ErrorKind::Decode, status: None, message, retry_after_ms: None };
            return Ok(Heard::Refused(error));
        };
        let sample = Sample::new(&reply, input, answered.latency_ms / 1e3);
        let mut state = self.state();
        state.used.answers += 1;
        state.used.reported += u32::from(reply.usage.is_some());
        drop(state);
        Ok(Heard::Answer(Box::new(Answer { body: answered.value, reply, sample })))
    }

    /// Sends a request with the retries of our policy. The inner error is the server's word on this very request.
    pub(super) async fn send(&self, route: Route, body: &Value) -> Result<Result<Answered, EndpointError>, Stop> {
        self.check(body)?;
        let (policy, deadline) = {
            let state = self.state();
            (state.policy, state.deadline)
        };
        let mut ignore = |_: &Attempt| {};
        let attempts = with_retries(self, route, body, &policy, 1, &mut ignore);
        let outcome = match deadline {
            Some(deadline) => timeout_at(deadline, attempts).await,
            None => Ok(attempts.await),
        };
        let (input, output) = cost(body);
        match outcome {
            Err(_) => {
                // Possibly billed all the same.
                self.spend(input + output);
                self.record(&route.to_string(), Some(body), Err("not waited for: the time was up".to_owned()), 0.0);
                Err(Stop::Time { needed_s: None, left_s: 0.0 })
            }
            Ok(Err((error, _))) if is_infrastructure(error.kind) => Err(Stop::Endpoint(error)),
            Ok(Err((error, _))) => Ok(Err(error)),
            Ok(Ok(answered)) => {
                let usage = Usage::parse(&answered.value["usage"]);
                self.spend(usage.map_or_else(|| input + tokens::count_json(&answered.value), |usage| usage.total()));
                Ok(Ok(answered))
            }
        }
    }

    /// Asks for a stream, once.
    pub(super) async fn stream(&self, body: &Value) -> Result<Result<Streamed, EndpointError>, Stop> {
        self.check(body)?;
        let watch = Stopwatch::start();
        let answer = self.within_time(self.transport.stream(body)).await?;
        let response = answer.as_ref().map(|streamed| &streamed.response).map_err(ToString::to_string);
        self.record(&Route::Chat.to_string(), Some(body), response, watch.elapsed_ms());
        let (input, output) = cost(body);
        self.spend(input + output);
        let streamed = answer.map_err(|error| Stop::Endpoint(error.into()))?;
        if (200..300).contains(&streamed.response.status) {
            return Ok(Ok(streamed));
        }
        match classify(Route::Chat, &streamed.response) {
            Err(error) if is_infrastructure(error.kind) => Err(Stop::Endpoint(error)),
            Err(error) => Ok(Err(error)),
            Ok(_) => Ok(Ok(streamed)),
        }
    }

    /// Asks for the list of models, once.
    pub(super) async fn models(&self) -> Result<WireResponse, Stop> {
        let watch = Stopwatch::start();
        let answer = self.within_time(self.transport.models()).await?;
        self.record("models", None, answer.as_ref().map_err(ToString::to_string), watch.elapsed_ms());
        answer.map_err(|error| Stop::Endpoint(error.into()))
    }

    async fn within_time<T>(&self, answer: BoxFuture<'_, T>) -> Result<T, Stop> {
        let deadline = self.state().deadline;
        match deadline {
            Some(deadline) => {
                timeout_at(deadline, answer).await.map_err(|_| Stop::Time { needed_s: None, left_s: 0.0 })
            }
            None => Ok(answer.await),
        }
    }

    /// Whether a request may be sent at all.
    fn check(&self, body: &Value) -> Result<(), Stop> {
        let (input, output) = cost(body);
        let left = self.left_tokens();
        if input + output > left {
            return Err(Stop::Tokens { needed: input + output, left });
        }
        let Some(left_s) = self.left_s() else { return Ok(()) };
        if left_s <= 0.0 {
            return Err(Stop::Time { needed_s: None, left_s });
        }
        match self.rates().seconds(input, output) {
            Some(needed) if needed > left_s => Err(Stop::Time { needed_s: Some(needed), left_s }),
            _ => Ok(()),
        }
    }

    fn spend(&self, tokens: u64) {
        self.state().used.tokens += tokens;
    }

    fn record(&self, route: &str, request: Option<&Value>, answer: Result<&WireResponse, String>, elapsed_ms: f64) {
        let (probe, number) = {
            let mut state = self.state();
            state.used.requests += 1;
            (state.probe, state.used.requests)
        };
        let (response, error) = match answer {
            Ok(response) => (Some(response), None),
            Err(error) => (None, Some(error)),
        };
        (self.observe)(Event::Exchange(Exchange {
            id: exchange_id(number),
            probe,
            at: now_utc(),
            route,
            request,
            status: response.map(|response| response.status),
            answer: response.map(|response| response.body.as_str()),
            error,
            elapsed_ms,
        }));
    }
}

impl Transport for Session<'_> {
    fn post<'a>(&'a self, route: Route, body: &'a Value) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        Box::pin(async move {
            let watch = Stopwatch::start();
            let answer = self.transport.post(route, body).await;
            let seen = answer.as_ref().map_err(ToString::to_string);
            self.record(&route.to_string(), Some(body), seen, watch.elapsed_ms());
            answer
        })
    }
}

pub(super) fn exchange_id(number: u32) -> String {
    format!("r{number:02}")
}

/// Tokens of a request: an estimate of its prompt, and the most that it lets the model write.
pub(super) fn cost(body: &Value) -> (u64, u64) {
    let parts = ["messages", "tools", "response_format", "input"];
    let input = parts.iter().filter_map(|part| body.get(part)).map(tokens::count_json).sum();
    let limits = ["max_tokens", "max_completion_tokens"];
    (input, limits.iter().find_map(|limit| body[limit].as_u64()).unwrap_or(0))
}

/// Errors of the way to the server, or of the caller's account, which say nothing of the request.
fn is_infrastructure(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Connect
            | ErrorKind::Timeout
            | ErrorKind::Broken
            | ErrorKind::Redirected
            | ErrorKind::RateLimited
            | ErrorKind::QuotaExhausted
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::facts::user;
    use super::super::testing::{Paced, good, refuses};
    use super::*;
    use crate::endpoint::Scripted;

    fn request(max_tokens: u64) -> Value {
        json!({"model": "m", "messages": user("Reply with the word yes."), "max_tokens": max_tokens})
    }

    #[tokio::test]
    async fn nothing_is_sent_that_might_exceed_the_tokens() {
        let transport = Scripted::with(|_, body| Ok(good(body)));
        let session = Session::new(&transport, &|_: Event<'_>| (), 200, Duration::from_secs(60));
        assert!(matches!(session.chat(&request(500)).await, Err(Stop::Tokens { needed, left: 200 }) if needed > 500));
        assert_eq!(session.used().requests, 0);
        assert!(session.chat(&request(8)).await.is_ok());
        assert!(session.used().tokens > 0 && session.left_tokens() < 200);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_beyond_the_time() {
        let server = Paced { prompt_per_s: 1.0, output_per_s: 1.0, queue: None };
        let seen = Mutex::new(Vec::new());
        let observe = |event: Event<'_>| {
            if let Event::Exchange(exchange) = event {
                seen.lock().unwrap().push((exchange.id, exchange.error));
            }
        };
        let session = Session::new(&server, &observe, 10_000, Duration::from_secs(5));
        let start = Instant::now();
        assert!(matches!(session.chat(&request(8)).await, Err(Stop::Time { needed_s: None, .. })));
        assert_eq!(start.elapsed().as_secs(), 5);
        assert!(session.used().tokens > 8, "what was under way is possibly billed");
        assert!(matches!(session.chat(&request(8)).await, Err(Stop::Time { .. })), "and nothing more is sent");
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].0, "r01");
        assert!(seen[0].1.as_ref().unwrap().contains("the time was up"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_would_take_too_long_is_not_begun() {
        let transport = Scripted::with(|_, body| Ok(good(body)));
        let session = Session::new(&transport, &|_: Event<'_>| (), 10_000, Duration::from_secs(5));
        session.set_rates(Rates { prompt_per_s: Some(1.0), output_per_s: None });
        let stop = session.chat(&request(8)).await.unwrap_err();
        assert!(stop.to_string().contains("5 s were left; allow more with --budget"), "{stop}");
        session.lift_time();
        assert!(session.chat(&request(8)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_way_to_the_server_is_no_word_of_the_server() {
        let transport = Scripted::with(|_, _| Ok(refuses(429, "slow down")));
        let session = Session::new(&transport, &|_: Event<'_>| (), 10_000, Duration::from_secs(600));
        assert!(matches!(session.chat(&request(8)).await, Err(Stop::Endpoint(_))));
        assert_eq!(session.used().requests, RetryPolicy::default().max_attempts, "repeated as the policy says");
        let transport = Scripted::with(|_, _| Ok(refuses(400, "unknown field")));
        let session = Session::new(&transport, &|_: Event<'_>| (), 10_000, Duration::from_secs(600));
        let heard = session.chat(&request(8)).await.unwrap();
        assert!(matches!(&heard, Heard::Refused(error) if error.kind == ErrorKind::BadRequest) && !heard.accepted());
    }
}
