//! Which queries the figures of a run are about that was planned to be stopped.

use std::collections::{BTreeMap, BTreeSet};

use harness::ids::QueryId;

use crate::Input;
use crate::summary::Subset;

/// The queries that count.
pub(crate) struct Sample<'a> {
    /// All, if absent.
    begun: Option<BTreeSet<&'a QueryId>>,
    pub(crate) subset: Option<Subset>,
}

/// The queries that count, by size.
pub(crate) struct Asked<'a>(BTreeMap<u32, BTreeSet<&'a QueryId>>);

impl<'a> Asked<'a> {
    pub(crate) fn of(input: &Input<'a>) -> Self {
        let sample = Sample::of(input);
        let mut asked: BTreeMap<u32, BTreeSet<&QueryId>> = BTreeMap::new();
        for job in input.plan.iter().filter(|job| sample.contains(&job.query)) {
            asked.entry(job.size).or_default().insert(&job.query);
        }
        Self(asked)
    }

    /// Ascending sizes, each with how many queries are asked at it.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().map(|(size, queries)| (*size, queries.len() as u64))
    }

    /// How many queries are asked at every size, if sizes ask different ones.
    pub(crate) fn everywhere(&self) -> Option<u64> {
        let mut sets = self.0.values();
        let first = sets.next()?;
        if sets.all(|queries| queries == first) {
            return None;
        }
        Some(first.iter().filter(|query| self.0.values().all(|queries| queries.contains(*query))).count() as u64)
    }

    /// The size asks other queries than the one before it.
    pub(crate) fn changed_at(&self, size: u32) -> bool {
        let before = self.0.range(..size).next_back();
        before.is_some_and(|(_, queries)| self.0.get(&size) != Some(queries))
    }
}

impl<'a> Sample<'a> {
    pub(crate) fn of(input: &Input<'a>) -> Self {
        let all = Self { begun: None, subset: None };
        if input.manifest.capped.is_none() {
            return all;
        }
        let mut planned: Vec<&QueryId> = Vec::new();
        let mut lacking: BTreeMap<&QueryId, i64> = BTreeMap::new();
        for job in input.plan {
            let lacks = lacking.entry(&job.query).or_insert(0);
            if *lacks == 0 {
                planned.push(&job.query);
            }
            *lacks += 1;
        }
        let recorded: BTreeSet<&QueryId> = input.scores.iter().map(|score| &score.query).collect();
        for score in input.scores {
            lacking.entry(&score.query).and_modify(|lacks| *lacks -= 1);
        }
        // Where nothing is known, all is missing.
        let Some(last) = planned.iter().rposition(|query| recorded.contains(query)) else { return all };
        let (begun, rest) = planned.split_at(last + 1);
        if rest.is_empty() {
            return all;
        }
        let unfinished = begun.iter().filter(|query| lacking[*query] > 0).map(ToString::to_string).collect();
        let subset = Subset { begun: begun.len() as u64, planned: planned.len() as u64, unfinished };
        Self { begun: Some(begun.iter().copied().collect()), subset: Some(subset) }
    }

    pub(crate) fn contains(&self, query: &QueryId) -> bool {
        self.begun.as_ref().is_none_or(|begun| begun.contains(query))
    }
}
