//! Reading foreign files: a file that cannot be read stops the import, an entry that cannot be read is listed.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::report::{Findings, Trouble};
use super::{ImportError, numbers};
use crate::load::list;
use crate::problem::{Position, characters, clean, printable};
use crate::unique;

/// Largest file that is read into memory, in bytes.
const FILE: u64 = 1 << 30;
/// Longest entry, in bytes: a server with two hundred embedded tools stays below.
pub(super) const ENTRY: usize = 32 << 20;
/// How deep folders are searched.
const DEPTH: usize = 4;

/// The bytes of a file.
pub(super) fn bytes(path: &Path, expected: &'static str) -> Result<Vec<u8>, ImportError> {
    let unreadable = |reason: String| ImportError::Unreadable { path: printable(path), reason, expected };
    let file = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    // A pipe or a device would never end.
    if !file.is_file() {
        return Err(unreadable("it is no file".to_owned()));
    }
    if file.len() > FILE {
        return Err(unreadable(format!("it has {} bytes, more than {FILE}", file.len())));
    }
    fs::read(path).map_err(|error| unreadable(error.to_string()))
}

/// The text of a file, without a byte order mark.
pub(super) fn text(path: &Path, expected: &'static str) -> Result<String, ImportError> {
    let text = String::from_utf8(bytes(path, expected)?).map_err(|error| {
        let Position { line, column } = Position::of_byte(error.as_bytes(), error.utf8_error().valid_up_to());
        let reason = format!("it is not UTF-8 at {line}:{column}");
        ImportError::Unreadable { path: printable(path), reason, expected }
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// A file of one JSON value.
pub(super) fn json<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, ImportError> {
    let text = text(path, expected)?;
    serde_json::from_str(&text).map_err(|error| malformed(path, &error, expected))
}

/// A file of one JSON value that is kept as it is, such as a schema; see [`value`].
pub(super) fn json_value(path: &Path, expected: &'static str, findings: &mut Findings) -> Result<Value, ImportError> {
    let text = text(path, expected)?;
    value(path, &text, findings).map_err(|error| malformed(path, &error, expected))
}

/// JSON that is kept as it is. A repeated key and a number that cannot be kept exactly are listed, the first of a text: to a
/// reader of the source they may say something else than to one of the dataset.
pub(super) fn value(path: &Path, text: &str, findings: &mut Findings) -> serde_json::Result<Value> {
    let value = match unique::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let value = serde_json::from_str(text)?;
            findings.add(Trouble::RepeatedKey, &format!("{}: {error}", name(path)));
            value
        }
    };
    let inexact = numbers::inexact(text);
    if let Some((first, rest)) = inexact.split_first() {
        let at = Position::of_byte(text.as_bytes(), first.start);
        let example = format!("{}:{}:{}: {}", name(path), at.line, at.column, &text[first.clone()]);
        findings.add_many(Trouble::InexactNumber, rest.len() + 1, &example);
    }
    Ok(value)
}

fn malformed(path: &Path, error: &serde_json::Error, expected: &'static str) -> ImportError {
    ImportError::Unreadable { path: printable(path), reason: clean(&error.to_string()), expected }
}

/// The entries of a JSON array that are of type `T`.
pub(super) fn entries<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
    findings: &mut Findings,
) -> Result<Vec<T>, ImportError> {
    entries_of(path, &text(path, expected)?, expected, findings)
}

/// The lines of a JSONL file that are of type `T`.
pub(super) fn lines<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
    findings: &mut Findings,
) -> Result<Vec<T>, ImportError> {
    Ok(lines_of(path, &text(path, expected)?, findings))
}

/// The lines of a JSONL file that are of type `T`, and whether that is all of them.
pub(super) fn whole_lines<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
    findings: &mut Findings,
) -> Result<(Vec<T>, bool), ImportError> {
    let text = text(path, expected)?;
    let read = lines_of(path, &text, findings);
    let all = text.lines().filter(|line| !line.trim().is_empty()).count() == read.len();
    Ok((read, all))
}

/// The entries of a file that is either a JSON array or JSONL.
pub(super) fn records<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
    findings: &mut Findings,
) -> Result<Vec<T>, ImportError> {
    let text = text(path, expected)?;
    if text.trim_start().starts_with('[') {
        entries_of(path, &text, expected, findings)
    } else {
        Ok(lines_of(path, &text, findings))
    }
}

