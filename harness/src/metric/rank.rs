//! Retrieval measures of one query: how well a ranked list of tools meets the labels.
//!
//! Labels can be read in two ways. The *grouped* reading ([`Measure::score`]) is the one of this harness: tools that
//! serve equally well stand in one group, and one of them is enough. The *flat* reading ([`Measure::score_flat`]) is
//! the one of TREC tools: every relevant tool has to be found for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use crate::dataset::{Labels, RELEVANCE_COVERS};
use crate::ids::ToolId;

/// A retrieval measure, written `name` or `name@depth`. Every value lies in 0..=1 and more is better.
///
/// Ranks count from 1. A group is *covered* by a member with relevance ≥ 2, a tool is *relevant* from relevance 1 on. In
/// the flat reading relevance 1 covers too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// `recall@k`: share of the groups that the first k tools cover.
    Recall(NonZeroUsize),
    /// `complete@k`: 1 if the first k tools cover all groups.
    Complete(NonZeroUsize),
    /// `precision@k`: relevant tools among the first k, divided by k however short the list is.
    Precision(NonZeroUsize),
    /// `hit@k`: 1 if the first k tools cover any group (*Success@k* of TREC tools).
    Hit(NonZeroUsize),
    /// `rr` and `rr@k`: reciprocal rank of the first tool that covers a group; 0 if there is none (among the first k).
    Rr(Option<NonZeroUsize>),
    /// `ap`: mean over the groups of the precision at the rank where the group is first covered, 0 for one that never is.
    /// With one tool a group this is average precision as TREC tools compute it.
    Ap,
    /// `ndcg@k`: discounted gain over that of an ideal ranking (Järvelin and Kekäläinen 2002), with the relevance itself
    /// as gain and log2(rank + 1) as discount.
    ///
    /// The first tool of a group that covers it earns its relevance and settles the group; a second one earns nothing. A
    /// helper (relevance 1) neither earns nor settles where somebody can cover, so that it never stands in the way of
    /// the tool it helps; in a group of helpers the first one earns 1. A tool in several groups earns for each
    /// that is not settled yet. The ideal then takes, rank by rank, the tool that earns most. That is exact unless groups
    /// overlap, where the best order is too costly to find and the same rule stands in for it, as in alpha-nDCG
    /// (Clarke et al. 2008); a ranking that beats it gets 1.
    Ndcg(NonZeroUsize),
    /// `judged@k`: share of the first k tools that have a label, 0 included, divided by the number retrieved up to k.
    Judged(NonZeroUsize),
}

impl Measure {
    /// Value for a ranked list, best first and without duplicates, in the grouped reading.
    ///
    /// `None` where no group asks to be covered: such a query has no place in a mean of retrieval measures. An empty list
    /// scores 0.
    pub fn score(self, ranked: &[ToolId], labels: &Labels) -> Option<f64> {
        (!labels.is_no_tool()).then(|| Reading::grouped(labels).value(self, ranked))
    }

    /// Value in the flat reading: each tool with relevance ≥ 1 is a group of its own and is covered by that relevance. A
    /// query without one scores 0, in `judged@k` what its labels say.
    ///
    /// Given the same order of the list, values agree with `pytrec_eval` and `ir_measures`.
    pub fn score_flat(self, ranked: &[ToolId], labels: &Labels) -> f64 {
        Reading::flat(labels).value(self, ranked)
    }

    fn parts(self) -> (&'static str, Option<NonZeroUsize>) {
        match self {
            Self::Recall(k) => ("recall", Some(k)),
            Self::Complete(k) => ("complete", Some(k)),
            Self::Precision(k) => ("precision", Some(k)),
            Self::Hit(k) => ("hit", Some(k)),
            Self::Rr(k) => ("rr", k),
            Self::Ap => ("ap", None),
            Self::Ndcg(k) => ("ndcg", Some(k)),
            Self::Judged(k) => ("judged", Some(k)),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (name, Some(depth)) => write!(f, "{name}@{depth}"),
            (name, None) => f.write_str(name),
        }
    }
}

