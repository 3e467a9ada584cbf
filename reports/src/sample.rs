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
