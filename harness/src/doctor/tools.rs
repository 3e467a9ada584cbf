//! Tools in the native protocol: is one called, is its result read, may a call be forced, may there be two at once?

use serde_json::{Value, json};

use super::facts::{Facts, Native, ToolTurn, user};
use super::session::{Answer, Heard, Session, Stop};
use super::{Outcome, Probed, Verdict, quoted, refused};
use crate::arguments;
use crate::chat::{Message, ToolDef};
use crate::endpoint::ErrorKind;

pub(super) const NO_TOOLS: &str = "the endpoint takes no tools";
pub(super) const TOOL: &str = "get_weather";
const QUESTION: &str = "What is the weather in Oslo? Use the tool.";

/// The tool that is offered.
pub(super) fn weather() -> ToolDef {
    ToolDef {
        name: TOOL.to_owned(),
        description: "Current weather of a city".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        }),
    }
}

/// A request that offers the tool as a run would.
fn offer(facts: &Facts, messages: &Value, answer_tokens: u32) -> Value {
    let mut body = facts.request(messages, answer_tokens);
    body["tools"] = json!([weather()]);
    body["tool_choice"] = json!("auto");
    body
}

/// Asks for a tool that is offered, and looks at the call.
pub(super) async fn native(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let answer = match session.chat(&offer(facts, &user(QUESTION), 64)).await? {
        Heard::Answer(answer) => answer,
        Heard::Refused(error) if error.kind == ErrorKind::ModelError => {
            (facts.native, facts.tools_accepted) = (Native::Silent, 1);
            let detail = format!("taken, but the server could not read the model's call: {}", refused(&error));
            return Ok(Outcome::new(Verdict::Partly, detail));
        }
        Heard::Refused(error) => {
            facts.native = Native::Refused;
            return Ok(Outcome::new(Verdict::No, format!("refused: {}", refused(&error))));
        }
    };
    facts.tools_accepted = 1;
    let Some(call) = answer.reply.calls.first() else {
        facts.native = Native::Silent;
        let cut = if answer.reply.cut_short() { ", cut off at the output limit" } else { "" };
        let detail = format!("taken, but no tool was called; the answer was {}{cut}", quoted(&answer.reply.text));
        return Ok(Outcome::new(Verdict::Partly, detail));
    };
    facts.native = Native::Calls;
    let messages = vec![Message::user(QUESTION), answer.reply.message.clone()];
    facts.call = Some(ToolTurn { messages, call_id: call.id.clone() });
    let good = call.name == TOOL && arguments::parse(&call.arguments).is_ok_and(|parsed| parsed["city"].is_string());
    let verdict = if good { Verdict::Yes } else { Verdict::Partly };
    Ok(Outcome::new(verdict, shape_of_call(&answer)))
}

/// How a call is written, oddities that the client deals with included.
fn shape_of_call(answer: &Answer) -> String {
    let choice = &answer.body["choices"][0];
    let call = &choice["message"]["tool_calls"][0];
    let function = &call["function"];
    let arguments = match &function["arguments"] {
        Value::String(text) if text.is_empty() => "empty arguments".to_owned(),
        Value::String(text) => format!("arguments {}", quoted(text)),
        Value::Null => "no arguments".to_owned(),
        other => format!("arguments as an object, {}", quoted(&other.to_string())),
    };
    let id = if call["id"].as_str().is_none_or(str::is_empty) { ", a blank id" } else { "" };
    let finish = choice["finish_reason"].as_str().unwrap_or_default();
    let name = quoted(function["name"].as_str().unwrap_or_default());
    format!("{name} was called with {arguments}{id}; finish_reason {}", quoted(finish))
}