/// The text names no measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// No measure has this name; `hint` says what to write instead.
    #[error("{text:?} is no retrieval measure: {hint}")]
    Unknown { text: String, hint: String },
    /// What follows the `@` is no depth.
    #[error("{text:?} has no usable depth: expected a whole number from 1 on, such as `{name}@10`")]
    Depth { text: String, name: String },
    /// The measure needs a depth.
    #[error("{name:?} lacks a depth: write `{name}@10`, say")]
    DepthMissing { name: String },
    /// The measure looks at the whole list.
    #[error("{text:?} has a depth, but `{name}` looks at the whole list: write `{name}`")]
    DepthUnexpected { text: String, name: String },
}

/// The names, without depth.
const NAMES: [&str; 8] = ["recall", "complete", "precision", "hit", "rr", "ap", "ndcg", "judged"];

impl FromStr for Measure {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, depth) = match text.split_once('@') {
            Some((name, depth)) => (name, Some(depth)),
            None => (text, None),
        };
        if !NAMES.contains(&name) {
            return Err(MeasureError::Unknown { text: text.to_owned(), hint: hint(name, depth) });
        }
        let depth = depth
            .map(str::parse::<NonZeroUsize>)
            .transpose()
            .map_err(|_| MeasureError::Depth { text: text.to_owned(), name: name.to_owned() })?;
        match (name, depth) {
            ("recall", Some(k)) => Ok(Self::Recall(k)),
            ("complete", Some(k)) => Ok(Self::Complete(k)),
            ("precision", Some(k)) => Ok(Self::Precision(k)),
            ("hit", Some(k)) => Ok(Self::Hit(k)),
            ("rr", k) => Ok(Self::Rr(k)),
            ("ap", None) => Ok(Self::Ap),
            ("ndcg", Some(k)) => Ok(Self::Ndcg(k)),
            ("judged", Some(k)) => Ok(Self::Judged(k)),
            (_, None) => Err(MeasureError::DepthMissing { name: name.to_owned() }),
            (_, Some(_)) => Err(MeasureError::DepthUnexpected { text: text.to_owned(), name: name.to_owned() }),
        }
    }
}

/// The nearest name with the depth that was given, or all names if none is near.
fn hint(name: &str, depth: Option<&str>) -> String {
    let lower = name.to_lowercase();
    let nearest = NAMES
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&lower, known), *known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .min();
    match (nearest, depth) {
        (Some((_, known)), Some(depth)) => format!("did you mean `{known}@{depth}`?"),
        (Some((_, known)), None) => format!("did you mean `{known}`?"),
        (None, _) => format!("expected one of {}, with `@` and a depth where it has one", NAMES.join(", ")),
    }
}

/// Labels of a query as one of the two readings sees them.
struct Reading<'a> {
    labels: &'a Labels,
    /// The groups that count, each with the tools that cover it.
    required: Vec<BTreeSet<&'a ToolId>>,
    /// All groups in which something can be earned, each with its earning tools and their relevance.
    earning: Vec<BTreeMap<&'a ToolId, u8>>,
}

impl<'a> Reading<'a> {
    fn grouped(labels: &'a Labels) -> Self {
        let mut groups: BTreeMap<u32, BTreeMap<&ToolId, u8>> = BTreeMap::new();
        for qrel in labels.qrels().iter().filter(|qrel| qrel.relevance >= 1) {
            let best = groups.entry(qrel.group).or_default().entry(&qrel.tool).or_default();
            *best = qrel.relevance.max(*best);
        }
        for members in groups.values_mut() {
            if members.values().any(|relevance| *relevance >= RELEVANCE_COVERS) {
                members.retain(|_, relevance| *relevance >= RELEVANCE_COVERS);
            }
        }
        Self { labels, required: labels.groups(), earning: groups.into_values().collect() }
    }

