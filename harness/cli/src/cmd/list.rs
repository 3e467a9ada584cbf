//! `toolgauge list`.

use std::path::Path;

use harness::registry::Registry;
use harness::run::dir::StoredRun;
use harness::text::plain;

use crate::args::{ListArgs, ListWhat};
use crate::cmd::report::measures;
use crate::cmd::run::RUNS;
use crate::exit::{Exit, expected};

pub fn list(registry: &Registry, args: &ListArgs) -> anyhow::Result<Exit> {
    match args.what {
        ListWhat::Strategies => {
            println!("{:<12} shows the model only the right tools: the ceiling", "oracle");
            println!("{:<12}   model=true", "");
            for entry in registry.entries() {
                println!("{:<12} {}", entry.kind, entry.summary);
                if !entry.defaults.is_empty() {
                    let params: Vec<_> = entry.defaults.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    println!("{:<12}   {}", "", params.join(" "));
                }
            }
        }
        ListWhat::Metrics => {
            println!("retrieval    {}", measures().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            println!(
                "end to end   success coverage_success success_args turns waste tokens tokens_per_success outcomes"
            );
        }
        ListWhat::Importers => {
            for importer in datasets::import::ALL {
                println!("{:<14} {}", importer.name, importer.reads);
            }
        }
        ListWhat::Datasets => {
            let dir = args.dir.clone().unwrap_or_else(|| "datasets/data".into());
            for path in folders(&dir)? {
                if path.join("dataset.toml").exists() {
                    match datasets::load(&path) {
                        Ok(dataset) => println!(
                            "{:<24} {} {} · {} tools · {} skills · {} queries · {}",
                            path.display(),
                            plain(&dataset.name),
                            plain(&dataset.revision),
                            dataset.catalogue.tools.len(),
                            dataset.catalogue.skills.len(),
                            dataset.queries.len(),
                            plain(&dataset.licence)
                        ),
                        Err(_) => println!("{:<24} has problems; `toolgauge run -d` names them", path.display()),
                    }
                }
            }
        }
        ListWhat::Runs => {
            let dir = args.dir.clone().unwrap_or_else(|| RUNS.into());
            for path in folders(&dir)? {
                if !path.join("manifest.json").exists() {
                    continue;
                }
                match StoredRun::read(&path) {
                    Ok(run) => println!(
                        "{:<44} {} · {} of {} episodes · {}",
                        path.display(),
                        plain(&run.manifest.dataset.name),
                        run.episodes.len(),
                        run.plan.len(),
                        run.manifest.finish.map_or_else(|| "not finished".to_owned(), |finish| finish.how)
                    ),
                    Err(error) => println!("{:<44} {}", path.display(), plain(&error.to_string())),
                }
            }
        }
    }
    Ok(Exit::Ok)
}

/// Sub-folders by name.
fn folders(dir: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let entries = std::fs::read_dir(dir)
        .map_err(|error| expected(Exit::Usage, format!("{}: {error}; name a folder with --dir", dir.display())))?;
    let mut folders: Vec<_> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}
