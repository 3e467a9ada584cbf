//! Retrieval measures and statistics against values of other implementations; `tests/golden/README.md` describes them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use harness::dataset::{Labels, Qrel};
use harness::ids::ToolId;
use harness::metric::rank::Measure;
use harness::metric::stats::{
    Cluster, Interval, LEVEL, PairedCounts, RESAMPLES, cluster_bootstrap, holm, mcnemar_exact, newcombe_paired, wilson,
};
use serde::Deserialize;
use serde_json::Value;

const SETS: [&str; 3] = ["metatool", "bfcl_pooled", "seal_tools"];

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[derive(Deserialize)]
struct Expected {
    measures: Vec<String>,
    mean_over_judged: Vec<f64>,
    per_query: BTreeMap<String, Vec<f64>>,
}

/// One retrieval set: labels and scored documents by query, and what each library makes of them.
struct Set {
    labels: BTreeMap<String, Labels>,
    run: BTreeMap<String, Vec<(ToolId, f64)>>,
    expected: BTreeMap<String, Expected>,
}

impl Set {
    fn read(name: &str) -> Self {
        let document = |id: &str| ToolId::new("golden", id);
        let mut qrels: BTreeMap<String, Vec<Qrel>> = BTreeMap::new();
        for line in read(&format!("metrics/{name}/qrels.tsv")).lines() {
            let [query, _, id, relevance] = line.split('\t').collect::<Vec<_>>().try_into().expect("four columns");
            let relevance = relevance.parse().unwrap();
            qrels.entry(query.into()).or_default().push(Qrel {
                group: 0,
                tool: document(id),
                relevance,
                arguments: None,
            });
        }
        let mut run: BTreeMap<String, Vec<(ToolId, f64)>> = BTreeMap::new();
        for line in read(&format!("metrics/{name}/run.tsv")).lines() {
            let [query, id, score] = line.split('\t').collect::<Vec<_>>().try_into().expect("three columns");
            run.entry(query.into()).or_default().push((document(id), score.parse().unwrap()));
        }
        let labels = qrels.into_iter().map(|(query, qrels)| (query, Labels::new(qrels))).collect();
        let expected = serde_json::from_str(&read(&format!("metrics/{name}/expected.json"))).unwrap();
        Self { labels, run, expected }
    }

    /// The documents of a query in the order of a tie rule; none if the run lacks the query.
    fn ranked(&self, query: &str, tie_rule: TieRule) -> Vec<ToolId> {
        let mut scored = self.run.get(query).cloned().unwrap_or_default();
        scored.sort_by(tie_rule);
        scored.into_iter().map(|(tool, _)| tool).collect()
    }
}

type TieRule = fn(&(ToolId, f64), &(ToolId, f64)) -> Ordering;

/// As `trec_eval`: score as a 32-bit float descending, then id descending.
fn trec(a: &(ToolId, f64), b: &(ToolId, f64)) -> Ordering {
    #[expect(clippy::cast_possible_truncation, reason = "losing the digits is the rule")]
    let (score_a, score_b) = (a.1 as f32, b.1 as f32);
    score_b.total_cmp(&score_a).then_with(|| b.0.cmp(&a.0))
}

/// As our retrievers: score descending, then id ascending.
fn ours(a: &(ToolId, f64), b: &(ToolId, f64)) -> Ordering {
    b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0))
}

/// Our measure of a TREC name.
fn measure(trec_name: &str) -> Measure {
    let name = match trec_name.split_once('@') {
        Some(("P", k)) => format!("precision@{k}"),
        Some(("R", k)) => format!("recall@{k}"),
        Some(("Success", k)) => format!("hit@{k}"),
        _ => trec_name.to_lowercase(),
    };
    name.parse().unwrap()
}

