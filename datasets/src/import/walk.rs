//! Files below a folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::ImportError;
use super::report::{Findings, Trouble};
use crate::problem::printable;

/// Deepest folder that is looked into.
const DEPTH: usize = 16;
/// Most files that one import looks at.
const FILES: usize = 1_000_000;

/// All files below `dir`, sorted by path; hidden ones and links to folders are passed over. Folders that cannot be listed are
/// reported, the first one is an error.
pub(super) fn files(dir: &Path, expected: &'static str, findings: &mut Findings) -> Result<Vec<PathBuf>, ImportError> {
    let unreadable = |reason: String| ImportError::Unreadable { path: printable(dir), reason, expected };
    let mut found = Vec::new();
    let mut open = vec![(dir.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(unreadable(error.to_string())),
            Err(error) => {
                findings.add(Trouble::FileLeftOut, &format!("{}: {error}", relative(dir, &folder)));
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(error.to_string()))?;
            let path = entry.path();
            // Not following links: one that leads up would never end.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if !is_folder && path.is_file() {
                found.push(path);
            } else if is_folder && depth < DEPTH {
                open.push((path, depth + 1));
            } else {
                findings.add(Trouble::FileLeftOut, &relative(dir, &path));
            }
            if found.len() > FILES {
                return Err(unreadable(format!("it holds more than {FILES} files")));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A path as a message shows it: below `dir`, with `/`.
pub(super) fn relative(dir: &Path, path: &Path) -> String {
    let path = path.strip_prefix(dir).unwrap_or(path);
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
