//! Servers, good and bad, for the tests of the probes.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::facts::Facts;
use super::session::{Event, Session, cost};
use super::{Outcome, Probed};
use crate::endpoint::{Route, Scripted, Transport, TransportError, WireResponse};
use crate::tokens;

const PLENTY: u64 = 10_000_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A session that nobody watches.
pub(super) fn session(transport: &dyn Transport) -> Session<'_> {
    Session::new(transport, &|_: Event<'_>| (), PLENTY, MINUTE)
}

/// Runs one probe against a server.
pub(super) async fn probe(
    server: impl Fn(&Value) -> WireResponse + Send + Sync + 'static,
    facts: &mut Facts,
    run: impl AsyncFnOnce(&Session<'_>, &mut Facts) -> Probed,
) -> Outcome {
    let transport = Scripted::with(move |_, body| Ok(server(body)));
    let session = session(&transport);
    session.set_policy(super::BRISK);
    run(&session, facts).await.unwrap_or_else(|stop| panic!("stopped: {stop}"))
}

pub(super) fn refuses(status: u16, message: &str) -> WireResponse {
    let body = json!({"error": {"message": message}}).to_string();
    WireResponse { status, retry_after_ms: None, request_id: None, body }
}

/// A completion with this message and an honest count.
pub(super) fn completion(body: &Value, message: &Value) -> Value {
    let calls = message["tool_calls"].as_array().map_or(0, tokens::count_json);
    let output = tokens::count(message["content"].as_str().unwrap_or_default()) + calls;
    let limit = cost(body).1;
    let finish = if output >= limit { "length" } else { "stop" };
    json!({
        "model": "served-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": cost(body).0 + 10, "completion_tokens": output, "total_tokens": 0},
    })
}

pub(super) fn says(body: &Value, text: &str) -> WireResponse {
    completion(body, &json!({"role": "assistant", "content": text})).into()
}

pub(super) fn calls(body: &Value, cities: &[&str]) -> WireResponse {
    let call = |(number, city): (usize, &&str)| {
        let arguments = json!({"city": city}).to_string();
        json!({"id": format!("c{number}"), "type": "function", "function": {"name": "get_weather", "arguments": arguments}})
    };
    let calls: Vec<_> = cities.iter().enumerate().map(call).collect();
    completion(body, &json!({"role": "assistant", "content": null, "tool_calls": calls})).into()
}

/// The words of the last message.
pub(super) fn question(body: &Value) -> String {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

/// The digits behind a word.
fn digits_after(text: &str, word: &str) -> String {
    let behind = text.split_once(word).map_or("", |(_, behind)| behind);
    behind.chars().take_while(char::is_ascii_digit).collect()
}

/// What a model that names code words says of a prompt.
pub(super) fn code_words(text: &str) -> String {
    format!("walnut-{} cobalt-{}", digits_after(text, "walnut-"), digits_after(text, "cobalt-"))
}

/// A model that does everything that it is asked.
pub(super) fn good(body: &Value) -> WireResponse {
    let text = question(body);
    let answered =
        body["messages"].as_array().and_then(|messages| messages.last()).is_some_and(|m| m["role"] == "tool");
    let tools = body["tools"].is_array() && body["tool_choice"] != "none";
    if body["response_format"].is_object() {
        says(body, r#"{"colour": "green"}"#)
    } else if answered {
        says(body, "It is sunny in Oslo, 7 degrees.")
    } else if tools && (body["tool_choice"].is_object() || text.contains("Oslo")) {
        calls(body, if text.contains("Rome") { &["Oslo", "Rome"] } else { &["Oslo"] })
    } else if body["messages"][0]["content"].as_str().is_some_and(|system| system.contains("Tools:")) {
        says(body, r#"{"tool": "get_weather", "arguments": {"city": "Oslo"}}"#)
    } else if text.contains("code word") {
        says(body, &code_words(&text))
    } else if text.contains("Count from") {
        says(body, "one two three four")
    } else if text.contains("sea") {
        says(body, "The sea is wide, blue and never still, whatever the weather may be on land that day.")
    } else {
        says(body, "yes")
    }
}

/// A good server that takes its time, on the clock of the runtime.
pub(super) struct Paced {
    pub(super) prompt_per_s: f64,
    pub(super) output_per_s: f64,
    /// One request after the other.
    pub(super) queue: Option<tokio::sync::Mutex<()>>,
}

impl Transport for Paced {
    fn post<'a>(&'a self, _: Route, body: &'a Value) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        Box::pin(async move {
            let _turn = match &self.queue {
                Some(queue) => Some(queue.lock().await),
                None => None,
            };
            let response = good(body);
            let usage = serde_json::from_str::<Value>(&response.body).expect("ours")["usage"].clone();
            let tokens = |field: &str| usage[field].as_f64().unwrap_or_default();
            let seconds = tokens("prompt_tokens") / self.prompt_per_s + tokens("completion_tokens") / self.output_per_s;
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            Ok(response)
        })
    }
}
