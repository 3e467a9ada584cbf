//! From an experiment to a plan, and from a manifest back to what a run works with. New and resumed runs go through the same
//! second half, so that they cannot differ.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datasets::sample::{drawn, stratified};
use harness::arguments::checked_in_part;
use harness::catalogue::{Actor, Subset, Tool};
use harness::conversation::Sampling;
use harness::dataset::{Dataset, Query};
use harness::endpoint::{
    Behaviour, OpenAi, OpenAiConfig, Profile, Scripted, Transport, check_base_url, is_unencrypted,
};
use harness::episode_loop::{LoopSettings, Mode, Wording};
use harness::ids::{Digest, QueryId, ToolId};
use harness::registry::Registry;
use harness::run::manifest::{
    Axis, DatasetInfo, DistractorKind, EndpointInfo, Manifest, OrderInfo, OrderKind, PlannedCaps, QuerySelection,
    RUN_VERSION, SchemaRewrites, StrategyInfo, ViewInfo,
};
use harness::run::plan::{Grid, Job, by_query, jobs};
use harness::strategy::Strategy;
use harness::usage::{Price, PriceTable};
use serde_json::Value;

use crate::args::{DistractorsArg, ModeArg, ORDERS, OrderArg, QueriesArg, REPEATS, RunArgs, SEED, SPLIT, WordingArg};
use crate::exit::{Exit, OrExit as _, expected};
use crate::experiment::{EndpointSection, Experiment, Queries, StrategySection, expand, parse_strategy, split_list};
use crate::fit::{Limits, definition_tokens};
use crate::key;
use crate::oracle::with_oracle;
use crate::outlook::{Outlook, actor_views, outlooks, own_candidates};
use crate::print::say;
use crate::subsets::Subsets;

pub const DEFAULT_TIMEOUT_S: u64 = 600;
pub const DEFAULT_TURNS: u32 = 8;
pub const DEFAULT_TEMPERATURE: f64 = 0.0;
const MOST_REPEATS: u32 = 1_000;
const BUILT_IN_PRICES: &str = include_str!("../prices.toml");

/// A planned run, before anything is written.
pub struct Planned {
    pub dataset: Dataset,
    pub manifest: Manifest,
    pub jobs: Vec<Job>,
    pub outlooks: Vec<Outlook>,
    /// Queries asked per size.
    pub asked: Vec<(u32, usize)>,
    /// Where sizes count skills: how many there are for everybody, and how many of all.
    pub skills: Option<(usize, usize)>,
    /// Where the key is, if it is in a file: of no interest to whoever reads the manifest.
    pub key_file: Option<PathBuf>,
}

/// Loads a dataset folder.
pub fn load_dataset(dir: &Path) -> anyhow::Result<Dataset> {
    datasets::load(dir).or_exit(Exit::Dataset)
}

