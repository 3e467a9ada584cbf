use std::path::Path;

use harness::catalogue::{Grant, Tier};
use harness::dataset::Kind;
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{MANIFEST, SMALL, folder, lines, many_tools, put};

fn problems(dir: &Path) -> Problems {
    match load(dir) {
        Err(LoadError::Invalid { problems, .. }) => problems,
        other => panic!("expected problems, got {other:?}"),
    }
}

/// The problems of the small dataset with some files replaced.
fn with(files: &[(&str, &str)]) -> String {
    let dir = folder(&SMALL);
    for (name, content) in files {
        put(dir.path(), name, content);
    }
    lines(problems(dir.path()).all())
}

#[test]
fn reads_every_key_of_every_file() {
    let dir = folder(&SMALL);
    let dataset = load(dir.path()).unwrap();
    assert_eq!((dataset.name.as_str(), dataset.licence.as_str()), ("small", "CC0-1.0"));
    assert_eq!((dataset.revision.as_str(), dataset.sizes.as_slice()), ("2024-01", [4, 5].as_slice()));
    let ids: Vec<_> = dataset.catalogue.tools.iter().map(|tool| tool.id.to_string()).collect();
    assert_eq!(ids, ["mail/send", "mail/find", "mail/burn", "desk/close", "desk/find"]);
    let send = &dataset.catalogue.tools[0];
    assert_eq!(send.annotations.title.as_deref(), Some("Send"));
    assert_eq!(send.annotations.destructive_hint, Some(false));
    assert!(dataset.catalogue.tools[1].core && dataset.catalogue.tools[1].read_only());
    assert_eq!(dataset.catalogue.tools[2].tags, ["odd"]);
    assert_eq!(dataset.catalogue.servers[1].title, "Desk");
    let tiers: Vec<_> = dataset.catalogue.skills.iter().map(|skill| skill.tier.clone()).collect();
    assert_eq!(tiers[..2], [Tier::Pinned, Tier::Role("support".to_owned())]);
    let ana = &dataset.actors[1];
    assert_eq!(ana.grants, [Grant::Server("desk".to_owned()), Grant::Tool("mail/find".parse().unwrap())]);
    assert!(ana.read_only);
    let [first, second, third] = &dataset.queries[..] else { panic!("three queries") };
    assert_eq!((first.actor.as_str(), first.language.as_str(), first.scaling), ("all", "en", true));
    assert_eq!(first.results[&"mail/send".parse().unwrap()], "sent");
    assert_eq!((second.kind, second.sequential, second.language.as_str()), (Kind::Multi, true, "en-GB"));
    assert_eq!(third.candidates.as_ref().map(Vec::len), Some(2));
    let labels = dataset.qrels.of(&first.id);
    assert_eq!(labels.qrels().len(), 3);
    assert_eq!(labels.qrels()[0].arguments.as_ref().unwrap()["to"], [json!("Bo"), json!("bo")]);
    assert!(dataset.qrels.of(&third.id).is_no_tool());
}

#[test]
fn without_actors_everybody_is_granted_everything_and_a_catalogue_may_stand_alone() {
    let server = r#"{"server": "s", "title": "S", "description": "s"}"#;
    let files = [("dataset.toml", MANIFEST), ("servers.jsonl", server), ("queries.jsonl", ""), ("qrels.jsonl", "")];
    let dir = folder(&files);
    put(dir.path(), "tools/s.jsonl", many_tools(3));
    let dataset = load(dir.path()).unwrap();
    assert_eq!(dataset.actors, [harness::catalogue::Actor::all()]);
    assert_eq!((dataset.catalogue.tools.len(), dataset.queries.len()), (3, 0));
}

#[test]
fn marks_line_ends_and_blank_lines_of_other_systems_are_read() {
    let dir = folder(&SMALL);
    let plain = load(dir.path()).unwrap();
    for (name, content) in SMALL {
        put(dir.path(), name, format!("\u{feff}{}\r\n\r\n", content.replace('\n', "\r\n")));
    }
    assert_eq!(load(dir.path()).unwrap().digest(), plain.digest());
}

