//! `lint` at the command line: codes, formats, baselines. What is found is tested in `datasets`.

use std::path::Path;

use serde_json::Value;

use crate::support::{run, run_ok};

/// A dataset of one tool with this description, in `set` below `dir`.
fn dataset(dir: &Path, description: &str) {
    let files = [
        (
            "dataset.toml",
            "format = 1\nname = \"set\"\nrevision = \"1\"\nlicence = \"MIT\"\ndescription = \"d\"\n".to_owned(),
        ),
        ("servers.jsonl", r#"{"server": "s", "title": "S", "description": "Tickets."}"#.to_owned()),
        (
            "tools/s.jsonl",
            format!(r#"{{"name": "close", "description": "{description}", "inputSchema": {{"type": "object"}}}}"#),
        ),
        ("queries.jsonl", String::new()),
        ("qrels.jsonl", String::new()),
    ];
    std::fs::create_dir_all(dir.join("set/tools")).unwrap();
    for (name, content) in files {
        std::fs::write(dir.join("set").join(name), content).unwrap();
    }
}

#[test]
fn notes_pass_and_errors_do_not() {
    let dir = tempfile::tempdir().unwrap();
    dataset(dir.path(), "Closes it.");
    let out = run_ok(dir.path(), &["lint", "set"]);
    assert!(out.starts_with("tools/s.jsonl:1:19: note TG202 description-short: s/close: "), "{out}");
    assert!(out.contains("\n0 errors, 0 warnings, 1 note\n"), "{out}");

    dataset(dir.path(), r"Closes\u200b the ticket that you name.");
    let (code, out, _) = run(dir.path(), &["lint", "set"]);
    assert_eq!(code, 3, "{out}");
    assert!(out.starts_with("tools/s.jsonl:1:19: error TG205 invisible: s/close: "), "{out}");
}

#[test]
fn formats_for_programs_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    dataset(dir.path(), "Closes it.");
    let found: Value = serde_json::from_str(&run_ok(dir.path(), &["lint", "set", "--format", "json"])).unwrap();
    assert_eq!(found["findings"][0]["rule"], "TG202");
    let log: Value = serde_json::from_str(&run_ok(dir.path(), &["lint", "./set/", "--format", "sarif"])).unwrap();
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "set/tools/s.jsonl");
}

#[test]
fn baselines_accept_or_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    dataset(dir.path(), "Closes it.");
    let accept = "[[accept]]\nrule = \"TG202\"\nsubject = \"s/close\"\nwhy = \"it is enough\"\n";
    std::fs::write(dir.path().join("set/lint.toml"), accept).unwrap();
    let out = run_ok(dir.path(), &["lint", "set"]);
    assert!(out.starts_with("0 errors, 0 warnings, 0 notes; 1 accepted in lint.toml\n"), "{out}");
    let out = run_ok(dir.path(), &["lint", "set", "--all"]);
    assert!(out.lines().next().unwrap().ends_with("; accepted: it is enough"), "{out}");

    std::fs::write(dir.path().join("other.toml"), accept.replace("TG202", "TG2O2")).unwrap();
    let (code, out, err) = run(dir.path(), &["lint", "set", "--baseline", "other.toml"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("other.toml:2:8: error: rule \"TG2O2\" does not exist (did you mean \"TG202\""), "{err}");
    let (code, _, err) = run(dir.path(), &["lint", "nowhere"]);
    assert_eq!(code, 3, "{err}");
}

#[test]
fn entries_of_a_baseline_are_placed_in_the_file_they_come_from() {
    let dir = tempfile::tempdir().unwrap();
    dataset(dir.path(), "Closes the ticket that you name.");
    // One of the dataset's own, one of the same name where the command runs, one of an odd name elsewhere.
    std::fs::create_dir(dir.path().join("our own")).unwrap();
    for file in ["set/lint.toml", "lint.toml", "our own/a:b%.toml"] {
        let stale = "[[accept]]\nrule = \"TG202\"\nsubject = \"s/gone\"\nwhy = \"it is enough\"\n";
        std::fs::write(dir.path().join(file), stale).unwrap();
    }
    let uri = |baseline: &[&str]| {
        let out = run_ok(dir.path(), &[&["lint", "set", "--format", "sarif"], baseline].concat());
        let log: Value = serde_json::from_str(&out).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap();
        assert_eq!((results.len(), &results[0]["ruleId"]), (1, &Value::from("TG002")));
        results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap().to_owned()
    };
    let root = dir.path().canonicalize().unwrap();
    let full = root.join("lint.toml").to_str().unwrap().to_owned();
    assert_eq!(uri(&[]), "set/lint.toml");
    assert_eq!(uri(&["--baseline", "lint.toml"]), "lint.toml");
    assert_eq!(uri(&["--baseline", "./our own/a:b%.toml"]), "our%20own/a%3Ab%25.toml");
    assert_eq!(uri(&["--baseline", &full]), format!("file://{full}"));
    assert_eq!(uri(&["--baseline", "set/../lint.toml"]), format!("file://{full}"));
}
