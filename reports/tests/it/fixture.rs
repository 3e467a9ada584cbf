//! A made-up run: four strategies, three sizes, twelve queries, and everything that can go wrong in one.

use std::collections::BTreeMap;

use harness::dataset::Kind;
use harness::endpoint::{Profile, Rewrite, Rule};
use harness::episode_loop::{LoopSettings, Mode, Wording};
use harness::ids::{Digest, IntentId, JobKey, QueryId};
use harness::metric::rank::Measure;
use harness::metric::score::{Score, Stage, Waste};
use harness::run::manifest::{
    Axis, DatasetInfo, DistractorKind, EndpointInfo, Finish, Manifest, OrderInfo, OrderKind, QuerySelection,
    RUN_VERSION, SchemaRewrites, StrategyInfo, ToolRewrites, ViewInfo,
};
use harness::run::plan::Job;
use harness::strategy::StrategyMeta;
use harness::usage::UsageSource;
use reports::Input;
use serde_json::{Value, json};

pub(crate) struct Run {
    pub(crate) manifest: Manifest,
    pub(crate) plan: Vec<Job>,
    pub(crate) scores: Vec<Score>,
    pub(crate) measures: Vec<Measure>,
}

impl Run {
    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            manifest: &self.manifest,
            plan: &self.plan,
            scores: &self.scores,
            measures: &self.measures,
            queries: &[],
            rescored: None,
        }
    }

    /// Keeps the jobs and scores of some strategies and sizes.
    pub(crate) fn only(mut self, strategies: &[&str], sizes: &[u32]) -> Self {
        let keep = |strategy: &str, size: u32| strategies.contains(&strategy) && sizes.contains(&size);
        self.plan.retain(|job| keep(&job.strategy, job.size));
        self.scores.retain(|score| keep(&score.strategy, score.size));
        self.manifest.strategies.retain(|info| strategies.contains(&info.label.as_str()));
        self
    }

    /// Gives a strategy another label.
    pub(crate) fn rename(mut self, from: &str, to: &str) -> Self {
        let labels = self.plan.iter_mut().map(|job| &mut job.strategy);
        let labels = labels.chain(self.scores.iter_mut().map(|score| &mut score.strategy));
        for label in labels.chain(self.manifest.strategies.iter_mut().map(|info| &mut info.label)) {
            if label == from {
                to.clone_into(label);
            }
        }
        self
    }
}

pub(crate) const SIZES: [u32; 3] = [150, 500, 1_000];
pub(crate) const QUERIES: u32 = 48;

/// A run in which some strategies clearly differ and some do not.
pub(crate) fn run() -> Run {
    let manifest = manifest();
    let measures = ["recall@5", "complete@5", "ndcg@10"].map(|name| name.parse().unwrap()).to_vec();
    let mut plan = Vec::new();
    for size in SIZES {
        for info in &manifest.strategies {
            for query in 0..QUERIES {
                plan.push(Job {
                    key: JobKey::of_json(&(&info.label, size, query)),
                    strategy: info.label.clone(),
                    query: QueryId::new(&format!("q{query:02}")),
                    size,
                    order: query % 4,
                    repeat: 0,
                    seed: u64::from(query),
                });
            }
        }
    }
    let position = |job: &Job| job.query.as_str()[1..].parse().unwrap();
    // The last query of the bridge was never asked at the largest size.
    let missing = |job: &Job| job.strategy == "bridge" && job.size == 1_000 && position(job) == QUERIES - 1;
    let scores = plan.iter().filter(|job| !missing(job)).map(|job| score(job, position(job))).collect();
    Run { manifest, plan, scores, measures }
}

fn meta(kind: &str, drives_model: bool, ranks: bool, shown_tools: Option<usize>, params: Value) -> StrategyMeta {
    StrategyMeta {
        kind: kind.to_owned(),
        version: 1,
        params,
        drives_model,
        ranks,
        own_tools: Vec::new(),
        inner_turns: 0,
        shown_tools,
    }
}