/// Checks every value and mean that the library gives.
fn check(library: &str, tie_rule: TieRule, measures: usize) {
    for name in SETS {
        let set = Set::read(name);
        let expected = &set.expected[library];
        assert_eq!(expected.measures.len(), measures);
        let mut sums = vec![0.0; measures];
        for (query, labels) in &set.labels {
            let ranked = set.ranked(query, tie_rule);
            let row = expected.per_query.get(query);
            assert!(row.is_some() || ranked.is_empty(), "{name} {query}: only absent queries lack values");
            for (column, trec_name) in expected.measures.iter().enumerate() {
                let value = measure(trec_name).score_flat(&ranked, labels);
                let wanted = row.map_or(0.0, |row| row[column]);
                assert!((value - wanted).abs() < 1e-6, "{library} {name} {query} {trec_name}: {value}, not {wanted}");
                sums[column] += value;
            }
        }
        for ((sum, wanted), trec_name) in sums.iter().zip(&expected.mean_over_judged).zip(&expected.measures) {
            let mean = sum / set.labels.len() as f64;
            assert!((mean - wanted).abs() < 1e-6, "{library} {name} mean {trec_name}: {mean}, not {wanted}");
        }
    }
}

#[test]
fn measures_agree_with_pytrec_eval_under_its_tie_rule() {
    check("pytrec_eval", trec, 15);
}

#[test]
fn rr_at_k_and_judged_agree_with_ir_measures() {
    check("ir_measures", ours, 2);
}

#[test]
fn measures_agree_with_the_reference_under_our_tie_rule() {
    check("reference_id_ascending", ours, 17);
}

/// With groups of one the two readings differ only in relevance 1, which is a helper to one and a hit to the other.
#[test]
fn both_readings_agree_where_each_gold_tool_is_a_group() {
    let set = Set::read("seal_tools");
    let measures = ["recall@5", "complete@5", "precision@5", "hit@1", "rr", "ap", "ndcg@10", "judged@10"];
    let mut compared = 0;
    for (query, labels) in &set.labels {
        let own_group = labels.qrels().iter().zip(0..).map(|(qrel, group)| Qrel { group, ..qrel.clone() }).collect();
        let grouped = Labels::new(own_group);
        let graded_one = labels.qrels().iter().any(|qrel| qrel.relevance == 1);
        if graded_one || grouped.is_no_tool() {
            continue;
        }
        compared += 1;
        let ranked = set.ranked(query, ours);
        for name in measures {
            let measure: Measure = name.parse().unwrap();
            let (value, flat) = (measure.score(&ranked, &grouped).unwrap(), measure.score_flat(&ranked, labels));
            assert!((value - flat).abs() < 1e-12, "{query} {name}: {value}, flat {flat}");
        }
    }
    assert!(compared > 20, "{compared} queries compared");
}

fn stats() -> Value {
    serde_json::from_str(&read("stats/expected.json")).unwrap()
}

#[track_caller]
fn assert_relative(value: f64, wanted: &Value, tolerance: f64) {
    let wanted = wanted.as_f64().expect("a number");
    assert!((value - wanted).abs() <= tolerance * wanted.abs(), "{value}, not {wanted}");
}

#[track_caller]
fn assert_wilson(successes: u64, trials: u64, wanted: &Value) {
    let Interval { lower, upper } = wilson(successes, trials, LEVEL);
    assert_relative(lower, &wanted["wilson"][0], 1e-12);
    assert_relative(upper, &wanted["wilson"][1], 1e-12);
}

#[test]
fn wilson_intervals_agree() {
    let stats = stats();
    for vector in ["small_binary", "large_rare_flips"] {
        let vector = &stats["vectors"][vector];
        for side in ["a", "b"] {
            let wanted = &vector["intervals95"][side];
            assert_wilson(wanted["successes"].as_u64().unwrap(), vector["n"].as_u64().unwrap(), wanted);
        }
    }
    let cases = stats["interval_edge_cases95"].as_object().unwrap();
    assert_eq!(cases.len(), 6);
    for (case, wanted) in cases {
        let (successes, trials) = case.split_once('/').unwrap();
        assert_wilson(successes.parse().unwrap(), trials.parse().unwrap(), wanted);
    }
}

