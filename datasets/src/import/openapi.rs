//! `OpenAPI` 3.0 and 3.1 documents: one tool per operation, no queries.
//!
//! Parameters and request body become one object of arguments. References are replaced by what they lead to, since an
//! argument schema travels alone. What describes answers, servers, security or the document itself is not carried over.

mod operation;
mod schema;

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::foreign::{Foreign, ForeignServer, ForeignTool, is_enormous, server_of};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, yaml};
use crate::load::id_fault;
use crate::problem::{printable, quote};
use schema::Schemas;

const READS: &str = "an OpenAPI 3.0 or 3.1 document, JSON or YAML";

pub(super) const IMPORTER: Importer =
    Importer { name: "openapi", reads: READS, server: "openapi", licence: "NOASSERTION", read: Read::Source(read) };

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// What a path may hold beside methods.
const BESIDE: [&str; 5] = ["$ref", "summary", "description", "servers", "parameters"];

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let Document { server, operations } = document(source, findings)?;
    let tools = operations.into_iter().map(|operation| operation.tool).collect();
    let title = server.title.as_deref().and_then(server_of);
    Ok(Foreign { tools, server: title, servers: vec![server], ..Foreign::default() })
}

/// What is imported of a document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) server: ForeignServer,
    pub(super) operations: Vec<Operation>,
}

/// One operation as a tool.
#[derive(Debug)]
pub(super) struct Operation {
    /// `GET /path`.
    pub(super) place: String,
    pub(super) tool: ForeignTool,
}

/// Reads a document.
pub(super) fn document(source: &Path, findings: &mut Findings) -> Result<Document, ImportError> {
    let root = yaml::document(source, READS, findings)?;
    let unfit = |reason: String| ImportError::Unreadable { path: printable(source), reason, expected: READS };
    let nullable = match root.get("openapi").and_then(Value::as_str) {
        Some(version) if version.starts_with("3.0.") || version == "3.0" => true,
        Some(version) if version.starts_with("3.1.") || version == "3.1" => false,
        Some(version) => return Err(unfit(format!("it is of OpenAPI version {}", quote(version)))),
        None if root.get("swagger").is_some() => {
            return Err(unfit("it is a Swagger 2.0 document; convert it to OpenAPI 3 first".to_owned()));
        }
        None => return Err(unfit("it has no text `openapi`".to_owned())),
    };
    let Some(paths) = root.get("paths").and_then(Value::as_object) else {
        return Err(unfit("it has no object `paths`".to_owned()));
    };
    let mut schemas = Schemas::new(&root, nullable, findings);
    let mut operations = Vec::new();
    let mut names = HashSet::new();
    for (path, item) in paths.iter().filter(|(path, _)| !path.starts_with("x-")) {
        schemas.begin(path);
        if !path.starts_with('/') {
            schemas.report(Trouble::UnreadableEntry, &format!("path {path}: it does not begin with `/`"));
            continue;
        }
        let Some(item) = schemas.follow(item).as_object() else {
            schemas.report(Trouble::UnreadableEntry, &format!("{path}: no object"));
            continue;
        };
        let is_known = |key: &str| METHODS.contains(&key) || BESIDE.contains(&key) || key.starts_with("x-");
        for key in item.keys().filter(|key| !is_known(key)) {
            schemas.report(Trouble::UnreadableEntry, &format!("{key} {path}: no method, which are in lower case"));
        }
        for method in METHODS {
            let Some(value) = item.get(method) else { continue };
            let place = format!("{} {path}", method.to_uppercase());
            schemas.begin(&place);
            let Some(operation) = value.as_object() else {
                schemas.report(Trouble::UnreadableEntry, &format!("{place}: no object"));
                continue;
            };
            let name = name(operation.get("operationId"), method, path, &mut names, &mut schemas);
            let tool = operation::tool(name, method, item, operation, &mut schemas);
            // Before the next one is made: references that multiply would fill the memory with what is left out anyway.
            if is_enormous(&tool) {
                schemas.report(Trouble::EnormousTool, &tool.name);
                continue;
            }
            operations.push(Operation { place, tool });
        }
    }
    let info = |key: &str| root.get("info").and_then(|info| info.get(key)).and_then(Value::as_str);
    let description = info("description").unwrap_or_default().trim().to_owned();
    let server = ForeignServer {
        namespace: String::new(),
        title: info("title").map(str::to_owned),
        description,
        ..ForeignServer::default()
    };
    Ok(Document { server, operations })
}

/// The operation's id, or a name made of method and path where it has none that fits or another has the same.
fn name(id: Option<&Value>, method: &str, path: &str, taken: &mut HashSet<String>, schemas: &mut Schemas) -> String {
    if let Some(id) = id {
        let fit = id.as_str().map(str::trim).filter(|id| id_fault(id).is_none());
        match fit {
            Some(id) if taken.insert(id.to_owned()) => return id.to_owned(),
            _ => schemas.report(Trouble::RenamedTool, &format!("{} of {method} {path}", id.as_str().unwrap_or("id"))),
        }
    }
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let path: String = path.chars().map(plain).collect();
    let words: Vec<_> = std::iter::once(method).chain(path.split('_').filter(|word| !word.is_empty())).collect();
    let base: String = words.join("_").chars().take(crate::load::MAX_ID - 10).collect();
    let mut name = base.clone();
    let mut number = 1;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{base}_{number}");
    }
    if number > 1 {
        schemas.report(Trouble::RenamedTool, &name);
    }
    name
}

#[cfg(test)]
pub(super) mod tests;
