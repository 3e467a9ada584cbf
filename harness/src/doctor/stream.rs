//! Streaming: does it work, when does the first word come, does the usage come with it?

use serde_json::{Value, json};

use super::facts::{Facts, user};
use super::session::Session;
use super::{Outcome, Probed, Verdict, refused};
use crate::endpoint::Streamed;

pub(super) async fn streaming(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let mut body = facts.request(&user("Write one sentence about the sea."), 24);
    body["stream"] = json!(true);
    let mut asking = body.clone();
    asking["stream_options"] = json!({"include_usage": true});
    let (streamed, note) = match session.stream(&asking).await? {
        Ok(streamed) => (streamed, ""),
        Err(_) => match session.stream(&body).await? {
            Ok(streamed) => (streamed, "; `stream_options` is refused"),
            Err(error) => return Ok(Outcome::new(Verdict::No, format!("refused: {}", refused(&error)))),
        },
    };
    let events = events(&streamed);
    let pieces: Vec<_> = events.iter().filter(|event| event.writes()).collect();
    if pieces.is_empty() {
        let detail =
            format!("asked for a stream, no piece of an answer could be read in {} events{note}", events.len());
        return Ok(Outcome::new(Verdict::No, detail));
    }
    let usage = usage(&events);
    facts.stream_usage = Some(usage == StreamUsage::Counted);
    let first = pieces[0].at_ms.map_or_else(String::new, |ms| format!(", the first word after {:.2} s", ms / 1e3));
    let verdict = if usage == StreamUsage::Counted { Verdict::Yes } else { Verdict::Partly };
    Ok(Outcome::new(verdict, format!("{} pieces{first}; usage {}{note}", pieces.len(), usage.word())))
}

/// One event of a stream.
#[derive(Debug)]
struct StreamEvent {
    data: Value,
    /// When its last byte came.
    at_ms: Option<f64>,
}

impl StreamEvent {
    /// It adds to the answer.
    fn writes(&self) -> bool {
        let delta = &self.data["choices"][0]["delta"];
        let text = |field: &str| delta[field].as_str().is_some_and(|text| !text.is_empty());
        text("content") || text("reasoning_content") || text("reasoning") || delta["tool_calls"].is_array()
    }
}

/// The events of a body, those that are no JSON left out: `[DONE]`, comments, and what servers send to keep a line open.
fn events(streamed: &Streamed) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    let mut end = 0;
    for line in streamed.response.body.split_inclusive('\n') {
        end += line.len();
        let data = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data.trim()).ok());
        if let Some(data) = data {
            let at_ms = streamed.arrivals.iter().find(|(arrived, _)| *arrived >= end).map(|(_, ms)| *ms);
            events.push(StreamEvent { data, at_ms });
        }
    }
    events
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamUsage {
    Counted,
    Null,
    Missing,
}

impl StreamUsage {
    fn word(self) -> &'static str {
        match self {
            Self::Counted => "at the end",
            Self::Null => "null in every piece",
            Self::Missing => "missing",
        }
    }
}

fn usage(events: &[StreamEvent]) -> StreamUsage {
    let usages = || events.iter().filter_map(|event| event.data.get("usage"));
    if usages().any(Value::is_object) {
        StreamUsage::Counted
    } else if usages().next().is_some() {
        StreamUsage::Null
    } else {
        StreamUsage::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{probe, refuses};
    use super::*;
    use crate::endpoint::WireResponse;

    fn body(lines: &[&str]) -> WireResponse {
        let body = lines.join("\n\n") + "\n\n";
        WireResponse { status: 200, retry_after_ms: None, request_id: None, body }
    }

    const FIRST: &str = r#"data: {"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
    const WORD: &str = r#"data: {"choices":[{"delta":{"content":"The"}}],"usage":null}"#;
    const USAGE: &str = r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;

    #[tokio::test]
    async fn usage_at_the_end_is_told_from_null_and_from_none() {
        let plain = WORD.replace(",\"usage\":null", "");
        for (lines, known, words) in [
            (vec![": hello", FIRST, WORD, USAGE, "data: [DONE]"], Some(true), "1 pieces; usage at the end"),
            (vec![FIRST, WORD], Some(false), "usage null in every piece"),
            (vec![FIRST, plain.as_str()], Some(false), "usage missing"),
            (vec![FIRST, "data: {half"], None, "no piece of an answer"),
            (vec![r#"{"choices":[{"message":{"content":"no stream"}}]}"#], None, "in 0 events"),
        ] {
            let mut facts = Facts::default();
            let answer = body(&lines);
            let outcome = probe(move |_| answer.clone(), &mut facts, streaming).await;
            assert_eq!(facts.stream_usage, known, "{}", outcome.detail);
            assert!(outcome.detail.contains(words), "{}", outcome.detail);
        }
    }

    #[tokio::test]
    async fn refused_options_are_left_out() {
        let answer = body(&[WORD]);
        let server = move |request: &Value| {
            if request.get("stream_options").is_some() {
                refuses(400, "unknown stream_options")
            } else {
                answer.clone()
            }
        };
        let mut facts = Facts::default();
        let outcome = probe(server, &mut facts, streaming).await;
        assert!(outcome.detail.ends_with("`stream_options` is refused"), "{}", outcome.detail);
        assert_eq!(probe(|_| refuses(400, "no streams"), &mut facts, streaming).await.verdict, Verdict::No);
    }

    #[test]
    fn an_event_came_when_its_last_byte_did() {
        let response = body(&[FIRST, WORD]);
        let all = response.body.len();
        let first = FIRST.len() + 1;
        let streamed = Streamed { response, arrivals: vec![(10, 1.0), (first, 2.0), (all - 3, 3.0), (all, 4.0)] };
        let times: Vec<_> = events(&streamed).iter().map(|event| event.at_ms.unwrap()).collect();
        assert_eq!(times, [2.0, 4.0]);
    }
}