fn manifest() -> Manifest {
    let strategy = |meta: StrategyMeta| StrategyInfo { label: meta.kind.clone(), meta };
    let mut profile = Profile::hosted("http://localhost/v1", "small-model");
    profile.context_tokens = Some(32_768);
    let bm25 = json!({"k1": 1.2, "b": 0.75});
    Manifest {
        version: RUN_VERSION,
        name: "sample".to_owned(),
        toolgauge: "0.1.0".to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        host: "linux x86_64, 2 processors".to_owned(),
        dataset: DatasetInfo {
            name: "made-up".to_owned(),
            revision: "r1".to_owned(),
            licence: "CC0-1.0".to_owned(),
            digest: Digest::of(b"made up"),
            path: "datasets/made-up".to_owned(),
            tools: 1_000,
            queries: 600,
        },
        selection: QuerySelection {
            split: "test".to_owned(),
            scaling_only: true,
            queries: QUERIES as usize,
            of: 600,
            sampled: true,
        },
        endpoint: Some(EndpointInfo {
            kind: "openai".to_owned(),
            base_url: None,
            api_key_env: None,
            profile,
            timeout_s: 600,
            price: None,
            price_date: None,
        }),
        prompt: Digest::of(b"prompt"),
        settings: LoopSettings {
            mode: Mode::Loop,
            wording: Wording::Plain,
            max_turns: 8,
            max_episode_tokens: None,
            max_episode_minutes: None,
            temperature: 0.0,
            max_output_tokens: 512,
            seed: Some(7),
        },
        order: OrderInfo { kind: OrderKind::Blocked, orders: 4 },
        repeats: 1,
        seed: 7,
        reference: Some("eager".to_owned()),
        strategies: vec![
            strategy(meta("eager", true, false, None, json!({}))),
            strategy(meta("bm25", false, true, Some(0), bm25.clone())),
            strategy(meta("bm25-llm", true, true, Some(5), json!({"k": 5, "bm25": bm25}))),
            strategy(meta("bridge", true, false, Some(5), json!({"k": 5}))),
        ],
        axis: Axis::Tools,
        distractors: DistractorKind::Random,
        views: SIZES
            .iter()
            .map(|size| ViewInfo {
                size: *size,
                definition_tokens: u64::from(*size) * 75,
                skills: 0,
                digest: Digest::of(&size.to_le_bytes()),
            })
            .collect(),
        actor_views: Vec::new(),
        candidates: None,
        rewrites: None,
        checked_in_part: Vec::new(),
        jobs: SIZES.len() * 4 * QUERIES as usize,
        capped: None,
        probe: None,
        finish: Some(Finish {
            at: "2026-01-02T04:05:06Z".to_owned(),
            how: "complete".to_owned(),
            episodes: 0,
            served_models: vec!["small-model".to_owned()],
            possibly_billed: 0,
            failed_attempts: 2,
            wasted_tokens: 0,
            most_in_flight: 0,
            schemas: None,
            lessons: Vec::new(),
        }),
    }
}

/// Two tools of a thousand, one of them changed twice by one rule.
pub(crate) fn rewrites(before: &str) -> SchemaRewrites {
    let rewrite = |rule: Rule, pointer: &str| Rewrite {
        pointer: pointer.to_owned(),
        rule,
        before: before.to_owned(),
        after: String::new(),
    };
    let tool = |id: &str, rewrites: Vec<Rewrite>| ToolRewrites { tool: id.parse().unwrap(), rewrites };
    let tools = vec![
        tool(
            "desk/a",
            vec![rewrite(Rule::DropPatterns, "/properties/a/pattern"), rewrite(Rule::DropPatterns, "/x/pattern")],
        ),
        tool(
            "desk/b",
            vec![rewrite(Rule::ArrayItems, "/properties/b/items"), rewrite(Rule::DropPatterns, "/y/pattern")],
        ),
    ];
    SchemaRewrites { of: 1_000, tools }
}

/// Seven kinds in turn; every eighth query needs two tools, every twelfth none.
fn kind(query: u32) -> Kind {
    match query % 12 {
        0..=3 => Kind::Direct,
        4..=6 => Kind::Paraphrased,
        7 => Kind::Multi,
        8 | 9 => Kind::Vendor,
        10 => Kind::Noisy,
        _ => Kind::NoTool,
    }
}

/// A number in 0..100 that depends on strategy, size and query only.
fn draw(job: &Job) -> u64 {
    Digest::of_json(&(&job.strategy, job.size, &job.query)).seed() % 100
}

