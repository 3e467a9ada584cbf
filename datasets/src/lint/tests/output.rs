//! What people, programs and baselines get to see.

use std::collections::BTreeSet;
use std::path::Path;

use insta::{assert_json_snapshot, assert_snapshot};
use serde_json::json;
use tempfile::TempDir;

use super::{CLEAN, FINE, changed, described, tools};
use crate::lint::{RULES, lint, sarif, text};
use crate::testing::{MANIFEST, folder, lines};

#[test]
fn broken_lines_do_not_hide_or_shift_the_rest() {
    let tools = format!("\n{{\"name\": 3}}\n{}", CLEAN[3].1.replace(FINE, "Done."));
    let dir = changed(&[("tools/desk.jsonl", tools.as_str()), ("skills.jsonl", "{}"), ("queries.jsonl", "")]);
    let linted = lint(dir.path(), None).unwrap();
    assert!(linted.incomplete);
    assert_snapshot!(text(&linted, false));
}

#[test]
fn baselines_accept_with_a_reason_and_go_stale() {
    let accept = |rule: &str, subject: &str| {
        format!("[[accept]]\nrule = \"{rule}\"\nsubject = \"{subject}\"\nwhy = \"on purpose\"\n")
    };
    let [tools] = tools(&[("a", "Short."), ("b", "Shorter.")]);
    let with = |baseline: String| {
        let files = [tools.clone(), ("lint.toml", baseline), ("skills.jsonl", String::new())];
        let linted = lint(changed(&files).path(), None).unwrap();
        let open: Vec<_> =
            linted.findings.iter().map(|finding| format!("{} {}", finding.rule.id, finding.subject)).collect();
        (open.join(", "), linted.accepted.len())
    };
    assert_eq!(with(String::new()), ("TG202 desk/a, TG202 desk/b".to_owned(), 0));
    assert_eq!(with(accept("TG202", "desk/a")), ("TG202 desk/b".to_owned(), 1));
    assert_eq!(with(accept("TG202", "*")), (String::new(), 2));
    assert_eq!(with(accept("TG202", "*") + &accept("TG204", "*")), ("TG002 *".to_owned(), 2));

    let problem = |baseline: &str| {
        let dir = changed(&[("lint.toml", baseline)]);
        lint(dir.path(), None).unwrap_err().to_string()
    };
    let all = accept("TG999", "*") + &accept("TG001", "*") + &accept("TG202", "*").replace("on purpose", " ");
    assert_snapshot!(problem(&all), @r#"
    the baseline has 3 problems
      lint.toml:2:8: error: rule "TG999" does not exist (did you mean "TG609"?); expected an id of LINT.md such as `TG204`
      lint.toml:6:8: error: TG001 cannot be accepted; expected the finding mended
      lint.toml:10:8: error: `why` is blank; expected the reason, for whoever reads it next
    "#);
    assert_snapshot!(problem("[[accept]]\nrules = 1\n"), @r#"
    the baseline has 1 problem
      lint.toml:2:1: error: unknown key "rules" (did you mean "rule"?); expected one of `rule`, `subject`, `why`
    "#);
    assert_snapshot!(problem("accept = 3\n"), @r"
    the baseline has 1 problem
      lint.toml:1:10: error: invalid type: integer `3`; expected a sequence
    ");
    let missing = lint(folder(&CLEAN).path(), Some(Path::new("no/such.toml"))).unwrap_err().to_string();
    assert!(missing.contains("no/such.toml: error: cannot be read"), "{missing}");
}

/// A dataset with a finding of every rule except TG001, which would leave some out.
fn faulty() -> TempDir {
    let tool = |name: &str, description: &str, schema: serde_json::Value| json!({"name": name, "description": description, "inputSchema": schema});
    let object = || json!({"type": "object"});
    let with = |argument: serde_json::Value| json!({"type": "object", "properties": {"x": argument}});
    let deep = (0..6).fold(json!({}), |inner, _| json!({"type": "object", "properties": {"x": inner}}));
    let values: Vec<_> = (0..400).map(|index| format!("shelf {index}")).collect();
    let mail = lines([
        tool("mail_send_letter", "Sends a letter to the person you name.", object()),
        tool("mail_send_parcel", "Sends a parcel to the person you name.", object()),
        tool("mail.find", "", object()),
        tool("search", "Seeks.", object()),
        tool("mail_manual", &"All there is to know. ".repeat(50), with(json!({"enum": values}))),
        tool("mail_push", "MANDATORY: you must call this first.", object()),
    ]);
    let desk = lines([
        tool("desk_ref", "Points at something elsewhere.", with(json!({"$ref": "#/$defs/gone"}))),
        tool("desk_union", "Takes either of two things.", json!({"type": "object", "anyOf": []})),
        tool("desk_text", "Takes nothing but a text.", json!({"type": "string"})),
        tool("desk_list", "Takes any number of whatever.", with(json!({"type": "array"}))),
        tool("desk_deep", "Wants it all wrapped up well.", deep),
        tool("search", "Finds tickets by what they say.", object()),
        tool("mail_find", "Finds the letter that a ticket is about.", object()),
    ]);
    let bulk = lines((0..120).map(|index| tool(&format!("bulk_{index}"), "One of many of the same make.", object())));
    let skills = lines(
        (0..151)
            .map(|index| {
                json!({"name": format!("s{index}"), "description": "d", "allowed-tools": ["mail/mail_push"], "tier": "role:clerk", "body": ""})
            })
            .chain([json!({"name": "void", "description": "d", "allowed-tools": [], "tier": "pinned", "body": ""})]),
    );
    let query = |id: &str, intent: &str, text: &str, actor: &str, split: &str| json!({"query": id, "intent": intent, "text": text, "actor": actor, "kind": "direct", "split": split});
    let qrel = |id: &str, tool: &str| json!({"query": id, "group": 0, "tool": tool, "relevance": 3});
    folder(&[
        ("dataset.toml", format!("{MANIFEST}sizes = [5, 100]\n")),
        (
            "servers.jsonl",
            lines([
                json!({"server": "mail", "title": "Ma\u{200b}il", "description": "Letters."}),
                json!({"server": "desk", "title": "Desk", "description": "Tickets."}),
                json!({"server": "bulk", "title": "Bulk", "description": "Lots.", "boilerplate": true}),
                json!({"server": "void", "title": "Void", "description": "Nothing yet."}),
            ]),
        ),
        ("tools/mail.jsonl", mail),
        ("tools/desk.jsonl", desk),
        ("tools/bulk.jsonl", bulk),
        ("tools/void.jsonl", String::new()),
        ("skills.jsonl", skills),
        (
            "actors.jsonl",
            lines([
                json!({"actor": "all", "roles": [], "grants": ["*"]}),
                json!({"actor": "ana", "roles": [], "grants": ["mail/*", "void/*"]}),
                json!({"actor": "bo", "roles": [], "grants": ["void/*"]}),
            ]),
        ),
        (
            "queries.jsonl",
            lines([
                query("named", "n", "send parcel to Bo", "all", "dev"),
                query("first", "a", "where is it", "all", "test"),
                query("other", "b", "Where is it?", "all", "test"),
                query("again", "a", "WHERE IS IT", "all", "train"),
                query("right", "c", "to the point", "all", "test"),
                query("alone", "n", "close the desk", "ana", "test"),
            ]),
        ),
        (
            "qrels.jsonl",
            lines([
                qrel("named", "mail/mail_send_parcel"),
                qrel("first", "mail/search"),
                qrel("other", "desk/search"),
                qrel("again", "mail/search"),
                qrel("right", "mail/mail_send_parcel"),
                qrel("alone", "desk/desk_ref"),
                json!({"query": "alone", "group": 0, "tool": "desk/desk_list", "relevance": 2, "arguments": {"x": ["one"]}}),
            ]),
        ),
        (
            "lint.toml",
            "[[accept]]\nrule = \"TG101\"\nsubject = \"mail/mail.find\"\nwhy = \"as the vendor spells it\"\n\n\
             [[accept]]\nrule = \"TG101\"\nsubject = \"mail/gone\"\nwhy = \"as the vendor spells it\"\n"
                .to_owned(),
        ),
    ])
}

#[test]
fn findings_for_people() {
    let dir = faulty();
    let linted = lint(dir.path(), None).unwrap();
    assert_snapshot!(text(&linted, true));
    let found: BTreeSet<_> = linted
        .findings
        .iter()
        .chain(linted.accepted.iter().map(|accepted| &accepted.finding))
        .map(|finding| finding.rule.id)
        .collect();
    let missing: Vec<_> = RULES.iter().map(|rule| rule.id).filter(|id| !found.contains(id)).collect();
    assert_eq!(
        missing,
        ["TG001", "TG306", "TG609"],
        "every other rule has a finding here, TG306 and TG609 in tests of their own"
    );
    assert!(!text(&linted, false).contains("as the vendor spells it"));
}

#[test]
fn findings_for_programs() {
    let [tools] = described("Done\u{200b}.");
    let baseline = "[[accept]]\nrule = \"TG202\"\nsubject = \"desk/desk_close_ticket\"\nwhy = \"enough\"\n".to_owned();
    let dir = changed(&[tools, ("lint.toml", baseline), ("actors.jsonl", "{\"actor\": \"all\"}".to_owned())]);
    let linted = lint(dir.path(), None).unwrap();
    assert_json_snapshot!("json", linted);
    let mut log = sarif(&linted, Path::new("data/small"), None);
    let driver = &mut log["runs"][0]["tool"]["driver"];
    driver["version"] = "[version]".into();
    let rules = driver["rules"].as_array_mut().unwrap();
    assert_eq!(rules.len(), RULES.len());
    rules.truncate(1);
    assert_json_snapshot!("sarif", log);
}

#[test]
fn results_of_sarif_name_their_rules_and_have_fingerprints_of_their_own() {
    let dir = faulty();
    let log = sarif(&lint(dir.path(), None).unwrap(), Path::new(""), None);
    let run = &log["runs"][0];
    let results = run["results"].as_array().unwrap();
    let mut prints = BTreeSet::new();
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
        assert!(prints.insert(result["partialFingerprints"]["subject/v1"].as_str().unwrap()), "{result}");
    }
    assert!(results.len() > 30);
}
