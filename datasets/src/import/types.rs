//! Argument types as other languages write them (`dict`, `List[int]`, `str, optional`, `HashMap`), as JSON Schema.

use serde_json::{Map, Value, json};

use super::report::{Findings, Trouble};

/// How deep `List[List[…]]` is followed.
const DEPTH: usize = 8;

/// What a text says about a type.
#[derive(Debug, PartialEq)]
pub(super) struct Type {
    /// Keywords of a schema; empty: anything. `None`: it is no type that is known.
    pub(super) keywords: Option<Map<String, Value>>,
    pub(super) optional: bool,
}

/// Reads a type, for example `Optional, List[int]`, `str, optional, default 3` or `Map<String, Integer>`.
pub(super) fn read(text: &str) -> Type {
    let mut optional = false;
    let mut kind = None;
    for part in split(text, &[',']) {
        let lower = part.to_ascii_lowercase();
        if matches!(&*lower, "optional" | "(optional)") || lower.starts_with("default") {
            optional = true;
        } else if !matches!(&*lower, "required" | "(required)" | "") && kind.is_none() {
            kind = Some(part);
        }
    }
    let Some(kind) = kind else { return Type { keywords: Some(Map::new()), optional } };
    let inner = kind.strip_prefix("Optional[").and_then(|rest| rest.strip_suffix(']'));
    let keywords = match schema(inner.unwrap_or(kind), DEPTH) {
        Some(Value::Object(keywords)) => Some(keywords),
        _ => None,
    };
    Type { keywords, optional: optional || inner.is_some() }
}

/// The schema of a type without remarks.
fn schema(text: &str, depth: usize) -> Option<Value> {
    let text = text.trim();
    let depth = depth.checked_sub(1)?;
    let choices = split(text, &['|', '/']);
    if choices.len() > 1 {
        return any_of(&choices, depth);
    }
    let (base, inside) = match text.find(['[', '<']) {
        Some(start) => (&text[..start], text[start + 1..].strip_suffix([']', '>'])?),
        None => (text.strip_suffix("[]").unwrap_or(text), ""),
    };
    let parts: Vec<_> = split(inside, &[',']).into_iter().filter(|part| !part.is_empty()).collect();
    let base = base.trim().rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let name = match &*base {
        _ if text.ends_with("[]") => "array",
        "str" | "string" | "char" | "character" | "text" | "date" | "datetime" | "time" => "string",
        "int" | "integer" | "long" | "short" | "byte" | "bigint" | "biginteger" => "integer",
        "float" | "double" | "number" | "decimal" => "number",
        "bool" | "boolean" => "boolean",
        "dict" | "dictionary" | "object" | "map" | "hashmap" | "hashtable" | "mapping" | "json" => "object",
        "list" | "array" | "arraylist" | "tuple" | "set" | "sequence" | "queue" | "stack" | "vector" | "iterable" => {
            "array"
        }
        "null" | "none" | "nonetype" => "null",
        "any" => return Some(json!({})),
        "union" => return any_of(&parts, depth),
        "optional" => return any_of(&[inside, "null"], depth),
        _ => return None,
    };
    let mut read = json!({"type": name});
    let same = parts.windows(2).all(|pair| pair[0] == pair[1]);
    if let (true, Some(part)) = (name == "array" && same, parts.first())
        && let Some(items) = schema(part, depth)
    {
        read["items"] = items;
    }
    Some(read)
}

fn any_of(parts: &[&str], depth: usize) -> Option<Value> {
    let mut read = parts.iter().map(|part| schema(part, depth)).collect::<Option<Vec<_>>>()?;
    let anything = read.is_empty() || read.contains(&json!({}));
    read.dedup();
    match read.len() {
        _ if anything => Some(json!({})),
        1 => read.pop(),
        _ => Some(json!({ "anyOf": read })),
    }
}

/// The parts between separators that stand outside of brackets.
fn split<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, 0_usize);
    for (index, character) in text.char_indices() {
        match character {
            '[' | '<' => open += 1,
            ']' | '>' => open = open.saturating_sub(1),
            _ if open == 0 && separators.contains(&character) => {
                parts.push(text[start..index].trim());
                start = index + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// JSON Schema with types of other languages in it, as JSON Schema. Types that are not known are handed to `unknown` and
/// left out. Only places of schemas are looked at: an argument may be called `type`.
pub(super) fn translate(schema: &mut Value, unknown: &mut impl FnMut(&str)) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::String(kind)) = map.get("type") {
        let kind = kind.clone();
        match read(&kind).keywords {
            Some(read) if read.get("type").is_some_and(|known| *known == kind) => {}
            Some(mut keywords) => {
                match keywords.shift_remove("type") {
                    Some(kind) => map.insert("type".to_owned(), kind),
                    None => map.shift_remove("type"),
                };
                for (key, value) in keywords {
                    map.entry(key).or_insert(value);
                }
            }
            None => {
                unknown(&kind);
                map.shift_remove("type");
            }
        }
    }
    for (key, value) in map.iter_mut() {
        match (&**key, value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(schemas)) => {
                for schema in schemas.values_mut() {
                    translate(schema, unknown);
                }
            }
            ("items" | "anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                for schema in schemas {
                    translate(schema, unknown);
                }
            }
            ("items" | "additionalProperties" | "contains" | "not", schema) => translate(schema, unknown),
            _ => {}
        }
    }
}

