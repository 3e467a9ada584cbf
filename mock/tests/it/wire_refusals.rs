//! What the fixtures of the rows put on the wire: refusals, word for word.

use harness::tokens;
use mock::Mock;
use serde_json::{Value, json};

use crate::support::{calling, chat, fixture, request, tool, tools};

/// The request is refused with a 400 and this body.
async fn refused(mock: &Mock, body: &Value, expected: &Value) {
    let got = chat(mock, body).await;
    assert_eq!((got.status, &got.json()), (400, expected));
}

fn error(message: &str, param: Option<&str>, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}})
}

fn numbered(message: &str) -> Value {
    json!({"error": {"code": 400, "message": message, "type": "invalid_request_error"}})
}

fn google(message: &str) -> Value {
    json!([{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}])
}

fn with_tool(name: &str, parameters: &Value) -> Value {
    request(json!({"tools": [tool(name, parameters)]}))
}

fn with_property(schema: &Value) -> Value {
    with_tool("cancel_order", &json!({"type": "object", "properties": {"reason": schema}}))
}

#[tokio::test]
async fn row_01_a_tool_too_many() {
    let mock = fixture("too_many_tools").await;
    let offer = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| format!("tool_{n}")).collect();
        request(json!({"tools": tools(names.iter().map(String::as_str))}))
    };
    assert_eq!(chat(&mock, &offer(128)).await.status, 200);
    let message = "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length \
                   129 instead.";
    refused(&mock, &offer(129), &error(message, Some("tools"), Some("array_above_max_length"))).await;
}

#[tokio::test]
async fn row_02_too_much_in_all_tools_together() {
    let mock = fixture("tool_json_too_big").await;
    let offer = |length: usize| {
        let mut tool = tool("cancel_order", &json!({"type": "object", "properties": {}}));
        tool["function"]["description"] = json!("x".repeat(length));
        request(json!({"tools": [tool]}))
    };
    assert_eq!(chat(&mock, &offer(60_000)).await.status, 200);
    refused(&mock, &offer(70_000), &numbered("Failed to initialize samplers: failed to parse grammar")).await;
}

#[tokio::test]
async fn row_03_one_odd_pattern() {
    let mock = fixture("bad_pattern").await;
    let pattern = |pattern: &str| {
        let mut body = with_property(&json!({"type": "string", "pattern": pattern}));
        body["tools"].as_array_mut().unwrap().push(tool("fine", &json!({"type": "object", "properties": {}})));
        body
    };
    assert_eq!(chat(&mock, &pattern("^[a-z]+$")).await.status, 200);
    let grammar = numbered("Failed to initialize samplers: failed to parse grammar");
    for odd in [r"^(?!\.)[a-z]+$", r"^\d{4}$", "^[a-z]{1,5000}$"] {
        refused(&mock, &pattern(odd), &grammar).await;
    }
    let anchors = numbered("JSON schema conversion failed:\nPattern must start with '^' and end with '$'");
    refused(&mock, &pattern("[a-z]+"), &anchors).await;

    let mock = fixture("bad_pattern_named").await;
    let message = "Invalid JSON schema: regex lookaround is not supported. Found at $.properties.reason.pattern.";
    refused(&mock, &pattern("^(?=a)$"), &error(message, None, Some("invalid_function_parameters"))).await;
    assert_eq!(chat(&mock, &pattern(r"\d")).await.status, 200);
}

#[tokio::test]
async fn row_07_an_overflow_speaks_of_max_tokens() {
    let mock = fixture("overflow_as_max_tokens").await;
    let body = request(json!({"messages": [{"role": "user", "content": "word ".repeat(2_000)}]}));
    let left = 1_024 - i64::try_from(tokens::count_json(&body)).unwrap();
    assert!(left < -900);
    let message = format!("max_tokens must be at least 1, got {left}.");
    let vllm = |message: &str, param: Value| json!({"error": {"message": message, "type": "BadRequestError", "param": param, "code": 400}});
    refused(&mock, &body, &vllm(&message, Value::Null)).await;
    let mut limited = calling();
    limited["max_tokens"] = json!(2_000);
    let prompt = tokens::count_json(&limited);
    let message = format!(
        "This model's maximum context length is 1024 tokens. However, you requested {} tokens ({prompt} in the messages, 2000 \
         in the completion). Please reduce the length.",
        prompt + 2_000
    );
    refused(&mock, &limited, &vllm(&message, json!("messages"))).await;
    assert_eq!(chat(&mock, &calling()).await.status, 200);
}