/// Plans a run from the experiment file and the flags.
pub fn plan(registry: &Registry, args: &RunArgs, sample: Option<usize>) -> anyhow::Result<Planned> {
    let experiment = args.config.as_deref().map(Experiment::load).transpose()?.unwrap_or_default();
    let dataset_dir = args.dataset.clone().or(experiment.dataset.clone()).ok_or_else(|| {
        expected(Exit::Usage, "no dataset: name a folder with -d, or `dataset = \"…\"` in the experiment file")
    })?;
    let dataset = load_dataset(&dataset_dir)?;
    let seed = args.seed.or(experiment.seed).unwrap_or(SEED);
    let metas = strategies(registry, &dataset, args, &experiment)?;
    let drives_model = metas.iter().any(|info| info.meta.drives_model);
    let endpoint = endpoint(args, &experiment, drives_model)?;
    let profile = profile_of(endpoint.as_ref());
    let settings = loop_settings(args, &experiment, endpoint.as_ref());
    let order = order(args, &experiment);
    check_numbers(args, &experiment, &settings, &order)?;
    let distractors = distractors(&dataset, args, &experiment)?;
    let (axis, sizes) = axis(&dataset, args, &experiment, distractors, seed)?;
    let split = args.split.clone().or(experiment.split.clone()).unwrap_or_else(|| SPLIT.to_owned());
    let scaling_only = scaling_only(&dataset, args, &experiment, axis, &sizes);
    let candidates = select_queries(&dataset, &split, scaling_only)?;
    let sample = sample.or(args.sample).or(experiment.sample);
    let (queries, sampled) = match sample {
        Some(n) if n < candidates.len() => {
            let kept: BTreeSet<QueryId> = stratified(&candidates, n, seed).into_iter().collect();
            (candidates.iter().filter(|query| kept.contains(&query.id)).cloned().collect(), true)
        }
        _ => (candidates.clone(), false),
    };
    let selection = QuerySelection { split, scaling_only, queries: queries.len(), of: candidates.len(), sampled };
    let (mut grid_sizes, mut views, mut narrow) = (Vec::new(), Vec::new(), Vec::new());
    let subsets = Subsets::new(&dataset, axis, distractors, seed);
    let smallest = subsets.of(sizes[0]).or_exit(Exit::Usage)?;
    for &size in &sizes {
        let subset = subsets.of(size).or_exit(Exit::Usage)?;
        let valid = subsets.valid(&subset, &smallest);
        let asked = |query: &&Query| subsets.is_whole(size) || valid.contains(&query.id);
        let asked: Vec<&Query> = queries.iter().map(Arc::as_ref).filter(asked).collect();
        let digest = subsets.digest(&subset);
        views.push(view_info(&subset, size, digest.clone(), &profile));
        narrow.extend(actor_views(&dataset, &subset, size, axis, &asked));
        grid_sizes.push((size, digest, asked));
    }
    let repeats = args.repeats.or(experiment.repeats).unwrap_or(REPEATS).max(1);
    let prompt = Digest::of(settings.wording.text().as_bytes());
    let context = Digest::of_json(&(dataset.digest(), endpoint.as_ref().map(|e| &e.profile), &settings, &prompt));
    let grid = Grid { context, strategies: &metas, sizes: grid_sizes, order: order.clone(), repeats, seed };
    let capped = planned_caps(args);
    let mut jobs = jobs(&grid);
    if capped.is_some() {
        jobs = by_query(jobs, &drawn(&queries, seed), seed);
    }
    if jobs.is_empty() {
        return Err(expected(Exit::Usage, "nothing is planned: no strategy, query or size is left"));
    }
    let skills = subsets.skills().or_exit(Exit::Usage)?;
    let shown = shown_tools(&dataset, &subsets, &sizes, &queries)?;
    let asked = grid.sizes.iter().map(|(size, _, queries)| (*size, queries.len())).collect();
    let limits = Limits { profile: &profile, max_output_tokens: settings.max_output_tokens };
    let outlooks = outlooks(&subsets, &dataset, &grid, limits);
    let reference = args.reference.clone().or(experiment.reference.clone());
    let reference = choose_reference(reference, &metas, &outlooks)?;
    let manifest = Manifest {
        version: RUN_VERSION,
        name: args.name.clone().or(experiment.name.clone()).unwrap_or_else(|| dataset.name.clone()),
        toolgauge: env!("CARGO_PKG_VERSION").to_owned(),
        started: harness::clock::now_utc(),
        host: host(),
        dataset: dataset_info(&dataset, &dataset_dir),
        selection,
        endpoint,
        settings,
        prompt,
        order,
        repeats,
        seed,
        reference,
        strategies: metas,
        axis,
        distractors,
        views,
        actor_views: narrow,
        candidates: own_candidates(queries.iter().map(Arc::as_ref)),
        rewrites: SchemaRewrites::new(&profile, shown.iter().copied()).filter(|_| drives_model),
        checked_in_part: in_part(&shown, drives_model),
        jobs: jobs.len(),
        capped,
        probe: None,
        finish: None,
    };
    let key_file = key::file(args, &experiment).map(Path::to_owned);
    Ok(Planned { dataset, manifest, jobs, outlooks, asked, skills, key_file })
}

fn order(args: &RunArgs, experiment: &Experiment) -> OrderInfo {
    OrderInfo {
        kind: match args.order {
            Some(OrderArg::Blocked) => OrderKind::Blocked,
            Some(OrderArg::Fixed) => OrderKind::Fixed,
            None => experiment.order.unwrap_or(OrderKind::Blocked),
        },
        orders: experiment.orders.unwrap_or(ORDERS),
    }
}

