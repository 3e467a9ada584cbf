//! `toolgauge init`: an experiment file with every key, its default and its meaning.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use harness::dataset::Dataset;
use harness::endpoint::Profile;
use harness::registry::Registry;
use harness::text::plain;

use crate::args::{InitArgs, ORDERS, REPEATS, SEED, SPLIT};
use crate::exit::{Exit, OrExit as _, expected};
use crate::fit::{Fit, fits, sizes, why_not};
use crate::key::DEFAULT_KEY_ENV;
use crate::print::print_out;
use crate::setup::{DEFAULT_TEMPERATURE, DEFAULT_TIMEOUT_S, DEFAULT_TURNS, load_dataset, profile_of};

/// The ranking without a model that the others can be held against.
const FLOOR: &str = "bm25";
/// The strategy that stands for no selection at all: the reference, where it runs.
const EVERYTHING: &str = "eager";
const CEILING: &str = "oracle";
/// Chooses among skills, which a dataset need not have.
const BY_SKILL: &str = "skill-pick";

pub fn init(registry: &Registry, args: &InitArgs) -> anyhow::Result<Exit> {
    let profile = args.profile.as_deref().map(|path| Profile::load(path).or_exit(Exit::Usage)).transpose()?;
    let dataset = args.dataset.as_deref().map(load_dataset).transpose()?;
    let plan = Plan::new(registry, dataset.as_ref(), profile.as_ref())?;
    let folder = args.out.parent().unwrap_or(Path::new(""));
    let place = |path: &Option<PathBuf>| path.as_deref().map(|path| seen_from(folder, path)).transpose();
    let text = plan.text(registry, place(&args.dataset)?.as_deref(), place(&args.profile)?.as_deref());
    let file = OpenOptions::new().write(true).create_new(true).open(&args.out);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => expected(
            Exit::Usage,
            format!("{}: exists and is not replaced; write to another file with -o", args.out.display()),
        ),
        _ => expected(Exit::Usage, format!("{}: {error}", args.out.display())),
    })?;
    let name = plain(&args.out.display().to_string());
    let data = if args.dataset.is_some() { "" } else { " -d DATASET" };
    let mut next = format!("{name}; see what it would take: toolgauge run -c {name}{data} --dry-run\n");
    for reason in &plan.left_out {
        let _ = writeln!(next, "- left out, {}", plain(reason));
    }
    print_out(&next)?;
    Ok(Exit::Ok)
}

/// A path as the experiment file must name it: relative to its own folder.
fn seen_from(folder: &Path, path: &Path) -> anyhow::Result<PathBuf> {
    if folder.as_os_str().is_empty() || path.is_absolute() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(|error| expected(Exit::Usage, format!("{}: {error}", path.display())))
}

/// What the file asks for.
struct Plan {
    name: String,
    sizes: Vec<u32>,
    /// Kinds, in the order of the file.
    strategies: Vec<&'static str>,
    reference: &'static str,
    /// What does not run on this endpoint, and why.
    left_out: Vec<String>,
    profile: Option<Profile>,
}

