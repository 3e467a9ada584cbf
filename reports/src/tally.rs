//! One row: the cells of one strategy at one size, counted.

use std::collections::BTreeMap;

use harness::metric::score::{Score, Stage};
use harness::metric::stats::{Cluster, LEVEL, RESAMPLES, cluster_bootstrap, wilson};
use harness::run::manifest::StrategyInfo;
use harness::usage::UsageSource;

use crate::Input;
use crate::cell::{Cell, at_limit};
use crate::summary::{Effort, Mean, Proportion, Retrieval, Row, Share, TokenSource, Tokens, Waterfall};

/// The measure of the per-kind table and of the plot.
pub(crate) const RECALL: &str = "recall@5";

/// The measure that strategies are compared by where a model takes part.
pub(crate) const SUCCESS: &str = "success";

/// Counts one row; the comparison is added later.
pub(crate) fn row(input: &Input<'_>, info: &StrategyInfo, definition_tokens: Option<u64>, cells: &[Cell<'_>]) -> Row {
    let meta = &info.meta;
    let scores: Vec<&Score> = cells.iter().filter_map(|cell| cell.score).collect();
    let count = |test: &dyn Fn(&Score) -> bool| scores.iter().filter(|score| test(score)).count() as u64;
    let sum = |value: &dyn Fn(&Score) -> u32| scores.iter().map(|score| u64::from(value(score))).sum::<u64>();
    let driven = |share: Share| (meta.drives_model && share.of > 0).then_some(share);
    let success = meta.drives_model.then(|| success(input, cells)).flatten();
    Row {
        strategy: info.label.clone(),
        drives_model: meta.drives_model,
        ranks: meta.ranks,
        planned: cells.len() as u64,
        missing: (cells.len() - scores.len()) as u64,
        failed: count(&|score| score.infra_failure),
        limited: count(&at_limit),
        not_runnable: count(&|score| score.not_runnable),
        prompt_estimate: definition_tokens.filter(|_| meta.drives_model && meta.shown_tools.is_none()),
        outcomes: scores.iter().fold(BTreeMap::new(), |mut outcomes, score| {
            *outcomes.entry(score.outcome.clone()).or_insert(0) += 1;
            outcomes
        }),
        retrieval: meta.ranks.then(|| retrieval(input, cells)),
        exposed: driven(exposed(cells)),
        coverage_success: driven(share(cells.iter().filter_map(Cell::coverage_success))),
        success_args: driven(share(
            cells.iter().filter_map(|cell| Some(cell.score?.success_args? && cell.deployed().is_some())),
        )),
        comparison: None,
        effort: meta.drives_model.then(|| effort(&scores)).flatten(),
        tokens: meta.drives_model.then(|| tokens(&scores, success)).flatten(),
        waste: scores.iter().flat_map(|score| &score.waste).fold(BTreeMap::new(), |mut waste, (cause, turns)| {
            *waste.entry(*cause).or_insert(0) += u64::from(*turns);
            waste
        }),
        waterfall: meta.drives_model.then(|| waterfall(cells, meta.ranks)),
        success_by_kind: if meta.drives_model { success_by_kind(cells) } else { BTreeMap::new() },
        recall_by_kind: if meta.ranks { recall_by_kind(input, cells) } else { BTreeMap::new() },
        unanswerable: count(&|score| score.unanswerable),
        guesses: sum(&|score| score.guesses),
        cache_invalidating_turns: sum(&|score| score.cache_invalidating_turns),
        // Where a strategy asks before the conversation, its own tools are those of that question.
        own_tools_unused: (!meta.own_tools.is_empty() && meta.inner_turns == 0)
            .then(|| share(asked(&scores).filter(|score| score.groups > 0).map(|score| score.own_calls == 0))),
        leaks: sum(&|score| score.leaks),
        truncation_suspected: count(&|score| score.truncation_suspected),
        hinges_on_unjudged: count(&|score| score.hinges_on_unjudged),
        success,
    }
}

fn share(values: impl Iterator<Item = bool>) -> Share {
    values.fold(Share::default(), |mut share, hit| {
        share.add(hit);
        share
    })
}

fn success(input: &Input<'_>, cells: &[Cell<'_>]) -> Option<Proportion> {
    let share = share(cells.iter().filter_map(Cell::success));
    let rate = share.rate()?;
    let interval = if input.manifest.repeats <= 1 {
        wilson(share.hits, share.of, LEVEL)
    } else {
        let values = cells.iter().filter_map(|cell| Some((cell.cluster(), f64::from(cell.success()?))));
        cluster_bootstrap(&clusters(values), LEVEL, RESAMPLES, input.manifest.seed)?
    };
    Some(Proportion { share, rate, interval })
}

/// Sums values that share a cluster.
pub(crate) fn clusters<'a>(values: impl Iterator<Item = (&'a str, f64)>) -> Vec<Cluster> {
    let mut clusters: BTreeMap<&str, Cluster> = BTreeMap::new();
    for (key, value) in values {
        let cluster = clusters.entry(key).or_default();
        cluster.sum += value;
        cluster.count += 1;
    }
    clusters.into_values().collect()
}

