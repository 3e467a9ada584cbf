//! Reports of hand-made runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod counts;
mod files;
mod fixture;
mod properties;
mod rows;
mod tables;