fn score(job: &Job, query: u32) -> Score {
    let kind = kind(query);
    let groups = match kind {
        Kind::NoTool => 0,
        Kind::Multi => 2,
        _ => 1,
    };
    let larger = u64::from(job.size / 100);
    let (model, ranks, chance, turns, tokens) = match job.strategy.as_str() {
        "eager" => (true, false, 75 - 4 * larger, 2, u64::from(job.size) * 160),
        "bm25" => (false, true, 92 - larger, 0, 0),
        "bm25-llm" => (true, true, 90 - larger, 2, 2_200),
        _ => (true, false, 80 - larger, 3, 3_900 + 10 * larger),
    };
    let good = draw(job) < chance;
    let mut score = Score {
        job: job.key.clone(),
        strategy: job.strategy.clone(),
        size: job.size,
        query: job.query.clone(),
        intent: IntentId::new(&format!("i{:02}", query / 2)),
        kind,
        language: "en".to_owned(),
        repeat: job.repeat,
        outcome: "completed".to_owned(),
        infra_failure: false,
        not_runnable: false,
        groups,
        unanswerable: query == 23,
        retrieval: BTreeMap::new(),
        success: model.then_some(good),
        coverage_success: model.then_some(good || query.is_multiple_of(9)),
        success_args: None,
        covered: if good { groups } else { 0 },
        hinges_on_unjudged: false,
        wrong_calls: u32::from(model && !good),
        harmful_calls: 0,
        substituted_core: false,
        guesses: u32::from(job.strategy == "bridge" && query == 3),
        own_calls: u32::from(job.strategy == "bridge"),
        turns_outer: turns,
        cache_invalidating_turns: 0,
        turns_inner: u32::from(job.strategy == "bridge"),
        turns_to_covered: (model && good && groups > 0).then_some(1),
        waste: if model && !good { BTreeMap::from([(Waste::WrongCall, 1)]) } else { BTreeMap::new() },
        stages: vec![if good { Stage::Valid } else { Stage::Defined }; if model { groups as usize } else { 0 }],
        defined_tools: 5,
        input_tokens: tokens,
        output_tokens: u64::from(model) * 60,
        token_source: UsageSource::Reported,
        estimated_input_tokens: tokens * 95 / 100,
        attempts: turns,
        leaks: 0,
        truncation_suspected: false,
        retrieval_ms: 0.4,
        endpoint_ms: model.then_some(812.5),
    };
    if ranks && groups > 0 {
        let recall = if good { 1.0 } else { f64::from(groups - 1) / 2.0 };
        score.retrieval = BTreeMap::from([
            ("recall@5".to_owned(), recall),
            ("complete@5".to_owned(), if good { 1.0 } else { 0.0 }),
            ("ndcg@10".to_owned(), recall * 0.9),
        ]);
    }
    let too_large = job.size == 1_000 || (job.size == 500 && query.is_multiple_of(3));
    if job.strategy == "eager" && too_large {
        "not_runnable(context)".clone_into(&mut score.outcome);
        score.not_runnable = true;
        nothing_happened(&mut score);
    }
    if job.strategy == "bridge" && query.is_multiple_of(20) {
        let outcome = if query == 0 { "limit(turns)" } else { "failed(timeout)" };
        outcome.clone_into(&mut score.outcome);
        score.infra_failure = query != 0;
        score.success = Some(false);
        score.coverage_success = Some(false);
    }
    if job.strategy == "bridge" && !good && query % 5 == 1 && groups > 0 {
        score.stages = vec![Stage::Retrieved; groups as usize];
        score.waste = BTreeMap::from([(Waste::RepeatedSearch, 2)]);
    }
    score
}

/// As where nothing was ever sent.
pub(crate) fn nothing_happened(score: &mut Score) {
    score.success = score.success.map(|_| false);
    score.coverage_success = score.coverage_success.map(|_| false);
    score.covered = 0;
    score.wrong_calls = 0;
    score.own_calls = 0;
    score.turns_outer = 0;
    score.cache_invalidating_turns = 0;
    score.turns_inner = 0;
    score.turns_to_covered = None;
    score.waste.clear();
    score.stages = vec![Stage::Nowhere; score.groups as usize];
    score.input_tokens = 0;
    score.output_tokens = 0;
    score.estimated_input_tokens = 0;
    score.attempts = 0;
    score.endpoint_ms = None;
}
