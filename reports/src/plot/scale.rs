//! Where values lie, and where labels may.

use crate::format::short;

/// The value axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Fractions, drawn from 0 to 100 %: a cut axis makes differences look larger than they are.
    Share,
    /// Logarithmic between two positive bounds.
    Log { lower: f64, upper: f64 },
}

impl Scale {
    /// A logarithmic scale around the values, with room at both ends.
    pub(super) fn log(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        if most == 0.0 {
            return Self::Log { lower: 1.0, upper: 10.0 };
        }
        Self::Log { lower: least / 1.6, upper: most * 1.6 }
    }

    /// Position of a value between 0 and 1.
    pub(super) fn position(self, value: f64) -> f64 {
        match self {
            Self::Share => value.clamp(0.0, 1.0),
            Self::Log { lower, upper } => ((value.max(lower) / lower).ln() / (upper / lower).ln()).clamp(0.0, 1.0),
        }
    }

    /// Values with a tick, ascending, and their labels.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        match self {
            Self::Share => {
                (0..=5).map(|step| f64::from(step) / 5.0).map(|v| (v, format!("{:.0}", v * 100.0))).collect()
            }
            Self::Log { lower, upper } => {
                // Few decades get more ticks in each.
                let steps: &[f64] = if upper / lower > 1_000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                (0..12)
                    .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
                    .filter(|value| (lower..=upper).contains(value))
                    .map(|value| (value, short(value).replace(".0", "")))
                    .collect()
            }
        }
    }
}

/// Moves positions apart until neighbours are `gap` apart, as little as possible, within `least..=most`. Keeps their order;
/// with too many for the room they share it evenly.
pub(super) fn spread(wanted: &[f64], gap: f64, least: f64, most: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let gap = gap.min((most - least) / (wanted.len().max(2) - 1) as f64);
    // Runs of labels that touch, each as (sum of where its members would have it start, members).
    let mut runs: Vec<(f64, usize)> = Vec::new();
    let start = |&(sum, members): &(f64, usize)| {
        (sum / members as f64).clamp(least, (most - gap * (members - 1) as f64).max(least))
    };
    for &index in &order {
        runs.push((wanted[index], 1));
        while let [.., before, last] = runs.as_slice() {
            if start(before) + gap * before.1 as f64 <= start(last) + 1e-9 {
                break;
            }
            // The later run's members wish for a start that lies further up by the length of the earlier one.
            let merged = (before.0 + last.0 - gap * (before.1 * last.1) as f64, before.1 + last.1);
            runs.truncate(runs.len() - 2);
            runs.push(merged);
        }
    }
    let mut placed = vec![0.0; wanted.len()];
    let mut order = order.into_iter();
    for run in &runs {
        for (step, index) in order.by_ref().take(run.1).enumerate() {
            placed[index] = start(run) + gap * step as f64;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    #[test]
    fn free_labels_stay_and_touching_ones_part_evenly() {
        assert_eq!(spread(&[10.0, 50.0], 15.0, 0.0, 100.0), [10.0, 50.0]);
        assert_eq!(spread(&[50.0, 50.0], 10.0, 0.0, 100.0), [45.0, 55.0]);
        assert_eq!(spread(&[99.0, 98.0, 3.0], 10.0, 0.0, 100.0), [100.0, 90.0, 3.0]);
    }

    #[test]
    fn ticks_lie_on_the_scale() {
        let scale = Scale::log([900.0, 80_000.0].into_iter());
        let labels: Vec<_> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["1k", "2k", "5k", "10k", "20k", "50k", "100k"]);
        assert!((scale.position(900.0 / 1.6)).abs() < 1e-9 && (scale.position(128_000.0) - 1.0).abs() < 1e-9);
        assert!(Scale::log(std::iter::empty()).position(0.0).abs() < 1e-9);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

        #[test]
        fn labels_keep_their_distance_and_order(wanted in prop::collection::vec(0.0..=300.0_f64, 1..40)) {
            let placed = spread(&wanted, 14.0, 0.0, 300.0);
            let gap = 14.0_f64.min(300.0 / (wanted.len().max(2) - 1) as f64);
            let mut sorted = placed.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= gap - 1e-6), "{sorted:?}");
            prop_assert!(sorted[0] >= -1e-6 && sorted[sorted.len() - 1] <= 300.0 + 1e-6);
            for (a, b) in (0..wanted.len()).flat_map(|a| (0..wanted.len()).map(move |b| (a, b))) {
                prop_assert!(wanted[a] >= wanted[b] || placed[a] < placed[b] + 1e-6);
            }
        }
    }
}
