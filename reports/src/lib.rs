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
mod sample;
mod settings;
mod summarise;
mod summary;
mod tables;
mod tally;
mod terminal;

use harness::dataset::Kind;
use harness::ids::{Digest, IntentId, QueryId};
use harness::metric::rank::Measure;
use harness::metric::score::Score;
use harness::run::manifest::Manifest;
use harness::run::plan::Job;

pub use export::metrics;
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
    /// What is known of planned queries whether or not an episode of them was scored. A query that is not listed is known
    /// by its scores alone.
    pub queries: &'a [PlannedQuery],
    /// Only where the labels are not those that the run was planned with.
    pub rescored: Option<Rescored<'a>>,
}

/// The dataset whose labels decide, where it is not the one that was asked.
#[derive(Clone, Copy, Debug)]
pub struct Rescored<'a> {
    pub revision: &'a str,
    pub digest: &'a Digest,
}

/// A query of the plan at one catalogue size.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedQuery {
    pub query: QueryId,
    pub size: u32,
    pub intent: IntentId,
    pub kind: Kind,
    /// Required groups in the actor's view; 0 = no-tool.
    pub groups: u32,
    /// Scored end to end: not so for sequential queries in mode `first_call`.
    pub end_to_end: bool,
}
