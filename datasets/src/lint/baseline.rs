//! What a dataset means to have: accepted findings, each with the reason.

use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::places::Place;
use super::rules::{LOAD, RULES, Rule, STALE_ACCEPTANCE, find};
use super::{Finding, SUBJECT};
use crate::load::{parse_toml, read_bytes};
use crate::problem::{Position, Problem, Problems, clean, clean_up_to, printable, quote, suggestion};

/// The file in a dataset folder that holds its baseline.
pub const BASELINE: &str = "lint.toml";
/// Accepts a rule wherever it finds something.
const EVERYWHERE: &str = "*";

/// A finding that the baseline accepts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accepted {
    #[serde(flatten)]
    pub finding: Finding,
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    accept: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rule: Spanned<String>,
    subject: String,
    why: String,
}

/// A checked entry.
struct Acceptance {
    rule: &'static Rule,
    subject: String,
    why: String,
    place: Place,
}

#[derive(Default)]
pub(super) struct Baseline {
    /// `None`: there is none.
    pub(super) name: Option<String>,
    entries: Vec<Acceptance>,
}

impl Baseline {
    /// Reads the file given, which has to be there, or that of the dataset, which need not.
    pub(super) fn read(dir: &Path, given: Option<&Path>) -> Result<Self, Problems> {
        let name = given.map_or(BASELINE.to_owned(), printable);
        let path = given.map_or_else(|| dir.join(BASELINE), Path::to_path_buf);
        if given.is_none() && std::fs::symlink_metadata(&path).is_err() {
            return Ok(Self::default());
        }
        let bytes = read_bytes(&path).map_err(|error| {
            let problem = Problem::error(&name, &format!("cannot be read: {error}"));
            Problems(vec![problem.expected("a TOML file of [[accept]] entries")])
        })?;
        let (_, File { accept }) = parse_toml::<File>(&name, &bytes).map_err(|problem| Problems(vec![problem]))?;
        let mut problems = Vec::new();
        let mut entries = Vec::new();
        for entry in accept {
            let position = Position::of_byte(&bytes, entry.rule.span().start);
            match entry.check(&name, position) {
                Ok(acceptance) => entries.push(acceptance),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(Self { name: Some(name), entries }) } else { Err(Problems(problems)) }
    }

    /// Parts findings into those that stand and those that are accepted. An entry that accepts nothing becomes a finding, if
    /// everything was looked at.
    pub(super) fn apply(&self, findings: Vec<Finding>, complete: bool) -> (Vec<Finding>, Vec<Accepted>) {
        let mut used = vec![false; self.entries.len()];
        let (mut open, mut accepted) = (Vec::new(), Vec::new());
        for finding in findings {
            let fits = |entry: &Acceptance| {
                *entry.rule == *finding.rule && (entry.subject == EVERYWHERE || entry.subject == finding.subject)
            };
            match self.entries.iter().position(fits) {
                Some(index) => {
                    used[index] = true;
                    accepted.push(Accepted { finding, why: self.entries[index].why.clone() });
                }
                None => open.push(finding),
            }
        }
        let stale = self.entries.iter().zip(used).filter(|(_, used)| complete && !used);
        open.extend(stale.map(|(entry, _)| Finding {
            rule: &STALE_ACCEPTANCE,
            subject: entry.subject.clone(),
            place: entry.place.clone(),
            message: clean(&format!("nothing is left of {} for it to accept", entry.rule.id)),
        }));
        (open, accepted)
    }
}

impl Entry {
    fn check(self, name: &str, position: Position) -> Result<Acceptance, Problem> {
        let Self { rule, subject, why } = self;
        let rule = rule.into_inner();
        let fault = |message: &str, expected: &str| Problem::error(name, message).at(position).expected(expected);
        let Some(known) = find(&rule) else {
            let hint = suggestion(&rule, RULES.iter().map(|rule| rule.id));
            return Err(fault(
                &format!("rule {} does not exist{hint}", quote(&rule)),
                "an id of LINT.md such as `TG204`",
            ));
        };
        if [&LOAD, &STALE_ACCEPTANCE].contains(&known) {
            return Err(fault(&format!("{} cannot be accepted", known.id), "the finding mended"));
        }
        if why.trim().is_empty() {
            return Err(fault("`why` is blank", "the reason, for whoever reads it next"));
        }
        let place = Place { file: name.to_owned(), position: Some(position) };
        Ok(Acceptance { rule: known, subject: clean_up_to(SUBJECT, &subject), why: clean(&why), place })
    }
}
