//! Live servers of the Model Context Protocol.
//!
//! Here is what needs no server: the file that names them ([`read`]), the keys in it ([`Secrets`]), and the dataset that
//! becomes of what they listed ([`Snapshot`]). Talking to them is the command's business, so that this crate, which every
//! loader of a dataset links, needs no async runtime, no HTTP and no child processes.
//!
//! A dataset is a snapshot: its revision is the digest of everything in it, and nothing is asked of a server afterwards.

mod config;
mod pieces;
mod secrets;

use std::path::Path;

use harness::text::plain;
use serde_json::{Value, json};

use super::foreign::{Foreign, ForeignServer};
use super::mcp_tool::{LeftOut, tool};
use super::report::{Findings, ImportReport, Trouble};
use super::{Destination, ImportError, ImportOptions, Origin};
use crate::problem::{clean_up_to, quote};
use crate::{unique, wire};
pub use config::{Reach, Server, read};
pub use secrets::Secrets;

pub const NAME: &str = "mcp";
/// What the source is, for help texts.
pub const READS: &str = "live servers: a JSON file with `mcpServers` as desktop clients write it ({\"mcpServers\": \
                         {\"files\": {\"command\": \"npx\", \"args\": […]}, \"web\": {\"url\": \"https://…\"}}}), or --command, or --url";
const ORIGIN: Origin = Origin { name: NAME, server: "mcp", licence: "NOASSERTION" };
/// Longest name, version or description that a server gives of itself, in characters.
const SAID: usize = 2_000;
/// Longest reason or example, in characters.
const REASON: usize = 400;
/// Longest name or place in one.
const PLACE: usize = 80;

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

/// What came of one server. Nothing in it holds a key of the server's configuration.
#[derive(Debug)]
pub struct Captured {
    pub server: Server,
    outcome: Result<Listing, String>,
    troubles: Vec<(Trouble, String)>,
}

impl Captured {
    /// What a server listed, or why it could not be listed, and what else was met.
    ///
    /// Texts for people are printed without keys. What was listed is never altered: if a key occurs in it, it is refused.
    pub fn new(server: Server, outcome: Result<Listing, String>, troubles: Vec<(Trouble, String)>) -> Self {
        let shown = |text: &str| -> String { plain(&server.secrets.redact(text)).chars().take(REASON).collect() };
        let outcome = outcome.and_then(|listing| match leak(&server.secrets, &listing) {
            Some(reason) => Err(reason),
            None => Ok(listing),
        });
        let outcome = outcome.map_err(|reason| shown(&reason));
        let troubles = troubles.into_iter().map(|(trouble, example)| (trouble, shown(&example))).collect();
        Self { server, outcome, troubles }
    }

    /// What it listed, or why there is nothing of it, in words that are safe to print.
    pub fn outcome(&self) -> Result<&Listing, &str> {
        self.outcome.as_ref().map_err(String::as_str)
    }
}

/// Why a listing may not be stored, if it holds a key.
fn leak(secrets: &Secrets, listing: &Listing) -> Option<String> {
    let Listing { name, version, protocol, title, description, instructions: _, tools } = listing;
    let about =
        json!({"name": name, "version": version, "protocol": protocol, "title": title, "description": description});
    let in_tool = |(index, tool): (usize, &Value)| {
        let found = secrets.find(tool)?;
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        Some((found, format!("tool {index} {}", quote(&secrets.redact(name)))))
    };
    let (found, place) = secrets
        .find(&about)
        .map(|found| (found, "what it says of itself".to_owned()))
        .or_else(|| tools.iter().enumerate().find_map(in_tool))?;
    // Cut only when there is no key in it any more.
    let at = clean_up_to(PLACE, &secrets.redact(&found.at));
    let of = clean_up_to(PLACE, found.of);
    let name = of.split_once('.').map_or(of.as_str(), |(_, name)| name);
    Some(format!(
        "the value of `{of}` occurs in {place} at `{at}`, and no key is stored; give it another value for the import, or, if it is \
         no secret, add `--not-secret {name}`"
    ))
}

/// JSON in which no object repeats a key, at any depth.
pub fn unambiguous(bytes: &[u8]) -> serde_json::Result<Value> {
    unique::from_slice(bytes)
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
                Err(reason) if reason == config::DISABLED => findings.add(Trouble::DisabledServer, &server.name),
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
    let said = |text: String| text.chars().take(SAID).collect::<String>();
    if instructions {
        findings.add(Trouble::ProtocolKey, &format!("instructions of server {namespace}"));
    }
    let name = said(name);
    foreign.servers.push(ForeignServer {
        namespace: namespace.to_owned(),
        title: title.map(said).filter(|title| !title.trim().is_empty()).or_else(|| Some(name.clone())),
        description: description.map(said).unwrap_or_default(),
        mcp: Some(wire::Implementation { name, version: said(version), protocol: said(protocol) }),
    });
    for (index, entry) in tools.into_iter().enumerate() {
        match tool(Some(namespace), entry, left_out) {
            Ok(tool) => foreign.tools.push(tool),
            Err(reason) => findings.add(Trouble::UnreadableEntry, &format!("{namespace}:tool {index}: {reason}")),
        }
    }
}

#[cfg(test)]
mod tests;
