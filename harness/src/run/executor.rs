//! Runs a plan: bounded concurrency, one event stream, nothing printed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::StreamExt as _;
use futures::stream;
use tokio::sync::OnceCell;
use tracing::{Instrument as _, debug, warn};

use super::landing::cap_in_sight;
use super::manifest::OrderInfo;
use super::plan::{Job, order_seed};
use crate::arguments::Validators;
use crate::catalogue::{Actor, Subset, View};
use crate::conversation::Sampling;
use crate::dataset::{Dataset, Query};
use crate::episode::{Episode, Outcome};
use crate::episode_loop::{Cast, LoopSettings, Stage, Unfinished, run_episode};
use crate::gateway::{AskError, Gateway};
use crate::ids::{ActorId, Digest};
use crate::schedule::{Halt, Notice};
use crate::spans;
use crate::strategy::{Prepared, Strategy, StrategyError};
use crate::text::plain;
use crate::toolbox::Toolbox;

/// What happens during a run.
#[derive(Debug)]
pub enum RunEvent<'e> {
    Finished {
        episode: &'e Episode,
        done: usize,
        of: usize,
    },
    /// The job was not finished and can be resumed.
    Unfinished {
        job: &'e Job,
        why: &'e Unfinished,
    },
    /// Something about the way to the endpoint.
    Endpoint(&'e Notice),
}

/// What a run works with.
pub struct Work<'w> {
    pub dataset: &'w Dataset,
    /// What there is per size.
    pub subsets: HashMap<u32, Subset>,
    /// By label.
    pub strategies: HashMap<String, Box<dyn Strategy>>,
    pub gateway: &'w Gateway,
    pub settings: LoopSettings,
    pub sampling: Sampling,
    pub order: OrderInfo,
    pub seed: u64,
    pub concurrency: usize,
    /// Set from outside to start no further episode.
    pub drain: &'w AtomicBool,
}

/// Why a run ended before its plan did.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    #[error("strategy {strategy:?} cannot be prepared: {error}")]
    Prepare { strategy: String, error: StrategyError },
    #[error(transparent)]
    Unfinished(Unfinished),
    /// What the observer answered, for example that an episode could not be written.
    #[error(transparent)]
    Observer(E),
    #[error("{0}")]
    Plan(String),
}

/// Actor, size, order, and the digest of a query's own candidates.
type ViewKey = (ActorId, u32, u32, Option<Digest>);
/// Label of a strategy and the view it is prepared for.
type StageKey = (String, ViewKey);

struct Staged {
    toolbox: Toolbox,
    prepared: Arc<dyn Prepared>,
}

/// Views and prepared strategies, each made once. Blocks run one after the other, so that only the last few are needed.
struct Stages<'w> {
    work: &'w Work<'w>,
    validators: Validators,
    cells: std::sync::Mutex<HashMap<StageKey, Arc<OnceCell<Staged>>>>,
}

/// The view in which a query is asked: the catalogue at a size, or the query's own candidates.
fn view_of(work: &Work<'_>, actor: &Actor, query: &Query, size: u32, order: u32) -> Result<View, String> {
    let subset = work.subsets.get(&size).ok_or_else(|| format!("the plan has no catalogue of size {size}"))?;
    Ok(subset.view(actor, query.candidates.as_deref(), order_seed(&work.order, work.seed, order)))
}

fn actor_of(dataset: &Dataset, query: &Query) -> Result<Actor, String> {
    match dataset.actor(&query.actor) {
        Some(actor) => Ok(actor.clone()),
        None if query.actor.as_str() == "all" => Ok(Actor::all()),
        None => Err(format!("query {} is asked by an unknown actor {:?}", query.id, query.actor)),
    }
}

impl Stages<'_> {
    async fn get<E>(&self, job: &Job, query: &Query) -> Result<Arc<OnceCell<Staged>>, RunError<E>> {
        let candidates = query.candidates.as_ref().map(Digest::of_json);
        let key = (job.strategy.clone(), (query.actor.clone(), job.size, job.order, candidates));
        let cell = {
            let mut cells = self.cells.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // Candidate lists differ from query to query; keeping a stage for each would hold them all in memory.
            if cells.len() > 64 {
                cells.clear();
            }
            cells.entry(key).or_default().clone()
        };
        let strategy = self.work.strategies.get(&job.strategy);
        let strategy =
            strategy.ok_or_else(|| RunError::Plan(format!("the plan names no strategy {:?}", job.strategy)))?;
        cell.get_or_try_init(|| async {
            let actor = actor_of(self.work.dataset, query).map_err(RunError::Plan)?;
            let view = Arc::new(view_of(self.work, &actor, query, job.size, job.order).map_err(RunError::Plan)?);
            let prepared = strategy.prepare(view.clone()).await;
            let prepared = prepared.map_err(|error| RunError::Prepare { strategy: job.strategy.clone(), error })?;
            let own = strategy.meta().own_tools;
            let reserved: Vec<&str> = own.iter().map(String::as_str).collect();
            let profile = self.work.gateway.profile();
            let toolbox = Toolbox::new(&self.work.dataset.catalogue, &actor, view, profile, &reserved);
            Ok(Staged { toolbox, prepared })
        })
        .await?;
        Ok(cell)
    }
}

