//! The harness's own client against the rows: what each of them demands.

use std::sync::Arc;

use harness::arguments::{Validators, parse};
use harness::catalogue::{Annotations, Catalogue, Tool};
use harness::chat::{ChatReply, ChatRequest, ToolDef};
use harness::conversation::{Conversation, Said, Sampling};
use harness::endpoint::{
    Aliases, Answered, Attempt, EndpointError, ErrorKind, NameRule, OpenAi, OpenAiConfig, Profile, Protocol,
    RetryPolicy, Route, with_retries,
};
use harness::gateway::{Caps, Gateway, GatewayParts, Lesson, lessons as lessons_of};
use harness::ids::ToolId;
use harness::store::responses::ResponseStore;
use harness::tokens;
use mock::Mock;
use serde_json::{Value, json};

use crate::support::{calling, fixture, request, tool, tools};

pub(crate) const QUICK: RetryPolicy = RetryPolicy { max_attempts: 5, base_ms: 1, cap_ms: 2, budget_ms: 5_000 };

pub(crate) fn transport(mock: &Mock) -> OpenAi {
    OpenAi::new(&OpenAiConfig { base_url: mock.base_url(), api_key: None, timeout_ms: 20_000 }).unwrap()
}

pub(crate) async fn ask(mock: &Mock, body: &Value) -> Result<Answered, (EndpointError, Vec<Attempt>)> {
    with_retries(&transport(mock), Route::Chat, body, &QUICK, 1, &mut |_| ()).await
}

pub(crate) async fn reply(mock: &Mock, body: &Value) -> ChatReply {
    ChatReply::parse(&ask(mock, body).await.unwrap().value).unwrap()
}

/// An error that is not asked for again.
pub(crate) async fn refusal(mock: &Mock, body: &Value) -> EndpointError {
    let before = mock.log().len();
    let (error, attempts) = ask(mock, body).await.unwrap_err();
    assert_eq!((attempts.len(), mock.log().len() - before), (1, 1), "{error}");
    error
}

fn sampling() -> Sampling {
    Sampling { model: "mock".to_owned(), temperature: 0.0, max_tokens: 64, seed: None }
}

