//! One tool of a `tools/list` answer, from a live server or a file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::annotations::annotations;
use super::foreign::ForeignTool;
use super::parts::text;
use super::report::{Findings, Trouble};

/// Keys of the protocol that have no place in the format; nobody misses them in a catalogue.
const OF_THE_PROTOCOL: [&str; 6] = ["outputSchema", "instructions", "title", "icons", "_meta", "execution"];

/// Keys that have no place in the format, with how many tools had them and which was the first.
#[derive(Debug, Default)]
pub(super) struct LeftOut(BTreeMap<String, (usize, String)>);

impl LeftOut {
    fn add(&mut self, key: &str, tool: &str) {
        self.0.entry(key.to_owned()).or_insert_with(|| (0, tool.to_owned())).0 += 1;
    }

    pub(super) fn list(self, findings: &mut Findings) {
        let mut keys: Vec<_> = self.0.into_iter().collect();
        keys.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (key, (count, first)) in keys {
            let of_protocol = OF_THE_PROTOCOL.contains(&key.as_str());
            let trouble = if of_protocol { Trouble::ProtocolKey } else { Trouble::IgnoredKey };
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            findings.add_many(trouble, count, &format!("{key} of {first}{more}"));
        }
    }
}

/// The tool, or what is wrong with it.
pub(super) fn tool(namespace: Option<&str>, entry: Value, left_out: &mut LeftOut) -> Result<ForeignTool, &'static str> {
    let Value::Object(mut entry) = entry else { return Err("no object") };
    let Some(Value::String(name)) = entry.remove("name") else {
        let of_a_request = entry.get("function").is_some_and(Value::is_object);
        return Err(if of_a_request { "no text `name`; it looks like openai-tools" } else { "no text `name`" });
    };
    let description = text(&mut entry, "description").ok_or("`description` is no text")?.unwrap_or_default();
    let title = text(&mut entry, "title").unwrap_or_else(|| {
        left_out.add("title", &name);
        None
    });
    let schema = entry.remove("inputSchema");
    let annotations = annotations(entry.remove("annotations"), &mut |key| left_out.add(key, &name));
    for key in entry.keys() {
        left_out.add(key, &name);
    }
    let namespace = namespace.map(str::to_owned);
    Ok(ForeignTool { namespace, name, title, description, schema, annotations, ..ForeignTool::default() })
}
