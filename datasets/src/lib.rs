//! Loading, checking, scaling, sampling and importing labelled datasets.
//!
//! `FORMAT.md` beside this crate is the contract: a folder of UTF-8 files, one JSON object per line. [`load()`] turns such
//! a folder into a [`harness::dataset::Dataset`] or names every problem in it at once; [`scale`] cuts catalogues to nested
//! sizes; [`sample`] picks queries for a run that cannot afford all; [`import`] writes the format from other layouts;
//! [`lint`] finds what the format allows and a measurement suffers from.
//!
//! Text of files is untrusted. It never reaches a terminal as it is: see [`problem`].

pub mod import;
pub mod lint;
pub mod load;
pub mod problem;
pub mod sample;
pub mod scale;

#[cfg(test)]
mod testing;
mod unique;
mod wire;
mod write;

pub use load::{LoadError, load};
pub use problem::{Position, Problem, Problems, Severity};