/// Gives a call back to the server word for word, with its result; then with a null content and fields it cannot know.
pub(super) async fn echo(session: &Session<'_>, facts: &mut Facts) -> Probed {
    if facts.native == Native::Refused {
        return Err(Stop::Pointless(NO_TOOLS));
    }
    let made_up = facts.call.is_none();
    let turn = facts.call.clone().unwrap_or_else(made_up_turn);
    let result = Message::tool(&turn.call_id, "Sunny, 7 degrees.");
    let body = |assistant: &Message| {
        let messages = [&turn.messages[0], assistant, &result];
        offer(facts, &json!(messages), 24)
    };
    let (plain, odd) = (body(&turn.messages[1]), body(&odd(&turn.messages[1])));
    let answer = match session.chat(&plain).await? {
        Heard::Answer(answer) => answer,
        Heard::Refused(error) => {
            facts.echo = Some(false);
            return Ok(Outcome::new(Verdict::No, format!("a call with its result is refused: {}", refused(&error))));
        }
    };
    facts.echo = Some(true);
    let read = answer.reply.text.contains('7');
    let said = if answer.reply.calls.is_empty() {
        format!("answered {}", quoted(&answer.reply.text))
    } else {
        "called again".to_owned()
    };
    let whose = if made_up { " (a made-up call)" } else { "" };
    let heard = session.chat(&odd).await?;
    let extra = match &heard {
        Heard::Refused(error) if !heard.accepted() => {
            format!("a null content with unknown fields is refused: {}", refused(error))
        }
        _ => "a null content with unknown fields is taken".to_owned(),
    };
    let verdict = if read && heard.accepted() { Verdict::Yes } else { Verdict::Partly };
    Ok(Outcome::new(verdict, format!("{said}{whose}; {extra}")))
}

