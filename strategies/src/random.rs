//! `random`: a seeded random ranking. The floor of every comparison.

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::context::EpisodeCx;
use harness::episode::{RANKED_DEPTH, ScoredTool};
use harness::strategy::{Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// No parameters.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomParams {}

pub struct Random;

impl Random {
    pub fn new(_: RandomParams) -> Self {
        Self
    }
}

impl Strategy for Random {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "random".to_owned(),
            version: 1,
            params: json!({}),
            drives_model: false,
            ranks: true,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: Some(0),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        Box::pin(std::future::ready(Ok(Arc::new(Shuffle { view }) as Arc<dyn Prepared>)))
    }
}

struct Shuffle {
    view: Arc<View>,
}

impl Prepared for Shuffle {
    fn select<'a>(&'a self, _: &'a str, cx: &'a mut EpisodeCx<'_>) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        Box::pin(async move {
            let mut tools: Vec<_> = self.view.tools().iter().map(|tool| tool.id.clone()).collect();
            // Sorted first: the draw must not depend on the order of the prompt.
            tools.sort();
            tools.shuffle(&mut ChaCha8Rng::seed_from_u64(cx.seed()));
            let ranked = tools
                .into_iter()
                .take(RANKED_DEPTH)
                .enumerate()
                .map(|(place, tool)| ScoredTool { tool, score: 1.0 / (place + 1) as f64 })
                .collect();
            Ok(Selection { ranked: Some(ranked), ..Selection::default() })
        })
    }
}
