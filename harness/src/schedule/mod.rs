//! When a request may be sent.
//!
//! Every attempt passes the [`Scheduler`] and holds a [`Permit`] while it is out; what waits for its next attempt holds none.
//! Requests pass in the order in which they came. The one at the head waits for everything at once: for a free place under a
//! limit that adapts to the server, for the rates per minute, for what the server asked for in `Retry-After` (which holds
//! everybody, not only the one it was said to), and for an endpoint that is down. Whatever ends a run ends the waiting.
//!
//! Time is tokio's, so that tests run on a paused clock.

mod adaptive;
mod breaker;
mod bucket;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use self::adaptive::Adaptive;
use self::breaker::{Breaker, Change, LONGEST_PAUSE, Way};
use self::bucket::Bucket;
use crate::episode::LimitKind;
use crate::text::plain;

/// How long an endpoint may be down before a run ends.
pub const DEFAULT_DOWNTIME: Duration = Duration::from_secs(10 * 60);

/// Repetitions that a run may make in any case, and one more for every so many attempts that the endpoint served.
const REPETITIONS: u64 = 100;
const SERVED_PER_REPETITION: u64 = 10;

/// What a run keeps to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests in flight at most.
    pub concurrency: usize,
    /// Fewer while the endpoint has too much to do.
    pub adaptive: bool,
    pub requests_per_minute: Option<u64>,
    /// Prompt and answer together.
    pub tokens_per_minute: Option<u64>,
    /// From now on.
    pub max_time: Option<Duration>,
    /// Zero = a request that gets no answer fails, and the run goes on.
    pub max_downtime: Duration,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With the tokens that it used, if the server says so.
    Answered { latency: Duration, tokens: Option<u64> },
    /// No, for a reason that lies in the request. The endpoint works.
    Refused,
    /// Too many requests, or too much in them.
    RateLimited(Trouble),
    /// No answer: no connection, none in time, a fault of the server.
    Unavailable(Trouble),
}

/// What is known of an attempt that came to nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trouble {
    pub retry_after: Duration,
    /// The server has too much to do.
    pub overload: bool,
    /// For people.
    pub what: String,
}

/// Why nothing more is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    Cap(LimitKind),
    /// The endpoint was down for as long as the run waits; the last error.
    Down {
        seconds: u64,
        error: String,
    },
}

/// What people may want to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The endpoint answers nobody; after this long one request asks whether it is back.
    Paused {
        pause: Duration,
        error: String,
    },
    /// It answers again.
    Resumed {
        down: Duration,
    },
    /// Another limit on requests in flight.
    InFlight {
        limit: usize,
    },
    /// Failed attempts are not repeated any more.
    NoRepetitions {
        repetitions: u64,
    },
    Halted(Halt),
}

impl Notice {
    /// Says it in the log, within the request that brought it about.
    fn log(&self) {
        match self {
            Self::Paused { pause, error } => {
                warn!(pause_s = pause.as_secs_f64(), reason = %plain(error), "paused: the endpoint answers nobody");
            }
            Self::Resumed { down } => info!(down_s = down.as_secs_f64(), "resumed: the endpoint answers again"),
            Self::InFlight { limit } => info!(limit, "another limit on requests in flight"),
            Self::NoRepetitions { repetitions } => {
                warn!(repetitions, "too much fails: failed attempts are not repeated any more");
            }
            Self::Halted(Halt::Cap(cap)) => warn!(cap = cap.as_str(), "stopped at a cap: no further request is sent"),
            Self::Halted(Halt::Down { seconds, error }) => {
                error!(down_s = seconds, reason = %plain(error), "gave up: the endpoint answers nobody");
            }
        }
    }
}

/// Lets requests through.
#[derive(Debug)]
pub struct Scheduler {
    /// Held by the request that is next. Whoever else waits, waits here, in the order of arrival.
    head: tokio::sync::Mutex<()>,
    /// Something changed that the next request may wait for.
    changed: Notify,
    state: Mutex<State>,
    deadline: Option<Instant>,
    heard: tokio::sync::Mutex<mpsc::UnboundedReceiver<Notice>>,
}

#[derive(Debug)]
struct State {
    adaptive: Adaptive,
    in_flight: usize,
    most_in_flight: usize,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Nothing is sent before.
    held_until: Instant,
    breaker: Breaker,
    halted: Option<Halt>,
    /// Attempts to which the endpoint said something.
    served: u64,
    repetitions: u64,
    repetitions_refused: bool,
    notices: mpsc::UnboundedSender<Notice>,
}

