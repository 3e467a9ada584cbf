//! What goes to an OpenAI-compatible endpoint and what comes back, leniently read.
//!
//! Messages stay JSON values: an assistant's message is echoed word for word with every field we do not know, because
//! some endpoints refuse a conversation whose `reasoning_content` or `thought_signature` went missing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::usage::Usage;

/// One message of a conversation, as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(pub Value);

impl Message {
    pub fn system(text: &str) -> Self {
        Self(json!({"role": "system", "content": text}))
    }

    pub fn user(text: &str) -> Self {
        Self(json!({"role": "user", "content": text}))
    }

    /// The answer to one tool call.
    pub fn tool(call_id: &str, text: &str) -> Self {
        Self(json!({"role": "tool", "tool_call_id": call_id, "content": text}))
    }

    pub fn role(&self) -> &str {
        self.0["role"].as_str().unwrap_or_default()
    }

    /// The text of the content, whether it is a string or a list of parts.
    pub fn text(&self) -> String {
        content_text(&self.0["content"]).unwrap_or_default()
    }
}

/// A function as offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDef {
    /// The name on the wire, see `alias`.
    pub name: String,
    pub description: String,
    /// JSON Schema.
    pub parameters: Value,
}

impl Serialize for ToolDef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            r#type: &'a str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a Value,
        }
        let Self { name, description, parameters } = self;
        Wire { r#type: "function", function: Function { name, description, parameters } }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolDef {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            function: Function,
        }
        #[derive(Deserialize)]
        struct Function {
            name: String,
            #[serde(default)]
            description: String,
            #[serde(default)]
            parameters: Value,
        }
        let Function { name, description, parameters } = Wire::deserialize(deserializer)?.function;
        Ok(Self { name, description, parameters })
    }
}

/// A chat completion request: the body, field for field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    pub model: String,
    pub messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<ToolDef>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// An embeddings request: the body, field for field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmbedRequest {
    pub model: String,
    pub input: Vec<String>,
}

/// A tool call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    /// The name on the wire.
    pub name: String,
    /// Raw JSON text; may be no JSON at all.
    pub arguments: String,
}

/// A chat completion, decided by its content: `finish_reason` is kept as sent and never trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatReply {
    /// The assistant's message to echo: verbatim except for ids and argument strings that had to be supplied.
    pub message: Message,
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub finish_reason: Option<String>,
    /// `None` if the server reported none; never zero for missing.
    pub usage: Option<Usage>,
    /// The model that the server says answered.
    pub model: Option<String>,
}

/// A 200 answer that is no chat completion.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// The body carries an error object in spite of its status.
    #[error("the body reports an error: {message}")]
    ErrorBody { message: String, code: Option<u16> },
    #[error("the body has no `choices`")]
    NoChoices,
    #[error("the first choice has no `message` object")]
    NoMessage,
}

impl ChatReply {
    /// Reads a body leniently: content may be a string, a list of parts or null; arguments a string, an object or absent;
    /// ids blank; an empty list of calls is no call.
    pub fn parse(body: &Value) -> Result<Self, ReplyError> {
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            return Err(ReplyError::ErrorBody { message: error_message(error), code: error_code(error) });
        }
        let choice = body["choices"].as_array().and_then(|choices| choices.first()).ok_or(ReplyError::NoChoices)?;
        let mut message = choice.get("message").filter(|m| m.is_object()).cloned().ok_or(ReplyError::NoMessage)?;
        if message["role"].as_str().is_none() {
            message["role"] = json!("assistant");
        }
        let mut calls = Vec::new();
        if let Some(wire_calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
            // Whatever is no object is no call, and nothing could be echoed of it.
            wire_calls.retain(Value::is_object);
            for (index, call) in wire_calls.iter_mut().enumerate() {
                if call["id"].as_str().is_none_or(str::is_empty) {
                    call["id"] = json!(format!("call_{index}"));
                }
                let arguments = match &call["function"]["arguments"] {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                let name = call["function"]["name"].as_str().unwrap_or_default().to_owned();
                if call["function"].is_object() {
                    call["function"]["arguments"] = json!(arguments);
                }
                calls.push(ToolCall { id: call["id"].as_str().unwrap_or_default().to_owned(), name, arguments });
            }
        }
        if calls.is_empty()
            && let Some(object) = message.as_object_mut()
        {
            object.remove("tool_calls");
        }
        Ok(Self {
            text: content_text(&message["content"]).unwrap_or_default(),
            message: Message(message),
            calls,
            finish_reason: choice["finish_reason"].as_str().map(str::to_owned),
            usage: Usage::parse(&body["usage"]),
            model: body["model"].as_str().map(str::to_owned),
        })
    }