fn dataset_info(dataset: &Dataset, dir: &Path) -> DatasetInfo {
    DatasetInfo {
        name: dataset.name.clone(),
        revision: dataset.revision.clone(),
        licence: dataset.licence.clone(),
        digest: dataset.digest().clone(),
        path: dir.display().to_string(),
        tools: dataset.catalogue.tools.len(),
        queries: dataset.queries.len(),
    }
}

/// What the flags tell the run to stop at, if anything.
fn planned_caps(args: &RunArgs) -> Option<PlannedCaps> {
    let RunArgs { max_tokens, max_cost, max_minutes, .. } = *args;
    let caps = PlannedCaps { max_tokens, max_cost, max_minutes };
    (caps != PlannedCaps::default()).then_some(caps)
}

/// How distractors are to be drawn, if they can be.
fn distractors(dataset: &Dataset, args: &RunArgs, experiment: &Experiment) -> anyhow::Result<DistractorKind> {
    let distractors = match args.distractors {
        Some(DistractorsArg::Random) => DistractorKind::Random,
        Some(DistractorsArg::Confusable) => DistractorKind::Confusable,
        None => experiment.distractors.unwrap_or_default(),
    };
    if distractors == DistractorKind::Confusable && !dataset.queries.iter().any(|query| query.scaling) {
        let message = "nothing is confusable: distractors are chosen by likeness to the tools of scaling queries, and the dataset marks none; \
                       mark some with `\"scaling\": true`, or use `--distractors random`";
        return Err(expected(Exit::Usage, message));
    }
    Ok(distractors)
}

/// Numbers that would plan nothing, everything, or what no file can hold.
fn check_numbers(
    args: &RunArgs,
    experiment: &Experiment,
    settings: &LoopSettings,
    order: &OrderInfo,
) -> anyhow::Result<()> {
    let at_least_one = [
        ("--sample", args.sample.or(experiment.sample).map(|n| n as u64)),
        ("repeats", args.repeats.or(experiment.repeats).map(u64::from)),
        ("orders", Some(u64::from(order.orders))),
        ("max_turns", Some(u64::from(settings.max_turns))),
        ("max_episode_tokens", settings.max_episode_tokens),
        ("--max-tokens", args.max_tokens),
    ];
    let problem = if let Some((name, _)) = at_least_one.iter().find(|(_, value)| *value == Some(0)) {
        format!("{name} is 0, expected at least 1")
    } else if args.repeats.or(experiment.repeats).is_some_and(|repeats| repeats > MOST_REPEATS) {
        format!("repeats: expected at most {MOST_REPEATS}")
    } else if order.orders > MOST_REPEATS {
        format!("orders: expected at most {MOST_REPEATS}")
    } else if !(0.0..=2.0).contains(&settings.temperature) {
        format!("temperature {}: expected 0 to 2", settings.temperature)
    } else if settings.max_episode_minutes.is_some_and(|minutes| !minutes.is_finite() || minutes <= 0.0) {
        "max_episode_minutes: expected a number above 0".to_owned()
    } else if args.max_cost.is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
        "--max-cost: expected a sum above 0".to_owned()
    } else {
        return Ok(());
    };
    Err(expected(Exit::Usage, problem))
}

fn host() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{} {}, {cores} processors", std::env::consts::OS, std::env::consts::ARCH)
}

