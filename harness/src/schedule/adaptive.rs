//! How many requests may be in flight at once, found by trying.
//!
//! Additive increase, multiplicative decrease (Chiu and Jain 1989): one more for every full window of answers, half as many on
//! a sign of overload. At most one decrease per round trip, as TCP counts the losses of one window once (RFC 6582): what was
//! sent before a decrease says nothing about the limit after it. The limit that was too high is remembered, as in CUBIC (RFC
//! 9438): the last step up to it takes twice as many windows each time that it fails again. Without that a server that takes
//! one request at a time would be asked for a second after every answer.
//!
//! Overload is what the server says (429, 503, 529, no answer in time), or a jump of latency, the idea of TCP Vegas (Brakmo and
//! Peterson 1995) and of the gradient limits that services use: latency rises where requests queue. Here: the moving average
//! (weight 1/8, as RFC 6298 smooths round trips) of the latencies of requests of about one size exceeds twice the lowest value
//! it ever had. Sizes are told apart by the power of two of the prompt's tokens, since a long prompt is no overload. A
//! slowness that half the requests do not cure is not theirs, so each such decrease moves the baseline half of the way, in
//! ratio, to what is: a server that became ten times slower costs three decreases and not the run its speed.

use std::collections::BTreeMap;
use std::time::Duration;

/// Where the search starts.
const START: usize = 4;
/// Weight of the newest latency in the moving average.
const WEIGHT: f64 = 1.0 / 8.0;
/// Latencies that an average needs before it says anything.
const ENOUGH: u32 = 8;
/// Windows of answers at most before a limit that was too high is tried again.
const MOST_CAUTION: usize = 64;
/// A moving average above this many times its lowest value is a jump.
const TOLERANCE: f64 = 2.0;

/// The limit on requests in flight.
#[derive(Debug)]
pub(super) struct Adaptive {
    limit: usize,
    /// No decrease goes below it.
    floor: usize,
    ceiling: usize,
    /// Rises with every decrease.
    round: u64,
    /// Answers since the limit last changed, counted while it was in use.
    answers: usize,
    /// The last limit that was too high, and the windows of answers that the step up to it takes.
    wall: usize,
    caution: usize,
    /// By the power of two of the size.
    paces: BTreeMap<u32, Pace>,
}

/// Latencies of requests of about one size.
#[derive(Debug)]
struct Pace {
    average: f64,
    samples: u32,
    best: f64,
}

impl Adaptive {
    /// Starts low and never exceeds `ceiling`; 0 counts as 1.
    pub(super) fn new(ceiling: usize) -> Self {
        let ceiling = ceiling.max(1);
        Self {
            limit: START.min(ceiling),
            floor: 1,
            ceiling,
            round: 0,
            answers: 0,
            wall: usize::MAX,
            caution: 1,
            paces: BTreeMap::new(),
        }
    }

    /// Never anything but `limit`; 0 counts as 1.
    pub(super) fn fixed(limit: usize) -> Self {
        let limit = limit.max(1);
        Self { limit, floor: limit, ..Self::new(limit) }
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.floor == self.ceiling
    }

    /// At least 1.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// What a request is marked with when it is sent.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// An answer to a request of `size` tokens that was sent in `round`; `in_flight` counts it.
    pub(super) fn answered(&mut self, round: u64, size: u64, latency: Duration, in_flight: usize) {
        if round < self.round {
            return;
        }
        let pace = self.paces.entry(size.max(1).ilog2()).or_insert(Pace::NEW);
        if pace.jumped(latency.as_secs_f64()) {
            pace.best = (pace.best * pace.average).sqrt();
            self.decrease();
            return;
        }
        // A limit that nobody uses has not been tried.
        if 2 * in_flight >= self.limit {
            self.answers += 1;
        }
        let windows = if self.limit + 1 == self.wall { self.caution } else { 1 };
        if self.answers >= self.limit * windows && self.limit < self.ceiling {
            self.limit += 1;
            self.answers = 0;
            if self.limit > self.wall {
                (self.wall, self.caution) = (usize::MAX, 1);
            }
        }
    }

    /// The server has too much to do, by its answer to a request that was sent in `round`.
    pub(super) fn overloaded(&mut self, round: u64) {
        if round == self.round {
            self.decrease();
        }
    }

    /// Begins anew after an outage, as TCP does after a pause (RFC 5681).
    pub(super) fn restart(&mut self) {
        self.limit = self.limit.min(START).max(self.floor);
        self.begin_round();
    }

    fn decrease(&mut self) {
        self.caution = if self.limit == self.wall { (2 * self.caution).min(MOST_CAUTION) } else { 1 };
        self.wall = self.limit;
        self.limit = (self.limit / 2).max(self.floor);
        self.begin_round();
    }

    fn begin_round(&mut self) {
        self.round += 1;
        self.answers = 0;
        // Averages begin anew, or the latencies of the old limit would lower the new one.
        for pace in self.paces.values_mut() {
            pace.samples = 0;
        }
    }
}

