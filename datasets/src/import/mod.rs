//! Other layouts, rewritten as datasets of our format.
//!
//! An import reads everything, maps what it can, lists the rest with counts and examples in an [`ImportReport`], and puts
//! the folder in place only when it is complete and loads. Keys that describe the source rather than a tool or query
//! (categories, original splits) are not carried over.

mod annotations;
mod api_bank;
mod apibench;
mod arcade;
mod beir;
mod bfcl;
mod docker_mcp_registry;
mod extra;
mod files;
mod foreign;
mod grade;
mod livemcpbench;
pub mod mcp;
mod mcp_tool;
mod mcp_tools_list;
mod mcp_zero;
mod metatool;
mod normalised;
mod numbers;
mod openai_tools;
mod openapi;
mod parquet;
mod parts;
mod place;
mod python;
mod report;
mod restbench;
mod seal_tools;
mod server_name;
mod skills;
mod synth;
mod table;
mod toolret;
mod types;
mod walk;
mod yaml;

use std::collections::BTreeSet;
use std::path::Path;

use harness::ids::Digest;

use crate::load::{DATASET_NAME, LoadError, is_dataset_name};
use crate::problem::{quote, suggestion};
use crate::wire::{FORMAT, Manifest};
use crate::write::Draft;
pub use extra::Extra;
use foreign::{Foreign, ForeignTool};
use place::{clear, place};
pub use report::{Finding, Findings, ImportReport, Trouble};
use server_name::server_name;

/// Every importer of files, in the order in which a list shows them. Live servers have a way of their own: [`mcp`].
pub const ALL: &[Importer] = &[
    api_bank::IMPORTER,
    apibench::IMPORTER,
    arcade::IMPORTER,
    beir::IMPORTER,
    bfcl::IMPORTER,
    docker_mcp_registry::IMPORTER,
    livemcpbench::IMPORTER,
    mcp_tools_list::IMPORTER,
    mcp_zero::IMPORTER,
    metatool::IMPORTER,
    openai_tools::IMPORTER,
    openapi::IMPORTER,
    restbench::IMPORTER,
    seal_tools::IMPORTER,
    skills::IMPORTER,
    synth::IMPORTER,
    toolret::IMPORTER,
];

/// A layout that can be imported.
#[derive(Debug)]
pub struct Importer {
    pub name: &'static str,
    /// What the source is, for help texts.
    pub reads: &'static str,
    /// Server of tools without a namespace, unless an option or the source says otherwise.
    pub server: &'static str,
    /// SPDX expression of the data, unless an option says otherwise.
    pub licence: &'static str,
    read: Read,
}

/// Where an importer takes its data from.
#[derive(Debug)]
enum Read {
    /// A file or a folder.
    Source(fn(&Path, &mut Findings) -> Result<Foreign, ImportError>),
    /// Options alone. Only such importers take [`ImportOptions::tools`], [`ImportOptions::skills`] and [`ImportOptions::seed`].
    Options(fn(&ImportOptions) -> Result<Foreign, ImportError>),
}

/// What an import may be told. Unless it says otherwise, an option applies to every importer.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Name of the dataset: lower-case letters, digits and `-`. Default: the importer's name.
    pub name: Option<String>,
    /// Server of tools without a namespace: lower-case letters, digits, `_` and `-`. Default: what the source's title or file
    /// name says, see FORMAT.md, or else [`Importer::server`]. Refused where every tool has a namespace.
    pub server: Option<String>,
    /// SPDX expression. Default: see [`Importer::licence`].
    pub licence: Option<String>,
    /// Replace a dataset that is in the way, unless that would lose files which this import does not write the same: queries,
    /// labels, skills, actors, `lint.toml`, nested sizes, anything of somebody's own.
    pub overwrite: bool,
    /// Fail if anything could not be mapped.
    pub strict: bool,
    /// How many tools to make. Only for importers that read nothing. Default: 1,000.
    pub tools: Option<usize>,
    /// How many skills to make. Only for importers that read nothing. Default: none.
    pub skills: Option<usize>,
    /// Seed of what is made. Only for importers that read nothing. Default: 1.
    pub seed: Option<u64>,
    /// Options of this one importer; those of another are refused.
    pub extras: BTreeSet<Extra>,
}

