//! What a number of queries allows one to say: intervals, paired tests, and the difference a run could show at all.
//!
//! Probabilities, levels and differences are fractions, not percent.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

/// The confidence level used where nobody asks for another.
pub const LEVEL: f64 = 0.95;

/// The chance of showing a difference that exists, behind every statement on the size of a run.
pub const POWER: f64 = 0.8;

/// A confidence interval, bounds included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub lower: f64,
    pub upper: f64,
}

/// Quantile of the standard normal distribution.
fn z(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// Interval for a proportion (Wilson 1927, without continuity correction), two-sided at `level`.
///
/// Contains `successes / trials` and lies in 0..=1. Without trials it is the whole of 0..=1: nothing is known.
///
/// # Panics
/// More successes than trials, or a level outside 0..1.
pub fn wilson(successes: u64, trials: u64, level: f64) -> Interval {
    assert!(successes <= trials, "{successes} successes of {trials} trials");
    assert!(level > 0.0 && level < 1.0, "confidence level {level} outside 0..1");
    if trials == 0 {
        return Interval { lower: 0.0, upper: 1.0 };
    }
    let n = trials as f64;
    let p = successes as f64 / n;
    let z = z(f64::midpoint(1.0, level));
    let scale = 1.0 + z * z / n;
    let centre = (p + z * z / (2.0 * n)) / scale;
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / scale;
    // At 0 and n successes one bound is the estimate itself; rounding must not push it past.
    Interval { lower: (centre - half).clamp(0.0, p), upper: (centre + half).clamp(p, 1.0) }
}

/// Exact two-sided p-value for paired yes/no results (`McNemar` 1947, binomial form).
///
/// `only_a` and `only_b` count the pairs on which just one side succeeded; given their sum, each is binomial with
/// probability 1/2 if the sides do equally well. Without such pairs the value is 1.
pub fn mcnemar_exact(only_a: u64, only_b: u64) -> f64 {
    let under_null = Binomial::new(0.5, only_a + only_b).expect("one half is a probability");
    (2.0 * under_null.cdf(only_a.min(only_b))).min(1.0)
}

/// Paired yes/no results, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PairedCounts {
    pub both: u64,
    pub only_a: u64,
    pub only_b: u64,
    pub neither: u64,
}

impl PairedCounts {
    pub fn pairs(&self) -> u64 {
        self.both + self.only_a + self.only_b + self.neither
    }

    /// Adds one pair.
    pub fn add(&mut self, a: bool, b: bool) {
        *match (a, b) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.only_a,
            (false, true) => &mut self.only_b,
            (false, false) => &mut self.neither,
        } += 1;
    }
}

/// Interval for the difference of two paired proportions, a − b (Newcombe 1998, method 10), two-sided at `level`.
///
/// Wilson intervals of the two sides, combined with their correlation; a positive correlation is corrected for continuity.
/// Without pairs it is the whole of −1..=1.
///
/// # Panics
/// A level outside 0..1.
pub fn newcombe_paired(counts: PairedCounts, level: f64) -> Interval {
    let n = counts.pairs();
    if n == 0 {
        return Interval { lower: -1.0, upper: 1.0 };
    }
    let (successes_a, successes_b) = (counts.both + counts.only_a, counts.both + counts.only_b);
    let share = |successes: u64| successes as f64 / n as f64;
    let (a, b) = (share(successes_a), share(successes_b));
    let (wilson_a, wilson_b) = (wilson(successes_a, n, level), wilson(successes_b, n, level));
    let margins = [successes_a, n - successes_a, successes_b, n - successes_b];
    let determinant = counts.both as f64 * counts.neither as f64 - counts.only_a as f64 * counts.only_b as f64;
    let numerator = if determinant > 0.0 { (determinant - n as f64 / 2.0).max(0.0) } else { determinant };
    let product: f64 = margins.iter().map(|&margin| margin as f64).product();
    let phi = if product > 0.0 { numerator / product.sqrt() } else { 0.0 };
    // The square can come out a hair below 0 where both arms are equal and phi is 1.
    let half = |x: f64, y: f64| (x * x - 2.0 * phi * x * y + y * y).max(0.0).sqrt();
    Interval {
        lower: (a - b - half(a - wilson_a.lower, wilson_b.upper - b)).max(-1.0),
        upper: (a - b + half(wilson_a.upper - a, b - wilson_b.lower)).min(1.0),
    }
}

