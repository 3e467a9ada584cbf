//! What the format allows and a measurement or an endpoint suffers from.
//!
//! [`lint()`] reads a dataset as far as it can be read, so that it also helps with one that does not load. Every [`Finding`]
//! belongs to a [`Rule`]; rules are explained in `LINT.md` beside the format. Findings that a dataset means to have are
//! accepted, each with its reason, in a baseline file.

mod alike;
mod baseline;
mod gold;
mod invisible;
mod names;
mod places;
mod queries;
mod rules;
mod sarif;
mod schema;
mod skills;
mod text;
mod tools;
mod weight;

use std::path::Path;

use harness::catalogue::Tool;
use harness::dataset::Dataset;
use serde::{Serialize, Serializer};

pub use baseline::{Accepted, BASELINE};
pub(crate) use invisible::invisible;
pub use places::Place;
pub use rules::{Level, RULES, Rule};
pub use sarif::sarif;
pub use text::text;
pub use weight::Weight;

use crate::load::{LoadError, read, reading_rank};
use crate::problem::{Problem, Problems, clean, clean_up_to};
use baseline::Baseline;
use places::Places;

/// Longest subject, in characters: two tools, each with its server.
const SUBJECT: usize = 1000;

/// Nothing could be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LintError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the baseline has {0}")]
    Baseline(Problems),
}

/// One thing found. All texts are safe to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static Rule,
    /// What it is about, by ids that survive an edit: `server/tool`, `server/tool ~ server/tool`, a query, an actor, a file.
    pub subject: String,
    pub place: Place,
    pub message: String,
}

impl Serialize for Finding {
    /// Flat, with what a reader without the table of rules needs.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            rule: &'a str,
            name: &'a str,
            level: Level,
            subject: &'a str,
            file: &'a str,
            line: Option<usize>,
            column: Option<usize>,
            message: &'a str,
            fix: &'a str,
        }
        let Rule { id, name, level, fix, .. } = self.rule;
        let position = self.place.position;
        let flat = Flat {
            rule: id,
            name,
            level: *level,
            subject: &self.subject,
            file: &self.place.file,
            line: position.map(|position| position.line),
            column: position.map(|position| position.column),
            message: &self.message,
            fix,
        };
        flat.serialize(serializer)
    }
}

/// Everything found in a dataset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Linted {
    /// By file and line, without what the baseline accepts.
    pub findings: Vec<Finding>,
    pub accepted: Vec<Accepted>,
    /// Parts could not be read: rules that look at several files at once were left out.
    pub incomplete: bool,
    /// The baseline, as it was named.
    pub baseline: Option<String>,
    pub weight: Weight,
}

impl Linted {
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.rule.level == level).count()
    }
}

/// Looks for everything in the dataset in `dir`. Without a `baseline` the dataset's own [`BASELINE`] counts, if it has one.
pub fn lint(dir: &Path, baseline: Option<&Path>) -> Result<Linted, LintError> {
    let (dataset, problems) = read(dir)?;
    let baseline = Baseline::read(dir, baseline).map_err(LintError::Baseline)?;
    // What a rule knows by name was read all the same.
    let incomplete = problems.iter().any(|problem| problem.rule.is_none());
    let mut linter = Linter { dataset: &dataset, places: Places::read(dir, &dataset), findings: Vec::new() };
    let weights = weight::of_tools(&dataset.catalogue);
    names::check(&mut linter);
    tools::check(&mut linter);
    alike::check(&mut linter);
    schema::check(&mut linter);
    weight::check(&mut linter, &weights);
    if !incomplete {
        skills::check(&mut linter);
        queries::check(&mut linter);
        gold::check(&mut linter);
    }
    let (mut findings, accepted) = baseline.apply(linter.findings, !incomplete);
    // Accepting them would not make the dataset load.
    findings.extend(problems.into_iter().map(refused));
    findings.sort_by(|left, right| order(left).cmp(&order(right)));
    Ok(Linted { findings, accepted, incomplete, baseline: baseline.name, weight: Weight::new(&dataset, &weights) })
}

/// Reading order. The baseline is no file of a dataset and comes first.
fn order(finding: &Finding) -> impl Ord + '_ {
    let Place { file, position } = &finding.place;
    (reading_rank(file), file, *position, finding.rule.id, &finding.subject, &finding.message)
}

/// A dataset under inspection.
struct Linter<'d> {
    dataset: &'d Dataset,
    places: Places,
    findings: Vec<Finding>,
}

impl Linter<'_> {
    fn add(&mut self, rule: &'static Rule, subject: &str, place: Place, message: &str) {
        let subject = clean_up_to(SUBJECT, subject);
        self.findings.push(Finding { rule, subject, place, message: clean(message) });
    }

    /// A finding about a tool, at a key of its line.
    fn tool(&mut self, rule: &'static Rule, tool: &Tool, key: &str, message: &str) {
        let place = self.places.tool(&tool.id, key);
        self.add(rule, &tool.id.to_string(), place, message);
    }
}

/// A problem of the loader as a finding. Its texts are printable already.
fn refused(problem: Problem) -> Finding {
    let Problem { file, position, message, accepted, rule, .. } = problem;
    let message = match accepted {
        Some(accepted) => format!("{message}; expected {accepted}"),
        None => message,
    };
    let rule = rule.and_then(rules::find).unwrap_or(&rules::LOAD);
    Finding { rule, subject: file.clone(), place: Place { file, position }, message }
}

/// `1 tool`, `2 tools`.
fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// Up to three of them, and how many more there are. Only what is shown is made.
fn some(items: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 3;
    let more = items.len().saturating_sub(SHOWN);
    let shown = items.take(SHOWN).collect::<Vec<_>>().join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
