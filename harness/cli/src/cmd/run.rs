//! `toolgauge run`: asks a model, as only `doctor` does beside it.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::catalogue::Subset;
use harness::chat::{ChatRequest, Message};
use harness::clock::Stopwatch;
use harness::dataset::Dataset;
use harness::endpoint::{Profile, RetryPolicy, Route, classify};
use harness::episode::Episode;
use harness::gateway::{Caps, Gateway, GatewayParts, Spent, is_probe, lessons, refused_schemas};
use harness::ids::{Digest, JobKey};
use harness::metric::score::Score;
use harness::registry::Registry;
use harness::run::dir::{RunDir, StoredRun};
use harness::run::executor::{RunEvent, Work, run as run_jobs};
use harness::run::manifest::{EndpointInfo, Finish, Manifest, Probe};
use harness::run::plan::Job;
use harness::store::responses::ResponseStore;
use harness::text::{grouped, plain, plural};
use harness::usage::Usage;
use tracing::{error, info};

use crate::announce::print_plan;
use crate::args::{Format, RunArgs, seconds};
use crate::cmd::report::{Scorer, print_report, scores, write_report};
use crate::ending::{Ending, Halt, conclude, ending, resume_with};
use crate::events::{Event, Events};
use crate::exit::{Exit, Expected, OrExit as _, expected};
use crate::interrupt::Interrupts;
use crate::key;
use crate::observe::{check, observe};
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
/// A sample smaller than this says nothing.
const LEAST_SAMPLE: usize = 8;

pub fn run(registry: &Registry, args: &RunArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(run_async(registry, args));
    if let Err(error) = &result {
        let exit = error.downcast_ref::<Expected>().map_or(Exit::Bug, |expected| expected.exit);
        // Where not even this can be told, the error itself is the news.
        let _ = Events { on: args.observe.json }.failed(exit, plain(&error.to_string()));
    }
    result
}

