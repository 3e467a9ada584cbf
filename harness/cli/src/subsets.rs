//! The tools of a catalogue at each size, with the distractors that a plan asks for.

use std::collections::HashSet;

use datasets::scale::{Distractors, ScaleError, anchored, nested};
use harness::catalogue::{Actor, View};
use harness::dataset::Dataset;
use harness::ids::ToolId;
use harness::run::manifest::DistractorKind;
use strategies::retrieve::bm25::{Bm25Retriever, Bm25Settings};

/// Cuts one dataset to sizes.
pub struct Subsets<'d> {
    dataset: &'d Dataset,
    ranked: Option<Vec<ToolId>>,
    seed: u64,
}

impl<'d> Subsets<'d> {
    pub fn new(dataset: &'d Dataset, kind: DistractorKind, seed: u64) -> Self {
        let ranked = match kind {
            DistractorKind::Random => None,
            DistractorKind::Confusable => Some(most_confusable_first(dataset)),
        };
        Self { dataset, ranked, seed }
    }

    pub fn dataset(&self) -> &'d Dataset {
        self.dataset
    }

    /// The catalogue of `size` tools.
    pub fn of(&self, size: usize) -> Result<Vec<ToolId>, ScaleError> {
        let distractors = self.ranked.as_deref().map_or(Distractors::Random, Distractors::First);
        nested(self.dataset, size, distractors, self.seed)
    }
}

/// Every tool, ordered by how near it comes to one that a scaling query is right about: BM25 with each such tool's own name and
/// description as the query, the first of every list, then the second of every list, and so on.
fn most_confusable_first(dataset: &Dataset) -> Vec<ToolId> {
    let catalogue = &dataset.catalogue;
    let all: Vec<ToolId> = catalogue.tools.iter().map(|tool| tool.id.clone()).collect();
    let retriever = Bm25Retriever::new(&View::new(catalogue, &Actor::all(), &all, None), &Bm25Settings::default());
    let anchored = anchored(dataset);
    let right = catalogue.tools.iter().filter(|tool| !tool.core && anchored.contains(&tool.id));
    let lists: Vec<Vec<ToolId>> = right
        .map(|tool| {
            let found = retriever.rank(&format!("{} {}", tool.name(), tool.description), all.len());
            found.into_iter().map(|entry| entry.tool).collect()
        })
        .collect();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut seen = HashSet::new();
    let by_place = (0..longest).flat_map(|place| lists.iter().filter_map(move |list| list.get(place)));
    by_place.filter(|tool| seen.insert(*tool)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn confusable_distractors_are_siblings_of_what_is_right() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/data/atlas");
        let dataset = datasets::load(&folder).unwrap();
        let anchors = anchored(&dataset);
        let servers: HashSet<&str> = anchors.iter().map(|tool| tool.server()).collect();
        let share = |kind| {
            let subset = Subsets::new(&dataset, kind, 1).of(150).unwrap();
            let distractors: Vec<_> = subset.iter().filter(|tool| !anchors.contains(tool)).collect();
            let siblings = distractors.iter().filter(|tool| servers.contains(tool.server())).count();
            siblings as f64 / distractors.len() as f64
        };
        let (random, confusable) = (share(DistractorKind::Random), share(DistractorKind::Confusable));
        assert!(confusable > random, "{confusable} of the confusable, {random} of the random ones");
    }
}