impl Plan {
    fn new(registry: &Registry, dataset: Option<&Dataset>, profile: Option<&Profile>) -> anyhow::Result<Self> {
        let known = profile.cloned().unwrap_or_else(|| profile_of(None));
        let fits = dataset.map_or_else(|| Ok(Vec::new()), |dataset| fits(registry, dataset, &known))?;
        let runs = |kind: &str, size: u32| {
            let fit = fits.iter().find(|fit| fit.estimate.strategy == kind && fit.estimate.size == size);
            fit.is_none_or(|fit| fit.not_runnable.is_none())
        };
        let all_sizes = dataset.map_or_else(Vec::new, sizes);
        let with_skills = dataset.is_none_or(|dataset| !dataset.catalogue.skills.is_empty());
        // Strategies that ask a model and can run somewhere; without a dataset all that the built-in ones are.
        let asks: BTreeSet<&str> = if dataset.is_some() {
            fits.iter().map(|fit| fit.estimate.strategy.as_str()).collect()
        } else {
            BTreeSet::from([EVERYTHING, "bm25-llm", BY_SKILL])
        };
        let somewhere = |kind: &str| all_sizes.is_empty() || all_sizes.iter().any(|size| runs(kind, *size));
        let chosen = registry.entries().iter().map(|entry| entry.kind).filter(|kind| {
            *kind == FLOOR || asks.contains(*kind) && somewhere(kind) && (with_skills || *kind != BY_SKILL)
        });
        let chosen: Vec<_> = [CEILING].into_iter().chain(chosen).collect();
        let asking: Vec<_> = chosen.iter().copied().filter(|kind| asks.contains(*kind)).collect();
        // A size at which nothing that asks a model runs is no use.
        let useful = |size: &u32| asking.is_empty() || asking.iter().any(|kind| runs(kind, *size));
        let sizes = all_sizes.iter().copied().filter(useful).collect();
        let reference =
            [EVERYTHING, "bm25-llm", FLOOR].into_iter().find(|kind| chosen.contains(kind)).unwrap_or(CEILING);
        let reasons = |fit: &Fit| profile.and_then(|profile| why_not(fit, profile));
        Ok(Self {
            name: dataset.map_or_else(|| "experiment".to_owned(), |dataset| dataset.name.clone()),
            sizes,
            strategies: chosen,
            reference,
            left_out: fits.iter().filter_map(reasons).collect(),
            profile: profile.cloned(),
        })
    }

    fn text(&self, registry: &Registry, dataset: Option<&Path>, profile: Option<&Path>) -> String {
        let mut text = String::from(
            "# An experiment of toolgauge: `toolgauge run -c` reads it, flags win over it. Keys behind a `#` show their default.\n\n",
        );
        self.what(&mut text, dataset);
        text.push_str(&looping());
        self.endpoint(&mut text, profile);
        self.strategies(&mut text, registry);
        text
    }

    /// The keys at the top.
    fn what(&self, text: &mut String, dataset: Option<&Path>) {
        entry(text, "Name of the run, and of its folder.", &format!("name = {}", quoted(&self.name)));
        let folder = dataset.map_or_else(
            || "# dataset = \"datasets/data/atlas\"".to_owned(),
            |path| format!("dataset = {}", quoted(&path.display().to_string())),
        );
        entry(text, "Dataset folder, relative to this file.", &folder);
        entry(text, "Split to ask from, or \"all\".", &format!("# split = {}", quoted(SPLIT)));
        let sizes =
            if self.sizes.is_empty() { "# sizes = [150, 500]".to_owned() } else { format!("sizes = {:?}", self.sizes) };
        entry(
            text,
            "Catalogue sizes: each holds the tools that the queries need, the others fill up. Without it those of the dataset.",
            &sizes,
        );
        entry(
            text,
            "Numbers of skills to compare at one catalogue size. Without it sizes count tools.",
            "# skills = [25, 50, 100]",
        );
        entry(
            text,
            "Which queries of the split: \"scaling\", valid at every size, or \"all\". Default: scaling where sizes leave tools out.",
            "# queries = \"scaling\"",
        );
        entry(
            text,
            "A stratified random part of so many queries. Default: all. `run --budget 10m` finds the number for a time.",
            "# sample = 60",
        );
        entry(text, "Repeats of every episode.", &format!("# repeats = {REPEATS}"));
        entry(text, "Seed of every random choice.", &format!("# seed = {SEED}"));
        entry(
            text,
            "Order of the tools in a prompt: \"blocked\", a few permutations (`orders`) with the queries dealt among them, or \"fixed\", \
             that of the catalogue.",
            &format!("# order = \"blocked\"\n# orders = {ORDERS}"),
        );
        entry(
            text,
            "What fills a size up: \"random\" tools, or \"confusable\" ones, the nearest to the right ones first.",
            "# distractors = \"random\"",
        );
        entry(
            text,
            "Label of the strategy that the others are compared with.",
            &format!("reference = {}", quoted(self.reference)),
        );
    }

