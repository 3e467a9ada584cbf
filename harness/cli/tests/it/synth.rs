//! `import synth`: no source, options of its own.

use crate::support::{run, run_ok};

#[test]
fn synthetic_tools_are_made_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let out = run_ok(dir.path(), &["import", "synth", "--tools", "2500", "--seed", "3", "-o", "load"]);
    assert!(out.contains("tools 2500, queries 0"), "{out}");
    let manifest = std::fs::read_to_string(dir.path().join("load/dataset.toml")).unwrap();
    assert!(manifest.contains("Unfit for any claim about quality"), "{manifest}");
}

#[test]
fn options_and_sources_where_they_do_not_belong_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tools.json"), "[]").unwrap();
    for (args, expected) in [
        (&["synth", "tools.json"][..], "reads nothing, but a source was given"),
        (&["openai-tools"], "importer openai-tools needs a source"),
        (
            &["openai-tools", "tools.json", "--tools", "3"],
            "option tools does not apply to importer openai-tools; it belongs to synth",
        ),
        (&["synth", "--tools", "0"], "expected a number from 1 to 500000"),
        (&["synth", "--tolls", "3"], "'--tools'"),
        (&["sinth"], "did you mean \"synth\""),
    ] {
        let (code, _, err) = run(dir.path(), &[&["import"], args, &["-o", "load"]].concat());
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
        assert!(!dir.path().join("load").exists());
    }
}
