//! Which parts of a schema are schemas themselves. What is named by a person (an argument called `pattern`, a definition called
//! `type`) is never taken for a keyword, and data (`const`, `enum`, `default`, `examples`) is never taken for a schema.

use serde_json::{Map, Value};

/// What the value of a keyword is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A schema.
    One,
    /// Schemas in a list.
    List,
    /// Schemas under names that are no keywords.
    Named,
    /// Anything else.
    Data,
}

pub(super) fn place(keyword: &str, value: &Value) -> Place {
    match keyword {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies"
            if value.is_object() =>
        {
            Place::Named
        }
        "allOf" | "anyOf" | "oneOf" | "prefixItems" | "items" if value.is_array() => Place::List,
        "items"
        | "additionalItems"
        | "unevaluatedItems"
        | "contains"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contentSchema" => Place::One,
        _ => Place::Data,
    }
}

/// The schemas right below a schema, each with the keyword that it stands under.
pub(super) fn children(map: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    map.iter().flat_map(|(keyword, value)| {
        let values: Box<dyn Iterator<Item = &Value>> = match place(keyword, value) {
            Place::One => Box::new(std::iter::once(value)),
            Place::List => Box::new(value.as_array().into_iter().flatten()),
            Place::Named => Box::new(value.as_object().into_iter().flat_map(Map::values)),
            Place::Data => Box::new(std::iter::empty()),
        };
        values.map(move |value| (keyword.as_str(), value))
    })
}

/// A keyword that says nothing about which values are valid.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "title"
            | "description"
            | "default"
            | "examples"
            | "example"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$comment"
            | "$schema"
            | "$id"
            | "contentEncoding"
            | "contentMediaType"
            | "contentSchema"
    )
}

/// One step of a JSON pointer.
pub(super) fn step(pointer: &mut String, name: &str) {
    pointer.push('/');
    for char in name.chars() {
        match char {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            char => pointer.push(char),
        }
    }
}
