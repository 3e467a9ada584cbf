//! Several schemas that speak of one value, said by one.

use serde_json::{Map, Value, json};

use super::place::is_annotation;
use super::refs::Refs;

/// Keywords that mean something only together: taken over all at once or not at all.
const FAMILIES: [&[&str]; 3] = [
    &["prefixItems", "items", "additionalItems"],
    &["if", "then", "else"],
    &["contains", "minContains", "maxContains"],
];
/// Schemas under names: two lists of them are joined name by name.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// Alternatives inside alternatives.
pub(super) const MOST_NESTED: usize = 8;

/// Puts what `member` says beside what `into` says, for a value that both speak of. Where they differ `into` is heard and the
/// rest is lost, which makes the whole looser and never tighter. Returns whether it may have become looser.
pub(super) fn conjoin(into: &mut Map<String, Value>, member: &Map<String, Value>) -> bool {
    let speaks = into.keys().any(|keyword| !is_annotation(keyword));
    let closes = |map: &Map<String, Value>| {
        ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"].iter().any(|key| map.contains_key(*key))
    };
    // Both of these judge by what stands beside them, and more stands there now.
    let mut looser = speaks && (closes(into) || closes(member));
    let taken = FAMILIES.iter().filter(|family| family.iter().any(|keyword| into.contains_key(*keyword)));
    let taken: Vec<&str> = taken.copied().flatten().copied().collect();
    for (keyword, value) in member {
        match into.get_mut(keyword) {
            None if !taken.contains(&keyword.as_str()) => {
                into.insert(keyword.clone(), value.clone());
            }
            Some(known) if *known == *value => {}
            Some(_) if is_annotation(keyword) => {}
            Some(Value::Object(known)) if NAMED.contains(&keyword.as_str()) => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    match known.get(name) {
                        Some(own) => looser |= own != schema,
                        None => {
                            known.insert(name.clone(), schema.clone());
                        }
                    }
                }
            }
            Some(Value::Array(known)) if keyword == "required" => {
                let more = value.as_array().into_iter().flatten().filter(|name| !known.contains(name));
                let more: Vec<Value> = more.cloned().collect();
                known.extend(more);
            }
            _ => looser = true,
        }
    }
    looser
}

/// Folds the alternatives of the arguments into one object that has the properties of all. What only one alternative requires
/// is no longer required, what several describe differently may be as any of them says.
pub(super) fn fold(refs: &mut Refs<'_>, map: &mut Map<String, Value>, depth: usize) {
    let mut entered = 0;
    while let Some(Value::String(reference)) = map.get("$ref").cloned() {
        map.shift_remove("$ref");
        if let Ok(target) = refs.enter(&reference) {
            entered += 1;
            if let Value::Object(target) = target {
                conjoin(map, target);
            }
        }
    }
    if depth < MOST_NESTED {
        let mut flat = |keyword: &str| -> Vec<Map<String, Value>> {
            let Some(Value::Array(members)) = map.shift_remove(keyword) else { return Vec::new() };
            let objects = members.into_iter().filter_map(|member| match member {
                Value::Object(mut member) => {
                    fold(refs, &mut member, depth + 1);
                    Some(member)
                }
                Value::Bool(true) => Some(Map::new()),
                _ => None,
            });
            objects.collect()
        };
        let (all, any, one) = (flat("allOf"), flat("anyOf"), flat("oneOf"));
        for member in &all {
            conjoin(map, member);
        }
        for alternatives in [any, one] {
            join(map, &alternatives);
        }
    }
    refs.leave(entered);
}

fn join(map: &mut Map<String, Value>, alternatives: &[Map<String, Value>]) {
    // Arguments are an object, so what speaks of something else is no alternative.
    let alternatives: Vec<_> = alternatives
        .iter()
        .filter(|alternative| alternative.get("type").and_then(Value::as_str).is_none_or(|kind| kind == "object"))
        .collect();
    if alternatives.is_empty() {
        return;
    }
    let names = |map: &Map<String, Value>| map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut properties: Vec<(String, Vec<Value>)> = Vec::new();
    for (name, schema) in alternatives.iter().filter_map(|map| map.get("properties")?.as_object()).flatten() {
        match properties.iter_mut().find(|(known, _)| known == name) {
            Some((_, schemas)) if schemas.contains(schema) => {}
            Some((_, schemas)) => schemas.push(schema.clone()),
            None => properties.push((name.clone(), vec![schema.clone()])),
        }
    }
    let properties = properties.into_iter().map(|(name, mut schemas)| {
        (name, if schemas.len() == 1 { schemas.remove(0) } else { json!({"anyOf": schemas}) })
    });
    let mut joined = Map::new();
    let properties: Map<_, _> = properties.collect();
    if !properties.is_empty() {
        joined.insert("properties".to_owned(), Value::Object(properties));
    }
    let mut required = names(alternatives[0]);
    required.retain(|name| alternatives.iter().all(|alternative| names(alternative).contains(name)));
    if !required.is_empty() {
        joined.insert("required".to_owned(), Value::Array(required));
    }
    if alternatives.iter().all(|alternative| alternative.get("additionalProperties") == Some(&Value::Bool(false))) {
        joined.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    conjoin(map, &joined);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_differs_is_lost_and_said_to_be() {
        let mut into = map(&json!({"description": "d", "type": "object", "properties": {"a": {"type": "string"}}}));
        let member = map(&json!({"description": "e", "required": ["a"], "properties": {"b": true}}));
        assert!(!conjoin(&mut into, &member));
        assert_eq!(
            Value::Object(into.clone()),
            json!({"description": "d", "type": "object", "properties": {"a": {"type": "string"}, "b": true}, "required": ["a"]})
        );
        assert!(conjoin(&mut into, &map(&json!({"properties": {"a": {"type": "integer"}}}))));
        assert!(conjoin(&mut into, &map(&json!({"type": "array"}))));
        assert_eq!((&into["type"], &into["properties"]["a"]), (&json!("object"), &json!({"type": "string"})));
    }

    #[test]
    fn what_belongs_together_is_not_torn_apart() {
        let mut into = map(&json!({"prefixItems": [{"type": "string"}]}));
        assert!(conjoin(&mut into, &map(&json!({"prefixItems": [true, true], "items": false}))));
        assert_eq!(Value::Object(into), json!({"prefixItems": [{"type": "string"}]}));
    }

    #[test]
    fn alternatives_become_one_object() {
        let document = json!({
            "description": "Either.",
            "properties": {"id": {"type": "string"}},
            "oneOf": [
                {"$ref": "#/$defs/file"},
                {"type": "object", "properties": {"url": {"type": "string"}, "n": {"type": "string"}}, "required": ["n", "url"]},
                {"type": "string"},
            ],
            "$defs": {"file": {"properties": {"path": {"type": "string"}, "n": {"type": "integer"}}, "required": ["path", "n"]}},
        });
        let mut folded = map(&document);
        fold(&mut Refs::new(&document), &mut folded, 0);
        folded.shift_remove("$defs");
        assert_eq!(
            Value::Object(folded),
            json!({
                "description": "Either.",
                "properties": {
                    "id": {"type": "string"},
                    "path": {"type": "string"},
                    "n": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "url": {"type": "string"},
                },
                "required": ["n"],
            })
        );
    }

    #[test]
    fn circles_of_alternatives_end() {
        let document = json!({"anyOf": [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}]});
        let mut folded = map(&document);
        fold(&mut Refs::new(&document), &mut folded, 0);
        assert!(folded.get("anyOf").is_none());
    }
}
