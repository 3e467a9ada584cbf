//! A run that was cut anywhere ends as the whole one did.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::BoxFuture;
use harness::catalogue::{Actor, Annotations, Catalogue, Subset, Tool, View};
use harness::context::EpisodeCx;
use harness::conversation::Sampling;
use harness::dataset::{Dataset, DatasetParts, Kind, Qrels, Query};
use harness::endpoint::{Behaviour, Profile, RetryPolicy, Scripted};
use harness::episode::Episode;
use harness::episode_loop::{LoopSettings, Mode, Wording};
use harness::gateway::{Caps, Gateway, GatewayParts};
use harness::ids::{ActorId, Digest, IntentId, QueryId, ToolId};
use harness::run::dir::{RunDir, StoredRun};
use harness::run::executor::{RunEvent, Work, run};
use harness::run::manifest::{
    Axis, DatasetInfo, DistractorKind, Manifest, OrderInfo, OrderKind, QuerySelection, RUN_VERSION, StrategyInfo,
};
use harness::run::plan::{Grid, Job, jobs};
use harness::strategy::{Offer, Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use proptest::prelude::*;
use serde_json::json;

struct Everything;

impl Strategy for Everything {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "everything".to_owned(),
            version: 1,
            params: json!({}),
            drives_model: true,
            ranks: false,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: None,
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        let tools = view.tools().iter().map(|tool| tool.id.clone()).collect();
        Box::pin(std::future::ready(Ok(Arc::new(All(tools)) as Arc<dyn Prepared>)))
    }
}

struct All(Vec<ToolId>);

impl Prepared for All {
    fn select<'a>(&'a self, _: &'a str, _: &'a mut EpisodeCx<'_>) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        let offer = Some(Offer { tools: self.0.clone(), ..Offer::default() });
        Box::pin(std::future::ready(Ok(Selection { offer, ..Selection::default() })))
    }
}

fn dataset() -> Dataset {
    let tool = |n: usize| Tool {
        id: ToolId::new("desk", &format!("desk_{n}")),
        description: format!("does thing {n}"),
        input_schema: json!({"type": "object"}),
        annotations: Annotations::default(),
        core: false,
        tags: Vec::new(),
    };
    let query = |n: usize| Query {
        id: QueryId::new(&format!("q{n}")),
        intent: IntentId::new("i"),
        text: format!("do thing {n}"),
        actor: ActorId::new("all"),
        kind: Kind::Direct,
        language: "en".to_owned(),
        split: "test".to_owned(),
        scaling: true,
        sequential: false,
        candidates: None,
        results: BTreeMap::new(),
        tags: Vec::new(),
    };
    Dataset::new(DatasetParts {
        name: "made-up".to_owned(),
        revision: "1".to_owned(),
        licence: "CC0-1.0".to_owned(),
        sizes: Vec::new(),
        catalogue: Catalogue::new(Vec::new(), (0..4).map(tool).collect(), Vec::new()).unwrap(),
        actors: vec![Actor::all()],
        queries: (0..6).map(query).collect(),
        qrels: Qrels::default(),
    })
}

fn settings() -> LoopSettings {
    LoopSettings {
        mode: Mode::Loop,
        wording: Wording::Plain,
        max_turns: 4,
        max_episode_tokens: None,
        max_episode_minutes: None,
        temperature: 0.0,
        max_output_tokens: 64,
        seed: None,
    }
}

