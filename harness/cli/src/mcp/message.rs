//! One message of a server, read so that one broken value costs no more than itself.
//!
//! The types of rmcp take a page whole or not at all, and its transports pass over what they cannot read without a word, so that
//! an unreadable answer would cost the whole time. The protocol allows nothing but messages, one a line; what can be read of a
//! page is taken, what cannot is reported, and an answer that nobody can read ends the session at once.

use datasets::import::mcp::unambiguous;
use rmcp::model::{
    ClientJsonRpcMessage, ClientResult, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::heard::excerpt;
use super::scan;

/// Most answers to a server's own questions that wait until it reads them. Of one that asks more than it reads, the rest is dropped.
pub const UNREAD: usize = 16;

/// What a server says.
pub enum Message {
    /// To what it was asked; the tools of a page that cannot be read are told apart.
    Answer { message: ServerJsonRpcMessage, unreadable: Vec<String> },
    /// It asks something itself; here is what to answer.
    Question(ClientJsonRpcMessage),
    /// Nobody waits for it.
    Notice,
    /// An answer that cannot be read, and why.
    Broken(String),
    /// No message at all.
    Stray,
}

/// Reads what should be one message.
pub fn read(bytes: &[u8]) -> Message {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => whole(fields, bytes),
        Ok(_) => Message::Stray,
        Err(error) => pieces(bytes, &error).unwrap_or(Message::Stray),
    }
}

fn whole(mut fields: Map<String, Value>, bytes: &[u8]) -> Message {
    let is_ours = fields.get("jsonrpc").is_some_and(|version| version == "2.0");
    let is_answer = fields.contains_key("result") || fields.contains_key("error");
    let id = fields.get("id").and_then(|id| RequestId::deserialize(id).ok());
    if fields.contains_key("method") && is_ours && !is_answer {
        let method = fields.get("method").and_then(Value::as_str).unwrap_or_default();
        return id.map_or(Message::Notice, |id| Message::Question(reply(method, id)));
    }
    if !is_answer || !is_ours && id.is_none() {
        return Message::Stray;
    }
    let is_page = fields.get("result").and_then(|result| result.get("tools")).is_some_and(Value::is_array);
    if let Some(id) = id.filter(|_| is_page && is_ours) {
        // Whoever reads a repeated key chooses what was meant, and that is not what was listed.
        let pieces = || scan::fields(bytes).and_then(|(fields, _)| page(value_of(&fields, "result")?, id.clone()));
        if unambiguous(bytes).is_err()
            && let Some(message) = pieces()
        {
            return message;
        }
        let page = fields.remove("result").unwrap_or_default();
        return Message::Answer { message: answer(page, id), unreadable: Vec::new() };
    }
    match serde_json::from_value(Value::Object(fields)) {
        Ok(message) => Message::Answer { message, unreadable: Vec::new() },
        Err(_) => Message::Broken(format!("its answer is not what the protocol asks for: {}", excerpt(bytes))),
    }
}

/// The answer with the tools stays the JSON that it is: read as types, keys that the types do not know would be gone, and one
/// tool that does not fit them would take all others along.
fn answer(page: Value, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::response(ServerResult::CustomResult(CustomResult(page)), id)
}

/// What can be said of a message that is no JSON as a whole: nothing if it does not look like an answer.
fn pieces(bytes: &[u8], error: &serde_json::Error) -> Option<Message> {
    let (fields, closed) = scan::fields(bytes)?;
    let field = |name: &str| value_of(&fields, name);
    if field("method").is_some() || field("jsonrpc").or(field("id")).is_none() {
        return None;
    }
    let broken = || Message::Broken(format!("its answer cannot be read: {error}"));
    let Some(result) = field("result") else { return field("error").map(|_| broken()) };
    let id = field("id").and_then(|id| serde_json::from_slice(id).ok());
    Some(id.filter(|_| closed).and_then(|id| page(result, id)).unwrap_or_else(broken))
}

/// A page of which some tools can be read.
fn page(result: &[u8], id: RequestId) -> Option<Message> {
    let (fields, _) = scan::fields(result)?;
    let (entries, _) = scan::items(value_of(&fields, "tools")?)?;
    let next: Value = value_of(&fields, "nextCursor").map_or(Ok(Value::Null), serde_json::from_slice).ok()?;
    let (mut tools, mut unreadable) = (Vec::new(), Vec::new());
    for (index, entry) in entries.into_iter().enumerate() {
        match unambiguous(entry) {
            Ok(tool) => tools.push(tool),
            Err(error) => unreadable.push(format!("tool {index} of a page: {error}")),
        }
    }
    Some(Message::Answer { message: answer(json!({"tools": tools, "nextCursor": next}), id), unreadable })
}

fn value_of<'a>(fields: &[scan::Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|(field, _)| *field == name.as_bytes()).map(|&(_, value)| value)
}

