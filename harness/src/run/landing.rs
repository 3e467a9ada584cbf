//! Ending before a cap does it: what is under way is finished rather than cut off.

use crate::episode::LimitKind;

/// How much there was of something that is capped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    pub kind: LimitKind,
    /// Before this process.
    pub before: f64,
    pub used: f64,
    pub cap: f64,
}

/// The cap that would be reached if the episodes `running` and the `next` ones took on average what episodes took so far. Those
/// that run have used half of theirs, as far as anybody knows.
pub fn cap_in_sight(uses: &[Use], finished: usize, running: usize, next: usize) -> Option<LimitKind> {
    let episodes = finished as f64 + running as f64 / 2.0;
    let to_come = running as f64 / 2.0 + next as f64;
    let reached = |what: &&Use| what.before + what.used + what.used / episodes * to_come > what.cap;
    if episodes == 0.0 { None } else { uses.iter().find(reached).map(|what| what.kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_any_more_is_not_started() {
        let tokens = |used| Use { kind: LimitKind::Tokens, before: 0.0, used, cap: 1_000.0 };
        assert_eq!(cap_in_sight(&[tokens(0.0)], 0, 0, 4), None, "nothing is known yet");
        assert_eq!(cap_in_sight(&[tokens(600.0)], 6, 0, 4), None);
        assert_eq!(cap_in_sight(&[tokens(601.0)], 6, 0, 4), Some(LimitKind::Tokens));
        // Four run and have used 200 of their 400.
        assert_eq!(cap_in_sight(&[tokens(600.0)], 4, 4, 2), None);
        assert_eq!(cap_in_sight(&[tokens(600.0)], 4, 4, 3), Some(LimitKind::Tokens));
        // What an earlier process used counts, and says nothing about this one's pace.
        let resumed = Use { before: 700.0, ..tokens(100.0) };
        assert_eq!(cap_in_sight(&[resumed], 1, 0, 2), None);
        assert_eq!(cap_in_sight(&[resumed], 1, 0, 3), Some(LimitKind::Tokens));
        let time = Use { kind: LimitKind::Time, before: 0.0, used: 50.0, cap: 60.0 };
        assert_eq!(cap_in_sight(&[tokens(10.0), time], 5, 0, 2), Some(LimitKind::Time));
        assert_eq!(cap_in_sight(&[], 5, 0, 2), None);
    }
}
