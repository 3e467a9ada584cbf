//! The grid strategy × size × query × repeat, its keys, and what it would take.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::manifest::{OrderInfo, OrderKind, StrategyInfo};
use crate::dataset::Query;
use crate::ids::{Digest, JobKey, QueryId};

/// One planned episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub key: JobKey,
    /// Label of the strategy.
    pub strategy: String,
    pub query: QueryId,
    /// Tools in the catalogue.
    pub size: u32,
    /// Which permutation of the view.
    pub order: u32,
    pub repeat: u32,
    pub seed: u64,
}

/// What the grid is made of.
pub struct Grid<'a> {
    /// Everything beside the job itself that decides a result: dataset, endpoint identity, loop settings.
    pub context: Digest,
    pub strategies: &'a [StrategyInfo],
    /// Per catalogue size its digest and the queries asked at it.
    pub sizes: Vec<(u32, Digest, Vec<&'a Query>)>,
    pub order: OrderInfo,
    pub repeats: u32,
    pub seed: u64,
}

/// All jobs, in the order in which they run.
///
/// Queries of one permutation run together, so that a server's prefix cache works within a strategy; which strategy comes
/// first is drawn anew for each block, so that none profits from the hour.
pub fn jobs(grid: &Grid<'_>) -> Vec<Job> {
    let mut blocks: BTreeMap<(u32, u32, u32, u64, usize), Vec<Job>> = BTreeMap::new();
    for (size, catalogue, queries) in &grid.sizes {
        for query in queries {
            let order = order_of(grid, &query.id);
            for repeat in 0..grid.repeats {
                for (index, strategy) in grid.strategies.iter().enumerate() {
                    let draw = Digest::of_json(&(grid.seed, size, order, repeat, &strategy.label)).seed();
                    let key = JobKey::of_json(&(
                        &grid.context,
                        catalogue,
                        &strategy.meta,
                        &query.id,
                        order,
                        grid.seed,
                        repeat,
                    ));
                    let seed = Digest::of_json(&(grid.seed, &query.id, repeat)).seed();
                    let (strategy, query) = (strategy.label.clone(), query.id.clone());
                    let job = Job { key, strategy, query, size: *size, order, repeat, seed };
                    blocks.entry((repeat, *size, order, draw, index)).or_default().push(job);
                }
            }
        }
    }
    blocks.into_values().flatten().collect()
}

/// The same jobs query by query, for a run that may be stopped: wherever that is, what it has done is every strategy and every
/// size on the first of `queries`, whose order should be random.
///
/// Within a query the order of strategies and sizes is drawn anew, so that the one that is cut off last is not always the same.
/// Repeats follow each other: they are what a server's prefix cache can still profit from.
pub fn by_query(mut jobs: Vec<Job>, queries: &[QueryId], seed: u64) -> Vec<Job> {
    let places: HashMap<&QueryId, usize> = queries.iter().enumerate().map(|(place, query)| (query, place)).collect();
    jobs.sort_by_cached_key(|job| {
        let place = places.get(&job.query).copied().unwrap_or(usize::MAX);
        (place, job.query.clone(), Digest::of_json(&(seed, &job.query, job.size, &job.strategy)), job.repeat)
    });
    jobs
}

/// The permutation a query is assigned to: drawn per query, the same for every strategy and size.
fn order_of(grid: &Grid<'_>, query: &QueryId) -> u32 {
    match grid.order.kind {
        OrderKind::Fixed => 0,
        OrderKind::Blocked => {
            (Digest::of_json(&(grid.seed, query)).seed() % u64::from(grid.order.orders.max(1))) as u32
        }
    }
}

/// The seed of a permutation; `None` = the order of the catalogue.
pub fn order_seed(order: &OrderInfo, seed: u64, index: u32) -> Option<u64> {
    (order.kind == OrderKind::Blocked).then(|| Digest::of_json(&(seed, "order", index)).seed())
}

/// What a strategy at a size would take, estimated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub strategy: String,
    pub size: u32,
    pub episodes: usize,
    /// Requests to the model.
    pub requests: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The prompt would not fit: every episode ends as `not_runnable`.
    pub not_runnable: bool,
}

