//! What a run has at each of its sizes: the tools with the distractors that a plan asks for, or the skills.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use datasets::scale::{Distractors, ScaleError, anchored, held, nested, nested_skills, valid_at};
use harness::catalogue::{Actor, Subset, View};
use harness::dataset::Dataset;
use harness::ids::{Digest, QueryId, ToolId};
use harness::run::manifest::{Axis, DistractorKind};
use strategies::retrieve::bm25::{Bm25Retriever, Bm25Settings};

/// Cuts one dataset to sizes.
pub struct Subsets<'d> {
    dataset: &'d Dataset,
    axis: Axis,
    ranked: Option<Vec<ToolId>>,
    seed: u64,
}

impl<'d> Subsets<'d> {
    pub fn new(dataset: &'d Dataset, axis: Axis, kind: DistractorKind, seed: u64) -> Self {
        let ranked = match kind {
            DistractorKind::Random => None,
            DistractorKind::Confusable => Some(most_confusable_first(dataset)),
        };
        Self { dataset, axis, ranked, seed }
    }

    /// Where sizes count skills: how many everybody has at that catalogue, and of how many. One without a tool there is none.
    pub fn skills(&self) -> Result<Option<(usize, usize)>, ScaleError> {
        let Axis::Skills { .. } = self.axis else { return Ok(None) };
        let everybody = Actor::all();
        let there = self.whole(0)?.view(&everybody, None, None).skills().len();
        let of = self.dataset.catalogue.skills.iter().filter(|skill| everybody.sees(skill)).count();
        Ok(Some((there, of)))
    }

    /// The tools at `size`, with all skills.
    fn whole(&self, size: u32) -> Result<Subset, ScaleError> {
        let distractors = self.ranked.as_deref().map_or(Distractors::Random, Distractors::First);
        let tools = nested(self.dataset, self.axis.tools(size) as usize, distractors, self.seed)?;
        Ok(Subset { catalogue: self.dataset.catalogue.clone(), tools })
    }

    /// What there is at `size`.
    pub fn of(&self, size: u32) -> Result<Subset, ScaleError> {
        let whole = self.whole(size)?;
        match self.axis {
            Axis::Tools => Ok(whole),
            Axis::Skills { .. } => {
                let view = whole.view(&Actor::all(), None, None);
                let skills = nested_skills(self.dataset, &view, size as usize, self.seed)?;
                Ok(Subset { catalogue: Arc::new(whole.catalogue.with_skills(&skills)), tools: whole.tools })
            }
        }
    }

    /// Identity of what there is at a size.
    pub fn digest(&self, subset: &Subset) -> Digest {
        match self.axis {
            Axis::Tools => Digest::of_json(&subset.tools),
            Axis::Skills { .. } => Digest::of_json(&(&subset.tools, &subset.catalogue.skills)),
        }
    }

    /// The queries that mean the same at a size as in the whole dataset. `smallest` is what the run has at its smallest size:
    /// sets of skills are compared on what the smallest of them holds.
    pub fn valid(&self, subset: &Subset, smallest: &Subset) -> BTreeSet<QueryId> {
        let mut valid: BTreeSet<QueryId> = valid_at(self.dataset, &subset.tools).into_iter().collect();
        if let Axis::Skills { .. } = self.axis {
            let skills = smallest.catalogue.skills.iter().map(|skill| skill.name.clone()).collect();
            let held = held(self.dataset, &skills);
            valid.retain(|query| held.contains(query));
        }
        valid
    }

    /// Every query stands at the full catalogue: an actor who cannot answer one is a result, not a mistake of the plan.
    pub fn is_whole(&self, size: u32) -> bool {
        self.axis == Axis::Tools && size as usize == self.dataset.catalogue.tools.len()
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
            let subset = Subsets::new(&dataset, Axis::Tools, kind, 1).of(150).unwrap();
            let distractors: Vec<_> = subset.tools.iter().filter(|tool| !anchors.contains(tool)).collect();
            let siblings = distractors.iter().filter(|tool| servers.contains(tool.server())).count();
            siblings as f64 / distractors.len() as f64
        };
        let (random, confusable) = (share(DistractorKind::Random), share(DistractorKind::Confusable));
        assert!(confusable > random, "{confusable} of the confusable, {random} of the random ones");
    }
}