/// No dataset was written; what was at the target is as before.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("importer {name} does not exist{hint}; expected one of {known}")]
    UnknownImporter { name: String, hint: String, known: String },
    #[error("{path} cannot be read: {reason}; expected {expected}")]
    Unreadable { path: String, reason: String, expected: &'static str },
    #[error("option {option}: {value} is unfit; expected {expected}")]
    UnfitOption { option: &'static str, value: String, expected: &'static str },
    #[error(
        "option server: every tool of the source has a server of its own, so {value} would be used for none; leave it out"
    )]
    UnusedServer { value: String },
    #[error("importer {importer} needs a source; expected {expected}")]
    SourceMissing { importer: &'static str, expected: &'static str },
    #[error("importer {importer} makes what it writes and reads nothing, but a source was given; leave it out")]
    SourceUnused { importer: &'static str },
    #[error("option {option} does not apply to importer {importer}; it belongs to {owner}, {importer} has {own}")]
    ForeignOption { option: &'static str, importer: &'static str, owner: &'static str, own: String },
    #[error("{path} exists; give another folder or `--overwrite`")]
    TargetExists { path: String },
    #[error("{path} holds no `dataset.toml`, so it is not replaced; give another folder")]
    TargetForeign { path: String },
    #[error(
        "{path} holds {files}, which this import does not write the same and would delete; move that away, or import into \
         another folder"
    )]
    TargetEdited { path: String, files: String },
    #[error("{path} cannot be written: {reason}; give a folder that can")]
    Unwritable { path: String, reason: String },
    #[error("not everything could be mapped:{findings}\n  mend the source or import without `--strict`")]
    Strict { findings: Findings },
    #[error("the source holds no tool or skill that could be imported:{findings}\n  nothing was written")]
    NoTools { findings: Findings },
    #[error("none of the servers could be listed:{findings}\n  mend the configuration; nothing was written")]
    NoServer { findings: Findings },
    #[error("what was imported does not load: {0}")]
    Invalid(#[from] LoadError),
}