/// Runs the given jobs, in their order as far as concurrency allows. The observer sees every event, one at a time.
///
/// Ends early at the first job that cannot be finished: a cap, an interruption, an endpoint that serves nobody, a full disk.
/// Jobs under way are finished first. Where a cap comes near, no further query is begun, so that those that were are finished.
pub async fn run<E>(
    work: &Work<'_>,
    jobs: &[&Job],
    observe: impl FnMut(RunEvent<'_>) -> Result<(), E>,
) -> Result<(), RunError<E>> {
    let span = spans::run(&work.dataset.name, jobs.len(), work.concurrency);
    run_jobs(work, jobs, observe).instrument(span).await
}

async fn run_jobs<E>(
    work: &Work<'_>,
    jobs: &[&Job],
    mut observe: impl FnMut(RunEvent<'_>) -> Result<(), E>,
) -> Result<(), RunError<E>> {
    let validators = Validators::new(work.dataset.catalogue.clone());
    let stages = Stages { work, validators, cells: std::sync::Mutex::default() };
    let stop = AtomicBool::new(false);
    let halted = || stop.load(Ordering::SeqCst) || work.drain.load(Ordering::SeqCst);
    let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let capped = std::sync::OnceLock::new();
    let fits = |at: usize| {
        let finished = ended.load(Ordering::SeqCst);
        let running = started.load(Ordering::SeqCst) - finished;
        let next = next_query(jobs, at);
        let cap = next.and_then(|next| cap_in_sight(&work.gateway.uses(), finished, running, next));
        cap.map(|cap| capped.get_or_init(|| cap)).is_none()
    };
    let mut results = stream::iter(jobs.iter().enumerate().take_while(|(at, _)| !halted() && fits(*at)))
        .map(|(_, job)| {
            started.fetch_add(1, Ordering::SeqCst);
            let (stages, span) = (&stages, spans::episode(job));
            async move {
                let result = run_job::<E>(stages, job).await;
                log_end(&result);
                (*job, result)
            }
            .instrument(span)
        })
        .buffer_unordered(work.concurrency.max(1));
    let mut first_error = None;
    let mut done = 0;
    loop {
        let next = tokio::select! {
            biased;
            notice = work.gateway.notice() => {
                if let Err(error) = observe(RunEvent::Endpoint(&notice)) {
                    stop.store(true, Ordering::SeqCst);
                    first_error.get_or_insert(RunError::Observer(error));
                }
                continue;
            }
            next = results.next() => next,
        };
        let Some((job, result)) = next else { break };
        ended.fetch_add(1, Ordering::SeqCst);
        let error = match result {
            Ok(episode) => {
                done += 1;
                match observe(RunEvent::Finished { episode: &episode, done, of: jobs.len() }) {
                    Ok(()) => continue,
                    Err(error) => RunError::Observer(error),
                }
            }
            Err(RunError::Unfinished(why)) => {
                let told = observe(RunEvent::Unfinished { job, why: &why });
                told.map_or_else(RunError::Observer, |()| RunError::Unfinished(why))
            }
            Err(error) => error,
        };
        stop.store(true, Ordering::SeqCst);
        first_error.get_or_insert(error);
    }
    let landed = capped.get().filter(|_| first_error.is_none()).copied();
    let notices = std::iter::from_fn(|| work.gateway.untold()).chain(landed.map(|cap| Notice::Halted(Halt::Cap(cap))));
    for notice in notices {
        observe(RunEvent::Endpoint(&notice)).map_err(RunError::Observer)?;
    }
    if let Some(cap) = landed {
        warn!(cap = cap.as_str(), "a cap is near: no further query was begun");
        return Err(RunError::Unfinished(Unfinished::Ask(AskError::Capped(cap))));
    }
    first_error.map_or(Ok(()), Err)
}

/// Says in the log how an episode ended, within its span. Only what went wrong is news; `episodes.jsonl` holds the others.
fn log_end<E>(result: &Result<Episode, RunError<E>>) {
    match result {
        Ok(episode) => {
            let outcome = episode.outcome.label();
            tracing::Span::current().record("outcome", outcome.as_str());
            if let Outcome::Failed { message, .. } = &episode.outcome {
                warn!(outcome, reason = %plain(message), "episode failed");
            } else {
                debug!(outcome, turns = episode.turns.len(), leaks = episode.leaks, "episode finished");
            }
        }
        Err(RunError::Unfinished(why)) => warn!(reason = %plain(&why.to_string()), "episode left unfinished"),
        Err(RunError::Prepare { error, .. }) => {
            warn!(reason = %plain(&error.to_string()), "the strategy of an episode cannot be prepared");
        }
        Err(RunError::Plan(why)) => warn!(reason = %plain(why), "episode does not fit the plan"),
        // Episodes do not observe.
        Err(RunError::Observer(_)) => {}
    }
}

/// Jobs of the query that begins at this place of the plan, if one does.
fn next_query(jobs: &[&Job], at: usize) -> Option<usize> {
    let query = &jobs[at].query;
    let begins = at == 0 || jobs[at - 1].query != *query;
    begins.then(|| jobs[at..].iter().take_while(|job| job.query == *query).count())
}

async fn run_job<E>(stages: &Stages<'_>, job: &Job) -> Result<Episode, RunError<E>> {
    let work = stages.work;
    let query = work.dataset.query(&job.query);
    let query = query.ok_or_else(|| RunError::Plan(format!("the dataset has no query {}", job.query)))?;
    let cell = stages.get(job, query).await?;
    let ready = cell.get().ok_or_else(|| RunError::Plan("a stage was not made".to_owned()))?;
    let scene = Stage {
        validators: &stages.validators,
        toolbox: &ready.toolbox,
        prepared: ready.prepared.as_ref(),
        gateway: work.gateway,
        settings: &work.settings,
        sampling: &work.sampling,
    };
    let cast = Cast {
        job: job.key.clone(),
        strategy: &job.strategy,
        query,
        size: job.size,
        order: job.order,
        repeat: job.repeat,
        seed: job.seed,
    };
    run_episode(&scene, &cast).await.map_err(RunError::Unfinished)
}
