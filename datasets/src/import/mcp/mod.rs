//! Live servers of the Model Context Protocol.
//!
//! Here is what needs no server: the file that names them ([`read`]), the keys in it ([`Secrets`]), and the dataset that
//! becomes of what they listed ([`Snapshot`]). Talking to them is the command's business, so that this crate, which every
//! loader of a dataset links, needs no async runtime, no HTTP and no child processes.
//!
//! A dataset is a snapshot: its revision is the digest of everything in it, and nothing is asked of a server afterwards.

mod config;
mod secrets;

use std::path::Path;

use serde_json::Value;

use super::foreign::{Foreign, ForeignServer};
use super::mcp_tool::{LeftOut, tool};
use super::report::{Findings, ImportReport, Trouble};
use super::{Destination, ImportError, ImportOptions, Origin};
use crate::wire;
pub use config::{Reach, Server, read};
pub use secrets::Secrets;

pub const NAME: &str = "mcp";
/// What the source is, for help texts.
pub const READS: &str = "live servers: a JSON file with `mcpServers` as desktop clients write it ({\"mcpServers\": \
                         {\"files\": {\"command\": \"npx\", \"args\": […]}, \"web\": {\"url\": \"https://…\"}}}), or --command, or --url";
const ORIGIN: Origin = Origin { name: NAME, server: "mcp", licence: "NOASSERTION" };
/// Longest name, version or description that a server gives of itself, in characters.
const SAID: usize = 2_000;

/// What a server said of itself and which tools it listed, entry by entry as it sent them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub name: String,
    pub version: String,
    pub protocol: String,
    pub title: Option<String>,
    pub description: Option<String>,
    /// It also gave instructions for a model, which have no place in the format.
    pub instructions: bool,
    pub tools: Vec<Value>,
}

/// What came of one server.
#[derive(Debug)]
pub struct Captured {
    pub server: Server,
    /// What it listed, or why it could not be listed, in words that are safe to print.
    pub outcome: Result<Listing, String>,
    /// Beyond those of [`Server`].
    pub troubles: Vec<(Trouble, String)>,
}

/// A dataset of live servers, not yet written.
#[derive(Debug)]
pub struct Snapshot<'a>(Destination<'a>);

impl<'a> Snapshot<'a> {
    /// Checks target and options, before any server is started.
    pub fn new(target: &'a Path, options: &'a ImportOptions) -> Result<Self, ImportError> {
        Destination::new(ORIGIN, target, options).map(Self)
    }

    /// Writes what was captured, in that order.
    pub fn write(&self, captured: Vec<Captured>) -> Result<ImportReport, ImportError> {
        let mut findings = Findings::default();
        let mut foreign = Foreign::default();
        let mut left_out = LeftOut::default();
        let mut listed = 0;
        for Captured { server, outcome, troubles } in captured {
            for (trouble, example) in server.troubles.iter().chain(&troubles) {
                findings.add(*trouble, example);
            }
            match outcome {
                Ok(listing) if listing.tools.is_empty() => {
                    listed += 1;
                    findings.add(Trouble::ServerLeftOut, &format!("{}: it lists no tools", server.name));
                }
                Ok(listing) => {
                    listed += 1;
                    add(&server, listing, &mut foreign, &mut left_out, &mut findings);
                }
                Err(reason) => findings.add(Trouble::ServerLeftOut, &format!("{}: {reason}", server.name)),
            }
        }
        left_out.list(&mut findings);
        if listed == 0 {
            return Err(ImportError::NoServer { findings });
        }
        self.0.write(foreign, findings)
    }
}

fn add(server: &Server, listing: Listing, foreign: &mut Foreign, left_out: &mut LeftOut, findings: &mut Findings) {
    let namespace = server.name.as_str();
    let Listing { name, version, protocol, title, description, instructions, tools } = listing;
    let said = |mut text: String| {
        server.secrets.redact_text(&mut text);
        text.chars().take(SAID).collect::<String>()
    };
    if instructions {
        findings.add(Trouble::IgnoredKey, &format!("instructions of server {namespace}"));
    }
    let name = said(name);
    foreign.servers.push(ForeignServer {
        namespace: namespace.to_owned(),
        title: title.map(said).filter(|title| !title.trim().is_empty()).or_else(|| Some(name.clone())),
        description: description.map(said).unwrap_or_default(),
        mcp: Some(wire::Implementation { name, version: said(version), protocol: said(protocol) }),
    });
    for (index, mut entry) in tools.into_iter().enumerate() {
        if server.secrets.redact_value(&mut entry) {
            let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
            findings.add(Trouble::RedactedKey, &format!("{namespace}/{name}"));
        }
        match tool(Some(namespace), entry, left_out) {
            Ok(tool) => foreign.tools.push(tool),
            Err(reason) => findings.add(Trouble::UnreadableEntry, &format!("{namespace}:tool {index}: {reason}")),
        }
    }
}

#[cfg(test)]
mod tests;
