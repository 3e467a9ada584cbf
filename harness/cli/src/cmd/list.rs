//! `toolgauge list`.

use std::path::{Path, PathBuf};

use datasets::import::{Extra, Importer};
use harness::registry::Registry;
use harness::run::dir::StoredRun;
use harness::text::{grouped, plain, plural};

use crate::args::{ListArgs, ListWhat};
use crate::cmd::report::measures;
use crate::cmd::run::RUNS;
use crate::exit::{Exit, expected};
use crate::oracle::with_oracle;
use crate::print::print_out;

pub fn list(registry: &Registry, args: &ListArgs) -> anyhow::Result<Exit> {
    let lines = match args.what {
        ListWhat::Strategies => strategies(registry),
        ListWhat::Metrics => {
            let metrics = reports::metrics(&measures()).into_iter();
            metrics.map(|(name, about)| format!("{name:<26} {about}")).collect()
        }
        ListWhat::Importers => {
            let live = format!("{:<20} {}", datasets::import::mcp::NAME, datasets::import::mcp::READS);
            datasets::import::ALL.iter().flat_map(importer).chain([live]).collect()
        }
        ListWhat::Datasets => {
            let dir = args.dir.clone().unwrap_or_else(|| "datasets/data".into());
            folders(&dir)?.iter().filter(|path| path.join("dataset.toml").exists()).map(|path| dataset(path)).collect()
        }
        ListWhat::Runs => {
            let dir = args.dir.clone().unwrap_or_else(|| RUNS.into());
            folders(&dir)?.iter().filter(|path| path.join("manifest.json").exists()).map(|path| run(path)).collect()
        }
    };
    print_out(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Ok)
}

fn strategies(registry: &Registry) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in with_oracle(registry, None).entries() {
        lines.push(format!("{:<12} {}", entry.kind, entry.summary));
        if !entry.defaults.is_empty() {
            let params: Vec<_> = entry.defaults.iter().map(|(name, value)| format!("{name}={value}")).collect();
            lines.push(format!("{:<12}   {}", "", params.join(" ")));
        }
    }
    lines
}

fn importer(importer: &Importer) -> Vec<String> {
    let extra = |extra: Extra| format!("{:<20}   --{}: {}", "", extra.as_str(), extra.about());
    let line = format!("{:<20} {}", importer.name, importer.reads);
    [line].into_iter().chain(importer.extras().map(extra)).collect()
}

fn dataset(path: &Path) -> String {
    let name = plain(&path.display().to_string());
    match datasets::load(path) {
        Ok(dataset) => format!(
            "{name:<24} {} {} · {} · {} · {} · {}",
            plain(&dataset.name),
            plain(&dataset.revision),
            plural(dataset.catalogue.tools.len() as u64, "tool", "tools"),
            plural(dataset.catalogue.skills.len() as u64, "skill", "skills"),
            plural(dataset.queries.len() as u64, "query", "queries"),
            plain(&dataset.licence)
        ),
        Err(_) => format!("{name:<24} has problems; `toolgauge run -d` names them"),
    }
}

fn run(path: &Path) -> String {
    let name = plain(&path.display().to_string());
    match StoredRun::read(path) {
        Ok(run) => format!(
            "{name:<44} {} · {} of {} · {}",
            plain(&run.manifest.dataset.name),
            grouped(run.episodes.len() as u64),
            plural(run.plan.len() as u64, "episode", "episodes"),
            plain(&run.manifest.finish.map_or_else(|| "not finished".to_owned(), |finish| finish.how))
        ),
        Err(error) => format!("{name:<44} {}", plain(&error.to_string())),
    }
}

/// Sub-folders by name.
fn folders(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)
        .map_err(|error| expected(Exit::Usage, format!("{}: {error}; name a folder with --dir", dir.display())))?;
    let mut folders: Vec<_> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}
