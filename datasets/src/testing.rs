//! Small datasets for tests.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use harness::dataset::Dataset;
use tempfile::TempDir;

/// A temporary folder with the given files.
pub(crate) fn folder<T: AsRef<[u8]>>(files: &[(&str, T)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        put(dir.path(), name, content);
    }
    dir
}

/// Writes one file of a folder, with the folders above it.
pub(crate) fn put(dir: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// One item a line.
pub(crate) fn lines<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let lines: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    lines.join("\n") + "\n"
}

pub(crate) const MANIFEST: &str = r#"
format = 1
name = "small"
revision = "1"
licence = "MIT"
description = "Made for tests."
"#;

/// A valid dataset that uses every file and every key.
pub(crate) const SMALL: [(&str, &str); 8] = [
    (
        "dataset.toml",
        r#"format = 1
name = "small"
revision = "2024-01"
licence = "CC0-1.0"
description = "Made for tests."
canary = "canary-1"
sizes = [4, 5]
"#,
    ),
    (
        "servers.jsonl",
        r#"{"server": "mail", "title": "Mail", "description": "Letters."}
{"server": "desk", "title": "Desk", "description": "Tickets.", "boilerplate": true, "mcp": {"name": "desk-server", "version": "1.0.0", "protocol": "2025-06-18"}}
"#,
    ),
    (
        "tools/mail.jsonl",
        r#"{"name": "send", "title": "Send", "description": "Sends a letter.", "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}, "body": {"type": "string"}}}, "annotations": {"destructiveHint": false}}
{"name": "find", "description": "Finds letters.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "core": true}
{"name": "burn", "description": "", "inputSchema": {"type": "object"}, "tags": ["odd"]}
"#,
    ),
    (
        "tools/desk.jsonl",
        r#"{"name": "close", "description": "Closes a ticket.", "inputSchema": {"type": "object"}}
{"name": "find", "description": "Finds tickets.", "inputSchema": {"type": "object"}}
"#,
    ),
    (
        "skills.jsonl",
        r#"{"name": "post-office", "description": "Letters out.", "allowed-tools": ["mail/send"], "tier": "pinned", "body": "Write."}
{"name": "triage", "description": "Tickets.", "allowed-tools": ["desk/find", "desk/close"], "tier": "role:support", "body": ""}
{"name": "mine", "description": "Own.", "allowed-tools": ["mail/burn"], "tier": "personal:ana", "body": ""}
"#,
    ),
    (
        "actors.jsonl",
        r#"{"actor": "all", "roles": [], "grants": ["*"]}
{"actor": "ana", "roles": ["support"], "grants": ["desk/*", "mail/find"], "read_only": true}
"#,
    ),
    (
        "queries.jsonl",
        r#"{"query": "q1", "intent": "send", "text": "write to Bo", "kind": "direct", "split": "dev", "scaling": true, "results": {"mail/send": "sent"}}
{"query": "q2", "intent": "both", "text": "find it and close it", "actor": "ana", "kind": "multi", "language": "en-GB", "split": "test", "sequential": true, "tags": ["confusable"]}
{"query": "q3", "intent": "none", "text": "fly to the moon", "kind": "no_tool", "split": "test", "candidates": ["mail/send", "mail/burn"]}
"#,
    ),
    (
        "qrels.jsonl",
        r#"{"query": "q1", "group": 0, "tool": "mail/send", "relevance": 3, "arguments": {"to": ["Bo", "bo"], "body": [""]}}
{"query": "q1", "group": 0, "tool": "mail/find", "relevance": 1}
{"query": "q1", "group": 0, "tool": "desk/find", "relevance": 0}
{"query": "q2", "group": 0, "tool": "desk/find", "relevance": 2}
{"query": "q2", "group": 1, "tool": "desk/close", "relevance": 3}
{"query": "q3", "group": 0, "tool": "mail/burn", "relevance": 0}
"#,
    ),
];

/// `count` tools called `t000`, `t001`, … of one server, the first of them core.
pub(crate) fn many_tools(count: usize) -> String {
    let line = |index: usize| {
        let core = index == 0;
        format!(r#"{{"name": "t{index:03}", "description": "", "inputSchema": {{"type": "object"}}, "core": {core}}}"#)
    };
    lines((0..count).map(line))
}

/// A valid dataset of [`many_tools`] of the server `s`, with the queries and labels given.
pub(crate) fn dataset(tools: usize, queries: &str, qrels: &str) -> Dataset {
    skilled(tools, queries, qrels, "", r#"{"actor": "all", "roles": [], "grants": ["*"]}"#)
}

/// The same with skills and actors.
pub(crate) fn skilled(tools: usize, queries: &str, qrels: &str, skills: &str, actors: &str) -> Dataset {
    let server = r#"{"server": "s", "title": "S", "description": "s"}"#;
    let tools = many_tools(tools);
    let dir = folder(&[
        ("dataset.toml", MANIFEST),
        ("servers.jsonl", server),
        ("tools/s.jsonl", &tools),
        ("skills.jsonl", skills),
        ("actors.jsonl", actors),
        ("queries.jsonl", queries),
        ("qrels.jsonl", qrels),
    ]);
    crate::load(dir.path()).unwrap()
}