fn strategies(
    registry: &Registry,
    dataset: &Dataset,
    args: &RunArgs,
    experiment: &Experiment,
) -> anyhow::Result<Vec<StrategyInfo>> {
    let registry = with_oracle(registry, Some(dataset));
    let sections: Vec<StrategySection> = if args.strategies.is_empty() {
        experiment.strategies.clone()
    } else {
        let listed = args.strategies.iter().flat_map(|list| split_list(list));
        listed.map(parse_strategy).collect::<anyhow::Result<_>>()?
    };
    if sections.is_empty() {
        let known: Vec<_> = registry.kinds().collect();
        let message = format!("no strategy: name some with -s; known: {}", known.join(", "));
        return Err(expected(Exit::Usage, message));
    }
    let mut infos: Vec<StrategyInfo> = Vec::new();
    if let Some(section) = sections.iter().find(|section| expand(section).is_empty()) {
        let message = format!(
            "strategy {:?}: a parameter is an empty list, so no variant is left; give it a value",
            section.kind
        );
        return Err(expected(Exit::Usage, message));
    }
    for section in sections.iter().flat_map(expand) {
        let strategy = registry.make(&section.kind, &section.params).or_exit(Exit::Usage)?;
        let label = section.label.unwrap_or(section.kind);
        if label.trim().is_empty() {
            return Err(expected(Exit::Usage, "a strategy has a blank `label`"));
        }
        if infos.iter().any(|info| info.label == label) {
            let message = format!("two strategies are labelled {label:?}; give one a `label` of its own");
            return Err(expected(Exit::Usage, message));
        }
        let meta = strategy.meta();
        if let Some(same) = infos.iter().find(|info| info.meta == meta) {
            let message =
                format!("{label:?} and {:?} are the same strategy with the same parameters; drop one", same.label);
            return Err(expected(Exit::Usage, message));
        }
        infos.push(StrategyInfo { label, meta });
    }
    Ok(infos)
}

fn choose_reference(
    wanted: Option<String>,
    infos: &[StrategyInfo],
    outlooks: &[Outlook],
) -> anyhow::Result<Option<String>> {
    match wanted {
        Some(label) if infos.iter().any(|info| info.label == label) => Ok(Some(label)),
        Some(label) => {
            let known: Vec<_> = infos.iter().map(|info| info.label.as_str()).collect();
            let message = format!("reference {label:?} is no strategy of this run; there are: {}", known.join(", "));
            Err(expected(Exit::Usage, message))
        }
        // The strategy that stands for "no selection at all" where it runs, else the first contender: neither the ceiling nor the
        // floor says what a choice is worth, and what runs nowhere is worse than anything.
        None => {
            let kind = |info: &StrategyInfo, kinds: &[&str]| kinds.contains(&info.meta.kind.as_str());
            let runs = |info: &StrategyInfo| {
                let mut own = outlooks.iter().filter(|row| row.estimate.strategy == info.label);
                own.all(|row| !row.never_runs())
            };
            let eager = || infos.iter().find(|info| kind(info, &["eager"]) && runs(info));
            let asking = || infos.iter().find(|info| info.meta.drives_model && !kind(info, &["oracle"]) && runs(info));
            let other = || infos.iter().find(|info| !kind(info, &["random", "oracle"]));
            let chosen = eager().or_else(asking).or_else(other).or(infos.first());
            Ok(chosen.map(|info| info.label.clone()))
        }
    }
}

/// What the sizes count, and the sizes, ascending.
fn axis(
    dataset: &Dataset,
    args: &RunArgs,
    experiment: &Experiment,
    distractors: DistractorKind,
    seed: u64,
) -> anyhow::Result<(Axis, Vec<u32>)> {
    let whole = dataset.catalogue.tools.len() as u32;
    let tools = numbers("-n", &args.sizes, &experiment.sizes, || whole)?;
    if args.skills.is_empty() && experiment.skills.is_empty() {
        let default =
            || if dataset.sizes.is_empty() { vec![whole] } else { dataset.sizes.iter().map(|n| *n as u32).collect() };
        return Ok((Axis::Tools, if tools.is_empty() { default() } else { tools }));
    }
    let tools = match tools.as_slice() {
        [] => whole,
        [one] => *one,
        _ => {
            let message =
                "skills are counted at one catalogue size: name one with -n, or leave it out for the whole catalogue";
            return Err(expected(Exit::Usage, message));
        }
    };
    let axis = Axis::Skills { tools };
    let skills = Subsets::new(dataset, axis, distractors, seed).skills().or_exit(Exit::Usage)?;
    let all = || skills.map_or(0, |(there, _)| there as u32);
    Ok((axis, numbers("--skills", &args.skills, &experiment.skills, all)?))
}

