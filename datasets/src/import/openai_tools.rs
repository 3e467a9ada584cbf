//! `tools` of a chat-completion request: a catalogue without queries.

use std::path::Path;

use serde_json::{Map, Value};

use super::files;
use super::foreign::{Foreign, ForeignTool, server_of};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read};
use crate::problem::printable;

const READS: &str =
    "a JSON file: an array of {\"type\": \"function\", \"function\": {…}}, or an object with that as `tools`";

pub(super) const IMPORTER: Importer =
    Importer { name: "openai-tools", reads: READS, server: "tools", licence: "NOASSERTION", read: Read::Source(read) };

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let entries = match files::json_value(source, READS, findings)? {
        Value::Array(entries) => entries,
        Value::Object(mut request) => match request.remove("tools") {
            Some(Value::Array(entries)) => entries,
            _ => return Err(unrecognised(source)),
        },
        _ => return Err(unrecognised(source)),
    };
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let mut foreign = Foreign { server: server_of(&stem), ..Foreign::default() };
    for (index, entry) in entries.into_iter().enumerate() {
        match tool(entry, findings) {
            Ok(tool) => foreign.tools.push(tool),
            Err(reason) => files::unreadable(source, &format!("entry {index}"), reason, findings),
        }
    }
    Ok(foreign)
}

fn unrecognised(source: &Path) -> ImportError {
    let reason = "it holds no list of tools".to_owned();
    ImportError::Unreadable { path: printable(source), reason, expected: READS }
}

fn tool(entry: Value, findings: &mut Findings) -> Result<ForeignTool, &'static str> {
    let Value::Object(mut entry) = entry else { return Err("no object") };
    if entry.remove("type").is_some_and(|kind| kind != "function") {
        return Err("its type is not function");
    }
    let Some(Value::Object(mut function)) = entry.remove("function") else {
        let of_a_server = entry.contains_key("inputSchema");
        return Err(if of_a_server {
            "no object `function`; it looks like mcp-tools-list"
        } else {
            "no object `function`"
        });
    };
    let Some(Value::String(name)) = function.remove("name") else { return Err("no text `function.name`") };
    let description = match function.remove("description") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(description)) => description,
        Some(_) => return Err("`function.description` is no text"),
    };
    let schema = function.remove("parameters");
    // How strictly a provider samples arguments says nothing about the tool.
    function.remove("strict");
    ignored(&name, &entry, findings);
    ignored(&name, &function, findings);
    Ok(ForeignTool { name, description, schema, ..ForeignTool::default() })
}

fn ignored(name: &str, rest: &Map<String, Value>, findings: &mut Findings) {
    for key in rest.keys() {
        findings.add(Trouble::IgnoredKey, &format!("{key} of {name}"));
    }
}
