//! The episode loop on scripted replies: what each kind of answer leads to, and what is written down of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use harness::arguments::Validators;
use harness::catalogue::{Actor, Annotations, Catalogue, Grant, Tool, View};
use harness::chat::ToolDef;
use harness::context::EpisodeCx;
use harness::conversation::Sampling;
use harness::dataset::{Kind, Labels, Qrel, Query};
use harness::endpoint::{Profile, Protocol, RetryPolicy, Scripted, Transport, WireResponse};
use harness::episode::{Episode, Level, NotRunnable, Outcome, Verdict};
use harness::episode_loop::{Cast, LoopSettings, Mode, RECEIPT, Stage, Unfinished, Wording, run_episode};
use harness::gateway::{Caps, Gateway, GatewayParts};
use harness::ids::{ActorId, IntentId, JobKey, QueryId, ToolId};
use harness::metric::score::{Score, ScoreInput, Waste, score};
use harness::store::responses::ResponseStore;
use harness::strategy::{Offer, OwnAnswer, Prepared, Responder, Selection, StrategyError};
use harness::toolbox::Toolbox;
use harness::usage::UsageSource;
use serde_json::{Value, json};

fn tool(server: &str, name: &str, core: bool, read_only: bool) -> Tool {
    Tool {
        id: ToolId::new(server, name),
        description: format!("Does {name}."),
        input_schema: json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"],
                             "additionalProperties": false}),
        annotations: Annotations { read_only_hint: Some(read_only), ..Annotations::default() },
        core,
        tags: Vec::new(),
    }
}

fn catalogue() -> Arc<Catalogue> {
    let tools = vec![
        tool("agent", "terminal", true, false),
        tool("mail", "mail_send", false, false),
        tool("mail", "mail_find", false, true),
        tool("pay", "pay_refund", false, false),
    ];
    Arc::new(Catalogue::new(Vec::new(), tools, Vec::new()).unwrap())
}

