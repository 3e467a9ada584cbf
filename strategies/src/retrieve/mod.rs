//! Retrievers and what they share: words, an index of weighted words, the best k of many scores.

pub mod bm25;
pub mod bm25f;
pub mod dense;
pub mod index;
pub mod linear_scan;
pub mod words;

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::episode::{ScoredTool, rank};
use harness::ids::ToolId;
use harness::strategy::{Retriever, StrategyError};
use serde::Serialize;

/// Settings that make a retriever over a view.
pub trait RetrieverSettings: Serialize + Send + Sync {
    const KIND: &'static str;
    /// Rises with every change of what it ranks how.
    const VERSION: u32;

    fn retriever<'a>(&'a self, view: &'a View) -> BoxFuture<'a, Result<Arc<dyn Retriever>, StrategyError>>;
}

/// The best `k` of scored documents, as tools.
fn best(mut scores: Vec<(usize, f64)>, tools: &[ToolId], k: usize) -> Vec<ScoredTool> {
    let by_score = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then_with(|| tools[a.0].cmp(&tools[b.0]));
    if k < scores.len() {
        scores.select_nth_unstable_by(k, by_score);
        scores.truncate(k);
    }
    let mut best: Vec<_> =
        scores.into_iter().map(|(tool, score)| ScoredTool { tool: tools[tool].clone(), score }).collect();
    rank(&mut best);
    best
}