/// Numbers that an estimate rests on. All are the planner's assumptions and are printed as such.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateBasis {
    /// Outer generations of an episode: the call and the closing words.
    pub outer_turns: u64,
    /// Tokens of one generation.
    pub output_tokens_per_turn: u64,
    /// Tokens of the base prompt, the question and a receipt.
    pub overhead_tokens: u64,
}

impl Default for EstimateBasis {
    fn default() -> Self {
        Self { outer_turns: 2, output_tokens_per_turn: 45, overhead_tokens: 140 }
    }
}

/// Estimates one strategy at one size.
///
/// `core_tokens` are the definitions of the core tools, `tool_tokens` those of all others, `skill_tokens` the summaries of
/// all skills.
pub fn estimate(
    strategy: &StrategyInfo,
    size: (u32, usize),
    (core_tokens, tool_tokens, tools, skill_tokens): (u64, u64, u64, u64),
    limit: Option<u64>,
    basis: EstimateBasis,
) -> Estimate {
    let (size, episodes) = size;
    let meta = &strategy.meta;
    let mut estimate = Estimate {
        strategy: strategy.label.clone(),
        size,
        episodes,
        requests: 0,
        input_tokens: 0,
        output_tokens: 0,
        not_runnable: false,
    };
    if !meta.drives_model {
        return estimate;
    }
    let shown = meta.shown_tools.map_or(tools, |shown| tools.min(shown as u64));
    let prompt = core_tokens + tool_tokens * shown / tools.max(1) + basis.overhead_tokens;
    let inner = skill_tokens + basis.overhead_tokens;
    estimate.not_runnable = limit.is_some_and(|limit| prompt > limit);
    if !estimate.not_runnable {
        let (outer_turns, inner_turns) = (basis.outer_turns, u64::from(meta.inner_turns));
        let episodes = episodes as u64;
        estimate.requests = episodes * (outer_turns + inner_turns);
        estimate.input_tokens = episodes * (prompt * outer_turns + inner * inner_turns);
        estimate.output_tokens = estimate.requests * basis.output_tokens_per_turn;
    }
    estimate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(query: &str, strategy: &str, size: u32, repeat: u32) -> Job {
        let key = JobKey::of_json(&(query, strategy, size, repeat));
        Job { key, strategy: strategy.to_owned(), query: QueryId::new(query), size, order: 0, repeat, seed: 0 }
    }

    #[test]
    fn any_beginning_of_a_plan_by_query_is_whole_queries_and_one_more() {
        let mut jobs = Vec::new();
        for repeat in 0..2 {
            for size in [50, 100] {
                for strategy in ["a", "b"] {
                    jobs.extend((0..9).map(|query| job(&format!("q{query}"), strategy, size, repeat)));
                }
            }
        }
        let order: Vec<QueryId> = [4, 7, 0, 1, 8, 2, 6, 3, 5].map(|query| QueryId::new(&format!("q{query}"))).to_vec();
        let planned = by_query(jobs.clone(), &order, 1);
        let of_a_query: Vec<_> =
            planned.chunks(8).map(|jobs| jobs.iter().all(|job| job.query == jobs[0].query)).collect();
        assert_eq!(of_a_query, [true; 9]);
        assert_eq!(planned.chunks(8).map(|jobs| jobs[0].query.clone()).collect::<Vec<_>>(), order);
        assert!(planned.chunks(2).all(|pair| pair[0].strategy == pair[1].strategy && pair[0].size == pair[1].size));
        let first: std::collections::BTreeSet<_> =
            planned.chunks(8).map(|jobs| (&jobs[0].strategy, jobs[0].size)).collect();
        assert!(first.len() > 1, "not always the same comes first");
        let mut sorted = [jobs, planned.clone()];
        for plan in &mut sorted {
            plan.sort_by(|a, b| a.key.cmp(&b.key));
        }
        assert_eq!(sorted[0], sorted[1], "the same jobs");
        assert_ne!(by_query(planned.clone(), &order, 2), planned);
    }
}
