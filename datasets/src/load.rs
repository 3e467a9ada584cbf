//! From a folder to a [`Dataset`], or to every problem in it at once.
//!
//! A line that cannot be read is reported and set aside; what it would have named still counts as known, so that one slip
//! does not raise a problem in every line that refers to it. Blank lines are allowed, as are a byte order mark and CRLF.

mod catalogue;
mod part;
mod queries;
mod source;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use harness::catalogue::Catalogue;
use harness::dataset::{Dataset, DatasetParts, Qrels};
use serde::de::DeserializeOwned;

use crate::lint::invisible;
use crate::problem::{Position, Problem, Problems, characters, has_hidden, printable, quote, suggestion};
use crate::scale;
use crate::wire::{FORMAT, Manifest};
pub(crate) use catalogue::{list, skill_fault, takes};
pub(crate) use part::column;
use source::{Row, Source, explain};
pub(crate) use source::{parse_line, read_bytes};

/// Longest identifier, in characters.
pub const MAX_ID: usize = 200;
/// Names are looked up among thousands, so a file full of unknown ones gets suggestions for the first only.
const SUGGESTIONS: usize = 40;

/// Files in the order in which a reader should mend them.
const FILES: [&str; 7] =
    ["dataset.toml", "servers.jsonl", "tools", "skills.jsonl", "actors.jsonl", "queries.jsonl", "qrels.jsonl"];

/// No dataset came of the folder.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{dir} cannot be opened: {reason}; give the folder that holds `dataset.toml`")]
    Unreadable { dir: String, reason: String },
    #[error(
        "{dir} is no dataset: it holds no `dataset.toml`; give the folder that does, or make a dataset of other files \
         with `toolgauge import`"
    )]
    NoDataset { dir: String },
    #[error("dataset {dir} has {problems}")]
    Invalid { dir: String, problems: Problems },
}

/// Reads and checks the dataset in `dir`. All problems of all files are collected before it fails.
pub fn load(dir: &Path) -> Result<Dataset, LoadError> {
    let (dataset, problems) = read(dir)?;
    if problems.is_empty() {
        Ok(dataset)
    } else {
        Err(LoadError::Invalid { dir: printable(dir), problems: Problems(problems) })
    }
}

/// The dataset in `dir` as far as it can be read, and every problem in it in reading order.
pub(crate) fn read(dir: &Path) -> Result<(Dataset, Vec<Problem>), LoadError> {
    let unreadable = |reason: String| LoadError::Unreadable { dir: printable(dir), reason };
    let folder = fs::metadata(dir).map_err(|error| unreadable(error.to_string()))?;
    if !folder.is_dir() {
        return Err(unreadable("it is no folder".to_owned()));
    }
    let entries = list(dir).map_err(|error| unreadable(error.to_string()))?;
    if !entries.iter().any(|name| name == FILES[0]) {
        return Err(LoadError::NoDataset { dir: printable(dir) });
    }

    let mut check = Checker::default();
    check.misnamed(&entries);
    let manifest = Source::read(dir, FILES[0], &mut check);
    let header = manifest.as_ref().and_then(|source| header(source, &mut check));
    let servers = catalogue::servers(dir, &mut check);
    let tools = catalogue::tools(dir, &servers, &mut check);
    let actors = catalogue::actors(dir, &tools, &mut check);
    let skills = catalogue::skills(dir, &tools, &actors, &mut check);
    let (queries, qrels) = queries::read(dir, &tools, &actors, &mut check);

    let header = header.unwrap_or_else(|| Manifest {
        format: FORMAT,
        name: String::new(),
        revision: String::new(),
        licence: String::new(),
        description: String::new(),
        canary: None,
        sizes: Vec::new(),
    });
    let catalogue =
        Catalogue::new(servers.list, tools.list, skills).expect("what occurs twice was reported and set aside");
    let dataset = Dataset::new(DatasetParts {
        name: header.name,
        revision: header.revision,
        licence: header.licence,
        sizes: header.sizes,
        catalogue,
        actors: actors.list,
        queries,
        qrels: Qrels::new(qrels),
    });
    if let Some(source) = &manifest {
        sizes(source, &dataset, &mut check);
    }
    Ok((dataset, check.finish()))
}

/// Collects problems.
struct Checker {
    problems: Vec<Problem>,
    suggestions_left: usize,
}

impl Default for Checker {
    fn default() -> Self {
        Self { problems: Vec::new(), suggestions_left: SUGGESTIONS }
    }
}

impl Checker {
    fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Known names like `name`, as the end of a message.
    fn suggest<S: AsRef<str>>(&mut self, name: &str, known: impl Iterator<Item = S>) -> String {
        if self.suggestions_left == 0 {
            return String::new();
        }
        self.suggestions_left -= 1;
        let known: Vec<S> = known.collect();
        suggestion(name, known.iter().map(AsRef::as_ref))
    }

    /// Whether a text can be an identifier.
    fn id<T>(&mut self, row: &Row<T>, key: &str, text: &str) -> bool {
        let Some(fault) = id_fault(text) else { return true };
        let problem = row.problem(&[key], &format!("`{key}` {} {fault}", quote(text)));
        self.report(problem.expected(&format!("1 to {MAX_ID} printable characters")));
        false
    }

    /// Whether a text that a person or model reads says anything.
    fn text<T>(&mut self, row: &Row<T>, key: &str, text: &str) {
        if text.trim().is_empty() {
            self.report(row.problem(&[key], &format!("`{key}` is blank")).expected("some text"));
        }
    }

