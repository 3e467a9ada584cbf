//! The one way to an endpoint: store first, then limits, then a turn for each attempt; every step recorded.

mod bisect;
mod error;
mod lessons;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::chat::{ChatReply, ChatRequest, EmbedRequest};
use crate::clock::now_utc;
use crate::endpoint::Profile;
use crate::endpoint::{Answered, Attempt, GaveUp, RetryPolicy, Why, with_turns};
use crate::endpoint::{EndpointError, ErrorKind, Route, Transport};
use crate::episode::{LimitKind, NotRunnable};
use crate::ids::Digest;
use crate::run::landing::Use;
use crate::schedule::{DEFAULT_DOWNTIME, Halt, Limits, Notice, Scheduler};
use crate::store::log::LogError;
use crate::store::responses::{FailedAttempt, Refusal, Request, Response, ResponseStore, Stored};
use crate::tokens;
use crate::turn::Turn;
use crate::usage::{Price, Usage};

pub use bisect::{is_probe, refused_schemas};
pub use error::{AskError, EndpointFailure};
use lessons::follow;
pub use lessons::{Lesson, lessons};

/// A usable answer.
#[derive(Debug)]
pub struct Answer<T> {
    pub key: Digest,
    pub reply: T,
    pub latency_ms: f64,
    pub backoff_ms: f64,
    /// Waiting for its turn among the requests of the run.
    pub queue_ms: f64,
    /// HTTP requests made for it, failed ones included.
    pub attempts: u32,
    /// Served from a stored answer.
    pub stored: bool,
}

/// What a run may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Caps {
    pub max_tokens: Option<u64>,
    /// US dollars; needs a known price.
    pub max_cost: Option<f64>,
    /// Of this process.
    pub max_time: Option<Duration>,
    /// How long the endpoint may be down; [`DEFAULT_DOWNTIME`] if not said.
    pub max_downtime: Option<Duration>,
}

/// What a run has spent: the answers in its own store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub requests: u64,
    pub tokens: u64,
    /// `None` if the model's price is unknown.
    pub cost: Option<f64>,
}

impl Spent {
    fn nothing(price: Option<Price>) -> Self {
        Self { cost: price.map(|_| 0.0), ..Self::default() }
    }

    fn add(&mut self, usage: &Usage, price: Option<Price>) {
        self.requests += 1;
        self.waste(usage, price);
    }

    /// Paid for, and of no use.
    fn waste(&mut self, usage: &Usage, price: Option<Price>) {
        self.tokens += usage.total();
        if let (Some(cost), Some(price)) = (self.cost.as_mut(), price) {
            *cost += price.cost(usage);
        }
    }
}

/// The way to one endpoint for one run.
pub struct Gateway {
    transport: Option<Arc<dyn Transport>>,
    store: ResponseStore,
    cassettes: Vec<ResponseStore>,
    profile: Profile,
    policy: RetryPolicy,
    caps: Caps,
    price: Option<Price>,
    spent: Mutex<Spent>,
    /// What was spent before this process, and when it began.
    begin: (Spent, Instant),
    scheduler: Arc<Scheduler>,
    in_flight: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    bisected: tokio::sync::Mutex<bisect::Bisected>,
    /// In the order in which they were learned.
    lessons: Mutex<Vec<Lesson>>,
    stop: tokio::sync::watch::Sender<bool>,
}

/// How a gateway is made. Without a transport only stored answers are served.
pub struct GatewayParts {
    pub transport: Option<Arc<dyn Transport>>,
    pub store: ResponseStore,
    pub cassettes: Vec<ResponseStore>,
    pub profile: Profile,
    pub policy: RetryPolicy,
    pub caps: Caps,
    pub price: Option<Price>,
}

