//! The rule `one_type`: every schema says one type.

use serde_json::{Map, Value, json};

use super::keywords::kind_of;
use super::rules::Rule;
use super::walk::{Walk, short};

/// With one of these a schema has its types from elsewhere.
const ELSEWHERE: [&str; 4] = ["$ref", "anyOf", "oneOf", "allOf"];

impl Walk<'_> {
    pub(super) fn one_type(&mut self, map: &mut Map<String, Value>, root: bool) {
        let stated = match map.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(_) => return,
            None => Vec::new(),
        };
        let before = map.get("type").map_or_else(String::new, short);
        if root {
            self.note(Rule::OneType, Some("type"), before, "\"object\"");
            map.insert("type".to_owned(), json!("object"));
            return;
        }
        let elsewhere = ELSEWHERE.iter().any(|keyword| map.contains_key(*keyword));
        if elsewhere && map.contains_key("type") {
            self.leave_out(Rule::OneType, map, "type");
            return;
        }
        if elsewhere {
            return;
        }
        let guessed = stated.is_empty();
        let kinds = if guessed { guess(map) } else { stated };
        if kinds.is_empty() {
            map.shift_remove("type");
            map.insert("anyOf".to_owned(), anything());
        } else {
            split(map, &kinds);
        }
        self.changed += usize::from(guessed);
        let after = map.get("type").or_else(|| map.get("anyOf")).map_or_else(String::new, short);
        self.note(Rule::OneType, Some("type"), before, after);
    }
}

/// Leaves one type, or makes each type an alternative with the keywords that speak of it.
fn split(map: &mut Map<String, Value>, kinds: &[String]) {
    let listed = map.get("enum").and_then(Value::as_array).cloned();
    let of_kind = |kind: &str| -> Option<Vec<Value>> {
        listed.as_ref().map(|values| values.iter().filter(|value| fits(kind, value)).cloned().collect())
    };
    let possible: Vec<&String> =
        kinds.iter().filter(|kind| of_kind(kind).is_none_or(|values| !values.is_empty())).collect();
    if possible.len() < 2 {
        map.insert("type".to_owned(), json!(possible.first().copied().unwrap_or(&kinds[0])));
        return;
    }
    let own: Vec<(String, Value)> = map
        .iter()
        .filter(|(keyword, _)| !speaks_of(keyword).is_empty())
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    let alternatives: Vec<Value> = possible
        .iter()
        .map(|kind| {
            let mut alternative = Map::from_iter([("type".to_owned(), json!(kind))]);
            // A null is a null: a list of it says nothing more.
            if let Some(values) = of_kind(kind).filter(|_| *kind != "null") {
                alternative.insert("enum".to_owned(), Value::Array(values));
            }
            let of_it = own.iter().filter(|(keyword, _)| speaks_of(keyword).contains(&kind.as_str()));
            alternative.extend(of_it.cloned());
            Value::Object(alternative)
        })
        .collect();
    map.retain(|keyword, _| keyword != "type" && keyword != "enum" && speaks_of(keyword).is_empty());
    map.insert("anyOf".to_owned(), Value::Array(alternatives));
}

/// Any value that arguments usually hold.
fn anything() -> Value {
    json!([
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "object"},
        {"type": "array", "items": {"type": "string"}},
    ])
}

/// The types that a schema without one seems to mean, from its values or its keywords.
fn guess(map: &Map<String, Value>) -> Vec<String> {
    let values: Vec<&Value> = match (map.get("const"), map.get("enum")) {
        (Some(value), _) => vec![value],
        (None, Some(Value::Array(values))) => values.iter().collect(),
        _ => Vec::new(),
    };
    let mut kinds: Vec<String> = values.into_iter().map(|value| kind_of(value).to_owned()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() {
        let spoken = map.keys().find_map(|keyword| speaks_of(keyword).first());
        kinds.extend(spoken.map(|kind| (*kind).to_owned()));
    }
    kinds
}

fn fits(kind: &str, value: &Value) -> bool {
    match kind {
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => kind_of(value) == kind,
    }
}

/// The types that a keyword speaks of; values of other types pass it by.
fn speaks_of(keyword: &str) -> &'static [&'static str] {
    match keyword {
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies" => &["object"],
        "items" | "prefixItems" | "additionalItems" | "minItems" | "maxItems" | "uniqueItems" | "contains"
        | "minContains" | "maxContains" => &["array"],
        "pattern" | "minLength" | "maxLength" => &["string"],
        // A format may name a width of numbers too.
        "format" => &["string", "number", "integer"],
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => &["number", "integer"],
        _ => &[],
    }
}
