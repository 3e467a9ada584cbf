//! The two protocols for endpoints without tools: a choice under a JSON schema, and a choice in words.

use serde_json::{Value, json};

use super::facts::{Facts, user};
use super::session::{Heard, Session};
use super::tools::{TOOL, weather};
use super::{Outcome, Probed, Verdict, quoted, refused};
use crate::conversation::{Conversation, Said, Sampling};
use crate::endpoint::Protocol;

/// A schema that contradicts the request: only a server that enforces it keeps the model from writing what it was asked for.
pub(super) async fn json_schema(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let colours = ["green", "blue"];
    let schema = json!({
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": colours}},
        "required": ["colour"],
        "additionalProperties": false,
    });
    let mut body = facts.request(&user("Answer with the one word red and nothing else."), 32);
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "colour", "schema": schema}});
    let answer = match session.chat(&body).await? {
        Heard::Answer(answer) => answer,
        Heard::Refused(error) => {
            facts.schema_binds = Some(false);
            return Ok(Outcome::new(Verdict::No, format!("refused: {}", refused(&error))));
        }
    };
    let text = answer.reply.text.trim();
    let chosen = serde_json::from_str::<Value>(text).ok();
    let binds = chosen.is_some_and(|chosen| colours.iter().any(|colour| chosen["colour"] == *colour));
    if !binds && answer.reply.cut_short() {
        let detail = format!("taken; the answer was cut off before it could be read: {}", quoted(text));
        return Ok(Outcome::new(Verdict::Unknown, detail));
    }
    facts.schema_binds = Some(binds);
    Ok(if binds {
        Outcome::new(Verdict::Yes, format!("kept in 1 test, against the words of the request: {}", quoted(text)))
    } else {
        Outcome::new(
            Verdict::Partly,
            format!("taken and NOT kept: asked for an object, the answer was {}", quoted(text)),
        )
    })
}

/// The text protocol, with the very words that a run uses.
pub(super) async fn text(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let question = "What is the weather in Oslo?";
    let mut conversation = Conversation::new(Protocol::Text, "You are an assistant with tools.".to_owned(), question);
    conversation.define(weather());
    let sampling = Sampling { model: facts.model.clone(), temperature: 0.0, max_tokens: 64, seed: None };
    let body = facts.request(&json!(conversation.request(&sampling).messages), sampling.max_tokens);
    let answer = match session.chat(&body).await? {
        Heard::Answer(answer) => answer,
        Heard::Refused(error) => return Ok(Outcome::new(Verdict::No, refused(&error))),
    };
    let said = conversation.hear(&answer.reply);
    let chose = matches!(&said, Said::Calls(calls) if calls.first().is_some_and(|call| call.name == TOOL));
    facts.text_choice = Some(chose);
    let verdict = if chose { Verdict::Yes } else { Verdict::Partly };
    let what = if chose { "the tool was chosen" } else { "no choice could be read" };
    Ok(Outcome::new(verdict, format!("{what}: {}", quoted(&answer.reply.text))))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{good, probe, refuses, says};
    use super::*;

    #[tokio::test]
    async fn a_schema_that_is_taken_and_not_kept_is_found_out() {
        let mut facts = Facts::default();
        let outcome = probe(good, &mut facts, json_schema).await;
        assert_eq!((outcome.verdict, facts.schema_binds), (Verdict::Yes, Some(true)));
        let outcome = probe(|body| says(body, "red"), &mut facts, json_schema).await;
        assert_eq!((outcome.verdict, facts.schema_binds), (Verdict::Partly, Some(false)));
        assert!(outcome.detail.contains("NOT kept"), "{}", outcome.detail);
        let outcome = probe(|body| says(body, r#"{"colour": "red"}"#), &mut facts, json_schema).await;
        assert_eq!(outcome.verdict, Verdict::Partly, "an object of another kind is not what was asked for");
        let outcome = probe(|_| refuses(400, "response_format is not supported"), &mut facts, json_schema).await;
        assert_eq!((outcome.verdict, facts.schema_binds), (Verdict::No, Some(false)));
        let long = "{\"colour\": ".to_owned() + &" \n".repeat(64);
        let mut facts = Facts::default();
        let outcome = probe(move |body| says(body, &long), &mut facts, json_schema).await;
        assert_eq!((outcome.verdict, facts.schema_binds), (Verdict::Unknown, None), "{}", outcome.detail);
    }

    #[tokio::test]
    async fn a_choice_in_words_is_read_as_a_run_reads_it() {
        let mut facts = Facts::default();
        assert_eq!(probe(good, &mut facts, text).await.verdict, Verdict::Yes);
        assert_eq!(facts.text_choice, Some(true));
        let outcome = probe(|body| says(body, "It is raining."), &mut facts, text).await;
        assert_eq!((outcome.verdict, facts.text_choice), (Verdict::Partly, Some(false)));
    }
}