/// An agent's conversation that wants an order cancelled.
fn conversation(protocol: Protocol) -> Conversation {
    let mut conversation = Conversation::new(protocol, "Be useful.".to_owned(), "please cancel the order");
    for name in ["find_visit", "cancel_order"] {
        conversation.define(ToolDef {
            name: name.to_owned(),
            description: "Does it.".to_owned(),
            parameters: json!({"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]}),
        });
    }
    conversation
}

fn wire(request: &ChatRequest) -> Value {
    serde_json::to_value(request).unwrap()
}

/// A conversation of two turns: the call, its result, the closing words. The request of the second turn comes back.
async fn two_turns(mock: &Mock) -> Value {
    let mut conversation = conversation(Protocol::Native);
    let first = reply(mock, &wire(&conversation.request(&sampling()))).await;
    let Said::Calls(calls) = conversation.hear(&first) else { panic!("no call in {first:?}") };
    assert_eq!((calls.len(), calls[0].name.as_str()), (1, "cancel_order"));
    conversation.answer(&calls[0], "ok");
    let second = wire(&conversation.request(&sampling()));
    assert_eq!(reply(mock, &second).await.text, "Done.");
    second
}

#[tokio::test]
async fn row_01_too_many_tools_are_a_limit_and_nothing_to_repeat() {
    let names: Vec<_> = (0..129).map(|n| format!("tool_{n}")).collect();
    let body = request(json!({"tools": tools(names.iter().map(String::as_str))}));
    let error = refusal(&fixture("too_many_tools").await, &body).await;
    assert_eq!((error.kind, error.status), (ErrorKind::ToolLimit, Some(400)));
    assert!(error.kind.is_refusal() && error.message.contains("length 129"), "{error}");
}

#[tokio::test]
async fn row_02_a_grammar_that_is_too_large_is_the_same_limit() {
    let big = json!({"type": "object", "properties": {}, "description": "x".repeat(70_000)});
    let body = request(json!({"tools": [tool("cancel_order", &big)]}));
    let error = refusal(&fixture("tool_json_too_big").await, &body).await;
    assert_eq!(error.kind, ErrorKind::ToolLimit);
    assert!(error.message.contains("failed to parse grammar"), "the words are kept: {error}");
}

#[tokio::test]
async fn row_03_a_refused_pattern_is_a_matter_of_schemas() {
    let body = |pattern: &str| {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
        request(json!({"tools": [tool("cancel_order", &schema)]}))
    };
    let error = refusal(&fixture("bad_pattern_named").await, &body("^(?!a).*$")).await;
    assert_eq!(error.kind, ErrorKind::Schema);
    assert!(error.message.contains("$.properties.a.pattern"), "{error}");
    assert_eq!(refusal(&fixture("bad_pattern").await, &body("a+")).await.kind, ErrorKind::Schema);
}

#[tokio::test]
async fn row_04_what_no_server_checks_is_checked_here() {
    let mut choosing = conversation(Protocol::JsonSchema);
    let reply = reply(&fixture("schema_passed_over").await, &wire(&choosing.request(&sampling()))).await;
    assert!(matches!(choosing.hear(&reply), Said::Unreadable(_)), "{reply:?}");

    let reply = self::reply(&fixture("unfit_arguments").await, &calling()).await;
    let arguments = parse(&reply.calls[0].arguments).unwrap();
    let id = ToolId::new("shop", "cancel_order");
    let tool = Tool {
        id: id.clone(),
        description: String::new(),
        input_schema: calling()["tools"][1]["function"]["parameters"].clone(),
        annotations: Annotations::default(),
        core: false,
        tags: Vec::new(),
    };
    let validators = Validators::new(Arc::new(Catalogue::new(Vec::new(), vec![tool], Vec::new()).unwrap()));
    assert!(validators.check(&id, &arguments).is_some());
}

#[tokio::test]
async fn row_05_a_cut_prompt_shows_in_what_is_reported() {
    let mock = fixture("silent_truncation").await;
    let body = request(json!({"tools": tools(["cancel_order"]), "user": "word ".repeat(4_000)}));
    let reply = reply(&mock, &body).await;
    let estimate = tokens::count_json(&body);
    assert!(reply.usage.unwrap().input_tokens < estimate, "{estimate}");
}

#[tokio::test]
async fn row_07_every_overflow_is_one() {
    let long = request(json!({"messages": [{"role": "user", "content": "word ".repeat(2_000)}]}));
    for name in ["overflow_as_max_tokens", "context_refused", "context_refused_by_number"] {
        let mock = fixture(name).await;
        let mut limited = long.clone();
        limited["max_tokens"] = json!(64);
        for body in [&long, &limited] {
            let error = refusal(&mock, body).await;
            assert_eq!((error.kind, error.status), (ErrorKind::ContextOverflow, Some(400)), "{name}: {error}");
        }
    }
}

#[tokio::test]
async fn rows_08_and_09_aliases_are_accepted_apart_and_lead_back() {
    let long = "n".repeat(200);
    let names = ["solve.x", "solve_x", "solve x", "files/cancel order", "größe", long.as_str()];
    let ids: Vec<_> = names.iter().map(|name| ToolId::new("maths", name)).collect();
    let aliases = Aliases::new(&ids, NameRule::Openai, &[]);
    let offered = request(json!({"tools": tools(ids.iter().map(|id| aliases.alias(id)))}));
    for name in ["names_64", "names_128", "unique_names"] {
        reply(&fixture(name).await, &offered).await;
    }
    let called = reply(&fixture("names_64").await, &offered).await.calls.remove(0);
    assert_eq!(aliases.tool(&called.name), Some(&ids[3]), "the one that cancels an order");
    let raw = request(json!({"tools": tools(names)}));
    refusal(&fixture("names_64").await, &raw).await;
}

#[tokio::test]
async fn row_10_loose_schemas_are_a_matter_of_schemas() {
    let mock = fixture("strict_schemas").await;
    for schema in [
        json!({"type": "object", "properties": {}, "anyOf": []}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"a": {"type": "array"}}}),
    ] {
        let error = refusal(&mock, &request(json!({"tools": [tool("cancel_order", &schema)]}))).await;
        assert_eq!(error.kind, ErrorKind::Schema, "{error}");
    }
}

#[tokio::test]
async fn row_11_so_are_untyped_ones() {
    let mock = fixture("typed_schemas").await;
    for schema in [json!({"type": "integer", "enum": [1]}), json!({"anyOf": [{"description": "x"}]})] {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        let error = refusal(&mock, &request(json!({"tools": [tool("cancel_order", &schema)]}))).await;
        assert_eq!(error.kind, ErrorKind::Schema, "{error}");
    }
}

