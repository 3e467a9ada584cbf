//! Toolkits of Arcade as its documentation keeps them: one JSON file per toolkit. No queries.
//!
//! What a call needs besides arguments (authorisation, secrets), documentation and code examples are not carried over.

use std::path::Path;

use harness::catalogue::Annotations;
use serde_json::{Map, Value};

use super::foreign::{Foreign, ForeignServer, ForeignTool};
use super::parts::{object, text};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files, walk};
use crate::problem::printable;

const READS: &str = "a JSON file of one toolkit (`id`, `label`, `tools`), or a folder of such files";

pub(super) const IMPORTER: Importer =
    Importer { name: "arcade", reads: READS, server: "arcade", licence: "NOASSERTION", read: Read::Source(read) };

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let mut foreign = Foreign::default();
    if !source.is_dir() {
        return if toolkit(source, &mut foreign, findings)? { Ok(foreign) } else { Err(unrecognised(source)) };
    }
    let (mut toolkits, mut unreadable) = (0, None);
    for path in walk::files(source, READS, findings)? {
        let place = walk::relative(source, &path);
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        let read = if is_json { toolkit(&path, &mut foreign, findings) } else { Ok(false) };
        match read {
            Ok(true) => toolkits += 1,
            Ok(false) => findings.add(Trouble::FileLeftOut, &place),
            Err(error) => {
                files::passed_over(&place, &error, findings);
                unreadable.get_or_insert(error);
            }
        }
    }
    if toolkits == 0 { Err(unreadable.unwrap_or_else(|| unrecognised(source))) } else { Ok(foreign) }
}

fn unrecognised(source: &Path) -> ImportError {
    let reason = "it holds no toolkit".to_owned();
    ImportError::Unreadable { path: printable(source), reason, expected: READS }
}

/// Reads a file if it is a toolkit.
fn toolkit(path: &Path, foreign: &mut Foreign, findings: &mut Findings) -> Result<bool, ImportError> {
    let Value::Object(mut toolkit) = files::json_value(path, READS, findings)? else { return Ok(false) };
    let (Some(Value::String(id)), Some(Value::Array(entries))) = (toolkit.remove("id"), toolkit.remove("tools")) else {
        return Ok(false);
    };
    for (index, entry) in entries.into_iter().enumerate() {
        match tool(entry, findings) {
            Ok(tool) => foreign.tools.push(ForeignTool { namespace: Some(id.clone()), ..tool }),
            Err(reason) => files::unreadable(path, &format!("entry {index}"), reason, findings),
        }
    }
    let title = text(&mut toolkit, "label").flatten();
    let description = text(&mut toolkit, "description").flatten().unwrap_or_default();
    foreign.servers.push(ForeignServer { namespace: id, title, description, ..ForeignServer::default() });
    Ok(true)
}

fn tool(entry: Value, findings: &mut Findings) -> Result<ForeignTool, &'static str> {
    let Value::Object(mut entry) = entry else { return Err("no object") };
    let plain = text(&mut entry, "name").ok_or("`name` is no text")?;
    // The name that a client calls.
    let qualified = text(&mut entry, "qualifiedName").ok_or("`qualifiedName` is no text")?;
    let name = qualified.or(plain).ok_or("neither `qualifiedName` nor `name`")?;
    let description = text(&mut entry, "description").ok_or("`description` is no text")?.unwrap_or_default();
    let parameters = match entry.remove("parameters") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(parameters)) => parameters,
        Some(_) => return Err("`parameters` is no array"),
    };
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for parameter in parameters {
        let Some((key, schema, needed)) = self::parameter(&name, parameter, findings) else { continue };
        if properties.contains_key(&key) {
            findings.add(Trouble::RepairedSchema, &format!("parameter {key} of {name} occurs again"));
            continue;
        }
        if needed {
            required.push(key.clone());
        }
        properties.insert(key, schema);
    }
    if entry.remove("output").is_some_and(|output| !output.is_null()) {
        findings.add(Trouble::IgnoredKey, &format!("output of {name}"));
    }
    let metadata = entry.remove("metadata");
    let annotations = metadata.as_ref().and_then(|metadata| behaviour(metadata.get("behavior")?));
    let schema = object(properties, required);
    Ok(ForeignTool { name, description, schema, annotations, ..ForeignTool::default() })
}

/// What a toolkit says about effects, in the words of the protocol.
fn behaviour(value: &Value) -> Option<Annotations> {
    let flag = |key: &str| value.get(key).and_then(Value::as_bool);
    let annotations = Annotations {
        title: None,
        read_only_hint: flag("readOnly"),
        destructive_hint: flag("destructive"),
        idempotent_hint: flag("idempotent"),
        open_world_hint: flag("openWorld"),
    };
    (annotations != Annotations::default()).then_some(annotations)
}

