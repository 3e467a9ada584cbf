//! A ranking alone, no model: milliseconds for thousands of queries, so it can guard every merge.

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::context::EpisodeCx;
use harness::episode::RANKED_DEPTH;
use harness::strategy::{Prepared, Retriever, Selection, Strategy, StrategyError, StrategyMeta};
use serde_json::json;

use crate::retrieve::RetrieverSettings;

/// The strategy of a retriever: its kind, its settings, its ranking.
pub struct RetrieveOnly<S> {
    settings: S,
}

impl<S> RetrieveOnly<S> {
    pub fn new(settings: S) -> Self {
        Self { settings }
    }
}

impl<S: RetrieverSettings> Strategy for RetrieveOnly<S> {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: S::KIND.to_owned(),
            version: S::VERSION,
            params: json!(self.settings),
            drives_model: false,
            ranks: true,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: Some(0),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        Box::pin(async move {
            let retriever = self.settings.retriever(&view).await?;
            Ok(Arc::new(Ranking { retriever }) as Arc<dyn Prepared>)
        })
    }
}

struct Ranking {
    retriever: Arc<dyn Retriever>,
}

impl Prepared for Ranking {
    fn select<'a>(
        &'a self,
        text: &'a str,
        _: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        // Not through the handle: the ranked list is the whole episode, a second copy as a search would say nothing new.
        Box::pin(async move {
            let ranked = Some(self.retriever.search(text, RANKED_DEPTH).await?);
            Ok(Selection { ranked, ..Selection::default() })
        })
    }
}
