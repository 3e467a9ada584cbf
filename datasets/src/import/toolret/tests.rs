use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::import::tests::{import, import_with, mangled, shown, survives};
use crate::import::{Extra, ImportOptions, find};
use crate::testing::{folder, put};

/// Documentation in the shapes of several sources, as objects and as text.
const JSON: [(&str, &str); 3] = [
    (
        "web/tools.json",
        r#"[{"id": "t0", "type": "web", "documentation": {"name": "find_song", "description": "Finds a song.", "parameters": {"title": {"description": "Its title.", "type": "str"}, "year": {"type": "int, optional", "default": "2001"}, "how": {"type": "Quux", "default": null}}}},
 {"id": "t1", "documentation": "{\"name\": \"find_song\", \"description\": \"Finds another.\", \"parameters\": [{\"name\": \"day\", \"in\": \"query\", \"schema\": {\"type\": \"datetime\", \"default\": null}, \"description\": \"When.\"}]}"},
 {"id": "t2", "documentation": {"api_name": "rate", "required_parameters": [{"name": "stars", "type": "NUMBER"}], "optional_parameters": [{"name": "why", "type": "STRING", "description": ""}]}},
 {"id": "t3", "documentation": "Plain prose, no JSON."},
 {"id": "t4", "documentation": {"name": "model/x", "domain": "Audio", "description": "A model.", "parameters": "(date: datetime)"}},
 {"id": "t5", "documentation": {"name": "strict", "description": "Has a schema.", "parameters": {"type": "dict", "properties": {"a": {"type": "float"}}}}},
 {"id": "t1", "documentation": {"name": "again"}},
 {"id": "t6", "documentation": 1}, {"id": 7}, 8]"#,
    ),
    (
        "queries.jsonl",
        r#"{"id": "q0", "query": "play something", "instruction": "Retrieve song finders.", "labels": "[{\"id\": \"t0\", \"doc\": {}, \"relevance\": 1}, {\"id\": \"t1\", \"relevance\": 1}]", "category": "web"}
{"id": "q1", "query": "rate it", "instruction": null, "labels": [{"id": "t2", "relevance": 1}, {"id": "t3", "relevance": 0}]}
{"id": "q2", "query": "missing", "labels": [{"id": "gone", "relevance": 1}]}
{"id": "q3", "query": "unlabelled", "labels": []}
{"id": "q4", "query": "bad", "labels": "[{"}
"#,
    ),
    ("README.md", "not read"),
];

#[test]
fn documentation_of_every_source_becomes_a_tool() {
    assert_snapshot!(shown(import("toolret", &JSON, "")));
}

