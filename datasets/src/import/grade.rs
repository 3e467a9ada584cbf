//! Relevance on the scale of another source, as that of the format.

use super::report::{Findings, Trouble};

/// The highest relevance of the format.
const TOP: i64 = 3;

/// How a source grades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grades {
    /// 0 and 1: a 1 does the job.
    Binary,
    /// 0 to 2: a 1 does it acceptably.
    Three,
    /// As the format does.
    Same,
}

impl Grades {
    /// The scale that the grades of a whole source show.
    pub(super) fn of(grades: impl Iterator<Item = i64>) -> Self {
        match grades.max().unwrap_or_default() {
            ..=1 => Self::Binary,
            2 => Self::Three,
            3.. => Self::Same,
        }
    }

    /// Lists a grade outside of every scale as the text that `example` gives.
    pub(super) fn relevance(self, grade: i64, example: impl FnOnce() -> String, findings: &mut Findings) -> u8 {
        if !(0..=TOP).contains(&grade) {
            findings.add(Trouble::UnfitRelevance, &example());
        }
        let grade = u8::try_from(grade.clamp(0, TOP)).unwrap_or_default();
        match (self, grade) {
            (_, 0) => 0,
            (Self::Binary, _) => 3,
            (Self::Three, grade) => grade + 1,
            (Self::Same, grade) => grade,
        }
    }
}
