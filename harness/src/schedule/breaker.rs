//! Notices an endpoint that answers nobody, lets one request after another ask whether it is back, and gives up in the end.
//!
//! The circuit breaker of Nygard ("Release It!", 2007). Pauses between questions are drawn evenly from zero to a limit that
//! doubles (full jitter, Brooker 2015), so that many callers do not come back together.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

/// Different requests without an answer, none answered in between, after which an endpoint counts as down.
const OPEN_AFTER: usize = 3;
/// Limit of the first pause; doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Limit of all pauses, unless the server asks for more. A server that asks for more is down by its own word.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Patience with an endpoint that never answered: it is more likely to be a wrong address than a short outage.
const PATIENCE_AT_FIRST: Duration = Duration::from_secs(5);

/// Whether requests may be sent.
#[derive(Debug)]
pub(super) struct Breaker {
    patience: Duration,
    state: State,
    /// Different requests that failed since the last answer.
    failed: Vec<u64>,
    /// When it opened.
    since: Option<Instant>,
    answered: bool,
    rng: ChaCha8Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Nothing is sent before this time, then one request.
    Open {
        until: Instant,
        pauses: u32,
    },
    /// One request is out.
    Asking {
        pauses: u32,
    },
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Free,
    /// It may be the one that asks.
    Ask,
    WaitUntil(Instant),
    WaitForAnswer,
}

/// What a failure led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// Nothing is sent for this long.
    Paused(Duration),
    /// There was no answer for this long, and patience is at its end.
    GaveUp(Duration),
}

impl Breaker {
    /// Gives up after `patience` without an answer; zero never pauses and never gives up.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            state: State::Closed,
            failed: Vec::new(),
            since: None,
            answered: false,
            rng: ChaCha8Rng::seed_from_u64(0),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    pub(super) fn way(&self, now: Instant) -> Way {
        match self.state {
            State::Closed => Way::Free,
            State::Open { until, .. } if now < until => Way::WaitUntil(until),
            State::Open { .. } => Way::Ask,
            State::Asking { .. } => Way::WaitForAnswer,
        }
    }

    /// A request that was told to ask is sent.
    pub(super) fn ask(&mut self) {
        if let State::Open { pauses, .. } = self.state {
            self.state = State::Asking { pauses };
        }
    }

    /// The request that asked was dropped; another may ask at once.
    pub(super) fn not_asked(&mut self, now: Instant) {
        if let State::Asking { pauses } = self.state {
            self.state = State::Open { until: now, pauses };
        }
    }

    /// The endpoint works. How long it was down if that ends here: while it is, only the request that `asked` says so, since
    /// others may have been sent long before.
    pub(super) fn answered(&mut self, asked: bool, now: Instant) -> Option<Duration> {
        self.answered = true;
        if self.state != State::Closed && !asked {
            return None;
        }
        self.state = State::Closed;
        self.failed.clear();
        self.since.take().map(|since| now - since)
    }

    /// A request was not answered.
    pub(super) fn failed(&mut self, request: u64, asked: bool, at_least: Duration, now: Instant) -> Change {
        if !self.failed.contains(&request) && self.failed.len() < OPEN_AFTER {
            self.failed.push(request);
        }
        let enough = self.failed.len() >= OPEN_AFTER || at_least > LONGEST_PAUSE;
        self.no_answer(request, asked, enough, at_least, now)
    }

    /// The server takes not even one request at a time, by its own word. It is alive, and yet there is no way to an answer but
    /// to wait.
    pub(super) fn refused(&mut self, request: u64, asked: bool, at_least: Duration, now: Instant) -> Change {
        self.answered = true;
        self.no_answer(request, asked, true, at_least, now)
    }