/// Values that depend on each other, such as those of one intent, drawn or flipped together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cluster {
    pub sum: f64,
    pub count: u64,
}

/// Resamples and permutations where nobody asks for another number.
pub const RESAMPLES: u32 = 10_000;

/// Percentile interval for the mean of all values, whole clusters drawn with replacement (Efron 1979; Davison and Hinkley
/// 1997, section 3.8). The same seed gives the same interval. `None` without values.
///
/// # Panics
/// A level outside 0..1, or no resamples.
pub fn cluster_bootstrap(clusters: &[Cluster], level: f64, resamples: u32, seed: u64) -> Option<Interval> {
    assert!(level > 0.0 && level < 1.0, "confidence level {level} outside 0..1");
    let clusters: Vec<Cluster> = clusters.iter().copied().filter(|cluster| cluster.count > 0).collect();
    if clusters.is_empty() {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| {
            let (mut sum, mut count) = (0.0, 0);
            for _ in 0..clusters.len() {
                let drawn = clusters[rng.random_range(0..clusters.len())];
                sum += drawn.sum;
                count += drawn.count;
            }
            sum / count as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    Some(Interval { lower: quantile(&means, tail), upper: quantile(&means, 1.0 - tail) })
}

/// Linear interpolation between order statistics.
fn quantile(ascending: &[f64], probability: f64) -> f64 {
    let position = probability * (ascending.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the last index")]
    let below = position.floor() as usize;
    let above = (below + 1).min(ascending.len() - 1);
    ascending[below] + (ascending[above] - ascending[below]) * (position - below as f64)
}

/// Two-sided p-value for a mean of paired differences being 0, the signs of whole clusters flipped at random (Fisher 1935;
/// the observed arrangement counts as one, Phipson and Smyth 2010). The same seed gives the same value.
pub fn sign_flip(differences: &[Cluster], permutations: u32, seed: u64) -> f64 {
    // A cluster without a difference has no sign to flip.
    let sums: Vec<f64> = differences.iter().map(|cluster| cluster.sum).filter(|sum| *sum != 0.0).collect();
    let observed = sums.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order of signs differ by rounding only.
    let as_large = observed - 1e-9;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let reached = (0..permutations)
        .filter(|_| {
            let flipped: f64 = sums.iter().map(|sum| if rng.random() { *sum } else { -sum }).sum();
            flipped.abs() >= as_large
        })
        .count();
    (reached as f64 + 1.0) / (f64::from(permutations) + 1.0)
}

/// Adjusted p-values of a family of tests (Holm 1979), in the order given. Comparing them with alpha keeps the chance of
/// any false alarm in the family at or below alpha.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut floor = 0.0_f64;
    for (rank, &index) in ascending.iter().enumerate() {
        let left = (p_values.len() - rank) as f64;
        floor = floor.max((left * p_values[index]).min(1.0));
        adjusted[index] = floor;
    }
    adjusted
}

/// Queries needed to show a difference between two paired proportions with 80 % power in a two-sided test at `alpha`
/// (Connor 1987).
///
/// `discordance` is the share of queries on which just one side succeeds. `None` for a difference that is not positive or
/// larger than the discordance, which no data can have.
///
/// # Panics
/// `alpha` outside 0..1.
pub fn queries_needed(difference: f64, discordance: f64, alpha: f64) -> Option<u64> {
    let (z_alpha, z_power) = quantiles(alpha);
    let possible = difference > 0.0 && difference <= discordance && discordance <= 1.0;
    possible.then(|| {
        let under_null = z_alpha * discordance.sqrt();
        let under_difference = z_power * (discordance - difference * difference).sqrt();
        let queries = ((under_null + under_difference) / difference).powi(2).ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
        let queries = queries as u64;
        queries
    })
}

/// The smallest difference between two paired proportions that `queries` could show: [`queries_needed`] solved for the
/// difference. `None` if there are too few queries for any difference possible at this discordance.
///
/// # Panics
/// `alpha` outside 0..1.
pub fn smallest_difference(queries: u64, discordance: f64, alpha: f64) -> Option<f64> {
    let (z_alpha, z_power) = quantiles(alpha);
    let n = queries as f64;
    // Squaring the equation adds a root below z_alpha², where the equation itself has none.
    if n < z_alpha * z_alpha {
        return None;
    }
    let spread = z_alpha * n.sqrt() + z_power * (n + z_power * z_power - z_alpha * z_alpha).sqrt();
    let difference = discordance.sqrt() * spread / (n + z_power * z_power);
    (difference > 0.0 && difference <= discordance && discordance <= 1.0).then_some(difference)
}

/// Normal quantiles of a two-sided test at alpha and of [`POWER`].
fn quantiles(alpha: f64) -> (f64, f64) {
    assert!(alpha > 0.0 && alpha < 1.0, "alpha {alpha} outside 0..1");
    (z(1.0 - alpha / 2.0), z(POWER))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    #[test]
    fn the_planned_sizes_come_out() {
        assert_eq!(queries_needed(0.03, 0.10, 0.05), Some(870));
        assert_eq!(queries_needed(0.02, 0.10, 0.05), Some(1960));
        assert!(queries_needed(0.03, 0.10, 0.05 / 5.0) > Some(870), "a stricter alpha needs more");
        for impossible in [-0.1, 0.0, 0.11, f64::NAN] {
            assert_eq!(queries_needed(impossible, 0.10, 0.05), None, "{impossible}");
        }
    }

    #[test]
    fn a_run_shows_what_it_was_planned_for() {
        assert!((smallest_difference(870, 0.10, 0.05).unwrap() - 0.03).abs() < 1e-5);
        assert!((smallest_difference(1960, 0.10, 0.05).unwrap() - 0.02).abs() < 1e-5);
        for too_few in [0, 1, 3, 4, 50] {
            assert_eq!(smallest_difference(too_few, 0.10, 0.05), None, "{too_few}");
        }
        assert!(smallest_difference(100, 0.10, 0.05).is_some());
        assert_eq!(smallest_difference(1000, 0.0, 0.05), None);
    }

    #[test]
    fn no_trials_say_nothing_and_a_higher_level_is_wider() {
        assert_eq!(wilson(0, 0, LEVEL), Interval { lower: 0.0, upper: 1.0 });
        let (usual, wide) = (wilson(7, 20, LEVEL), wilson(7, 20, 0.99));
        assert!(wide.lower < usual.lower && usual.upper < wide.upper);
    }

    #[test]
    #[should_panic(expected = "3 successes of 2 trials")]
    fn more_successes_than_trials_are_a_mistake_of_the_caller() {
        wilson(3, 2, LEVEL);
    }

    #[test]
    fn no_pairs_and_no_values_say_nothing() {
        assert_eq!(newcombe_paired(PairedCounts::default(), LEVEL), Interval { lower: -1.0, upper: 1.0 });
        assert_eq!(cluster_bootstrap(&[Cluster::default()], LEVEL, 10, 1), None);
        assert!((sign_flip(&[], 10, 1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_cluster_is_worth_one_draw() {
        let single: Vec<_> = (0..40).map(|i| Cluster { sum: f64::from(i % 2), count: 1 }).collect();
        let pairs: Vec<_> = (0..4).map(|i| Cluster { sum: f64::from(i % 2) * 10.0, count: 10 }).collect();
        let width = |clusters: &[Cluster]| {
            let interval = cluster_bootstrap(clusters, LEVEL, 2_000, 1).unwrap();
            interval.upper - interval.lower
        };
        assert!(width(&pairs) > 2.0 * width(&single), "{} {}", width(&pairs), width(&single));
    }

    #[test]
    fn flipping_signs_agrees_with_counting_them() {
        // Ten differences of the same sign: two of 2^10 arrangements are as extreme.
        let differences = [Cluster { sum: 0.5, count: 1 }; 10];
        let p = sign_flip(&differences, 100_000, 1);
        assert!((p - 2.0 / 1024.0).abs() < 5e-4, "{p}");
    }

    #[test]
    fn adjusting_nothing_or_one_changes_nothing() {
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.2]), [0.2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

        #[test]
        fn wilson_contains_the_estimate(trials in 1_u64..100_000, share in 0.0..=1.0_f64, level in 0.01..0.9999_f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and trials")]
            let successes = (trials as f64 * share).round() as u64;
            let estimate = successes as f64 / trials as f64;
            let Interval { lower, upper } = wilson(successes, trials, level);
            prop_assert!(0.0 <= lower && lower <= estimate && estimate <= upper && upper <= 1.0, "{lower} {upper}");
            prop_assert!(lower < upper);
        }

        #[test]
        fn newcombe_is_antisymmetric_and_contains_the_difference(cells in prop::array::uniform4(0_u64..200)) {
            let [both, only_a, only_b, neither] = cells;
            let counts = PairedCounts { both, only_a, only_b, neither };
            prop_assume!(counts.pairs() > 0);
            let difference = (only_a as f64 - only_b as f64) / counts.pairs() as f64;
            let Interval { lower, upper } = newcombe_paired(counts, LEVEL);
            prop_assert!(-1.0 <= lower && lower <= difference + 1e-12 && difference - 1e-12 <= upper && upper <= 1.0);
            let swapped = newcombe_paired(PairedCounts { only_a: only_b, only_b: only_a, ..counts }, LEVEL);
            prop_assert!((swapped.lower + upper).abs() < 1e-12 && (swapped.upper + lower).abs() < 1e-12);
        }

        #[test]
        fn mcnemar_is_a_symmetric_p_value_and_sums_the_tail(a in 0_u64..40, b in 0_u64..40) {
            let p = mcnemar_exact(a, b);
            prop_assert_eq!(p.to_bits(), mcnemar_exact(b, a).to_bits());
            let n = a + b;
            // Terms of the binomial at one half, each from the one before.
            let mut term = 0.5_f64.powi(i32::try_from(n).unwrap());
            let mut tail = 0.0;
            for successes in 0..=a.min(b) {
                tail += term;
                term *= (n - successes) as f64 / (successes + 1) as f64;
            }
            prop_assert!((p - (2.0 * tail).min(1.0)).abs() <= 1e-9 * p, "{p}");
        }

        #[test]
        fn holm_never_lowers_and_keeps_the_order(p in prop::collection::vec(0.0..=1.0_f64, 0..12)) {
            let adjusted = holm(&p);
            for (i, j) in (0..p.len()).flat_map(|i| (0..p.len()).map(move |j| (i, j))) {
                prop_assert!(p[i] <= adjusted[i] && adjusted[i] <= 1.0);
                prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
            }
        }

        #[test]
        fn needed_and_smallest_are_inverses(n in 1_u64..200_000, discordance in 0.01..=1.0_f64, alpha in 0.001..0.2_f64) {
            match smallest_difference(n, discordance, alpha) {
                Some(difference) => {
                    let needed = queries_needed(difference, discordance, alpha).unwrap();
                    prop_assert!(needed.abs_diff(n) <= 1, "{needed} for {difference}");
                }
                None => prop_assert!(queries_needed(discordance, discordance, alpha).unwrap() >= n),
            }
        }
    }
}
