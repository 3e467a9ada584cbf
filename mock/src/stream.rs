//! An answer as a stream of server-sent events.

use serde_json::{Value, json};

use crate::shape::{Shape, StreamCalls, StreamNames};

/// Characters of arguments in one chunk.
const PIECE: usize = 8;
const DONE: &str = "data: [DONE]\n\n";

/// The events of a whole answer. `wants_usage`: the client asked for it, which puts `usage: null` into every other chunk.
pub(crate) fn events(body: &Value, shape: &Shape, wants_usage: bool) -> Vec<String> {
    let frame = Frame { body, wants_usage };
    let mut chunks = Vec::new();
    if shape.filter_chunks == Some(true) {
        chunks.push(filter_start());
    }
    match body["choices"][0].as_object() {
        Some(choice) => {
            let message = &choice["message"];
            let deltas =
                [opening(message)].into_iter().chain(texts(message)).chain(calls(&message["tool_calls"], shape));
            chunks.extend(deltas.map(|delta| frame.choice(&delta, &Value::Null)));
            chunks.push(frame.choice(&json!({}), &choice["finish_reason"]));
        }
        // An answer without choices is one without anything.
        None => chunks.push(frame.chunk(body.get("choices").cloned())),
    }
    if shape.filter_chunks == Some(true) {
        chunks.push(filter_end());
    }
    if wants_usage && let Some(usage) = body.get("usage") {
        let mut last = frame.chunk(Some(json!([])));
        last["usage"] = usage.clone();
        chunks.push(last);
    }
    let mut events: Vec<_> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    if shape.stream_done != Some(false) {
        events.push(DONE.to_owned());
    }
    events
}

struct Frame<'a> {
    body: &'a Value,
    wants_usage: bool,
}

impl Frame<'_> {
    fn chunk(&self, choices: Option<Value>) -> Value {
        let mut chunk = json!({
            "id": self.body["id"],
            "object": "chat.completion.chunk",
            "created": self.body["created"],
            "model": self.body["model"],
        });
        if let Some(choices) = choices {
            chunk["choices"] = choices;
        }
        if self.wants_usage && self.body.get("usage").is_some() {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn choice(&self, delta: &Value, finish_reason: &Value) -> Value {
        self.chunk(Some(json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}])))
    }
}

fn opening(message: &Value) -> Value {
    let content = if message["content"].is_null() { Value::Null } else { json!("") };
    json!({"role": "assistant", "content": content})
}

/// Reasoning and content, word by word.
fn texts(message: &Value) -> Vec<Value> {
    let content = match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    };
    let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
    let words = |field: &'static str, text: &str| -> Vec<Value> {
        text.split_inclusive(' ').map(|word| json!({field: word})).collect()
    };
    [words("reasoning_content", reasoning), words("content", &content)].concat()
}

fn calls(calls: &Value, shape: &Shape) -> Vec<Value> {
    let calls = calls.as_array().map_or(&[][..], Vec::as_slice);
    let indexed = |index: usize, call: &Value| {
        let mut fields = serde_json::Map::new();
        if shape.stream_index != Some(false) {
            fields.insert("index".to_owned(), json!(index));
        }
        fields.extend(call.as_object().cloned().unwrap_or_default());
        Value::Object(fields)
    };
    if shape.stream_calls == Some(StreamCalls::Whole) {
        let whole: Vec<_> = calls.iter().enumerate().map(|(index, call)| indexed(index, call)).collect();
        return if whole.is_empty() { Vec::new() } else { vec![json!({"tool_calls": whole})] };
    }
    let mut deltas = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let arguments = &call["function"]["arguments"];
        let mut first = call.clone();
        // An object cannot come in pieces.
        if arguments.is_string() {
            first["function"]["arguments"] = json!("");
        }
        deltas.push(json!({"tool_calls": [indexed(index, &first)]}));
        for piece in pieces(arguments.as_str().unwrap_or_default()) {
            let function = match shape.stream_names.unwrap_or_default() {
                StreamNames::Once => json!({"arguments": piece}),
                StreamNames::Blank => json!({"name": "", "arguments": piece}),
                StreamNames::Repeated => json!({"name": call["function"]["name"], "arguments": piece}),
            };
            deltas.push(json!({"tool_calls": [indexed(index, &json!({"function": function}))]}));
        }
    }
    deltas
}

fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
}

fn filter_results() -> Value {
    json!({"hate": {"filtered": false, "severity": "safe"}, "violence": {"filtered": false, "severity": "safe"}})
}

