//! `toolgauge lint`.

use std::path::Component;

use datasets::lint::{Level, LintError, lint as look, sarif, text};
use serde::Serialize;

use crate::args::{LintArgs, LintFormat};
use crate::exit::{Exit, OrExit as _, expected, print_out};

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
        LintFormat::Sarif => json(&sarif(&linted, &folder(args)))?,
    };
    print_out(&out)?;
    Ok(if linted.count(Level::Error) > 0 { Exit::Dataset } else { Exit::Ok })
}

fn json<T: Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).or_exit(Exit::Bug)? + "\n")
}

/// The dataset folder as a URI can name it: a path with `..` in it would leave the repository that a reader resolves it in.
fn folder(args: &LintArgs) -> String {
    let inside = !args.dataset.components().any(|part| part == Component::ParentDir);
    let folder = if inside { args.dataset.clone() } else { args.dataset.canonicalize().unwrap_or_default() };
    folder.to_string_lossy().replace('\\', "/")
}
