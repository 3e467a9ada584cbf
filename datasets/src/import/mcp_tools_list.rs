//! Answers to `tools/list` of the Model Context Protocol, kept as files: a catalogue without queries.

use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::foreign::{Foreign, ForeignTool, server_of};
use super::mcp_tool::{LeftOut, tool};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files, walk};
use crate::problem::{clean, printable};

const READS: &str = "a JSON file with the answer to tools/list (or its `result`, or the array of tools, or several answers \
                     one after the other), or a folder of such files, one per server";

pub(super) const IMPORTER: Importer =
    Importer { name: "mcp-tools-list", reads: READS, server: "mcp", licence: "NOASSERTION", read: Read::Source(read) };

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let mut foreign = Foreign::default();
    let mut left_out = LeftOut::default();
    if !source.is_dir() {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        foreign.server = server_of(server(&stem));
        foreign.tools = list(source, None, &mut left_out, findings)?.ok_or_else(|| unrecognised(source))?;
        left_out.list(findings);
        return Ok(foreign);
    }
    let (mut lists, mut unreadable) = (0, None);
    for path in walk::files(source, READS, findings)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let list = match name.strip_suffix(".json") {
            Some(stem) => list(&path, Some(server(stem)), &mut left_out, findings),
            None => Ok(None),
        };
        match list {
            Ok(Some(tools)) => {
                foreign.tools.extend(tools);
                lists += 1;
            }
            Ok(None) => findings.add(Trouble::FileLeftOut, &walk::relative(source, &path)),
            Err(error) => {
                files::passed_over(&walk::relative(source, &path), &error, findings);
                unreadable.get_or_insert(error);
            }
        }
    }
    left_out.list(findings);
    if lists == 0 { Err(unreadable.unwrap_or_else(|| unrecognised(source))) } else { Ok(foreign) }
}

/// The server whose answer a file of that name holds.
fn server(stem: &str) -> &str {
    [".tools_list", ".tools-list", "_tools_list", ".tools"]
        .iter()
        .find_map(|ending| stem.strip_suffix(ending))
        .filter(|server| !server.is_empty())
        .unwrap_or(stem)
}

fn unrecognised(source: &Path) -> ImportError {
    let reason = "it holds no list of tools".to_owned();
    ImportError::Unreadable { path: printable(source), reason, expected: READS }
}

/// The tools of one file, or none if it is no list of tools.
fn list(
    path: &Path,
    namespace: Option<&str>,
    left_out: &mut LeftOut,
    findings: &mut Findings,
) -> Result<Option<Vec<ForeignTool>>, ImportError> {
    let text = files::text(path, READS)?;
    let mut tools = None;
    let mut goes_on = false;
    // Of all answers of the file, whether or not they could be read.
    let mut place = 0;
    let unreadable = |error: serde_json::Error| ImportError::Unreadable {
        path: printable(path),
        reason: clean(&error.to_string()),
        expected: READS,
    };
    for value in serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>() {
        let value = files::value(path, value.map_err(unreadable)?.get(), findings).map_err(unreadable)?;
        let Some((entries, cursor)) = page(value) else { return Ok(None) };
        goes_on = cursor;
        let tools = tools.get_or_insert_with(Vec::new);
        for entry in entries {
            match tool(namespace, entry, left_out) {
                Ok(tool) => tools.push(tool),
                Err(reason) => files::unreadable(path, &format!("entry {place}"), reason, findings),
            }
            place += 1;
        }
    }
    if goes_on {
        findings.add(Trouble::OpenEndedList, &path.file_name().unwrap_or_default().to_string_lossy());
    }
    Ok(tools)
}