fn retrieval(input: &Input<'_>, cells: &[Cell<'_>]) -> Retrieval {
    let no_tool = cells.iter().filter(|cell| cell.groups() == 0).count();
    let mean_of = |name: String| Some((mean(cells, &name)?.mean, name));
    Retrieval {
        n: (cells.len() - no_tool) as u64,
        no_tool: no_tool as u64,
        means: input.measures.iter().filter_map(|measure| mean_of(measure.to_string())).map(|(m, n)| (n, m)).collect(),
    }
}

fn mean<'a, 'c: 'a>(cells: impl IntoIterator<Item = &'a Cell<'c>>, measure: &str) -> Option<Mean> {
    let (sum, n) = cells
        .into_iter()
        .filter_map(|cell| cell.retrieval(measure))
        .fold((0.0, 0_u64), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| Mean { mean: sum / n as f64, n })
}

fn exposed(cells: &[Cell<'_>]) -> Share {
    let defined = |score: &Score| score.stages.iter().filter(|stage| **stage >= Stage::Defined).count() as u64;
    cells.iter().fold(Share::default(), |share, cell| Share {
        hits: share.hits + cell.deployed().map_or(0, defined),
        of: share.of + u64::from(cell.groups()),
    })
}

/// A model answered: only such episodes have turns and tokens to speak of.
fn asked<'a>(scores: &'a [&Score]) -> impl Iterator<Item = &'a Score> {
    scores.iter().copied().filter(|score| score.turns() > 0)
}

fn effort(scores: &[&Score]) -> Option<Effort> {
    let episodes = asked(scores).count() as u64;
    let mean = |value: fn(&Score) -> u32| {
        asked(scores).map(|score| u64::from(value(score))).sum::<u64>() as f64 / episodes as f64
    };
    (episodes > 0).then(|| Effort {
        episodes,
        outer_turns: mean(|score| score.turns_outer),
        inner_turns: mean(|score| score.turns_inner),
        wasted_turns: mean(Score::wasted_turns),
    })
}

fn tokens(scores: &[&Score], success: Option<Proportion>) -> Option<Tokens> {
    let of = |source: UsageSource| asked(scores).filter(move |score| score.token_source == source);
    let (reported, estimated) = (of(UsageSource::Reported).count(), of(UsageSource::Estimated).count());
    let (source, episodes) = match (reported, estimated) {
        (0, 0) => return None,
        (episodes, 0) => (TokenSource::Reported, episodes),
        (0, episodes) => (TokenSource::Estimated, episodes),
        _ => return Some(Tokens { source: TokenSource::Mixed, per_query: None, per_success: None }),
    };
    let all = asked(scores).map(Score::tokens).sum::<u64>() as f64;
    // Sequential queries of mode `first_call` have no success to pay for.
    let paid = asked(scores).filter(|score| score.success.is_some()).map(Score::tokens).sum::<u64>() as f64;
    let successes = success.map_or(0, |success| success.share.hits);
    Some(Tokens {
        source,
        per_query: Some(all / episodes as f64),
        per_success: (successes > 0).then(|| paid / successes as f64),
    })
}

fn waterfall(cells: &[Cell<'_>], ranks: bool) -> Waterfall {
    let stages = || cells.iter().filter_map(|cell| cell.score).flat_map(|score| &score.stages);
    let retrieves = ranks || stages().any(|stage| *stage == Stage::Retrieved);
    let all = [Stage::Named, Stage::Retrieved, Stage::Defined, Stage::Called, Stage::Valid];
    Waterfall {
        groups: cells.iter().map(|cell| u64::from(cell.groups())).sum(),
        reached: all
            .into_iter()
            .filter(|stage| retrieves || *stage != Stage::Retrieved)
            .map(|stage| (stage, stages().filter(|reached| **reached >= stage).count() as u64))
            .collect(),
    }
}

fn success_by_kind(cells: &[Cell<'_>]) -> BTreeMap<harness::dataset::Kind, Share> {
    cells.iter().fold(BTreeMap::new(), |mut kinds, cell| {
        if let Some(success) = cell.success() {
            kinds.entry(cell.kind()).or_insert_with(Share::default).add(success);
        }
        kinds
    })
}

fn recall_by_kind(input: &Input<'_>, cells: &[Cell<'_>]) -> BTreeMap<harness::dataset::Kind, Mean> {
    if !input.measures.iter().any(|measure| measure.to_string() == RECALL) {
        return BTreeMap::new();
    }
    let mut kinds: BTreeMap<_, Vec<&Cell<'_>>> = BTreeMap::new();
    for cell in cells {
        kinds.entry(cell.kind()).or_default().push(cell);
    }
    kinds.into_iter().filter_map(|(kind, cells)| Some((kind, mean(cells, RECALL)?))).collect()
}