#[tokio::test]
async fn row_08_names_of_tools() {
    let schema = json!({"type": "object", "properties": {}});
    let (long, longer) = ("n".repeat(65), "n".repeat(129));
    let pattern = error(
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern \
         '^[a-zA-Z0-9_-]+$'.",
        Some("tools[0].function.name"),
        Some("invalid_value"),
    );
    let length = |longest: usize| {
        let message = format!(
            "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length {longest}, but got a \
             string with length {} instead.",
            longest + 1
        );
        error(&message, Some("tools[0].function.name"), Some("string_above_max_length"))
    };
    let mock = fixture("names_64").await;
    for name in ["cancel.order", "cancel order", "cancel/order", "größe"] {
        refused(&mock, &with_tool(name, &schema), &pattern).await;
    }
    refused(&mock, &with_tool(&long, &schema), &length(64)).await;
    assert_eq!(chat(&mock, &with_tool("2-cancel_order", &schema)).await.status, 200);

    let mock = fixture("names_128").await;
    assert_eq!(chat(&mock, &with_tool(&long, &schema)).await.status, 200);
    refused(&mock, &with_tool(&longer, &schema), &length(128)).await;
    refused(&mock, &with_tool("cancel.order", &schema), &pattern).await;

    let mock = fixture("names_letter_first").await;
    assert_eq!(chat(&mock, &with_tool("cancel.order", &schema)).await.status, 200);
    let message = "The GenerateContentRequest proto is invalid:\n  * tools[0].function_declarations[0].name: [FIELD_INVALID] \
                   Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain \
                   underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.";
    for name in ["2cancel", "-cancel", "cancel order"] {
        refused(&mock, &with_tool(name, &schema), &google(message)).await;
    }
}

#[tokio::test]
async fn row_09_two_tools_of_one_name() {
    let mock = fixture("unique_names").await;
    let twice = request(json!({"tools": tools(["solve_x", "solve_x"])}));
    let message = "tools: Tool names must be unique, `solve_x` comes twice.";
    refused(&mock, &twice, &error(message, Some("tools"), None)).await;
    let message = "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern \
                   '^[a-zA-Z0-9_-]+$'.";
    let dotted = request(json!({"tools": tools(["solve.x", "solve_x"])}));
    refused(&mock, &dotted, &error(message, Some("tools[0].function.name"), Some("invalid_value"))).await;
}

#[tokio::test]
async fn row_10_schemas_that_are_too_loose() {
    let mock = fixture("strict_schemas").await;
    let invalid = |why: &str| {
        let message = format!("Invalid schema for function 'cancel_order': {why}");
        error(&message, Some("tools[0].function.parameters"), Some("invalid_function_parameters"))
    };
    let root = "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.";
    for union in ["oneOf", "anyOf", "allOf"] {
        let body = with_tool("cancel_order", &json!({"type": "object", "properties": {}, union: []}));
        refused(&mock, &body, &invalid(root)).await;
    }
    let bare = with_tool("cancel_order", &json!({"type": "object"}));
    refused(&mock, &bare, &invalid("In context=(), object schema missing properties.")).await;
    let array = with_property(&json!({"type": "array"}));
    refused(&mock, &array, &invalid("In context=('properties', 'reason'), array schema missing items.")).await;
    let fine = with_property(&json!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}));
    assert_eq!(chat(&mock, &fine).await.status, 200);
}

#[tokio::test]
async fn row_11_schemas_without_types() {
    let mock = fixture("typed_schemas").await;
    let place = "tools[0].function_declarations[0].parameters.properties[reason].value";
    let options = with_property(&json!({"type": "integer", "enum": [1, 2]}));
    refused(&mock, &options, &google(&format!("Invalid value at '{place}.enum[0]' (TYPE_STRING), 1"))).await;
    let branches = with_property(&json!({"anyOf": [{"type": "string"}, {"description": "anything"}]}));
    let kind = "type.googleapis.com/google.ai.generativelanguage.v1beta.Type";
    refused(&mock, &branches, &google(&format!("Invalid value at '{place}.any_of[1].type' ({kind}), \"\""))).await;
    let fine = with_property(&json!({"anyOf": [{"type": "string", "enum": ["1"]}, {"type": "null"}]}));
    assert_eq!(chat(&mock, &fine).await.status, 200);
}

