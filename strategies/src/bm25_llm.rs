//! `bm25-llm`: BM25 over the person's words keeps the best k tools, their definitions go into the prompt, the model chooses.

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::context::EpisodeCx;
use harness::episode::RANKED_DEPTH;
use harness::strategy::{Offer, Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::retrieve::bm25::{Bm25Retriever, Bm25Settings};

/// Parameters of `bm25-llm`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bm25LlmParams {
    /// Tools shown beside the core tools.
    #[serde(deserialize_with = "crate::positive")]
    pub k: usize,
    pub bm25: Bm25Settings,
}

impl Default for Bm25LlmParams {
    fn default() -> Self {
        Self { k: 5, bm25: Bm25Settings::default() }
    }
}

pub struct Bm25Llm {
    params: Bm25LlmParams,
}

impl Bm25Llm {
    pub fn new(params: Bm25LlmParams) -> Self {
        Self { params }
    }
}

impl Strategy for Bm25Llm {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "bm25-llm".to_owned(),
            version: 1,
            params: json!(self.params),
            drives_model: true,
            ranks: true,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: Some(self.params.k),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        let prefilter = Prefilter { retriever: Bm25Retriever::new(&view, &self.params.bm25), k: self.params.k, view };
        Box::pin(std::future::ready(Ok(Arc::new(prefilter) as Arc<dyn Prepared>)))
    }
}

struct Prefilter {
    view: Arc<View>,
    retriever: Bm25Retriever,
    k: usize,
}

impl Prepared for Prefilter {
    fn select<'a>(
        &'a self,
        text: &'a str,
        cx: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        Box::pin(async move {
            // Core tools are visible anyway; they must not use up the k places.
            let depth = RANKED_DEPTH.max(self.k + self.view.core().count());
            let ranked = cx.search(&self.retriever, text, depth, false).await?;
            let deferrable = ranked.iter().filter(|entry| self.view.get(&entry.tool).is_some_and(|tool| !tool.core));
            let tools = deferrable.take(self.k).map(|entry| entry.tool.clone()).collect();
            let offer = Some(Offer { tools, ..Offer::default() });
            Ok(Selection { ranked: Some(ranked), offer, ..Selection::default() })
        })
    }
}
