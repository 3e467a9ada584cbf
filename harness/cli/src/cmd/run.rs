//! `toolgauge run`: asks a model, as only `doctor` does beside it.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::chat::{ChatRequest, Message};
use harness::clock::Stopwatch;
use harness::dataset::Dataset;
use harness::endpoint::{Profile, RetryPolicy, Route, classify};
use harness::episode::Episode;
use harness::episode_loop::Unfinished;
use harness::gateway::{AskError, Caps, Gateway, GatewayParts, is_probe, lessons, refused_schemas};
use harness::ids::{Digest, JobKey};
use harness::registry::Registry;
use harness::run::dir::{RunDir, RunDirError, StoredRun};
use harness::run::executor::{RunError, RunEvent, Work, run as run_jobs};
use harness::run::manifest::{Axis, EndpointInfo, Finish, Manifest, Probe};
use harness::run::plan::{Estimate, Job};
use harness::store::responses::ResponseStore;
use harness::strategy::StrategyError;
use harness::text::{grouped, plain, plural};
use harness::usage::{Price, Usage};

use crate::args::{Format, RunArgs, seconds};
use crate::cmd::report::{Scorer, print_report};
use crate::exit::{Exit, OrExit as _, expected};
use crate::interrupt::Interrupts;
use crate::outlook::Outlook;
use crate::print::say;
use crate::progress::Progress;
use crate::setup::{
    Planned, check_endpoint, dataset_of, plan, profile_of, sampling_of, strategies_of, subsets_of, transport,
};

/// Where runs go that name no folder.
pub const RUNS: &str = "runs";
/// Infrastructure failures in a row, before any success, after which an endpoint counts as down.
const DOWN_AFTER: usize = 3;
/// Share of pairs on which two strategies differ that the plan assumes; the report uses what was observed.
const ASSUMED_DISCORDANCE: f64 = 0.10;
/// A sample smaller than this says nothing.
const LEAST_SAMPLE: usize = 8;

pub fn run(registry: &Registry, args: &RunArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run_async(registry, args))
}

async fn run_async(registry: &Registry, args: &RunArgs) -> anyhow::Result<Exit> {
    if let Some(path) = &args.resume {
        let (dir, stored) = RunDir::resume(path).or_exit(Exit::Usage)?;
        check_endpoint(&stored.manifest, args.profile.as_ref())?;
        let dataset = dataset_of(&stored.manifest, args.dataset.as_deref(), true)?;
        let StoredRun { manifest, plan, episodes, .. } = stored;
        let key_file = args.api_key_file.clone();
        return execute(registry, args, dir, Run { dataset, manifest, plan, episodes, key_file }).await;
    }
    let budget = args.budget.as_deref().map(|text| seconds("--budget", text)).transpose()?;
    for recording in args.replay.iter().chain(&args.reuse) {
        if let Err(error) = recording.metadata() {
            return Err(expected(Exit::Usage, format!("{}: {error}", recording.display())));
        }
    }
    let mut planned = plan(registry, args, None)?;
    let asks = planned.outlooks.iter().any(|row| row.estimate.requests > 0);
    if args.dry_run && budget.is_some() {
        say!("--budget: speed is not measured in a dry run; the plan below is not cut to it");
    } else if let Some(budget) = budget.filter(|_| asks) {
        let (n, probe) = fit_budget(&planned, budget, args).await?;
        planned = plan(registry, args, Some(n))?;
        planned.manifest.probe = probe;
    }
    print_plan(&planned);
    if args.dry_run {
        return Ok(Exit::Ok);
    }
    let path = args.out.clone().unwrap_or_else(|| new_run_path(&planned.manifest));
    let dir = RunDir::create(&path, &planned.manifest, &planned.jobs).or_exit(Exit::Usage)?;
    let Planned { dataset, manifest, jobs, key_file, .. } = planned;
    execute(registry, args, dir, Run { dataset, manifest, plan: jobs, episodes: Vec::new(), key_file }).await
}

struct Run {
    dataset: Dataset,
    manifest: Manifest,
    plan: Vec<Job>,
    episodes: Vec<Episode>,
    key_file: Option<PathBuf>,
}

