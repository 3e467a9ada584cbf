//! Reading foreign files: a file that cannot be read stops the import, an entry that cannot be read is listed.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ImportError;
use super::report::{Findings, Trouble};
use crate::problem::{clean, printable};

/// The text of a file, without a byte order mark.
pub(super) fn text(path: &Path, expected: &'static str) -> Result<String, ImportError> {
    let unreadable = |reason: String| ImportError::Unreadable { path: printable(path), reason, expected };
    // A pipe or a device would never end.
    if !fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.is_file() {
        return Err(unreadable("it is no file".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// A file of one JSON value.
pub(super) fn json<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, ImportError> {
    let text = text(path, expected)?;
    serde_json::from_str(&text).map_err(|error| ImportError::Unreadable {
        path: printable(path),
        reason: clean(&error.to_string()),
        expected,
    })
}

/// The entries of a JSON array that are of type `T`.
pub(super) fn entries<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
    findings: &mut Findings,
) -> Result<Vec<T>, ImportError> {
    let values: Vec<Value> = json(path, expected)?;
    let read = values.iter().enumerate().filter_map(|(index, value)| {
        let entry = T::deserialize(value);
        entry.map_err(|error| unreadable(path, &format!("entry {index}"), &error.to_string(), findings)).ok()
    });
    Ok(read.collect())
}

/// The lines of a JSONL file that are of type `T`.
pub(super) fn lines<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
    findings: &mut Findings,
) -> Result<Vec<T>, ImportError> {
    let text = text(path, expected)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.filter_map(|(index, line)| {
        let entry = serde_json::from_str(line);
        entry.map_err(|error| unreadable(path, &(index + 1).to_string(), &error.to_string(), findings)).ok()
    });
    Ok(read.collect())
}

/// Lists an entry that cannot be read.
pub(super) fn unreadable(path: &Path, place: &str, reason: &str, findings: &mut Findings) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    findings.add(Trouble::UnreadableEntry, &format!("{name}:{place}: {reason}"));
}
