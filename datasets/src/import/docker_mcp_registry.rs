//! Docker's registry of MCP servers: a folder per server with `server.yaml` and, for most, `tools.json`. No queries.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::annotations::annotations;
use super::foreign::{Foreign, ForeignServer, ForeignTool};
use super::parts::{object, text};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files, yaml};
use crate::load::list;
use crate::problem::printable;

const READS: &str =
    "the folder of Docker's MCP registry, its `servers` folder or that of one server (server.yaml, tools.json)";

pub(super) const IMPORTER: Importer =
    Importer { name: "docker-mcp-registry", reads: READS, server: "docker", licence: "MIT", read: Read::Source(read) };

const ABOUT: &str = "server.yaml";
const TOOLS: &str = "tools.json";

/// What is read of `server.yaml`; the rest says how to run the server.
#[derive(Default, Deserialize)]
struct ServerFile {
    name: Option<String>,
    about: Option<About>,
}

#[derive(Default, Deserialize)]
struct About {
    title: Option<String>,
    description: Option<String>,
}

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let folders = folders(source)?;
    let mut foreign = Foreign::default();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !folder.join(TOOLS).exists() {
            // Servers that are hosted elsewhere list their tools only when asked.
            findings.add(Trouble::FileLeftOut, &format!("{name}/{TOOLS} (missing)"));
            continue;
        }
        let ServerFile { name: own, about } = about(&folder, &name, findings);
        let (path, folder) = (folder.join(TOOLS), name);
        let namespace = own.filter(|own| !own.trim().is_empty()).unwrap_or_else(|| folder.clone());
        let entries = match files::json_value(&path, READS, findings) {
            Ok(Value::Array(entries)) => entries,
            Ok(_) => {
                files::unreadable(&path, &format!("server {namespace}"), "no list of tools", findings);
                continue;
            }
            Err(error) => {
                files::passed_over(&format!("{folder}/{TOOLS}"), &error, findings);
                continue;
            }
        };
        for (index, entry) in entries.into_iter().enumerate() {
            match tool(entry, findings) {
                Ok(tool) => foreign.tools.push(ForeignTool { namespace: Some(namespace.clone()), ..tool }),
                Err(reason) => files::unreadable(&path, &format!("entry {index} of {namespace}"), reason, findings),
            }
        }
        let About { title, description } = about.unwrap_or_default();
        let description = description.unwrap_or_default();
        foreign.servers.push(ForeignServer { namespace, title, description, ..ForeignServer::default() });
    }
    Ok(foreign)
}

/// What a server says of itself; its tools are worth having without it.
fn about(folder: &Path, name: &str, findings: &mut Findings) -> ServerFile {
    let path = folder.join(ABOUT);
    if !path.exists() {
        findings.add(Trouble::FileLeftOut, &format!("{name}/{ABOUT} (missing)"));
        return ServerFile::default();
    }
    let read = files::text(&path, READS).and_then(|text| {
        yaml::parse(&text).map_err(|reason| ImportError::Unreadable { path: printable(&path), reason, expected: READS })
    });
    read.unwrap_or_else(|error| {
        files::passed_over(&format!("{name}/{ABOUT}"), &error, findings);
        ServerFile::default()
    })
}

/// The folders of servers.
fn folders(source: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let unreadable = |reason: String| ImportError::Unreadable { path: printable(source), reason, expected: READS };
    let is_server = |folder: &Path| folder.join(TOOLS).exists() || folder.join(ABOUT).exists();
    if is_server(source) {
        return Ok(vec![source.to_owned()]);
    }
    let nested = source.join("servers");
    let root = if nested.is_dir() { nested } else { source.to_owned() };
    let names = list(&root).map_err(|error| unreadable(error.to_string()))?;
    let folders: Vec<_> = names.iter().map(|name| root.join(name)).filter(|folder| is_server(folder)).collect();
    if folders.is_empty() { Err(unreadable("it holds no folder of a server".to_owned())) } else { Ok(folders) }
}

fn tool(entry: Value, findings: &mut Findings) -> Result<ForeignTool, &'static str> {
    let Value::Object(mut entry) = entry else { return Err("no object") };
    let Some(Value::String(name)) = entry.remove("name") else { return Err("no text `name`") };
    let description = text(&mut entry, "description").ok_or("`description` is no text")?.unwrap_or_default();
    let annotations = annotations(entry.remove("annotations"), &mut |key| {
        findings.add(Trouble::IgnoredKey, &format!("{key} of {name}"));
    });
    let arguments = match entry.remove("arguments") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(arguments)) => arguments,
        Some(_) => return Err("`arguments` is no array"),
    };
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for argument in arguments {
        let Some((key, schema, needed)) = self::argument(&name, argument, findings) else { continue };
        if properties.contains_key(&key) {
            findings.add(Trouble::RepairedSchema, &format!("argument {key} of {name} occurs again"));
            continue;
        }
        if needed {
            required.push(key.clone());
        }
        properties.insert(key, schema);
    }
    for key in entry.keys() {
        findings.add(Trouble::IgnoredKey, &format!("{key} of {name}"));
    }
    let schema = object(properties, required);
    Ok(ForeignTool { name, description, schema, annotations, ..ForeignTool::default() })
}

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

