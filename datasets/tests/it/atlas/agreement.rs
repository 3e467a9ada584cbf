//! Two passes labelled every test query without seeing each other. Their agreement before adjudication, recomputed from the files.

use std::collections::{BTreeMap, BTreeSet};

use harness::dataset::{Kind, RELEVANCE_COVERS};
use harness::metric::agreement::{cohen_kappa, krippendorff_alpha, masi};
use serde::Deserialize;

use super::{card_says, dataset, folder, table};

#[derive(Deserialize)]
struct Label {
    query: String,
    group: u32,
    tool: String,
    relevance: u8,
}

#[derive(Deserialize)]
struct Pool {
    query: String,
    tools: Vec<String>,
}

type Labels = BTreeMap<String, Vec<Label>>;

fn lines<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let text = std::fs::read_to_string(folder().join("agreement").join(name)).expect("a file of the dataset");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of that shape")).collect()
}

fn labels(name: &str) -> Labels {
    let mut labels = Labels::new();
    for label in lines::<Label>(name) {
        labels.entry(label.query.clone()).or_default().push(label);
    }
    labels
}

fn relevance(labels: &[Label], tool: &str) -> usize {
    labels.iter().filter(|label| label.tool == tool).map(|label| usize::from(label.relevance)).max().unwrap_or(0)
}

fn covering(labels: &[Label]) -> BTreeSet<&str> {
    labels.iter().filter(|label| label.relevance >= RELEVANCE_COVERS).map(|label| label.tool.as_str()).collect()
}

fn groups(labels: &[Label]) -> BTreeSet<BTreeSet<&str>> {
    let mut groups: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for label in labels.iter().filter(|label| label.relevance >= RELEVANCE_COVERS) {
        groups.entry(label.group).or_default().insert(&label.tool);
    }
    groups.into_values().collect()
}

#[test]
fn the_agreement_of_the_card_is_that_of_the_two_passes() {
    let (dataset, first, second) = (dataset(), labels("first.jsonl"), labels("second.jsonl"));
    let pools: BTreeMap<String, Vec<String>> =
        lines::<Pool>("pool.jsonl").into_iter().map(|pool| (pool.query, pool.tools)).collect();
    let test: Vec<_> = dataset.queries.iter().filter(|query| query.split == "test").collect();
    assert!(test.iter().all(|query| pools.contains_key(query.id.as_str())), "every test query was pooled");
    let none = Vec::new();
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Unspecified).map(Some).chain([None]);
    let rows = kinds.map(|kind| {
        let of_kind: Vec<&str> = test
            .iter()
            .filter(|query| kind.is_none_or(|kind| query.kind == kind))
            .map(|query| query.id.as_str())
            .collect();
        let mut pairs = Vec::new();
        let mut same = 0;
        let mut sets = Vec::new();
        for query in &of_kind {
            let (one, two) = (first.get(*query).unwrap_or(&none), second.get(*query).unwrap_or(&none));
            pairs.extend(pools[*query].iter().map(|tool| (relevance(one, tool), relevance(two, tool))));
            same += usize::from(groups(one) == groups(two));
            sets.push((covering(one), covering(two)));
        }
        let covers = |rating: usize| usize::from(rating >= usize::from(RELEVANCE_COVERS));
        let binary: Vec<_> = pairs.iter().map(|&(one, two)| (covers(one), covers(two))).collect();
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        vec![
            kind.map_or("all", Kind::as_str).to_owned(),
            of_kind.len().to_string(),
            pairs.len().to_string(),
            number(cohen_kappa(&binary, 2)),
            number(cohen_kappa(&pairs, 4)),
            format!("{:.1}", 100.0 * same as f64 / of_kind.len() as f64),
            number(krippendorff_alpha(&sets, masi)),
        ]
    });
    let heading = ["kind", "queries", "pairs", "κ covers", "κ four levels", "same groups %", "α MASI"];
    card_says(&table(&heading, rows));
}

#[test]
fn every_pooled_pair_has_a_label() {
    let dataset = dataset();
    for pool in lines::<Pool>("pool.jsonl") {
        let labels = dataset.qrels.of(&harness::ids::QueryId::new(&pool.query));
        for tool in &pool.tools {
            let tool = tool.parse().unwrap();
            assert!(labels.relevance(&tool).is_some(), "{}: {tool} was judged and has no label", pool.query);
        }
    }
}
