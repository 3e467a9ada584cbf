//! One tool of a `tools/list` answer, from a live server or a file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::annotations::annotations;
use super::foreign::ForeignTool;
use super::parts::text;
use super::report::{Findings, Trouble};

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
pub(super) fn tool(namespace: Option<&str>, entry: Value, left_out: &mut LeftOut) -> Result<ForeignTool, &'static str> {
    let Value::Object(mut entry) = entry else { return Err("no object") };
    let Some(Value::String(name)) = entry.remove("name") else { return Err("no text `name`") };
    let description = text(&mut entry, "description").ok_or("`description` is no text")?.unwrap_or_default();
    let title = text(&mut entry, "title").unwrap_or_else(|| {
        left_out.add("title");
        None
    });
    let schema = entry.remove("inputSchema");
    let annotations = annotations(entry.remove("annotations"), &mut |key| left_out.add(key));
    for key in entry.keys() {
        left_out.add(key);
    }
    let namespace = namespace.map(str::to_owned);
    Ok(ForeignTool { namespace, name, title, description, schema, annotations, ..ForeignTool::default() })
}
