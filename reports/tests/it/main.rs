//! Reports of hand-made runs.

mod fixture;
mod tables;
