//! The default weights of `bm25f` are what METHODOLOGY.md says they are.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use harness::catalogue::{Actor, Subset, View};
use harness::dataset::{Dataset, Labels};
use harness::ids::{ActorId, ToolId};
use harness::metric::rank::Measure;
use strategies::retrieve::RetrieverSettings;
use strategies::retrieve::bm25::Bm25Settings;
use strategies::retrieve::bm25f::{Bm25fSettings, Weights};

use crate::support::root;

/// The `dev` queries that need a tool and can be answered, by the actor's view of the whole catalogue.
struct Dev<'d>(BTreeMap<&'d ActorId, (View, Vec<Asked<'d>>)>);

/// The words of a query and its labels.
type Asked<'d> = (&'d str, Labels);

impl<'d> Dev<'d> {
    fn of(dataset: &'d Dataset) -> Self {
        let whole = Subset::whole(&dataset.catalogue);
        let mut views: BTreeMap<_, (View, Vec<Asked<'_>>)> = BTreeMap::new();
        for query in dataset.queries.iter().filter(|query| query.split == "dev") {
            assert!(query.candidates.is_none());
            let (view, asked) = views.entry(&query.actor).or_insert_with(|| {
                let actor = dataset.actor(&query.actor).cloned().unwrap_or_else(Actor::all);
                (whole.view(&actor, None, None), Vec::new())
            });
            let labels = dataset.qrels.of(&query.id).within(|tool| view.contains(tool));
            asked.extend(labels.map(|labels| (query.text.as_str(), labels)));
        }
        Self(views)
    }

    /// Mean recall@5 in percent.
    async fn recall(&self, settings: &impl RetrieverSettings) -> f64 {
        let measure: Measure = "recall@5".parse().unwrap();
        let mut values = Vec::new();
        for (view, asked) in self.0.values() {
            let retriever: Arc<_> = settings.retriever(view).await.unwrap();
            for (text, labels) in asked {
                let found = retriever.search(text, 20).await.unwrap();
                let found: Vec<ToolId> = found.into_iter().map(|entry| entry.tool).collect();
                values.extend(measure.score(&found, labels));
            }
        }
        100.0 * values.iter().sum::<f64>() / values.len() as f64
    }
}

#[tokio::test]
async fn they_are_the_best_of_the_grid_on_dev() {
    let dataset = datasets::load(&root().join("datasets/data/atlas")).unwrap();
    let dev = Dev::of(&dataset);
    let of = |weights| Bm25fSettings { weights, ..Bm25fSettings::default() };
    let best = dev.recall(&of(Weights::default())).await;
    let mut tried = 0;
    for name in [1.0, 2.0, 4.0] {
        for server in [1.0, 2.0] {
            for arguments in [0.0, 0.5, 1.0] {
                let weights = Weights { name, server, description: 1.0, arguments };
                let value = dev.recall(&of(weights)).await;
                assert!(value <= best, "{value} of {weights:?} beats the default's {best}");
                tried += 1;
            }
        }
    }
    let bm25 = dev.recall(&Bm25Settings::default()).await;
    let sentence = format!(
        "the best recall@5 of {tried} settings (name 1, 2, 4; server 1, 2; arguments 0, ½, 1) on the `dev` queries of atlas {} at all \
         {} tools: {best:.1} against {bm25:.1} of `bm25`.",
        dataset.revision,
        dataset.catalogue.tools.len()
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let methodology = fs::read_to_string(root().join("METHODOLOGY.md")).unwrap();
    assert!(words(&methodology).contains(&words(&sentence)), "METHODOLOGY.md should say: {sentence}");
}
