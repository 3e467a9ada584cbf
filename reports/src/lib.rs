//! Tables, plots and files made from stored episodes.
//!
//! [`summarise`] counts and compares; [`terminal`], [`markdown`] and [`write_all`] only lay out what it found. The same input
//! gives the same bytes.

mod cell;
mod compare;
mod escape;
mod export;
mod files;
mod format;
mod markdown;
mod notes;
mod plot;
mod settings;
mod summarise;
mod summary;
mod tables;
mod tally;
mod terminal;

use harness::metric::rank::Measure;
use harness::metric::score::Score;
use harness::run::manifest::Manifest;
use harness::run::plan::Job;

pub use files::{ReportError, write_all};
pub use markdown::markdown;
pub use summarise::summarise;
pub use summary::*;
pub use terminal::{Style, terminal};

/// A run and its scores.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub manifest: &'a Manifest,
    pub plan: &'a [Job],
    /// One per finished episode, in plan order.
    pub scores: &'a [Score],
    /// The measures that the scores were made with.
    pub measures: &'a [Measure],
}