/// An argument on its way into an object schema.
#[derive(Debug, Default)]
pub(super) struct Argument<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) description: Option<&'a str>,
    pub(super) default: Option<&'a Value>,
    /// `None`: it is if it has no default and its type does not say otherwise.
    pub(super) required: Option<bool>,
}

/// An object schema in the making.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// Names that came again. The first of each is kept.
    repeated: Vec<String>,
}

impl Arguments {
    pub(super) fn add(&mut self, name: &str, argument: &Argument<'_>, unknown: &mut impl FnMut(&str)) {
        if self.properties.contains_key(name) {
            return self.repeated.push(name.to_owned());
        }
        let kind = argument.kind.unwrap_or_default();
        let Type { keywords, optional } = read(kind);
        if keywords.is_none() {
            unknown(kind);
        }
        let mut property = keywords.unwrap_or_default();
        if let Some(description) = argument.description.filter(|text| !text.is_empty()) {
            property.insert("description".to_owned(), description.into());
        }
        // A default of null is how several sources write that there is none.
        let default = argument.default.filter(|value| !value.is_null());
        if let Some(default) = default {
            property.insert("default".to_owned(), default.clone());
        }
        if argument.required.unwrap_or(default.is_none() && !optional) {
            self.required.push(name.into());
        }
        self.properties.insert(name.to_owned(), property.into());
    }

    /// The schema of the arguments of `tool`.
    pub(super) fn into_schema(self, tool: &str, findings: &mut Findings) -> Value {
        for name in &self.repeated {
            findings.add(Trouble::RepeatedArgument, &format!("{name} of {tool}"));
        }
        let mut schema = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::lines;

    #[test]
    fn types_of_other_languages_become_json_schema() {
        let texts = [
            "str",
            "dict",
            "HashMap",
            "float, optional",
            "str, optional, default='20'",
            "Optional[int]",
            "Optional, x",
            "List[List[int]]",
            "Tuple[float, float]",
            "Tuple[int, str]",
            "Union[int, float]",
            "List[Union[int, str]]",
            "float/int",
            "str | None",
            "Array<String>",
            "Map<String, List<Integer>>",
            "int[]",
            "any",
            "List[Any]",
            "datetime.date",
            "Callable[[float], float]",
            "Quux",
            "optional",
            "",
            "integer",
            "List[",
            "STRING",
        ];
        let read = |text: &&str| {
            let Type { keywords, optional } = read(text);
            let read = keywords.map_or("unknown".to_owned(), |keywords| Value::from(keywords).to_string());
            format!("{text} → {read}{}", if optional { ", optional" } else { "" })
        };
        assert_snapshot!(lines(texts.iter().map(read)));
    }

    #[test]
    fn arguments_may_be_called_like_keywords() {
        let mut schema = json!({"type": "dict", "properties": {
            "type": {"type": "String", "description": "kind"},
            "items": {"type": "tuple", "items": {"type": "float"}},
            "odd": {"type": "Quux", "default": {"type": "dict"}},
            "anything": {"type": "any"}, "plain": "text"}, "required": ["type"]});
        let mut unknown = Vec::new();
        translate(&mut schema, &mut |kind| unknown.push(kind.to_owned()));
        assert_eq!(unknown, ["Quux"]);
        let expected = json!({"type": "object", "properties": {
            "type": {"type": "string", "description": "kind"},
            "items": {"type": "array", "items": {"type": "number"}},
            "odd": {"default": {"type": "dict"}},
            "anything": {}, "plain": "text"}, "required": ["type"]});
        assert_eq!(schema.to_string(), expected.to_string(), "the order of keys stays");
    }

    proptest! {
        #[test]
        fn any_text_is_a_type_or_not(text in any::<String>(), pieces in "(List\\[|Map<|int|, |\\]|>|\\||/|Optional\\[|é|\\[\\]){0,40}") {
            let _ = (read(&text), read(&pieces));
        }
    }
}