fn filter_start() -> Value {
    json!({"id": "", "object": "", "created": 0, "model": "", "choices": [], "usage": null,
           "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": filter_results()}]})
}

fn filter_end() -> Value {
    let offsets = json!({"check_offset": 44, "start_offset": 44, "end_offset": 198});
    json!({"id": "", "object": "", "created": 0, "model": "", "usage": null,
           "choices": [{"index": 0, "finish_reason": null, "content_filter_results": filter_results(),
                        "content_filter_offsets": offsets}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Value {
        let call =
            json!({"id": "c", "type": "function", "function": {"name": "find", "arguments": "{\"to\":\"größe\"}"}});
        json!({"id": "x", "object": "chat.completion", "created": 0, "model": "m",
               "choices": [{"index": 0, "message": {"role": "assistant", "content": "One moment.", "tool_calls": [call]},
                            "finish_reason": "tool_calls"}],
               "usage": {"prompt_tokens": 3}})
    }

    fn chunks(shape: &Shape, wants_usage: bool) -> Vec<Value> {
        let events = events(&body(), shape, wants_usage);
        let data = events.iter().filter_map(|event| event.strip_prefix("data: ")?.strip_suffix("\n\n"));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    fn deltas(shape: &Shape) -> Vec<Value> {
        chunks(shape, false).iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect()
    }

    #[test]
    fn role_first_then_words_then_the_call_piece_by_piece() {
        let expected = [
            json!({"role": "assistant", "content": ""}),
            json!({"content": "One "}),
            json!({"content": "moment."}),
            json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "find", "arguments": ""}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"to\":\"g"}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "röße\"}"}}]}),
            json!({}),
        ];
        assert_eq!(deltas(&Shape::default()), expected);
        let chunks = chunks(&Shape::default(), false);
        let reasons: Vec<_> = chunks.iter().map(|chunk| &chunk["choices"][0]["finish_reason"]).collect();
        assert!(reasons[..6].iter().all(|reason| reason.is_null()));
        assert_eq!(reasons[6], "tool_calls");
        assert!(chunks.iter().all(|chunk| chunk["id"] == "x" && chunk.get("usage").is_none()));
        assert_eq!(events(&body(), &Shape::default(), false).last().unwrap(), DONE);
    }

    #[test]
    fn usage_comes_when_it_is_asked_for() {
        let chunks = chunks(&Shape::default(), true);
        let (last, others) = chunks.split_last().unwrap();
        assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &json!({"prompt_tokens": 3})));
        assert!(others.iter().all(|chunk| chunk.get("usage").is_some_and(Value::is_null)));
    }

    #[test]
    fn names_and_indices_as_each_server_does() {
        let names = |style| {
            let deltas = deltas(&Shape { stream_names: Some(style), ..Shape::default() });
            deltas[3..6].iter().map(|delta| delta["tool_calls"][0]["function"]["name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(StreamNames::Once), [json!("find"), json!(null), json!(null)]);
        assert_eq!(names(StreamNames::Blank), [json!("find"), json!(""), json!("")]);
        assert_eq!(names(StreamNames::Repeated), [json!("find"), json!("find"), json!("find")]);
        let deltas = deltas(&Shape { stream_index: Some(false), ..Shape::default() });
        assert!(deltas[3..6].iter().all(|delta| delta["tool_calls"][0].get("index").is_none()));
    }

    #[test]
    fn calls_may_come_whole() {
        let deltas = deltas(&Shape { stream_calls: Some(StreamCalls::Whole), ..Shape::default() });
        assert_eq!(deltas.len(), 5);
        assert_eq!(deltas[3]["tool_calls"][0]["function"]["arguments"], "{\"to\":\"größe\"}");
    }

    #[test]
    fn filters_put_chunks_around_it() {
        let chunks = chunks(&Shape { filter_chunks: Some(true), ..Shape::default() }, false);
        let (first, last) = (&chunks[0], chunks.last().unwrap());
        assert_eq!((&first["id"], &first["choices"]), (&json!(""), &json!([])));
        assert!(last["choices"][0].get("delta").is_none());
    }

    #[test]
    fn streams_may_end_early_and_hold_nothing() {
        let shape = Shape { stream_done: Some(false), ..Shape::default() };
        assert!(!events(&body(), &shape, false).contains(&DONE.to_owned()));
        let empty = json!({"id": "x", "created": 0, "model": "m"});
        let events = events(&empty, &Shape::default(), false);
        assert_eq!(events.len(), 2);
        assert!(!events[0].contains("choices"));
    }
}