    /// Whether `id`, the value of the key, is new among the `seen`, which map to the line of their first use.
    fn unique<T>(
        &mut self,
        row: &Row<T>,
        (key, what): (&str, &str),
        id: &str,
        seen: &mut HashMap<String, usize>,
    ) -> bool {
        if let Some(first) = seen.get(id) {
            let message = format!("{what} {} occurs twice, first on line {first}", quote(id));
            self.report(row.problem(&[key, id], &message).expected("each one once"));
            return false;
        }
        seen.insert(id.to_owned(), row.line);
        true
    }

    /// A misspelt optional file would be passed over in silence.
    fn misnamed(&mut self, entries: &[String]) {
        let data = |name: &&String| Path::new(name).extension().is_some_and(|extension| extension == "jsonl");
        for name in entries.iter().filter(data).filter(|name| !FILES.contains(&name.as_str())) {
            let hint = suggestion(name, FILES.into_iter());
            self.report(Problem::error(name, &format!("no part of a dataset{hint}")).expected(&FILES.join(", ")));
        }
    }

    /// The problems in reading order.
    fn finish(mut self) -> Vec<Problem> {
        self.problems.sort_by(|left, right| {
            let rank = |problem: &Problem| reading_rank(&problem.file);
            (rank(left), &left.file, left.position).cmp(&(rank(right), &right.file, right.position))
        });
        self.problems
    }
}

/// Where a file stands among those of a dataset; what is none of them comes first.
pub(crate) fn reading_rank(file: &str) -> Option<usize> {
    FILES.iter().position(|known| file.starts_with(known))
}

/// Why a text cannot be an identifier.
pub(crate) fn id_fault(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        Some("is blank")
    } else if text.chars().count() > MAX_ID {
        Some("is too long")
    } else if has_hidden(text) || !invisible(text).is_empty() || text.trim() != text {
        Some("holds characters that do not show")
    } else {
        None
    }
}

/// What [`is_dataset_name`] accepts.
pub(crate) const DATASET_NAME: &str = "lower-case letters, digits and `-`";

pub(crate) fn is_dataset_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_ID).contains(&name.len()) && name.bytes().all(plain)
}

/// A TOML file as a value, with its text.
pub(crate) fn parse_toml<'a, T: DeserializeOwned>(name: &str, bytes: &'a [u8]) -> Result<(&'a str, T), Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let place = Position::of_byte(bytes, error.valid_up_to());
        Problem::error(name, "not UTF-8").at(place).expected("a file saved as UTF-8")
    })?;
    let value = toml::from_str(text).map_err(|error| {
        let place = Position::of_byte(bytes, error.span().map_or(0, |span| span.start));
        let (message, accepted) = explain("", error.message());
        let problem = Problem::error(name, &message).at(place);
        match accepted {
            Some(accepted) => problem.expected(&accepted),
            None => problem,
        }
    })?;
    Ok((text, value))
}

/// Reads and checks `dataset.toml`.
fn header(source: &Source, check: &mut Checker) -> Option<Manifest> {
    let (text, manifest) = match parse_toml::<Manifest>(&source.name, &source.bytes) {
        Ok(parsed) => parsed,
        Err(problem) => {
            check.report(problem);
            return None;
        }
    };
    let mut fault = |key: &str, message: &str, accepted: &str| {
        check.report(Problem::error(&source.name, message).at(key_position(text, key)).expected(accepted));
    };
    if manifest.format != FORMAT {
        fault("format", &format!("format {} is unknown", manifest.format), "1");
    }
    if !is_dataset_name(&manifest.name) {
        fault("name", &format!("name {} is unfit", quote(&manifest.name)), DATASET_NAME);
    }
    for (key, value) in [
        ("revision", Some(&manifest.revision)),
        ("licence", Some(&manifest.licence)),
        ("description", Some(&manifest.description)),
        ("canary", manifest.canary.as_ref()),
    ] {
        if value.is_some_and(|value| value.trim().is_empty()) {
            fault(key, &format!("{key} is blank"), "some text");
        }
    }
    if manifest.sizes.first() == Some(&0) || !manifest.sizes.is_sorted_by(|left, right| left < right) {
        fault("sizes", "sizes do not rise", "positive numbers, each larger than the one before");
    }
    Some(manifest)
}

/// Every size has to exist, and what the scaling queries need has to fit into the smallest.
fn sizes(source: &Source, dataset: &Dataset, check: &mut Checker) {
    let place = key_position(&String::from_utf8_lossy(&source.bytes), "sizes");
    let mut fault = |message: &str, accepted: &str| {
        check.report(Problem::error(&source.name, message).at(place).expected(accepted));
    };
    let tools = dataset.catalogue.tools.len();
    if let Some(&largest) = dataset.sizes.iter().max().filter(|&&size| size > tools) {
        fault(&format!("size {largest} is larger than the catalogue"), &format!("at most its {tools} tools"));
    }
    let anchored = scale::anchored(dataset).len();
    if let Some(&smallest) = dataset.sizes.iter().min().filter(|&&size| size < anchored) {
        fault(
            &format!("the core tools and the tools of scaling queries do not fit into size {smallest}"),
            &format!("at least {anchored}, or fewer tools labelled by scaling queries"),
        );
    }
}

/// Where a key of a TOML file is set, or the start of the file.
fn key_position(text: &str, key: &str) -> Position {
    let sets = |line: &str| {
        let rest = line.trim_start().strip_prefix(key)?;
        rest.trim_start().starts_with('=').then(|| characters(&line.as_bytes()[..line.len() - line.trim_start().len()]))
    };
    let mut places = text.lines().enumerate().filter_map(|(index, line)| Some((index + 1, sets(line)? + 1)));
    let (line, column) = places.next().unwrap_or((1, 1));
    Position { line, column }
}

#[cfg(test)]
mod tests;
