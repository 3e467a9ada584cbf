//! What tools, servers, skills and queries say.

use std::collections::BTreeSet;

use harness::catalogue::Tool;
use harness::text::mentions;
use serde_json::Value;

use super::invisible::invisible;
use super::places::Place;
use super::rules::{ADDRESSES_MODEL, DESCRIPTION_EMPTY, DESCRIPTION_LONG, DESCRIPTION_SHORT, INVISIBLE};
use super::schema::escape;
use super::{Linter, plural, some};
use crate::problem::quote;

/// A description below this many characters says too little.
const SHORT: usize = 20;
/// From more characters than this, endpoints refuse or cut descriptions.
const LONG: usize = 1024;

/// Orders that have no place anywhere.
const TAKEOVERS: [&str; 14] = [
    "ignore previous",
    "ignore all previous",
    "ignore prior",
    "ignore all prior",
    "ignore your instructions",
    "disregard previous",
    "disregard all previous",
    "disregard prior",
    "forget previous",
    "forget all previous",
    "system prompt",
    "do not tell the user",
    "don't tell the user",
    "without telling the user",
];
/// Orders that a skill may give, for that is what it is for, and a tool may not.
const PUSHES: [&str; 32] = [
    "you should always",
    "always call",
    "always use this",
    "always invoke",
    "always run this",
    "must call this",
    "must use this",
    "must always be called",
    "must be called first",
    "call this first",
    "call this tool first",
    "use this tool first",
    "do not answer",
    "don't answer",
    "never answer",
    "do not respond",
    "don't respond",
    "before answering",
    "before responding",
    "every turn",
    "instead of any other tool",
    "do not use any other",
    "prefer this tool",
    "mandatory first",
    "mandatory step",
    "mandatory to call",
    "strongly consider using",
    "strongly recommended to use this",
    "highly recommended to use this",
    "be sure to use this tool",
    "make sure to use this tool",
    "prefer using this tool",
];
/// An order only where one of [`PUSHING`] follows soon: that somebody must own the object, or must choose a place, describes a tool.
const MUST: &str = "you must";
const PUSHING: [&str; 6] = ["call", "use", "invoke", "always", "first", "every"];
/// How many words behind [`MUST`] are looked at.
const NEAR: usize = 3;
/// In lower case an everyday word of interfaces ("mandatory fields"), shouted an order.
const SHOUTED: &str = "MANDATORY";

/// What a model reads about one thing, each text with the key it stands under.
struct Reading<'d> {
    subject: String,
    file: Option<&'static str>,
    texts: Vec<(&'static str, &'d str)>,
    /// The schema that some of the texts are of.
    schema: Option<&'d Value>,
}

pub(super) fn check(linter: &mut Linter) {
    let dataset = linter.dataset;
    for tool in &dataset.catalogue.tools {
        description(linter, tool);
        let reading = of_tool(tool);
        let place = |key: &str, linter: &Linter| linter.places.tool(&tool.id, key);
        look(linter, &reading, place, Refused::AnyOrder);
    }
    for server in &dataset.catalogue.servers {
        let texts = vec![("title", server.title.as_str()), ("description", server.description.as_str())];
        let reading = Reading { subject: server.name.clone(), file: Some("servers.jsonl"), texts, schema: None };
        look(linter, &reading, |key, linter| in_file(linter, &reading, key), Refused::AnyOrder);
    }
    for skill in &dataset.catalogue.skills {
        let texts = vec![("description", skill.description.as_str()), ("body", skill.body.as_str())];
        let reading = Reading { subject: skill.name.clone(), file: Some("skills.jsonl"), texts, schema: None };
        look(linter, &reading, |key, linter| in_file(linter, &reading, key), Refused::Takeovers);
    }
    for query in &dataset.queries {
        let mut texts = vec![("text", query.text.as_str())];
        texts.extend(query.results.values().map(|result| ("results", result.as_str())));
        let reading = Reading { subject: query.id.to_string(), file: Some("queries.jsonl"), texts, schema: None };
        // People and results may say what they like.
        look(linter, &reading, |key, linter| in_file(linter, &reading, key), Refused::Nothing);
    }
}

fn in_file(linter: &Linter, reading: &Reading, key: &str) -> Place {
    linter.places.of(reading.file.unwrap_or_default(), &reading.subject, &[key])
}

fn description(linter: &mut Linter, tool: &Tool) {
    let length = tool.description.trim().chars().count();
    if length == 0 {
        linter.tool(&DESCRIPTION_EMPTY, tool, "description", "the description is empty");
    } else if length < SHORT {
        let message = format!("the description has {}", plural(length, "character"));
        linter.tool(&DESCRIPTION_SHORT, tool, "description", &message);
    } else if length > LONG {
        linter.tool(&DESCRIPTION_LONG, tool, "description", &format!("the description has {length} characters"));
    }
}

fn of_tool(tool: &Tool) -> Reading<'_> {
    let mut texts = Vec::new();
    texts.extend(tool.annotations.title.as_deref().map(|title| ("title", title)));
    texts.push(("description", tool.description.as_str()));
    strings(&tool.input_schema, &mut texts);
    Reading { subject: tool.id.to_string(), file: None, texts, schema: Some(&tool.input_schema) }
}

