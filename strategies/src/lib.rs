//! The built-in tool-selection strategies of toolgauge, one file each.
//!
//! `oracle` is missing on purpose: it needs labels, so the command builds it.

pub mod bm25_llm;
pub mod eager;
pub mod random;
pub mod retrieve;
pub mod retrieve_only;
pub mod skill_pick;

use harness::registry::Registry;
use retrieve::bm25::Bm25Settings;
use retrieve::bm25f::Bm25fSettings;
use retrieve::dense::DenseSettings;
use retrieve::linear_scan::LinearScanSettings;
use retrieve_only::RetrieveOnly;
use serde::{Deserialize, Deserializer};

/// Every built-in strategy, in the order in which they are listed.
pub fn builtin() -> Registry {
    Registry::default()
        .with("random", "a seeded random ranking, no model: the floor", random::Random::new)
        .with("eager", "every definition of the view in the prompt", eager::Eager::new)
        .with("bm25", "a BM25 ranking, no model", RetrieveOnly::<Bm25Settings>::new)
        .with("bm25f", "BM25 with a weight per field, no model", RetrieveOnly::<Bm25fSettings>::new)
        .with(
            "linear-scan",
            "the additive scorer of executor's tool search, no model",
            RetrieveOnly::<LinearScanSettings>::new,
        )
        .with("dense", "cosine of embeddings, no model", RetrieveOnly::<DenseSettings>::new)
        .with("bm25-llm", "BM25 keeps the best k tools, the model chooses among them", bm25_llm::Bm25Llm::new)
        .with(
            "skill-pick",
            "the model picks skills, then sees only their tools (two passes)",
            skill_pick::SkillPick::new,
        )
}

/// A parameter that counts something: 1 or more.
fn positive<'de, D: Deserializer<'de>>(value: D) -> Result<usize, D::Error> {
    let count = usize::deserialize(value)?;
    if count > 0 { Ok(count) } else { Err(serde::de::Error::custom("0 is out of range, expected at least 1")) }
}

#[cfg(test)]
mod test_support;
