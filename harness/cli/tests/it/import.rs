//! Options of single importers on the command line.

use crate::support::{run, run_ok};

const TOOLS: &str = r#"{"id": "t0", "documentation": "{\"name\": \"find\", \"description\": \"Finds.\"}"}"#;
const QUERIES: &str =
    r#"{"id": "q0", "query": "find it", "instruction": "Retrieve finders.", "labels": [{"id": "t0", "relevance": 1}]}"#;

#[test]
fn options_of_one_importer_are_used_there_and_refused_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("source")).unwrap();
    std::fs::write(dir.path().join("source/tools.jsonl"), TOOLS).unwrap();
    std::fs::write(dir.path().join("source/queries.jsonl"), QUERIES).unwrap();
    let import = |format: &str, flag: &str| run(dir.path(), &["import", format, "source", "-o", "new", flag]);

    let (code, _, err) = import("bfcl", "--raw");
    assert_eq!(code, 2);
    assert!(
        err.contains("option raw does not apply to importer bfcl; it belongs to toolret, bfcl has pooled"),
        "{err}"
    );
    let (code, _, err) = import("toolret", "--with-instructions");
    assert_eq!(code, 2);
    assert!(err.contains("a similar argument exists: '--with-instruction'"), "{err}");
    assert!(!dir.path().join("new").exists());

    run_ok(dir.path(), &["import", "toolret", "source", "-o", "new", "--raw", "--with-instruction"]);
    let read = |name: &str| std::fs::read_to_string(dir.path().join("new").join(name)).unwrap();
    assert!(
        read("tools/toolret.jsonl").contains(r#""description":"{\"name\": \"find\", \"description\": \"Finds.\"}""#)
    );
    assert!(read("queries.jsonl").contains(r#""text":"find it\nRetrieve finders.""#));
    assert!(read("dataset.toml").contains("Imported with `toolret --raw --with-instruction`."));
}

#[test]
fn the_folder_that_one_stands_in_can_be_filled_and_filled_again() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    std::fs::create_dir(&here).unwrap();
    std::fs::write(dir.path().join("tools.jsonl"), TOOLS).unwrap();
    std::fs::create_dir(dir.path().join("source")).unwrap();
    std::fs::rename(dir.path().join("tools.jsonl"), dir.path().join("source/tools.jsonl")).unwrap();
    for flags in [&[][..], &["--overwrite"]] {
        run_ok(&here, &[&["import", "toolret", "../source", "-o", "."][..], flags].concat());
        let mut names: Vec<_> = std::fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["dataset.toml", "qrels.jsonl", "queries.jsonl", "servers.jsonl", "tools"]);
    }
    std::fs::write(here.join("notes.md"), "mine").unwrap();
    let (code, _, err) = run(&here, &["import", "toolret", "../source", "-o", ".", "--overwrite"]);
    assert_eq!(code, 2);
    assert!(err.contains("holds \"notes.md\", which"), "{err}");
    run_ok(&here, &["lint", "."]);
}

#[test]
fn importers_are_listed_with_their_own_options() {
    let list = run_ok(&std::env::temp_dir(), &["list", "importers"]);
    let toolret = list.split("toolret ").nth(1).unwrap_or_else(|| panic!("{list}"));
    assert!(toolret.contains("--raw: keep each tool's raw documentation"), "{list}");
    assert!(!list.split("bfcl ").next().unwrap().contains("--pooled"), "{list}");
}
