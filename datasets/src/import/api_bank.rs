//! `API-Bank` (Li et al., 2023): a table of APIs and dialogues in which an assistant calls them.
//!
//! A dialogue is one query: what the person says up to the last call, one line per turn; every API that is called is needed.
//! The first turn alone would not do: often it names a fraction of what the calls do.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::foreign::{Foreign, ForeignLabel, ForeignQuery, ForeignTool};
use super::report::{Findings, Trouble};
use super::types::{Argument, Arguments};
use super::{ImportError, Importer, Read, files, python, table, walk};
use crate::problem::printable;
use crate::unique::Pairs;

const READS: &str = "the folder of API-Bank with all_apis.csv and dialogues as *.jsonl below it";

pub(super) const IMPORTER: Importer =
    Importer { name: "api-bank", reads: READS, server: "api-bank", licence: "MIT", read: Read::Source(read) };

const APIS: &str = "all_apis.csv";

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let mut foreign = Foreign::default();
    apis(&source.join(APIS), &mut foreign, findings)?;
    for path in walk::files(source, READS, findings)? {
        let place = walk::relative(source, &path);
        if let Some(id) = place.strip_suffix(".jsonl") {
            dialogue(&path, id, &mut foreign, findings)?;
        } else if [".json", ".csv", ".xlsx"].iter().any(|ending| place.ends_with(ending)) && place != APIS {
            findings.add(Trouble::FileLeftOut, &place);
        }
    }
    Ok(foreign)
}

/// The table, whose headers are partly Chinese.
fn apis(path: &Path, foreign: &mut Foreign, findings: &mut Findings) -> Result<(), ImportError> {
    let text = files::text(path, READS)?;
    let unreadable = |reason: String| ImportError::Unreadable { path: printable(path), reason, expected: READS };
    let mut rows = table::rows(&text).into_iter();
    let headers = rows.next().map(|row| row.record).unwrap_or_default();
    let column = |names: &[&str]| {
        let found = headers.iter().position(|header| names.contains(&header.trim()));
        found.ok_or_else(|| unreadable(format!("its first line has no column `{}`", names.join("` or `"))))
    };
    let (name, signature) = (column(&["类名", "class_name"])?, column(&["input_parameters"])?);
    let info = column(&["api_info"])?;
    for (index, row) in rows.enumerate() {
        let place = format!("record {}", index + 1);
        if !row.is_whole(path, &place, findings) {
            continue;
        }
        let record = &row.record;
        let (Some(name), Some(signature), Some(info)) = (record.get(name), record.get(signature), record.get(info))
        else {
            row.unreadable(path, &place, "it is too short", findings);
            continue;
        };
        foreign.tools.push(tool(name.trim(), signature, info, path, findings));
    }
    Ok(())
}

