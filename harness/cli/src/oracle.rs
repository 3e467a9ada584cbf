//! `oracle`: shows the model only the right tools, the ceiling of every comparison. It is made of labels, so it lives here and
//! not among the strategies, which never see any.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::context::EpisodeCx;
use harness::dataset::{Dataset, RELEVANCE_COVERS};
use harness::episode::{ScoredTool, rank};
use harness::ids::ToolId;
use harness::strategy::{Offer, Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use serde_json::json;

/// Gold tools by the words of the query: the words are all that a strategy is given.
type Gold = Arc<HashMap<String, Vec<ScoredTool>>>;

pub struct Oracle {
    gold: Gold,
    drives_model: bool,
}

impl Oracle {
    /// `drives_model`: show the tools to a model; otherwise the ranking is the episode.
    pub fn new(dataset: &Dataset, drives_model: bool) -> Self {
        let mut gold: HashMap<String, Vec<ScoredTool>> = HashMap::new();
        for query in &dataset.queries {
            let covers = dataset.qrels.of(&query.id).qrels().iter().filter(|qrel| qrel.relevance >= RELEVANCE_COVERS);
            let tools = gold.entry(query.text.clone()).or_default();
            for qrel in covers {
                if !tools.iter().any(|known| known.tool == qrel.tool) {
                    tools.push(ScoredTool { tool: qrel.tool.clone(), score: f64::from(qrel.relevance) });
                }
            }
            rank(tools);
        }
        Self { gold: Arc::new(gold), drives_model }
    }
}

impl Strategy for Oracle {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "oracle".to_owned(),
            version: 1,
            params: json!({"model": self.drives_model}),
            drives_model: self.drives_model,
            ranks: true,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: Some(1),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        let told = Told { gold: self.gold.clone(), view, drives_model: self.drives_model };
        Box::pin(std::future::ready(Ok(Arc::new(told) as Arc<dyn Prepared>)))
    }
}

struct Told {
    gold: Gold,
    view: Arc<View>,
    drives_model: bool,
}

impl Prepared for Told {
    fn select<'a>(
        &'a self,
        text: &'a str,
        _: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        let right = self.gold.get(text).into_iter().flatten().filter(|entry| self.view.contains(&entry.tool));
        let ranked: Vec<ScoredTool> = right.cloned().collect();
        let shown = ranked.iter().filter(|entry| self.view.get(&entry.tool).is_some_and(|tool| !tool.core));
        let tools: Vec<ToolId> = shown.map(|entry| entry.tool.clone()).collect();
        let offer = self.drives_model.then(|| Offer { tools, ..Offer::default() });
        let selection = Selection { ranked: Some(ranked), offer, ..Selection::default() };
        Box::pin(std::future::ready(Ok(selection)))
    }
}