    fn no_answer(&mut self, request: u64, asked: bool, enough: bool, at_least: Duration, now: Instant) -> Change {
        if self.patience.is_zero() {
            return Change::None;
        }
        let pauses = match self.state {
            State::Closed if enough => {
                self.rng = ChaCha8Rng::seed_from_u64(request);
                0
            }
            State::Asking { pauses } if asked => pauses,
            // Not down yet, or sent before it was found to be.
            _ => return Change::None,
        };
        let since = *self.since.get_or_insert(now);
        let patience = if self.answered { self.patience } else { self.patience.min(PATIENCE_AT_FIRST) };
        let down = now - since;
        if down.max(at_least) >= patience {
            return Change::GaveUp(down);
        }
        let limit = FIRST_PAUSE.saturating_mul(1 << pauses.min(16)).min(LONGEST_PAUSE);
        let drawn = Duration::from_millis(self.rng.random_range(0..=limit.as_millis() as u64));
        // The last question comes when patience ends, not after it.
        let pause = drawn.max(at_least).min(patience.saturating_sub(down));
        self.state = State::Open { until: now + pause, pauses: pauses + 1 };
        Change::Paused(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const NO: Duration = Duration::ZERO;

    /// A breaker of an endpoint that has answered before, open since `now`.
    fn open(patience: Duration, now: Instant) -> Breaker {
        let mut breaker = Breaker::new(patience);
        breaker.answered(false, now);
        for request in 0..2 {
            assert_eq!(breaker.failed(request, false, NO, now), Change::None);
        }
        assert!(matches!(breaker.failed(2, false, NO, now), Change::Paused(_)));
        breaker
    }

    /// Asks and fails until something else than a pause comes of it; the pauses, and the time when it gave up.
    fn fail_on(breaker: &mut Breaker, mut now: Instant) -> (Vec<Duration>, Instant) {
        let mut pauses = Vec::new();
        loop {
            match breaker.way(now) {
                Way::WaitUntil(until) => {
                    pauses.push(until - now);
                    now = until;
                }
                Way::Ask => {}
                way => panic!("{way:?}"),
            }
            breaker.ask();
            assert_eq!(breaker.way(now), Way::WaitForAnswer, "one asks at a time");
            match breaker.failed(9, true, NO, now) {
                Change::Paused(_) => {}
                Change::GaveUp(_) => return (pauses, now),
                Change::None => panic!("what asked is heard"),
            }
        }
    }

    #[test]
    fn it_opens_for_several_requests_and_not_for_one() {
        let now = Instant::now();
        let mut breaker = Breaker::new(MINUTE);
        for _ in 0..9 {
            assert_eq!(breaker.failed(1, false, NO, now), Change::None);
        }
        assert_eq!(breaker.failed(2, false, NO, now), Change::None);
        breaker.answered(false, now);
        for request in 3..5 {
            assert_eq!(breaker.failed(request, false, NO, now), Change::None, "an answer begins the count anew");
        }
        assert!(breaker.is_closed());
        assert!(matches!(breaker.failed(5, false, NO, now), Change::Paused(pause) if pause <= FIRST_PAUSE));
        assert!(!breaker.is_closed());
    }

    #[test]
    fn one_asks_and_its_answer_closes() {
        let now = Instant::now();
        let mut breaker = open(10 * MINUTE, now);
        let later = now + FIRST_PAUSE;
        assert_eq!(breaker.way(later), Way::Ask);
        breaker.ask();
        breaker.not_asked(later);
        assert_eq!(breaker.way(later), Way::Ask, "a dropped request leaves the way to the next");
        breaker.ask();
        assert_eq!(breaker.failed(7, false, NO, later), Change::None, "it was sent before");
        assert_eq!(breaker.answered(false, later), None, "and so was this");
        assert_eq!(breaker.way(later), Way::WaitForAnswer);
        assert_eq!(breaker.answered(true, later), Some(FIRST_PAUSE));
        assert_eq!(breaker.way(later), Way::Free);
    }

    #[test]
    fn pauses_grow_and_end_with_patience() {
        let now = Instant::now();
        let mut breaker = open(60 * MINUTE, now);
        let (pauses, end) = fail_on(&mut breaker, now);
        assert!(pauses.iter().take(4).all(|pause| *pause <= 8 * FIRST_PAUSE), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause > LONGEST_PAUSE / 2), "they grow: {pauses:?}");
        assert!(pauses.iter().skip(6).any(|pause| *pause < LONGEST_PAUSE / 4), "the whole range is used: {pauses:?}");
        assert_eq!(end - now, 60 * MINUTE);
    }

    #[test]
    fn an_endpoint_that_never_answered_is_given_up_soon() {
        let now = Instant::now();
        let mut breaker = Breaker::new(60 * MINUTE);
        for request in 0..3 {
            breaker.failed(request, false, NO, now);
        }
        assert_eq!(fail_on(&mut breaker, now).1 - now, PATIENCE_AT_FIRST);
    }

    #[test]
    fn what_the_server_asks_for_is_waited_or_given_up_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::new(10 * MINUTE);
        assert_eq!(breaker.refused(1, false, 5 * MINUTE, now), Change::Paused(5 * MINUTE));
        assert_eq!(breaker.way(now + 4 * MINUTE), Way::WaitUntil(now + 5 * MINUTE));
        let mut breaker = Breaker::new(10 * MINUTE);
        assert_eq!(breaker.refused(1, false, 20 * MINUTE, now), Change::GaveUp(NO));
        // A word of seconds is no outage.
        let mut breaker = Breaker::new(10 * MINUTE);
        assert_eq!(breaker.failed(1, false, LONGEST_PAUSE, now), Change::None);
        assert_eq!(
            breaker.failed(1, false, LONGEST_PAUSE + FIRST_PAUSE, now),
            Change::GaveUp(NO),
            "and no answer before"
        );
    }

    #[test]
    fn without_patience_nothing_pauses() {
        let now = Instant::now();
        let mut breaker = Breaker::new(NO);
        for request in 0..99 {
            assert_eq!(breaker.failed(request, false, MINUTE, now), Change::None);
            assert_eq!(breaker.refused(request, false, 2 * MINUTE, now), Change::None);
        }
        assert_eq!(breaker.way(now), Way::Free);
    }
}
