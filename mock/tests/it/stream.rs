//! Streams as servers send them, and as some of them do.

use serde_json::{Value, json};

use crate::support::{calling, chat, fixture, request};

fn streaming(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

fn deltas(chunks: &[Value]) -> Vec<Value> {
    chunks.iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect()
}

#[tokio::test]
async fn words_and_calls_come_piece_by_piece_and_add_up_to_the_whole_answer() {
    let mock = fixture("plain").await;
    let whole = chat(&mock, &request(json!({}))).await.message();
    let got = chat(&mock, &streaming(request(json!({})))).await;
    assert_eq!(got.header("transfer-encoding"), Some("chunked"));
    let chunks = got.chunks();
    let text: String = deltas(&chunks).iter().filter_map(|delta| delta["content"].as_str()).collect();
    assert_eq!(json!(text), whole["content"]);
    assert_eq!(deltas(&chunks)[0], json!({"role": "assistant", "content": ""}));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");

    let chunks = chat(&mock, &streaming(calling())).await.chunks();
    let deltas = deltas(&chunks);
    assert_eq!(deltas[0], json!({"role": "assistant", "content": null}));
    let first = json!({"index": 0, "id": "call_1", "type": "function",
                       "function": {"name": "cancel_order", "arguments": ""}});
    assert_eq!(deltas[1]["tool_calls"], json!([first]));
    let pieces: Vec<_> =
        deltas[2..].iter().filter_map(|delta| delta["tool_calls"][0]["function"]["arguments"].as_str()).collect();
    assert!(pieces.len() > 1);
    assert_eq!(pieces.concat(), "{\"reason\":\"x\"}");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()), "nobody asked for it");
}

#[tokio::test]
async fn row_21_usage_is_streamed_when_asked_for_and_reported_at_all() {
    let asks = || {
        let mut body = streaming(calling());
        body["stream_options"] = json!({"include_usage": true});
        body
    };
    let chunks = chat(&fixture("plain").await, &asks()).await.chunks();
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    assert!(others.iter().all(|chunk| chunk.get("usage").is_some_and(Value::is_null)));
    let chunks = chat(&fixture("usage_missing").await, &asks()).await.chunks();
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    let chunks = chat(&fixture("usage_null").await, &asks()).await.chunks();
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_some_and(Value::is_null)));
}

#[tokio::test]
async fn row_17_names_are_blank_after_the_first_piece_and_indices_missing() {
    let deltas = deltas(&chat(&fixture("blank_names_in_stream").await, &streaming(calling())).await.chunks());
    let calls: Vec<_> = deltas.iter().filter_map(|delta| delta["tool_calls"].get(0)).collect();
    assert!(calls.len() > 2);
    assert_eq!(calls[0]["function"]["name"], "cancel_order");
    assert!(calls[1..].iter().all(|call| call["function"]["name"] == ""));
    assert!(calls.iter().all(|call| call.get("index").is_none()));
}

#[tokio::test]
async fn row_23_filters_begin_and_end_the_stream() {
    let chunks = chat(&fixture("async_filter").await, &streaming(calling())).await.chunks();
    let (first, last) = (&chunks[0], chunks.last().unwrap());
    assert_eq!((&first["id"], &first["model"], &first["choices"]), (&json!(""), &json!(""), &json!([])));
    assert!(first["prompt_filter_results"].is_array());
    assert!(last["choices"][0].get("delta").is_none() && last["choices"][0]["content_filter_offsets"].is_object());
    assert_eq!(chunks[1]["choices"][0]["delta"]["role"], "assistant");
}

#[tokio::test]
async fn row_27_calls_come_whole() {
    let deltas = deltas(&chat(&fixture("calls_come_whole").await, &streaming(calling())).await.chunks());
    let calls: Vec<_> = deltas.iter().filter_map(|delta| delta["tool_calls"].get(0)).collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["function"]["arguments"], "{\"reason\":\"x\"}");
}

#[tokio::test]
async fn what_must_come_back_is_streamed_too() {
    let deltas_of = async |name: &str| deltas(&chat(&fixture(name).await, &streaming(calling())).await.chunks());
    let reasoning: String =
        deltas_of("reasoning_content").await.iter().filter_map(|delta| delta["reasoning_content"].as_str()).collect();
    assert!(reasoning.contains("The user wants"), "{reasoning}");
    let deltas = deltas_of("thought_signature").await;
    assert!(deltas[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"].is_string());
}

#[tokio::test]
async fn refusals_are_not_streamed() {
    let mock = fixture("max_completion_tokens").await;
    let mut body = streaming(calling());
    body["max_tokens"] = json!(5);
    let got = chat(&mock, &body).await;
    assert_eq!((got.status, got.header("content-type")), (400, Some("application/json")));
}

#[tokio::test]
async fn streams_may_end_without_a_word_or_in_the_middle_of_one() {
    let got = chat(&fixture("stream_without_done").await, &streaming(calling())).await;
    assert!(!got.text.contains("[DONE]") && got.text.ends_with("\n\n"));
    let mock = fixture("truncated").await;
    let got = chat(&mock, &streaming(calling())).await;
    assert_eq!((got.status, got.text.len()), (200, 90));
    assert!(got.text.starts_with("data: {") && !got.text.ends_with('\n'));
    assert!(chat(&mock, &streaming(calling())).await.chunks().len() > 3, "the second time it is whole");
}