#[tokio::test]
async fn rows_12_and_13_what_a_server_wants_back_comes_back() {
    for name in ["thought_signature", "reasoning_content"] {
        let mock = fixture(name).await;
        two_turns(&mock).await;
        assert!(mock.log().iter().all(|entry| entry.status == Some(200)), "{name}");
    }
}

#[tokio::test]
async fn rows_14_and_15_arguments_are_read_in_every_form_and_sent_as_text() {
    for (name, expected) in [("arguments_as_object", json!({"reason": "x"})), ("plain", json!({"reason": "x"}))] {
        let second = two_turns(&fixture(name).await).await;
        let sent = &second["messages"][2]["tool_calls"][0]["function"]["arguments"];
        assert_eq!(serde_json::from_str::<Value>(sent.as_str().unwrap()).unwrap(), expected, "{name}");
    }
    let bare = request(json!({"tools": tools(["cancel_order"])}));
    let reply = reply(&fixture("blank_arguments").await, &bare).await;
    assert_eq!(reply.calls[0].arguments, "");
    assert_eq!(parse(&reply.calls[0].arguments).unwrap(), json!({}));
}

#[tokio::test]
async fn row_16_ids_are_supplied_and_an_empty_list_is_no_call() {
    let mock = fixture("blank_ids").await;
    let second = two_turns(&mock).await;
    let id = &second["messages"][2]["tool_calls"][0]["id"];
    assert!(id.as_str().is_some_and(|id| !id.is_empty()));
    assert_eq!(id, &second["messages"][3]["tool_call_id"]);
    let words = reply(&mock, &request(json!({}))).await;
    assert!(words.calls.is_empty() && words.message.0.get("tool_calls").is_none());
}

#[tokio::test]
async fn row_18_content_decides_and_the_reason_is_kept_as_it_is() {
    let mock = fixture("odd_finish_reasons").await;
    for reason in ["stop", "tool_calls", "", "eos_token", "error"] {
        let (with, without) = (reply(&mock, &calling()).await, reply(&mock, &request(json!({}))).await);
        assert_eq!((with.calls.len(), without.calls.len()), (1, 0));
        assert_eq!((with.finish_reason.as_deref(), without.finish_reason.as_deref()), (Some(reason), Some(reason)));
    }
}

#[tokio::test]
async fn row_19_an_error_in_a_success_is_repeated_and_never_stored() {
    let mock = fixture("success_that_is_none").await;
    let answered = ask(&mock, &calling()).await.unwrap();
    let kinds: Vec<_> = answered.attempts.iter().map(|attempt| (attempt.status, attempt.kind)).collect();
    let decode = (Some(200), ErrorKind::Decode);
    assert_eq!(kinds, [(Some(200), ErrorKind::Server), decode, decode, decode]);
    assert!(answered.value["choices"][0]["message"].is_object());

    let dir = tempfile::tempdir().unwrap();
    let mock = fixture("success_that_is_none").await;
    let gateway = gateway(&mock, dir.path());
    let answer = gateway.chat(&conversation(Protocol::Native).request(&sampling()), 100, 0).await.unwrap();
    assert_eq!((answer.attempts, gateway.store().len()), (5, 1));
    let stored = gateway.store().get(&answer.key).unwrap().unwrap();
    assert!(stored.body["choices"][0]["message"].is_object());
}

fn gateway(mock: &Mock, dir: &std::path::Path) -> Gateway {
    Gateway::new(GatewayParts {
        transport: Some(Arc::new(transport(mock))),
        store: ResponseStore::open(&dir.join("responses.jsonl")).unwrap(),
        cassettes: Vec::new(),
        profile: Profile::hosted(&mock.base_url(), "mock"),
        policy: QUICK,
        caps: Caps::default(),
        price: None,
    })
    .unwrap()
}