fn entries_of<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    expected: &'static str,
    findings: &mut Findings,
) -> Result<Vec<T>, ImportError> {
    // Each entry stays text until its turn: as values, a file of embeddings would take many times its size.
    let raw: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| malformed(path, &error, expected))?;
    // The place of the last entry that was bad, so that finding all places takes one walk through the file.
    let (mut offset, mut place) = (0, Position { line: 1, column: 1 });
    let mut read = Vec::with_capacity(raw.len());
    for entry in raw.into_iter().map(RawValue::get) {
        match parse(entry) {
            Ok(entry) => read.push(entry),
            Err((inner, reason)) => {
                let start = entry.as_ptr().addr() - text.as_ptr().addr();
                place = after(place, Position::of_byte(&text.as_bytes()[offset..start], start));
                offset = start;
                let Position { line, column } = after(place, inner);
                unreadable(path, &format!("{line}:{column}"), &reason, findings);
            }
        }
    }
    Ok(read)
}

/// The place `inner` of a text that starts at `start`.
fn after(start: Position, inner: Position) -> Position {
    let Position { line, column } = inner;
    if line == 1 {
        Position { line: start.line, column: start.column + column - 1 }
    } else {
        Position { line: start.line + line - 1, column }
    }
}

fn lines_of<T: DeserializeOwned>(path: &Path, text: &str, findings: &mut Findings) -> Vec<T> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.filter_map(|(index, line)| {
        let listed = |(place, reason): (Position, String)| {
            unreadable(path, &format!("{}:{}", index + 1, place.column), &reason, findings);
        };
        parse(line).map_err(listed).ok()
    });
    read.collect()
}

/// One entry, or where in it and why it cannot be read.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, (Position, String)> {
    if text.len() > ENTRY {
        let reason = format!("it has {} bytes, more than {ENTRY}", text.len());
        return Err((Position { line: 1, column: 1 }, reason));
    }
    serde_json::from_str(text).map_err(|error| {
        let reason = error.to_string();
        let suffix = format!(" at line {} column {}", error.line(), error.column());
        let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default().as_bytes();
        // The parser counts the bytes read when it noticed.
        let column = characters(&line[..error.column().min(line.len())]).max(1);
        let place = Position { line: error.line().max(1), column };
        (place, reason.strip_suffix(&suffix).unwrap_or(&reason).to_owned())
    })
}

/// Lists an entry that cannot be read.
pub(super) fn unreadable(path: &Path, place: &str, reason: &str, findings: &mut Findings) {
    findings.add(Trouble::UnreadableEntry, &format!("{}:{place}: {reason}", name(path)));
}

/// Lists one file of many that cannot be read, by its place below the source: the others can.
pub(super) fn passed_over(place: &str, error: &ImportError, findings: &mut Findings) {
    let reason = match error {
        ImportError::Unreadable { reason, .. } => reason.clone(),
        other => other.to_string(),
    };
    findings.add(Trouble::UnreadableFile, &format!("{place}: {reason}"));
}

/// The last part of a path.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether the name of a file has this ending.
pub(super) fn ends(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == ending)
}

/// Whether an optional part of the source is there; lists it if not.
pub(super) fn present(dir: &Path, name: &str, findings: &mut Findings) -> bool {
    let present = dir.join(name).exists();
    if !present {
        findings.add(Trouble::FileLeftOut, &format!("{name} (missing)"));
    }
    present
}

/// Lists files of a folder that could hold data but are not read.
pub(super) fn left_out(dir: &Path, folder: &str, is_left_out: impl Fn(&str) -> bool, findings: &mut Findings) {
    for name in list(&dir.join(folder)).unwrap_or_default().iter().filter(|name| is_left_out(name)) {
        findings.add(Trouble::FileLeftOut, &Path::new(folder).join(name).to_string_lossy());
    }
}

/// The first of some folders below `source`, itself among them, for which `fits` holds.
pub(super) fn folder(
    source: &Path,
    below: &[&str],
    expected: &'static str,
    fits: impl Fn(&Path) -> bool,
) -> Result<PathBuf, ImportError> {
    let mut folders = below.iter().map(|folder| source.join(folder)).chain([source.to_owned()]);
    folders.find(|folder| fits(folder)).ok_or_else(|| {
        let reason = match fs::metadata(source) {
            Err(error) => error.to_string(),
            Ok(found) if found.is_dir() => "it holds no such files".to_owned(),
            Ok(_) => "it is no folder".to_owned(),
        };
        ImportError::Unreadable { path: printable(source), reason, expected }
    })
}

/// Files in and below a folder, or the file itself, whose name ends in one of `endings`; in order of their paths.
pub(super) fn below(source: &Path, endings: &[&str]) -> Vec<PathBuf> {
    fn walk(path: &Path, endings: &[&str], depth: usize, found: &mut Vec<PathBuf>) {
        if path.is_file() {
            if endings.iter().any(|ending| ends(&name(path), ending)) {
                found.push(path.to_owned());
            }
        } else if depth > 0 {
            for name in list(path).unwrap_or_default().iter().filter(|name| !name.starts_with('.')) {
                walk(&path.join(name), endings, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(source, endings, DEPTH, &mut found);
    found
}