/// The answer to what a server asks of a client that offers nothing.
fn reply(method: &str, id: RequestId) -> ClientJsonRpcMessage {
    if method == "ping" {
        return JsonRpcMessage::response(ClientResult::empty(()), id);
    }
    JsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "not offered by this client", None), Some(id))
}

/// Numbers an error that has no number: it answers what was asked last, for there is never more than one request open.
pub fn settle(message: &mut ServerJsonRpcMessage, asked: Option<&RequestId>) {
    if let JsonRpcMessage::Error(error) = message
        && error.id.is_none()
    {
        error.id = asked.cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_repeats_a_key_is_left_out_alone() {
        let text = r#"{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a"},
            {"name": "b", "inputSchema": {"type": "object", "type": "array"}}], "nextCursor": "n"}}"#;
        let (message, unreadable) = answered(text);
        assert_eq!(message["result"], json!({"tools": [{"name": "a"}], "nextCursor": "n"}));
        assert_eq!(unreadable.len(), 1);
        assert!(unreadable[0].starts_with("tool 1 of a page: duplicate field `type`"), "{unreadable:?}");
    }

    fn answered(text: &str) -> (Value, Vec<String>) {
        match read(text.as_bytes()) {
            Message::Answer { message, unreadable } => (serde_json::to_value(message).unwrap(), unreadable),
            Message::Broken(reason) => panic!("broken: {reason}"),
            _ => panic!("no answer: {text}"),
        }
    }

    fn broken(text: &str) -> Option<String> {
        match read(text.as_bytes()) {
            Message::Broken(reason) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn one_broken_tool_costs_no_other() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for bad in
            ["NaN", "{\"name\": NaN}", r#"{"name": "\ud800"}"#, "{\"a\": 1e999}", "{\"a\": Infinity}", "{a: 1}", &deep]
        {
            let page = format!(
                r#"{{"jsonrpc": "2.0", "id": 2, "result": {{"tools": [{{"name": "one", "x": 1}}, {bad}, {{"name": "two"}}], "nextCursor": "n"}}}}"#
            );
            let (message, unreadable) = answered(&page);
            assert_eq!(message["result"]["tools"], json!([{"name": "one", "x": 1}, {"name": "two"}]), "{bad}");
            assert_eq!((message["result"]["nextCursor"].as_str(), message["id"].as_i64()), (Some("n"), Some(2)));
            assert!(unreadable.len() == 1 && unreadable[0].starts_with("tool 1 of a page: "), "{bad}: {unreadable:?}");
        }
        let Message::Answer { unreadable, .. } =
            read(b"{\"jsonrpc\": \"2.0\", \"id\": \"a\", \"result\": {\"tools\": [{\"name\": \"\xff\"}]}}")
        else {
            panic!("no answer")
        };
        assert_eq!(unreadable.len(), 1);
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_told_at_once() {
        for text in [
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "on"#,
            r#"{"id": 1, "result": {"tools"#,
            r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": NaN}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "error": "no such key"}"#,
            r#"{"jsonrpc": "2.0", "id": null, "result": {"tools": []}}"#,
            r#"{"id": 1, "result": {"tools": []}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"tools": [], "nextCursor": NaN}}"#,
        ] {
            assert!(broken(text).is_some(), "{text}");
        }
        let reason = broken(r#"{"jsonrpc": "2.0", "id": 1, "error": "no such key"}"#).unwrap();
        assert!(reason.contains("not what the protocol asks for: {") && reason.contains("no such key"), "{reason}");
    }

    #[test]
    fn what_nobody_waits_for_is_passed_over() {
        for text in [
            "Listening ...",
            "[1, 2]",
            "{",
            r#"{"level": "error", "error": "boom"}"#,
            r#"{"method": "GET", "id": 4}"#,
            r#"{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": NaN}}"#,
        ] {
            assert!(matches!(read(text.as_bytes()), Message::Stray), "{text}");
        }
        assert!(matches!(read(br#"{"jsonrpc": "2.0", "method": "notifications/x"}"#), Message::Notice));
        for (method, part) in [("ping", r#""result":{}"#), ("roots/list", "-32601")] {
            let text = format!(r#"{{"jsonrpc": "2.0", "id": 7, "method": "{method}"}}"#);
            let Message::Question(reply) = read(text.as_bytes()) else { panic!("{text}") };
            let reply = serde_json::to_string(&reply).unwrap();
            assert!(reply.contains(part) && reply.contains(r#""id":7"#), "{reply}");
        }
    }

    #[test]
    fn an_error_without_a_number_answers_what_is_open() {
        let Message::Answer { mut message, .. } =
            read(br#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m"}}"#)
        else {
            panic!("no answer")
        };
        settle(&mut message, Some(&RequestId::Number(3)));
        assert_eq!(serde_json::to_value(message).unwrap()["id"], 3);
    }
}
