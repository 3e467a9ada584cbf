//! `toolgauge report` and `rescore`: pure functions of stored episodes and labels.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use harness::catalogue::{Actor, Subset, View};
use harness::dataset::{Dataset, Labels as QueryLabels, Query};
use harness::episode::Episode;
use harness::episode_loop::Mode;
use harness::ids::{ActorId, QueryId};
use harness::metric::rank::Measure;
use harness::metric::score::{Score, ScoreInput, score};
use harness::run::dir::StoredRun;
use harness::run::manifest::Manifest;
use harness::run::plan::Job;
use harness::store::responses::ResponseStore;
use harness::text::{plain, plural};
use reports::{Input, PlannedQuery, Rescored, Style, markdown, summarise, terminal, write_all};

use crate::args::{Format, ReportArgs};
use crate::exit::{Exit, OrExit as _, expected};
use crate::print::{print_out, say};
use crate::setup::{dataset_of, subsets_of};

/// Which labels a report goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Those the run was planned with; another dataset is an error.
    AsRun,
    AsTheyAreNow,
}

/// Retrieval measures of every report.
pub fn measures() -> Vec<Measure> {
    [
        "recall@1",
        "recall@3",
        "recall@5",
        "recall@10",
        "recall@20",
        "complete@5",
        "complete@10",
        "ndcg@5",
        "ndcg@10",
        "rr@10",
        "judged@5",
        "judged@10",
    ]
    .iter()
    .filter_map(|name| name.parse().ok())
    .collect()
}

/// Scores the episodes of one run.
pub struct Scorer<'s> {
    dataset: &'s Dataset,
    manifest: &'s Manifest,
    subsets: &'s HashMap<u32, Subset>,
    measures: Vec<Measure>,
    /// Views without their prompt order, which no score depends on. Those of candidate lists are not kept.
    views: Mutex<BTreeMap<(ActorId, u32), Arc<View>>>,
}

impl<'s> Scorer<'s> {
    pub fn new(dataset: &'s Dataset, manifest: &'s Manifest, subsets: &'s HashMap<u32, Subset>) -> Self {
        Self { dataset, manifest, subsets, measures: measures(), views: Mutex::default() }
    }

    pub fn score(&self, episode: &Episode) -> Result<Score, String> {
        let query = self.query(&episode.query)?;
        let info = self.manifest.strategies.iter().find(|info| info.label == episode.strategy);
        let info = info.ok_or_else(|| format!("the manifest has no strategy {:?}", episode.strategy))?;
        let view = self.view(query, episode.size)?;
        Ok(score(
            episode,
            &ScoreInput {
                query,
                labels: self.dataset.qrels.of(&query.id),
                view: &view,
                mode: self.manifest.settings.mode,
                measures: &self.measures,
                ranks: info.meta.ranks,
                drives_model: info.meta.drives_model,
            },
        ))
    }

    fn all(&self, episodes: &[Episode]) -> anyhow::Result<Vec<Score>> {
        episodes.iter().map(|episode| self.score(episode)).collect::<Result<_, _>>().or_exit(Exit::Dataset)
    }

    /// What is known of the queries of a plan, each once per size.
    fn planned(&self, plan: &[Job]) -> Result<Vec<PlannedQuery>, String> {
        let asked: BTreeSet<_> = plan.iter().map(|job| (&job.query, job.size)).collect();
        let facts = |(id, size): (&QueryId, u32)| {
            let query = self.query(id)?;
            let labels = self.labels(id, size)?;
            Ok(PlannedQuery {
                query: id.clone(),
                size,
                intent: query.intent.clone(),
                kind: query.kind,
                groups: labels.groups().len() as u32,
                end_to_end: !(query.sequential && self.manifest.settings.mode == Mode::FirstCall),
            })
        };
        asked.into_iter().map(facts).collect()
    }

    /// Labels of a query as they stand for its actor's view; none where the view cannot answer.
    pub fn labels(&self, id: &QueryId, size: u32) -> Result<QueryLabels, String> {
        let view = self.view(self.query(id)?, size)?;
        Ok(self.dataset.qrels.of(id).within(|tool| view.contains(tool)).unwrap_or_default())
    }

    fn query(&self, id: &QueryId) -> Result<&Query, String> {
        let missing = || {
            format!(
                "query {id} of the run is not in the dataset; rescore needs the run's own dataset or a revision of it"
            )
        };
        self.dataset.query(id).map(Arc::as_ref).ok_or_else(missing)
    }

