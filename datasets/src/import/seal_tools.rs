//! Seal-Tools (Wu et al., 2024): generated tools in fields of knowledge, and queries that call one or several of them.
//!
//! The first part of a field is the server. Each tool that is called is a group, with the values of the call as the
//! accepted ones. A value that stands for the result of an earlier call is not known beforehand: the query is then
//! sequential, and that argument is not part of the gold. Queries for training are not imported.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Number, Value};

use super::foreign::{Foreign, ForeignLabel, ForeignQuery, ForeignTool};
use super::report::{Findings, Trouble};
use super::types::{Argument, Arguments};
use super::{ImportError, Importer, Read, files, normalised};
use crate::unique::Pairs;

const READS: &str = "the folder Seal-Tools_Dataset (tool.jsonl, dev.jsonl, test_in_domain.jsonl, …) or the one that \
                     holds it, or a folder with tools.jsonl and queries.jsonl";

pub(super) const IMPORTER: Importer = Importer {
    name: "seal-tools",
    reads: READS,
    server: "seal_tools",
    licence: "Apache-2.0",
    read: Read::Source(read),
};

const TOOLS: &str = "tool.jsonl";
const QUERIES: [&str; 3] = ["dev.jsonl", "test_in_domain.jsonl", "test_out_domain.jsonl"];

#[derive(Deserialize)]
struct Tool {
    api_name: String,
    api_description: Option<String>,
    field: Option<String>,
    #[serde(default)]
    parameters: Pairs<Parameter>,
    #[serde(default)]
    required: Vec<String>,
}

#[derive(Deserialize)]
struct Parameter {
    #[serde(rename = "type")]
    kind: Option<String>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Query {
    id: String,
    #[serde(rename = "query")]
    text: String,
    calling: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    api: String,
    #[serde(default)]
    parameters: Pairs<Value>,
    #[serde(default)]
    responses: Vec<String>,
}

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    if normalised::fits(source) {
        return normalised::read(source, READS, findings);
    }
    let dir = files::folder(source, &["Seal-Tools_Dataset"], READS, |dir| dir.join(TOOLS).exists())?;
    let mut foreign = Foreign::default();
    for tool in files::records::<Tool>(&dir.join(TOOLS), READS, findings)? {
        foreign.tools.push(self::tool(tool, findings));
    }
    for name in QUERIES {
        if files::present(&dir, name, findings) {
            let queries = files::records::<Query>(&dir.join(name), READS, findings)?;
            foreign.queries.extend(queries.into_iter().filter_map(|query| self::query(query, findings)));
        }
    }
    files::left_out(&dir, "", |name| files::ends(name, "jsonl") && name != TOOLS && !QUERIES.contains(&name), findings);
    Ok(foreign)
}

fn tool(tool: Tool, findings: &mut Findings) -> ForeignTool {
    let Tool { api_name, api_description, field, parameters: Pairs(parameters), required } = tool;
    let mut arguments = Arguments::default();
    for (name, Parameter { kind, description }) in &parameters {
        let argument = Argument {
            kind: kind.as_deref(),
            description: description.as_deref(),
            required: Some(required.contains(name)),
            ..Argument::default()
        };
        arguments.add(name, &argument, &mut |kind: &str| {
            findings.add(Trouble::UnknownType, &format!("{kind} of {api_name}"));
        });
    }
    let schema = arguments.into_schema(&api_name, findings);
    ForeignTool {
        namespace: field.and_then(|field| field.split('/').next().map(|first| first.trim().to_owned())),
        name: api_name,
        description: api_description.unwrap_or_default(),
        schema: Some(schema),
        ..ForeignTool::default()
    }
}

fn query(query: Query, findings: &mut Findings) -> Option<ForeignQuery> {
    let Query { id, text, calling } = query;
    if calling.is_empty() {
        findings.add(Trouble::NoGold, &id);
        return None;
    }
    let mut earlier: Vec<&str> = Vec::new();
    let mut sequential = false;
    let mut labels = Vec::new();
    for (group, Call { api, parameters: Pairs(parameters), responses }) in calling.iter().enumerate() {
        let mut accepted = Vec::new();
        for (name, value) in parameters {
            if value.as_str().is_some_and(|text| earlier.contains(&text.trim())) {
                sequential = true;
            } else {
                accepted.push((name.clone(), spellings(value)));
            }
        }
        labels.push(ForeignLabel { tool: api.clone(), group, relevance: 3, arguments: Some(accepted) });
        earlier.extend(responses.iter().map(|response| response.trim()));
    }
    Some(ForeignQuery { id, text, labels, sequential, ..ForeignQuery::default() })
}

/// A value as the source has it, and as the number that its text spells: numbers are written either way there.
fn spellings(value: &Value) -> Vec<Value> {
    let number = value.as_str().and_then(|text| text.trim().parse::<Number>().ok());
    [value.clone()].into_iter().chain(number.map(Value::Number)).collect()
}

#[cfg(test)]
mod tests;
