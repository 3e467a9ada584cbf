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
use harness::registry::Registry;
use harness::strategy::{Offer, Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use serde::{Deserialize, Serialize};

/// Gold tools by the words of the query: the words are all that a strategy is given.
type Gold = Arc<HashMap<String, Vec<ScoredTool>>>;

const KIND: &str = "oracle";

/// `oracle` and then the given strategies: everything that a run can name. Without a dataset it can be listed and not used.
pub fn with_oracle(registry: &Registry, dataset: Option<&Dataset>) -> Registry {
    let gold = Arc::new(dataset.map(gold).unwrap_or_default());
    let make = move |params| Oracle { gold: gold.clone(), params };
    Registry::default().with(KIND, "shows the model only the right tools: the ceiling", make).then(registry)
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// Show the tools to a model; otherwise the ranking is the episode.
    model: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { model: true }
    }
}

struct Oracle {
    gold: Gold,
    params: Params,
}

fn gold(dataset: &Dataset) -> HashMap<String, Vec<ScoredTool>> {
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
    gold
}

impl Strategy for Oracle {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: KIND.to_owned(),
            version: 1,
            params: serde_json::to_value(self.params).expect("plain data serialises"),
            drives_model: self.params.model,
            ranks: true,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: Some(1),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        let told = Told { gold: self.gold.clone(), view, drives_model: self.params.model };
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
