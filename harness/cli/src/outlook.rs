//! What a plan would take, view by view: an actor may have less in view than a size holds, and a query may bring candidates of
//! its own.

use std::collections::BTreeMap;

use harness::catalogue::{Actor, Subset};
use harness::dataset::{Dataset, Query};
use harness::ids::ActorId;
use harness::run::manifest::{ActorView, Axis, OwnCandidates, StrategyInfo};
use harness::run::plan::{Estimate, Grid};
use harness::text::{grouped, plural};

use crate::fit::{Fit, Limits, Scales, Weight, fit};
use crate::subsets::Subsets;

/// A strategy at a size, over all views in which its queries are asked.
#[derive(Clone, Debug)]
pub struct Outlook {
    pub estimate: Estimate,
    pub queries: usize,
    /// Queries that will not run, by reason.
    not_runnable: BTreeMap<&'static str, usize>,
    /// Queries that will not run if the strategy shows as much as it may, by reason.
    may_not_run: BTreeMap<&'static str, usize>,
    /// The tokens are a bound.
    pub at_most: bool,
}

impl Outlook {
    /// Nothing of it will run.
    pub fn never_runs(&self) -> bool {
        self.queries > 0 && self.not_runnable.values().sum::<usize>() == self.queries
    }

    /// `not runnable for 3 of 9 queries (context)`; nothing if all will run.
    pub fn doubts(&self) -> Option<String> {
        let of = plural(self.queries as u64, "query", "queries");
        let told = |what: &str, (why, queries): (&&str, &usize)| {
            let why = why.replace('_', " ");
            format!("{what} for {} of {of} ({why})", grouped(*queries as u64))
        };
        let certain = self.not_runnable.iter().map(|row| told("not runnable", row));
        let perhaps = self.may_not_run.iter().map(|row| told("perhaps not runnable", row));
        let doubts: Vec<String> = certain.chain(perhaps).collect();
        (!doubts.is_empty()).then(|| doubts.join(", "))
    }
}

/// Every strategy at every size.
pub fn outlooks(subsets: &Subsets<'_>, dataset: &Dataset, grid: &Grid<'_>, limits: Limits<'_>) -> Vec<Outlook> {
    let mut scales = Scales::new(limits.profile);
    let mut rows = Vec::new();
    for (size, _, queries) in &grid.sizes {
        let Ok(subset) = subsets.of(*size) else { continue };
        let views = weighed(dataset, &subset, queries, &mut scales);
        let of = |info: &StrategyInfo| outlook(info, *size, grid.repeats as usize, &views, limits);
        rows.extend(grid.strategies.iter().map(of));
    }
    rows
}

/// The views of a size, each with how many queries are asked in it.
fn weighed(dataset: &Dataset, subset: &Subset, queries: &[&Query], scales: &mut Scales<'_>) -> Vec<(Weight, usize)> {
    let everyone = Actor::all();
    let mut shared: BTreeMap<&ActorId, (Weight, usize)> = BTreeMap::new();
    let mut own = Vec::new();
    for query in queries {
        let actor = dataset.actor(&query.actor).unwrap_or(&everyone);
        if let Some(candidates) = &query.candidates {
            own.push((scales.weigh(&subset.catalogue, actor, candidates), 1));
        } else {
            let weigh = || (scales.weigh(&subset.catalogue, actor, &subset.tools), 0);
            shared.entry(&query.actor).or_insert_with(weigh).1 += 1;
        }
    }
    shared.into_values().chain(own).collect()
}

fn outlook(info: &StrategyInfo, size: u32, repeats: usize, views: &[(Weight, usize)], limits: Limits<'_>) -> Outlook {
    let estimate = Estimate {
        strategy: info.label.clone(),
        size,
        episodes: 0,
        requests: 0,
        input_tokens: 0,
        output_tokens: 0,
        not_runnable: false,
    };
    let (not_runnable, may_not_run) = (BTreeMap::new(), BTreeMap::new());
    let mut row = Outlook { estimate, queries: 0, not_runnable, may_not_run, at_most: false };
    for (weight, queries) in views {
        let Fit { estimate, not_runnable, may_not_run, at_most, .. } =
            fit(info, (size, queries * repeats), weight, limits);
        row.queries += queries;
        row.estimate.episodes += estimate.episodes;
        row.estimate.requests += estimate.requests;
        row.estimate.input_tokens += estimate.input_tokens;
        row.estimate.output_tokens += estimate.output_tokens;
        row.at_most |= at_most && estimate.requests > 0;
        if let Some(why) = not_runnable {
            *row.not_runnable.entry(why.as_str()).or_insert(0) += queries;
        } else if let Some(why) = may_not_run {
            *row.may_not_run.entry(why.as_str()).or_insert(0) += queries;
        }
    }
    row.estimate.not_runnable = row.never_runs();
    row
}

/// The actors among these queries who have less in view than the size holds.
pub fn actor_views(dataset: &Dataset, subset: &Subset, size: u32, axis: Axis, queries: &[&Query]) -> Vec<ActorView> {
    let mut asking: BTreeMap<&ActorId, usize> = BTreeMap::new();
    for query in queries.iter().filter(|query| query.candidates.is_none()) {
        *asking.entry(&query.actor).or_insert(0) += 1;
    }
    let everyone = Actor::all();
    let view = |(id, queries): (&ActorId, usize)| {
        let view = subset.view(dataset.actor(id).unwrap_or(&everyone), None, None);
        let (tools, skills) = (view.len(), view.skills().len());
        ActorView { size, actor: id.clone(), tools, skills, queries }
    };
    let fewer = |view: &ActorView| {
        view.tools < subset.tools.len() || axis != Axis::Tools && view.skills < subset.catalogue.skills.len()
    };
    asking.into_iter().map(view).filter(fewer).collect()
}

/// How many queries are asked of candidates of their own, if any is.
pub fn own_candidates<'q>(queries: impl IntoIterator<Item = &'q Query>) -> Option<OwnCandidates> {
    let counts: Vec<usize> = queries.into_iter().filter_map(|query| query.candidates.as_ref()).map(Vec::len).collect();
    let most = *counts.iter().max()?;
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    Some(OwnCandidates { queries: counts.len(), mean, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_not_run_is_counted_by_reason() {
        let estimate = Estimate {
            strategy: "eager".to_owned(),
            size: 40,
            episodes: 9,
            requests: 0,
            input_tokens: 0,
            output_tokens: 0,
            not_runnable: false,
        };
        let not_runnable = BTreeMap::from([("context", 3), ("tool_limit", 1)]);
        let mut row = Outlook {
            estimate,
            queries: 9,
            not_runnable,
            may_not_run: BTreeMap::from([("context", 2)]),
            at_most: false,
        };
        let doubts = "not runnable for 3 of 9 queries (context), not runnable for 1 of 9 queries (tool limit), perhaps not \
                      runnable for 2 of 9 queries (context)";
        assert_eq!((row.doubts().as_deref(), row.never_runs()), (Some(doubts), false));
        row.not_runnable = BTreeMap::from([("tool_limit", 9)]);
        assert!(row.never_runs());
        (row.not_runnable, row.may_not_run) = (BTreeMap::new(), BTreeMap::new());
        assert_eq!((row.doubts(), row.never_runs()), (None, false));
    }
}