/// The importer of that name.
pub fn find(name: &str) -> Result<&'static Importer, ImportError> {
    let names = || ALL.iter().map(|importer| importer.name).chain([mcp::NAME]);
    ALL.iter().find(|importer| importer.name == name).ok_or_else(|| ImportError::UnknownImporter {
        name: quote(name),
        hint: suggestion(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

impl Importer {
    /// Imports `source` into the folder `target`, which appears whole or not at all.
    pub fn import(&self, source: &Path, target: &Path, options: &ImportOptions) -> Result<ImportReport, ImportError> {
        self.run(Some(source), target, options)
    }

    /// [`Importer::import`] for importers that read nothing.
    pub fn generate(&self, target: &Path, options: &ImportOptions) -> Result<ImportReport, ImportError> {
        self.run(None, target, options)
    }

    fn run(&self, source: Option<&Path>, target: &Path, options: &ImportOptions) -> Result<ImportReport, ImportError> {
        let origin = Origin { name: self.name, server: self.server, licence: self.licence };
        let destination = Destination::new(origin, target, options)?;
        let mut findings = Findings::default();
        let mut foreign = match (&self.read, source) {
            (Read::Source(read), Some(source)) => read(source, &mut findings)?,
            (Read::Options(make), None) => make(options)?,
            (Read::Source(_), None) => {
                return Err(ImportError::SourceMissing { importer: self.name, expected: self.reads });
            }
            (Read::Options(_), Some(_)) => return Err(ImportError::SourceUnused { importer: self.name }),
        };
        for extra in &options.extras {
            extra.apply(&mut foreign);
        }
        destination.write(foreign, findings)
    }

    /// The options that only this importer has.
    pub fn extras(&self) -> impl Iterator<Item = Extra> {
        extras(self.name)
    }
}

fn extras(importer: &str) -> impl Iterator<Item = Extra> {
    Extra::ALL.into_iter().filter(move |extra| extra.importer() == importer)
}

/// What an importer says of the data where no option does.
#[derive(Clone, Copy, Debug)]
struct Origin {
    name: &'static str,
    server: &'static str,
    licence: &'static str,
}

/// A folder that may be written, and how: checked before anything is read, which may take long.
#[derive(Debug)]
struct Destination<'a> {
    importer: &'static str,
    name: &'a str,
    /// As given.
    server: Option<&'a str>,
    default_server: &'static str,
    licence: &'a str,
    target: &'a Path,
    strict: bool,
    extras: &'a BTreeSet<Extra>,
}

impl<'a> Destination<'a> {
    fn new(origin: Origin, target: &'a Path, options: &'a ImportOptions) -> Result<Self, ImportError> {
        let server = options.server.as_deref().unwrap_or(origin.server);
        if server.is_empty() || server_name(server) != server {
            return Err(ImportError::UnfitOption {
                option: "server",
                value: quote(server),
                expected: "lower-case letters, digits, `_` and `-`",
            });
        }
        let name = options.name.as_deref().unwrap_or(origin.name);
        if !is_dataset_name(name) {
            return Err(ImportError::UnfitOption { option: "name", value: quote(name), expected: DATASET_NAME });
        }
        refuse_foreign(origin.name, options)?;
        clear(target, options.overwrite)?;
        let licence = options.licence.as_deref().unwrap_or(origin.licence);
        Ok(Self {
            importer: origin.name,
            name,
            server: options.server.as_deref(),
            default_server: origin.server,
            licence,
            target,
            strict: options.strict,
            extras: &options.extras,
        })
    }

    /// Maps what was read and puts it in place.
    fn write(&self, foreign: Foreign, mut findings: Findings) -> Result<ImportReport, ImportError> {
        let Foreign { servers, tools, queries, skills, server, description } = foreign;
        self.refuse_unused(&tools)?;
        let server = self.server.or(server.as_deref()).unwrap_or(self.default_server);
        let tools = foreign::tools(tools, &servers, server, &mut findings);
        let (queries, qrels) = foreign::queries(queries, &tools, &mut findings);
        let skills = foreign::skills(skills, &tools, &mut findings);
        if self.strict && findings.lose_something() {
            return Err(ImportError::Strict { findings });
        }
        let servers = tools.servers;
        // Skills alone are a source, too.
        if skills.is_empty() && servers.iter().all(|(_, tools)| tools.is_empty()) {
            return Err(ImportError::NoTools { findings });
        }
        let told: Vec<_> = self.extras.iter().map(|extra| format!(" --{}", extra.as_str())).collect();
        let revision = if skills.is_empty() {
            Digest::of_json(&(&servers, &queries, &qrels))
        } else {
            Digest::of_json(&(&servers, &queries, &qrels, &skills))
        };
        let revision = revision.short().to_owned();
        let manifest = Manifest {
            format: FORMAT,
            name: self.name.to_owned(),
            revision,
            licence: self.licence.to_owned(),
            description: description.unwrap_or_else(|| format!("Imported with `{}{}`.", self.importer, told.concat())),
            canary: None,
            sizes: Vec::new(),
        };
        let report = ImportReport {
            servers: servers.len(),
            tools: servers.iter().map(|(_, tools)| tools.len()).sum(),
            queries: queries.len(),
            no_tool_queries: queries.iter().filter(|query| query.kind == "no_tool").count(),
            labels: qrels.len(),
            skills: skills.len(),
            own_candidates: queries.iter().filter(|query| query.candidates.is_some()).count(),
            can_pool: extras(self.importer).any(|extra| extra == Extra::Pooled)
                && !self.extras.contains(&Extra::Pooled),
            findings,
        };
        place(&Draft { manifest, servers, skills, queries, qrels }, self.target)?;
        Ok(report)
    }
}

impl Destination<'_> {
    /// A server that no tool would be on.
    fn refuse_unused(&self, tools: &[ForeignTool]) -> Result<(), ImportError> {
        // Of one live server it is the namespace.
        let Some(server) = self.server.filter(|_| self.importer != mcp::NAME && !tools.is_empty()) else {
            return Ok(());
        };
        let named = |tool: &ForeignTool| tool.namespace.as_deref().is_some_and(|name| !server_name(name).is_empty());
        if tools.iter().all(named) { Err(ImportError::UnusedServer { value: quote(server) }) } else { Ok(()) }
    }
}

fn refuse_foreign(importer: &'static str, options: &ImportOptions) -> Result<(), ImportError> {
    let makes = importer == synth::IMPORTER.name;
    let made =
        [("tools", options.tools.is_some()), ("skills", options.skills.is_some()), ("seed", options.seed.is_some())];
    let made = made.into_iter().filter(|&(_, given)| given && !makes).map(|(option, _)| (option, synth::IMPORTER.name));
    let given = options.extras.iter().filter(|extra| extra.importer() != importer);
    let mut foreign = made.chain(given.map(|extra| (extra.as_str(), extra.importer())));
    let Some((option, owner)) = foreign.next() else { return Ok(()) };
    let own: Vec<_> =
        if makes { vec!["tools", "skills", "seed"] } else { extras(importer).map(Extra::as_str).collect() };
    Err(ImportError::ForeignOption {
        option,
        importer,
        owner,
        own: if own.is_empty() { "no option of its own".to_owned() } else { own.join(" and ") },
    })
}

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;