fn manifest(dataset: &Dataset, strategies: Vec<StrategyInfo>, jobs: usize) -> Manifest {
    Manifest {
        version: RUN_VERSION,
        name: "r".to_owned(),
        toolgauge: "0".to_owned(),
        started: String::new(),
        host: String::new(),
        dataset: DatasetInfo {
            name: dataset.name.clone(),
            revision: dataset.revision.clone(),
            licence: dataset.licence.clone(),
            digest: dataset.digest().clone(),
            path: String::new(),
            tools: 4,
            queries: 6,
        },
        selection: QuerySelection { split: "test".to_owned(), scaling_only: false, queries: 6, of: 6, sampled: false },
        endpoint: None,
        settings: settings(),
        prompt: Digest::of(b""),
        order: order(),
        repeats: 1,
        seed: 1,
        reference: None,
        strategies,
        axis: Axis::Tools,
        distractors: DistractorKind::Random,
        views: Vec::new(),
        actor_views: Vec::new(),
        candidates: None,
        rewrites: None,
        checked_in_part: Vec::new(),
        jobs,
        capped: None,
        probe: None,
        finish: None,
    }
}

fn order() -> OrderInfo {
    OrderInfo { kind: OrderKind::Blocked, orders: 2 }
}

/// Runs whatever the folder lacks and returns how many requests were sent for it.
async fn go_on(dataset: &Dataset, path: &Path) -> u64 {
    let (mut dir, stored) = RunDir::resume(path).unwrap();
    let gateway = Gateway::new(GatewayParts {
        transport: Some(Arc::new(Scripted::new(Behaviour::Lexical))),
        store: dir.responses().unwrap(),
        cassettes: Vec::new(),
        profile: Profile::hosted("scripted", "lexical"),
        policy: RetryPolicy::default(),
        caps: Caps::default(),
        price: None,
    })
    .unwrap();
    let before = gateway.spent().requests;
    let work = Work {
        dataset,
        subsets: HashMap::from([(4, Subset::whole(&dataset.catalogue))]),
        strategies: HashMap::from([("everything".to_owned(), Box::new(Everything) as Box<dyn Strategy>)]),
        gateway: &gateway,
        settings: settings(),
        sampling: Sampling { model: "m".to_owned(), temperature: 0.0, max_tokens: 64, seed: None },
        order: order(),
        seed: 1,
        concurrency: 3,
        drain: &AtomicBool::new(false),
    };
    let done: Vec<_> = stored.episodes.iter().map(|episode| episode.job.clone()).collect();
    let todo: Vec<&Job> = stored.plan.iter().filter(|job| !done.contains(&job.key)).collect();
    let finished = run(&work, &todo, |event| match event {
        RunEvent::Finished { episode, .. } => dir.add(episode),
        RunEvent::Unfinished { .. } | RunEvent::Endpoint(_) => Ok(()),
    });
    finished.await.unwrap();
    gateway.spent().requests - before
}

fn episodes(path: &Path) -> Vec<Episode> {
    StoredRun::read(path).unwrap().episodes.into_iter().map(Episode::without_times).collect()
}

fn cut(path: &Path, share: f64) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..(bytes.len() as f64 * share) as usize]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_run_cut_anywhere_ends_as_the_whole_one(episodes_kept in 0.0f64..=1.0, answers_kept in 0.0f64..=1.0) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let dataset = dataset();
        let strategies = vec![StrategyInfo { label: "everything".to_owned(), meta: Everything.meta() }];
        let queries = dataset.queries.iter().map(Arc::as_ref).collect();
        let plan = jobs(&Grid {
            context: Digest::of(b"test"),
            strategies: &strategies,
            sizes: vec![(4, Digest::of(b"4"), queries)],
            order: order(),
            repeats: 1,
            seed: 1,
        });
        drop(RunDir::create(&path, &manifest(&dataset, strategies.clone(), plan.len()), &plan).unwrap());
        let all = runtime.block_on(go_on(&dataset, &path));
        let whole = episodes(&path);
        prop_assert_eq!(whole.len(), 6);

        cut(&path.join("episodes.jsonl"), episodes_kept);
        cut(&path.join("responses.jsonl"), answers_kept);
        let again = runtime.block_on(go_on(&dataset, &path));
        prop_assert_eq!(episodes(&path), whole);
        prop_assert!(again <= all);
        if answers_kept >= 1.0 {
            prop_assert_eq!(again, 0, "committed answers are never asked for again");
        }
    }
}