/// What a model would have written.
fn made_up_turn() -> ToolTurn {
    let call = json!({
        "id": "call_0",
        "type": "function",
        "function": {"name": TOOL, "arguments": r#"{"city":"Oslo"}"#},
    });
    let assistant = Message(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    ToolTurn { messages: vec![Message::user(QUESTION), assistant], call_id: "call_0".to_owned() }
}

/// The message as other servers would have sent it.
fn odd(message: &Message) -> Message {
    let mut message = message.0.clone();
    message["content"] = Value::Null;
    message["x_unknown"] = json!({"kept": true});
    Message(message)
}

/// A call that is forced, and one that is forbidden.
pub(super) async fn tool_choice(session: &Session<'_>, facts: &mut Facts) -> Probed {
    if facts.native == Native::Refused {
        return Err(Stop::Pointless(NO_TOOLS));
    }
    let mut forced = offer(facts, &user("Say hello."), 64);
    forced["tool_choice"] = json!({"type": "function", "function": {"name": TOOL}});
    let (made, forced) = match session.chat(&forced).await? {
        Heard::Answer(answer) if answer.reply.calls.is_empty() => (false, "a forced call is not made".to_owned()),
        Heard::Answer(_) => (true, "a forced call is made".to_owned()),
        Heard::Refused(error) => (false, format!("forcing a call is refused: {}", refused(&error))),
    };
    let mut forbidden = offer(facts, &user(QUESTION), 16);
    forbidden["tool_choice"] = json!("none");
    let (kept, forbidden) = match session.chat(&forbidden).await? {
        Heard::Answer(answer) if answer.reply.calls.is_empty() => (true, "`none` is kept".to_owned()),
        Heard::Answer(_) => (false, "`none` is ignored".to_owned()),
        Heard::Refused(error) => (false, format!("`none` is refused: {}", refused(&error))),
    };
    let verdict = match (made, kept) {
        (true, true) => Verdict::Yes,
        (false, false) => Verdict::No,
        _ => Verdict::Partly,
    };
    Ok(Outcome::new(verdict, format!("{forced}; {forbidden}")))
}

/// A question that wants two calls.
pub(super) async fn parallel(session: &Session<'_>, facts: &mut Facts) -> Probed {
    if facts.native != Native::Calls {
        return Err(Stop::Pointless("no tool was called, let alone two"));
    }
    let question = "What is the weather in Oslo and in Rome? Call the tool for both cities at once.";
    Ok(match session.chat(&offer(facts, &user(question), 96)).await? {
        Heard::Answer(answer) if answer.reply.calls.len() > 1 => {
            Outcome::new(Verdict::Yes, format!("{} calls in one answer", answer.reply.calls.len()))
        }
        Heard::Answer(answer) => {
            let calls = if answer.reply.calls.is_empty() { "no call" } else { "one call" };
            Outcome::new(Verdict::Unknown, format!("{calls} where two were asked for, in 1 test"))
        }
        Heard::Refused(error) => Outcome::new(Verdict::Unknown, refused(&error)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{calls, completion, good, probe, refuses, says};
    use super::*;
    use crate::endpoint::WireResponse;

    #[tokio::test]
    async fn calls_of_every_shape_are_told_apart() {
        let odd = |id: &str, arguments: Value| {
            let call = json!({"id": id, "function": {"name": "get_weather", "arguments": arguments}});
            move |body: &Value| -> WireResponse {
                completion(body, &json!({"content": null, "tool_calls": [call]})).into()
            }
        };
        let mut facts = Facts::default();
        let outcome = probe(good, &mut facts, native).await;
        assert_eq!((outcome.verdict, facts.native), (Verdict::Yes, Native::Calls));
        assert_eq!(
            outcome.detail,
            r#""get_weather" was called with arguments "{"city":"Oslo"}"; finish_reason "stop""#
        );
        let outcome = probe(odd("", json!({"city": "Oslo"})), &mut facts, native).await;
        assert_eq!(outcome.verdict, Verdict::Yes);
        assert!(outcome.detail.contains("as an object") && outcome.detail.contains("a blank id"), "{}", outcome.detail);
        for arguments in [json!(""), json!(null), json!("{city"), json!("{}")] {
            let outcome = probe(odd("a", arguments.clone()), &mut facts, native).await;
            assert_eq!(outcome.verdict, Verdict::Partly, "{arguments}: {}", outcome.detail);
        }
    }

    #[tokio::test]
    async fn refused_tools_and_silent_models_are_two_things() {
        let mut facts = Facts::default();
        let outcome = probe(|_| refuses(400, "this model does not support tools"), &mut facts, native).await;
        assert_eq!((outcome.verdict, facts.native), (Verdict::No, Native::Refused));
        let outcome = probe(|body| says(body, "It is\u{1b} warm."), &mut facts, native).await;
        assert_eq!((outcome.verdict, facts.native), (Verdict::Partly, Native::Silent));
        assert!(outcome.detail.ends_with(r#"the answer was "It is\u{1b} warm.""#), "{}", outcome.detail);
        let failed = refuses(400, "tool_use_failed: failed to call a function");
        let outcome = probe(move |_| failed.clone(), &mut facts, native).await;
        assert_eq!((outcome.verdict, facts.native), (Verdict::Partly, Native::Silent), "the model's fault");
    }

    #[tokio::test]
    async fn results_are_given_back_word_for_word() {
        let mut facts = Facts::default();
        probe(good, &mut facts, native).await;
        let outcome = probe(good, &mut facts, echo).await;
        assert_eq!((outcome.verdict, facts.echo), (Verdict::Yes, Some(true)), "{}", outcome.detail);
        let strict = |body: &Value| {
            if body["messages"][1].get("x_unknown").is_some() {
                refuses(400, "unknown field x_unknown")
            } else {
                good(body)
            }
        };
        let outcome = probe(strict, &mut facts, echo).await;
        assert_eq!((outcome.verdict, facts.echo), (Verdict::Partly, Some(true)));
        assert!(outcome.detail.contains("unknown field x_unknown"), "{}", outcome.detail);
        let outcome = probe(|_| refuses(400, "tool messages are not supported"), &mut facts, echo).await;
        assert_eq!((outcome.verdict, facts.echo), (Verdict::No, Some(false)));
        // Without a call of its own the model is given one.
        let mut silent = Facts { native: Native::Silent, ..Facts::default() };
        assert!(probe(good, &mut silent, echo).await.detail.contains("a made-up call"));
    }

    #[tokio::test]
    async fn a_choice_of_the_caller_is_kept_or_not() {
        let mut facts = Facts::default();
        assert_eq!(probe(good, &mut facts, tool_choice).await.verdict, Verdict::Yes);
        let outcome = probe(|body| calls(body, &["Oslo"]), &mut facts, tool_choice).await;
        assert_eq!(
            (outcome.verdict, outcome.detail.as_str()),
            (Verdict::Partly, "a forced call is made; `none` is ignored")
        );
        let outcome = probe(|_| refuses(400, "tool_choice is not supported"), &mut facts, tool_choice).await;
        assert_eq!(outcome.verdict, Verdict::No);
    }

    #[tokio::test]
    async fn one_call_where_two_were_asked_for_decides_nothing() {
        let mut facts = Facts { native: Native::Calls, ..Facts::default() };
        assert_eq!(probe(good, &mut facts, parallel).await.detail, "2 calls in one answer");
        let outcome = probe(|body| calls(body, &["Oslo"]), &mut facts, parallel).await;
        assert_eq!(
            (outcome.verdict, outcome.detail.as_str()),
            (Verdict::Unknown, "one call where two were asked for, in 1 test")
        );
    }
}