    fn flat(labels: &'a Labels) -> Self {
        let judged = labels.qrels().iter().filter_map(|qrel| Some((&qrel.tool, labels.relevance(&qrel.tool)?)));
        let relevant: BTreeMap<_, _> = judged.filter(|(_, relevance)| *relevance >= 1).collect();
        Self {
            labels,
            required: relevant.keys().map(|tool| BTreeSet::from([*tool])).collect(),
            earning: relevant.into_iter().map(|member| BTreeMap::from([member])).collect(),
        }
    }

    fn value(&self, measure: Measure, ranked: &[ToolId]) -> f64 {
        let top = |k: NonZeroUsize| &ranked[..ranked.len().min(k.get())];
        let value = match measure {
            Measure::Recall(k) => share(self.covered(top(k)), self.required.len()),
            Measure::Complete(k) => f64::from(!self.required.is_empty() && self.covered(top(k)) == self.required.len()),
            Measure::Precision(k) => share(self.relevant(top(k)), k.get()),
            Measure::Hit(k) => f64::from(self.covered(top(k)) > 0),
            Measure::Rr(k) => self.covering_ranks(k.map_or(ranked, top)).min().map_or(0.0, |rank| 1.0 / rank as f64),
            Measure::Ap => {
                let precisions = self.covering_ranks(ranked).map(|rank| share(self.relevant(&ranked[..rank]), rank));
                precisions.sum::<f64>() / self.required.len().max(1) as f64
            }
            Measure::Ndcg(k) => self.ndcg(top(k), k.get()),
            Measure::Judged(k) => {
                let top = top(k);
                share(top.iter().filter(|tool| self.labels.relevance(tool).is_some()).count(), top.len())
            }
        };
        // The empty sum of floats is -0, which would show in a table.
        value + 0.0
    }

    /// Rank of the first covering tool, for each required group that is covered at all.
    fn covering_ranks(&self, ranked: &[ToolId]) -> impl Iterator<Item = usize> {
        self.required
            .iter()
            .filter_map(|members| ranked.iter().position(|tool| members.contains(tool)))
            .map(|index| index + 1)
    }

    fn covered(&self, ranked: &[ToolId]) -> usize {
        self.covering_ranks(ranked).count()
    }

    /// Number of relevant tools.
    fn relevant(&self, ranked: &[ToolId]) -> usize {
        ranked.iter().filter(|tool| self.labels.relevance(tool).is_some_and(|relevance| relevance >= 1)).count()
    }

    fn ndcg(&self, top: &[ToolId], depth: usize) -> f64 {
        let mut open = self.earning.clone();
        let gained = discounted(top.iter().map(|tool| settle(&mut open, tool)));

        let mut open = self.earning.clone();
        let ideal = discounted((0..depth).map_while(|_| {
            // Among equals the one with the smallest id, so that the value does not depend on the order of labels.
            let tools: BTreeSet<_> = open.iter().flat_map(|members| members.keys().copied()).collect();
            let best = tools.into_iter().rev().max_by_key(|tool| earned(&open, tool))?;
            Some(settle(&mut open, best))
        }));
        if ideal > 0.0 { (gained / ideal).min(1.0) } else { 0.0 }
    }
}

/// What a tool earns in the groups that are still open.
fn earned(open: &[BTreeMap<&ToolId, u8>], tool: &ToolId) -> u32 {
    open.iter().filter_map(|members| members.get(tool)).map(|relevance| u32::from(*relevance)).sum()
}

/// As [`earned`], and closes those groups.
fn settle(open: &mut Vec<BTreeMap<&ToolId, u8>>, tool: &ToolId) -> u32 {
    let gain = earned(open, tool);
    open.retain(|members| !members.contains_key(tool));
    gain
}

/// Sum of gains given in rank order, each divided by log2(rank + 1).
fn discounted(gains: impl Iterator<Item = u32>) -> f64 {
    gains.zip(1_u32..).map(|(gain, rank)| f64::from(gain) / f64::from(rank + 1).log2()).sum()
}

