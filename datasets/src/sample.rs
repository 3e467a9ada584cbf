//! A part of the queries that stands for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness::dataset::{Kind, Query};
use harness::ids::QueryId;

/// `n` queries (all, if there are fewer) in the order given, with kinds in proportion: the first `n` of [`drawn`].
///
/// Hence the sample of n is a part of the sample of every m > n, and it does not change with the order of `queries`.
pub fn stratified(queries: &[Arc<Query>], n: usize, seed: u64) -> Vec<QueryId> {
    let mut chosen: Vec<_> = positions(queries, seed).into_iter().take(n).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|position| queries[position].id.clone()).collect()
}

/// All queries in an order of which every beginning is a stratified random sample.
///
/// Each query gets a rank within its kind from a digest of `seed` and its id, and the query of rank r among N of its kind
/// stands at (2r + 1) / 2N on a common scale. Kinds get the seats of the Webster (Sainte-Laguë) method, which unlike largest
/// remainders never takes a seat away when a sample grows.
pub fn drawn(queries: &[Arc<Query>], seed: u64) -> Vec<QueryId> {
    positions(queries, seed).into_iter().map(|position| queries[position].id.clone()).collect()
}

fn positions(queries: &[Arc<Query>], seed: u64) -> Vec<usize> {
    let mut kinds: BTreeMap<Kind, Vec<([u8; 32], usize)>> = BTreeMap::new();
    for (position, query) in queries.iter().enumerate() {
        kinds.entry(query.kind).or_default().push((draw(seed, &query.id), position));
    }
    let mut places = Vec::with_capacity(queries.len());
    for (kind, mut drawn) in kinds {
        drawn.sort_unstable();
        let size = drawn.len();
        places.extend(drawn.into_iter().enumerate().map(|(rank, (draw, position))| Place {
            numerator: 2 * rank as u64 + 1,
            denominator: 2 * size as u64,
            kind,
            draw,
            position,
        }));
    }
    places.sort_unstable_by(|left, right| {
        (left.numerator * right.denominator)
            .cmp(&(right.numerator * left.denominator))
            .then_with(|| (left.kind, left.draw).cmp(&(right.kind, right.draw)))
    });
    places.into_iter().map(|place| place.position).collect()
}

/// Where a query stands on the common scale, as a fraction.
struct Place {
    numerator: u64,
    denominator: u64,
    kind: Kind,
    draw: [u8; 32],
    position: usize,
}

fn draw(seed: u64, id: &QueryId) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(id.as_str().as_bytes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use harness::ids::{ActorId, IntentId};
    use proptest::prelude::*;

    use super::*;

    fn queries(counts: &[usize]) -> Vec<Arc<Query>> {
        let query = |kind: Kind, index: usize| Query {
            id: QueryId::new(&format!("{}-{index}", kind.as_str())),
            intent: IntentId::new("i"),
            text: String::new(),
            actor: ActorId::new("all"),
            kind,
            language: "en".to_owned(),
            split: "test".to_owned(),
            scaling: false,
            sequential: false,
            candidates: None,
            results: BTreeMap::new(),
            tags: Vec::new(),
        };
        let kinds = Kind::ALL.into_iter().zip(counts);
        kinds.flat_map(|(kind, &count)| (0..count).map(move |index| Arc::new(query(kind, index)))).collect()
    }

    fn per_kind(sample: &[QueryId]) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for id in sample {
            *counts.entry(id.as_str().split('-').next().unwrap()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn kinds_keep_their_shares() {
        let sample = stratified(&queries(&[60, 30, 10]), 20, 7);
        assert_eq!(per_kind(&sample), BTreeMap::from([("direct", 12), ("paraphrased", 6), ("vendor", 2)]));
    }

    #[test]
    fn seeds_draw_different_queries() {
        let all = queries(&[50]);
        let draws: BTreeSet<_> = (0..10).map(|seed| stratified(&all, 10, seed)).collect();
        assert_eq!(draws.len(), 10);
    }

    proptest! {
        #[test]
        fn samples_nest_keep_order_and_stay_near_the_shares(
            counts in prop::collection::vec(0_usize..40, 1..8), small: usize, large: usize, seed: u64,
        ) {
            let all = queries(&counts);
            let (small, large) = (small % 80, large % 80);
            let (small, large) = (small.min(large), small.max(large));
            let (small_sample, large_sample) = (stratified(&all, small, seed), stratified(&all, large, seed));
            prop_assert_eq!(small_sample.len(), small.min(all.len()));
            let mut rest = large_sample.iter();
            prop_assert!(small_sample.iter().all(|id| rest.any(|other| other == id)), "an ordered part of the larger");
            let mut reversed = all.clone();
            reversed.reverse();
            let mut again = stratified(&reversed, small, seed);
            again.reverse();
            prop_assert_eq!(&again, &small_sample);
            let mut beginning = drawn(&all, seed);
            beginning.truncate(small);
            prop_assert!(small_sample.iter().all(|id| beginning.contains(id)), "any beginning is the sample of its length");
            // A share moves by half a query for rounding and by less than half for each other kind.
            let bound = counts.len().div_ceil(2) + 1;
            let seats = per_kind(&large_sample);
            for (kind, &count) in Kind::ALL.into_iter().zip(&counts) {
                let quota = (large.min(all.len()) * count) as f64 / all.len().max(1) as f64;
                let got = seats.get(kind.as_str()).copied().unwrap_or(0) as f64;
                prop_assert!((got - quota).abs() <= bound as f64, "{kind:?}: {got} for {quota}");
            }
        }
    }
}
