//! `eager`: every definition of the view in the prompt, in the view's order. What an agent does that has no selection at all.

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::context::EpisodeCx;
use harness::strategy::{Offer, Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// No parameters.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EagerParams {}

pub struct Eager;

impl Eager {
    pub fn new(_: EagerParams) -> Self {
        Self
    }
}

impl Strategy for Eager {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "eager".to_owned(),
            version: 1,
            params: json!({}),
            drives_model: true,
            ranks: false,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: None,
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        Box::pin(std::future::ready(Ok(Arc::new(Everything { view }) as Arc<dyn Prepared>)))
    }
}

struct Everything {
    view: Arc<View>,
}

impl Prepared for Everything {
    fn select<'a>(&'a self, _: &'a str, _: &'a mut EpisodeCx<'_>) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        let tools = self.view.deferrable().map(|tool| tool.id.clone()).collect();
        let offer = Some(Offer { tools, ..Offer::default() });
        Box::pin(std::future::ready(Ok(Selection { offer, ..Selection::default() })))
    }
}
