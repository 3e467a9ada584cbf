//! Putting an imported dataset in its place, whole or not at all, and never in place of somebody's own work.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use toml::Table;

use super::ImportError;
use crate::load::load;
use crate::problem::{clean, printable, quote};
use crate::write::Draft;

/// What every import makes anew: to replace these is what overwriting is for.
const REPLACED: [&str; 3] = [MANIFEST, "servers.jsonl", TOOLS];
/// What an import may write, and a person too.
const SHARED: [&str; 3] = ["queries.jsonl", "qrels.jsonl", "skills.jsonl"];
/// Keys of dataset.toml that change with what is imported and how.
const RENEWED: [&str; 3] = ["format", "revision", "description"];
/// Those that an import chooses.
const CHOSEN: [&str; 2] = ["name", "licence"];
const MANIFEST: &str = "dataset.toml";
const TOOLS: &str = "tools";
/// How the name of a folder begins in which an import is put together.
const WORKSHOP: &str = ".import-";
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
    let named = target;
    let unwritable = |error: io::Error| unwritable(named, &error);
    // Behind a link stands what is meant: replacing the link itself would leave the dataset as it was, and everybody else with it.
    let target = &resolved(target).map_err(unwritable)?;
    if is_around_us(target) {
        return furnish(draft, named, target);
    }
    let parent = match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::create_dir_all(&parent).map_err(unwritable)?;
    // On the same file system, so that moving is one step; it takes what is left in it along when it goes.
    let workshop = tempfile::Builder::new().prefix(WORKSHOP).tempdir_in(&parent).map_err(unwritable)?;
    let built = workshop.path().join("built");
    fs::create_dir(&built).map_err(unwritable)?;
    draft.write(&built).map_err(unwritable)?;
    load(&built)?;
    let replaced = workshop.path().join("replaced");
    let in_the_way = fs::symlink_metadata(target).is_ok();
    if in_the_way {
        refuse_loss(named, Some(&built))?;
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

/// The folder that a link leads to, or the path itself.
fn resolved(target: &Path) -> io::Result<PathBuf> {
    if fs::symlink_metadata(target).is_ok() { fs::canonicalize(target) } else { Ok(target.to_owned()) }
}

/// Whether somebody stands in the folder: moved away, it would take them along.
fn is_around_us(target: &Path) -> bool {
    env::current_dir().and_then(fs::canonicalize).is_ok_and(|here| here.starts_with(target))
}

/// [`place`] for a folder that has to stay the one it is. What is in it is changed file by file, `dataset.toml` last, so that
/// there is no dataset while it is not whole.
fn furnish(draft: &Draft, named: &Path, target: &Path) -> Result<(), ImportError> {
    let unwritable = |error: io::Error| unwritable(named, &error);
    let workshop = tempfile::Builder::new().prefix(WORKSHOP).tempdir_in(target).map_err(unwritable)?;
    let [built, replaced] = ["built", "replaced"].map(|name| workshop.path().join(name));
    for folder in [&built, &replaced] {
        fs::create_dir(folder).map_err(unwritable)?;
    }
    draft.write(&built).map_err(unwritable)?;
    load(&built)?;
    refuse_loss(target, Some(&built))?;
    let old: Vec<OsString> = entries(target)
        .map_err(unwritable)?
        .into_iter()
        .filter(|name| Some(name.as_os_str()) != workshop.path().file_name())
        .collect();
    let new = entries(&built).map_err(unwritable)?;
    // The manifest is the first to go and the last to come.
    let out = old.iter().rev().try_for_each(|name| fs::rename(target.join(name), replaced.join(name)));
    let moved = out.and_then(|()| new.iter().try_for_each(|name| fs::rename(built.join(name), target.join(name))));
    moved.map_err(|error| {
        // As far as it goes; the first error is the one to tell.
        for name in new.iter().rev() {
            let _ = fs::rename(target.join(name), built.join(name));
        }
        for name in &old {
            let _ = fs::rename(replaced.join(name), target.join(name));
        }
        unwritable(error)
    })
}

/// What is in a folder, `dataset.toml` last.
fn entries(folder: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let mut names: Vec<OsString> = names.collect::<io::Result<_>>()?;
    names.sort_by_key(|name| (name == MANIFEST, name.clone()));
    Ok(names)
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
        let is_folder = entry.path().is_dir();
        let is_lost = if built.is_some_and(|built| built.parent() == Some(entry.path().as_path())) {
            // Our own, where the target has to stay the folder that it is.
            false
        } else if is_folder != (name == TOOLS) {
            // Under the name of a file it is somebody's own.
            true
        } else if REPLACED.contains(&name.as_str()) {
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
        let path = entry.path();
        if path.is_dir() || path.extension().is_none_or(|ending| ending != "jsonl") {
            lost.push(quote(&format!("tools/{}", entry.file_name().to_string_lossy())));
        }
    }
    lost.extend(lost_keys(target, built)?);
    Ok(lost)
}

/// What somebody wrote into the manifest: keys, and comments, which no import writes.
fn lost_keys(target: &Path, built: Option<&Path>) -> io::Result<Vec<String>> {
    let read = |dir: &Path| fs::read_to_string(dir.join(MANIFEST));
    let parse = |text: &str| toml::from_str::<Table>(text).ok();
    if !target.join(MANIFEST).exists() {
        return Ok(Vec::new());
    }
    let text = read(target)?;
    let Some(old) = parse(&text) else { return Ok(vec![quote(MANIFEST)]) };
    let new = built.map(read).transpose()?.as_deref().and_then(parse).unwrap_or_default();
    let is_lost = |key: &str, value: &toml::Value| {
        let is_renewed = RENEWED.contains(&key) || built.is_none() && CHOSEN.contains(&key);
        !is_renewed && new.get(key) != Some(value)
    };
    let lost = old.iter().filter(|(key, value)| is_lost(key, value));
    let mut lost: Vec<_> = lost.map(|(key, _)| format!("`{}` in \"dataset.toml\"", clean(key))).collect();
    if has_comment(&text) {
        lost.push("comments in \"dataset.toml\"".to_owned());
    }
    Ok(lost)
}

/// Whether TOML that can be read has a comment: a `#` outside of texts.
fn has_comment(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(['#', '"', '\'']) {
        rest = &rest[at..];
        if rest.starts_with('#') {
            return true;
        }
        let quote = &rest[..1];
        let long = quote.repeat(3);
        let mark = if rest.starts_with(&long) { long.as_str() } else { quote };
        rest = behind(&rest[mark.len()..], mark, quote == "\"");
    }
    false
}

/// What follows a text that ends in `mark`.
fn behind<'t>(text: &'t str, mark: &str, escapes: bool) -> &'t str {
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(mark) {
            return after;
        }
        rest = &rest[character.len_utf8()..];
        if escapes && character == '\\' {
            rest = rest.chars().next().map_or("", |escaped| &rest[escaped.len_utf8()..]);
        }
    }
    ""
}

/// Whether a file holds something that the new one does not hold the same.
fn differs(old: &Path, new: &Path) -> io::Result<bool> {
    let old = fs::read(old)?;
    Ok(!old.trim_ascii().is_empty() && fs::read(new).ok() != Some(old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_told_from_texts() {
        for text in
            ["# mine\na = 1", "a = 1 # mine", "a = \"\"\"\n\" # \"\"\" # mine", "a = 'x\\' # mine", "a = \"\" # mine"]
        {
            assert!(has_comment(text), "{text}");
        }
        for text in ["a = \"# \\\" # \"", "a = '# \" #'", "a = \"\"\"\n# \" ''\n\"\"\"", "a = '''\n# '\n'''", ""] {
            assert!(!has_comment(text), "{text}");
        }
    }
}