fn tool(name: &str, signature: &str, info: &str, path: &Path, findings: &mut Findings) -> ForeignTool {
    let arguments = self::signature(signature);
    let documented = python::assignments(info).unwrap_or_else(|reason| {
        files::unreadable(path, &format!("api_info of {name}"), &reason, findings);
        Vec::new()
    });
    let entry = |wanted: &str| documented.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let description = entry("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let required = |name: &str| arguments.iter().find(|(other, ..)| other == name).map(|&(.., needed)| needed);
    let mut unknown = |kind: &str| findings.add(Trouble::UnknownType, &format!("{kind} in {name}"));
    let mut schema = Arguments::default();
    if let Some(Value::Object(parameters)) = entry("input_parameters") {
        for (argument, about) in parameters {
            let text = |key: &str| about.get(key).and_then(Value::as_str);
            let required = Some(required(argument).unwrap_or(false));
            let (kind, description) = (text("type"), text("description"));
            schema.add(argument, &Argument { kind, description, required, ..Argument::default() }, &mut unknown);
        }
    }
    // The documentation leaves some out; the code takes them.
    let documented = |name: &str| entry("input_parameters").is_some_and(|parameters| parameters.get(name).is_some());
    for (argument, kind, needed) in arguments.iter().filter(|(name, ..)| !documented(name)) {
        let about = Argument { kind: Some(kind), required: Some(*needed), ..Argument::default() };
        schema.add(argument, &about, &mut unknown);
    }
    let schema = Some(schema.into_schema(name, findings));
    ForeignTool { name: name.to_owned(), description, schema, ..ForeignTool::default() }
}

/// The arguments of `(a: str, b: int = 1)`: name, type, and whether a call needs it.
fn signature(text: &str) -> Vec<(String, String, bool)> {
    let inner = text.trim();
    let inner = inner.strip_prefix('(').unwrap_or(inner);
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    if inner == "None" {
        return Vec::new();
    }
    let mut depth = 0_usize;
    let parts = inner.split(|character: char| {
        match character {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && character == ','
    });
    let argument = |part: &str| {
        let (declared, default) =
            part.split_once('=').map_or((part, None), |(declared, default)| (declared, Some(default)));
        let (name, kind) = declared.split_once(':').unwrap_or((declared, ""));
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), kind.trim().to_owned(), default.is_none()))
    };
    parts.filter_map(argument).collect()
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    text: Option<String>,
    api_name: Option<String>,
    param_dict: Option<Pairs<Value>>,
}