#[tokio::test]
async fn row_20_parameters_of_other_models() {
    let mock = fixture("max_completion_tokens").await;
    let message =
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let both = request(json!({"max_tokens": 5, "temperature": 0.0}));
    refused(&mock, &both, &error(message, Some("max_tokens"), Some("unsupported_parameter"))).await;
    let message = "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is \
                   supported.";
    let cold = request(json!({"max_completion_tokens": 5, "temperature": 0.0}));
    refused(&mock, &cold, &error(message, Some("temperature"), Some("unsupported_value"))).await;
    assert_eq!(chat(&mock, &request(json!({"max_completion_tokens": 5}))).await.status, 200);
}

#[tokio::test]
async fn row_21_streams_that_ask_for_usage() {
    let mock = fixture("stream_options_refused").await;
    let asks = request(json!({"stream": true, "stream_options": {"include_usage": true}}));
    let message = "Extra inputs are not permitted, field: 'stream_options'";
    refused(&mock, &asks, &error(message, Some("stream_options"), None)).await;
    assert_eq!(chat(&mock, &request(json!({"stream": true}))).await.status, 200);
}

#[tokio::test]
async fn row_24_filtered_words() {
    let mock = fixture("content_filter").await;
    let body = request(json!({"messages": [{"role": "user", "content": "something Forbidden"}]}));
    let got = chat(&mock, &body).await;
    let error = &got.json()["error"];
    assert_eq!((got.status, &error["code"], &error["param"]), (400, &json!("content_filter"), &json!("prompt")));
    assert!(error["type"].is_null());
    assert_eq!(error["innererror"]["code"], "ResponsibleAIPolicyViolation");
    assert!(error["message"].as_str().unwrap().contains("content management policy"));
    assert_eq!(chat(&mock, &calling()).await.status, 200);
}

#[tokio::test]
async fn row_25_what_the_model_wrote_is_refused() {
    let mock = fixture("wrong_calls_refused").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let got = chat(&mock, &calling()).await;
        let error = got.json()["error"].clone();
        seen.push((got.status, error["code"].clone(), error["message"].clone(), error["failed_generation"].clone()));
    }
    let failed = |message: &str, generation: &str| (400, json!("tool_use_failed"), json!(message), json!(generation));
    assert_eq!(
        seen[0],
        failed(
            "Tool call validation failed: tool call validation failed: attempted to call tool 'no_such_tool' which was not in \
             request.tools",
            "<function=no_such_tool>{\"reason\":\"x\"}</function>"
        )
    );
    let adjust = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.";
    assert_eq!(seen[1], failed(adjust, "<function=cancel_order>{\"reaso</function>"));
    let message = seen[2].2.as_str().unwrap();
    let start = "tool call validation failed: parameters for tool cancel_order did not match schema: errors: [`";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(seen[3].0, 200);
}

#[tokio::test]
async fn row_29_quotas_of_the_day() {
    let mock = fixture("daily_quota").await;
    for _ in 0..3 {
        let got = chat(&mock, &calling()).await;
        let error = &got.json()["error"];
        assert_eq!((got.status, got.header("retry-after")), (429, Some("86400")));
        assert_eq!((&error["type"], &error["code"]), (&json!("requests"), &json!("rate_limit_exceeded")));
        assert!(error["message"].as_str().unwrap().contains("requests per day (RPD)"));
    }
    let got = chat(&fixture("daily_quota_in_details").await, &calling()).await;
    let error = &got.json()[0]["error"];
    assert_eq!((got.status, &error["status"], got.header("retry-after")), (429, &json!("RESOURCE_EXHAUSTED"), None));
    let violation = &error["details"][0]["violations"][0];
    assert_eq!(violation["quotaId"], "GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let got = chat(&fixture("spent_quota").await, &calling()).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (429, &json!("insufficient_quota")));
}

#[tokio::test]
async fn contexts_are_refused_in_the_words_of_two_servers() {
    let body = request(json!({"messages": [{"role": "user", "content": "word ".repeat(2_000)}]}));
    let prompt = tokens::count_json(&body);
    let got = chat(&fixture("context_refused").await, &body).await.json();
    assert_eq!(
        (&got["error"]["code"], &got["error"]["param"]),
        (&json!("context_length_exceeded"), &json!("messages"))
    );
    let message = format!("request ({prompt} tokens) exceeds the available context size (1024 tokens)");
    let expected = json!({"error": {"code": 400, "message": message, "type": "exceed_context_size_error",
                                    "n_prompt_tokens": prompt, "n_ctx": 1_024}});
    refused(&fixture("context_refused_by_number").await, &body, &expected).await;
}
