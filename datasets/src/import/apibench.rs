//! `APIBench` (Patil et al., 2023): models of three hubs and the calls that load them.
//!
//! The call is what joins a query with its API, since names repeat. The query is the instruction inside the text on which a
//! model is trained. Domain, framework, requirements, performance and example code describe the model behind the call and
//! are not carried over.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::foreign::{Foreign, ForeignQuery, ForeignTool};
use super::parts::object;
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files};
use crate::load::list;
use crate::problem::printable;

const READS: &str =
    "the folder of APIBench with `api/*.jsonl` and `apibench/*_eval.json` (in Gorilla's repository: `data`)";

pub(super) const IMPORTER: Importer =
    Importer { name: "apibench", reads: READS, server: "apibench", licence: "Apache-2.0", read: Read::Source(read) };

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the format names the fields")]
struct Api {
    api_name: String,
    api_call: String,
    #[serde(default)]
    api_arguments: Value,
    #[serde(default)]
    description: Value,
}

#[derive(Deserialize)]
struct Sample {
    code: Value,
    api_call: String,
}

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let nested = source.join("data");
    let root = if source.join("api").is_dir() { source.to_owned() } else { nested };
    let unreadable =
        |path: PathBuf, reason: String| ImportError::Unreadable { path: printable(&path), reason, expected: READS };
    let folder = root.join("api");
    let names = list(&folder).map_err(|error| unreadable(folder.clone(), error.to_string()))?;
    let mut foreign = Foreign::default();
    for name in &names {
        match name.strip_suffix("_api.jsonl") {
            Some(hub) => apis(&folder.join(name), hub, &mut foreign, findings)?,
            None => findings.add(Trouble::FileLeftOut, &format!("api/{name}")),
        }
    }
    if foreign.tools.is_empty() {
        return Err(unreadable(folder, "it holds no API".to_owned()));
    }
    for name in list(&root.join("apibench")).unwrap_or_default() {
        match name.strip_suffix("_eval.json") {
            Some(hub) => samples(&root.join("apibench").join(&name), hub, &mut foreign, findings)?,
            // What models are trained on is no test of anything.
            None => findings.add(Trouble::FileLeftOut, &format!("apibench/{name}")),
        }
    }
    Ok(foreign)
}

fn apis(path: &Path, hub: &str, foreign: &mut Foreign, findings: &mut Findings) -> Result<(), ImportError> {
    let apis: Vec<Api> = files::lines(path, READS, findings)?;
    for Api { api_name, api_call, api_arguments, description } in apis {
        let properties = arguments(&api_arguments).unwrap_or_else(|| {
            findings.add(Trouble::UnfitSchema, &api_name);
            Map::new()
        });
        foreign.tools.push(ForeignTool {
            namespace: Some(hub.to_owned()),
            name: api_name.trim().to_owned(),
            // Several calls of one name are several APIs.
            key: Some(api_call),
            description: words(&description),
            schema: object(properties, Vec::new()),
            ..ForeignTool::default()
        });
    }
    Ok(())
}

/// Text, or a list of texts.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// The properties of arguments that are an object, a list of names or names in one text; `None` if they are something else.
fn arguments(value: &Value) -> Option<Map<String, Value>> {
    let mut properties = Map::new();
    match value {
        Value::Null => {}
        Value::String(text) if text.trim().is_empty() || ["N/A", "None", "-"].contains(&text.trim()) => {}
        Value::String(text) => {
            for name in text.split(',').map(str::trim) {
                properties.insert(argument_name(name)?.to_owned(), json!({}));
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                match entry {
                    Value::String(name) => _ = properties.insert(argument_name(name)?.to_owned(), json!({})),
                    Value::Object(entry) => {
                        let name = entry.get("name").and_then(Value::as_str)?;
                        properties.insert(argument_name(name)?.to_owned(), described(entry.get("description")));
                    }
                    _ => return None,
                }
            }
        }
        Value::Object(entries) => {
            for (name, text) in entries {
                properties.insert(name.clone(), described(Some(text)));
            }
        }
        _ => return None,
    }
    Some(properties)
}

/// An argument that takes anything, with the words there are about it.
fn described(text: Option<&Value>) -> Value {
    match text {
        None | Some(Value::Null) => json!({}),
        Some(Value::String(text)) => json!({"description": text}),
        Some(other) => json!({"description": other.to_string()}),
    }
}

