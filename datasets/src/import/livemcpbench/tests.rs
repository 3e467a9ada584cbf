use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::import::tests::{import, mangled, shown, survives};

const FILES: [(&str, &str); 2] = [
    (
        "tools.json",
        r#"[{"name": "Tea House", "description": "Makes tea.", "category": "Food", "config": {}, "tools": {"tea-mcp": {"server_name": "tea-mcp", "version": "1", "tools": [
   {"name": "brew", "description": "Brews.", "inputSchema": {"type": "object", "properties": {"leaf": {"$ref": "x"}}}, "annotations": {"readOnlyHint": false, "title": "Brew"}},
   {"name": "stop", "description": "Stops the kettle.", "inputSchema": {"type": "object"}, "annotations": null, "outputSchema": {"type": "object"}},
   {"name": "brew", "description": "again"}, {"name": 1}, {"name": "cool", "annotations": {"unknown": 1}, "inputSchema": []}]}}},
 {"name": null, "tools": {"train": {"tools": [{"name": "stop", "description": "Stops the train."}]}}},
 {"name": "no tools"}]"#,
    ),
    (
        "all_annotations.json",
        r#"[{"task_id": "a", "Question": "a cup, please", "answers": "", "category": "Food", "file_name": "", "Annotator Metadata": {"Steps": "1. brew", "Tools": "1. brew\n2) cool\n\n3. brew", "Number of tools": "3"}},
 {"task_id": "b", "Question": "stop it", "Annotator Metadata": {"Tools": "stop", "Number of tools": 2}},
 {"task_id": "c", "Question": "far", "Annotator Metadata": {"Tools": "1. brew\n2. 3d_print"}},
 {"task_id": "d", "Question": "nothing", "Annotator Metadata": {"Tools": " "}},
 {"task_id": "e", "Question": "no metadata"}]"#,
    ),
];

#[test]
fn names_without_a_server_find_their_tools() {
    let (report, dataset) = import("livemcpbench", &FILES, "");
    let brew = &dataset.catalogue.tools[0];
    assert_eq!((brew.annotations.read_only_hint, brew.annotations.title.as_deref()), (Some(false), Some("Brew")));
    assert_snapshot!(shown((report, dataset)));
}

#[test]
fn the_folders_of_the_repository_are_found() {
    let nested = [("tools/LiveMCPTool/tools.json", FILES[0].1), ("annotated_data/all_annotations.json", FILES[1].1)];
    assert_eq!(import("livemcpbench", &nested, "").0, import("livemcpbench", &FILES, "").0);
    let (report, _) = import("livemcpbench", &FILES[..1], "");
    assert_eq!(report.findings.get(Trouble::FileLeftOut).unwrap().examples, ["\"all_annotations.json (missing)\""]);
}

#[test]
fn numbers_of_a_list_are_no_part_of_a_name() {
    let names = ["1. a", " 12) b ", "3d_print", "4", "c.d", "5.", "1、e"].map(unnumbered);
    assert_eq!(names, ["a", "b", "3d_print", "4", "c.d", "", "e"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_files_never_panic(change in mangled(&FILES)) {
        survives("livemcpbench", &FILES, "", change);
    }
}
