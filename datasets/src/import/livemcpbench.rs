//! `LiveMCPBench` (Mo et al., 2025): tools of real servers, and tasks with the tools that an annotator used.
//!
//! The annotator's list names tools without their server. A name that several servers have makes one group, of which any
//! member counts, and is listed as such. The steps of an answer and the check of its outcome are not carried over.

use std::collections::HashMap;
use std::path::Path;

use harness::catalogue::Annotations;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::foreign::{Foreign, ForeignLabel, ForeignQuery, ForeignServer, ForeignTool};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files};
use crate::unique::Pairs;

const READS: &str = "a folder with LiveMCPBench's tools.json and all_annotations.json, or its repository";

pub(super) const IMPORTER: Importer =
    Importer { name: "livemcpbench", reads: READS, server: "tools", licence: "Apache-2.0", read: Read::Source(read) };

const TOOLS: &str = "tools.json";
const TASKS: &str = "all_annotations.json";
/// Where the repository keeps the two.
const NESTED_TOOLS: [&str; 2] = ["tools/LiveMCPTool", "LiveMCPTool"];
const NESTED_TASKS: [&str; 2] = ["annotated_data", "annotations"];

#[derive(Deserialize)]
struct Package {
    name: Option<String>,
    description: Option<String>,
    tools: Pairs<Server>,
}

#[derive(Deserialize)]
struct Server {
    tools: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Task {
    #[serde(rename = "task_id")]
    id: String,
    #[serde(rename = "Question")]
    question: String,
    #[serde(rename = "Annotator Metadata")]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "Tools")]
    tools: String,
    #[serde(rename = "Number of tools")]
    count: Option<Value>,
}

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let dir = files::folder(source, &NESTED_TOOLS, READS, |dir| dir.join(TOOLS).exists())?;
    let mut foreign = Foreign::default();
    let mut reading = Reading::default();
    for Package { name: title, description, tools: Pairs(servers) } in
        files::records(&dir.join(TOOLS), READS, findings)?
    {
        for (namespace, Server { tools }) in servers {
            for tool in tools {
                match reading.tool(&namespace, tool, findings) {
                    Ok(tool) => foreign.tools.push(tool),
                    Err(reason) => {
                        files::unreadable(&dir.join(TOOLS), &format!("server {namespace}"), reason, findings);
                    }
                }
            }
            let description = description.clone().unwrap_or_default();
            foreign.servers.push(ForeignServer {
                namespace,
                title: title.clone(),
                description,
                ..ForeignServer::default()
            });
        }
    }
    let tasks = files::folder(source, &NESTED_TASKS, READS, |dir| dir.join(TASKS).exists());
    match tasks {
        Ok(dir) => {
            for task in files::records(&dir.join(TASKS), READS, findings)? {
                foreign.queries.extend(reading.task(task, findings));
            }
        }
        Err(_) => findings.add(Trouble::FileLeftOut, &format!("{TASKS} (missing)")),
    }
    Ok(foreign)
}

#[derive(Default)]
struct Reading {
    /// Keys of the tools of a name.
    keys: HashMap<String, Vec<String>>,
}

impl Reading {
    fn tool(
        &mut self,
        server: &str,
        mut tool: Map<String, Value>,
        findings: &mut Findings,
    ) -> Result<ForeignTool, &'static str> {
        let Some(Value::String(name)) = tool.remove("name") else { return Err("a tool has no text `name`") };
        let description = match tool.remove("description") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(description)) => description,
            Some(_) => return Err("a `description` is no text"),
        };
        let schema = tool.remove("inputSchema");
        let annotations = tool.remove("annotations").filter(|value| !value.is_null());
        let annotations = annotations.and_then(|value| {
            let read = Annotations::deserialize(&value).ok();
            if read.is_none() {
                findings.add(Trouble::IgnoredKey, &format!("annotations of {name}"));
            }
            read
        });
        for key in tool.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key) {
            findings.add(Trouble::IgnoredKey, &format!("{key} of {name}"));
        }
        let key = format!("{server}/{name}");
        let keys = self.keys.entry(name.clone()).or_default();
        // A server that lists a name twice has one tool of that name.
        if !keys.contains(&key) {
            keys.push(key.clone());
        }
        let namespace = Some(server.to_owned());
        Ok(ForeignTool { namespace, name, key: Some(key), description, schema, annotations, ..ForeignTool::default() })
    }

    fn task(&self, task: Task, findings: &mut Findings) -> Option<ForeignQuery> {
        let Task { id, question: text, metadata: Metadata { tools, count } } = task;
        let names: Vec<_> = tools.lines().map(unnumbered).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            findings.add(Trouble::NoGold, &id);
            return None;
        }
        let counted = count.as_ref().and_then(|count| match count {
            Value::String(text) => text.trim().parse::<u64>().ok(),
            count => count.as_u64(),
        });
        if counted.is_some_and(|counted| counted != names.len() as u64) {
            findings.add(Trouble::LabelCount, &id);
        }
        let mut labels = Vec::new();
        for (group, name) in names.into_iter().enumerate() {
            let unknown = vec![name.to_owned()];
            let keys = self.keys.get(name).unwrap_or(&unknown);
            if keys.len() > 1 {
                findings.add(Trouble::AnyOfNames, name);
            }
            labels.extend(keys.iter().map(|key| ForeignLabel {
                tool: key.clone(),
                group,
                relevance: 3,
                arguments: None,
            }));
        }
        Some(ForeignQuery { id, text, labels, ..ForeignQuery::default() })
    }
}

/// A line of a numbered list without its number.
fn unnumbered(line: &str) -> &str {
    let line = line.trim();
    let rest = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let rest = rest.strip_prefix(['.', ')', '、']).filter(|_| rest.len() < line.len());
    rest.map_or(line, str::trim)
}

#[cfg(test)]
mod tests;