/// `runs/<UTC>-<name>-<hash>`.
fn new_run_path(manifest: &Manifest) -> PathBuf {
    let time: String = manifest.started.chars().filter(char::is_ascii_alphanumeric).collect();
    let name: String =
        manifest.name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
    let hash = Digest::of_json(&(&manifest.started, std::process::id(), &manifest.strategies));
    Path::new(RUNS).join(format!("{time}-{name}-{}", &hash.short()[..8]))
}

async fn execute(registry: &Registry, args: &RunArgs, mut dir: RunDir, run: Run) -> anyhow::Result<Exit> {
    let Run { dataset, mut manifest, plan, episodes, key_file } = run;
    let subsets = subsets_of(&dataset, &manifest)?;
    let done: HashSet<&JobKey> =
        episodes.iter().filter(|episode| !episode.outcome.is_infra_failure()).map(|episode| &episode.job).collect();
    let again = episodes.len() - done.len();
    let todo: Vec<&Job> = plan.iter().filter(|job| !done.contains(&job.key)).collect();
    if args.resume.is_some() {
        let tried_again = match again {
            0 => String::new(),
            again => format!(", {}", plural(again as u64, "that failed is tried again", "that failed are tried again")),
        };
        let planned = plural(plan.len() as u64, "episode", "episodes");
        say!("{}: {} of {planned} done{tried_again}", dir.path().display(), grouped(done.len() as u64));
    }
    let mut how = Ending::Complete;
    let mut most_in_flight = manifest.finish.as_ref().map_or(0, |finish| finish.most_in_flight);
    if !todo.is_empty() {
        let interrupts = Interrupts::listen(resume_with(dir.path()));
        let gateway = gateway(args, &dir, manifest.endpoint.as_ref(), key_file.as_deref())?;
        let scorer = Scorer::new(&dataset, &manifest, &subsets);
        let mut progress = Progress::new(todo.len());
        let mut down = Downtime::default();
        let work = Work {
            dataset: &dataset,
            subsets: subsets.clone(),
            strategies: strategies_of(registry, &dataset, &manifest)?,
            gateway: &gateway,
            settings: manifest.settings.clone(),
            sampling: sampling_of(&manifest),
            order: manifest.order.clone(),
            seed: manifest.seed,
            concurrency: gateway.profile().concurrency,
            drain: interrupts.drain(),
        };
        let mut finished = 0;
        let observe = |event: RunEvent<'_>| -> Result<(), Halt> {
            match event {
                RunEvent::Finished { episode, .. } => {
                    dir.add(episode)?;
                    finished += 1;
                    let score = scorer.score(episode).map_err(Halt::Bug)?;
                    progress.finished(episode, &score, gateway.spent());
                    down.watch(episode)
                }
                RunEvent::Unfinished { .. } => Ok(()),
                RunEvent::Endpoint(notice) => {
                    progress.notice(notice);
                    Ok(())
                }
            }
        };
        let result = tokio::select! {
            result = run_jobs(&work, &todo, observe) => result,
            never = drop_requests(&interrupts, &gateway) => match never {},
        };
        progress.close();
        most_in_flight = most_in_flight.max(gateway.most_in_flight());
        how = ending(result, interrupts.run_is_over(), todo.len() - finished)?;
        if let Ending::Capped(why) = &mut how {
            why.push_str(&used(&dir, &gateway)?);
        }
    }
    // Also where nothing was left to do: a process may have died after its last episode and before this line, and what an
    // earlier one wrote here, that it was interrupted, would stand for ever.
    let complete = manifest.finish.as_ref().is_some_and(|finish| finish.how == "complete");
    if !todo.is_empty() || !complete {
        manifest.finish = Some(finish(&how, &dir, most_in_flight, &dataset)?);
        dir.update(&manifest).or_exit(Exit::Usage)?;
    }
    let path = dir.path().to_owned();
    drop(dir);
    let stored = StoredRun::read(&path).or_exit(Exit::Usage)?;
    let files = path.join("report");
    print_report(&dataset, &stored, &subsets, Format::Human, &files)?;
    let failures = stored.episodes.iter().filter(|episode| episode.outcome.is_infra_failure()).count();
    Ok(conclude(&how, &path, failures, args.max_failures))
}

fn resume_with(path: &Path) -> String {
    format!("resume with: toolgauge run --resume {}", path.display())
}

