//! Agreement of two labellings of the same things.

use std::collections::BTreeSet;

/// Cohen's kappa (1960) over paired ratings 0 to `categories` − 1, with linear disagreement weights (Cohen 1968); with two categories
/// that is the unweighted one. 1 = always the same, 0 = what chance would give. `None` where chance alone agrees on everything.
pub fn cohen_kappa(ratings: &[(usize, usize)], categories: usize) -> Option<f64> {
    let n = ratings.len() as f64;
    let mut table = vec![vec![0.0; categories]; categories];
    for &(first, second) in ratings {
        table[first][second] += 1.0 / n;
    }
    let row = |at: usize| table[at].iter().sum::<f64>();
    let column = |at: usize| table.iter().map(|row| row[at]).sum::<f64>();
    let (mut observed, mut expected) = (0.0, 0.0);
    for (first, shares) in table.iter().enumerate() {
        for (second, share) in shares.iter().enumerate() {
            let apart = first.abs_diff(second) as f64;
            observed += apart * share;
            expected += apart * row(first) * column(second);
        }
    }
    (expected > 0.0).then(|| 1.0 - observed / expected)
}

/// MASI distance of two sets, 0 (equal) to 1 (nothing in common): 1 − Jaccard × monotonicity (Passonneau 2006). Two empty sets are equal.
pub fn masi<T: Ord>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> f64 {
    if a == b {
        return 0.0;
    }
    let common = a.intersection(b).count();
    let all = a.len() + b.len() - common;
    let monotonicity = if common == a.len() || common == b.len() { 2.0 / 3.0 } else { 1.0 / 3.0 };
    1.0 - common as f64 / all as f64 * monotonicity
}

/// Krippendorff's alpha (2004) of two coders who both labelled every unit: 1 − observed / expected distance, the latter over all pairs of
/// labels whoever gave them. `None` where all labels are alike.
pub fn krippendorff_alpha<T>(units: &[(T, T)], distance: impl Fn(&T, &T) -> f64) -> Option<f64> {
    let observed = units.iter().map(|(a, b)| distance(a, b)).sum::<f64>() / units.len() as f64;
    let labels: Vec<&T> = units.iter().flat_map(|(a, b)| [a, b]).collect();
    let n = labels.len() as f64;
    let mut sum = 0.0;
    for (at, a) in labels.iter().enumerate() {
        sum += labels[at + 1..].iter().map(|b| distance(a, b)).sum::<f64>();
    }
    let expected = 2.0 * sum / (n * (n - 1.0));
    (expected > 0.0).then(|| 1.0 - observed / expected)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(value: Option<f64>, expected: f64) {
        let value = value.unwrap();
        assert!((value - expected).abs() < 1e-12, "{value}, expected {expected}");
    }

    /// 50 grant proposals read by two people: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no. Observed .7, by chance .5.
    #[test]
    fn kappa_of_the_textbook_table_is_two_fifths() {
        let cells = [((1, 1), 20), ((1, 0), 5), ((0, 1), 10), ((0, 0), 15)];
        let ratings: Vec<_> = cells.iter().flat_map(|&(pair, count)| vec![pair; count]).collect();
        close(cohen_kappa(&ratings, 2), 0.4);
    }

    #[test]
    fn a_near_miss_costs_less_than_a_far_one() {
        let near = [(0, 0), (3, 3), (3, 2), (0, 0)];
        let far = [(0, 0), (3, 3), (3, 0), (0, 0)];
        assert!(cohen_kappa(&near, 4) > cohen_kappa(&far, 4));
        assert_eq!(cohen_kappa(&[(1, 1), (1, 1)], 4), None);
    }

    /// Five a, three b: one of four units differs, 30 of 56 pairs of labels do.
    #[test]
    fn alpha_by_hand() {
        let units = [('a', 'a'), ('a', 'a'), ('b', 'b'), ('a', 'b')];
        close(krippendorff_alpha(&units, |a, b| f64::from(u8::from(a != b))), 1.0 - 0.25 / (30.0 / 56.0));
        assert_eq!(krippendorff_alpha(&[('a', 'a')], |a, b| f64::from(u8::from(a != b))), None);
    }

    #[test]
    fn masi_knows_subsets_overlap_and_nothing_in_common() {
        let set = |text: &str| text.chars().collect::<BTreeSet<_>>();
        let cases = [
            ("", "", 0.0),
            ("ab", "ab", 0.0),
            ("a", "ab", 1.0 - 0.5 * 2.0 / 3.0),
            ("ab", "bc", 1.0 - 1.0 / 3.0 / 3.0),
            ("a", "b", 1.0),
            ("", "a", 1.0),
        ];
        for (a, b, expected) in cases {
            close(Some(masi(&set(a), &set(b))), expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_exceeds_one(ratings in prop::collection::vec((0usize..4, 0usize..4), 1..40)) {
            let kappa = cohen_kappa(&ratings, 4);
            prop_assert!(kappa.is_none_or(|kappa| kappa <= 1.0 + 1e-12));
            prop_assert!(krippendorff_alpha(&ratings, |a, b| a.abs_diff(*b) as f64).is_none_or(|alpha| alpha <= 1.0 + 1e-12));
            let same: Vec<_> = ratings.iter().map(|&(a, _)| (a, a)).collect();
            prop_assert!(cohen_kappa(&same, 4).is_none_or(|kappa| (kappa - 1.0).abs() < 1e-12));
        }
    }
}
