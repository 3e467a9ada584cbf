//! `ToolRet` (Shi et al., 2025): tools of many sources with labelled queries.
//!
//! Upstream ships Parquet; copies exist as JSON and JSONL. What an entry is, a tool or a query, shows in its keys, so
//! files may have any name and lie in any folder below the source. What a tool is called and takes is read from its
//! documentation, whose keys depend on where the tool comes from. Labels refer to ids, so tools may share a name.
//! Instructions are read but not used unless asked for: they are written from the gold tools and give them away.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::foreign::{Foreign, ForeignLabel, ForeignQuery, ForeignTool};
use super::report::{Findings, Trouble};
use super::types::{self, Argument, Arguments};
use super::{ImportError, Importer, Read, files, grade::Grades, normalised, parquet};
use crate::load::id_fault;
use crate::problem::printable;

const READS: &str = "a folder with ToolRet's queries and tools as .parquet, .json or .jsonl, or with normalised \
                     tools.jsonl and queries.jsonl";

pub(super) const IMPORTER: Importer =
    Importer { name: "toolret", reads: READS, server: "toolret", licence: "Apache-2.0", read: Read::Source(read) };

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    if normalised::fits(source) {
        return normalised::read(source, READS, findings);
    }
    let mut reading = Reading::default();
    let paths = files::below(source, &["parquet", "json", "jsonl"]);
    if paths.is_empty() {
        let reason = "it is and holds no such file".to_owned();
        return Err(ImportError::Unreadable { path: printable(source), reason, expected: READS });
    }
    for path in paths {
        if path.extension().is_some_and(|ending| ending == "parquet") {
            for (index, mut row) in parquet::rows(&path, READS, findings)?.into_iter().enumerate() {
                let mut cell = |name: &str| row.remove(name);
                let fields = Fields {
                    id: cell("id"),
                    documentation: cell("documentation").map(Value::from),
                    query: cell("query"),
                    instruction: cell("instruction"),
                    labels: cell("labels").map(Value::from),
                };
                match Entry::try_from(fields) {
                    Ok(entry) => reading.entry(entry, findings),
                    Err(reason) => files::unreadable(&path, &format!("row {}", index + 1), reason, findings),
                }
            }
        } else {
            for entry in files::records::<Entry>(&path, READS, findings)? {
                reading.entry(entry, findings);
            }
        }
    }
    Ok(reading.finish(findings))
}

/// What an entry may hold.
#[derive(Deserialize)]
struct Fields {
    id: Option<String>,
    documentation: Option<Value>,
    query: Option<String>,
    instruction: Option<String>,
    labels: Option<Value>,
}

#[derive(Deserialize)]
#[serde(try_from = "Fields")]
enum Entry {
    Tool { id: String, raw: String, documentation: Option<Map<String, Value>> },
    Query { query: ForeignQuery, labels: Vec<LabelEntry> },
}

impl TryFrom<Fields> for Entry {
    type Error = &'static str;

    fn try_from(fields: Fields) -> Result<Self, &'static str> {
        let id = fields.id.ok_or("it has no `id`")?;
        if let Some(documentation) = fields.documentation {
            let (raw, documentation) = match documentation {
                // Documentation that is no JSON is prose.
                Value::String(text) => {
                    let read = serde_json::from_str(&text).ok();
                    (text, read)
                }
                Value::Object(map) => (Value::from(map.clone()).to_string(), Some(map)),
                _ => return Err("its `documentation` is neither an object nor text"),
            };
            Ok(Self::Tool { id, raw, documentation })
        } else if let Some(labels) = fields.labels {
            let text = fields.query.ok_or("it has no `query`")?;
            let labels = match labels {
                Value::String(text) => serde_json::from_str(&text).ok(),
                labels => Vec::deserialize(labels).ok(),
            };
            let labels = labels.ok_or("its `labels` are no list of {id, relevance}, nor the JSON of one")?;
            let query = ForeignQuery { id, text, instruction: fields.instruction, ..ForeignQuery::default() };
            Ok(Self::Query { query, labels })
        } else {
            Err("it has neither `documentation` nor `labels`")
        }
    }
}

#[derive(Default)]
struct Reading {
    tools: Vec<ForeignTool>,
    queries: Vec<(ForeignQuery, Vec<LabelEntry>)>,
}

#[derive(Deserialize)]
struct LabelEntry {
    id: String,
    relevance: i64,
}

impl Reading {
    fn entry(&mut self, entry: Entry, findings: &mut Findings) {
        match entry {
            Entry::Tool { id, raw, documentation: Some(documentation) } => {
                self.tools.push(tool(id, raw, &documentation, findings));
            }
            Entry::Tool { id, raw, documentation: None } => self.tools.push(ForeignTool {
                name: id.clone(),
                key: Some(id),
                description: raw.clone(),
                raw: Some(raw),
                ..ForeignTool::default()
            }),
            Entry::Query { query, labels } => self.queries.push((query, labels)),
        }
    }

