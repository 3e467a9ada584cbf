//! `toolgauge lint`.

use std::path::{Component, Path, PathBuf};

use datasets::lint::{Level, LintError, lint as look, sarif, text};
use serde::Serialize;

use crate::args::{LintArgs, LintFormat};
use crate::exit::{Exit, OrExit as _, expected};
use crate::print::print_out;

pub fn lint(args: &LintArgs) -> anyhow::Result<Exit> {
    let linted = look(&args.dataset, args.baseline.as_deref()).map_err(|error| {
        let exit = match error {
            LintError::Load(_) => Exit::Dataset,
            LintError::Baseline(_) => Exit::Usage,
        };
        expected(exit, error)
    })?;
    let out = match args.format {
        LintFormat::Text => text(&linted, args.all),
        LintFormat::Json => json(&linted)?,
        LintFormat::Sarif => {
            let baseline = args.baseline.as_deref().map(settled);
            json(&sarif(&linted, &settled(&args.dataset), baseline.as_deref()))?
        }
    };
    print_out(&out)?;
    Ok(if linted.count(Level::Error) > 0 { Exit::Dataset } else { Exit::Ok })
}

fn json<T: Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).or_exit(Exit::Bug)? + "\n")
}

/// A path as a URI can name it: one with `..` in it would leave the repository that a reader resolves it in.
fn settled(path: &Path) -> PathBuf {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    climbs.then(|| path.canonicalize().ok()).flatten().unwrap_or_else(|| path.to_path_buf())
}