/// `part / whole`; nothing of nothing is the worst value.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::dataset::Qrel;

    fn labels(qrels: &[(u32, &str, u8)]) -> Labels {
        let qrel = |&(group, name, relevance): &(u32, &str, u8)| Qrel {
            group,
            tool: ToolId::new("s", name),
            relevance,
            arguments: None,
        };
        Labels::new(qrels.iter().map(qrel).collect())
    }

    fn list(names: &str) -> Vec<ToolId> {
        names.split_whitespace().map(|name| ToolId::new("s", name)).collect()
    }

    #[track_caller]
    fn check(labels: &Labels, ranked: &str, expected: &[(&str, f64)]) {
        for (measure, expected) in expected {
            let value = measure.parse::<Measure>().unwrap().score(&list(ranked), labels).unwrap();
            assert!((value - expected).abs() < 1e-12, "{measure} of [{ranked}]: {value}, expected {expected}");
        }
    }

    #[test]
    fn any_member_covers_and_every_group_counts() {
        let labels = labels(&[(0, "a", 3), (0, "b", 2), (1, "c", 3), (1, "h", 1), (1, "z", 0)]);
        let expected = [
            ("recall@1", 0.0),
            ("recall@2", 0.5),
            ("recall@4", 1.0),
            ("complete@3", 0.0),
            ("complete@4", 1.0),
            ("precision@1", 1.0),
            ("precision@4", 0.75),
            ("precision@10", 0.4),
            ("hit@1", 0.0),
            ("hit@2", 1.0),
            ("rr", 0.5),
            ("rr@1", 0.0),
            ("rr@2", 0.5),
            ("ap", f64::midpoint(1.0, 0.75)),
            ("judged@10", 5.0 / 6.0),
            ("judged@2", 1.0),
        ];
        check(&labels, "h b x c a z", &expected);
    }

    #[test]
    fn the_first_covering_member_of_a_group_earns_its_gain() {
        let labels = labels(&[(0, "a", 3), (0, "b", 2), (0, "h", 1), (1, "c", 3), (2, "i", 1)]);
        let log2 = |rank: f64| 1.0 / (rank + 1.0).log2();
        let ideal = 3.0 + 3.0 * log2(2.0) + log2(3.0);
        check(&labels, "a c i", &[("ndcg@3", 1.0), ("ndcg@1", 1.0)]);
        check(&labels, "h a c", &[("ndcg@3", 3.0 * (log2(2.0) + log2(3.0)) / ideal)]);
        check(&labels, "b a c", &[("ndcg@3", (2.0 + 3.0 * log2(3.0)) / ideal)]);
        check(&labels, "i", &[("ndcg@3", 1.0 / ideal)]);
    }

    #[test]
    fn a_tool_in_two_groups_earns_for_both() {
        let twice = labels(&[(0, "a", 3), (1, "a", 3)]);
        check(&twice, "a", &[("ndcg@5", 1.0), ("complete@1", 1.0), ("ap", 1.0)]);
        let overlap = labels(&[(0, "a", 3), (0, "both", 2), (1, "c", 3), (1, "both", 2)]);
        // Taking the one that earns most first is not the best order here; the better one is cut to 1.
        check(&overlap, "both", &[("ndcg@2", 1.0)]);
        check(&overlap, "a c", &[("ndcg@2", 1.0), ("ndcg@1", 0.75)]);
    }

    #[test]
    fn no_group_has_no_value_and_an_empty_list_has_the_worst() {
        let gold = labels(&[(0, "a", 3)]);
        let helper = labels(&[(0, "a", 1), (1, "b", 0)]);
        for measure in all(3) {
            assert_eq!(measure.score(&list("a b"), &helper), None, "{measure}");
            assert_eq!(measure.score(&list("a b"), &labels(&[])), None, "{measure}");
            let worst = measure.score(&[], &gold).unwrap();
            assert!(worst == 0.0 && worst.is_sign_positive(), "{measure}");
        }
    }

    #[test]
    fn the_flat_reading_asks_for_every_relevant_tool() {
        let grouped = labels(&[(0, "a", 3), (0, "b", 2), (1, "a", 1), (1, "c", 1), (2, "z", 0)]);
        let flat = |measure: &str| measure.parse::<Measure>().unwrap().score_flat(&list("a z b"), &grouped);
        for (measure, expected) in
            [("recall@1", 1.0 / 3.0), ("recall@3", 2.0 / 3.0), ("complete@3", 0.0), ("hit@1", 1.0), ("ap", 5.0 / 9.0)]
        {
            assert!((flat(measure) - expected).abs() < 1e-12, "{measure}");
        }
        let zeros = labels(&[(0, "a", 0), (0, "b", 0)]);
        for measure in all(2) {
            let expected = f64::from(matches!(measure, Measure::Judged(_)));
            assert_eq!(measure.score_flat(&list("a b"), &zeros).to_bits(), expected.to_bits(), "{measure}");
        }
    }

    #[test]
    fn names_round_trip_and_slips_are_explained() {
        for measure in all(7) {
            assert_eq!(measure.to_string().parse(), Ok(measure));
        }
        for (text, part) in [
            ("recal@5", "did you mean `recall@5`?"),
            ("nDCG@10", "did you mean `ndcg@10`?"),
            ("mrr", "did you mean `rr`?"),
            ("turns", "expected one of recall, complete,"),
            ("", "expected one of recall, complete,"),
            ("recall", "write `recall@10`"),
            ("recall@0", "whole number from 1 on"),
            ("rr@", "whole number from 1 on"),
            ("ap@5", "write `ap`"),
        ] {
            let message = text.parse::<Measure>().unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }

    /// Every measure at depth k, those without a depth included.
    fn all(k: usize) -> Vec<Measure> {
        let k = NonZeroUsize::new(k).unwrap();
        let at = [Measure::Recall, Measure::Complete, Measure::Precision, Measure::Hit, Measure::Ndcg, Measure::Judged];
        let plain = [Measure::Rr(None), Measure::Rr(Some(k)), Measure::Ap];
        at.map(|measure| measure(k)).into_iter().chain(plain).collect()
    }

    /// The same measures from their definitions, rank by rank, on plain data. `ndcg` only for groups that do not overlap.
    fn naive(measure: Measure, ranked: &[ToolId], labels: &Labels) -> f64 {
        let mut groups: Vec<u32> = labels.qrels().iter().filter(|q| q.relevance >= 2).map(|q| q.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let depth = measure.parts().1.map_or(ranked.len(), NonZeroUsize::get);
        let (mut covered, mut relevant, mut judged, mut retrieved) = (Vec::new(), 0.0, 0.0, 0.0);
        let (mut rr, mut ap) = (0.0, 0.0);
        let (mut settled, mut dcg) = (Vec::new(), 0.0);
        for (index, tool) in ranked.iter().enumerate().take(depth) {
            let rank = (index + 1) as f64;
            let own: Vec<_> = labels.qrels().iter().filter(|q| q.tool == *tool).collect();
            retrieved += 1.0;
            judged += f64::from(!own.is_empty());
            relevant += f64::from(own.iter().any(|q| q.relevance > 0));
            for &group in &groups {
                let covers = own.iter().any(|q| q.group == group && q.relevance >= 2);
                if covers && !covered.contains(&group) {
                    covered.push(group);
                    rr = if rr == 0.0 { 1.0 / rank } else { rr };
                    ap += relevant / rank;
                }
            }
            for q in own {
                if !settled.contains(&q.group) && q.relevance > 0 && (q.relevance > 1 || !groups.contains(&q.group)) {
                    settled.push(q.group);
                    dcg += f64::from(q.relevance) / (rank + 1.0).log2();
                }
            }
        }
        let mut best = BTreeMap::new();
        for q in labels.qrels() {
            let entry = best.entry(q.group).or_insert(0);
            *entry = q.relevance.max(*entry);
        }
        let mut best: Vec<_> = best.into_values().collect();
        best.sort_unstable_by(|a, b| b.cmp(a));
        let ideal: f64 = (0..best.len().min(depth)).map(|i| f64::from(best[i]) / (i as f64 + 2.0).log2()).sum();
        match measure {
            Measure::Recall(_) => covered.len() as f64 / groups.len() as f64,
            Measure::Complete(_) => f64::from(covered.len() == groups.len()),
            Measure::Precision(_) => relevant / depth as f64,
            Measure::Hit(_) => f64::from(!covered.is_empty()),
            Measure::Rr(_) => rr,
            Measure::Ap => ap / groups.len() as f64,
            Measure::Ndcg(_) => dcg / ideal,
            Measure::Judged(_) => judged / f64::max(retrieved, 1.0),
        }
    }

    /// Labels over at most 12 tools in at most 4 groups, at least one of them required, and a ranking of some of 15 tools.
    fn case(overlapping: bool) -> impl Strategy<Value = (Labels, Vec<ToolId>)> {
        let tool =
            |number: usize| ToolId::new(if number.is_multiple_of(2) { "p" } else { "q" }, &format!("t{}", number / 2));
        let qrels = prop::collection::vec((0_u32..4, 0_usize..12, 0_u8..4), 1..14).prop_map(move |mut qrels| {
            qrels[0].2 = qrels[0].2.max(2);
            let mut seen = BTreeSet::new();
            qrels.retain(|(group, number, _)| seen.insert((if overlapping { *group } else { 0 }, *number)));
            let qrel = |(group, number, relevance)| Qrel { group, tool: tool(number), relevance, arguments: None };
            Labels::new(qrels.into_iter().map(qrel).collect())
        });
        let ranked = (Just((0..15).map(tool).collect::<Vec<_>>()).prop_shuffle(), 0_usize..=15)
            .prop_map(|(tools, length)| tools[..length].to_vec());
        (qrels, ranked)
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

        #[test]
        fn ndcg_agrees_with_its_definition((labels, ranked) in case(false), k in 1_usize..18) {
            let measure = Measure::Ndcg(NonZeroUsize::new(k).unwrap());
            let (value, expected) = (measure.score(&ranked, &labels).unwrap(), naive(measure, &ranked, &labels));
            prop_assert!((value - expected).abs() < 1e-12, "{value}, expected {expected}");
        }

        #[test]
        fn the_others_agree_with_theirs((labels, ranked) in case(true), k in 1_usize..18) {
            for measure in all(k).into_iter().filter(|measure| !matches!(measure, Measure::Ndcg(_))) {
                let (value, expected) = (measure.score(&ranked, &labels).unwrap(), naive(measure, &ranked, &labels));
                prop_assert!((value - expected).abs() < 1e-12, "{measure}: {value}, expected {expected}");
            }
        }

        #[test]
        fn values_stay_in_range((labels, ranked) in case(true), k in 1_usize..18) {
            for measure in all(k) {
                for value in [measure.score(&ranked, &labels).unwrap(), measure.score_flat(&ranked, &labels)] {
                    prop_assert!((0.0..=1.0).contains(&value), "{measure}: {value}");
                }
            }
        }

        #[test]
        fn a_deeper_look_never_loses((labels, ranked) in case(true), k in 1_usize..17) {
            for (shallow, deep) in all(k).into_iter().zip(all(k + 1)) {
                if matches!(shallow, Measure::Recall(_) | Measure::Complete(_) | Measure::Hit(_) | Measure::Rr(_)) {
                    prop_assert!(shallow.score(&ranked, &labels) <= deep.score(&ranked, &labels), "{shallow}");
                    prop_assert!(shallow.score_flat(&ranked, &labels) <= deep.score_flat(&ranked, &labels), "{shallow}");
                }
            }
        }
    }
}
