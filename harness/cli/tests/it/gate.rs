//! The gate on labels and ids that look like something else.

use std::fs;

use crate::support::{atlas, atlas_copy, run, run_ok};

#[test]
fn labels_and_ids_may_look_like_keys() {
    let dir = tempfile::tempdir().unwrap();
    let copy = atlas_copy(dir.path());
    for file in ["queries.jsonl", "qrels.jsonl"] {
        let text = fs::read_to_string(copy.join(file)).unwrap();
        fs::write(copy.join(file), text.replace("\"a0001\"", "\"50 / a0001\"")).unwrap();
    }
    let experiment = "dataset = \"atlas\"\nsizes = [50]\n\
        [[strategy]]\nkind = \"bm25\"\nlabel = \"x\"\n\
        [[strategy]]\nkind = \"random\"\nlabel = \"x / 50\"\n";
    fs::write(dir.path().join("e.toml"), experiment).unwrap();
    run_ok(dir.path(), &["run", "-c", "e.toml", "--out", "a"]);
    let out = run_ok(dir.path(), &["gate", "a", "--baseline", "base.json", "--write"]);
    assert!(out.contains("baseline of 144 rankings written"), "{out}");
    let out = run_ok(dir.path(), &["gate", "a", "--baseline", "base.json", "--exact"]);
    let groups: Vec<_> = out.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(groups, ["x, 50 tools", "x / 50, 50 tools", "gate passed"]);
    // A single query that moved stands under its own strategy, by its own name.
    let text = fs::read_to_string(dir.path().join("base.json")).unwrap();
    let line = text.lines().find(|line| line.contains("\"x\"") && line.contains("50 / a0001")).unwrap();
    let moved = format!("{}\"values\":[0.25,0.25,0.25]}},", line.split("\"values\"").next().unwrap());
    fs::write(dir.path().join("moved.json"), text.replace(line, &moved)).unwrap();
    let (code, out, _) = run(dir.path(), &["gate", "a", "--baseline", "moved.json", "--exact"]);
    assert_eq!(code, 6, "{out}");
    let (own, other) = out.split_once("x / 50, 50 tools").unwrap();
    assert!(own.contains("1 query moved") && own.contains("  50 / a0001\n"), "{out}");
    assert!(!other.contains("1 query moved"), "{out}");
}

#[test]
fn repeats_are_rankings_of_their_own_and_none_stands_twice() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &["run", "-d", &atlas, "-s", "random", "-n", "50", "--repeats", "2", "--out", "a"]);
    let out = run_ok(dir.path(), &["gate", "a", "--baseline", "base.json", "--write"]);
    assert!(out.contains("baseline of 144 rankings written"), "{out}");
    run_ok(dir.path(), &["gate", "a", "--baseline", "base.json", "--exact"]);
    let text = fs::read_to_string(dir.path().join("base.json")).unwrap();
    fs::write(dir.path().join("twice.json"), text.replace(",\"repeat\":1", "")).unwrap();
    let (code, _, err) = run(dir.path(), &["gate", "a", "--baseline", "twice.json"]);
    assert!(code == 7 && err.contains("is there twice"), "{err}");
}

#[test]
fn baselines_of_another_version_are_named_before_anything_in_them_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--out", "a"]);
    let old = "{\"version\": 2, \"setting\": {}, \"values\": {\"bm25 / 50 / a0001\": [1.0,1.0,1.0]}}";
    fs::write(dir.path().join("old.json"), old).unwrap();
    let (code, _, err) = run(dir.path(), &["gate", "a", "--baseline", "old.json"]);
    assert_eq!(code, 7, "{err}");
    assert!(err.contains("old.json: version 2 is not 3; write it anew with --write"), "{err}");
}

#[test]
fn only_baselines_are_replaced_and_nothing_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--out", "a"]);
    let write = |name: &str| run(dir.path(), &["gate", "a", "--baseline", name, "--write"]);
    for (name, content) in [("notes.md", "mine"), ("list.json", "[]"), ("other.json", "{\"version\": 1}")] {
        fs::write(dir.path().join(name), content).unwrap();
        let (code, _, err) = write(name);
        assert!(code == 2 && err.contains("exists and is no baseline"), "{code} {err}");
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), content);
    }
    let (code, _, err) = write("a");
    assert!(code == 2 && err.contains("exists and is no baseline"), "{code} {err}");
    fs::write(dir.path().join("base.partial"), "mine").unwrap();
    fs::write(dir.path().join("base.json"), "").unwrap();
    for _ in 0..2 {
        let (code, _, err) = write("base.json");
        assert_eq!(code, 0, "{err}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("base.partial")).unwrap(), "mine");
    let (code, _, err) = run(dir.path(), &["gate", "a", "--baseline", "base.json", "--write", "--exact"]);
    assert!(code == 2 && err.contains("cannot be used with"), "{code} {err}");
}
