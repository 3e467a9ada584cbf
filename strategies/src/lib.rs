//! The built-in tool-selection strategies of toolgauge, one file each.
//!
//! `oracle` is missing on purpose: it needs labels, so the command builds it.

pub mod bm25;
pub mod bm25_llm;
pub mod eager;
pub mod random;
pub mod retrieve;
pub mod skill_pick;

use harness::registry::Registry;

/// Every built-in strategy, in the order in which they are listed.
pub fn builtin() -> Registry {
    Registry::default()
        .with("random", "a seeded random ranking, no model: the floor", random::Random::new)
        .with("eager", "every definition of the view in the prompt", eager::Eager::new)
        .with("bm25", "a BM25 ranking, no model", bm25::Bm25::new)
        .with("bm25-llm", "BM25 keeps the best k tools, the model chooses among them", bm25_llm::Bm25Llm::new)
        .with(
            "skill-pick",
            "the model picks skills, then sees only their tools (two passes)",
            skill_pick::SkillPick::new,
        )
}

#[cfg(test)]
mod test_support;