/// Numbers of a flag, or else of the experiment file; ascending, each once.
fn numbers(flag: &str, given: &[String], else_from: &[u32], all: impl Fn() -> u32) -> anyhow::Result<Vec<u32>> {
    let number = |text: &String| match text.trim() {
        "all" => Ok(all()),
        number => {
            number.parse().map_err(|_| format!("{flag} {number:?}: expected a number, or `all`")).or_exit(Exit::Usage)
        }
    };
    let mut numbers: Vec<u32> = given.iter().map(number).collect::<anyhow::Result<_>>()?;
    if numbers.is_empty() {
        numbers.extend_from_slice(else_from);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Several sizes, or one that leaves something out, are compared on the queries that are valid at all of them.
fn scaling_only(dataset: &Dataset, args: &RunArgs, experiment: &Experiment, axis: Axis, sizes: &[u32]) -> bool {
    match (args.queries, experiment.queries) {
        (Some(QueriesArg::Scaling), _) | (None, Some(Queries::Scaling)) => true,
        (Some(QueriesArg::All), _) | (None, Some(Queries::All)) => false,
        (None, None) => axis != Axis::Tools || sizes != [dataset.catalogue.tools.len() as u32],
    }
}

fn select_queries(dataset: &Dataset, split: &str, scaling_only: bool) -> anyhow::Result<Vec<Arc<Query>>> {
    let of_split = |query: &&Arc<Query>| split == "all" || query.split == split;
    if dataset.queries.is_empty() {
        let message = format!(
            "dataset {} has no queries, so there is nothing to ask; write its queries.jsonl and qrels.jsonl (datasets/FORMAT.md)",
            dataset.name
        );
        return Err(expected(Exit::Usage, message));
    }
    let queries: Vec<_> = dataset.queries.iter().filter(of_split).cloned().collect();
    if queries.is_empty() {
        let known: BTreeSet<_> = dataset.queries.iter().map(|query| query.split.as_str()).collect();
        let known: Vec<_> = known.into_iter().collect();
        let message = format!("no query of split {split:?}; the dataset has: {}", known.join(", "));
        return Err(expected(Exit::Usage, message));
    }
    let queries: Vec<_> = queries.into_iter().filter(|query| !scaling_only || query.scaling).collect();
    if queries.is_empty() {
        return Err(expected(
            Exit::Usage,
            "the dataset marks no query as valid at every size; mark some with `\"scaling\": true`, ask at one size with `-n all`, or use \
             `--queries all`",
        ));
    }
    Ok(queries)
}

fn view_info(subset: &Subset, size: u32, digest: Digest, profile: &Profile) -> ViewInfo {
    let view = subset.view(&Actor::all(), None, None);
    let definition_tokens = view.tools().iter().map(|tool| definition_tokens(tool, profile)).sum();
    ViewInfo { size, definition_tokens, skills: view.skills().len() as u32, digest }
}

/// What is known of the endpoint; of none, nothing.
pub fn profile_of(endpoint: Option<&EndpointInfo>) -> Profile {
    endpoint.map_or_else(|| Profile::hosted("none", "none"), |endpoint| endpoint.profile.clone())
}

/// Tools that the run may show: of the largest catalogue, and what queries bring along as their own candidates.
fn shown_tools<'d>(
    dataset: &'d Dataset,
    subsets: &Subsets<'_>,
    sizes: &[u32],
    queries: &[Arc<Query>],
) -> anyhow::Result<Vec<&'d Tool>> {
    let largest = sizes.last().map(|size| subsets.of(*size)).transpose().or_exit(Exit::Usage)?;
    let own = queries.iter().filter_map(|query| query.candidates.as_ref()).flatten();
    let ids = largest.iter().flat_map(|subset| &subset.tools).chain(own);
    Ok(ids.filter_map(|id| dataset.catalogue.get(id)).map(Arc::as_ref).collect())
}

/// Tools whose arguments are checked in part, each once; of a run in which somebody calls tools.
fn in_part(tools: &[&Tool], drives_model: bool) -> Vec<ToolId> {
    let of = |tool: &&&Tool| drives_model && checked_in_part(&tool.input_schema);
    let ids: BTreeSet<&ToolId> = tools.iter().filter(of).map(|tool| &tool.id).collect();
    ids.into_iter().cloned().collect()
}

