use insta::assert_snapshot;
use proptest::prelude::*;

use crate::import::tests::{import, mangled, shown, survives};

const FILES: [(&str, &str); 5] = [
    (
        "corpus.jsonl",
        r#"{"_id": "d0", "title": "shop: GET /orders", "text": "Lists orders.", "metadata": {}}
{"_id": "d1", "title": "", "text": "Without a title."}
{"_id": "d2", "title": "shop: GET /orders", "text": "Lists them again."}
{"_id": "d3", "title": "a\u0007b", "text": "A title that is no name."}
{"_id": "d3", "text": "the id again"}
{"_id": 4, "text": "no id"}
"#,
    ),
    (
        "queries.jsonl",
        r#"{"_id": "q0", "text": "what did I buy?", "metadata": {}}
{"_id": "q1", "text": "both"}
{"_id": "q2", "text": "not judged"}
{"_id": "q3", "text": "nothing fits"}
{"_id": "q4", "text": "gone"}
"#,
    ),
    (
        "qrels/test.tsv",
        "query-id\tcorpus-id\tscore\nq0\td0\t2\nq0\td1\t1\nq0\td3\t0\nq1\t0\td1\t2\nq1\t0\td2\t-1\nq3\td0\t0\nq4\tnone\t1\nq9\td0\t1\nq1\td0\nq1\td0\thalf\n",
    ),
    ("qrels/train.tsv", "query-id\tcorpus-id\tscore\nq2\td0\t1\n"),
    ("NOTE.txt", ""),
];

#[test]
fn judgements_become_graded_labels() {
    assert_snapshot!(shown(import("beir", &FILES, "")));
}

#[test]
fn without_a_test_file_all_judgements_are_read_and_scales_stay() {
    let files = [
        FILES[0],
        FILES[1],
        ("qrels/a.tsv", "q0\td0\t1\nq1\td1\t3\n"),
        ("qrels/b.tsv", "q0\td1\t2\nq1\td0\t1\nq1\td3\t9\n"),
    ];
    let (report, dataset) = import("beir", &files, "");
    let labels: Vec<_> = ["q0", "q1"]
        .iter()
        .flat_map(|id| dataset.qrels.of(&harness::ids::QueryId::new(id)).qrels().to_vec())
        .map(|label| format!("{} {} {}", label.group, label.tool, label.relevance))
        .collect();
    let helper = "0 corpus/shop: GET /orders 1";
    assert_eq!(
        labels,
        [helper, "0 corpus/d1 2", "0 corpus/d1 3", helper, "1 corpus/d3 3"].map(str::to_owned),
        "{report}"
    );
    let odd = report.findings.get(crate::import::Trouble::UnfitRelevance).unwrap();
    assert_eq!(odd.examples, ["\"9 of d3 for q1\""]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_files_never_panic(change in mangled(&FILES)) {
        survives("beir", &FILES, "", change);
    }
}