/// A model's answer that calls tools.
fn calls(calls: &[(&str, &Value)]) -> Value {
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, arguments))| {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            json!({"id": format!("c{n}"), "type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    completion(&json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
}

fn words(text: &str) -> Value {
    completion(&json!({"role": "assistant", "content": text}), "stop")
}

fn completion(message: &Value, finish_reason: &str) -> Value {
    json!({"model": "m", "choices": [{"message": message, "finish_reason": finish_reason}],
           "usage": {"prompt_tokens": 100, "completion_tokens": 10}})
}

/// Offers the given tools and one tool of its own that defines `pay_refund` when called.
struct Fixed {
    offer: Offer,
}

impl Prepared for Fixed {
    fn select<'a>(&'a self, _: &'a str, _: &'a mut EpisodeCx<'_>) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        let selection =
            Selection { offer: Some(self.offer.clone()), responder: Some(Box::new(Loads)), ..Selection::default() };
        Box::pin(std::future::ready(Ok(selection)))
    }
}

struct Loads;

impl Responder for Loads {
    fn respond<'a>(
        &'a mut self,
        _: &'a str,
        arguments: &'a Value,
        _: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<OwnAnswer, StrategyError>> {
        let misuse = arguments["what"].is_null().then(|| "says not what".to_owned());
        let define = vec![ToolId::new("pay", "pay_refund")];
        Box::pin(std::future::ready(Ok(OwnAnswer { text: "loaded".to_owned(), define, misuse })))
    }
}

/// One episode on these replies, with everything else changeable.
struct Scene {
    actor: Actor,
    offer: Offer,
    settings: LoopSettings,
    profile: Profile,
    results: BTreeMap<ToolId, String>,
}

impl Scene {
    fn new() -> Self {
        let own = ToolDef {
            name: "load".to_owned(),
            description: "Loads.".to_owned(),
            parameters: json!({"type": "object"}),
        };
        Self {
            actor: Actor::all(),
            offer: Offer { tools: vec![ToolId::new("mail", "mail_send")], own: vec![own], guidance: None },
            settings: LoopSettings {
                mode: Mode::Loop,
                wording: Wording::Plain,
                max_turns: 4,
                max_episode_tokens: None,
                max_episode_minutes: None,
                temperature: 0.0,
                max_output_tokens: 64,
                seed: None,
            },
            profile: Profile::hosted("http://127.0.0.1:1/v1", "m"),
            results: BTreeMap::new(),
        }
    }

    async fn play(&self, replies: Vec<Value>) -> (Result<Episode, Unfinished>, Vec<Value>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
        let replies = Mutex::new(replies.into_iter());
        let transport = Scripted::with(move |_, body| {
            log.lock().unwrap().push(body.clone());
            Ok(WireResponse::from(replies.lock().unwrap().next().unwrap_or_else(|| words("Done."))))
        });
        let episode = self.play_on(Arc::new(transport)).await;
        let sent = sent.lock().unwrap().clone();
        (episode, sent)
    }

    async fn play_on(&self, transport: Arc<dyn Transport>) -> Result<Episode, Unfinished> {
        let dir = tempfile::tempdir().unwrap();
        let catalogue = catalogue();
        let subset: Vec<_> = catalogue.tools.iter().map(|tool| tool.id.clone()).collect();
        let view = Arc::new(View::new(&catalogue, &self.actor, &subset, None));
        let gateway = Gateway::new(GatewayParts {
            transport: Some(transport),
            store: ResponseStore::open(&dir.path().join("responses.jsonl")).unwrap(),
            cassettes: Vec::new(),
            profile: self.profile.clone(),
            policy: RetryPolicy { max_attempts: 2, base_ms: 1, cap_ms: 1, budget_ms: 10 },
            caps: Caps::default(),
            price: None,
        })
        .unwrap();
        let prepared = Fixed { offer: self.offer.clone() };
        let stage = Stage {
            validators: &Validators::new(catalogue.clone()),
            toolbox: &Toolbox::new(&catalogue, &self.actor, view, &self.profile, &["load"]),
            prepared: &prepared,
            gateway: &gateway,
            settings: &self.settings,
            sampling: &Sampling { model: "m".to_owned(), temperature: 0.0, max_tokens: 64, seed: None },
        };
        let query = query(&self.results);
        let job = JobKey::new("job");
        let cast = Cast { job, strategy: "fixed", query: &query, size: 4, order: 0, repeat: 0, seed: 1 };
        run_episode(&stage, &cast).await
    }
}

fn query(results: &BTreeMap<ToolId, String>) -> Query {
    Query {
        id: QueryId::new("q"),
        intent: IntentId::new("i"),
        text: "send it to 7".to_owned(),
        actor: ActorId::new("all"),
        kind: Kind::Direct,
        language: "en".to_owned(),
        split: "test".to_owned(),
        scaling: true,
        sequential: false,
        candidates: None,
        results: results.clone(),
        tags: Vec::new(),
    }
}

fn judge(episode: &Episode, labels: &[(&str, u8)]) -> Score {
    let catalogue = catalogue();
    let subset: Vec<_> = catalogue.tools.iter().map(|tool| tool.id.clone()).collect();
    let view = View::new(&catalogue, &Actor::all(), &subset, None);
    let qrel = |(tool, relevance): &(&str, u8)| Qrel {
        group: 0,
        tool: tool.parse().unwrap(),
        relevance: *relevance,
        arguments: None,
    };
    let input = ScoreInput {
        query: &query(&BTreeMap::new()),
        labels: &Labels::new(labels.iter().map(qrel).collect()),
        view: &view,
        mode: Mode::Loop,
        measures: &[],
        ranks: false,
        drives_model: true,
    };
    score(episode, &input)
}

fn verdicts(episode: &Episode) -> Vec<&Verdict> {
    episode.turns.iter().flat_map(|turn| &turn.calls).map(|call| &call.verdict).collect()
}

#[tokio::test]
async fn a_right_call_and_closing_words_are_a_success() {
    let (episode, sent) = Scene::new().play(vec![calls(&[("mail_send", &json!({"id": 7}))]), words("Sent.")]).await;
    let episode = episode.unwrap();
    assert_eq!(episode.outcome, Outcome::Completed);
    assert_eq!(verdicts(&episode), [&Verdict::Valid]);
    assert_eq!(episode.usage().0.total(), 220);
    assert_eq!(episode.usage().1, UsageSource::Reported);
    // Core tools head the prompt, then the strategy's own and its offer; the receipt says nothing of the labels.
    let names: Vec<_> = sent[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["terminal", "load", "mail_send"]);
    assert_eq!(sent[1]["messages"][3]["content"], RECEIPT);
    let judged = judge(&episode, &[("mail/mail_send", 3)]);
    assert_eq!((judged.success, judged.coverage_success, judged.wrong_calls), (Some(true), Some(true), 0));
    assert_eq!((judged.turns_outer, judged.turns_to_covered), (2, Some(1)));
    assert!(judged.waste.is_empty());
}

#[tokio::test]
async fn a_wrong_call_beside_the_right_one_is_covered_and_no_success() {
    let both = calls(&[("mail_send", &json!({"id": 7})), ("terminal", &json!({"id": 1}))]);
    let episode = Scene::new().play(vec![both]).await.0.unwrap();
    let judged = judge(&episode, &[("mail/mail_send", 3)]);
    assert_eq!((judged.success, judged.coverage_success), (Some(false), Some(true)));
    assert_eq!((judged.wrong_calls, judged.harmful_calls), (1, 1));
    assert!(judged.hinges_on_unjudged);
    assert_eq!(judged.waste, BTreeMap::from([(Waste::WrongCall, 1)]));
    let helper = judge(&episode, &[("mail/mail_send", 3), ("agent/terminal", 1)]);
    assert_eq!(helper.success, Some(true), "a helper is neutral");
    let substituted = judge(&episode, &[("pay/pay_refund", 3)]);
    assert!(substituted.substituted_core);
}

#[tokio::test]
async fn no_call_is_right_where_nothing_does_the_job() {
    let episode = Scene::new().play(vec![words("No tool does that.")]).await.0.unwrap();
    assert_eq!(judge(&episode, &[]).success, Some(true));
    assert_eq!(judge(&episode, &[("mail/mail_send", 3)]).success, Some(false));
    let called = Scene::new().play(vec![calls(&[("nonsense", &json!({}))])]).await.0.unwrap();
    assert_eq!(judge(&called, &[]).success, Some(false), "an attempt is a call");
}

#[tokio::test]
async fn repaired_calls_are_waste_and_not_failure() {
    let replies = vec![
        calls(&[("mail_send", &json!({"id": "seven"}))]),
        calls(&[("mail_send", &json!("{id:"))]),
        calls(&[("mail_send", &json!({"id": 7}))]),
    ];
    let (episode, sent) = Scene::new().play(replies).await;
    let episode = episode.unwrap();
    let judged = judge(&episode, &[("mail/mail_send", 3)]);
    assert_eq!(judged.success, Some(true));
    assert_eq!(judged.waste, BTreeMap::from([(Waste::InvalidArguments, 2)]));
    assert_eq!(judged.turns_to_covered, Some(3));
    let told = sent[1]["messages"][3]["content"].as_str().unwrap();
    assert_eq!(told, r#"Error: invalid arguments for mail_send: /id: "seven" is not of type "integer""#);
}

#[tokio::test]
async fn hidden_and_unknown_tools_are_refused_in_the_same_words() {
    let mut scene = Scene::new();
    scene.actor.grants = vec![Grant::Server("mail".to_owned()), Grant::Server("agent".to_owned())];
    let replies = vec![calls(&[("pay_refund", &json!({"id": 1}))]), calls(&[("pay_rebate", &json!({"id": 1}))])];
    let (episode, sent) = scene.play(replies).await;
    let episode = episode.unwrap();
    assert_eq!(verdicts(&episode), [&Verdict::Ungranted, &Verdict::UnknownName]);
    let told =
        |request: usize, message: usize| sent[request]["messages"][message]["content"].as_str().unwrap().to_owned();
    assert_eq!(told(1, 3), r#"Error: there is no tool named "pay_refund"."#);
    assert_eq!(told(2, 5), r#"Error: there is no tool named "pay_rebate"."#);
    assert_eq!(episode.leaks, 0);
    assert_eq!(judge(&episode, &[("mail/mail_send", 3)]).waste.len(), 2);
}

#[tokio::test]
async fn what_a_responder_defines_joins_the_next_prompt() {
    let replies = vec![
        calls(&[("pay_refund", &json!({"id": 1}))]),
        calls(&[("load", &json!({"what": "pay"}))]),
        calls(&[("pay_refund", &json!({"id": 2}))]),
    ];
    let (episode, sent) = Scene::new().play(replies).await;
    let episode = episode.unwrap();
    assert_eq!(verdicts(&episode), [&Verdict::Valid, &Verdict::Own { misuse: None }, &Verdict::Valid]);
    let defined: Vec<bool> = episode.turns.iter().flat_map(|turn| &turn.calls).map(|call| call.defined).collect();
    assert_eq!(defined, [false, true, true], "the first call was a guess");
    assert_eq!(sent[2]["tools"].as_array().unwrap().len(), sent[1]["tools"].as_array().unwrap().len() + 1);
    let joined = episode.exposed.iter().find(|seen| seen.tool.name() == "pay_refund").unwrap();
    assert_eq!((joined.level, joined.turn), (Level::Defined, 2));
    assert_eq!(judge(&episode, &[("pay/pay_refund", 3)]).guesses, 1);
}

#[tokio::test]
async fn row_32_a_model_that_never_searches_is_told_from_one_that_finds_nothing() {
    let silent = Scene::new().play(vec![words("I cannot do that.")]).await.0.unwrap();
    let silent = judge(&silent, &[("pay/pay_refund", 3)]);
    assert_eq!((silent.own_calls, silent.success), (0, Some(false)));
    let searched = Scene::new().play(vec![calls(&[("load", &json!({"what": "pay"}))])]).await.0.unwrap();
    assert_eq!(judge(&searched, &[("pay/pay_refund", 3)]).own_calls, 1);
}

#[tokio::test]
async fn row_36_a_turn_with_other_definitions_loses_the_prefix_cache() {
    let load = || calls(&[("load", &json!({"what": "pay"}))]);
    let episode = Scene::new().play(vec![load(), load(), words("Done.")]).await.0.unwrap();
    let judged = judge(&episode, &[]);
    assert_eq!(judged.turns_outer, 3);
    assert_eq!(judged.cache_invalidating_turns, 1, "the second time nothing is added");
    let direct = Scene::new().play(vec![calls(&[("mail_send", &json!({"id": 7}))])]).await.0.unwrap();
    assert_eq!(judge(&direct, &[]).cache_invalidating_turns, 0);
}

#[tokio::test]
async fn misuse_of_an_own_tool_is_its_own_waste() {
    let episode = Scene::new().play(vec![calls(&[("load", &json!({}))])]).await.0.unwrap();
    assert_eq!(judge(&episode, &[("pay/pay_refund", 3)]).waste, BTreeMap::from([(Waste::BridgeMisuse, 1)]));
}

#[tokio::test]
async fn the_turn_limit_is_an_outcome() {
    let again = calls(&[("mail_send", &json!({"id": 7}))]);
    let episode = Scene::new().play(vec![again.clone(), again.clone(), again.clone(), again]).await.0.unwrap();
    assert_eq!(episode.outcome.label(), "limit(turns)");
    let judged = judge(&episode, &[("mail/mail_send", 3)]);
    assert_eq!(judged.success, Some(false));
    assert_eq!(judged.waste, BTreeMap::from([(Waste::RepeatedCall, 3)]));
}

#[tokio::test]
async fn first_call_ends_after_the_first_catalogue_call() {
    let mut scene = Scene::new();
    scene.settings.mode = Mode::FirstCall;
    let replies = vec![calls(&[("load", &json!({"what": "x"}))]), calls(&[("mail_send", &json!({"id": 7}))])];
    let episode = scene.play(replies).await.0.unwrap();
    assert_eq!((episode.turns.len(), &episode.outcome), (2, &Outcome::Completed));
}

#[tokio::test]
async fn cut_and_filtered_generations_are_outcomes() {
    let message = json!({"role": "assistant", "content": "I would"});
    for (finish_reason, expected) in [("length", Outcome::Truncated), ("content_filter", Outcome::Filtered)] {
        let episode = Scene::new().play(vec![completion(&message, finish_reason)]).await.0.unwrap();
        assert_eq!(episode.outcome, expected);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_decided_before_anything_is_sent() {
    let mut scene = Scene::new();
    scene.profile.context_tokens = Some(80);
    let (episode, sent) = scene.play(Vec::new()).await;
    let episode = episode.unwrap();
    let outcome = &episode.outcome;
    assert!(matches!(outcome, Outcome::NotRunnable { why: NotRunnable::Context, .. }), "{outcome:?}");
    assert!(episode.exposed.is_empty(), "nothing was shown to anybody");
    assert!(sent.is_empty());
    scene.profile.context_tokens = None;
    scene.profile.max_tools = Some(2);
    let (episode, sent) = scene.play(Vec::new()).await;
    assert_eq!(episode.unwrap().outcome.label(), "not_runnable(tool_limit)");
    assert!(sent.is_empty());
}

#[tokio::test]
async fn an_author_s_result_replaces_the_receipt() {
    let mut scene = Scene::new();
    scene.results.insert(ToolId::new("mail", "mail_send"), r#"{"ticket": 9}"#.to_owned());
    let (_, sent) = scene.play(vec![calls(&[("mail_send", &json!({"id": 7}))])]).await;
    assert_eq!(sent[1]["messages"][3]["content"], r#"{"ticket": 9}"#);
}

#[tokio::test]
async fn unreadable_choices_are_told_and_repaired() {
    let mut scene = Scene::new();
    scene.profile.protocol = Protocol::JsonSchema;
    let choice = words(r#"{"tool": "mail_send", "arguments": {"id": 7}}"#);
    let replies = vec![words("I think mail."), choice, words(r#"{"tool": "none", "arguments": {}}"#)];
    let episode = scene.play(replies).await.0.unwrap();
    assert_eq!(verdicts(&episode), [&Verdict::Unreadable, &Verdict::Valid]);
    assert_eq!(judge(&episode, &[("mail/mail_send", 3)]).success, Some(true));
}

#[tokio::test]
async fn one_answer_without_usage_makes_the_whole_episode_an_estimate() {
    let mut silent = words("Sent.");
    silent["usage"] = Value::Null;
    let episode = Scene::new().play(vec![calls(&[("mail_send", &json!({"id": 7}))]), silent]).await.0.unwrap();
    let (usage, source) = episode.usage();
    assert_eq!(source, UsageSource::Estimated);
    assert_ne!(usage.input_tokens, 200);
    assert_eq!(usage.input_tokens, episode.turns.iter().map(|turn| turn.split.total()).sum::<u64>());
}

#[tokio::test]
async fn infrastructure_and_model_errors_are_told_apart() {
    let answer = |status: u16, body: Value| -> Arc<dyn Transport> {
        Arc::new(Scripted::with(move |_, _| {
            Ok(WireResponse { status, retry_after_ms: None, request_id: None, body: body.to_string() })
        }))
    };
    let scene = Scene::new();
    let down = scene.play_on(answer(503, json!({"error": {"message": "busy"}}))).await.unwrap();
    assert_eq!(down.outcome.label(), "failed(server)");
    assert_eq!(down.failed_attempts, 2);
    let refused = json!({"error": {"code": "tool_use_failed", "message": "tool 'x' was not in request.tools"}});
    let model = scene.play_on(answer(400, refused)).await.unwrap();
    assert!(!model.outcome.is_infra_failure(), "{:?}", model.outcome);
    // A wrong key fails every query alike: no episode is recorded, the run ends.
    let unauthorized = scene.play_on(answer(401, json!({"error": {"message": "bad key"}}))).await;
    assert!(matches!(unauthorized, Err(Unfinished::Ask(_))));
}

#[tokio::test]
async fn offering_a_tool_outside_the_view_is_a_bug_and_not_a_leak() {
    let mut scene = Scene::new();
    scene.actor.grants = vec![Grant::Server("agent".to_owned())];
    let (episode, sent) = scene.play(Vec::new()).await;
    assert!(matches!(episode, Err(Unfinished::Contract { .. })));
    assert!(sent.is_empty());
}

#[tokio::test]
async fn names_of_hidden_tools_in_the_strategy_s_words_are_leaks() {
    let mut scene = Scene::new();
    scene.actor.grants = vec![Grant::Server("mail".to_owned()), Grant::Server("agent".to_owned())];
    scene.offer.guidance = Some("You might also like pay_refund.".to_owned());
    let episode = scene.play(vec![words("No.")]).await.0.unwrap();
    assert_eq!(episode.leaks, 1);
}
