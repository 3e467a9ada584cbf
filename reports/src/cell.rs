//! The plan joined with the scores: one cell per planned episode, whether or not it ever ran.

use std::collections::{BTreeMap, HashMap};

use harness::dataset::Kind;
use harness::ids::{IntentId, JobKey, QueryId};
use harness::metric::score::Score;
use harness::run::plan::Job;

use crate::Input;
use crate::sample::Sample;

/// A planned episode and what is known of it.
pub(crate) struct Cell<'a> {
    pub(crate) job: &'a Job,
    pub(crate) score: Option<&'a Score>,
    query: Facts<'a>,
}

/// What the plan, or else the scores of any strategy, tell about a query.
#[derive(Clone, Copy, Default)]
struct Facts<'a> {
    /// Required groups; `None` if the plan does not say and no episode of the query was scored.
    groups: Option<u32>,
    kind: Option<Kind>,
    intent: Option<&'a IntentId>,
    /// Model-driven strategies are not scored end to end on it.
    outside_success: bool,
}

impl Cell<'_> {
    /// The score, unless the episode is one of those that score the worst value: failed, at a limit, not runnable, missing.
    pub(crate) fn deployed(&self) -> Option<&Score> {
        self.score.filter(|score| !score.infra_failure && !score.not_runnable && !at_limit(score))
    }

    pub(crate) fn not_runnable(&self) -> bool {
        self.score.is_some_and(|score| score.not_runnable)
    }

    /// An unknown kind is what an import that does not say has.
    pub(crate) fn kind(&self) -> Kind {
        self.query.kind.unwrap_or(Kind::Unspecified)
    }

    /// A query of which nothing is known counts as one with a group.
    pub(crate) fn groups(&self) -> u32 {
        self.query.groups.unwrap_or(1)
    }

    /// The cluster of intervals: the intent, or else the query.
    pub(crate) fn cluster(&self) -> &str {
        self.query.intent.map_or(self.job.query.as_str(), IntentId::as_str)
    }

    /// Success as deployed; `None` where it is not scored.
    pub(crate) fn success(&self) -> Option<bool> {
        self.end_to_end(|score| score.success)
    }

    pub(crate) fn coverage_success(&self) -> Option<bool> {
        self.end_to_end(|score| score.coverage_success)
    }

    fn end_to_end(&self, value: impl Fn(&Score) -> Option<bool>) -> Option<bool> {
        match self.score {
            Some(score) => Some(value(score)? && self.deployed().is_some()),
            None => (!self.query.outside_success).then_some(false),
        }
    }

    /// A retrieval measure as deployed; `None` for a query that needs no tool.
    pub(crate) fn retrieval(&self, measure: &str) -> Option<f64> {
        (self.groups() > 0)
            .then(|| self.deployed().and_then(|score| score.retrieval.get(measure).copied()).unwrap_or(0.0))
    }
}

pub(crate) fn at_limit(score: &Score) -> bool {
    score.outcome.starts_with("limit(")
}

/// Cells by size and position of the strategy in the manifest, in plan order. Queries that a capped run did not begin have none.
pub(crate) fn cells<'a>(input: &Input<'a>) -> BTreeMap<u32, Vec<Vec<Cell<'a>>>> {
    let by_job: HashMap<(&JobKey, &str), &Score> =
        input.scores.iter().map(|score| ((&score.job, score.strategy.as_str()), score)).collect();
    let strategies = &input.manifest.strategies;
    let (mut at_size, mut anywhere) = (HashMap::new(), HashMap::new());
    for score in input.scores {
        let drives_model = strategies.iter().any(|info| info.label == score.strategy && info.meta.drives_model);
        for facts in [
            at_size.entry((&score.query, score.size)).or_insert_with(Facts::default),
            anywhere.entry(&score.query).or_default(),
        ] {
            facts.learn(score, drives_model);
        }
    }
    for planned in input.queries {
        let facts = Facts {
            groups: Some(planned.groups),
            kind: Some(planned.kind),
            intent: Some(&planned.intent),
            outside_success: !planned.end_to_end,
        };
        at_size.insert((&planned.query, planned.size), facts);
    }
    let facts = |job: &Job| -> Facts<'a> {
        let by_query: Option<&Facts<'a>> =
            at_size.get(&(&job.query, job.size)).or_else(|| anywhere.get::<QueryId>(&job.query));
        by_query.copied().unwrap_or_default()
    };
    let mut cells: BTreeMap<u32, Vec<Vec<Cell<'_>>>> = BTreeMap::new();
    let sample = Sample::of(input);
    for job in input.plan.iter().filter(|job| sample.contains(&job.query)) {
        let Some(index) = strategies.iter().position(|info| info.label == job.strategy) else { continue };
        let score = by_job.get(&(&job.key, job.strategy.as_str())).copied();
        let size = cells.entry(job.size).or_insert_with(|| strategies.iter().map(|_| Vec::new()).collect());
        size[index].push(Cell { job, score, query: facts(job) });
    }
    cells
}

impl<'a> Facts<'a> {
    fn learn(&mut self, score: &'a Score, drives_model: bool) {
        self.groups = self.groups.max(Some(score.groups));
        self.kind = Some(score.kind);
        self.intent = Some(&score.intent);
        self.outside_success |= drives_model && score.success.is_none();
    }
}