fn dialogue(path: &Path, id: &str, foreign: &mut Foreign, findings: &mut Findings) -> Result<(), ImportError> {
    let (turns, whole) = files::whole_lines::<Turn>(path, READS, findings)?;
    // What cannot be read may have been a call.
    if !whole {
        findings.add(Trouble::DamagedQuery, id);
        return Ok(());
    }
    // What is said after the last call asks for nothing any more.
    let Some(last) = turns.iter().rposition(|turn| turn.api_name.is_some()) else {
        findings.add(Trouble::NoGold, id);
        return Ok(());
    };
    let said = turns[..last].iter().filter(|turn| turn.role.eq_ignore_ascii_case("user"));
    let said: Vec<_> = said.filter_map(|turn| turn.text.as_deref()).map(str::trim).collect();
    let calls = turns[..=last].iter().filter_map(|turn| Some((turn.api_name.clone()?, turn.param_dict.as_ref())));
    let label = |(group, (tool, arguments)): (usize, (String, Option<&Pairs<Value>>))| {
        let accepted = arguments.map(|Pairs(arguments)| {
            arguments.iter().map(|(name, value)| (name.clone(), vec![value.clone()])).collect()
        });
        ForeignLabel { tool, group, relevance: 3, arguments: accepted }
    };
    let labels = calls.enumerate().map(label).collect();
    foreign.queries.push(ForeignQuery { id: id.to_owned(), text: said.join("\n"), labels, ..ForeignQuery::default() });
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use harness::ids::QueryId;
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::tests::{import, mangled, survives};
    use super::*;
    use crate::testing::lines;

    pub(crate) const FILES: [(&str, &str); 6] = [
        (
            "bank/all_apis.csv",
            "id,类型,API名称,类名,input_parameters,expressions,api_info\n\
1,查,烧制,FireKiln,\"(token: str, cones: List[int], slow: bool = False)\",x,\"description = \"\"Fires a kiln.\"\"\ninput_parameters = {\n  'token': {'type': 'str', 'description': 'Whose'},\n  'cones': {'type': 'list', 'description': 'Which'},\n  'slow': {'type': 'Slowness', 'description': 'How'},\n}\noutput_parameters = {}\"\n\
2,查,令牌,GetToken,(user: str),x,.\n\
3,查,短\n",
        ),
        (
            "bank/level-1/Fire-1.jsonl",
            r#"{"role": "User", "text": "Fire my kiln."}
{"role": "AI", "text": "Who are you?"}
{"role": "User", "text": "Jo, with cone 6."}
{"role": "API", "api_name": "GetToken", "param_dict": {"user": "Jo"}, "result": {}}
{"role": "API", "api_name": "FireKiln", "param_dict": {"token": "t", "cones": [6], "shade": 1}}
{"role": "AI", "text": "Done."}
{"role": "User", "text": "Thanks!"}
"#,
        ),
        ("bank/level-1/Talk-1.jsonl", "{\"role\": \"User\", \"text\": \"Hi.\"}\n"),
        (
            "bank/level-2/Fire-1.jsonl",
            "{\"role\": \"User\", \"text\": \"Break it.\"}\n{\"role\": \"API\", \"api_name\": \"BreakKiln\"}\n",
        ),
        ("bank/level-3.json", "[]"),
        ("bank/apis/fire_kiln.py", ""),
    ];

    #[test]
    fn a_dialogue_is_a_query() {
        let (report, dataset) = import("api-bank", &FILES, "bank");
        assert_snapshot!(report, @r#"
        servers 1, tools 2, queries 1 (no-tool 0), labels 2
          1 × file that has no place in the format or is missing; not imported: "level-3.json"
          2 × entry that cannot be read; left out: "all_apis.csv:api_info of GetToken: expected a name at character 1", "all_apis.csv:record 3: it is too short"
          1 × type that JSON Schema does not know; any value is accepted there: "Slowness in FireKiln"
          1 × gold that names no tool; the query is left out: "BreakKiln"
          1 × query whose gold the source does not say; left out: "level-1/Talk-1"
          1 × gold argument that the tool does not take or that accepts nothing; left out: "shade of FireKiln"
        "#);
        let query = dataset.query(&QueryId::new("level-1/Fire-1")).unwrap();
        assert_eq!(query.text, "Fire my kiln.\nJo, with cone 6.");
        let labels = dataset.qrels.of(&query.id);
        let labels = labels.qrels().iter().map(|qrel| format!("{} {} {:?}", qrel.group, qrel.tool, qrel.arguments));
        assert_snapshot!(lines(labels), @r#"
        0 api-bank/GetToken Some({"user": [String("Jo")]})
        1 api-bank/FireKiln Some({"cones": [Array [Number(6)]], "token": [String("t")]})
        "#);
        let tools = dataset
            .catalogue
            .tools
            .iter()
            .map(|tool| format!("{} {:?} {}", tool.id, tool.description, tool.input_schema));
        assert_snapshot!(lines(tools), @r#"
        api-bank/FireKiln "Fires a kiln." {"type":"object","properties":{"token":{"type":"string","description":"Whose"},"cones":{"type":"array","description":"Which"},"slow":{"description":"How"}},"required":["token","cones"]}
        api-bank/GetToken "" {"type":"object","properties":{"user":{"type":"string"}},"required":["user"]}
        "#);
    }

    #[test]
    fn a_dialogue_with_a_damaged_line_is_left_out() {
        let dialogue = "{\"role\": \"User\", \"text\": \"Go.\"}\n{\"role\": \"API\", \"api_name\": \"GetToken\"}\n{\"role\": \"API\", \"api_name\": 7}\n";
        let (report, _) = import("api-bank", &[FILES[0], ("bank/a.jsonl", dialogue)], "bank");
        assert_eq!(report.queries, 0);
        assert_eq!(report.findings.get(Trouble::DamagedQuery).unwrap().examples, ["\"a\""]);
    }

    #[test]
    fn signatures_are_split_outside_brackets() {
        let found = signature("(a: Dict[str, int], b = (1, 2), c)");
        let expected = [("a", "Dict[str, int]", true), ("b", "", false), ("c", "", true)];
        assert_eq!(found, expected.map(|(name, kind, needed)| (name.to_owned(), kind.to_owned(), needed)));
        assert_eq!(signature("()"), []);
        assert_eq!(signature("None"), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn arbitrary_bytes_never_panic(change in mangled(&FILES)) {
            survives("api-bank", &FILES, "bank", change);
        }
    }
}