impl Gateway {
    /// Reads from the store what the run has spent and learned so far.
    pub fn new(parts: GatewayParts) -> Result<Self, LogError> {
        let GatewayParts { transport, store, cassettes, profile, policy, caps, price } = parts;
        let scheduler = Scheduler::new(&Limits {
            concurrency: profile.concurrency,
            adaptive: profile.adaptive,
            requests_per_minute: profile.requests_per_minute,
            tokens_per_minute: profile.tokens_per_minute,
            max_time: caps.max_time,
            max_downtime: caps.max_downtime.unwrap_or(DEFAULT_DOWNTIME),
        });
        let bisected = tokio::sync::Mutex::new(bisect::Bisected::of(&store)?);
        let lessons = Mutex::new(lessons(&store)?);
        let mut gateway = Self {
            transport,
            store,
            cassettes,
            profile,
            policy,
            caps,
            price,
            spent: Mutex::default(),
            begin: (Spent::default(), Instant::now()),
            scheduler,
            in_flight: Mutex::default(),
            bisected,
            lessons,
            stop: tokio::sync::watch::Sender::new(false),
        };
        gateway.begin.0 = gateway.spent_on(|_| true)?;
        *gateway.spent.lock().unwrap_or_else(PoisonError::into_inner) = gateway.begin.0;
        gateway.halt_at_caps();
        Ok(gateway)
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub fn store(&self) -> &ResponseStore {
        &self.store
    }

    /// Host and port of the endpoint, where requests go to one.
    pub(crate) fn server(&self) -> Option<(&str, Option<u16>)> {
        self.transport.as_ref()?.server()
    }

    pub fn spent(&self) -> Spent {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of [`Self::spent`] that went into the answers to these requests.
    pub fn spent_on(&self, counts: impl Fn(&Digest) -> bool) -> Result<Spent, LogError> {
        let mut spent = Spent::nothing(self.price);
        for (key, usage) in self.store.wasted() {
            if counts(&key) {
                spent.waste(&usage, self.price);
            }
        }
        for answer in self.store.responses() {
            let (key, response) = answer?;
            if response.replayed || !counts(&key) {
                continue;
            }
            let usage = match Usage::parse(&response.body["usage"]) {
                Some(usage) => usage,
                None => estimate(&response.body, self.store.request(&key)?.as_ref()),
            };
            spent.add(&usage, self.price);
        }
        Ok(spent)
    }

    /// What there is to tell of the way to the endpoint, once there is something.
    pub async fn notice(&self) -> Notice {
        self.scheduler.notice().await
    }

    /// The same, if there is something by now.
    pub fn untold(&self) -> Option<Notice> {
        self.scheduler.untold()
    }

    /// The most requests that were in flight at once.
    pub fn most_in_flight(&self) -> usize {
        self.scheduler.most_in_flight()
    }

    /// How much is used of everything that is capped.
    pub fn uses(&self) -> Vec<Use> {
        let (spent, (before, begin)) = (self.spent(), self.begin);
        let tokens = self.caps.max_tokens.map(|cap| Use {
            kind: LimitKind::Tokens,
            before: before.tokens as f64,
            used: (spent.tokens - before.tokens) as f64,
            cap: cap as f64,
        });
        let cost = self.caps.max_cost.zip(before.cost).zip(spent.cost).map(|((cap, before), spent)| Use {
            kind: LimitKind::Cost,
            before,
            used: spent - before,
            cap,
        });
        let time = self.caps.max_time.map(|cap| Use {
            kind: LimitKind::Time,
            before: 0.0,
            used: begin.elapsed().as_secs_f64(),
            cap: cap.as_secs_f64(),
        });
        [tokens, cost, time].into_iter().flatten().collect()
    }

    /// Sends nothing more and waits for nothing: episodes under way end unfinished, and what was in flight is possibly
    /// billed.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Asks for a chat completion. `prompt_tokens` is the caller's estimate of the prompt. Where a schema is refused, whose it
    /// is gets found out on the way.
    pub async fn chat(
        &self,
        request: &ChatRequest,
        prompt_tokens: u64,
        repeat: u32,
    ) -> Result<Answer<ChatReply>, AskError> {
        self.check_limits(request, prompt_tokens)?;
        let asked = self.request(Route::Chat, self.profile.body(request), repeat);
        let answer = match self.ask(Route::Chat, asked, prompt_tokens).await {
            Err(AskError::Endpoint(failure)) => {
                self.blame(request, &failure.error).await?;
                return Err(AskError::Endpoint(failure));
            }
            answer => answer?,
        };
        let reply =
            ChatReply::parse(&answer.reply).map_err(|error| AskError::Endpoint(not_a_reply(&error.to_string())))?;
        Ok(answer.map(reply))
    }

    /// Asks for embeddings, one vector per text.
    pub async fn embed(&self, texts: &[String]) -> Result<Answer<Vec<Vec<f32>>>, AskError> {
        let model = self.profile.embed_model.clone().unwrap_or_else(|| self.profile.model.clone());
        let tokens = texts.iter().map(|text| tokens::count(text)).sum();
        let body = to_value(&EmbedRequest { model, input: texts.to_vec() });
        let answer = self.ask(Route::Embed, self.request(Route::Embed, body, 0), tokens).await?;
        let vectors: Option<Vec<Vec<f32>>> = answer.reply["data"]
            .as_array()
            .and_then(|rows| rows.iter().map(|row| serde_json::from_value(row["embedding"].clone()).ok()).collect());
        let vectors = vectors
            .filter(|vectors| vectors.len() == texts.len())
            .ok_or_else(|| AskError::Endpoint(not_a_reply("the body holds no embedding for each text")))?;
        Ok(answer.map(vectors))
    }

    /// METHODOLOGY.md, outcomes: estimate + 5 % + max output > context.
    fn check_limits(&self, request: &ChatRequest, prompt_tokens: u64) -> Result<(), AskError> {
        let not_runnable = |why, detail| Err(AskError::NotRunnable { why, detail });
        if let Some(max) = self.profile.max_tools
            && request.tools.len() > max
        {
            let detail = format!("{} tools, the endpoint takes {max}", request.tools.len());
            return not_runnable(NotRunnable::ToolLimit, detail);
        }
        if let Some(context) = self.profile.context_tokens {
            let output = u64::from(request.max_tokens.unwrap_or(0));
            let needed = prompt_tokens + prompt_tokens.div_ceil(20) + output;
            if needed > context {
                let detail = format!("about {needed} tokens with the answer, the context holds {context}");
                return not_runnable(NotRunnable::Context, detail);
            }
        }
        Ok(())
    }

    fn request(&self, route: Route, body: Value, repeat: u32) -> Request {
        Request { route: route.to_string(), endpoint: self.profile.id.clone(), repeat, body }
    }

    /// `tokens` is what the request is expected to use.
    async fn ask(&self, route: Route, request: Request, tokens: u64) -> Result<Answer<Value>, AskError> {
        let key = request.key();
        if let Some(known) = self.stored(&key, &request).await? {
            return known;
        }
        // Two episodes may need the same answer at once; the second waits for the first instead of asking again.
        let turn = {
            let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            in_flight.entry(key.clone()).or_default().clone()
        };
        let _turn = turn.lock().await;
        let result = match self.stored(&key, &request).await? {
            Some(known) => known,
            None => self.send(route, &request, &key, tokens).await,
        };
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and ours: nobody else waits, and whoever comes later starts anew.
        if Arc::strong_count(&turn) <= 2 {
            in_flight.remove(&key);
        }
        drop(in_flight);
        result
    }

    /// What this run or a recording knows; a recording's answer becomes the run's own, so that the run is whole by itself.
    async fn stored(&self, key: &Digest, request: &Request) -> Result<Option<Known>, AskError> {
        let mut known = self.store.stored(key)?;
        for cassette in &self.cassettes {
            if known.is_some() {
                break;
            }
            if let Some(recorded) = cassette.stored(key)? {
                self.store.adopt(key, request, recorded.clone(), now_utc()).await?;
                known = Some(recorded);
            }
        }
        Ok(known.map(|known| match known {
            Stored::Refusal(Refusal { error, attempts }) => {
                Err(AskError::Endpoint(EndpointFailure { error, attempts }))
            }
            Stored::Response(response) => Ok(Answer {
                key: key.clone(),
                reply: response.body,
                latency_ms: response.latency_ms,
                backoff_ms: response.failed.iter().map(|attempt| attempt.wait_ms).sum(),
                queue_ms: 0.0,
                attempts: 1 + response.failed.len() as u32,
                stored: true,
            }),
        }))
    }

    async fn send(
        &self,
        route: Route,
        request: &Request,
        key: &Digest,
        tokens: u64,
    ) -> Result<Answer<Value>, AskError> {
        let Some(transport) = &self.transport else {
            let stores = std::iter::once(&self.store).chain(&self.cassettes);
            let found = stores.map(|store| store.nearest(request)).collect::<Result<Vec<_>, _>>()?;
            let nearest = found.into_iter().flatten().min_by_key(|found| found.differences.len());
            return Err(AskError::NotRecorded { key: key.clone(), nearest: nearest.map(Box::new) });
        };
        let mut stop = self.stop.subscribe();
        if *stop.borrow() {
            return Err(AskError::Stopping);
        }
        let mut turn = Turn::new(&self.scheduler, &self.store, key, request, tokens);
        let (outcome, lessons) = tokio::select! {
            outcome = self.attempt(transport.as_ref(), route, &request.body, &mut turn) => outcome,
            _ = stop.wait_for(|stop| *stop) => return Err(AskError::Stopping),
        };
        let attempts = match &outcome {
            Ok(answered) => &answered.attempts,
            Err(gave_up) => &gave_up.attempts,
        };
        for usage in attempts.iter().filter_map(|attempt| attempt.usage) {
            self.spent.lock().unwrap_or_else(PoisonError::into_inner).waste(&usage, self.price);
        }
        match outcome {
            Ok(answered) => {
                let failed: Vec<_> = answered.attempts.iter().map(failed_attempt).collect();
                let Answered { value: body, latency_ms, .. } = answered;
                let response = Response { body, latency_ms, failed, replayed: false, lessons };
                let usage = Usage::parse(&response.body["usage"]);
                let usage = usage.unwrap_or_else(|| estimate(&response.body, Some(request)));
                self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(&usage, self.price);
                self.halt_at_caps();
                self.store.answer(key, response.clone(), now_utc()).await?;
                Ok(Answer {
                    key: key.clone(),
                    reply: response.body,
                    latency_ms: response.latency_ms,
                    backoff_ms: answered.backoff_ms as f64,
                    queue_ms: turn.queue_ms(),
                    attempts: 1 + response.failed.len() as u32,
                    stored: false,
                })
            }
            Err(GaveUp { why: Why::Closed(closed), attempts }) => {
                // What failed before is known; nothing is out.
                if !attempts.is_empty() {
                    self.store.give_up(key, attempts.iter().map(failed_attempt).collect(), now_utc()).await?;
                }
                Err(closed)
            }
            Err(GaveUp { why: Why::Error(error), attempts }) => {
                let count = attempts.len() as u32;
                log_end(&error, count);
                if error.kind.is_refusal() {
                    let refusal = Refusal { error: error.clone(), attempts: count };
                    self.store.refuse(key, refusal, now_utc()).await?;
                    return Err(AskError::Endpoint(EndpointFailure { error, attempts: count }));
                }
                self.halt_at_caps();
                self.store.give_up(key, attempts.iter().map(failed_attempt).collect(), now_utc()).await?;
                Err(AskError::Endpoint(EndpointFailure { error, attempts: count }))
            }
        }
    }

    /// Attempts in turn, and again where the endpoint refuses a parameter by its name: without it, or under the name that it
    /// wants. A lesson that an answer confirms holds for the rest of the run.
    async fn attempt(
        &self,
        transport: &dyn Transport,
        route: Route,
        asked: &Value,
        turn: &mut Turn<'_>,
    ) -> (Result<Answered, GaveUp<AskError>>, Vec<Lesson>) {
        let mut lessons = self.lessons.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut before: Vec<Attempt> = Vec::new();
        loop {
            let (body, followed) = follow(&lessons, asked);
            // The jitter of the waits is drawn from the key, so that no clock or shared state decides anything.
            let seed = turn.seed();
            let mut ignore = |_: &Attempt| {};
            let mut result = with_turns(transport, (route, &body), &self.policy, seed, turn, &mut ignore).await;
            let attempts = match &mut result {
                Ok(answered) => &mut answered.attempts,
                Err(gave_up) => &mut gave_up.attempts,
            };
            before.append(attempts);
            std::mem::swap(attempts, &mut before);
            match &mut result {
                Ok(_) => {
                    let mut known = self.lessons.lock().unwrap_or_else(PoisonError::into_inner);
                    let new: Vec<Lesson> = followed.iter().copied().filter(|lesson| !known.contains(lesson)).collect();
                    for lesson in &new {
                        info!(lesson = lesson.as_str(), "learned what the endpoint takes");
                    }
                    known.extend(new);
                    return (result, followed);
                }
                Err(GaveUp { why: Why::Error(error), attempts }) => match Lesson::of(error, &body) {
                    Some(lesson) if !lessons.contains(&lesson) => {
                        lessons.push(lesson);
                        before = std::mem::take(attempts);
                    }
                    _ => return (result, followed),
                },
                Err(GaveUp { why: Why::Closed(_), .. }) => return (result, followed),
            }
        }
    }

    /// Time is the scheduler's own.
    fn halt_at_caps(&self) {
        let spent = self.spent();
        if self.caps.max_tokens.is_some_and(|max| spent.tokens >= max) {
            self.scheduler.halt(Halt::Cap(LimitKind::Tokens));
        }
        if let (Some(max), Some(cost)) = (self.caps.max_cost, spent.cost)
            && cost >= max
        {
            self.scheduler.halt(Halt::Cap(LimitKind::Cost));
        }
    }
}

/// Says in the log how a request ended that has no answer.
fn log_end(error: &EndpointError, attempts: u32) {
    let (kind, status, reason) = (error.kind.as_str(), error.status, error.message.as_str());
    if error.kind.is_refusal() {
        // The outcome of its episode says so, and a report counts it: thousands of these are no news.
        debug!(kind, status, attempts, reason, "request refused");
    } else {
        warn!(kind, status, attempts, reason, "request given up");
    }
}

/// What an answer cost that does not say so: better than a cap that never closes.
fn estimate(body: &Value, request: Option<&Request>) -> Usage {
    Usage {
        input_tokens: request.map_or(0, |request| tokens::count_json(&request.body)),
        output_tokens: tokens::count_json(body),
        ..Usage::default()
    }
}

/// An answer or a refusal that need not be asked for.
type Known = Result<Answer<Value>, AskError>;

impl<T> Answer<T> {
    fn map<U>(self, reply: U) -> Answer<U> {
        let Self { key, latency_ms, backoff_ms, queue_ms, attempts, stored, .. } = self;
        Answer { key, reply, latency_ms, backoff_ms, queue_ms, attempts, stored }
    }
}

fn to_value<T: serde::Serialize>(request: &T) -> Value {
    serde_json::to_value(request).expect("plain data serialises")
}

fn failed_attempt(attempt: &Attempt) -> FailedAttempt {
    FailedAttempt {
        kind: attempt.kind.as_str().to_owned(),
        status: attempt.status,
        message: attempt.message.clone(),
        elapsed_ms: attempt.elapsed_ms,
        wait_ms: attempt.wait_ms as f64,
        usage: attempt.usage,
    }
}

fn not_a_reply(message: &str) -> EndpointFailure {
    let error =
        EndpointError { kind: ErrorKind::Decode, status: None, message: message.to_owned(), retry_after_ms: None };
    EndpointFailure { error, attempts: 1 }
}