#[test]
fn a_folder_that_is_no_dataset_says_what_to_do() {
    let dir = folder(&[("tools.json", "[]")]);
    let text = load(dir.path()).unwrap_err().to_string();
    assert!(text.contains("holds no `dataset.toml`; give the folder that does, or make a dataset"), "{text}");
    for name in ["absent", "tools.json"] {
        let text = load(&dir.path().join(name)).unwrap_err().to_string();
        assert!(text.ends_with("; give the folder that holds `dataset.toml`"), "{text}");
    }
}

#[test]
fn every_missing_file_is_named_once() {
    let dir = folder(&[("dataset.toml", MANIFEST)]);
    assert_snapshot!(problems(dir.path()), @r#"
    4 problems
      servers.jsonl: error: no such file; expected it, even if it is empty (see FORMAT.md)
      tools: error: cannot be listed: No such file or directory (os error 2); expected a folder of JSONL files
      queries.jsonl: error: no such file; expected it, even if it is empty (see FORMAT.md)
      qrels.jsonl: error: no such file; expected it, even if it is empty (see FORMAT.md)
    "#);
    let dir = folder(&SMALL);
    std::fs::remove_file(dir.path().join("tools/mail.jsonl")).unwrap();
    std::fs::remove_file(dir.path().join("queries.jsonl")).unwrap();
    put(dir.path(), "tools/other.jsonl", "");
    put(dir.path(), "tools/desk.json", "");
    put(dir.path(), "skill.jsonl", "");
    assert_snapshot!(problems(dir.path()), @r#"
    6 problems
      skill.jsonl: error: no part of a dataset (did you mean "skills.jsonl" or "qrels.jsonl"?); expected dataset.toml, servers.jsonl, tools, skills.jsonl, actors.jsonl, queries.jsonl, qrels.jsonl
      dataset.toml:7:1: error: size 5 is larger than the catalogue; expected at most its 2 tools
      tools/desk.json: error: is not read; expected <server>.jsonl
      tools/mail.jsonl: error: no such file, though servers.jsonl lists the server; expected one line per tool, or an empty file
      tools/other.jsonl: error: servers.jsonl lacks it; expected a line for the server
      queries.jsonl: error: no such file; expected it, even if it is empty (see FORMAT.md)
    "#);
}

#[test]
fn a_broken_catalogue_shows_all_its_problems_at_once() {
    assert_snapshot!(with(&[
        (
            "dataset.toml",
            "format = 2\nname = \"Small Set\"\nrevision = \" \"\nlicence = \"MIT\"\ndescription = \"d\"\nsizes = [9, 1]\n",
        ),
        (
            "servers.jsonl",
            r#"{"server": "mail", "titel": "Mail", "description": "d"}
{"server": "desk", "title": "Desk", "description": "d"}
{"server": "desk", "title": "Desk", "description": "d"}
{"server": "../up", "title": "Up", "description": "d"}
"#,
        ),
        (
            "tools/mail.jsonl",
            r#"{"name": "send", "description": "d", "inputSchema": {"type": "object", "properties": {"to": {}, "to": {}}}}
{"name": "find", "description": "d", "inputSchema": []}
{"name": "burn", "description": "d", "inputSchema": {"type": "string"}}
{"name": "burn", "description": "d", "inputSchema": {}}
{"name": "", "description": "d", "inputSchema": {}}
{"name": "fold", "description": 3, "inputSchema": {}}
{"name": "tear", "description": "d", "inputSchema": {}, "annotations": {"readOnlyHints": true}}
["name", "description"]
{"name": "lick", "description": "d", "inputSchema": {}"#,
        ),
        (
            "skills.jsonl",
            r#"{"name": "Post--office", "description": "d", "allowed-tools": [], "tier": "pinned", "body": ""}
{"name": "triage", "description": " ", "allowed-tools": ["desk/fnd", "mail/lick"], "tier": "pinned", "body": ""}
{"name": "triage", "description": "d", "allowed-tools": [], "tier": "pinned", "body": ""}
{"name": "mine", "description": "d", "allowed-tools": [], "tier": "personal:anna", "body": ""}
{"name": "ours", "description": "d", "allowed-tools": [], "tier": "team", "body": ""}
"#,
        ),
        (
            "actors.jsonl",
            r#"{"actor": "all", "roles": [], "grants": ["mail/*"]}
{"actor": "ana", "roles": [], "grants": ["dsk/*", "find", "desk/close"]}
"#,
        ),
        ("queries.jsonl", ""),
        ("qrels.jsonl", ""),
    ]), @r#"
    dataset.toml:1:1: error: format 2 is unknown; expected 1
    dataset.toml:2:1: error: name "Small Set" is unfit; expected lower-case letters, digits and `-`
    dataset.toml:3:1: error: revision is blank; expected some text
    dataset.toml:6:1: error: sizes do not rise; expected positive numbers, each larger than the one before
    dataset.toml:6:1: error: size 9 is larger than the catalogue; expected at most its 4 tools
    servers.jsonl:1:26: error: unknown key "titel" (did you mean "title"?); expected one of `server`, `title`, `description`, `boilerplate`, `mcp`
    servers.jsonl:3:12: error: server "desk" occurs twice, first on line 2; expected each one once
    servers.jsonl:4:2: error: server "../up" cannot name a file; expected a name without `/`, `\` and leading `.`
    tools/mail.jsonl:1:100: error: `inputSchema.properties`: duplicate key `to`
    tools/mail.jsonl:2:38: error: the input schema of "find" is no object; expected a JSON Schema with "type": "object"
    tools/mail.jsonl:3:38: error: the input schema of "burn" is no object; expected a JSON Schema with "type": "object"
    tools/mail.jsonl:4:10: error: tool "burn" occurs twice, first on line 3; expected each one once
    tools/mail.jsonl:5:2: error: `name` "" is blank; expected 1 to 200 printable characters
    tools/mail.jsonl:6:33: error: `description`: invalid type: integer `3`; expected a string
    tools/mail.jsonl:7:87: error: unknown key "readOnlyHints" (did you mean "readOnlyHint"?); expected one of `title`, `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`
    tools/mail.jsonl:8:1: error: no JSON object; expected one JSON object per line
    tools/mail.jsonl:9:54: error: malformed JSON: EOF while parsing an object; expected one JSON object per line
    skills.jsonl:1:2: error: skill name "Post--office" is unfit; expected 1 to 64 lower-case letters, digits and single inner hyphens
    skills.jsonl:2:20: error: `description` is blank; expected some text
    skills.jsonl:2:58: error: tool "desk/fnd" does not exist (did you mean "desk/find"?); expected a tool of tools/
    skills.jsonl:3:10: error: skill "triage" occurs twice, first on line 2; expected each one once
    skills.jsonl:4:67: error: actor "anna" does not exist (did you mean "ana"?); expected an actor of actors.jsonl, or `all`
    skills.jsonl:5:59: error: tier "team" is unknown; expected `pinned`, `role:<role>` or `personal:<actor>`
    actors.jsonl:1:11: error: actor `all` is not granted everything, but the scaling curve is measured with it; expected grants ["*"] and no `read_only`
    actors.jsonl:2:42: error: grant "dsk/*" covers no tool (did you mean "desk"?); expected `*`, `server/*` or `server/tool`
    actors.jsonl:2:51: error: "find" names no tool (did you mean "desk/find" or "mail/find"?); expected `server/tool`
    "#);
}

#[test]
fn broken_queries_show_all_their_problems_at_once() {
    assert_snapshot!(with(&[
        (
            "queries.jsonl",
            r#"{"query": "q1", "intent": "send", "text": "t", "kind": "direkt", "split": "dev"}
{"query": "q2", "intent": "both", "text": "t", "kind": "multi", "split": "test", "language": "english please"}
{"query": "q3", "intent": "none", "text": "t", "kind": "no_tool", "split": "test", "candidates": ["mail/send", "mail/send", "mail/sent"]}
{"query": "q3", "intent": "none", "text": "t", "kind": "no_tool", "split": "test"}
{"query": "q4", "intent": "send", "text": "", "kind": "direct", "split": "test", "actor": "an", "candidates": []}
{"query": "q5", "intent": "q5", "text": "t", "kind": "direct", "split": "test", "candidates": ["desk/find"], "results": {"desk/open": "x"}}
{"query": "q6", "intent": "q6", "text": "t", "kind": "direct", "splitt": "test"}
{"query": " ", "intent": "q7", "text": "t", "kind": "direct", "split": "test"}
{"query": "q8", "intent": "q8", "text": "t", "kind": "noisy", "split": "test", "scaling": "yes"}

{"query": "q9", "intent": "\u001b[31m", "text": "t", "kind": "noisy", "split": "test"}
"#,
        ),
        (
            "qrels.jsonl",
            r#"{"query": "q1", "group": 0, "tool": "mail/send", "relevance": 3, "arguments": {"too": ["Bo"], "body": []}}
{"query": "q2", "group": 0, "tool": "desk/find", "relevance": 4}
{"query": "q2", "group": 0, "tool": "desk/find", "relevance": 3}
{"query": "q3", "group": 0, "tool": "mail/send", "relevance": 2}
{"query": "q4", "group": 0, "tool": "mail/close", "relevance": 3}
{"query": "q5", "group": 0, "tool": "desk/find", "relevance": 3}
{"query": "q5", "group": 1, "tool": "desk/close", "relevance": 1}
{"query": "q6", "group": -1, "tool": "desk/find", "relevance": 3}
{"query": "q9", "group": 0, "tool": "desk/find", "relevance": 2.5}
{"query": "q10", "group": 0, "tool": "find", "relevance": 3}
"#,
        ),
    ]), @r#"
    queries.jsonl:1:48: error: kind "direkt" is unknown (did you mean "direct"?); expected direct, paraphrased, vendor, multi, no_tool, noisy, foreign, unspecified
    queries.jsonl:2:48: error: query "q2" is of kind multi, but has one group; expected two groups or more, or another kind
    queries.jsonl:2:82: error: language "english please" is no BCP 47 tag; expected one such as `en` or `pt-BR`
    queries.jsonl:3:48: error: query "q3" is of kind no_tool, but qrels.jsonl line 4 covers it; expected no label of relevance 2 or 3, or another kind
    queries.jsonl:3:99: error: candidate "mail/send" occurs twice; expected each one once
    queries.jsonl:3:125: error: tool "mail/sent" does not exist (did you mean "mail/send" or "mail/find"?); expected a tool of tools/
    queries.jsonl:4:11: error: query "q3" occurs twice, first on line 3; expected each one once
    queries.jsonl:5:17: error: intent "send" is in test here and in dev on line 1; expected one split for all queries of an intent
    queries.jsonl:5:35: error: `text` is blank; expected some text
    queries.jsonl:5:91: error: actor "an" does not exist (did you mean "ana"?); expected an actor of actors.jsonl, or `all`
    queries.jsonl:5:97: error: candidates is empty; expected tools, or no such key
    queries.jsonl:6:122: error: tool "desk/open" does not exist (did you mean "desk/close"?); expected a tool of tools/
    queries.jsonl:7:71: error: unknown key "splitt" (did you mean "split"?); expected one of `query`, `intent`, `text`, `actor`, `kind`, `language`, `split`, `scaling`, `sequential`, `candidates`, `results`, `tags`
    queries.jsonl:8:2: error: `query` " " is blank; expected 1 to 200 printable characters
    queries.jsonl:9:95: error: `scaling`: invalid type: string "yes"; expected a boolean
    queries.jsonl:11:17: error: `intent` "\u{1b}[31m" holds characters that do not show; expected 1 to 200 printable characters
    qrels.jsonl:1:80: error: mail/send has no argument "too" (did you mean "to"?); expected a property of its input schema
    qrels.jsonl:1:95: error: argument "body" accepts no value; expected a list of accepted values
    qrels.jsonl:2:50: error: relevance 4 is out of range; expected 0, 1, 2 or 3
    qrels.jsonl:3:37: error: group 0 labels "desk/find" twice, first on line 2; expected one label
    qrels.jsonl:5:37: error: tool "mail/close" does not exist (did you mean "desk/close"?); expected a tool of tools/
    qrels.jsonl:7:17: error: no label covers group 1 of query "q5"; expected a member of relevance 2 or 3
    qrels.jsonl:7:37: error: "desk/close" is labelled but no candidate of query "q5"; expected one of its candidates
    qrels.jsonl:8:17: error: group -1 is out of range; expected an integer from 0
    qrels.jsonl:9:65: error: `relevance`: invalid type: floating point `2.5`; expected an integer
    qrels.jsonl:10:11: error: query "q10" does not exist (did you mean "q1"?); expected a query of queries.jsonl
    qrels.jsonl:10:38: error: "find" names no tool (did you mean "mail/find" or "desk/find"?); expected `server/tool`
    "#);
}

#[test]
fn sizes_have_to_hold_what_scaling_queries_need() {
    let manifest = format!("{MANIFEST}  sizes = [1, 9]\n");
    assert_snapshot!(with(&[("dataset.toml", &manifest)]), @r#"
    dataset.toml:7:3: error: size 9 is larger than the catalogue; expected at most its 5 tools
    dataset.toml:7:3: error: the core tools and the tools of scaling queries do not fit into size 1; expected at least 2, or fewer tools labelled by scaling queries
    "#);
}

#[test]
fn text_that_is_not_utf8_is_placed() {
    let dir = folder(&SMALL);
    put(dir.path(), "servers.jsonl", b"\n{\"server\": \"d\xe9sk\"}\n");
    put(dir.path(), "dataset.toml", b"format = 1\nname = \"\xff\"");
    let problems = problems(dir.path());
    assert_snapshot!(lines(&problems.all()[..2]), @r#"
    dataset.toml:2:9: error: not UTF-8; expected a file saved as UTF-8
    servers.jsonl:2:14: error: byte 0xe9 is not UTF-8; expected a file saved as UTF-8
    "#);
}

#[test]
fn what_the_manifest_misspells_is_placed() {
    let text = with(&[("dataset.toml", "format = 1\nname = \"a\"\nrevison = \"1\"\n")]);
    assert_snapshot!(text, @r#"dataset.toml:3:1: error: unknown key "revison" (did you mean "revision"?); expected one of `format`, `name`, `revision`, `licence`, `description`, `canary`, `sizes`"#);
}

#[test]
fn thousands_of_unknown_names_stay_cheap() {
    let qrel = |index| format!(r#"{{"query": "x{index}", "group": 0, "tool": "mail/send", "relevance": 3}}"#);
    let qrels = lines((0..20_000).map(qrel));
    let dir = folder(&SMALL);
    put(dir.path(), "qrels.jsonl", qrels);
    let text = problems(dir.path()).to_string();
    assert!(text.ends_with("\n  … and 19982 more"), "{text}");
    assert_eq!(text.lines().count(), 22);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_in_any_file_never_panic(
        file in 0..SMALL.len(),
        cut in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        keep in any::<bool>(),
    ) {
        let dir = folder(&SMALL);
        let (name, content) = SMALL[file];
        let mut content = content.as_bytes().to_vec();
        let at = cut.index(content.len());
        let tail = content.split_off(at);
        content.extend(bytes);
        if keep {
            content.extend(tail);
        }
        put(dir.path(), name, content);
        if let Err(error) = load(dir.path()) {
            let text = error.to_string();
            prop_assert!(!text.chars().any(|character| character.is_control() && character != '\n'), "{text:?}");
        }
    }

    /// One value of one line replaced by another type or an odd text: found or harmless.
    #[test]
    fn odd_values_never_panic(file in 1..SMALL.len(), line in any::<prop::sample::Index>(), key in any::<prop::sample::Index>(), odd in prop::sample::select(vec![
        json!(null), json!(-1), json!(1.5), json!("\u{202e}/\u{1b}[2J"), json!("/"), json!("a/"), json!(["*/*", "", "/*"]), json!({"": [[]]}), json!({"mail/send": {}}), json!("x".repeat(9000)),
    ])) {
        let dir = folder(&SMALL);
        let (name, content) = SMALL[file];
        let mut values: Vec<_> = content.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).collect();
        let line = line.index(values.len());
        let object = values[line].as_object_mut().unwrap();
        let key = key.index(object.len());
        *object.values_mut().nth(key).unwrap() = odd;
        put(dir.path(), name, lines(&values));
        if let Err(error) = load(dir.path()) {
            prop_assert!(error.to_string().len() < 30_000);
        }
    }
}

#[test]
fn ids_hold_nothing_that_does_not_show() {
    for id in ["a\u{fe0f}", "a\u{3164}", "\u{115f}b", "a\u{ad}b", "a\u{200b}"] {
        assert_eq!(id_fault(id), Some("holds characters that do not show"), "{id:?}");
    }
    assert_eq!(id_fault("❤\u{fe0f}"), None, "there it makes the emoji");
}
