//! Judging stored episodes: per query first, then means.

pub mod agreement;
pub mod rank;
pub mod score;
pub mod stats;