    /// The generation was cut at the output limit.
    pub fn cut_short(&self) -> bool {
        self.finish_reason.as_deref() == Some("length")
    }

    pub fn filtered(&self) -> bool {
        self.finish_reason.as_deref() == Some("content_filter")
    }
}

fn content_text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => None,
    }
}

/// The words of an error, in any of the forms that servers use.
pub fn error_message(error: &Value) -> String {
    match error {
        Value::String(text) => text.clone(),
        Value::Array(errors) => errors.first().map(error_message).unwrap_or_default(),
        Value::Object(fields) => match fields.get("error").or_else(|| fields.get("message")) {
            Some(inner) => error_message(inner),
            None => error.to_string(),
        },
        other => other.to_string(),
    }
}

/// The numeric code of an error object, whether it came as a number or as digits.
fn error_code(error: &Value) -> Option<u16> {
    let code = &error["code"];
    code.as_u64().and_then(|code| code.try_into().ok()).or_else(|| code.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(message: &Value) -> ChatReply {
        ChatReply::parse(&json!({"choices": [{"message": message, "finish_reason": "stop"}]})).unwrap()
    }

    #[test]
    fn unknown_fields_are_echoed() {
        let message = json!({"role": "assistant", "content": null, "reasoning_content": "hm", "x": {"sig": 1},
            "tool_calls": [{"id": "a", "type": "function", "extra_content": {"t": "s"},
                            "function": {"name": "f", "arguments": "{}"}}]});
        assert_eq!(reply(&message).message.0, message);
    }

    #[test]
    fn odd_calls_are_read() {
        let message = json!({"tool_calls": [
            {"id": "", "function": {"name": "f", "arguments": {"a": 1}}},
            {"function": {"name": "g"}},
        ]});
        let reply = reply(&message);
        let calls: Vec<_> =
            reply.calls.iter().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect();
        assert_eq!(calls, [("call_0", "f", r#"{"a":1}"#), ("call_1", "g", "")]);
        assert_eq!(reply.message.0["tool_calls"][0]["function"]["arguments"], json!(r#"{"a":1}"#));
        assert_eq!(reply.message.role(), "assistant");
    }

    #[test]
    fn an_empty_list_of_calls_is_no_call_and_parts_are_text() {
        let reply = reply(&json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}], "tool_calls": []}));
        assert!(reply.calls.is_empty());
        assert_eq!(reply.text, "ab");
        assert!(reply.message.0.get("tool_calls").is_none());
    }

    #[test]
    fn bodies_that_are_no_completion_are_refused() {
        let parse = |body: Value| ChatReply::parse(&body).unwrap_err().to_string();
        assert_eq!(parse(json!({})), "the body has no `choices`");
        assert_eq!(parse(json!({"choices": []})), "the body has no `choices`");
        assert_eq!(parse(json!({"choices": [{}]})), "the first choice has no `message` object");
        assert_eq!(parse(json!({"error": {"message": "no", "code": "429"}})), "the body reports an error: no");
    }

    #[test]
    fn tool_definitions_round_trip() {
        let def = ToolDef { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) };
        let wire = serde_json::to_value(&def).unwrap();
        assert_eq!(wire["function"]["name"], "f");
        assert_eq!(serde_json::from_value::<ToolDef>(wire).unwrap(), def);
    }
}
