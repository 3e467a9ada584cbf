//! A good answer in the dress of the server.

use harness::endpoint::{Behaviour, Scripted, Transport};
use serde_json::{Value, json};

use crate::asked::Asked;
use crate::dialect::{Dialect, Overflow, Refuses, WantsBack};
use crate::refusal::Refusal;
use crate::rules::signature;
use crate::shape::{ArgumentStyle, CallStyle, Choices, ContentStyle, IdStyle, Shape, UsageStyle};
use crate::truncate::truncated;

const REASONING: &str = "The user wants something done, and one of the tools may do it.";
/// As caches count in blocks.
const CACHE_BLOCK: u64 = 16;

/// What the model says, and what the server made of the request that it did not say.
pub(crate) struct Answer {
    pub(crate) body: Value,
    /// Standing rules that changed what was asked or answered.
    pub(crate) rules: Vec<&'static str>,
}

/// Asks the model.
pub(crate) async fn chat(
    behaviour: Behaviour,
    dialect: &Dialect,
    shape: &Shape,
    seed: u64,
    asked: &Asked<'_>,
) -> Result<Answer, Refusal> {
    let mut rules = Vec::new();
    let mut read = asked.body.clone();
    // How many tokens are left of a prompt that was cut: as many as the context holds.
    let mut left = None;
    if dialect.overflow == Overflow::Truncate
        && let Some(limit) = dialect.context_tokens
        && let Some(rest) = truncated(&read, limit)
    {
        rules.push("truncated");
        left = Some(limit);
        read = rest;
    }
    if shape.follows_schema == Some(false) && take(&mut read, "response_format") {
        rules.push("schema_passed_over");
    }
    let mut body = model(behaviour, &read, asked).await;
    if asked.draw(seed, "unstable") < dialect.unstable {
        rules.push("unstable");
        body = another(behaviour, &read, body, asked).await;
    }
    body["id"] = json!(format!("chatcmpl-{}", asked.name()));
    let message = &mut body["choices"][0]["message"];
    write_calls(message, shape);
    if dialect.refuses(Refuses::WrongCalls)
        && let Some(refusal) = wrong_call(message, &asked.body["tools"])
    {
        return Err(refusal);
    }
    give_for_echo(message, dialect);
    write_message(message, shape);
    write_around(&mut body, shape, asked, left);
    Ok(Answer { body, rules })
}

/// Embeddings, whose usage is all that servers differ in.
pub(crate) async fn embeddings(behaviour: Behaviour, shape: &Shape, asked: &Asked<'_>) -> Value {
    let mut body = model(behaviour, asked.body, asked).await;
    write_usage(&mut body, shape);
    body
}

async fn model(behaviour: Behaviour, body: &Value, asked: &Asked<'_>) -> Value {
    let route = asked.path.route().expect("only what a model answers gets here");
    let response = Scripted::new(behaviour).post(route, body).await.expect("a behaviour always answers");
    serde_json::from_str(&response.body).expect("a scripted answer is JSON")
}

/// What else the model may say to the same: another tool if there is one, other words if not.
async fn another(behaviour: Behaviour, read: &Value, mut body: Value, asked: &Asked<'_>) -> Value {
    let called = body["choices"][0]["message"]["tool_calls"][0]["function"]["name"].clone();
    if called.is_string() {
        let mut without = read.clone();
        if let Some(tools) = without.get_mut("tools").and_then(Value::as_array_mut) {
            tools.retain(|tool| tool["function"]["name"] != called);
        }
        return model(behaviour, &without, asked).await;
    }
    let content = &mut body["choices"][0]["message"]["content"];
    *content = json!(format!("{} Or so it seems.", content.as_str().unwrap_or_default()));
    body
}

/// Names, arguments, ids, and whether there are calls at all.
fn write_calls(message: &mut Value, shape: &Shape) {
    let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) else { return };
    for call in calls.iter_mut() {
        if shape.calls == Some(CallStyle::Invented) {
            call["function"]["name"] = json!("no_such_tool");
        }
        let text = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
        call["function"]["arguments"] = match shape.arguments.unwrap_or_default() {
            ArgumentStyle::Text => json!(text),
            ArgumentStyle::Object => serde_json::from_str(&text).unwrap_or(Value::Null),
            ArgumentStyle::Blank => json!(if text == "{}" { "" } else { &text }),
            ArgumentStyle::Broken => json!(text.chars().take(text.chars().count() / 2).collect::<String>()),
            ArgumentStyle::Unfit => json!(r#"{"no_such_parameter":[]}"#),
        };
        match shape.ids.unwrap_or_default() {
            IdStyle::Unique => {}
            IdStyle::Blank => call["id"] = json!(""),
            IdStyle::Missing => {
                take(call, "id");
            }
        }
    }
    if shape.calls == Some(CallStyle::Text) {
        let written: Vec<_> = calls.iter().map(in_words).collect();
        message["content"] = json!(written.join("\n"));
        take(message, "tool_calls");
    }
}