fn loop_settings(args: &RunArgs, experiment: &Experiment, endpoint: Option<&EndpointInfo>) -> LoopSettings {
    let section = &experiment.episode_loop;
    LoopSettings {
        mode: match args.mode {
            Some(ModeArg::Loop) => Mode::Loop,
            Some(ModeArg::FirstCall) => Mode::FirstCall,
            None => section.mode.unwrap_or(Mode::Loop),
        },
        wording: match args.wording {
            Some(WordingArg::Plain) => Wording::Plain,
            Some(WordingArg::Terse) => Wording::Terse,
            Some(WordingArg::Careful) => Wording::Careful,
            None => section.wording.unwrap_or(Wording::Plain),
        },
        max_turns: section.max_turns.unwrap_or(DEFAULT_TURNS),
        max_episode_tokens: section.max_episode_tokens,
        max_episode_minutes: section.max_episode_minutes,
        temperature: section.temperature.unwrap_or(DEFAULT_TEMPERATURE),
        max_output_tokens: endpoint.map_or(512, |endpoint| endpoint.profile.max_output_tokens),
        seed: None,
    }
}

/// Which endpoint the flags, the experiment file or the environment name.
pub fn endpoint(args: &RunArgs, experiment: &Experiment, needed: bool) -> anyhow::Result<Option<EndpointInfo>> {
    let empty = EndpointSection::default();
    let section = experiment.endpoint.as_ref().unwrap_or(&empty);
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let kind = args.endpoint.clone().or(section.kind.clone());
    let profile_path = args.profile.clone().or(section.profile.clone());
    let load_profile = |path: &PathBuf| Profile::load(path).or_exit(Exit::Usage);
    if let Some(recording) = args.replay.as_ref().filter(|_| kind.is_none()) {
        return replayed_endpoint(recording, profile_path.as_ref()).map(Some);
    }
    if let Some(script) = kind.as_deref().and_then(|kind| kind.strip_prefix("scripted")) {
        let behaviour: Behaviour = script.strip_prefix(':').unwrap_or("lexical").parse().or_exit(Exit::Usage)?;
        let name = format!("scripted:{}", behaviour.as_str());
        let profile = if let Some(path) = &profile_path {
            load_profile(path)?
        } else {
            let mut profile = Profile::hosted("scripted", behaviour.as_str());
            profile.id.clone_from(&name);
            profile
        };
        return Ok(Some(EndpointInfo {
            kind: name,
            base_url: None,
            api_key_env: None,
            profile,
            timeout_s: DEFAULT_TIMEOUT_S,
            price: None,
            price_date: None,
        }));
    }
    if let Some(kind) = kind.as_deref().filter(|kind| *kind != "openai") {
        let message = format!("unknown endpoint {kind:?}; expected `openai`, or `scripted:` and a behaviour");
        return Err(expected(Exit::Usage, message));
    }
    let described = profile_path.as_ref().map(load_profile).transpose()?;
    let base_url = section.base_url.clone().or_else(|| env("OPENAI_BASE_URL"));
    let model = section.model.clone().or_else(|| env("TOOLGAUGE_MODEL"));
    let model = model.or_else(|| described.as_ref().map(|profile| profile.model.clone()));
    let (Some(base_url), Some(model)) = (base_url, model) else {
        if needed {
            return Err(expected(
                Exit::Usage,
                "a strategy of this run asks a model, and no endpoint is named: set OPENAI_BASE_URL and TOOLGAUGE_MODEL \
                 (key in OPENAI_API_KEY, or in a file for --api-key-file), or write [endpoint] in the experiment file, or try \
                 `--endpoint scripted:lexical`",
            ));
        }
        return Ok(None);
    };
    // Before anything is written or shown: an address may hold a password by mistake, and any of these the key.
    let key_file = key::file(args, experiment);
    let api_key_env = key::variable(section, key_file)?;
    let id = described.as_ref().map_or("", |profile| &*profile.id);
    let name = args.name.as_ref().or(experiment.name.as_ref()).map_or("", String::as_str);
    let written = [
        ("the base URL", &*base_url),
        ("the name of the model", &*model),
        ("the id of the profile", id),
        ("the name of the run", name),
    ];
    key::refuse_in(key::read(key_file, api_key_env.as_deref())?.as_ref(), &written)?;
    check_base_url(&base_url).or_exit(Exit::Usage)?;
    if let Some(profile) = described.as_ref().filter(|profile| profile.model != model) {
        let message = format!(
            "the profile is of model {:?}, and {model:?} is asked for; name one of the two in both places",
            profile.model
        );
        return Err(expected(Exit::Usage, message));
    }
    let managed = described.is_some();
    let profile = described.unwrap_or_else(|| Profile::hosted(&base_url, &model));
    let prices = prices(args.prices.as_deref())?;
    let price = prices.get(&profile.model);
    Ok(Some(EndpointInfo {
        kind: "openai".to_owned(),
        // A profile of its own is an identity of its own: the address may change from day to day, unless it is written down.
        base_url: if managed { section.base_url.clone() } else { Some(base_url) },
        api_key_env,
        profile,
        timeout_s: section.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S),
        price_date: price.map(|_| prices.date),
        price,
    }))
}