async fn run_async(registry: &Registry, args: &RunArgs) -> anyhow::Result<Exit> {
    check(&args.observe)?;
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
    Events { on: args.observe.json }.tell(&Event::planned(&planned))?;
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

/// Works on a run while its log and whoever else was named listen.
async fn execute(registry: &Registry, args: &RunArgs, dir: RunDir, run: Run) -> anyhow::Result<Exit> {
    // Where nothing is sent no key is needed, its file may be elsewhere, and what is stored does not hold it.
    let asked = run.manifest.endpoint.as_ref().filter(|_| args.replay.is_none() && !args.offline);
    let key = asked.map(|endpoint| key::of(endpoint, run.key_file.as_deref())).transpose()?.flatten();
    let observed = observe(&args.observe, dir.path(), key)?;
    let exit = work_on(registry, args, dir, run).await;
    match &exit {
        Ok(exit) => info!(exit = *exit as u8, "run ended"),
        Err(why) => error!(reason = %plain(&why.to_string()), "run ended by an error"),
    }
    observed.close();
    exit
}

async fn work_on(registry: &Registry, args: &RunArgs, mut dir: RunDir, mut run: Run) -> anyhow::Result<Exit> {
    let events = Events { on: args.observe.json };
    let subsets = subsets_of(&run.dataset, &run.manifest)?;
    let done: HashSet<&JobKey> =
        run.episodes.iter().filter(|episode| !episode.outcome.is_infra_failure()).map(|episode| &episode.job).collect();
    let again = run.episodes.len() - done.len();
    let todo: Vec<&Job> = run.plan.iter().filter(|job| !done.contains(&job.key)).collect();
    if args.resume.is_some() {
        let tried_again = match again {
            0 => String::new(),
            again => format!(", {}", plural(again as u64, "that failed is tried again", "that failed are tried again")),
        };
        let planned = plural(run.plan.len() as u64, "episode", "episodes");
        say!("{}: {} of {planned} done{tried_again}", dir.path().display(), grouped(done.len() as u64));
    }
    let path = dir.path().to_owned();
    let folder = plain(&path.display().to_string());
    events.tell(&Event::started(folder.clone(), args.resume.is_some(), todo.len(), done.len()))?;
    info!(
        toolgauge = env!("CARGO_PKG_VERSION"),
        folder,
        dataset = %plain(&run.manifest.dataset.name),
        model = run.manifest.endpoint.as_ref().map(|endpoint| plain(&endpoint.profile.model)),
        episodes = todo.len(),
        done = done.len(),
        "run begun"
    );
    let most_in_flight = run.manifest.finish.as_ref().map_or(0, |finish| finish.most_in_flight);
    let mut did = Did { how: Ending::Complete, most_in_flight, spent: None };
    if !todo.is_empty() {
        did = ask(registry, args, &mut dir, (&run, &subsets, &todo), events).await?;
        did.most_in_flight = did.most_in_flight.max(most_in_flight);
    }
    // Also where nothing was left to do: a process may have died after its last episode and before this line, and what an
    // earlier one wrote here, that it was interrupted, would stand for ever.
    let complete = run.manifest.finish.as_ref().is_some_and(|finish| finish.how == "complete");
    if !todo.is_empty() || !complete {
        run.manifest.finish = Some(finish(&did, &dir, &run.dataset)?);
        dir.update(&run.manifest).or_exit(Exit::Usage)?;
    }
    drop(dir);
    let stored = StoredRun::read(&path).or_exit(Exit::Usage)?;
    let files = path.join("report");
    if events.on {
        write_report(&run.dataset, &stored, &subsets, Format::Human, &files)?;
    } else {
        print_report(&run.dataset, &stored, &subsets, Format::Human, &files)?;
    }
    let failed = stored.episodes.iter().filter(|episode| episode.outcome.is_infra_failure()).count();
    let exit = conclude(&did.how, &path, failed, args.max_failures);
    if events.on {
        tell_end(events, (&run.dataset, &stored, &subsets), &did, (exit, failed), &files)?;
    }
    Ok(exit)
}

/// What a process did of a run.
struct Did {
    how: Ending,
    most_in_flight: usize,
    /// `None` if there was nothing to do.
    spent: Option<Spent>,
}

/// Runs what is left of a plan.
async fn ask(
    registry: &Registry,
    args: &RunArgs,
    dir: &mut RunDir,
    (run, subsets, todo): (&Run, &HashMap<u32, Subset>, &[&Job]),
    events: Events,
) -> anyhow::Result<Did> {
    let Run { dataset, manifest, key_file, .. } = run;
    let interrupts = Interrupts::listen(resume_with(dir.path()));
    let gateway = gateway(args, dir, manifest.endpoint.as_ref(), key_file.as_deref())?;
    let scorer = Scorer::new(dataset, manifest, subsets);
    let mut progress = Progress::new(todo.len());
    let mut down = Downtime::default();
    let work = Work {
        dataset,
        subsets: subsets.clone(),
        strategies: strategies_of(registry, dataset, manifest)?,
        gateway: &gateway,
        settings: manifest.settings.clone(),
        sampling: sampling_of(manifest),
        order: manifest.order.clone(),
        seed: manifest.seed,
        concurrency: gateway.profile().concurrency,
        drain: interrupts.drain(),
    };
    let mut finished = 0;
    let observe = |event: RunEvent<'_>| -> Result<(), Halt> {
        match event {
            RunEvent::Finished { episode, done, of } => {
                dir.add(episode)?;
                finished += 1;
                let score = scorer.score(episode).map_err(Halt::Bug)?;
                let spent = gateway.spent();
                progress.finished(episode, &score, spent);
                events.tell(&Event::episode(episode, &score, (done, of), spent)).map_err(Halt::Output)?;
                down.watch(episode)
            }
            RunEvent::Unfinished { .. } => Ok(()),
            RunEvent::Endpoint(notice) => {
                progress.notice(notice);
                let event = Event::notice(notice);
                event.map_or(Ok(()), |event| events.tell(&event)).map_err(Halt::Output)
            }
        }
    };
    let result = tokio::select! {
        result = run_jobs(&work, todo, observe) => result,
        never = drop_requests(&interrupts, &gateway) => match never {},
    };
    progress.close();
    let mut how = ending(result, interrupts.run_is_over(), todo.len() - finished)?;
    if let Ending::Capped(why) = &mut how {
        why.push_str(&used(dir, &gateway)?);
    }
    Ok(Did { how, most_in_flight: gateway.most_in_flight(), spent: Some(gateway.spent()) })
}

/// The last events of a run: what its notes warn of, where its report is, what came of it.
fn tell_end(
    events: Events,
    (dataset, stored, subsets): (&Dataset, &StoredRun, &HashMap<u32, Subset>),
    did: &Did,
    (exit, failed): (Exit, usize),
    files: &Path,
) -> anyhow::Result<()> {
    let finish = stored.manifest.finish.as_ref();
    for warning in finish.map(Event::warnings).unwrap_or_default() {
        events.tell(&warning)?;
    }
    events.tell(&Event::Report { path: plain(&files.display().to_string()) })?;
    let scores = scores(dataset, stored, subsets)?;
    let count = |counts: fn(&Score) -> bool| scores.iter().filter(|score| counts(score)).count();
    events.tell(&Event::Finished {
        how: finish.map_or("unknown", |finish| finish.how.as_str()),
        reason: did.how.reason(),
        exit: exit as u8,
        planned: stored.plan.len(),
        episodes: stored.episodes.len(),
        failed,
        not_runnable: count(|score| score.not_runnable),
        ok: count(|score| score.success == Some(true)),
        // What failed or did not run is no success either, and is counted as what it is.
        wrong: count(|score| score.success == Some(false) && !score.infra_failure && !score.not_runnable),
        spent: did.spent.map(Into::into),
    })
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

fn finish(did: &Did, dir: &RunDir, dataset: &Dataset) -> anyhow::Result<Finish> {
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
        how: match did.how {
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
        most_in_flight: did.most_in_flight,
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