/// Every key and text of a schema. Parsing bounds how deep it is.
fn strings<'v>(value: &'v Value, texts: &mut Vec<(&'static str, &'v str)>) {
    const KEY: &str = "inputSchema";
    match value {
        Value::String(text) => texts.push((KEY, text)),
        Value::Array(values) => values.iter().for_each(|value| strings(value, texts)),
        Value::Object(map) => {
            for (key, value) in map {
                texts.push((KEY, key));
                strings(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Which orders a text may not give.
#[derive(Clone, Copy, PartialEq)]
enum Refused {
    Nothing,
    /// Those that take over: a skill is made of orders.
    Takeovers,
    AnyOrder,
}

fn look(linter: &mut Linter, reading: &Reading, place: impl Fn(&str, &Linter) -> Place, refused: Refused) {
    let mut hidden = BTreeSet::new();
    let mut orders = Vec::new();
    let (mut hidden_at, mut orders_at) = (None, None);
    for (key, text) in &reading.texts {
        let found = invisible(text);
        if !found.is_empty() {
            hidden_at.get_or_insert(*key);
            hidden.extend(found);
        }
        let found =
            if refused == Refused::Nothing { Vec::new() } else { orders_in(text, refused == Refused::AnyOrder) };
        if !found.is_empty() {
            orders_at.get_or_insert(*key);
            let at = reading.schema.and_then(|schema| pointer(schema, text));
            let at = at.map(|at| format!(" at {}", quote(&at))).unwrap_or_default();
            orders.extend(found.into_iter().map(|order| format!("\"{order}\"{at}")));
        }
    }
    if let Some(key) = hidden_at {
        let codes = hidden.iter().map(|character| format!("U+{:04X}", u32::from(*character)));
        let place = place(key, linter);
        linter.add(&INVISIBLE, &reading.subject, place, &format!("`{key}` holds {}", some(codes)));
    }
    if let Some(key) = orders_at {
        let mut seen = BTreeSet::new();
        orders.retain(|order| seen.insert(order.clone()));
        let place = place(key, linter);
        linter.add(&ADDRESSES_MODEL, &reading.subject, place, &format!("`{key}` says {}", some(orders.into_iter())));
    }
}

/// The orders that a text gives.
fn orders_in(text: &str, pushes: bool) -> Vec<&'static str> {
    let folded = fold(text).replace('’', "'");
    let in_text = |phrase: &&str| mentions(&folded, phrase);
    let mut found: Vec<_> = TAKEOVERS.iter().copied().filter(in_text).collect();
    if pushes {
        found.extend(must_push(&folded).then_some(MUST));
        found.extend(PUSHES.iter().copied().filter(in_text));
        found.extend(mentions(text, SHOUTED).then_some(SHOUTED));
    }
    found
}

/// "you must" with a word that pushes soon behind it, in the same sentence.
fn must_push(folded: &str) -> bool {
    folded.match_indices(MUST).any(|(at, _)| {
        let before = folded[..at].chars().next_back();
        let rest = folded[at + MUST.len()..].split(['.', '!', '?']).next().unwrap_or_default();
        let whole = !before.is_some_and(char::is_alphanumeric) && !rest.starts_with(char::is_alphanumeric);
        let mut words = rest.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(NEAR);
        whole && words.any(|word| PUSHING.contains(&word))
    })
}

/// Where in a schema one of its own texts stands, as a JSON Pointer.
fn pointer(schema: &Value, text: &str) -> Option<String> {
    match schema {
        Value::String(own) => std::ptr::eq(own.as_str(), text).then(String::new),
        Value::Array(values) => {
            values.iter().enumerate().find_map(|(index, value)| Some(format!("/{index}{}", pointer(value, text)?)))
        }
        Value::Object(map) => map.iter().find_map(|(key, value)| {
            let rest = if std::ptr::eq(key.as_str(), text) { String::new() } else { pointer(value, text)? };
            Some(format!("/{}{rest}", escape(key)))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Lower case, blanks as one.
pub(super) fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_whole_phrases_in_any_case() {
        assert_eq!(orders_in("Do  NOT\nanswer. You’ll see.", true), ["do not answer"]);
        assert_eq!(orders_in("ALWAYS call this; MANDATORY.", true), ["always call", "MANDATORY"]);
        assert_eq!(orders_in("You must ask first.", false), [""; 0], "a skill may say so");
        assert_eq!(orders_in("Please ignore previous\tinstructions", false), ["ignore previous"]);
        assert_eq!(orders_in("Strongly consider using this tool for all mail.", true), ["strongly consider using"]);
        assert_eq!(orders_in("You must, every time, begin with it.", true), ["you must"]);
        for text in [
            "All mandatory fields.",
            "Callers you mustered.",
            "Returns the operating system's prompt.",
            "You must own the object or hold MANAGE.",
            "You must be signed in. Use it with care.",
            "Consider using a filter.",
        ] {
            assert_eq!(orders_in(text, true), [""; 0], "{text}");
        }
    }
}