/// The endpoint that a recorded run talked to.
fn replayed_endpoint(recording: &Path, profile: Option<&PathBuf>) -> anyhow::Result<EndpointInfo> {
    let manifest = recording.join("manifest.json");
    if manifest.exists() {
        let stored = harness::run::dir::StoredRun::read(recording).or_exit(Exit::Usage)?;
        return stored.manifest.endpoint.ok_or_else(|| {
            expected(
                Exit::Usage,
                format!("{}: that run asked no model, there is nothing to replay", recording.display()),
            )
        });
    }
    let path = profile.ok_or_else(|| {
        expected(Exit::Usage, "a cassette does not say what the endpoint could do: name its profile with --profile")
    })?;
    let profile = Profile::load(path).or_exit(Exit::Usage)?;
    Ok(EndpointInfo {
        kind: "openai".to_owned(),
        base_url: None,
        api_key_env: None,
        profile,
        timeout_s: DEFAULT_TIMEOUT_S,
        price: None,
        price_date: None,
    })
}

pub fn prices(path: Option<&Path>) -> anyhow::Result<PriceTable> {
    let (text, name) = match path {
        Some(path) => {
            let name = path.display().to_string();
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}")).or_exit(Exit::Usage)?;
            (text, name)
        }
        None => (BUILT_IN_PRICES.to_owned(), "built-in prices".to_owned()),
    };
    let table: PriceTable =
        toml::from_str(&text).map_err(|error| expected(Exit::Usage, format!("{name}: {}", error.message())))?;
    let sane = |price: &Price| {
        [Some(price.input), Some(price.output), price.cache_read]
            .iter()
            .flatten()
            .all(|usd| *usd >= 0.0 && usd.is_finite())
    };
    match table.models.iter().find(|(_, price)| !sane(price)) {
        Some((model, _)) => {
            Err(expected(Exit::Usage, format!("{name}: a price of {model:?} is negative or no number")))
        }
        None => Ok(table),
    }
}

/// The transport of an endpoint; the key comes from the file, or from the environment variable that the manifest names.
pub fn transport(endpoint: &EndpointInfo, key_file: Option<&Path>) -> anyhow::Result<Arc<dyn Transport>> {
    if let Some(script) = endpoint.kind.strip_prefix("scripted:") {
        return Ok(Arc::new(Scripted::new(script.parse().or_exit(Exit::Usage)?)));
    }
    let base_url = match &endpoint.base_url {
        Some(base_url) => base_url.clone(),
        None => std::env::var("OPENAI_BASE_URL")
            .map_err(|_| "this run's endpoint has no fixed address: set OPENAI_BASE_URL")
            .or_exit(Exit::Usage)?,
    };
    if endpoint.api_key_env.is_none() && key_file.is_none() {
        say!(
            "no key is sent: this run names no variable with one; a key that came from a file needs --api-key-file again"
        );
    }
    let api_key = key::of(endpoint, key_file)?;
    if api_key.as_ref().is_some_and(|key| !key.is_placeholder()) && is_unencrypted(&base_url) {
        say!(
            "the address begins with http: whoever is on the way to the endpoint can read the key and all that is asked"
        );
    }
    let config = OpenAiConfig { base_url, api_key, timeout_ms: endpoint.timeout_s * 1_000 };
    Ok(Arc::new(OpenAi::new(&config).or_exit(Exit::Usage)?))
}