/// The name of a parameter, its schema, and whether a call needs it.
fn parameter(tool: &str, parameter: Value, findings: &mut Findings) -> Option<(String, Value, bool)> {
    let mut repaired = |what: String| findings.add(Trouble::RepairedSchema, &format!("{what} of {tool}"));
    let Value::Object(mut parameter) = parameter else {
        repaired("parameter that is no object".to_owned());
        return None;
    };
    let Some(Value::String(name)) = parameter.remove("name") else {
        repaired("parameter without a name".to_owned());
        return None;
    };
    let mut schema = Map::new();
    let kind = parameter.remove("type").unwrap_or_default();
    match kind.as_str() {
        Some("json") => _ = schema.insert("type".to_owned(), "object".into()),
        Some("string" | "integer" | "number" | "boolean" | "array" | "object") => {
            schema.insert("type".to_owned(), kind);
        }
        _ => repaired(format!("type {} of {name}", kind.as_str().unwrap_or("without words"))),
    }
    match parameter.remove("innerType") {
        None | Some(Value::Null) => {}
        Some(Value::String(inner)) if ["string", "integer", "number", "boolean", "object"].contains(&&*inner) => {
            schema.insert("items".to_owned(), serde_json::json!({"type": inner}));
        }
        // Arcade's word for an object.
        Some(Value::String(inner)) if inner == "json" => {
            schema.insert("items".to_owned(), serde_json::json!({"type": "object"}));
        }
        Some(_) => repaired(format!("innerType of {name}")),
    }
    match parameter.remove("description") {
        None | Some(Value::Null) => {}
        Some(text @ Value::String(_)) => _ = schema.insert("description".to_owned(), text),
        Some(_) => repaired(format!("description of {name}")),
    }
    match parameter.remove("enum") {
        None | Some(Value::Null) => {}
        // For an array the values are those of its items.
        Some(Value::Array(values)) if schema.get("type").is_some_and(|kind| kind == "array") => {
            let items = schema.entry("items").or_insert_with(|| Map::new().into());
            if let Value::Object(items) = items {
                items.insert("enum".to_owned(), values.into());
            }
        }
        Some(values @ Value::Array(_)) => _ = schema.insert("enum".to_owned(), values),
        Some(_) => repaired(format!("enum of {name}")),
    }
    if let Some(default) = parameter.remove("default").filter(|default| !default.is_null()) {
        schema.insert("default".to_owned(), default);
    }
    let required = match parameter.remove("required") {
        Some(Value::Bool(required)) => required,
        None | Some(Value::Null) => false,
        Some(_) => {
            repaired(format!("required of {name}"));
            false
        }
    };
    // Whether a model may guess it says nothing about the argument.
    parameter.remove("inferrable");
    for key in parameter.keys() {
        repaired(format!("{key} of {name}"));
    }
    Some((name, schema.into(), required))
}

#[cfg(test)]
pub(super) mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::tests::{import, mangled, survives};

    pub(crate) const FILES: [(&str, &str); 2] = [
        (
            "kits/kiln.json",
            r#"{"id": "KilnApi", "label": "Kiln API", "version": "1.0.0", "description": "Fires pots.", "auth": null, "tools": [
 {"name": "Fire", "qualifiedName": "KilnApi.Fire", "fullyQualifiedName": "KilnApi.Fire@1.0.0", "description": "Fires a batch.",
  "parameters": [
   {"name": "batch", "type": "string", "required": true, "description": "Which", "enum": ["a", "b"], "inferrable": true},
   {"name": "cones", "type": "array", "innerType": "number", "required": false, "enum": [1, 2]},
   {"name": "extra", "type": "json", "required": false, "description": null, "enum": null},
   {"name": "odd", "type": "Odd", "required": "yes", "shade": 1}, 7, {"type": "string"}],
  "secrets": ["KEY"], "output": {"type": "json"},
  "metadata": {"behavior": {"operations": ["create"], "readOnly": false, "destructive": true, "idempotent": null}}},
 {"name": "Cool", "parameters": null, "metadata": null}, {"description": "nameless"}, {"name": "Cool", "parameters": {}}]}"#,
        ),
        ("kits/package.json", r#"{"name": "docs", "version": "1.0.0"}"#),
    ];

    #[test]
    fn a_toolkit_is_a_server() {
        let (report, dataset) = import("arcade", &FILES, "kits");
        assert_snapshot!(report, @r#"
        servers 1, tools 2, queries 0 (no-tool 0), labels 0
          1 × file that has no place in the format or is missing; not imported: "package.json"
          2 × entry that cannot be read; left out: "kiln.json:entry 2: neither `qualifiedName` nor `name`", "kiln.json:entry 3: `parameters` is no array"
          1 × key of a tool that has no place in the format; left out: "output of KilnApi.Fire"
          5 × part of a schema that JSON Schema does not allow; read as meant or left out: "type Odd of odd of KilnApi.Fire", "required of odd of KilnApi.Fire", "shade of odd of KilnApi.Fire", "parameter that is no object of KilnApi.Fire", "parameter without a name of KilnApi.Fire"
        "#);
        assert_eq!(dataset.catalogue.servers[0].title, "Kiln API");
        let fire = &dataset.catalogue.tools[0];
        assert_eq!(fire.id.to_string(), "kilnapi/KilnApi.Fire");
        assert_snapshot!(fire.input_schema, @r#"{"type":"object","properties":{"batch":{"type":"string","description":"Which","enum":["a","b"]},"cones":{"type":"array","items":{"type":"number","enum":[1,2]}},"extra":{"type":"object"},"odd":{}},"required":["batch"]}"#);
        assert_eq!((fire.annotations.read_only_hint, fire.annotations.idempotent_hint), (Some(false), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn arbitrary_bytes_never_panic(change in mangled(&FILES)) {
            survives("arcade", &FILES, "kits", change);
        }
    }
}
