//! A strategy against the reference, pair by pair.

use std::collections::BTreeMap;

use harness::metric::stats::{
    Interval, LEVEL, PairedCounts, RESAMPLES, cluster_bootstrap, holm, mcnemar_exact, newcombe_paired, sign_flip,
    smallest_difference,
};

use crate::Input;
use crate::cell::Cell;
use crate::summary::{BothRun, Comparison, Row, Verdict};
use crate::tally::{RECALL, SUCCESS, clusters};

/// The chance of any false alarm among the comparisons of one size.
pub(crate) const ALPHA: f64 = 0.05;

/// Assumed where the pairs show no difference at all.
const ASSUMED_DISCORDANCE: f64 = 0.10;

/// Adds to each row its comparison with the reference, if the run has one at this size.
pub(crate) fn compare(input: &Input<'_>, rows: &mut [Row], cells: &[&Vec<Cell<'_>>]) {
    let Some(reference) = input.manifest.reference.as_ref() else { return };
    let Some(at) = rows.iter().position(|row| row.strategy == *reference) else { return };
    let measure = match &rows[at] {
        row if row.success.is_some() => SUCCESS,
        row if row.retrieved(RECALL).is_some() => RECALL,
        _ => return,
    };
    let has = |row: &Row| if measure == RECALL { row.retrieved(RECALL).is_some() } else { row.success.is_some() };
    let compared: Vec<usize> = (0..rows.len()).filter(|&other| other != at && has(&rows[other])).collect();
    let alpha = ALPHA / compared.len().max(1) as f64;
    let mut comparisons: Vec<(usize, Comparison)> = compared
        .into_iter()
        .filter_map(|other| Some((other, pair_up(input, cells[other], cells[at], measure, alpha)?)))
        .collect();
    let p: Vec<f64> = comparisons.iter().map(|(_, comparison)| comparison.p).collect();
    for ((_, comparison), p_adjusted) in comparisons.iter_mut().zip(holm(&p)) {
        comparison.p_adjusted = p_adjusted;
        comparison.verdict = match p_adjusted <= ALPHA {
            true if comparison.difference > 0.0 => Verdict::Better,
            true if comparison.difference < 0.0 => Verdict::Worse,
            _ => Verdict::NotShown,
        };
    }
    for (other, comparison) in comparisons {
        rows[other].comparison = Some(comparison);
    }
}

/// The same query and repeat, under both strategies.
struct Pair<'a> {
    cluster: &'a str,
    own: f64,
    reference: f64,
    someone_could_not_run: bool,
}

fn pairs<'a>(cells: &'a [Cell<'_>], reference: &'a [Cell<'_>], measure: &str) -> Vec<Pair<'a>> {
    let value =
        |cell: &Cell<'_>| if measure == RECALL { cell.retrieval(RECALL) } else { cell.success().map(f64::from) };
    let key = |cell: &'a Cell<'_>| (&cell.job.query, cell.job.repeat);
    let references: BTreeMap<_, _> = reference.iter().map(|cell| (key(cell), cell)).collect();
    let pair = |cell: &'a Cell<'_>| {
        let other = references.get(&key(cell))?;
        Some(Pair {
            cluster: cell.cluster(),
            own: value(cell)?,
            reference: value(other)?,
            someone_could_not_run: cell.not_runnable() || other.not_runnable(),
        })
    };
    cells.iter().filter_map(pair).collect()
}

/// `alpha` is what the strictest step of Holm's procedure tests at. `None` without a pair.
fn pair_up(
    input: &Input<'_>,
    cells: &[Cell<'_>],
    reference: &[Cell<'_>],
    measure: &'static str,
    alpha: f64,
) -> Option<Comparison> {
    let pairs = pairs(cells, reference, measure);
    let n = pairs.len() as u64;
    let mean = |value: fn(&Pair<'_>) -> f64| pairs.iter().map(value).sum::<f64>() / n as f64;
    let repeats = u64::from(input.manifest.repeats.max(1));
    let (interval, p) = if measure != RECALL && repeats == 1 { exact(&pairs) } else { resampled(input, &pairs)? };
    let differing = pairs.iter().filter(|pair| (pair.own - pair.reference).abs() > 1e-12).count() as f64;
    let discordance = if n == 0 { return None } else { differing / n as f64 };
    let assumed = if discordance > 0.0 { discordance } else { ASSUMED_DISCORDANCE };
    Some(Comparison {
        measure,
        pairs: n,
        difference: mean(|pair| pair.own) - mean(|pair| pair.reference),
        interval,
        p,
        p_adjusted: p,
        verdict: Verdict::NotShown,
        discordance,
        // Repeats of a query are not new queries.
        smallest_difference: smallest_difference(n / repeats, assumed, alpha),
        both_run: both_run(&pairs),
    })
}

fn exact(pairs: &[Pair<'_>]) -> (Interval, f64) {
    let mut counts = PairedCounts::default();
    for pair in pairs {
        counts.add(pair.own > 0.5, pair.reference > 0.5);
    }
    (newcombe_paired(counts, LEVEL), mcnemar_exact(counts.only_a, counts.only_b))
}

fn resampled(input: &Input<'_>, pairs: &[Pair<'_>]) -> Option<(Interval, f64)> {
    let differences = clusters(pairs.iter().map(|pair| (pair.cluster, pair.own - pair.reference)));
    let seed = input.manifest.seed;
    Some((cluster_bootstrap(&differences, LEVEL, RESAMPLES, seed)?, sign_flip(&differences, RESAMPLES, seed)))
}

fn both_run(pairs: &[Pair<'_>]) -> Option<BothRun> {
    let subset: Vec<&Pair<'_>> = pairs.iter().filter(|pair| !pair.someone_could_not_run).collect();
    if subset.len() == pairs.len() || subset.is_empty() {
        return None;
    }
    let mean = |value: fn(&Pair<'_>) -> f64| subset.iter().map(|pair| value(pair)).sum::<f64>() / subset.len() as f64;
    Some(BothRun {
        pairs: subset.len() as u64,
        of: pairs.len() as u64,
        rate: mean(|pair| pair.own),
        reference_rate: mean(|pair| pair.reference),
    })
}
