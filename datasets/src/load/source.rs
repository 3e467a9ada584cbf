//! Files, their lines, and the place of everything in them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::error::Category;

use super::Checker;
use super::part::{column, text_of};
use crate::problem::{Position, Problem, characters, quote, suggestion};

/// One file of a dataset, read whole.
pub(super) struct Source {
    /// Path below the dataset folder.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl Source {
    /// Reads a file that has to be there; reports it and returns `None` otherwise.
    pub(super) fn read(dir: &Path, name: &str, check: &mut Checker) -> Option<Self> {
        match Self::open(dir, name) {
            Ok(source) => Some(source),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check.report(Problem::error(name, "no such file").expected("it, even if it is empty (see FORMAT.md)"));
                None
            }
            Err(error) => {
                check.report(Problem::error(name, &format!("cannot be read: {error}")).expected("a readable file"));
                None
            }
        }
    }

    /// Reads a file that may be absent.
    pub(super) fn read_optional(dir: &Path, name: &str, check: &mut Checker) -> Option<Self> {
        if fs::symlink_metadata(dir.join(name)).is_ok() { Self::read(dir, name, check) } else { None }
    }

    fn open(dir: &Path, name: &str) -> io::Result<Self> {
        Ok(Self { name: name.to_owned(), bytes: read_bytes(&dir.join(name))? })
    }

    /// Parses every line that is not blank. `key` is the field that names what a line describes.
    pub(super) fn rows<'a, T: Deserialize<'a>>(&'a self, key: &str, check: &mut Checker) -> Rows<'a, T> {
        let mut rows = Rows { rows: Vec::new(), broken: HashSet::new() };
        for (index, bytes) in self.bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = index + 1;
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let text = match std::str::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => {
                    let valid = error.valid_up_to();
                    let column = characters(&bytes[..valid]) + 1;
                    let problem = Problem::error(&self.name, &format!("byte 0x{:02x} is not UTF-8", bytes[valid]));
                    check.report(problem.at(Position { line, column }).expected("a file saved as UTF-8"));
                    continue;
                }
            };
            if text.trim().is_empty() {
                continue;
            }
            match parse(text) {
                Ok(value) => rows.rows.push(Row { file: &self.name, line, text, value }),
                Err(fault) => {
                    rows.broken.extend(salvage(text, key));
                    check.report(fault.at(&self.name, line));
                }
            }
        }
        rows
    }
}

/// The bytes of a regular file without its byte order mark.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe or a device would never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = fs::read(path)?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// The lines of a file that could be read, and the names of those that could not.
pub(super) struct Rows<'a, T> {
    pub(super) rows: Vec<Row<'a, T>>,
    /// What references may name without a second complaint.
    pub(super) broken: HashSet<String>,
}

/// A parsed line.
pub(super) struct Row<'a, T> {
    pub(super) file: &'a str,
    pub(super) line: usize,
    text: &'a str,
    pub(super) value: T,
}

impl<T> Row<'_, T> {
    /// A problem at what a path through this line leads to (see [`column`]), or at its start.
    pub(super) fn problem(&self, path: &[&str], message: &str) -> Problem {
        let column = column(self.text, path).unwrap_or(1);
        Problem::error(self.file, message).at(Position { line: self.line, column })
    }
}

/// Why a text is not the value it should be.
struct Fault {
    /// From 1, in characters.
    column: usize,
    message: String,
    accepted: Option<String>,
}

impl Fault {
    fn at(self, file: &str, line: usize) -> Problem {
        let problem = Problem::error(file, &self.message).at(Position { line, column: self.column });
        match self.accepted {
            Some(accepted) => problem.expected(&accepted),
            None => problem,
        }
    }
}

/// A line as the loader reads it; `None` where it would report it.
pub(crate) fn parse_line<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    parse(text).ok()
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    let mut json = serde_json::Deserializer::from_str(text);
    // A struct would also be read from an array of its fields.
    let read = if text.trim_start().starts_with('{') {
        serde_path_to_error::deserialize(&mut json)
            .map_err(|error| (error.path().to_string(), error.into_inner()))
            .and_then(|value| json.end().map(|()| value).map_err(|error| (String::new(), error)))
    } else {
        let column = characters(&text.as_bytes()[..text.len() - text.trim_start().len()]) + 1;
        return Err(Fault {
            column,
            message: "no JSON object".to_owned(),
            accepted: Some("one JSON object per line".to_owned()),
        });
    };
    read.map_err(|(path, error)| {
        let column = characters(&text.as_bytes()[..error.column().saturating_sub(1).min(text.len())]) + 1;
        let message = error.to_string();
        // Lines are parsed one by one, so serde_json's own position says "line 1".
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        if error.classify() == Category::Data {
            let (message, accepted) = explain(&path, message);
            Fault { column, message, accepted }
        } else {
            let message = format!("malformed JSON: {message}");
            Fault { column, message, accepted: Some("one JSON object per line".to_owned()) }
        }
    })
}

/// Turns what serde says about a value at `path` into our words: message and what is accepted.
pub(super) fn explain(path: &str, message: &str) -> (String, Option<String>) {
    let (message, accepted) = match message.split_once(", expected ") {
        Some((message, "i64" | "u32" | "usize")) => (message, Some("an integer".to_owned())),
        Some((message, accepted)) => (message, Some(accepted.to_owned())),
        None => (message, None),
    };
    let message = message.replace(" field `", " key `");
    if let Some(name) = message.strip_prefix("unknown key `").and_then(|rest| rest.strip_suffix('`')) {
        let known = accepted.iter().flat_map(|text| text.split('`').skip(1).step_by(2));
        return (format!("unknown key {}{}", quote(name), suggestion(name, known)), accepted);
    }
    // `.` is the whole line, `?` a path that was lost.
    let place = if matches!(path, "" | "." | "?") { String::new() } else { format!("`{path}`: ") };
    (format!("{place}{message}"), accepted)
}

/// The text value of a key in a line that cannot be read as a whole.
fn salvage(text: &str, key: &str) -> Option<String> {
    if let Some(found) = text_of(text, key) {
        return Some(found);
    }
    // It may stand behind what is broken.
    let (_, rest) = text.split_once(&format!("\"{key}\""))?;
    let rest = rest.trim_start().strip_prefix(':')?;
    serde_json::Deserializer::from_str(rest).into_iter::<String>().next()?.ok()
}
