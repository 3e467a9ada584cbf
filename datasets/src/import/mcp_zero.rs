//! `MCP-Zero` (Fei et al., 2025): servers with their tools, collected from a registry. A catalogue without queries.
//!
//! Arguments are sentences such as `(Optional, boolean) Whether to …`. Embeddings are not carried over, nor is the
//! summary of a server that has a description: it is written from the same text.

use std::path::Path;

use serde::Deserialize;

use super::foreign::{Foreign, ForeignServer, ForeignTool};
use super::report::{Findings, Trouble};
use super::types::{self, Argument, Arguments};
use super::{ImportError, Importer, Read, files};
use crate::unique::Pairs;

const FILE: &str = "mcp_tools_with_embedding.json";
const READS: &str = "mcp_tools_with_embedding.json of MCP-Zero, or the folder that holds it";

pub(super) const IMPORTER: Importer =
    Importer { name: "mcp-zero", reads: READS, server: "tools", licence: "NOASSERTION", read: Read::Source(read) };

#[derive(Deserialize)]
struct Server {
    #[serde(rename = "server_name")]
    name: String,
    #[serde(rename = "server_summary")]
    summary: Option<String>,
    #[serde(rename = "server_description")]
    description: Option<String>,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: Option<String>,
    parameter: Option<Pairs<Option<String>>>,
}

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let nested = source.join(FILE);
    let path: &Path = if nested.exists() { &nested } else { source };
    let mut foreign = Foreign::default();
    for Server { name: namespace, summary, description, tools } in files::records(path, READS, findings)? {
        let said = |text: &String| !text.trim().is_empty();
        let description = description.filter(said).or(summary).unwrap_or_default();
        foreign.tools.extend(tools.into_iter().map(|Tool { name, description, parameter }| ForeignTool {
            namespace: Some(namespace.clone()),
            schema: parameter.map(|Pairs(arguments)| schema(&name, &arguments, findings)),
            name,
            description: description.unwrap_or_default(),
            ..ForeignTool::default()
        }));
        foreign.servers.push(ForeignServer { namespace, title: None, description, ..ForeignServer::default() });
    }
    Ok(foreign)
}

fn schema(tool: &str, arguments: &[(String, Option<String>)], findings: &mut Findings) -> serde_json::Value {
    let mut read = Arguments::default();
    for (name, about) in arguments {
        let about = about.as_deref().unwrap_or_default().trim();
        let (kind, description) = remark(about).unwrap_or(("", about));
        let argument = Argument {
            kind: Some(kind).filter(|kind| !kind.is_empty()),
            description: Some(description),
            // The source writes `Optional` where it is meant.
            required: Some(!types::read(kind).optional),
            ..Argument::default()
        };
        read.add(name, &argument, &mut |kind: &str| findings.add(Trouble::UnknownType, &format!("{kind} of {tool}")));
    }
    read.into_schema(tool, findings)
}

/// The type in brackets before a description, and the description.
fn remark(about: &str) -> Option<(&str, &str)> {
    let mut open = 0_usize;
    for (index, character) in about.char_indices() {
        match character {
            '(' => open += 1,
            ')' if open == 1 => return Some((&about[1..index], about[index + 1..].trim_start())),
            ')' => open = open.saturating_sub(1),
            _ if open == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
