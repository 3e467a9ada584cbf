//! A request against the standing rules of the server.

use std::collections::BTreeSet;

use harness::chat::Message;
use serde_json::Value;

use crate::asked::{ApiPath, Asked};
use crate::dialect::{Dialect, Overflow, Refuses, ToolNames, WantsBack, prompt_tokens};
use crate::refusal::Refusal;
use crate::schemas::first_fault;

/// Why the server refuses the request, if it does: the model first, then parameters, tools, messages, and the context last.
pub(crate) fn check(dialect: &Dialect, asked: &Asked<'_>) -> Result<(), Refusal> {
    let body = asked.body;
    let expected = match asked.path {
        ApiPath::Chat => body["messages"].as_array().is_some_and(|messages| !messages.is_empty()),
        ApiPath::Embeddings => body["input"].is_string() || body["input"].is_array(),
        ApiPath::Models => return Ok(()),
    };
    if !body.is_object() {
        return Err(Refusal::Unreadable("it is no JSON object".to_owned()));
    }
    if dialect.refuses(Refuses::UnknownModels) {
        known_model(dialect, body["model"].as_str().unwrap_or_default())?;
    }
    if !expected {
        let missing = if asked.path == ApiPath::Chat { "messages" } else { "input" };
        return Err(Refusal::Unreadable(format!("`{missing}` is missing or empty")));
    }
    if asked.path == ApiPath::Embeddings {
        return Ok(());
    }
    parameters(dialect, body)?;
    tools(dialect, body)?;
    messages(dialect, body)?;
    context(dialect, body)
}

pub(crate) fn known_model(dialect: &Dialect, model: &str) -> Result<(), Refusal> {
    if dialect.models.iter().any(|known| known == model) {
        Ok(())
    } else {
        Err(Refusal::UnknownModel(model.to_owned()))
    }
}

fn given<'a>(body: &'a Value, name: &str) -> Option<&'a Value> {
    body.get(name).filter(|value| !value.is_null())
}

fn parameters(dialect: &Dialect, body: &Value) -> Result<(), Refusal> {
    for (refuses, name, instead) in [
        (Refuses::MaxTokens, "max_tokens", "max_completion_tokens"),
        (Refuses::MaxCompletionTokens, "max_completion_tokens", "max_tokens"),
    ] {
        if dialect.refuses(refuses) && given(body, name).is_some() {
            return Err(Refusal::Parameter { name, instead });
        }
    }
    if dialect.refuses(Refuses::Temperature)
        && let Some(value) = given(body, "temperature").filter(|value| value.as_f64() != Some(1.0))
    {
        return Err(Refusal::Temperature(value.to_string()));
    }
    if dialect.refuses(Refuses::StreamOptions) && given(body, "stream_options").is_some() {
        return Err(Refusal::StreamOptions);
    }
    Ok(())
}

fn tools(dialect: &Dialect, body: &Value) -> Result<(), Refusal> {
    let tools = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(max) = dialect.max_tools.filter(|&max| tools.len() > max) {
        return Err(Refusal::TooManyTools { found: tools.len(), max });
    }
    if dialect.tool_names != ToolNames::Any || dialect.refuses(Refuses::DuplicateNames) {
        let mut seen = BTreeSet::new();
        for (index, tool) in tools.iter().enumerate() {
            let name = tool["function"]["name"].as_str().unwrap_or_default();
            if !dialect.tool_names.accepts(name) {
                let longest = dialect.tool_names.longest();
                return Err(Refusal::ToolName { index, length: name.chars().count(), longest });
            }
            if dialect.refuses(Refuses::DuplicateNames) && !seen.insert(name) {
                return Err(Refusal::DuplicateName(name.to_owned()));
            }
        }
    }
    if let Some(fault) = first_fault(body, &dialect.refuses_schemas) {
        return Err(Refusal::Schema(Box::new(fault)));
    }
    match dialect.max_tool_bytes {
        Some(most) if !tools.is_empty() && body["tools"].to_string().len() > most => Err(Refusal::ToolsTooBig),
        _ => Ok(()),
    }
}

fn messages(dialect: &Dialect, body: &Value) -> Result<(), Refusal> {
    for (index, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let text = Message(message.clone()).text().to_lowercase();
        if dialect.filtered_words.iter().any(|word| text.contains(&word.to_lowercase())) {
            return Err(Refusal::Filtered);
        }
        if message["role"] != "assistant" {
            continue;
        }
        if dialect.refuses(Refuses::NullContent) && message["content"].is_null() {
            return Err(Refusal::NullContent);
        }
        let Some(call) = message["tool_calls"].as_array().and_then(|calls| calls.first()) else { continue };
        if dialect.wants_back(WantsBack::ReasoningContent) && !message["reasoning_content"].is_string() {
            return Err(Refusal::NoReasoning(index));
        }
        if dialect.wants_back(WantsBack::ThoughtSignature) {
            signature_is_back(call, index)?;
        }
    }
    Ok(())
}

fn signature_is_back(call: &Value, index: usize) -> Result<(), Refusal> {
    let name = call["function"]["name"].as_str().unwrap_or_default();
    match call["extra_content"]["google"]["thought_signature"].as_str() {
        None => Err(Refusal::NoSignature { index, name: name.to_owned() }),
        Some(signature_back) if signature_back == signature(name) => Ok(()),
        Some(_) => Err(Refusal::WrongSignature),
    }
}

/// The signature that comes with a call of this tool. The id and the arguments stay out of it: clients have to supply ids, and
/// write arguments anew.
pub(crate) fn signature(name: &str) -> String {
    blake3::hash(format!("thought signature of {name}").as_bytes()).to_hex()[..32].to_owned()
}