    fn endpoint(&self, text: &mut String, profile: Option<&Path>) {
        text.push_str("# The endpoint. Without an address OPENAI_BASE_URL is used, without a model that of the profile or TOOLGAUGE_MODEL.\n[endpoint]\n");
        let file = profile.map_or_else(
            || "# profile = \"profile.toml\"".to_owned(),
            |path| format!("profile = {}", quoted(&path.display().to_string())),
        );
        let what = self.profile.as_ref().map_or_else(
            || "What the endpoint can do, written by `toolgauge doctor`.".to_owned(),
            |profile| format!("What the endpoint can do: {}.", summary(profile)),
        );
        entry(text, &what, &file);
        entry(
            text,
            "\"openai\", or a model without a network: \"scripted:lexical\", \"scripted:first\", \"scripted:silent\".",
            "# kind = \"openai\"",
        );
        entry(
            text,
            "Address, up to and without /chat/completions, and model.",
            "# base_url = \"http://127.0.0.1:8080/v1\"\n# model = \"model-name\"",
        );
        entry(
            text,
            "Name of the environment variable with the key; never the key itself.",
            &format!("# api_key_env = {}", quoted(DEFAULT_KEY_ENV)),
        );
        entry(
            text,
            "Or a file with the key and nothing else, relative to this one and readable by its owner only (mode 600).",
            "# api_key_file = \"key\"",
        );
        entry(text, "Longest wait for one answer, in seconds.", &format!("# timeout_s = {DEFAULT_TIMEOUT_S}"));
    }

    fn strategies(&self, text: &mut String, registry: &Registry) {
        text.push_str(
            "# The strategies. `toolgauge list strategies` shows all parameters; a list as a value makes a grid, one row for each\n\
             # combination: params = { k = [1, 5, 20] }. Two of one kind need a `label` each.\n",
        );
        let about = |kind: &str| {
            let known = registry.entries().iter().find(|entry| entry.kind == kind);
            known.map_or("shows the model only the right tools: the ceiling", |entry| entry.summary)
        };
        for kind in &self.strategies {
            let _ = write!(text, "\n# {}\n[[strategy]]\nkind = {}\n", plain(about(kind)), quoted(kind));
        }
        if !self.left_out.is_empty() {
            text.push_str("\n# What the endpoint does not take:\n");
            for reason in &self.left_out {
                let _ = writeln!(text, "# - {}", plain(reason));
            }
        }
        for entry in registry.entries().iter().filter(|entry| !self.strategies.contains(&entry.kind)) {
            let _ = write!(text, "\n# {}\n# [[strategy]]\n# kind = {}\n", plain(entry.summary), quoted(entry.kind));
        }
    }
}

fn looping() -> String {
    let mut text = String::from("# The loop that every strategy runs in.\n[loop]\n");
    entry(
        &mut text,
        "\"loop\": until a generation calls nothing; \"first_call\": until the first call.",
        "# mode = \"loop\"",
    );
    entry(&mut text, "Wording of the base prompt: \"plain\", \"terse\" or \"careful\".", "# wording = \"plain\"");
    entry(&mut text, "Generations of an episode.", &format!("# max_turns = {DEFAULT_TURNS}"));
    entry(&mut text, "Tokens of an episode. Default: no limit.", "# max_episode_tokens = 50000");
    entry(
        &mut text,
        "Minutes of an episode, counted in the latencies of its answers. Default: no limit.",
        "# max_episode_minutes = 5",
    );
    entry(&mut text, "0 to 2.", &format!("# temperature = {DEFAULT_TEMPERATURE:?}"));
    text
}