#[test]
fn exact_mcnemar_agrees() {
    let stats = stats();
    let pairs: Value = serde_json::from_str(&read("stats/pairs.json")).unwrap();
    for vector in ["small_binary", "large_rare_flips"] {
        let side = |name: &str| pairs[vector][name].as_array().unwrap().iter();
        let count = |a: u64, b: u64| side("a").zip(side("b")).filter(|(x, y)| **x == a && **y == b).count() as u64;
        assert_relative(mcnemar_exact(count(1, 0), count(0, 1)), &stats["vectors"][vector]["mcnemar"]["exact_p"], 1e-9);
    }
    let cases = stats["mcnemar_edge_cases_exact_p"].as_object().unwrap();
    assert_eq!(cases.len(), 6);
    for (case, wanted) in cases {
        let (b, c) = case.split_once(',').unwrap();
        let (b, c) = (b.strip_prefix("b=").unwrap(), c.strip_prefix("c=").unwrap());
        assert_relative(mcnemar_exact(b.parse().unwrap(), c.parse().unwrap()), wanted, 1e-9);
    }
}

#[test]
fn holm_agrees() {
    for family in ["made_up_family", "vectors_family"] {
        let family = &stats()["holm"][family];
        let numbers = |key: &str| family[key].as_array().unwrap().clone();
        let p: Vec<f64> = numbers("p").iter().map(|p| p.as_f64().unwrap()).collect();
        let (adjusted, wanted) = (holm(&p), numbers("holm"));
        assert_eq!(adjusted.len(), wanted.len());
        for (value, wanted) in adjusted.into_iter().zip(&wanted) {
            assert_relative(value, wanted, 1e-12);
        }
    }
}

#[track_caller]
fn assert_newcombe(counts: PairedCounts, wanted: &Value) {
    let Interval { lower, upper } = newcombe_paired(counts, LEVEL);
    for (value, wanted) in [(lower, &wanted["lower"]), (upper, &wanted["upper"])] {
        // Bounds are differences of proportions, so the tolerance is absolute.
        assert!((value - wanted.as_f64().unwrap()).abs() < 1e-12, "{value}, not {wanted} for {counts:?}");
    }
}

#[test]
fn newcombe_intervals_agree() {
    let stats = stats();
    for vector in ["small_binary", "large_rare_flips"] {
        let vector = &stats["vectors"][vector];
        let cell = |name: &str| vector["table"][name].as_u64().unwrap();
        let counts = PairedCounts {
            both: cell("both"),
            only_a: cell("only_a"),
            only_b: cell("only_b"),
            neither: cell("neither"),
        };
        assert_newcombe(counts, &vector["newcombe_paired95"]["phi_corrected_method10"]);
    }
    let cases = stats["newcombe_edge_cases95"].as_object().unwrap();
    assert!(cases.len() >= 7, "{} cases", cases.len());
    for (case, wanted) in cases {
        let cells: Vec<u64> = case.trim_matches(['(', ')']).split(", ").map(|cell| cell.parse().unwrap()).collect();
        let [both, only_a, only_b, neither] = cells.try_into().expect("four cells");
        assert_newcombe(PairedCounts { both, only_a, only_b, neither }, &wanted["method10"]);
    }
}

#[test]
fn paired_bootstrap_agrees() {
    let stats = stats();
    let pairs: Value = serde_json::from_str(&read("stats/pairs.json")).unwrap();
    for vector in ["small_binary", "large_rare_flips", "continuous_rr"] {
        let side = |name: &str| pairs[vector][name].as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
        let differences: Vec<_> = side("a").zip(side("b")).map(|(a, b)| Cluster { sum: a - b, count: 1 }).collect();
        let Interval { lower, upper } = cluster_bootstrap(&differences, LEVEL, RESAMPLES, 1).unwrap();
        let wanted = &stats["vectors"][vector]["paired_bootstrap_percentile"];
        let tolerance = wanted["tolerance"].as_f64().unwrap();
        for (bound, value) in [lower, upper].into_iter().enumerate() {
            let wanted = wanted["ci95_mean_of_40_seeds"][bound].as_f64().unwrap();
            assert!((value - wanted).abs() <= tolerance, "{vector}: {value}, not {wanted} within {tolerance}");
        }
    }
}
