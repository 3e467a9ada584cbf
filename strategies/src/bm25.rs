//! `bm25`: the ranking alone, no model. Milliseconds for thousands of queries, so it can guard every merge.

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::context::EpisodeCx;
use harness::episode::RANKED_DEPTH;
use harness::strategy::{Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use serde_json::json;

use crate::retrieve::bm25::{Bm25Retriever, Bm25Settings};

pub struct Bm25 {
    settings: Bm25Settings,
}

impl Bm25 {
    pub fn new(settings: Bm25Settings) -> Self {
        Self { settings }
    }
}

impl Strategy for Bm25 {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "bm25".to_owned(),
            version: 1,
            params: json!(self.settings),
            drives_model: false,
            ranks: true,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: Some(0),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        let ranking = Ranking { retriever: Bm25Retriever::new(&view, &self.settings) };
        Box::pin(std::future::ready(Ok(Arc::new(ranking) as Arc<dyn Prepared>)))
    }
}

struct Ranking {
    retriever: Bm25Retriever,
}

impl Prepared for Ranking {
    fn select<'a>(
        &'a self,
        text: &'a str,
        _: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        // Not through the handle: the ranked list is the whole episode, a second copy as a search would say nothing new.
        let ranked = Some(self.retriever.rank(text, RANKED_DEPTH));
        Box::pin(std::future::ready(Ok(Selection { ranked, ..Selection::default() })))
    }
}
