use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::import::Extra;
use crate::import::tests::{import, import_with, mangled, shown, survives};

/// One entry of each category, with one trouble of each kind.
const FILES: [(&str, &str); 9] = [
    (
        "BFCL_v4_simple_java.json",
        r#"{"id": "simple_java_0", "question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "open the door"}, {"role": "user", "content": "of room 3"}]], "function": [{"name": "Door.open", "description": "Opens a door.", "parameters": {"type": "dict", "properties": {"room": {"type": "integer"}, "how": {"type": "HashMap", "properties": {"speed": {"type": "String"}, "hand": {"type": "String"}}}, "type": {"type": "Lock", "default": "old"}}, "required": ["room"]}}]}
{"id": "simple_java_1", "question": [[{"role": "user", "content": "close it"}]], "function": [{"name": "Door.open", "description": "Opens another door.", "parameters": {"type": "dict", "properties": {}}}]}
"#,
    ),
    (
        "possible_answer/BFCL_v4_simple_java.json",
        r#"{"id": "simple_java__0", "ground_truth": [{"Door.open": {"room": [3], "how": [{"speed": ["slow", "slowly"], "hand": ["", "left"]}], "type": ["", "old"], "gone": [1]}}]}
"#,
    ),
    (
        "BFCL_v4_parallel.json",
        r#"{"id": "parallel_0", "question": [[{"role": "user", "content": "open 3 and 4, then paint"}]], "function": [{"name": "Door.open", "description": "Opens a door.", "parameters": {"type": "dict", "properties": {"room": {"type": "integer"}, "how": {"type": "HashMap", "properties": {"speed": {"type": "String"}, "hand": {"type": "String"}}}, "type": {"type": "Lock", "default": "old"}}, "required": ["room"]}}, {"name": "paint", "description": "", "parameters": {"type": "dict", "properties": {"lines": {"type": "array", "items": {"type": "dict"}}}}}]}
{"id": "parallel_1", "question": [[{"role": "user", "content": "call what is not offered"}]], "function": [{"name": "paint", "description": "", "parameters": {"type": "dict", "properties": {"lines": {"type": "array", "items": {"type": "dict"}}}}}]}
"#,
    ),
    (
        "possible_answer/BFCL_v4_parallel.json",
        r#"{"id": "parallel_0", "ground_truth": [{"Door.open": {"room": [3]}}, {"paint": {"lines": [[{"x": [1, 2]}, {"x": [3]}]]}}, {"Door.open": {"room": [4, 3], "type": ["new"]}}]}
{"id": "parallel_1", "ground_truth": [{"elsewhere": {}}]}
"#,
    ),
    (
        "BFCL_v4_live_irrelevance.json",
        r#"{"id": "live_irrelevance_0", "question": [[{"role": "user", "content": "sing"}]], "function": [{"name": "paint", "description": "", "parameters": {"type": "dict", "properties": {"lines": {"type": "array", "items": {"type": "dict"}}}}}]}
{"id": "live_irrelevance_1", "question": [[{"role": "user", "content": "dance"}]], "function": []}
{"id": "live_irrelevance_2", "question": "no messages", "function": []}
"#,
    ),
    (
        "BFCL_v4_live_relevance.json",
        r#"{"id": "live_relevance_0", "question": [[{"role": "user", "content": "x"}]], "function": [{"name": "f"}]}"#,
    ),
    ("BFCL_v4_multi_turn_base.json", "{\"id\": \"multi_turn_0\", \"question\": []}\n{\"id\": \"multi_turn_1\"}\n"),
    (
        "BFCL_v4_live_simple.json",
        r#"{"id": "live_simple_0", "question": [[{"role": "user", "content": "x"}], []], "function": []}"#,
    ),
    ("multi_turn_func_doc/math.json", ""),
];

#[test]
fn categories_become_queries_with_their_own_functions() {
    assert_snapshot!(shown(import("bfcl", &FILES, "")));
}

#[test]
fn the_folders_of_the_repository_are_found() {
    let nested = FILES.map(|(name, text)| (format!("bfcl_eval/data/{name}"), text));
    let nested: Vec<_> = nested.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    assert_eq!(import("bfcl", &nested, "").0, import("bfcl", &FILES, "").0);
}

#[test]
fn pooled_queries_lose_their_candidates_where_something_fits() {
    let (_, dataset) = import_with("bfcl", &FILES, &[Extra::Pooled]);
    let open: Vec<_> =
        dataset.queries.iter().filter(|query| query.candidates.is_none()).map(|query| query.id.as_str()).collect();
    assert_eq!(open, ["parallel_0", "simple_java_0"]);
    assert_eq!(dataset.queries.len(), 3);
}

#[test]
fn choices_inside_a_value_are_multiplied_out() {
    let values =
        |text: &str| expand(&serde_json::from_str(text).unwrap()).map(|values| Value::from(values).to_string());
    let none = || None::<String>;
    assert_eq!(values("[1, [2]]"), Some("[[1,[2]]]".to_owned()));
    assert_eq!(values(r#"{"a": [1, ""], "b": [""]}"#), Some(r#"[{"a":1,"b":""},{"b":""}]"#.to_owned()));
    assert_eq!(values(r#"[{"a": [1, 2]}, 3]"#), Some(r#"[[{"a":1},3],[{"a":2},3]]"#.to_owned()));
    assert_eq!(values(r#"{"a": 1}"#), Some(r#"[{"a":1}]"#.to_owned()));
    assert_eq!(values(&format!("[{}1]", r#"{"a": [1, 2]}, "#.repeat(9))), none(), "512 are too many");
    assert_eq!(values(&format!("[{}1]", r#"{"a": [1]}, "#.repeat(100_000))), none());
}

#[test]
fn answers_that_say_nothing_and_answers_to_nothing_are_listed() {
    let question = |id: &str| {
        format!(
            r#"{{"id": "{id}", "question": [[{{"role": "user", "content": "do {id}"}}]], "function": [{{"name": "paint"}}]}}"#
        )
    };
    let questions = ["p_0", "p_1", "p_2"].map(question).join("\n");
    let answers = r#"{"id": "p_0", "ground_truth": []}
{"id": "p_1", "ground_truth": [{}]}
{"id": "p_2", "ground_truth": [{"paint": {}}]}
{"id": "p_2", "ground_truth": [{"other": {}}]}
{"id": "p_9", "ground_truth": [{"paint": {}}]}"#;
    let files = [("BFCL_v4_parallel.json", questions.as_str()), ("possible_answer/BFCL_v4_parallel.json", answers)];
    let (report, dataset) = import("bfcl", &files, "");
    let listed = |trouble| report.findings.get(trouble).map(|found| found.examples.join(" ")).unwrap_or_default();
    assert_eq!(listed(Trouble::NoGold), r#""p_0" "p_1""#);
    assert_eq!(
        (listed(Trouble::RepeatedLabel), listed(Trouble::OrphanLabel)),
        ("\"p_2\"".to_owned(), "\"p_9\"".to_owned())
    );
    assert_eq!((report.no_tool_queries, dataset.queries.len()), (0, 1));
}

#[test]
fn a_folder_without_categories_is_refused() {
    let dir = crate::testing::folder(&[("notes", "")]);
    let error = crate::import::find("bfcl").unwrap();
    let error = error.import(dir.path(), &dir.path().join("t"), &crate::import::ImportOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("cannot be read: it holds no such files; expected the folder of BFCL"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_files_never_panic(change in mangled(&FILES)) {
        survives("bfcl", &FILES, "", change);
    }
}