#[test]
fn raw_documentation_and_instructions_are_kept_if_asked_for() {
    let (report, dataset) = import_with("toolret", &JSON, &[Extra::Raw, Extra::WithInstruction]);
    assert_eq!(report, import("toolret", &JSON, "").0);
    let tools = &dataset.catalogue.tools;
    assert!(tools.iter().all(|tool| tool.input_schema == serde_json::json!({"type": "object"})));
    assert!(
        tools[0].description.starts_with(r#"{"name":"find_song","description":"Finds a song.","parameters":{"title":"#)
    );
    let second = tools.iter().find(|tool| tool.id.server() == "toolret_2").unwrap();
    assert!(second.description.starts_with(r#"{"name": "find_song", "description": "Finds another.""#), "as it was");
    let texts: Vec<_> = dataset.queries.iter().map(|query| query.text.as_str()).collect();
    assert_eq!(texts, ["play something\nRetrieve song finders.", "rate it"]);
}

const NORMALISED: [(&str, &str); 2] = [
    (
        "tools.jsonl",
        r#"{"name": "find_song", "id": "t0", "namespace": null, "description": "Finds a song.", "parameters": {"type": "object", "properties": {"title": {"type": "string"}}}, "doc": "{\"name\": \"find_song\"}"}
"#,
    ),
    (
        "queries.jsonl",
        r#"{"id": "q0", "query": "play", "instruction": "Retrieve.", "relevant": ["find_song"], "split": "test"}"#,
    ),
];

#[test]
fn the_normalised_layout_keeps_its_documentation_too() {
    let plain = import("toolret", &NORMALISED, "").1;
    assert_eq!(
        (plain.catalogue.tools[0].description.as_str(), plain.queries[0].text.as_str()),
        ("Finds a song.", "play")
    );
    let (_, dataset) = import_with("toolret", &NORMALISED, &[Extra::Raw, Extra::WithInstruction]);
    assert_eq!(dataset.catalogue.tools[0].description, r#"{"name": "find_song"}"#);
    assert_eq!(dataset.catalogue.tools[0].input_schema, serde_json::json!({"type": "object"}));
    assert_eq!(dataset.queries[0].text, "play\nRetrieve.");
}

#[test]
fn queries_without_a_word_on_what_fits_are_left_out() {
    let files = [
        ("tools.json", r#"[{"id": "t0", "documentation": {"name": "find"}}]"#),
        (
            "queries.jsonl",
            r#"{"id": "q0", "query": "a", "labels": [{"id": "t0", "relevance": 0}]}
{"id": "q1", "query": "b", "labels": [{"id": "t0", "relevance": 1}]}"#,
        ),
    ];
    let (report, _) = import("toolret", &files, "");
    assert_eq!((report.queries, report.no_tool_queries), (1, 0));
    assert_eq!(report.findings.get(Trouble::NoGold).unwrap().examples, ["\"q0\""]);
    let files = [
        NORMALISED[0],
        ("queries.jsonl", r#"{"id": "q0", "query": "a", "relevant": []}"#),
        ("queries_no_tool.jsonl", r#"{"id": "q1", "query": "b", "relevant": []}"#),
    ];
    let (report, _) = import("toolret", &files, "");
    assert_eq!((report.queries, report.no_tool_queries), (1, 1));
    assert_eq!(report.findings.get(Trouble::NoGold).unwrap().examples, ["\"q0\""]);
}

/// The files of the JSON fixture as Parquet, labels and documentation as text.
fn parquet_files() -> [(&'static str, Vec<u8>); 2] {
    let tools = [
        vec![Some("t0"), Some(r#"{"name": "find_song", "description": "Finds a song."}"#)],
        vec![Some("t1"), Some("prose")],
        vec![None, Some("{}")],
    ];
    let queries = [
        vec![Some("q0"), Some("play"), Some("Retrieve."), Some(r#"[{"id": "t0", "relevance": 1}]"#)],
        vec![Some("q1"), None, None, Some("[]")],
    ];
    let tools = parquet::tests::file(&["id", "documentation"], &tools);
    let queries = parquet::tests::file(&["id", "query", "instruction", "labels"], &queries);
    [("tools-00000-of-00001.parquet", tools), ("queries.parquet", queries)]
}

#[test]
fn parquet_says_the_same_as_json() {
    let dir = folder(&parquet_files());
    let target = dir.path().join("target");
    let report = find("toolret").unwrap().import(dir.path(), &target, &ImportOptions::default()).unwrap();
    assert_snapshot!(shown((report, crate::load(&target).unwrap())));
}

#[test]
fn a_folder_without_data_is_refused() {
    let dir = folder(&[("readme.txt", "")]);
    let error = find("toolret").unwrap().import(dir.path(), &dir.path().join("t"), &ImportOptions::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("cannot be read: it is and holds no such file; expected a folder with ToolRet"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_files_never_panic(change in mangled(&JSON)) {
        survives("toolret", &JSON, "", change);
    }

    #[test]
    fn damaged_normalised_files_never_panic(change in mangled(&NORMALISED)) {
        survives("toolret", &NORMALISED, "", change);
    }

    #[test]
    fn damaged_parquet_never_panics(
        which in 0_usize..2, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let mut files = parquet_files();
        let file = &mut files[which].1;
        let at = at.index(file.len());
        if cut { file.truncate(at); } else { file[at] = byte; }
        let dir = folder(&files);
        put(dir.path(), "other.jsonl", "{}");
        let target = dir.path().join("target");
        if find("toolret").unwrap().import(dir.path(), &target, &ImportOptions::default()).is_ok() {
            crate::load(&target).unwrap();
        }
    }
}
