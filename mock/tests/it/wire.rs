//! What the fixtures of the rows put on the wire: answers. Their refusals are in `wire_refusals`, their streams in `stream`.

use harness::tokens;
use serde_json::{Value, json};

use crate::support::{answered, calling, chat, fixture, post, request, tool};

fn long(words: usize) -> Value {
    json!([{"role": "system", "content": "Be useful."}, {"role": "user", "content": "word ".repeat(words)},
           {"role": "user", "content": "please cancel the order"}])
}

#[tokio::test]
async fn without_a_script_answers_are_as_the_api_says() {
    let mock = fixture("plain").await;
    let got = chat(&mock, &calling()).await;
    let body = got.json();
    let prompt = tokens::count_json(&calling());
    assert_eq!((got.status, got.header("content-type")), (200, Some("application/json")));
    assert!(got.header("x-request-id").unwrap().starts_with("req-"));
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("mock")));
    let call = json!({"id": "call_1", "type": "function",
                      "function": {"name": "cancel_order", "arguments": "{\"reason\":\"x\"}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    assert_eq!(body["choices"], json!([{"index": 0, "message": message, "finish_reason": "tool_calls"}]));
    let usage = &body["usage"];
    assert_eq!(usage["prompt_tokens"], prompt);
    assert_eq!(usage["total_tokens"], prompt + usage["completion_tokens"].as_u64().unwrap());
    assert!(usage.get("prompt_tokens_details").is_none());
    let closing = chat(&mock, &answered(&calling(), &got.message())).await;
    assert_eq!(closing.message(), json!({"role": "assistant", "content": "Done."}));
    assert_eq!(closing.json()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn embeddings_and_models_are_served_too() {
    let mock = fixture("plain").await;
    let embeddings =
        post(&mock, "embeddings", &json!({"model": "mock", "input": ["a b c", "d"]})).await.unwrap().json();
    assert_eq!(embeddings["data"].as_array().unwrap().len(), 2);
    assert_eq!(embeddings["data"][1]["index"], 1);
    assert!(embeddings["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    let get = async |path: &str| {
        let url = format!("{}/{path}", mock.base_url());
        let response = harness::endpoint::http_client(&url, None).unwrap().get(&url).send().await.unwrap();
        (response.status().as_u16(), serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap())
    };
    let model = json!({"id": "mock", "object": "model", "created": 0, "owned_by": "mock"});
    assert_eq!(get("models").await, (200, json!({"object": "list", "data": [model]})));
    assert_eq!(get("models/mock").await, (200, model));
    let (status, body) = get("models/other").await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("model_not_found")));
    assert_eq!(get("chat/completions").await.0, 405);
    assert_eq!(get("responses").await.1["error"]["message"], "Unknown request URL: /v1/responses.");
}

#[tokio::test]
async fn row_04_a_schema_is_passed_over_and_arguments_fit_none() {
    let schema = json!({"type": "object", "properties": {"tool": {"enum": ["cancel_order"]}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "choice", "schema": schema}});
    let constrained = request(json!({"response_format": format}));
    let content = chat(&fixture("plain").await, &constrained).await.message()["content"].clone();
    assert_eq!(content, "{\"tool\":\"cancel_order\"}");
    let mock = fixture("schema_passed_over").await;
    let content = chat(&mock, &constrained).await.message()["content"].clone();
    assert!(serde_json::from_str::<Value>(content.as_str().unwrap()).is_err(), "{content}");
    assert_eq!(mock.log()[0].rules, ["schema_passed_over"]);

    let message = chat(&fixture("unfit_arguments").await, &calling()).await.message();
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"no_such_parameter":[]}"#);
}

#[tokio::test]
async fn row_05_a_long_prompt_is_cut_and_usage_sits_at_the_context() {
    let mock = fixture("silent_truncation").await;
    let short = chat(&mock, &calling()).await.json();
    assert_eq!(short["usage"]["prompt_tokens"], tokens::count_json(&calling()));
    let body = {
        let mut body = calling();
        body["messages"] = long(3_000);
        body
    };
    let got = chat(&mock, &body).await;
    assert_eq!((got.status, &got.json()["usage"]["prompt_tokens"]), (200, &json!(2_048)));
    assert_eq!(got.message()["tool_calls"][0]["function"]["name"], "cancel_order", "what is left is answered");
    // So many tools that those in front are lost, the right one with them.
    let schema = json!({"type": "object", "properties": {}});
    let mut offered = vec![tool("cancel_order", &schema)];
    offered.extend((0..400).map(|n| tool(&format!("other_{n}"), &schema)));
    let got = chat(&mock, &request(json!({"tools": offered}))).await;
    assert_eq!(got.message()["content"], "None of the tools does this.");
    assert_eq!(got.json()["usage"]["prompt_tokens"], 2_048);
    let rules: Vec<_> = mock.log().into_iter().map(|entry| entry.rules).collect();
    assert_eq!(rules, [vec![], vec!["truncated".to_owned()], vec!["truncated".to_owned()]]);
}

#[tokio::test]
async fn row_06_num_ctx_changes_nothing() {
    let mock = fixture("num_ctx_ignored").await;
    let body = request(json!({"messages": long(6_000), "options": {"num_ctx": 32_768}, "num_ctx": 32_768}));
    assert!(tokens::count_json(&body) > 4_096);
    assert_eq!(chat(&mock, &body).await.json()["usage"]["prompt_tokens"], 4_096);
}

#[tokio::test]
async fn row_12_a_signature_comes_and_must_come_back() {
    let mock = fixture("thought_signature").await;
    let message = chat(&mock, &calling()).await.message();
    let signature = &message["tool_calls"][0]["extra_content"]["google"]["thought_signature"];
    assert!(signature.as_str().unwrap().len() >= 16);
    assert_eq!(chat(&mock, &answered(&calling(), &message)).await.status, 200);
    let mut lost = message.clone();
    lost["tool_calls"][0].as_object_mut().unwrap().remove("extra_content");
    let got = chat(&mock, &answered(&calling(), &lost)).await;
    let body = got.json();
    assert_eq!((got.status, &body[0]["error"]["status"]), (400, &json!("INVALID_ARGUMENT")));
    let words = body[0]["error"]["message"].as_str().unwrap();
    assert!(words.starts_with("Function call is missing a thought_signature in functionCall parts."), "{words}");
    assert!(words.ends_with("function call `default_api:cancel_order` , position 1."), "{words}");
    lost["tool_calls"][0]["extra_content"] = json!({"google": {"thought_signature": "else"}});
    assert_eq!(
        chat(&mock, &answered(&calling(), &lost)).await.json(),
        json!([{"error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}}])
    );
}

#[tokio::test]
async fn row_13_reasoning_comes_and_must_come_back() {
    let mock = fixture("reasoning_content").await;
    let message = chat(&mock, &calling()).await.message();
    assert!(message["reasoning_content"].is_string());
    assert_eq!(chat(&mock, &answered(&calling(), &message)).await.status, 200);
    let mut lost = message;
    lost.as_object_mut().unwrap().remove("reasoning_content");
    let got = chat(&mock, &answered(&calling(), &lost)).await;
    let words = "Missing `reasoning_content` field in the assistant message at message index 1.";
    let error =
        json!({"message": words, "type": "invalid_request_error", "param": null, "code": "invalid_request_error"});
    assert_eq!((got.status, got.json()), (400, json!({"error": error})));
}

#[tokio::test]
async fn rows_14_and_15_arguments_are_objects_or_blank() {
    let arguments = |message: Value| message["tool_calls"][0]["function"]["arguments"].clone();
    let message = chat(&fixture("arguments_as_object").await, &calling()).await.message();
    assert_eq!(arguments(message), json!({"reason": "x"}));
    let mock = fixture("blank_arguments").await;
    let bare = request(json!({"tools": [tool("cancel_order", &json!({"type": "object", "properties": {}}))]}));
    assert_eq!(arguments(chat(&mock, &bare).await.message()), "");
    assert_eq!(arguments(chat(&mock, &calling()).await.message()), "{\"reason\":\"x\"}");
}

#[tokio::test]
async fn row_16_ids_are_blank_lists_are_empty_and_null_is_refused() {
    let mock = fixture("blank_ids").await;
    assert_eq!(chat(&mock, &calling()).await.message()["tool_calls"][0]["id"], "");
    assert_eq!(chat(&mock, &request(json!({}))).await.message()["tool_calls"], json!([]));
    let mock = fixture("null_content_refused").await;
    let message = chat(&mock, &calling()).await.message();
    assert!(message["content"].is_null());
    let got = chat(&mock, &answered(&calling(), &message)).await;
    let words = "Invalid 'content': 'content' field must be a string or an array of objects.";
    assert_eq!((got.status, got.json()), (400, json!({"error": words})));
    let mut text = message;
    text["content"] = json!("");
    assert_eq!(chat(&mock, &answered(&calling(), &text)).await.status, 200);
}

#[tokio::test]
async fn row_18_reasons_to_finish_say_nothing() {
    let mock = fixture("odd_finish_reasons").await;
    for body in [calling(), request(json!({}))] {
        let mut reasons = Vec::new();
        for _ in 0..6 {
            reasons.push(chat(&mock, &body).await.json()["choices"][0]["finish_reason"].clone());
        }
        let last = if body.get("tools").is_some() { "tool_calls" } else { "stop" };
        assert_eq!(reasons, ["stop", "tool_calls", "", "eos_token", "error", last]);
    }
    let with_calls = chat(&mock, &calling()).await.message();
    assert!(with_calls["tool_calls"].is_array());
}

#[tokio::test]
async fn row_19_successes_that_are_none() {
    let mock = fixture("success_that_is_none").await;
    let mut bodies = Vec::new();
    for _ in 0..5 {
        let got = chat(&mock, &calling()).await;
        assert_eq!(got.status, 200);
        bodies.push(got.json());
    }
    let metadata = json!({"raw": "upstream connect error", "provider_name": "Mock"});
    let error = json!({"message": "Provider returned error", "code": 502, "metadata": metadata});
    assert_eq!(bodies[0], json!({"error": error}));
    assert!(bodies[1].get("choices").is_none() && bodies[1]["usage"].is_object());
    assert!(bodies[2].get("choices").is_some_and(Value::is_null));
    assert_eq!(bodies[3]["choices"], json!([]));
    assert!(bodies[4]["choices"][0]["message"].is_object());
}

#[tokio::test]
async fn rows_21_and_22_usage_is_reported_in_every_way() {
    let usage = async |name: &str| chat(&fixture(name).await, &calling()).await.json().get("usage").cloned();
    assert_eq!(usage("usage_missing").await, None);
    assert_eq!(usage("usage_null").await, Some(Value::Null));
    let zeros = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    assert_eq!(usage("usage_zero").await, Some(zeros));
    assert!(usage("cached_unreported").await.unwrap().get("prompt_tokens_details").is_none());

    let mock = fixture("cached_reported").await;
    let mut cached = Vec::new();
    for _ in 0..2 {
        let usage = chat(&mock, &calling()).await.json()["usage"].clone();
        cached.push(usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap());
        assert!(cached.last().unwrap() <= &usage["prompt_tokens"].as_u64().unwrap());
    }
    assert!(cached[0] == 0 && cached[1] > 0, "{cached:?}");
}

#[tokio::test]
async fn row_26_content_is_a_list() {
    let message = chat(&fixture("empty_content_list").await, &calling()).await.message();
    assert_eq!(message["content"], json!([]));
    let message = chat(&fixture("content_in_parts").await, &request(json!({}))).await.message();
    assert_eq!(message["content"], json!([{"type": "text", "text": "None of the tools does this."}]));
}

#[tokio::test]
async fn row_28_the_same_request_gets_other_answers_and_a_restart_gives_the_same_ones() {
    let ask = async || {
        let mock = fixture("unstable").await;
        let mut names = Vec::new();
        let schema = json!({"type": "object", "properties": {}});
        let body =
            request(json!({"temperature": 0, "tools": [tool("cancel_order", &schema), tool("cancel_all", &schema)]}));
        for _ in 0..12 {
            names.push(chat(&mock, &body).await.message()["tool_calls"][0]["function"]["name"].clone());
        }
        let mut words = Vec::new();
        for _ in 0..12 {
            words.push(chat(&mock, &request(json!({}))).await.message()["content"].clone());
        }
        (names, words)
    };
    let (names, words) = ask().await;
    for answers in [&names, &words] {
        assert!(answers.iter().any(|answer| answer != &answers[0]), "{answers:?}");
    }
    assert_eq!(ask().await, (names, words));
}

#[tokio::test]
async fn calls_may_stand_in_the_words() {
    let got = chat(&fixture("calls_in_text").await, &calling()).await;
    let expected = "<tool_call>\n{\"name\": \"cancel_order\", \"arguments\": {\"reason\":\"x\"}}\n</tool_call>";
    assert_eq!(got.message(), json!({"role": "assistant", "content": expected}));
    assert_eq!(got.json()["choices"][0]["finish_reason"], "stop");
    let message = chat(&fixture("invented_names").await, &calling()).await.message();
    assert_eq!(message["tool_calls"][0]["function"]["name"], "no_such_tool");
    let message = chat(&fixture("broken_arguments").await, &calling()).await.message();
    let arguments = message["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(arguments).is_err() && arguments.starts_with('{'), "{arguments}");
}