/// The name in `name`, `name=default` or `name: type`.
fn argument_name(text: &str) -> Option<&str> {
    let name = text.split(['=', ':']).next().unwrap_or_default().trim();
    let plain = |character: char| character.is_alphanumeric() || "_-.*".contains(character);
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn samples(path: &Path, hub: &str, foreign: &mut Foreign, findings: &mut Findings) -> Result<(), ImportError> {
    for (index, sample) in files::lines::<Sample>(path, READS, findings)?.into_iter().enumerate() {
        let Some(text) = instruction(&words(&sample.code)) else {
            files::unreadable(path, &format!("sample {}", index + 1), "its code holds no instruction", findings);
            continue;
        };
        foreign.queries.push(ForeignQuery {
            id: format!("{hub}-{}", index + 1),
            text,
            gold: vec![sample.api_call],
            ..ForeignQuery::default()
        });
    }
    Ok(())
}

/// What stands between the two marks.
fn instruction(code: &str) -> Option<String> {
    let (_, rest) = code.split_once("###Instruction:").or_else(|| code.split_once("### Instruction:"))?;
    let end = ["###Output", "### Output"].iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
    Some(rest[..end].trim().to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::tests::{import, mangled, survives};
    use crate::testing::lines;

    pub(crate) const FILES: [(&str, &str); 5] = [
        (
            "data/api/clayhub_api.jsonl",
            r#"{"domain": "Pots", "api_name": "pot", "api_call": "clay.load('pot')", "api_arguments": ["size", {"name": "glaze", "description": "Which"}], "description": "Makes a pot.", "performance": {"dataset": "N/A"}}
{"api_name": "jug", "api_call": "clay.load('jug', 1)", "api_arguments": {"handle": "How many", "lip": null}, "description": ["Makes", "a jug."]}
{"api_name": "jug", "api_call": "clay.load('jug', 2)", "api_arguments": "size, colour=red", "description": null}
{"api_name": "cup", "api_call": "clay.load('cup')", "api_arguments": 3, "description": "Cup."}
{"api_name": "cup", "api_call": "clay.load('cup')", "api_arguments": "N/A", "description": "Cup."}
"#,
        ),
        ("data/api/notes.txt", ""),
        (
            "data/api/wovenhub_api.jsonl",
            "{\"api_name\": \"pot\", \"api_call\": \"weave.load('pot')\", \"description\": \"A woven pot.\"}\n",
        ),
        (
            "data/apibench/clayhub_eval.json",
            r####"{"code": "###Instruction: I need a vessel.\n###Output: <<<api_call>>>: clay.load('pot')", "api_call": "clay.load('pot')", "provider": "Clay"}
{"code": ["###Instruction: Pour water.", "###Output: x"], "api_call": "clay.load('jug', 2)"}
{"code": "nothing", "api_call": "clay.load('cup')"}
{"code": "###Instruction: Fly.\n###Output: x", "api_call": "clay.load('kite')"}
"####,
        ),
        ("data/apibench/clayhub_train.json", ""),
    ];

    #[test]
    fn queries_join_apis_by_their_call() {
        let (report, dataset) = import("apibench", &FILES, "");
        assert_eq!(import("apibench", &FILES, "data").0, report);
        assert_snapshot!(report, @r#"
        servers 3, tools 5, queries 2 (no-tool 0), labels 2
          2 × file that has no place in the format or is missing; not imported: "api/notes.txt", "apibench/clayhub_train.json"
          1 × entry that cannot be read; left out: "clayhub_eval.json:sample 3: its code holds no instruction"
          1 × tool of the same name on the same server; the first is kept: "clay.load('cup')"
          1 × tool of the same name on the same server; it is put on a server of its own number: "jug"
          1 × parameters that are no object schema or nest too deep; an empty one stands in: "cup"
          1 × gold that names no tool; the query is left out: "clay.load('kite')"
        "#);
        let queries = dataset.queries.iter().map(|query| format!("{}: {} → {}", query.id, query.text, query.intent));
        assert_snapshot!(lines(queries), @r#"
        clayhub-1: I need a vessel. → clayhub/pot
        clayhub-2: Pour water. → clayhub_2/jug
        "#);
        let tools = dataset
            .catalogue
            .tools
            .iter()
            .map(|tool| format!("{} {:?} {}", tool.id, tool.description, tool.input_schema));
        assert_snapshot!(lines(tools), @r#"
        clayhub/pot "Makes a pot." {"type":"object","properties":{"size":{},"glaze":{"description":"Which"}}}
        clayhub/jug "Makes\na jug." {"type":"object","properties":{"handle":{"description":"How many"},"lip":{}}}
        clayhub/cup "Cup." {"type":"object"}
        clayhub_2/jug "" {"type":"object","properties":{"size":{},"colour":{}}}
        wovenhub/pot "A woven pot." {"type":"object"}
        "#);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn arbitrary_bytes_never_panic(change in mangled(&FILES)) {
            survives("apibench", &FILES, "", change);
        }
    }
}
