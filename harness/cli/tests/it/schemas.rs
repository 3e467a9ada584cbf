//! An endpoint that cannot read every schema: what a person is told, and what they can do.

use std::path::Path;

use serde_json::{Value, json};

use crate::server::{Answer, Server, model};
use crate::support::{atlas_copy, episodes, outcome, toolgauge};

const PROFILE: &str = "version = 1\nid = \"strict\"\nmodel = \"m\"\n";

/// Reads no pattern that looks ahead, and refuses all tools for one.
fn strict() -> Server {
    Server::start(|body, _| {
        if body["tools"].to_string().contains("(?!") {
            let words = "JSON schema conversion failed: unsupported pattern";
            return Answer::json(400, &json!({"error": {"code": 400, "message": words}}));
        }
        Answer::json(200, &model(body))
    })
}

/// A copy of atlas in which a core tool, which every prompt holds, has such a pattern.
fn spoilt_atlas(dir: &Path) {
    let tools = atlas_copy(dir).join("tools/agent.jsonl");
    let text = std::fs::read_to_string(&tools).unwrap();
    let spoilt =
        text.replacen(r#""command":{"type":"string","#, r#""command":{"type":"string","pattern":"^(?!rm)","#, 1);
    assert_ne!(spoilt, text);
    std::fs::write(&tools, spoilt).unwrap();
}

fn ask(dir: &Path, server: &Server, profile: &str, out: &str) -> String {
    std::fs::write(dir.join("profile.toml"), profile).unwrap();
    let mut command = toolgauge(dir);
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m");
    command.args([
        "run",
        "-d",
        "atlas",
        "-s",
        "bm25-llm,eager",
        "-n",
        "50",
        "--sample",
        "8",
        "--profile",
        "profile.toml",
        "--out",
        out,
    ]);
    let (code, shown, err) = outcome(&command.output().unwrap());
    assert_eq!(code, 0, "{err}");
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_refused_schema_is_named_and_a_rule_lets_the_run_go_through() {
    let dir = tempfile::tempdir().unwrap();
    spoilt_atlas(dir.path());
    let server = strict();
    let shown = ask(dir.path(), &server, PROFILE, "a");
    assert!(shown.contains("the endpoint refuses the schema of 1 of 50 tools: agent/terminal"), "{shown}");
    assert!(shown.contains("set `drop_patterns = \"lookaround\"` under `[schema]` in profile.toml"), "{shown}");
    let done = episodes(&dir.path().join("a"));
    assert!(done.iter().all(|episode| episode.outcome.label() == "not_runnable(schema)"), "never scored wrong");
    let found = &json(&dir.path().join("a/manifest.json"))["finish"]["schemas"];
    assert_eq!(found["refused"][0]["tool"], "agent/terminal");
    let probes = found["probes"].as_u64().unwrap() as usize;
    assert_eq!(server.requests().len(), done.len() + probes, "one search for all episodes");

    let rules = format!("{PROFILE}[schema]\ndrop_patterns = \"lookaround\"\n");
    let shown = ask(dir.path(), &server, &rules, "b");
    assert!(shown.contains("schemas rewritten for this endpoint 1 of 50 tools (drop_patterns 1)"), "{shown}");
    assert!(!shown.contains("refuses the schema"), "{shown}");
    let done = episodes(&dir.path().join("b"));
    assert!(done.iter().all(|episode| !episode.outcome.is_not_runnable()));
    let rewrites = &json(&dir.path().join("b/manifest.json"))["rewrites"];
    assert_eq!(rewrites["tools"][0]["tool"], "agent/terminal");
    assert_eq!(rewrites["tools"][0]["rewrites"][0]["pointer"], "/properties/command/pattern");
    let page = std::fs::read_to_string(dir.path().join("b/report/report.md")).unwrap();
    assert!(page.contains("## Schemas rewritten for this endpoint"), "{page}");
}