/// What a run had used when its cap stopped it. Episodes that the stop cut off were paid for as well.
fn used(dir: &RunDir, gateway: &Gateway) -> anyhow::Result<String> {
    let stored = StoredRun::read(dir.path()).or_exit(Exit::Usage)?;
    let finished: HashSet<&Digest> =
        stored.episodes.iter().flat_map(|episode| &episode.turns).map(|turn| &turn.key).collect();
    // Records of episodes name their generations; embeddings and probes of schemas belong to no episode.
    let generation = |key: &Digest| {
        let asked = gateway.store().request(key).ok().flatten();
        asked.is_some_and(|asked| asked.route == Route::Chat.to_string() && !is_probe(&asked.body))
    };
    let cut_off = gateway.spent_on(|key| !finished.contains(key) && generation(key)).or_exit(Exit::Usage)?;
    let all = gateway.spent();
    let price = |cost: Option<f64>| cost.map(|cost| format!(" (${cost:.2})")).unwrap_or_default();
    Ok(format!(
        ": {}{} used, of which {}{} in episodes that did not finish",
        plural(all.tokens, "token", "tokens"),
        price(all.cost),
        grouped(cut_off.tokens),
        price(cut_off.cost)
    ))
}

/// Says how to go on, and which code that means.
fn conclude(how: &Ending, path: &Path, failures: usize, allowed: usize) -> Exit {
    let resume = resume_with(path);
    match how {
        Ending::Capped(why) => {
            say!(
                "toolgauge: {why}; episodes that are missing from queries in the table count as failures. A resumed run has no cap \
                 unless it is given one, a higher one than before; {resume}"
            );
            Exit::Capped
        }
        Ending::NotRecorded(why) => {
            say!("toolgauge: {why}; a resumed run asks the endpoint unless it is --offline too; {resume}");
            Exit::Capped
        }
        Ending::Interrupted => {
            say!("toolgauge: interrupted; {resume}");
            Exit::Interrupted
        }
        Ending::Endpoint(why) => {
            say!("toolgauge: the endpoint cannot be used: {}\n{resume}", plain(why));
            Exit::Endpoint
        }
        Ending::Complete if failures > allowed => {
            let failures = plural(failures as u64, "episode", "episodes");
            say!("toolgauge: {failures} failed for want of an answer ({allowed} allowed). {resume}");
            Exit::Failures
        }
        Ending::Complete => Exit::Ok,
    }
}

/// How a run ended.
#[derive(Debug)]
enum Ending {
    Complete,
    Capped(String),
    NotRecorded(String),
    Interrupted,
    Endpoint(String),
}

