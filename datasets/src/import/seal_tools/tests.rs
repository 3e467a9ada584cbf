use insta::assert_snapshot;
use proptest::prelude::*;

use crate::import::tests::{import, mangled, shown, survives};

const FILES: [(&str, &str); 4] = [
    (
        "tool.jsonl",
        r#"{"api_name": "getTide", "api_description": "The tide.", "field": "Sea/Water", "parameters": {"place": {"type": "str", "description": "Where."}, "hours": {"type": "float"}, "odd": {"type": "Quux"}}, "required": ["place"], "responses": {"tide": {"type": "str"}}}
{"api_name": "sail", "api_description": "Sails.", "field": "Sea/Boats", "parameters": {"tide": {"type": "str"}}, "required": [], "responses": {}}
{"api_name": "fly", "field": "Air", "parameters": {}}
{"api_name": "fly", "field": "Insects/Small", "parameters": {}}
{"api_name": 5}
"#,
    ),
    (
        "dev.jsonl",
        r#"{"id": "dev-0", "query": "how high is it?", "calling": [{"api": "getTide", "parameters": {"place": "Kiel", "hours": "2.5", "depth": 1}, "responses": ["API_call_0"]}, {"api": "sail", "parameters": {"tide": "API_call_0"}, "responses": ["API_call_1"]}]}
{"id": "dev-1", "query": "twice", "calling": [{"api": "getTide", "parameters": {"place": "Kiel"}}, {"api": "getTide", "parameters": {"place": "Brest", "hours": 3}}]}
{"id": "dev-2", "query": "up", "calling": [{"api": "fly", "parameters": {}}]}
{"id": "dev-3", "query": "nothing", "calling": []}
{"id": "dev-0", "query": "the same id", "calling": [{"api": "sail"}]}
"#,
    ),
    ("test_in_domain.jsonl", ""),
    ("train.jsonl", ""),
];

#[test]
fn calls_become_labels_with_arguments() {
    assert_snapshot!(shown(import("seal-tools", &FILES, "")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_files_never_panic(change in mangled(&FILES)) {
        survives("seal-tools", &FILES, "", change);
    }
}