#[tokio::test]
async fn row_20_refused_parameters_are_learned_once_and_written_down() {
    let mock = fixture("max_completion_tokens").await;
    let dir = tempfile::tempdir().unwrap();
    let asked = |temperature: f64| {
        let sampling = Sampling { temperature, ..sampling() };
        conversation(Protocol::Native).request(&sampling)
    };
    let gateway = gateway(&mock, dir.path());
    let first = gateway.chat(&asked(0.0), 100, 0).await.unwrap();
    let second = gateway.chat(&asked(0.5), 100, 0).await.unwrap();
    assert_eq!((first.attempts, second.attempts), (3, 1), "two refusals teach two lessons, and they hold");
    let lessons = vec![Lesson::MaxCompletionTokens, Lesson::NoTemperature];
    for answer in [&first, &second] {
        assert_eq!(gateway.store().get(&answer.key).unwrap().unwrap().lessons, lessons);
    }
    let key = first.key.clone();
    let request = gateway.store().request(&key).unwrap().unwrap();
    assert!(
        request.body["temperature"] == 0.0 && request.body["max_tokens"].is_u64(),
        "it is kept as it was asked for"
    );
    drop(gateway);
    let again = self::gateway(&mock, dir.path());
    assert_eq!(again.chat(&asked(0.7), 100, 0).await.unwrap().attempts, 1, "the next process has it from the store");
    drop(again);
    assert_eq!(lessons_of(&ResponseStore::read(&dir.path().join("responses.jsonl")).unwrap()).unwrap(), lessons);
    let sent = mock.stop().await;
    assert_eq!(sent.len(), 5);
}

#[tokio::test]
async fn rows_21_and_22_what_is_not_reported_is_unknown_and_not_zero() {
    for name in ["usage_missing", "usage_null", "usage_zero"] {
        assert_eq!(reply(&fixture(name).await, &calling()).await.usage, None, "{name}");
    }
    let usage = reply(&fixture("cached_unreported").await, &calling()).await.usage.unwrap();
    assert_eq!((usage.cache_read_tokens, usage.reasoning_tokens), (None, None));
    let mock = fixture("cached_reported").await;
    let mut cached = Vec::new();
    for _ in 0..2 {
        cached.push(reply(&mock, &calling()).await.usage.unwrap().cache_read_tokens.unwrap());
    }
    assert!(cached[0] == 0 && cached[1] > 0, "zero is zero where it is reported: {cached:?}");
}

#[tokio::test]
async fn row_24_a_filter_is_neither_a_fault_nor_repeated() {
    let body = request(json!({"messages": [{"role": "user", "content": "forbidden"}]}));
    let error = refusal(&fixture("content_filter").await, &body).await;
    assert_eq!(error.kind, ErrorKind::Filtered);
    assert!(error.kind.is_refusal());
}

#[tokio::test]
async fn row_25_a_refused_call_is_the_models_fault_and_says_what_it_wrote() {
    let mock = fixture("wrong_calls_refused").await;
    for written in ["<function=no_such_tool>", "<function=cancel_order>", "no_such_parameter"] {
        let error = refusal(&mock, &calling()).await;
        assert_eq!(error.kind, ErrorKind::ModelError, "{error}");
        assert!(error.message.contains("the model wrote: ") && error.message.contains(written), "{error}");
    }
    assert_eq!(reply(&mock, &calling()).await.calls.len(), 1);
}

#[tokio::test]
async fn row_26_lists_are_content_too() {
    let reply = reply(&fixture("empty_content_list").await, &calling()).await;
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("", 1));
    let reply = self::reply(&fixture("content_in_parts").await, &request(json!({}))).await;
    assert_eq!(reply.text, "None of the tools does this.");
    two_turns(&fixture("empty_content_list").await).await;
}

#[tokio::test]
async fn row_27_nothing_is_streamed_so_calls_come_whole() {
    let mock = fixture("calls_come_whole").await;
    two_turns(&mock).await;
    assert!(mock.log().iter().all(|entry| entry.body.get("stream").is_none()));
}

#[tokio::test]
async fn row_28_repeats_ask_again_and_may_differ() {
    let mock = fixture("unstable").await;
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(&mock, dir.path());
    let request = conversation(Protocol::Native).request(&sampling());
    let mut texts = Vec::new();
    for repeat in 0..8 {
        let answer = gateway.chat(&request, 100, repeat).await.unwrap();
        assert!(!answer.stored);
        texts.push(answer.reply.message.0.to_string());
    }
    assert_eq!(mock.log().len(), 8);
    assert!(texts.iter().any(|text| text != &texts[0]), "{texts:?}");
    assert!(gateway.chat(&request, 100, 3).await.unwrap().stored, "the same repeat is the same answer");
}

#[tokio::test]
async fn row_29_a_quota_of_the_day_ends_it_at_once() {
    for name in ["daily_quota", "daily_quota_in_details", "spent_quota"] {
        let error = refusal(&fixture(name).await, &calling()).await;
        assert_eq!((error.kind, error.status), (ErrorKind::QuotaExhausted, Some(429)), "{name}");
        assert!(error.retry_after_ms.is_none_or(|wait| wait <= 600_000), "a day is not waited for");
    }
}