/// The name of an argument, its schema, and whether a call needs it.
fn argument(tool: &str, argument: Value, findings: &mut Findings) -> Option<(String, Value, bool)> {
    let Value::Object(mut argument) = argument else {
        findings.add(Trouble::RepairedSchema, &format!("argument of {tool} that is no object"));
        return None;
    };
    let Some(Value::String(name)) = argument.remove("name") else {
        findings.add(Trouble::RepairedSchema, &format!("argument of {tool} without a name"));
        return None;
    };
    let mut schema = Map::new();
    match argument.remove("type") {
        Some(Value::String(kind)) if TYPES.contains(&kind.as_str()) => {
            _ = schema.insert("type".to_owned(), kind.into());
        }
        None | Some(Value::Null) => {}
        Some(kind) => {
            let kind = kind.as_str().unwrap_or("no text");
            findings.add(Trouble::UnknownType, &format!("{kind} of {name} of {tool}"));
        }
    }
    match argument.remove("desc") {
        Some(Value::String(text)) => _ = schema.insert("description".to_owned(), text.into()),
        None | Some(Value::Null) => {}
        Some(_) => findings.add(Trouble::RepairedSchema, &format!("desc of {name} of {tool}")),
    }
    let optional = match argument.remove("optional") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(optional)) => optional,
        Some(_) => {
            findings.add(Trouble::RepairedSchema, &format!("optional of {name} of {tool}"));
            false
        }
    };
    for (key, value) in argument {
        match key.as_str() {
            "items" if value == json!({}) || value.get("type").is_some_and(Value::is_string) => {
                schema.insert(key, value);
            }
            "enum" if value.is_array() => _ = schema.insert(key, value),
            "default" => _ = schema.insert(key, value),
            _ => findings.add(Trouble::RepairedSchema, &format!("{key} of {name} of {tool}")),
        }
    }
    Some((name, schema.into(), !optional))
}

#[cfg(test)]
pub(super) mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::tests::{import, mangled, survives};

    pub(crate) const FILES: [(&str, &str); 5] = [
        (
            "registry/servers/kiln/server.yaml",
            "name: kiln\nimage: example/kiln\nmeta:\n  category: crafts\nabout:\n  title: Kiln\n  description: |-\n    Fires pots.\n    Slowly.\n",
        ),
        (
            "registry/servers/kiln/tools.json",
            r#"[{"name": "fire", "description": "Fires a batch.", "annotations": {"readOnlyHint": false, "title": "Fire"}, "arguments": [
  {"name": "batch", "type": "string", "desc": "Which batch"},
  {"name": "cones", "type": "array", "items": {"type": "number"}, "desc": "Cones", "optional": true},
  {"name": "glaze", "type": "Glaze", "colour": "red", "optional": "no"}, {"type": "string"}, {"name": "batch"}, 3]},
 {"name": "cool", "description": "Cools down.", "owner": "Jo"}, {"description": "nameless"}]"#,
        ),
        ("registry/servers/remote/server.yaml", "name: remote\n"),
        ("registry/servers/bare/tools.json", r#"[{"name": "cool"}]"#),
        ("registry/README.md", "not read"),
    ];

    #[test]
    fn every_server_has_a_folder() {
        let (report, dataset) = import("docker-mcp-registry", &FILES, "registry");
        assert_eq!(import("docker-mcp-registry", &FILES, "registry/servers").0, report);
        assert_snapshot!(report, @r#"
        servers 2, tools 3, queries 0 (no-tool 0), labels 0
          2 × file that has no place in the format or is missing; not imported: "bare/server.yaml (missing)", "remote/tools.json (missing)"
          1 × entry that cannot be read; left out: "tools.json:entry 2 of kiln: no text `name`"
          1 × type that JSON Schema does not know; any value is accepted there: "Glaze of glaze of fire"
          1 × key of a tool that has no place in the format; left out: "owner of cool"
          5 × part of a schema that JSON Schema does not allow; read as meant or left out: "optional of glaze of fire", "colour of glaze of fire", "argument of fire without a name", "argument batch of fire occurs again", "argument of fire that is no object"
        "#);
        let kiln = &dataset.catalogue.servers[1];
        assert_eq!((kiln.title.as_str(), kiln.description.as_str()), ("Kiln", "Fires pots.\nSlowly."));
        let fire = &dataset.catalogue.tools[1];
        assert_snapshot!(fire.input_schema, @r#"{"type":"object","properties":{"batch":{"type":"string","description":"Which batch"},"cones":{"type":"array","description":"Cones","items":{"type":"number"}},"glaze":{}},"required":["batch","glaze"]}"#);
        assert_eq!(fire.annotations.read_only_hint, Some(false));
        assert_eq!(import("docker-mcp-registry", &FILES, "registry/servers/kiln").1.catalogue.tools.len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn arbitrary_bytes_never_panic(change in mangled(&FILES[..4])) {
            survives("docker-mcp-registry", &FILES, "registry", change);
        }
    }
}
