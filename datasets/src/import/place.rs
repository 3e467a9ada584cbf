//! Putting an imported dataset in its place, whole or not at all, and never in place of somebody's own work.

use std::path::{Path, PathBuf};
use std::{fs, io};

use toml::Table;

use super::ImportError;
use crate::load::load;
use crate::problem::{clean, printable, quote};
use crate::write::Draft;

/// What every import makes anew: to replace these is what overwriting is for.
const REPLACED: [&str; 3] = ["dataset.toml", "servers.jsonl", "tools"];
/// What an import may write, and a person too.
const SHARED: [&str; 3] = ["queries.jsonl", "qrels.jsonl", "skills.jsonl"];
/// Keys of dataset.toml that change with what is imported and how.
const RENEWED: [&str; 3] = ["format", "revision", "description"];
/// Those that an import chooses.
const CHOSEN: [&str; 2] = ["name", "licence"];
/// Files named in an error.
const NAMED: usize = 8;

/// Whether the target may be written, as far as one can tell before anything is read.
pub(super) fn clear(target: &Path, overwrite: bool) -> Result<(), ImportError> {
    let path = || printable(target);
    // An empty folder loses nothing.
    let empty = fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
    if empty || fs::symlink_metadata(target).is_err() {
        Ok(())
    } else if !target.join("dataset.toml").is_file() {
        Err(ImportError::TargetForeign { path: path() })
    } else if overwrite {
        refuse_loss(target, None)
    } else {
        Err(ImportError::TargetExists { path: path() })
    }
}

/// Writes a draft beside the target, checks it there and moves it into place.
pub(super) fn place(draft: &Draft, target: &Path) -> Result<(), ImportError> {
    let unwritable = |error: io::Error| unwritable(target, &error);
    let parent = match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::create_dir_all(&parent).map_err(unwritable)?;
    // On the same file system, so that moving is one step; it takes what is left in it along when it goes.
    let workshop = tempfile::Builder::new().prefix(".import-").tempdir_in(&parent).map_err(unwritable)?;
    let built = workshop.path().join("built");
    fs::create_dir(&built).map_err(unwritable)?;
    draft.write(&built).map_err(unwritable)?;
    load(&built)?;
    let replaced = workshop.path().join("replaced");
    let in_the_way = fs::symlink_metadata(target).is_ok();
    if in_the_way {
        refuse_loss(target, Some(&built))?;
        fs::rename(target, &replaced).map_err(unwritable)?;
    }
    fs::rename(&built, target).map_err(|error| {
        if in_the_way {
            // The first error is the one to tell; there is nothing better to do about a second.
            let _ = fs::rename(&replaced, target);
        }
        unwritable(error)
    })
}

fn unwritable(target: &Path, error: &io::Error) -> ImportError {
    ImportError::Unwritable { path: printable(target), reason: error.to_string() }
}

/// Refuses to replace a folder with files that would be gone. Before anything is `built`, what might become the same is let pass.
fn refuse_loss(target: &Path, built: Option<&Path>) -> Result<(), ImportError> {
    let mut lost = lost(target, built).map_err(|error| unwritable(target, &error))?;
    if lost.is_empty() {
        return Ok(());
    }
    lost.sort();
    let more = lost.len().saturating_sub(NAMED);
    lost.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(ImportError::TargetEdited { path: printable(target), files: lost.join(", ") + &more })
}

fn lost(target: &Path, built: Option<&Path>) -> io::Result<Vec<String>> {
    let mut lost = Vec::new();
    for entry in fs::read_dir(target)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_lost = if REPLACED.contains(&name.as_str()) {
            false
        } else if SHARED.contains(&name.as_str()) {
            built.map_or(Ok(false), |built| differs(&entry.path(), &built.join(&name)))?
        } else {
            true
        };
        if is_lost {
            lost.push(quote(&name));
        }
    }
    for entry in fs::read_dir(target.join("tools")).into_iter().flatten() {
        let entry = entry?;
        if entry.path().extension().is_none_or(|ending| ending != "jsonl") {
            lost.push(quote(&format!("tools/{}", entry.file_name().to_string_lossy())));
        }
    }
    lost.extend(lost_keys(target, built)?);
    Ok(lost)
}

/// What somebody wrote into the manifest.
fn lost_keys(target: &Path, built: Option<&Path>) -> io::Result<Vec<String>> {
    let read =
        |dir: &Path| fs::read_to_string(dir.join("dataset.toml")).map(|text| toml::from_str::<Table>(&text).ok());
    if !target.join("dataset.toml").exists() {
        return Ok(Vec::new());
    }
    let Some(old) = read(target)? else { return Ok(vec![quote("dataset.toml")]) };
    let new = built.map(read).transpose()?.flatten().unwrap_or_default();
    let is_lost = |key: &str, value: &toml::Value| {
        let is_renewed = RENEWED.contains(&key) || built.is_none() && CHOSEN.contains(&key);
        !is_renewed && new.get(key) != Some(value)
    };
    let lost = old.iter().filter(|(key, value)| is_lost(key, value));
    Ok(lost.map(|(key, _)| format!("`{}` in \"dataset.toml\"", clean(key))).collect())
}

/// Whether a file holds something that the new one does not hold the same.
fn differs(old: &Path, new: &Path) -> io::Result<bool> {
    let old = fs::read(old)?;
    Ok(!old.trim_ascii().is_empty() && fs::read(new).ok() != Some(old))
}
