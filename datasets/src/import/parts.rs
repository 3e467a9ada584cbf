//! Pieces of JSON that several layouts share.

use serde_json::{Map, Value};

/// The text under a key, which may be absent or null; `None` if it is something else.
#[expect(clippy::option_option, reason = "not there and not fit are two things")]
pub(super) fn text(entry: &mut Map<String, Value>, key: &str) -> Option<Option<String>> {
    match entry.remove(key) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(_) => None,
    }
}

/// An object schema of these properties; `None` without any.
pub(super) fn object(properties: Map<String, Value>, required: Vec<String>) -> Option<Value> {
    if properties.is_empty() {
        return None;
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    Some(schema.into())
}