fn in_words(call: &Value) -> String {
    let function = &call["function"];
    let arguments = function["arguments"].as_str().map_or_else(|| function["arguments"].to_string(), str::to_owned);
    format!("<tool_call>\n{{\"name\": {}, \"arguments\": {arguments}}}\n</tool_call>", function["name"])
}

/// What a server says that checks calls itself.
fn wrong_call(message: &Value, tools: &Value) -> Option<Refusal> {
    message["tool_calls"].as_array()?.iter().find_map(|call| {
        let name = call["function"]["name"].as_str().unwrap_or_default();
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let why = call_fault(name, arguments, tools)?;
        Some(Refusal::WrongCall { why, generation: format!("<function={name}>{arguments}</function>") })
    })
}

fn call_fault(name: &str, arguments: &str, tools: &Value) -> Option<String> {
    let tools = tools.as_array().map_or(&[][..], Vec::as_slice);
    let Some(tool) = tools.iter().find(|tool| tool["function"]["name"] == name) else {
        let why = format!("attempted to call tool '{name}' which was not in request.tools");
        return Some(format!("Tool call validation failed: tool call validation failed: {why}"));
    };
    let Ok(arguments) = serde_json::from_str::<Value>(arguments) else {
        return Some(
            "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
                .to_owned(),
        );
    };
    let validator = jsonschema::validator_for(&tool["function"]["parameters"]).ok()?;
    let errors = validator.iter_errors(&arguments).map(|error| format!("`{}`: {error}", error.instance_path()));
    // The first by its words: they come in no order that could be relied on.
    let error = errors.min()?;
    Some(format!("tool call validation failed: parameters for tool {name} did not match schema: errors: [{error}]"))
}

fn give_for_echo(message: &mut Value, dialect: &Dialect) {
    if dialect.wants_back(WantsBack::ReasoningContent) {
        message["reasoning_content"] = json!(REASONING);
    }
    if dialect.wants_back(WantsBack::ThoughtSignature)
        && let Some(call) =
            message.get_mut("tool_calls").and_then(Value::as_array_mut).and_then(|calls| calls.first_mut())
    {
        let signature = signature(call["function"]["name"].as_str().unwrap_or_default());
        call["extra_content"] = json!({"google": {"thought_signature": signature}});
    }
}

/// Content and the empty list of calls.
fn write_message(message: &mut Value, shape: &Shape) {
    let style = shape.content.unwrap_or_default();
    let text = message["content"].as_str().map(str::to_owned);
    match (text, style) {
        (Some(text), ContentStyle::Parts) => message["content"] = json!([{"type": "text", "text": text}]),
        (None, ContentStyle::EmptyList) => message["content"] = json!([]),
        (None, ContentStyle::Blank) => message["content"] = json!(""),
        (None, ContentStyle::Missing) => {
            take(message, "content");
        }
        _ => {}
    }
    if shape.empty_calls == Some(true) && message.get("tool_calls").is_none() {
        message["tool_calls"] = json!([]);
    }
}

/// Removes a field; whether it was there.
fn take(value: &mut Value, field: &str) -> bool {
    value.as_object_mut().is_some_and(|fields| fields.shift_remove(field).is_some())
}

/// Why it ended, what it cost, and whether it is there.
fn write_around(body: &mut Value, shape: &Shape, asked: &Asked<'_>, left: Option<u64>) {
    let called = body["choices"][0]["message"]["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
    let reason = shape.finish_reason.as_deref().unwrap_or(if called { "tool_calls" } else { "stop" });
    body["choices"][0]["finish_reason"] = json!(reason);
    let prompt = left.or(body["usage"]["prompt_tokens"].as_u64()).unwrap_or(0);
    let output = body["usage"]["completion_tokens"].as_u64().unwrap_or(0);
    body["usage"]["prompt_tokens"] = json!(prompt);
    body["usage"]["total_tokens"] = json!(prompt + output);
    if shape.cached_tokens == Some(true) {
        let cached = if asked.attempt > 1 { prompt / CACHE_BLOCK * CACHE_BLOCK } else { 0 };
        body["usage"]["prompt_tokens_details"] = json!({"cached_tokens": cached});
    }
    write_usage(body, shape);
    match shape.choices.unwrap_or_default() {
        Choices::Given => {}
        Choices::Null => body["choices"] = Value::Null,
        Choices::Empty => body["choices"] = json!([]),
        Choices::Missing => {
            take(body, "choices");
        }
    }
}

fn write_usage(body: &mut Value, shape: &Shape) {
    match shape.usage.unwrap_or_default() {
        UsageStyle::Counted => {}
        UsageStyle::Null => body["usage"] = Value::Null,
        UsageStyle::Zero => {
            body["usage"] = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
        }
        UsageStyle::Missing => {
            take(body, "usage");
        }
    }
}
