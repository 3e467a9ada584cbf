//! Which requests are struck, and with what.

use mock::{Dialect, Fault, Mock, NamedError, Script, When};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{CHAT, calling, chat, fixture, post, request, scripted, send};

async fn statuses(mock: &Mock, body: &Value, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(chat(mock, body).await.status);
    }
    statuses
}

#[tokio::test]
async fn attempts_are_counted_for_each_body() {
    let mock = fixture("rate_limited").await;
    let (a, b) = (calling(), request(json!({})));
    assert_eq!(statuses(&mock, &a, 1).await, [429]);
    assert_eq!(statuses(&mock, &b, 3).await, [429, 429, 200]);
    assert_eq!(statuses(&mock, &a, 2).await, [429, 200]);
    let numbers: Vec<_> = mock.log().iter().map(|entry| entry.attempt).collect();
    assert_eq!(numbers, [1, 1, 2, 3, 2, 3]);
}

#[tokio::test]
async fn waits_are_told_in_every_form_or_not_at_all() {
    assert_eq!(chat(&fixture("rate_limited").await, &calling()).await.header("retry-after"), None);
    assert_eq!(chat(&fixture("retry_after_seconds").await, &calling()).await.header("retry-after"), Some("1"));
    let mock = fixture("retry_after_absurd").await;
    assert_eq!(chat(&mock, &calling()).await.header("retry-after"), Some("1e10"));
    assert_eq!(chat(&mock, &calling()).await.header("retry-after"), Some("in a while"));
    let got = chat(&fixture("retry_after_date").await, &calling()).await;
    assert_eq!(got.status, 429);
    assert!(got.header("retry-after").unwrap().ends_with(" GMT"));
}

#[tokio::test]
async fn servers_gateways_and_logins_answer_in_their_own_way() {
    let mock = fixture("server_errors").await;
    assert_eq!(statuses(&mock, &calling(), 3).await, [500, 503, 200]);
    let mock = fixture("web_pages").await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let got = chat(&mock, &calling()).await;
        seen.push((got.status, got.header("content-type").unwrap().to_owned(), got.text.contains("<title>")));
    }
    let (html, json) = ("text/html".to_owned(), "application/json".to_owned());
    assert_eq!(seen, [(502, html.clone(), true), (200, html, true), (200, json, false)]);
    let mock = fixture("truncated").await;
    let got = chat(&mock, &calling()).await;
    assert_eq!((got.status, got.header("content-length")), (200, Some("90")));
    assert!(serde_json::from_str::<Value>(&got.text).unwrap_err().is_eof());
}

#[tokio::test]
async fn keys_models_methods_and_bodies_are_checked() {
    let mock = fixture("wants_a_key").await;
    let ask = async |key: &str, body: String| {
        let got = send(&mock, CHAT, body, &[("authorization", key)]).await.unwrap();
        (got.status, got.json()["error"]["code"].clone())
    };
    assert_eq!(chat(&mock, &calling()).await.status, 401);
    assert_eq!(ask("Bearer other", calling().to_string()).await, (401, json!("invalid_api_key")));
    assert_eq!(ask("Bearer mock-key", calling().to_string()).await, (200, Value::Null));
    let other = request(json!({"model": "other"}));
    assert_eq!(ask("Bearer mock-key", other.to_string()).await, (404, json!("model_not_found")));
    for broken in ["", "{", "[]", "{\"model\": \"mock\"}"] {
        assert_eq!(ask("Bearer mock-key", broken.to_owned()).await.0, 400, "{broken}");
    }
    let settings = mock::Settings { max_body_bytes: 100, ..mock::Settings::default() };
    let mock = Mock::start_with(Script::default(), &settings).await.unwrap();
    assert_eq!(chat(&mock, &calling()).await.status, 413);
    assert_eq!(chat(&mock, &request(json!({}))).await.status, 200);
}

#[tokio::test]
async fn faults_strike_by_path_words_and_kind_of_request() {
    let mock = scripted(
        r#"fault = [
            { name = "embeddings", when.path = "embeddings", instead.raw = { status = 501, body = "" } },
            { name = "words", when.contains = "refund", instead.raw = { status = 502, body = "" } },
            { name = "closing", when.after_result = true, instead.raw = { status = 503, body = "" } },
            { name = "stream", when.stream = true, instead.raw = { status = 504, body = "" } },
        ]"#,
    )
    .await;
    assert_eq!(chat(&mock, &request(json!({}))).await.status, 200);
    let input = json!({"model": "mock", "input": "a"});
    assert_eq!(post(&mock, "embeddings", &input).await.unwrap().status, 501);
    assert_eq!(chat(&mock, &request(json!({"user": "refund"}))).await.status, 502);
    let closing = json!([{"role": "user", "content": "a"}, {"role": "tool", "content": "ok"}]);
    assert_eq!(chat(&mock, &request(json!({"messages": closing}))).await.status, 503);
    assert_eq!(chat(&mock, &request(json!({"stream": true}))).await.status, 504);
}

/// What becomes of forty requests that are sent at once, three times each, in an order that nobody controls.
async fn storm(seed: u64) -> Vec<(Value, u64, Vec<String>)> {
    let mut script = fixtures_script("flaky");
    script.seed = seed;
    let mock = std::sync::Arc::new(Mock::start(script).await.unwrap());
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let mock = mock.clone();
        tasks.spawn(async move {
            for _ in 0..3 {
                // Resets are part of it.
                let _ = post(&mock, CHAT, &request(json!({"n": n}))).await;
            }
        });
    }
    tasks.join_all().await;
    let mut entries: Vec<_> =
        mock.log().into_iter().map(|entry| (entry.body["n"].clone(), entry.attempt, entry.faults)).collect();
    entries.sort_by_key(|(n, attempt, _)| (n.as_u64(), *attempt));
    entries
}

fn fixtures_script(name: &str) -> Script {
    mock::fixtures::find(name).unwrap().script()
}

#[tokio::test]
async fn what_is_drawn_depends_on_the_seed_and_never_on_the_order_of_arrival() {
    let first = storm(1).await;
    assert_eq!(first.len(), 120);
    assert_eq!(storm(1).await, first);
    assert_ne!(storm(2).await, first);
    let struck = first.iter().filter(|(_, _, faults)| !faults.is_empty()).count();
    assert!((25..60).contains(&struck), "about a third: {struck}");
}

#[tokio::test]
async fn scripts_can_be_made_without_a_file_and_are_checked_all_the_same() {
    let limit = Fault {
        name: "limit".to_owned(),
        when: When { attempts: vec![1], ..When::default() },
        instead: Some(mock::Instead::Error(NamedError { kind: mock::ErrorName::RateLimit, status: None })),
        ..Fault::default()
    };
    let script = Script {
        dialect: Dialect { errors: mock::Errors::Gemini, ..Dialect::default() },
        faults: vec![limit.clone()],
        ..Script::default()
    };
    let mock = Mock::start(script).await.unwrap();
    let got = chat(&mock, &calling()).await;
    assert_eq!((got.status, &got.json()[0]["error"]["status"]), (429, &json!("RESOURCE_EXHAUSTED")));
    let script = Script { faults: vec![limit.clone(), limit], ..Script::default() };
    let error = Mock::start(script).await.err().unwrap();
    assert!(error.to_string().contains("two faults are called \"limit\""), "{error}");
}
