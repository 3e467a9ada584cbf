//! What the harness itself costs per episode, store included: a canned endpoint answers at once, so what is left is ours.
//!
//! Measured is processor time of all threads, not wall time, which the disk's `fdatasync` decides. Aim: ≤ 0.25 ms per episode
//! of two turns with five tools.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use futures::future::BoxFuture;
use harness::catalogue::{Actor, Annotations, Catalogue, Subset, Tool, View};
use harness::context::EpisodeCx;
use harness::conversation::Sampling;
use harness::dataset::{Dataset, DatasetParts, Kind, Qrels, Query};
use harness::endpoint::{Profile, RetryPolicy, Scripted};
use harness::episode::{Outcome, Verdict};
use harness::episode_loop::{LoopSettings, Mode, Wording};
use harness::gateway::{Caps, Gateway, GatewayParts};
use harness::ids::{ActorId, IntentId, JobKey, QueryId, ToolId};
use harness::run::executor::{RunEvent, Work, run};
use harness::run::manifest::{OrderInfo, OrderKind};
use harness::run::plan::Job;
use harness::store::responses::ResponseStore;
use harness::strategy::{Offer, Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const EPISODES: usize = 200;
const CONCURRENCY: usize = 64;

/// Offers the first five tools of the view.
struct FirstFive;

impl Strategy for FirstFive {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "first-five".to_owned(),
            version: 1,
            params: json!({}),
            drives_model: true,
            ranks: false,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: Some(5),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        let tools = view.tools().iter().take(5).map(|tool| tool.id.clone()).collect();
        Box::pin(std::future::ready(Ok(Arc::new(Five(tools)) as Arc<dyn Prepared>)))
    }
}

struct Five(Vec<ToolId>);

impl Prepared for Five {
    fn select<'a>(&'a self, _: &'a str, _: &'a mut EpisodeCx<'_>) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        let offer = Some(Offer { tools: self.0.clone(), ..Offer::default() });
        Box::pin(std::future::ready(Ok(Selection { offer, ..Selection::default() })))
    }
}

fn dataset() -> Dataset {
    let tools: Vec<Tool> = (0..150)
        .map(|n| Tool {
            id: ToolId::new("desk", &format!("desk_action_{n}")),
            description: format!(
                "Does thing number {n} to a ticket and says what came of it. {}",
                "More words. ".repeat(20)
            ),
            input_schema: json!({"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string", "description": "Which ticket, as its number or its key"},
                "note": {"type": "string", "description": "What to write beside it"}}}),
            annotations: Annotations::default(),
            core: false,
            tags: Vec::new(),
        })
        .collect();
    let query = |n: usize| Query {
        id: QueryId::new(&format!("q{n}")),
        intent: IntentId::new("i"),
        text: format!("please do thing number {n} to ticket {}", n * 7),
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
        name: "bench".to_owned(),
        revision: "1".to_owned(),
        licence: "CC0-1.0".to_owned(),
        sizes: Vec::new(),
        catalogue: Catalogue::new(Vec::new(), tools, Vec::new()).expect("the ids are unique"),
        actors: vec![Actor::all()],
        queries: (0..EPISODES).map(query).collect(),
        qrels: Qrels::default(),
    })
}

/// Calls the first tool, then says that it is done. [`harness::endpoint::Behaviour`] would count the tokens of every request,
/// as a server does, and that costs more than the harness.
fn canned() -> Scripted {
    let reply = |message: Value, finish_reason: &str| {
        json!({
            "model": "first",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
        })
    };
    Scripted::with(move |_, request| {
        let answered = request["messages"].as_array().is_some_and(|messages| messages.len() > 2);
        let body = if answered {
            reply(json!({"role": "assistant", "content": "Done."}), "stop")
        } else {
            let function = json!({"name": request["tools"][0]["function"]["name"], "arguments": "{\"id\": \"x\"}"});
            let calls = json!([{"id": "call_1", "type": "function", "function": function}]);
            reply(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
        };
        Ok(body.into())
    })
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).expect("less than a second"))
}

fn overhead(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    let dataset = dataset();
    let jobs: Vec<Job> = (0..EPISODES)
        .map(|n| Job {
            key: JobKey::new(&format!("job{n}")),
            strategy: "first-five".to_owned(),
            query: QueryId::new(&format!("q{n}")),
            size: 150,
            order: 0,
            repeat: 0,
            seed: n as u64,
        })
        .collect();
    let planned: Vec<&Job> = jobs.iter().collect();
    let mut profile = Profile::hosted("scripted", "first");
    profile.concurrency = CONCURRENCY;
    let mut group = criterion.benchmark_group("overhead");
    group.throughput(criterion::Throughput::Elements(EPISODES as u64));
    group.sample_size(20);
    group.bench_function("processor time of 200 episodes, store included", |bencher| {
        let run_all = || {
            let dir = tempfile::tempdir().expect("a folder for the store");
            let gateway = Gateway::new(GatewayParts {
                transport: Some(Arc::new(canned())),
                store: ResponseStore::open(&dir.path().join("responses.jsonl")).expect("a store opens"),
                cassettes: Vec::new(),
                profile: profile.clone(),
                policy: RetryPolicy::default(),
                caps: Caps::default(),
                price: None,
            })
            .expect("nothing is stored yet");
            let work = Work {
                dataset: &dataset,
                subsets: HashMap::from([(150, Subset::whole(&dataset.catalogue))]),
                strategies: HashMap::from([("first-five".to_owned(), Box::new(FirstFive) as Box<dyn Strategy>)]),
                gateway: &gateway,
                settings: LoopSettings {
                    mode: Mode::Loop,
                    wording: Wording::Plain,
                    max_turns: 8,
                    max_episode_tokens: None,
                    max_episode_minutes: None,
                    temperature: 0.0,
                    max_output_tokens: 256,
                    seed: None,
                },
                sampling: Sampling { model: "first".to_owned(), temperature: 0.0, max_tokens: 256, seed: None },
                order: OrderInfo { kind: OrderKind::Fixed, orders: 1 },
                seed: 1,
                concurrency: CONCURRENCY,
                drain: &AtomicBool::new(false),
            };
            let mut episodes = 0;
            runtime
                .block_on(run(&work, &planned, |event| {
                    match black_box(&event) {
                        RunEvent::Finished { episode, .. } => {
                            assert_eq!((episode.turns.len(), &episode.outcome), (2, &Outcome::Completed));
                            assert_eq!(episode.turns[0].calls[0].verdict, Verdict::Valid);
                            episodes += 1;
                        }
                        RunEvent::Unfinished { .. } => panic!("no episode stays open"),
                        // How many requests may be out at once changes on the way.
                        RunEvent::Endpoint(_) => {}
                    }
                    Ok::<(), std::convert::Infallible>(())
                }))
                .expect("scripted episodes do not fail");
            assert_eq!(episodes, EPISODES);
        };
        bencher.iter_custom(|rounds| {
            let before = cpu_time();
            (0..rounds).for_each(|_| run_all());
            cpu_time().saturating_sub(before)
        });
    });
    group.finish();
}

criterion_group!(benches, overhead);
criterion_main!(benches);
