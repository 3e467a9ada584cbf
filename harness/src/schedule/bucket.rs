//! A rate per minute as a bucket that fills evenly and that requests empty.

use std::time::Duration;

use tokio::time::Instant;

/// Far below anything that is counted, far above what adding fractions loses.
const ROUNDING: f64 = 1e-6;

/// Lets so much through per minute, spread evenly: it holds one second's worth, and at least one.
///
/// Whoever asks for more than it holds waits until it is full and leaves a debt behind, so that the rate holds whatever the
/// size of one request.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: f64,
    holds: f64,
    /// Negative: owed.
    level: f64,
    filled: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn per_minute(rate: u64, now: Instant) -> Self {
        let per_second = rate.max(1) as f64 / 60.0;
        let holds = per_second.max(1.0);
        Self { per_second, holds, level: holds, filled: now }
    }

    /// How long until `amount` may be taken.
    pub(super) fn wait(&mut self, amount: u64, now: Instant) -> Duration {
        self.fill(now);
        let missing = (amount as f64).min(self.holds) - self.level;
        if missing < ROUNDING { Duration::ZERO } else { Duration::from_secs_f64(missing / self.per_second) }
    }

    /// Takes `amount`, whether or not it is there.
    pub(super) fn take(&mut self, amount: u64) {
        self.level -= amount as f64;
    }

    /// What was taken for `estimated` was really `used`. What comes back stays, even above what the bucket holds: it was never
    /// let through.
    pub(super) fn correct(&mut self, estimated: u64, used: u64, now: Instant) {
        self.fill(now);
        self.level += estimated as f64 - used as f64;
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.level = self.level.max((self.level + passed * self.per_second).min(self.holds));
        self.filled = self.filled.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_second_s_worth_is_there_at_once() {
        let start = Instant::now();
        let mut bucket = Bucket::per_minute(600, start);
        for _ in 0..10 {
            assert_eq!(bucket.wait(1, start), Duration::ZERO);
            bucket.take(1);
        }
        assert_eq!(bucket.wait(1, start), Duration::from_millis(100));
        // A pause saves up no more than that.
        let later = start + Duration::from_secs(3_600);
        assert_eq!(bucket.wait(10, later), Duration::ZERO);
        bucket.take(10);
        assert_eq!(bucket.wait(1, later), Duration::from_millis(100));
    }

    #[test]
    fn more_than_it_holds_is_let_through_and_owed() {
        let start = Instant::now();
        let mut bucket = Bucket::per_minute(6_000, start);
        assert_eq!(bucket.wait(1_000, start), Duration::ZERO);
        bucket.take(1_000);
        assert_eq!(bucket.wait(1, start), Duration::from_millis(9_010));
        assert_eq!(bucket.wait(1_000, start), Duration::from_secs(10));
    }

    #[test]
    fn estimates_are_put_right() {
        let start = Instant::now();
        let mut bucket = Bucket::per_minute(6_000, start);
        bucket.take(100);
        bucket.correct(100, 600, start);
        assert_eq!(bucket.wait(100, start), Duration::from_secs(6));
        bucket.correct(1_000, 200, start);
        bucket.take(200);
        assert_eq!(bucket.wait(100, start), Duration::ZERO, "what was taken in vain is there again");
        bucket.take(100);
        assert_eq!(bucket.wait(1, start), Duration::from_millis(10));
    }
}
