//! Integration tests, in one binary so that they link once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod endpoint;
mod episode;
mod foreign;
mod golden_metrics;
mod resume;
mod schedule;
mod schemas;
mod server;