/// What the request at the head is told.
enum Step {
    Go { round: u64, asks: bool },
    WaitUntil(Instant),
    WaitForChange,
    Halted(Halt),
}

impl Scheduler {
    pub fn new(limits: &Limits) -> Arc<Self> {
        let now = Instant::now();
        let (notices, heard) = mpsc::unbounded_channel();
        let bucket = |rate: Option<u64>| rate.map(|rate| Bucket::per_minute(rate, now));
        Arc::new(Self {
            head: tokio::sync::Mutex::new(()),
            changed: Notify::new(),
            state: Mutex::new(State {
                adaptive: if limits.adaptive {
                    Adaptive::new(limits.concurrency)
                } else {
                    Adaptive::fixed(limits.concurrency)
                },
                in_flight: 0,
                most_in_flight: 0,
                requests: bucket(limits.requests_per_minute),
                tokens: bucket(limits.tokens_per_minute),
                held_until: now,
                breaker: Breaker::new(limits.max_downtime),
                halted: None,
                served: 0,
                repetitions: 0,
                repetitions_refused: false,
                notices,
            }),
            deadline: limits.max_time.map(|time| now + time),
            heard: tokio::sync::Mutex::new(heard),
        })
    }

    /// Waits until an attempt may be sent. `request` says which attempts are of one request, `tokens` is what it is expected to
    /// use. May be dropped at any time.
    pub async fn admit(self: &Arc<Self>, request: u64, tokens: u64) -> Result<Permit, Halt> {
        let _head = self.head.lock().await;
        loop {
            match self.step(tokens, Instant::now()) {
                Step::Go { round, asks } => {
                    let scheduler = Arc::clone(self);
                    return Ok(Permit { scheduler, request, tokens, round, asks, out: true });
                }
                Step::Halted(why) => return Err(why),
                Step::WaitForChange => self.changed.notified().await,
                Step::WaitUntil(time) => tokio::select! {
                    () = sleep_until(time) => {}
                    () = self.changed.notified() => {}
                },
            }
        }
    }

    /// Sends nothing more. The first reason stands.
    pub fn halt(&self, why: Halt) {
        self.state().halt(why);
        self.changed.notify_one();
    }

    /// Whether one more attempt at a request may be made; otherwise why not. A run has a limited number of repetitions: where
    /// a good part of all requests fails, repeating adds to the trouble (the retry budget of Beyer et al., "Site Reliability
    /// Engineering", 2016, chapter 21).
    pub fn repeat(&self) -> Result<(), String> {
        let mut state = self.state();
        let repetitions = state.repetitions;
        if repetitions < REPETITIONS + state.served / SERVED_PER_REPETITION {
            state.repetitions += 1;
            return Ok(());
        }
        if !state.repetitions_refused {
            state.repetitions_refused = true;
            state.tell(Notice::NoRepetitions { repetitions });
        }
        Err(format!("the {repetitions} repetitions that this run may make are used up"))
    }

    /// The next thing to tell. Notices are kept until somebody asks; of several who ask, one is told.
    pub async fn notice(&self) -> Notice {
        match self.heard.lock().await.recv().await {
            Some(notice) => notice,
            None => std::future::pending().await,
        }
    }

    /// A notice that waits to be told.
    pub fn untold(&self) -> Option<Notice> {
        self.heard.try_lock().ok()?.try_recv().ok()
    }

    /// The most attempts that were out at once.
    pub fn most_in_flight(&self) -> usize {
        self.state().most_in_flight
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, tokens: u64, now: Instant) -> Step {
        let mut state = self.state();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            state.halt(Halt::Cap(LimitKind::Time));
        }
        match (state.step(tokens, now), self.deadline) {
            (Step::WaitUntil(time), Some(deadline)) => Step::WaitUntil(time.min(deadline)),
            (Step::WaitForChange, Some(deadline)) => Step::WaitUntil(deadline),
            (step, _) => step,
        }
    }
}