/// Why the observer stops a run.
#[derive(Debug, thiserror::Error)]
enum Halt {
    #[error(transparent)]
    Write(#[from] RunDirError),
    #[error("{0}")]
    Down(String),
    #[error("{0}")]
    Bug(String),
}

fn ending(result: Result<(), RunError<Halt>>, drained: bool, left: usize) -> anyhow::Result<Ending> {
    match result {
        Ok(()) if drained && left > 0 => Ok(Ending::Interrupted),
        Ok(()) => Ok(Ending::Complete),
        Err(RunError::Unfinished(Unfinished::Ask(AskError::Stopping))) => Ok(Ending::Interrupted),
        Err(RunError::Unfinished(Unfinished::Ask(error @ AskError::Capped(_)))) => {
            Ok(Ending::Capped(error.to_string()))
        }
        Err(RunError::Unfinished(Unfinished::Ask(error @ AskError::NotRecorded { .. }))) => {
            Ok(Ending::NotRecorded(error.to_string()))
        }
        Err(RunError::Unfinished(Unfinished::Ask(AskError::Endpoint(failure)))) => {
            Ok(Ending::Endpoint(failure.to_string()))
        }
        Err(RunError::Unfinished(Unfinished::Ask(error @ AskError::Down { .. }))) => {
            Ok(Ending::Endpoint(format!("{error}; what has no answer is unfinished and has not failed")))
        }
        Err(RunError::Observer(Halt::Down(why))) => Ok(Ending::Endpoint(why)),
        Err(RunError::Unfinished(Unfinished::Ask(AskError::Store(error)))) => Err(expected(Exit::Usage, error)),
        Err(RunError::Observer(Halt::Write(error))) => Err(expected(Exit::Usage, error)),
        Err(
            error @ (RunError::Prepare { error: StrategyError::Unavailable(_), .. }
            | RunError::Unfinished(Unfinished::Unavailable { .. })),
        ) => Err(expected(Exit::Usage, error)),
        Err(error) => Err(anyhow::anyhow!(error.to_string())),
    }
}

fn finish(how: &Ending, dir: &RunDir, most_in_flight: usize, dataset: &Dataset) -> anyhow::Result<Finish> {
    let stored = StoredRun::read(dir.path()).or_exit(Exit::Usage)?;
    let store = dir.responses().or_exit(Exit::Usage)?;
    let failures = stored.episodes.iter().any(|episode| episode.outcome.is_infra_failure());
    let mut served = std::collections::BTreeSet::new();
    for answer in store.responses() {
        served.extend(answer.or_exit(Exit::Usage)?.1.body["model"].as_str().map(str::to_owned));
    }
    let refused = |endpoint: &EndpointInfo| refused_schemas(&store, &endpoint.profile, &dataset.catalogue);
    let schemas = stored.manifest.endpoint.as_ref().map(refused).transpose().or_exit(Exit::Usage)?.flatten();
    Ok(Finish {
        at: harness::clock::now_utc(),
        how: match how {
            Ending::Complete if failures => "complete with failures",
            Ending::Complete => "complete",
            Ending::Capped(_) | Ending::NotRecorded(_) => "capped",
            Ending::Interrupted => "interrupted",
            Ending::Endpoint(_) => "failed",
        }
        .to_owned(),
        episodes: stored.episodes.len(),
        served_models: served.into_iter().collect(),
        possibly_billed: store.possibly_billed(),
        failed_attempts: store.failed_attempts(),
        wasted_tokens: store.wasted().values().map(Usage::total).sum(),
        most_in_flight,
        schemas,
        lessons: lessons(&store).or_exit(Exit::Usage)?,
    })
}

/// Drops the requests in flight once the run is to end at once.
async fn drop_requests(interrupts: &Interrupts, gateway: &Gateway) -> Infallible {
    interrupts.at_once().await;
    gateway.stop();
    std::future::pending().await
}

/// Notices an endpoint that answers nobody, so that thousands of episodes need not fail one by one.
#[derive(Debug, Default)]
struct Downtime {
    answered: bool,
    failed: usize,
}

impl Downtime {
    fn watch(&mut self, episode: &Episode) -> Result<(), Halt> {
        self.answered |= !episode.turns.is_empty();
        if let harness::episode::Outcome::Failed { error, message } = &episode.outcome {
            self.failed += 1;
            if !self.answered && self.failed >= DOWN_AFTER {
                return Err(Halt::Down(format!("{DOWN_AFTER} episodes, no answer; the last one: {error}: {message}")));
            }
        }
        Ok(())
    }
}

fn gateway(
    args: &RunArgs,
    dir: &RunDir,
    endpoint: Option<&EndpointInfo>,
    key_file: Option<&Path>,
) -> anyhow::Result<Gateway> {
    let mut profile = profile_of(endpoint);
    // Where a plan is resumed the profile of today may name another pace, and nothing else (`check_endpoint`).
    if let Some(path) = args.profile.as_ref().filter(|_| endpoint.is_some()) {
        profile.at_the_pace_of(&Profile::load(path).or_exit(Exit::Usage)?);
    }
    profile.concurrency = args.concurrency.map_or(profile.concurrency, usize::from);
    let price = endpoint.and_then(|endpoint| endpoint.price);
    if args.max_cost.is_some() && price.is_none() {
        let message =
            format!("--max-cost needs a price for {:?}, and the table has none; add it with --prices", profile.model);
        return Err(expected(Exit::Usage, message));
    }
    let recordings = args.replay.iter().chain(&args.reuse);
    let cassettes = recordings.map(|path| read_recording(path)).collect::<anyhow::Result<_>>()?;
    let transport = match endpoint {
        Some(endpoint) if args.replay.is_none() && !args.offline => Some(transport(endpoint, key_file)?),
        _ => None,
    };
    Gateway::new(GatewayParts {
        transport,
        store: dir.responses().or_exit(Exit::Usage)?,
        cassettes,
        profile,
        policy: RetryPolicy::default(),
        caps: Caps {
            max_tokens: args.max_tokens,
            max_cost: args.max_cost,
            max_time: args.max_minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
            max_downtime: args.max_downtime,
        },
        price,
    })
    .or_exit(Exit::Usage)
}

fn read_recording(path: &Path) -> anyhow::Result<ResponseStore> {
    let file = if path.is_dir() { path.join("responses.jsonl") } else { path.to_owned() };
    ResponseStore::read(&file).or_exit(Exit::Usage)
}

fn print_plan(planned: &Planned) {
    let manifest = &planned.manifest;
    let selection = &manifest.selection;
    let sampled = if selection.sampled {
        format!(", a random subset of {}", grouped(selection.of as u64))
    } else {
        String::new()
    };
    let queries = plural(selection.queries as u64, "query", "queries");
    say!(
        "plan: {} {} · split {} · {queries}{sampled} · {}",
        plain(&manifest.dataset.name),
        plain(&manifest.dataset.revision),
        plain(&selection.split),
        plural(manifest.jobs as u64, "episode", "episodes")
    );
    print_asked(planned);
    if let Some(own) = &manifest.candidates {
        say!(
            "{} asked of candidates of their own, {:.1} tools on average and {} at most, and not of the whole catalogue",
            plural(own.queries as u64, "query is", "queries are"),
            own.mean,
            grouped(own.most as u64)
        );
    }
    let asks = |row: &&Outlook| row.estimate.requests > 0 || row.never_runs() || row.doubts().is_some();
    let asking: Vec<&Outlook> = planned.outlooks.iter().filter(asks).collect();
    if asking.is_empty() {
        say!("no model is asked");
        return;
    }
    let price = manifest.endpoint.as_ref().and_then(|endpoint| endpoint.price);
    say!(
        "{:<24} {:>6} {:>9} {:>9} {:>16} {:>10}",
        "strategy",
        manifest.axis.noun(),
        "episodes",
        "requests",
        "tokens (est.)",
        "price"
    );
    for row in asking {
        print_outlook(row, price);
    }
    let comparisons = manifest.strategies.iter().filter(|info| info.meta.drives_model).count().saturating_sub(1);
    let pairs = selection.queries as u64;
    let alpha = 0.05 / comparisons.max(1) as f64;
    if comparisons > 0 {
        let shown = harness::metric::stats::smallest_difference(pairs, ASSUMED_DISCORDANCE, alpha).map_or_else(
            || format!("none: {}", plural(pairs, "pair is too few", "pairs are too few")),
            |difference| plural((100.0 * difference).round() as u64, "point", "points"),
        );
        say!(
            "smallest difference in success this plan could show: {shown} (80 % power, {}, if {:.0} % of the pairs disagree)",
            plural(comparisons as u64, "comparison", "comparisons"),
            100.0 * ASSUMED_DISCORDANCE
        );
    }
}

/// Where not all queries are asked, and why.
fn print_asked(planned: &Planned) {
    let Planned { manifest, asked, skills, .. } = planned;
    let planned = manifest.selection.queries;
    let queries = plural(planned as u64, "query", "queries");
    if let Some((there, of)) = skills {
        say!("{} of {} a tool there", grouped(*there as u64), plural(*of as u64, "skill holds", "skills hold"));
    }
    let fewer = asked.iter().filter(|(_, asked)| *asked < planned);
    match manifest.axis {
        Axis::Tools => {
            for (size, asked) in fewer {
                let (at, asked) = (manifest.axis.count(*size), grouped(*asked as u64));
                say!("at {at}: {asked} of {queries}; what does the job of the others is not always there");
            }
        }
        // All sets of skills are asked the same.
        Axis::Skills { .. } => {
            for (size, asked) in fewer.take(1) {
                let (at, asked) = (manifest.axis.count(*size), grouped(*asked as u64));
                say!("at every number of skills: {asked} of {queries}, those that {at} can answer");
            }
        }
    }
}

/// A line of the plan. What will not run takes no requests.
fn print_outlook(row: &Outlook, price: Option<Price>) {
    let Estimate { strategy, size, episodes, requests, input_tokens, output_tokens, .. } = &row.estimate;
    let start = format!("{:<24} {size:>6} {episodes:>9}", plain(strategy));
    let doubts = row.doubts();
    if row.never_runs() {
        say!("{start} {}", doubts.unwrap_or_default());
        return;
    }
    let cost = price.map(|price| {
        price.cost(&Usage { input_tokens: *input_tokens, output_tokens: *output_tokens, ..Usage::default() })
    });
    let price = cost.map_or("unknown".to_owned(), |cost| format!("${cost:.2}"));
    let tokens = format!("{}{}", if row.at_most { "at most " } else { "" }, input_tokens + output_tokens);
    let doubts = doubts.map_or_else(String::new, |doubts| format!("  {doubts}"));
    say!("{start} {requests:>9} {tokens:>16} {price:>10}{doubts}");
}

/// Measures speed, then says how many queries fit the budget.
async fn fit_budget(planned: &Planned, seconds: f64, args: &RunArgs) -> anyhow::Result<(usize, Option<Probe>)> {
    let available = planned.manifest.selection.queries;
    let Some(endpoint) = planned.manifest.endpoint.as_ref().filter(|_| args.replay.is_none() && !args.offline) else {
        return Ok((available, None));
    };
    let speed = measure_speed(endpoint, planned.key_file.as_deref()).await?;
    let queries = planned.manifest.selection.queries.max(1) as f64;
    // A prompt is read once: the second turn of an episode finds its beginning in the server's cache.
    let new_prompt_share = 0.55;
    let per_query: f64 = planned
        .outlooks
        .iter()
        .map(|Outlook { estimate: row, .. }| {
            let prompt = row.input_tokens as f64 * new_prompt_share / speed.prompt_tokens_per_s;
            (prompt + row.output_tokens as f64 / speed.output_tokens_per_s) / queries
        })
        .sum();
    let n = if per_query > 0.0 { (seconds / per_query) as usize } else { available };
    let n = n.clamp(LEAST_SAMPLE.min(available), available);
    say!(
        "measured {:.0} prompt and {:.0} output tokens per second: about {per_query:.0} s per query over all strategies, \
         so {} of {} for a budget of {seconds:.0} s",
        speed.prompt_tokens_per_s,
        speed.output_tokens_per_s,
        grouped(n as u64),
        plural(available as u64, "query", "queries")
    );
    Ok((n, Some(speed)))
}

async fn measure_speed(endpoint: &EndpointInfo, key_file: Option<&Path>) -> anyhow::Result<Probe> {
    let transport = transport(endpoint, key_file)?;
    // Words that no other prompt starts with, so that no cache answers for the machine.
    let filler: Vec<String> = (0..400).map(|n| format!("item {n} weighs {} g", (n * 37) % 91)).collect();
    let filler = filler.join("; ");
    let timed = async |text: &str, max_tokens: u32| -> anyhow::Result<(f64, u64, u64)> {
        let request = ChatRequest {
            model: endpoint.profile.model.clone(),
            messages: vec![Message::user(text)],
            tools: Vec::new(),
            tool_choice: None,
            response_format: None,
            temperature: Some(0.0),
            max_tokens: Some(max_tokens),
            seed: None,
        };
        let body = endpoint.profile.body(&request);
        let watch = Stopwatch::start();
        let response = transport.post(Route::Chat, &body).await.or_exit(Exit::Endpoint)?;
        let value = classify(Route::Chat, &response).or_exit(Exit::Endpoint)?;
        let usage = harness::usage::Usage::parse(&value["usage"]);
        let (input, output) =
            usage.map_or((harness::tokens::count(text), u64::from(max_tokens)), |u| (u.input_tokens, u.output_tokens));
        Ok((watch.elapsed_ms() / 1e3, input, output))
    };
    let (read_s, read_tokens, _) = timed(&format!("{filler}\nAnswer with the word yes."), 1).await?;
    let (write_s, _, written) = timed("Count from one to one hundred in words.", 48).await?;
    Ok(Probe {
        prompt_tokens_per_s: (read_tokens as f64 / read_s).max(1.0),
        output_tokens_per_s: (written.max(1) as f64 / write_s).max(0.1),
    })
}
