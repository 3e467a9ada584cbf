//! Texts that a stream tells in pieces, one in each of its events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A stream, with other words where `change` has some for a text that its events tell together. The first piece takes them, the
/// others are emptied. `None` if nothing changes, and for what is no stream.
pub(super) fn joined(stream: &str, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    if !stream.starts_with("data:") && !stream.contains("\ndata:") {
        return None;
    }
    let lines: Vec<&str> = stream.split_inclusive('\n').collect();
    let event = |line: &str| serde_json::from_str::<Value>(line.strip_prefix("data:")?.trim()).ok();
    let mut events: BTreeMap<usize, Value> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, event(line)?))).collect();
    let mut texts: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for (at, event) in &events {
        each_text(event, "", &mut |place, piece| {
            texts.entry(place.to_owned()).or_default().push((*at, piece.to_owned()));
        });
    }
    let mut changed = BTreeSet::new();
    for (place, pieces) in texts {
        let whole: String = pieces.iter().map(|(_, piece)| piece.as_str()).collect();
        let Some(mut words) = change(&whole) else { continue };
        for (at, _) in pieces {
            if let Some(piece) = events.get_mut(&at).and_then(|event| event.pointer_mut(&place)) {
                *piece = Value::from(std::mem::take(&mut words));
                changed.insert(at);
            }
        }
    }
    let line = |(at, line): (usize, &&str)| match events.get(&at).filter(|_| changed.contains(&at)) {
        Some(event) => format!("data: {event}\n"),
        None => (*line).to_owned(),
    };
    (!changed.is_empty()).then(|| lines.iter().enumerate().map(line).collect())
}

/// Every text in a value, with its place as a JSON pointer.
fn each_text(value: &Value, place: &str, found: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => found(place, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_text(item, &format!("{place}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                each_text(item, &format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_is_written_anew() {
        let shout = |text: &str| text.contains("ab").then(|| text.to_uppercase());
        let stream = ": hello\ndata: {\"x/y\": \"a\",  \"id\": \"1\"}\r\n\ndata: {\"x/y\": \"b\"}\ndata: {\"id\":  \"2\"}\ndata: [DONE]";
        assert_eq!(
            joined(stream, shout).unwrap(),
            ": hello\ndata: {\"x/y\":\"AB\",\"id\":\"1\"}\n\ndata: {\"x/y\":\"\"}\ndata: {\"id\":  \"2\"}\ndata: [DONE]"
        );
        assert_eq!(joined(&stream.replace('b', "c"), shout), None);
        assert_eq!(joined("{\"a\": \"ab\"}", shout), None);
    }
}