    fn view(&self, query: &Query, size: u32) -> Result<Arc<View>, String> {
        let actor = self.dataset.actor(&query.actor).cloned().unwrap_or_else(Actor::all);
        let subset = self.subsets.get(&size).ok_or_else(|| format!("the run has no catalogue of size {size}"))?;
        if query.candidates.is_some() {
            return Ok(Arc::new(subset.view(&actor, query.candidates.as_deref(), None)));
        }
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get(&(query.actor.clone(), size)) {
            return Ok(view.clone());
        }
        let view = Arc::new(subset.view(&actor, None, None));
        views.insert((query.actor.clone(), size), view.clone());
        Ok(view)
    }
}

pub fn report(args: &ReportArgs, labels: Labels) -> anyhow::Result<Exit> {
    let stored = StoredRun::read(&args.run).or_exit(Exit::Usage)?;
    let dataset = dataset_of(&stored.manifest, args.dataset.as_deref(), labels == Labels::AsRun)?;
    if labels == Labels::AsTheyAreNow && *dataset.digest() != stored.manifest.dataset.digest {
        say!("the dataset has changed since the run; these scores go by revision {}", plain(&dataset.revision));
    }
    let subsets = subsets_of(&dataset, &stored.manifest)?;
    if let Some(folder) = args.out.as_deref().filter(|folder| holds_something_else(folder)) {
        let message = format!("{}: holds files that are no report; name an empty or a new folder", folder.display());
        return Err(expected(Exit::Usage, message));
    }
    // Scores by other labels must not stand where those of the run are looked for.
    let folder = if *dataset.digest() == stored.manifest.dataset.digest { "report" } else { "rescored" };
    let files = args.out.clone().unwrap_or_else(|| args.run.join(folder));
    print_report(&dataset, &stored, &subsets, args.format, &files)?;
    if let Some(path) = &args.cassette {
        write_cassette(&stored, path)?;
    }
    Ok(Exit::Ok)
}

/// A folder with files, none of which says that the others are a report.
fn holds_something_else(folder: &Path) -> bool {
    let filled = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    filled && !folder.join("summary.json").is_file()
}

/// Copies the answers that the run's episodes rest on into a file of their own.
fn write_cassette(stored: &StoredRun, path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        return Err(expected(Exit::Usage, format!("{}: exists already; name another file", path.display())));
    }
    let store = ResponseStore::read(&stored.path.join("responses.jsonl")).or_exit(Exit::Usage)?;
    let keys = stored.episodes.iter().flat_map(|episode| &episode.turns).map(|turn| turn.key.clone()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let answers = runtime.block_on(store.export(&keys, path)).or_exit(Exit::Usage)?;
    say!("{}: {}", path.display(), plural(answers as u64, "answer", "answers"));
    Ok(())
}

/// Scores of all stored episodes, in plan order.
pub fn scores(dataset: &Dataset, stored: &StoredRun, subsets: &HashMap<u32, Subset>) -> anyhow::Result<Vec<Score>> {
    Scorer::new(dataset, &stored.manifest, subsets).all(&stored.episodes)
}

/// Writes the report files and prints the table.
pub fn print_report(
    dataset: &Dataset,
    stored: &StoredRun,
    subsets: &HashMap<u32, Subset>,
    format: Format,
    files: &Path,
) -> anyhow::Result<()> {
    print_out(&write_report(dataset, stored, subsets, format, files)?)?;
    if format == Format::Human {
        say!("files: {}", files.display());
    }
    Ok(())
}

/// Writes the report files; the table that goes with them.
pub fn write_report(
    dataset: &Dataset,
    stored: &StoredRun,
    subsets: &HashMap<u32, Subset>,
    format: Format,
    files: &Path,
) -> anyhow::Result<String> {
    let judge = Scorer::new(dataset, &stored.manifest, subsets);
    let scores = judge.all(&stored.episodes)?;
    let queries = judge.planned(&stored.plan).or_exit(Exit::Dataset)?;
    let input = Input {
        manifest: &stored.manifest,
        plan: &stored.plan,
        scores: &scores,
        measures: &judge.measures,
        queries: &queries,
        rescored: (*dataset.digest() != stored.manifest.dataset.digest)
            .then(|| Rescored { revision: &dataset.revision, digest: dataset.digest() }),
    };
    let summary = summarise(&input);
    write_all(files, &input, &summary).or_exit(Exit::Usage)?;
    let mut text = match format {
        Format::Human => terminal(&summary, style()),
        Format::Markdown => markdown(&summary),
        Format::Json => serde_json::to_string_pretty(&summary)?,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The width that the tables are laid out for where nothing says otherwise.
const WIDTH: usize = 110;

fn style() -> Style {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Style { width: columns.unwrap_or(WIDTH), color }
}