impl Pace {
    const NEW: Self = Self { average: 0.0, samples: 0, best: f64::INFINITY };

    fn jumped(&mut self, latency: f64) -> bool {
        self.average = if self.samples == 0 { latency } else { self.average + WEIGHT * (latency - self.average) };
        self.samples = self.samples.saturating_add(1);
        if self.samples < ENOUGH {
            return false;
        }
        self.best = self.best.min(self.average);
        self.average > TOLERANCE * self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A full window of answers at one latency.
    fn window(adaptive: &mut Adaptive, latency: Duration) {
        let (round, limit) = (adaptive.round(), adaptive.limit());
        for _ in 0..limit {
            adaptive.answered(round, 1_000, latency, limit);
        }
    }

    #[test]
    fn a_window_of_answers_adds_one_up_to_the_ceiling() {
        let mut adaptive = Adaptive::new(7);
        let mut limits = vec![adaptive.limit()];
        for _ in 0..6 {
            window(&mut adaptive, SECOND);
            limits.push(adaptive.limit());
        }
        assert_eq!(limits, [4, 5, 6, 7, 7, 7, 7]);
        assert_eq!([0, 1, 3].map(|ceiling| Adaptive::new(ceiling).limit()), [1, 1, 3]);
    }

    #[test]
    fn a_fixed_limit_stays_whatever_happens() {
        let mut adaptive = Adaptive::fixed(9);
        for _ in 0..4 {
            adaptive.overloaded(adaptive.round());
            window(&mut adaptive, SECOND);
        }
        adaptive.restart();
        assert_eq!((adaptive.limit(), Adaptive::fixed(0).limit()), (9, 1));
    }

    #[test]
    fn a_limit_that_is_not_used_does_not_grow() {
        let mut adaptive = Adaptive::new(64);
        for _ in 0..1_000 {
            adaptive.answered(0, 1_000, SECOND, 1);
        }
        assert_eq!(adaptive.limit(), 4);
    }

    #[test]
    fn one_round_trip_halves_once_and_never_below_one() {
        let mut adaptive = Adaptive::new(64);
        for _ in 0..12 {
            window(&mut adaptive, SECOND);
        }
        assert_eq!(adaptive.limit(), 16);
        let sent = adaptive.round();
        for _ in 0..16 {
            adaptive.overloaded(sent);
        }
        assert_eq!(adaptive.limit(), 8, "sixteen refusals of one window are one sign");
        adaptive.answered(sent, 1_000, SECOND, 8);
        for _ in 0..9 {
            adaptive.overloaded(adaptive.round());
        }
        assert_eq!(adaptive.limit(), 1);
    }

    #[test]
    fn a_limit_that_was_too_high_is_tried_again_ever_more_rarely() {
        let mut adaptive = Adaptive::new(64);
        let mut windows = Vec::new();
        for _ in 0..9 {
            let mut answered = 0;
            while adaptive.limit() < 6 {
                window(&mut adaptive, SECOND);
                answered += 1;
            }
            adaptive.overloaded(adaptive.round());
            windows.push(answered);
        }
        // From 4 to 6 at first, then from 3: two steps and the last one, which takes longer and longer.
        assert_eq!(windows, [2, 3, 4, 6, 10, 18, 34, 66, 66]);
        for _ in 0..=(66 + 1) {
            window(&mut adaptive, SECOND);
        }
        assert_eq!(adaptive.limit(), 8, "what holds for a window is no wall any more");
    }

    #[test]
    fn a_jump_of_latency_halves_and_an_odd_one_does_not() {
        let mut adaptive = Adaptive::new(16);
        for _ in 0..20 {
            window(&mut adaptive, SECOND);
        }
        assert_eq!(adaptive.limit(), 16);
        adaptive.answered(adaptive.round(), 1_000, 8 * SECOND, 16);
        assert_eq!(adaptive.limit(), 16, "one slow answer moves the average by an eighth of it");
        for _ in 0..8 {
            adaptive.answered(adaptive.round(), 1_000, 4 * SECOND, 16);
        }
        assert_eq!(adaptive.limit(), 8);
    }

    #[test]
    fn long_prompts_are_not_taken_for_a_slow_server() {
        let mut adaptive = Adaptive::new(16);
        for _ in 0..40 {
            window(&mut adaptive, SECOND);
            adaptive.answered(adaptive.round(), 64_000, 30 * SECOND, adaptive.limit());
        }
        assert_eq!((adaptive.limit(), adaptive.round()), (16, 0));
    }

    #[test]
    fn a_server_that_is_slower_for_its_own_reasons_costs_three_decreases() {
        let mut adaptive = Adaptive::new(16);
        for _ in 0..20 {
            window(&mut adaptive, SECOND);
        }
        for _ in 0..200 {
            window(&mut adaptive, 10 * SECOND);
        }
        assert_eq!((adaptive.limit(), adaptive.round()), (16, 3));
    }
}