/// Strategies of a stored plan, made again from the manifest and checked against it.
pub fn strategies_of(
    registry: &Registry,
    dataset: &Dataset,
    manifest: &Manifest,
) -> anyhow::Result<HashMap<String, Box<dyn Strategy>>> {
    let registry = with_oracle(registry, Some(dataset));
    let mut strategies = HashMap::new();
    for info in &manifest.strategies {
        let params = info.meta.params.as_object().cloned().unwrap_or_default();
        let strategy = registry.make(&info.meta.kind, &params).or_exit(Exit::Usage)?;
        let found = strategy.meta();
        if found != info.meta {
            let message = format!(
                "strategy {:?} was version {} when this run was planned and is version {} now; start a new run",
                info.label, info.meta.version, found.version
            );
            return Err(expected(Exit::Usage, message));
        }
        strategies.insert(info.label.clone(), strategy);
    }
    Ok(strategies)
}

/// What a stored plan has at each of its sizes.
pub fn subsets_of(dataset: &Dataset, manifest: &Manifest) -> anyhow::Result<HashMap<u32, Subset>> {
    let subsets = Subsets::new(dataset, manifest.axis, manifest.distractors, manifest.seed);
    let cut = |view: &ViewInfo| {
        let subset = subsets.of(view.size).or_exit(Exit::Dataset)?;
        if subsets.digest(&subset) != view.digest {
            let message = format!(
                "the catalogue of {} that the run had is not the one that the dataset gives today: labels or texts that choose it \
                 have changed; start a new run",
                manifest.axis.count(view.size)
            );
            return Err(expected(Exit::Dataset, message));
        }
        Ok((view.size, subset))
    };
    manifest.views.iter().map(cut).collect()
}

/// Sampling of a stored plan.
pub fn sampling_of(manifest: &Manifest) -> Sampling {
    let model = manifest.endpoint.as_ref().map(|endpoint| endpoint.profile.model.clone()).unwrap_or_default();
    let LoopSettings { temperature, max_output_tokens, seed, .. } = manifest.settings;
    Sampling { model, temperature, max_tokens: max_output_tokens, seed }
}

/// On resume: the profile that the flags or the environment name must be the one of the plan, or the answers would not belong
/// together. Only its pace may be another: it decides no answer.
pub fn check_endpoint(manifest: &Manifest, profile: Option<&PathBuf>) -> anyhow::Result<()> {
    let (Some(planned), Some(path)) = (&manifest.endpoint, profile) else { return Ok(()) };
    let found = Profile::load(path).or_exit(Exit::Usage)?;
    let word = |value: Value| if value.is_null() { "unknown".to_owned() } else { value.to_string() };
    let mut planned = planned.profile.clone();
    planned.at_the_pace_of(&found);
    let differing: Vec<_> = planned
        .differences(&found)
        .into_iter()
        .map(|(key, planned, found)| format!("{key} ({} there, {} here)", word(planned), word(found)))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{}: is not the profile that this run was planned with, they differ in: {}; start a new run, or use its profile",
        path.display(),
        differing.join(", ")
    );
    Err(expected(Exit::Usage, message))
}

/// Loads the dataset of a stored run and makes sure that it is the same one.
pub fn dataset_of(manifest: &Manifest, dir: Option<&Path>, must_match: bool) -> anyhow::Result<Dataset> {
    let given = dir.map_or_else(|| PathBuf::from(&manifest.dataset.path), Path::to_owned);
    let dataset = load_dataset(&given)?;
    if must_match && *dataset.digest() != manifest.dataset.digest {
        let message = format!(
            "{}: the dataset has changed since the run (digest {} then, {} now); `toolgauge rescore` uses the labels of today",
            given.display(),
            manifest.dataset.digest.short(),
            dataset.digest().short()
        );
        return Err(expected(Exit::Dataset, message));
    }
    Ok(dataset)
}