impl State {
    fn step(&mut self, tokens: u64, now: Instant) -> Step {
        if let Some(why) = &self.halted {
            return Step::Halted(why.clone());
        }
        let asks = match self.breaker.way(now) {
            Way::WaitUntil(time) => return Step::WaitUntil(time),
            Way::WaitForAnswer => return Step::WaitForChange,
            Way::Ask => true,
            Way::Free => false,
        };
        // What is still out from before an outage does not keep anybody from asking.
        if !asks && self.in_flight >= self.adaptive.limit() {
            return Step::WaitForChange;
        }
        let rate =
            |bucket: &mut Option<Bucket>, amount| bucket.as_mut().map_or(Duration::ZERO, |b| b.wait(amount, now));
        let wait = rate(&mut self.requests, 1).max(rate(&mut self.tokens, tokens));
        let go = (now + wait).max(self.held_until);
        if go > now {
            return Step::WaitUntil(go);
        }
        if let Some(bucket) = &mut self.requests {
            bucket.take(1);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.take(tokens);
        }
        if asks {
            self.breaker.ask();
        }
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        Step::Go { round: self.adaptive.round(), asks }
    }

    fn halt(&mut self, why: Halt) {
        if self.halted.is_none() {
            self.tell(Notice::Halted(why.clone()));
            self.halted = Some(why);
        }
    }

    fn tell(&self, notice: Notice) {
        notice.log();
        // The receiver lives as long as this.
        let _ = self.notices.send(notice);
    }

    /// What the end of an attempt means for those that come.
    fn ended(&mut self, permit: &Permit, outcome: Outcome, now: Instant) {
        let Permit { request, asks, round, .. } = *permit;
        let change = match outcome {
            Outcome::Answered { latency, tokens } => {
                if let (Some(bucket), Some(used)) = (&mut self.tokens, tokens) {
                    bucket.correct(permit.tokens, used, now);
                }
                self.adaptive.answered(round, permit.tokens, latency, self.in_flight);
                return self.served(asks, now);
            }
            Outcome::Refused => return self.served(asks, now),
            Outcome::RateLimited(Trouble { retry_after, what, .. }) => {
                self.held_until = self.held_until.max(now + retry_after);
                // What is refused to a single request is no matter of how many.
                let alone = self.adaptive.limit() == 1 && self.adaptive.round() == round;
                self.adaptive.overloaded(round);
                if self.adaptive.is_fixed() && !asks {
                    (self.breaker.failed(request, asks, retry_after, now), what)
                } else if alone || asks || retry_after > LONGEST_PAUSE {
                    (self.breaker.refused(request, asks, retry_after, now), what)
                } else {
                    return;
                }
            }
            Outcome::Unavailable(Trouble { retry_after, overload, what }) => {
                self.held_until = self.held_until.max(now + retry_after);
                if overload {
                    self.adaptive.overloaded(round);
                }
                (self.breaker.failed(request, asks, retry_after, now), what)
            }
        };
        match change {
            (Change::None, _) => {}
            (Change::Paused(pause), error) => self.tell(Notice::Paused { pause, error }),
            (Change::GaveUp(down), error) => self.halt(Halt::Down { seconds: down.as_secs(), error }),
        }
    }

    fn served(&mut self, asked: bool, now: Instant) {
        self.served += 1;
        if let Some(down) = self.breaker.answered(asked, now) {
            // Whatever waited would otherwise come all at once.
            self.adaptive.restart();
            self.tell(Notice::Resumed { down });
        }
    }
}

/// Stands for an attempt that is out. Dropped, it says that nothing is known of its end.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    scheduler: Arc<Scheduler>,
    request: u64,
    tokens: u64,
    round: u64,
    /// It asks whether an endpoint that was down is back.
    asks: bool,
    out: bool,
}

impl Permit {
    /// Says how the attempt ended. Whether it is no use to judge a request by it, since the endpoint is down or the run ends: the
    /// request may come again at once and is let through when the time has come, or told why not.
    pub fn done(mut self, outcome: Outcome) -> bool {
        self.end(Some(outcome))
    }

    fn end(&mut self, outcome: Option<Outcome>) -> bool {
        if !std::mem::take(&mut self.out) {
            return false;
        }
        let now = Instant::now();
        let down = {
            let mut state = self.scheduler.state();
            let limit = state.adaptive.limit();
            match outcome {
                Some(outcome) => state.ended(self, outcome, now),
                None if self.asks => state.breaker.not_asked(now),
                None => {}
            }
            state.in_flight -= 1;
            if state.adaptive.limit() != limit {
                state.tell(Notice::InFlight { limit: state.adaptive.limit() });
            }
            !state.breaker.is_closed() || state.halted.is_some()
        };
        self.scheduler.changed.notify_one();
        down
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(None);
    }
}

#[cfg(test)]
mod tests;