/// A comment, then a line or more of TOML, then a blank line.
fn entry(text: &mut String, about: &str, lines: &str) {
    let _ = write!(text, "# {about}\n{lines}\n\n");
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A profile in a line.
fn summary(profile: &Profile) -> String {
    let known = |limit: Option<u64>| limit.map_or_else(|| "unknown".to_owned(), |limit| limit.to_string());
    let tested = profile.tested.as_ref().map_or_else(String::new, |tested| format!(", tested {}", plain(&tested.at)));
    format!(
        "model {}, context {}, tools at once {}{tested}",
        plain(&quoted(&profile.model)),
        known(profile.context_tokens),
        known(profile.max_tools.map(|tools| tools as u64))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{EndpointSection, Experiment, LoopSection};

    fn atlas() -> Dataset {
        datasets::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/data/atlas")).unwrap()
    }

    fn text(dataset: Option<&Dataset>, profile: Option<&Profile>) -> String {
        let registry = strategies::builtin();
        let plan = Plan::new(&registry, dataset, profile).unwrap();
        plan.text(&registry, dataset.map(|_| Path::new("data/atlas")), profile.map(|_| Path::new("profile.toml")))
    }

    fn read(text: &str) -> Experiment {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.toml");
        std::fs::write(&path, text).unwrap();
        Experiment::load(&path).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn small() -> Profile {
        let mut profile = Profile::hosted("https://a/v1", "m\"1");
        (profile.context_tokens, profile.max_output_tokens) = (Some(8_192), 256);
        profile
    }

    #[test]
    fn every_key_stands_in_the_file() {
        // Every comment that is a key becomes one.
        let is_key = |line: &str| {
            let name: String = line.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            !name.is_empty() && line[name.len()..].starts_with(" = ") && name != "params"
        };
        let whole = text(Some(&atlas()), Some(&small()));
        let head = whole.split("\n# The strategies.").next().unwrap();
        let all: Vec<_> =
            head.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_key(rest)).unwrap_or(line)).collect();
        let Experiment {
            name,
            dataset,
            split,
            sizes,
            skills,
            queries,
            sample,
            repeats,
            seed,
            order,
            orders,
            distractors,
            reference,
            episode_loop,
            endpoint,
            strategies: _,
        } = read(&all.join("\n"));
        assert!(name.is_some() && dataset.is_some() && split.is_some() && !sizes.is_empty() && queries.is_some());
        assert!(!skills.is_empty());
        assert!(sample.is_some() && repeats == Some(REPEATS) && seed == Some(SEED));
        assert!(order.is_some() && orders == Some(ORDERS) && distractors.is_some() && reference.is_some());
        let LoopSection { mode, wording, max_turns, max_episode_tokens, max_episode_minutes, temperature } =
            episode_loop;
        assert!(mode.is_some() && wording.is_some() && max_turns == Some(DEFAULT_TURNS));
        assert!(
            max_episode_tokens.is_some() && max_episode_minutes.is_some() && temperature == Some(DEFAULT_TEMPERATURE)
        );
        let EndpointSection { kind, base_url, model, api_key_env, api_key_file, profile, timeout_s } =
            endpoint.unwrap();
        assert!(kind.is_some() && base_url.is_some() && model.is_some() && api_key_env.is_some());
        assert!(api_key_file.is_some() && profile.is_some() && timeout_s == Some(DEFAULT_TIMEOUT_S));
    }

    #[test]
    fn the_file_explains_itself() {
        insta::assert_snapshot!("experiment", text(Some(&atlas()), Some(&small())));
    }

    #[test]
    fn strategies_and_sizes_are_those_that_run() {
        let kinds = |experiment: &Experiment| experiment.strategies.iter().map(|s| s.kind.clone()).collect::<Vec<_>>();
        let open = read(&text(Some(&atlas()), Some(&Profile::hosted("https://a/v1", "m"))));
        assert_eq!(kinds(&open), ["oracle", "eager", "bm25", "bm25-llm", "skill-pick"]);
        assert_eq!((open.sizes, open.reference.as_deref()), (vec![150, 500, 1_000, 1_400], Some("eager")));
        let narrow = text(Some(&atlas()), Some(&small()));
        assert!(narrow.contains("# - eager at 150 tools: shows 150"), "{narrow}");
        let narrow = read(&narrow);
        assert_eq!(kinds(&narrow), ["oracle", "bm25", "bm25-llm", "skill-pick"]);
        assert_eq!((narrow.sizes.len(), narrow.reference.as_deref()), (4, Some("bm25-llm")));
        let none = read(&text(None, None));
        assert!(none.dataset.is_none() && none.sizes.is_empty() && none.strategies.len() == 5);
        let mut plain = atlas();
        std::sync::Arc::get_mut(&mut plain.catalogue).unwrap().skills.clear();
        assert!(!kinds(&read(&text(Some(&plain), None))).contains(&"skill-pick".to_owned()));
    }
}
