//! Whatever an endpoint sends is read without a panic, in every protocol.

use harness::chat::{ChatReply, Message, ToolDef};
use harness::conversation::{Conversation, Said, Sampling, inner_arguments};
use harness::endpoint::{Protocol, Route, WireResponse, classify};
use harness::usage::Usage;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const PROTOCOLS: [Protocol; 3] = [Protocol::Native, Protocol::JsonSchema, Protocol::Text];

/// Any JSON, with the field names that a completion has.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("{\"tool\": \"mail_send\", \"arguments\": {}}")),
        Just(json!("{\"names\": [\"x\"]")),
    ];
    let name = prop_oneof![
        Just("choices"),
        Just("message"),
        Just("tool_calls"),
        Just("function"),
        Just("arguments"),
        Just("name"),
        Just("id"),
        Just("content"),
        Just("text"),
        Just("usage"),
        Just("prompt_tokens"),
        Just("completion_tokens"),
        Just("prompt_tokens_details"),
        Just("error"),
        Just("code"),
        Just("finish_reason"),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..5).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_body_is_read_or_refused(body in any_json()) {
        let _ = Usage::parse(&body);
        let text = body.to_string();
        let _ = classify(Route::Chat, &WireResponse { status: 200, retry_after_ms: None, request_id: None, body: text });
        let _ = ChatReply::parse(&body);
    }

    #[test]
    fn any_message_is_heard_and_can_be_answered(message in any_json()) {
        let Ok(reply) = ChatReply::parse(&json!({"choices": [{"message": message}]})) else { return Ok(()) };
        for protocol in PROTOCOLS {
            let mut conversation = Conversation::new(protocol, "s".to_owned(), "u");
            conversation.define(ToolDef { name: "mail_send".into(), description: String::new(), parameters: json!({}) });
            if let Said::Calls(calls) = conversation.hear(&reply) {
                for call in &calls {
                    conversation.answer(call, "ok");
                }
            }
            let sampling = Sampling { model: "m".to_owned(), temperature: 0.0, max_tokens: 1, seed: None };
            prop_assert!(conversation.request(&sampling).messages.len() >= 3);
            let _ = inner_arguments(protocol, &reply);
        }
    }

    #[test]
    fn any_text_is_a_message(text in "\\PC{0,200}") {
        prop_assert_eq!(Message::user(&text).text(), text);
    }
}
