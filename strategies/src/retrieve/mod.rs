//! Retrievers and what they share: words, and an index of weighted words.

pub mod bm25;
pub mod words;
