//! The log, which other tests trust.

use std::sync::Arc;

use mock::{BlockingMock, End, Mock, Script, Settings};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{CHAT, calling, chat, fixture, request, script, send};

#[tokio::test]
async fn entries_say_what_came_and_what_was_made_of_it() {
    let mock = fixture("too_many_tools").await;
    let headers = [("authorization", "Bearer sk-do-not-show-0123456789"), ("x-title", "a")];
    let text = r#"{ "model": "mock",  "z": 1, "messages": [{"role": "user", "content": "ö"}] }"#;
    let got = send(&mock, CHAT, text.to_owned(), &headers).await.unwrap();
    let entries = mock.log();
    let entry = &entries[0];
    assert_eq!((entry.ordinal, entry.method.as_str(), entry.path.as_str()), (1, "POST", "/v1/chat/completions"));
    assert_eq!(entry.body.to_string(), r#"{"model":"mock","z":1,"messages":[{"role":"user","content":"ö"}]}"#);
    assert_eq!((entry.status, entry.bytes, entry.end), (Some(200), got.text.len() as u64, Some(End::Answered)));
    assert_eq!((entry.attempt, entry.in_flight), (1, 1));
    assert!(entry.faults.is_empty() && entry.rules.is_empty());
    assert_eq!(entry.headers["x-title"], "a");
    assert!(entry.headers["authorization"].starts_with("blake3:"));
    assert!(!format!("{entries:?}").contains("do-not-show"));

    let tools: Vec<_> = (0..129).map(|n| json!({"function": {"name": format!("t{n}")}})).collect();
    chat(&mock, &request(json!({"tools": tools}))).await;
    send(&mock, CHAT, "no JSON".to_owned(), &[]).await.unwrap();
    let log = mock.stop().await;
    assert_eq!((log[1].rules.as_slice(), log[1].status), (["max_tools".to_owned()].as_slice(), Some(400)));
    assert_eq!((&log[2].body, log[2].rules[0].as_str()), (&json!("no JSON"), "body"));
    assert!(log[0].at_ms <= log[1].at_ms && log[1].at_ms <= log[2].at_ms);
}

#[tokio::test]
async fn a_file_holds_a_line_for_each_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    let settings = Settings { log: Some(path.clone()), ..Settings::default() };
    let mock = Mock::start_with(Script::default(), &settings).await.unwrap();
    for _ in 0..3 {
        chat(&mock, &calling()).await;
    }
    assert_eq!(mock.log_failure(), None);
    let entries = mock.stop().await;
    let lines: Vec<Value> =
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, entries.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect::<Vec<_>>());
    assert_eq!((&lines[2]["ordinal"], &lines[2]["end"]), (&json!(3), &json!("answered")));
}

#[tokio::test]
async fn the_most_in_flight_is_what_the_clients_keep_in_flight() {
    let mock = Arc::new(Mock::start(script("fault = [{ name = \"slow\", delay_ms = 30 }]")).await.unwrap());
    let mut clients = JoinSet::new();
    for client in 0..3 {
        let mock = mock.clone();
        clients.spawn(async move {
            for n in 0..8 {
                assert_eq!(chat(&mock, &request(json!({"client": client, "n": n}))).await.status, 200);
            }
        });
    }
    clients.join_all().await;
    assert_eq!((mock.most_in_flight(), mock.log().len()), (3, 24));
}

#[test]
fn a_server_without_async_does_the_same() {
    let mock = BlockingMock::start(script("dialect.max_tools = 1")).unwrap();
    let url = format!("{}/chat/completions", mock.base_url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let client = harness::endpoint::http_client(&url, None).unwrap();
        client.post(&url).body(calling().to_string()).send().await.unwrap().status().as_u16()
    });
    mock.settled();
    assert_eq!((status, mock.log().len(), mock.most_in_flight()), (400, 1, 1));
    assert_eq!(mock.stop()[0].rules, ["max_tools"]);
}