fn context(dialect: &Dialect, body: &Value) -> Result<(), Refusal> {
    let Some(limit) = dialect.context_tokens.filter(|_| dialect.overflow == Overflow::Refuse) else { return Ok(()) };
    let prompt = prompt_tokens(body);
    let output = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body[*name].as_u64());
    if prompt.saturating_add(output.unwrap_or(0)) > limit {
        return Err(Refusal::Context { prompt, output, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(dialect: &Dialect, body: &Value) -> &'static str {
        let text = body.to_string();
        match check(dialect, &Asked::new(ApiPath::Chat, &text, body, 1)) {
            Ok(()) => "none",
            Err(refusal) => refusal.rule(),
        }
    }

    fn request(more: Value) -> Value {
        let mut body = json!({"model": "mock", "messages": [{"role": "user", "content": "hello"}]});
        let Value::Object(more) = more else { panic!("fields") };
        body.as_object_mut().unwrap().extend(more);
        body
    }

    #[test]
    fn the_default_dialect_takes_every_request_and_nothing_else() {
        let wild = json!({"temperature": 0, "max_tokens": 1, "tools": [{"function": {"name": "a b"}}, {}], "zzz": 1});
        assert_eq!(rule(&Dialect::default(), &request(wild)), "none");
        for body in [json!(null), json!([]), json!({"model": "mock"}), request(json!({"messages": []}))] {
            assert_eq!(rule(&Dialect::default(), &body), "body", "{body}");
        }
    }

    #[test]
    fn parameters_are_refused_where_they_are_given() {
        let dialect = |refuses| Dialect { refuses: vec![refuses], ..Dialect::default() };
        for (refuses, given, rule_name) in [
            (Refuses::MaxTokens, json!({"max_tokens": 5}), "max_tokens"),
            (Refuses::MaxCompletionTokens, json!({"max_completion_tokens": 5}), "max_completion_tokens"),
            (Refuses::Temperature, json!({"temperature": 0.0}), "temperature"),
            (Refuses::StreamOptions, json!({"stream_options": {}}), "stream_options"),
            (Refuses::UnknownModels, json!({"model": "other"}), "unknown_models"),
        ] {
            assert_eq!(rule(&dialect(refuses), &request(given)), rule_name);
            let harmless =
                json!({"max_tokens": null, "temperature": 1, "stream_options": null, "max_completion_tokens": null});
            assert_eq!(rule(&dialect(refuses), &request(harmless)), "none");
        }
    }

    #[test]
    fn tools_are_counted_named_and_measured() {
        let tools = |names: &[&str]| {
            let tools: Vec<_> = names.iter().map(|name| json!({"function": {"name": name}})).collect();
            request(json!({"tools": tools}))
        };
        let dialect = Dialect {
            max_tools: Some(3),
            max_tool_bytes: Some(70),
            tool_names: ToolNames::Plain64,
            refuses: vec![Refuses::DuplicateNames],
            ..Dialect::default()
        };
        assert_eq!(rule(&dialect, &tools(&["a", "b"])), "none");
        assert_eq!(rule(&dialect, &tools(&["a", "b", "c", "d"])), "max_tools");
        assert_eq!(rule(&dialect, &tools(&["a", "b", "c"])), "max_tool_bytes");
        assert_eq!(rule(&dialect, &tools(&["a", "b.c"])), "tool_names");
        assert_eq!(rule(&dialect, &tools(&["a", "a"])), "duplicate_names");
    }

    #[test]
    fn what_was_given_must_come_back() {
        let dialect = Dialect {
            wants_back: vec![WantsBack::ReasoningContent, WantsBack::ThoughtSignature],
            refuses: vec![Refuses::NullContent],
            ..Dialect::default()
        };
        let with = |message: Value| request(json!({"messages": [{"role": "user", "content": "a"}, message]}));
        let call = |signature: &str| json!({"function": {"name": "f"}, "extra_content": {"google": {"thought_signature": signature}}});
        let message = |reasoning: Value, call: Value| {
            with(json!({"role": "assistant", "content": "", "reasoning_content": reasoning, "tool_calls": [call]}))
        };
        let good = signature("f");
        assert_eq!(rule(&dialect, &message(json!("hm"), call(&good))), "none");
        assert_eq!(rule(&dialect, &message(json!(null), call(&good))), "reasoning_content");
        assert_eq!(rule(&dialect, &message(json!("hm"), call("else"))), "thought_signature");
        assert_eq!(rule(&dialect, &message(json!("hm"), json!({"function": {"name": "f"}}))), "thought_signature");
        assert_eq!(rule(&dialect, &with(json!({"role": "assistant", "content": "words"}))), "none");
        assert_eq!(rule(&dialect, &with(json!({"role": "assistant", "content": null}))), "null_content");
        assert_eq!(rule(&dialect, &with(json!({"role": "user", "content": null}))), "none");
    }

    #[test]
    fn filters_read_texts_and_parts_and_contexts_are_counted() {
        let dialect = Dialect { filtered_words: vec!["Bomb".to_owned()], ..Dialect::default() };
        let parts = json!([{"type": "text", "text": "a BOMB"}]);
        assert_eq!(
            rule(&dialect, &request(json!({"messages": [{"role": "user", "content": parts}]}))),
            "filtered_words"
        );
        assert_eq!(rule(&dialect, &request(json!({"user": "bomb"}))), "none", "only messages are read");
        let dialect = Dialect { context_tokens: Some(100), ..Dialect::default() };
        assert_eq!(rule(&dialect, &request(json!({"max_tokens": 10}))), "none");
        assert_eq!(rule(&dialect, &request(json!({"max_tokens": 99}))), "context_tokens");
        let dialect = Dialect { overflow: Overflow::Truncate, ..dialect };
        assert_eq!(rule(&dialect, &request(json!({"max_tokens": 99}))), "none");
    }
}