/// The entries of an answer, and whether it says that there are more.
fn page(value: Value) -> Option<(Vec<Value>, bool)> {
    match value {
        Value::Array(entries) => Some((entries, false)),
        Value::Object(mut answer) => match (answer.remove("result"), answer.remove("tools")) {
            (Some(result @ Value::Object(_)), None) => page(result),
            (_, Some(Value::Array(entries))) => {
                let more = answer.get("nextCursor").is_some_and(|cursor| !cursor.is_null());
                Some((entries, more))
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::tests::{import, mangled, survives};

    pub(crate) const FILES: [(&str, &str); 3] = [
        (
            "lists/lamp.tools_list.json",
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"nextCursor": "p2", "tools": [
 {"name": "dim", "title": "Dim", "description": "Dims a lamp.", "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}},
  "annotations": {"readOnlyHint": false, "destructiveHint": null, "title": "Dim a lamp", "colourHint": true}, "outputSchema": {}, "_meta": {}}]}}
{"tools": [{"name": "glow", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes", "title": "Glow"}}], "nextCursor": "p3"}"#,
        ),
        (
            "lists/radio.json",
            r#"[{"name": "dim", "description": null, "inputSchema": []}, {"name": 1}, {"name": "tune"}, {"name": "tune", "description": "again"}]"#,
        ),
        ("lists/notes.json", r#"{"result": {"prompts": []}}"#),
    ];

    #[test]
    fn a_folder_holds_one_server_per_file() {
        let (report, dataset) = import("mcp-tools-list", &FILES, "lists");
        assert_snapshot!(report, @r#"
        servers 2, tools 4, queries 0 (no-tool 0), labels 0
          1 × file that has no place in the format or is missing; not imported: "notes.json"
          1 × entry that cannot be read; left out: "radio.json:entry 1: no text `name`"
          1 × tool of the same name on the same server; the first is kept: "tune"
          1 × parameters that are no object schema or nest too deep; an empty one stands in: "dim"
          2 × key of a tool that has no place in the format; left out: "annotations.colourHint of dim", "non-boolean annotations.readOnlyHint of glow"
          2 × key that the protocol has and the format has no place for; left out: "_meta of dim", "outputSchema of dim"
          1 × list that says it goes on; what the source holds of it is imported: "lamp.tools_list.json"
        "#);
        let tools: Vec<_> = dataset.catalogue.tools.iter().map(|tool| tool.id.to_string()).collect();
        assert_eq!(tools, ["lamp/dim", "lamp/glow", "radio/dim", "radio/tune"]);
        let hints = &dataset.catalogue.tools[0].annotations;
        assert_eq!((hints.title.as_deref(), hints.read_only_hint), (Some("Dim"), Some(false)));
        assert_eq!(dataset.catalogue.tools[1].annotations.title.as_deref(), Some("Glow"));
    }

    #[test]
    fn a_file_goes_on_the_server_that_its_name_speaks_of() {
        let (report, dataset) = import("mcp-tools-list", &FILES, "lists/lamp.tools_list.json");
        assert_eq!(report.tools, 2);
        assert_eq!(dataset.catalogue.tools[0].id.to_string(), "lamp/dim");
        let nameless = [("tools_list.json", FILES[0].1)];
        let (_, dataset) = import("mcp-tools-list", &nameless, "tools_list.json");
        assert_eq!(dataset.catalogue.tools[0].id.to_string(), "mcp/dim", "a name that any such file may have");
    }

    #[test]
    fn entries_are_counted_as_they_stand_and_lists_of_other_kinds_are_recognised() {
        let text = r#"[{"name": 1}, {"name": "a"}, {"type": "function", "function": {"name": "b"}}]
{"tools": [7, {"name": "c"}, {}]}"#;
        let (report, _) = import("mcp-tools-list", &[("radio.json", text)], "radio.json");
        assert_snapshot!(report, @r#"
        servers 1, tools 2, queries 0 (no-tool 0), labels 0
          4 × entry that cannot be read; left out: "radio.json:entry 0: no text `name`", "radio.json:entry 2: no text `name`; it looks like openai-tools", "radio.json:entry 3: no object", "radio.json:entry 5: no text `name`"
        "#);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn arbitrary_bytes_never_panic(change in mangled(&FILES)) {
            survives("mcp-tools-list", &FILES, "lists", change);
        }
    }
}
