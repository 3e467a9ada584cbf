//! One tool of a `tools/list` answer.

use std::collections::BTreeMap;

use harness::catalogue::Annotations;
use serde_json::{Map, Value};

use super::super::foreign::ForeignTool;
use super::super::report::{Findings, Trouble};

/// Keys that have no place in the format, with how many tools had them.
#[derive(Debug, Default)]
pub(super) struct LeftOut(BTreeMap<String, usize>);

impl LeftOut {
    fn add(&mut self, key: &str) {
        *self.0.entry(key.to_owned()).or_default() += 1;
    }

    pub(super) fn list(self, findings: &mut Findings) {
        let mut keys: Vec<_> = self.0.into_iter().collect();
        keys.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (key, count) in keys {
            findings.add_many(Trouble::IgnoredKey, count, &format!("{key} × {count}"));
        }
    }
}

/// The tool, or what is wrong with it.
pub(super) fn tool(namespace: &str, entry: Value, left_out: &mut LeftOut) -> Result<ForeignTool, &'static str> {
    let Value::Object(mut entry) = entry else { return Err("no object") };
    let Some(Value::String(name)) = entry.remove("name") else { return Err("no text `name`") };
    let description = match entry.remove("description") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(description)) => description,
        Some(_) => return Err("`description` is no text"),
    };
    let title = text("title", &mut entry, "title", left_out);
    let schema = entry.remove("inputSchema");
    let annotations = match entry.remove("annotations") {
        None | Some(Value::Null) => None,
        Some(Value::Object(given)) => Some(annotations(given, left_out)),
        Some(_) => {
            left_out.add("annotations");
            None
        }
    };
    for key in entry.keys() {
        left_out.add(key);
    }
    Ok(ForeignTool {
        namespace: Some(namespace.to_owned()),
        name,
        title,
        description,
        schema,
        annotations,
        tags: Vec::new(),
    })
}

fn annotations(mut given: Map<String, Value>, left_out: &mut LeftOut) -> Annotations {
    let title = text("title", &mut given, "annotations.title", left_out);
    let mut hint = |key: &str| match given.remove(key) {
        Some(Value::Bool(hint)) => Some(hint),
        None | Some(Value::Null) => None,
        Some(_) => {
            left_out.add(&format!("annotations.{key}"));
            None
        }
    };
    let annotations = Annotations {
        title,
        read_only_hint: hint("readOnlyHint"),
        destructive_hint: hint("destructiveHint"),
        idempotent_hint: hint("idempotentHint"),
        open_world_hint: hint("openWorldHint"),
    };
    for key in given.keys() {
        left_out.add(&format!("annotations.{key}"));
    }
    annotations
}

fn text(key: &str, given: &mut Map<String, Value>, shown: &str, left_out: &mut LeftOut) -> Option<String> {
    match given.remove(key) {
        Some(Value::String(text)) => Some(text),
        None | Some(Value::Null) => None,
        Some(_) => {
            left_out.add(shown);
            None
        }
    }
}