    fn finish(self, findings: &mut Findings) -> Foreign {
        let grades = Grades::of(self.queries.iter().flat_map(|(_, labels)| labels).map(|label| label.relevance));
        let queries = self.queries.into_iter().filter_map(|(query, labels)| {
            // That what was judged does not fit says nothing of the others.
            if !labels.iter().any(|label| label.relevance > 0) {
                findings.add(Trouble::NoGold, &query.id);
                return None;
            }
            let label = |(group, label): (usize, LabelEntry)| ForeignLabel {
                relevance: grades.relevance(
                    label.relevance,
                    || format!("{} of {}", label.relevance, query.id),
                    findings,
                ),
                tool: label.id,
                group,
                arguments: None,
            };
            let labels = labels.into_iter().enumerate().map(label).collect();
            Some(ForeignQuery { labels, ..query })
        });
        let queries = queries.collect();
        Foreign { tools: self.tools, queries, ..Foreign::default() }
    }
}

fn tool(id: String, raw: String, documentation: &Map<String, Value>, findings: &mut Findings) -> ForeignTool {
    let text = |keys: &[&str]| {
        let found = keys.iter().filter_map(|key| documentation.get(*key)?.as_str());
        found.map(str::trim).find(|text| !text.is_empty()).map(str::to_owned)
    };
    let name = text(&["name", "api_name", "func_name"]).filter(|name| id_fault(name).is_none());
    let name = name.unwrap_or_else(|| id.clone());
    let schema = schema(&name, documentation, findings);
    let schema = schema.unwrap_or_else(|_| {
        findings.add(Trouble::UnfitSchema, &name);
        None
    });
    ForeignTool {
        namespace: text(&["domain"]),
        name,
        key: Some(id),
        // Where nothing else says what the tool does, the whole of it has to.
        description: text(&["description", "api_description", "func_description"]).unwrap_or_else(|| raw.clone()),
        raw: Some(raw),
        schema,
        ..ForeignTool::default()
    }
}

struct Unfit;

/// The arguments, in one of the shapes that the sources have.
fn schema(tool: &str, documentation: &Map<String, Value>, findings: &mut Findings) -> Result<Option<Value>, Unfit> {
    let mut arguments = Arguments::default();
    let unknown = &mut |kind: &str| findings.add(Trouble::UnknownType, &format!("{kind} of {tool}"));
    match documentation.get("parameters") {
        Some(Value::Object(map)) if map.get("properties").is_some_and(Value::is_object) => {
            let mut schema = Value::Object(map.clone());
            types::translate(&mut schema, unknown);
            return Ok(Some(schema));
        }
        Some(Value::Object(map)) => {
            for (name, about) in map {
                match about {
                    Value::Object(about) => add(&mut arguments, name, about, None, unknown),
                    Value::String(description) => {
                        let description = Some(&**description);
                        arguments.add(name, &Argument { description, ..Argument::default() }, unknown);
                    }
                    _ => return Err(Unfit),
                }
            }
        }
        Some(Value::Array(list)) => each(&mut arguments, list, None, unknown)?,
        None | Some(Value::Null) => {
            let lists = [("required_parameters", true), ("optional_parameters", false)];
            let lists = lists.map(|(key, required)| (documentation.get(key), required));
            if lists.iter().all(|(list, _)| list.is_none()) {
                return Ok(None);
            }
            for (list, required) in lists {
                match list {
                    Some(Value::Array(list)) => each(&mut arguments, list, Some(required), unknown)?,
                    None | Some(Value::Null) => {}
                    Some(_) => return Err(Unfit),
                }
            }
        }
        Some(Value::String(none))
            if matches!(&*none.trim().to_ascii_lowercase(), "" | "n/a" | "none" | "{}" | "[]") =>
        {
            return Ok(None);
        }
        Some(_) => return Err(Unfit),
    }
    Ok(Some(arguments.into_schema(tool, findings)))
}

/// Arguments as a list of objects with a `name`.
fn each(
    arguments: &mut Arguments,
    list: &[Value],
    required: Option<bool>,
    unknown: &mut impl FnMut(&str),
) -> Result<(), Unfit> {
    for about in list {
        let about = about.as_object().ok_or(Unfit)?;
        let name = about.get("name").and_then(Value::as_str).ok_or(Unfit)?;
        add(arguments, name, about, required, unknown);
    }
    Ok(())
}

fn add(
    arguments: &mut Arguments,
    name: &str,
    about: &Map<String, Value>,
    required: Option<bool>,
    unknown: &mut impl FnMut(&str),
) {
    // OpenAPI keeps type and default one level down.
    let find = |key: &str| about.get(key).or_else(|| about.get("schema")?.get(key));
    let argument = Argument {
        kind: find("type").and_then(Value::as_str),
        description: about.get("description").and_then(Value::as_str),
        default: find("default"),
        required: about.get("required").and_then(Value::as_bool).or(required),
    };
    arguments.add(name, &argument, unknown);
}

#[cfg(test)]
mod tests;
