//! Flags that ask for nothing, and files that are not what they should be: clear words and the code of a usage error.

use std::fs;

use serde_json::{Value, json};

use crate::support::{atlas, atlas_copy, run, run_ok};

#[test]
fn flags_that_ask_for_nothing_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    fs::write(dir.path().join("mcp.json"), r#"{"mcpServers": {"a": {"command": "true"}}}"#).unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["run", "-d", &atlas, "-s", "bm25", "--budget", "0s"], "--budget \"0s\": expected a time"),
        (&["run", "-d", &atlas, "-s", "bm25", "--replay", "nowhere", "--dry-run"], "nowhere: "),
        (&["run", "-d", &atlas, "-s", "bm25", "--reuse", "nowhere", "--dry-run"], "nowhere: "),
        (&["import", "mcp", "mcp.json", "-o", "out", "--max-tools", "0"], "--max-tools is 0, expected at least 1"),
        (&["import", "mcp", "mcp.json", "-o", "out", "--not-secret", "NO_SUCH_NAME"], "--not-secret \"NO_SUCH_NAME\""),
    ];
    for (args, expected) in cases {
        let (code, _, err) = run(dir.path(), args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    assert!(!dir.path().join("out").exists());
}

#[test]
fn a_damaged_manifest_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &["run", "-d", &atlas, "-s", "bm25,random", "-n", "50", "--out", "a"]);
    let path = dir.path().join("a/manifest.json");
    let whole = fs::read(&path).unwrap();
    let changed = |change: fn(&mut Value)| {
        let mut manifest = serde_json::from_slice(&whole).unwrap();
        change(&mut manifest);
        manifest.to_string().into_bytes()
    };
    for (bytes, expected) in [
        (
            changed(|manifest| manifest["reference"] = json!("eager")),
            "`reference` names no strategy of the run: \"eager\"",
        ),
        (
            changed(|manifest| manifest["strategies"][1]["label"] = json!("other")),
            "the manifest has no strategy \"random\"",
        ),
        (changed(|manifest| manifest["seed"] = json!("one")), "manifest.json:"),
        (whole[..whole.len() / 2].to_vec(), "manifest.json:"),
        (b"\xff\xfe".to_vec(), "manifest.json"),
    ] {
        fs::write(&path, bytes).unwrap();
        for args in [
            &["report", "a"][..],
            &["show", "a", "a0001"],
            &["gate", "a", "--baseline", "b.json"],
            &["run", "--resume", "a"],
        ] {
            let (code, _, err) = run(dir.path(), args);
            assert_eq!(code, 2, "{args:?}: {err}");
            assert!(err.contains(expected), "{args:?}: {err}");
        }
    }
}

/// Thirty definitions, each of which wants the next one twice: checked as written they take a thousand million steps per call.
#[test]
fn a_tool_whose_schema_multiplies_is_named_and_does_not_hold_the_run_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = atlas_copy(dir.path()).join("tools/agent.jsonl");
    let mut lines = Vec::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let mut tool: Value = serde_json::from_str(line).unwrap();
        if tool["name"] == "terminal" {
            for index in 0..31 {
                let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
                let definition = if index == 30 { json!({"type": "string"}) } else { json!({"allOf": [next, next]}) };
                tool["inputSchema"]["$defs"][format!("d{index}")] = definition;
            }
            tool["inputSchema"]["properties"]["command"] = json!({"$ref": "#/$defs/d0"});
        }
        lines.push(tool.to_string());
    }
    fs::write(&path, lines.join("\n")).unwrap();
    let asked = [
        "run",
        "-d",
        "atlas",
        "-s",
        "eager",
        "-n",
        "50",
        "--sample",
        "8",
        "--endpoint",
        "scripted:first",
        "--out",
        "a",
    ];
    let shown = run_ok(dir.path(), &asked).split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "arguments of agent/terminal are checked in part: its schema expands to more than 100,000 checks";
    assert_eq!(shown.matches(words).count(), 1, "{shown}");
    let manifest: Value = serde_json::from_slice(&fs::read(dir.path().join("a/manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["checked_in_part"], json!(["agent/terminal"]));
    let (_, out, _) = run(dir.path(), &["lint", "atlas"]);
    assert!(out.contains("TG306"), "{out}");
}
