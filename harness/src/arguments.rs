//! Validation of a call's arguments against the tool's own schema.

mod cost;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::catalogue::Catalogue;
use crate::ids::ToolId;

pub use cost::MOST_CHECKS;

/// Checks of a whole call, up to which every mistake is looked for. Beyond it only whether there is one: each mistake found is
/// kept until all are, and nobody reads a million.
const EVERY_MISTAKE: u64 = 200_000;
/// Steps back that a pattern may take over one text. Those that look ahead or behind are tried by backtracking, which a text can
/// make last for years.
const STEPS_BACK: usize = 50_000;

/// Compiled schemas of a catalogue, each built when it is first needed.
///
/// A schema that does not compile, or that refers outside itself, accepts everything: a host that cannot check lets the call
/// through to the server. One that [expands to too much](checked_in_part) is checked without the references that do it.
#[derive(Debug)]
pub struct Validators {
    catalogue: Arc<Catalogue>,
    compiled: HashMap<ToolId, OnceLock<Option<Compiled>>>,
}

/// A schema ready to check with.
#[derive(Debug)]
struct Compiled {
    validator: Validator,
    /// Checks per part of the arguments, at most.
    checks: u64,
}

impl Compiled {
    fn new(schema: &Value) -> Option<Self> {
        let priced = cost::priced(schema);
        let patterns = PatternOptions::fancy_regex().backtrack_limit(STEPS_BACK);
        let options = jsonschema::options().with_pattern_options(patterns);
        let validator = options.build(priced.instead.as_ref().unwrap_or(schema)).ok()?;
        Some(Self { validator, checks: priced.checks })
    }
}

/// Whether the schema expands to more than [`MOST_CHECKS`], so that arguments are checked without some of its references.
pub fn checked_in_part(schema: &Value) -> bool {
    cost::priced(schema).instead.is_some()
}

/// Values in a value, itself among them.
fn parts(value: &Value) -> u64 {
    match value {
        Value::Array(values) => 1 + values.iter().map(parts).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(parts).sum::<u64>(),
        _ => 1,
    }
}

impl Validators {
    pub fn new(catalogue: Arc<Catalogue>) -> Self {
        let compiled = catalogue.tools.iter().map(|tool| (tool.id.clone(), OnceLock::new())).collect();
        Self { catalogue, compiled }
    }

    /// What is wrong with the arguments, in the words a host would send back; `None` if nothing is.
    pub fn check(&self, tool: &ToolId, arguments: &Value) -> Option<String> {
        if !arguments.is_object() {
            return Some("the arguments must be a JSON object".to_owned());
        }
        let cell = self.compiled.get(tool)?;
        let compile = || Compiled::new(&self.catalogue.get(tool)?.input_schema);
        let Compiled { validator, checks } = cell.get_or_init(compile).as_ref()?;
        if checks.saturating_mul(parts(arguments)) > EVERY_MISTAKE {
            return (!validator.is_valid(arguments)).then(|| "the arguments do not fit the tool's schema".to_owned());
        }
        let mut errors: Vec<_> = validator
            .iter_errors(arguments)
            // What could not be decided is no mistake.
            .filter(|error| !matches!(error.kind(), ValidationErrorKind::BacktrackLimitExceeded { .. }))
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
                format!("{place}{error}")
            })
            .take(3)
            .collect();
        errors.sort();
        (!errors.is_empty()).then(|| bounded(&errors.join("; ")))
    }
}

/// Error texts echo what the model wrote; a bound keeps a runaway argument from filling the next prompt.
fn bounded(text: &str) -> String {
    const MAX_CHARS: usize = 600;
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_CHARS).chain(['…']).collect()
}

/// Parses raw arguments: blank is `{}`; what is no JSON comes back as its text.
pub fn parse(raw: &str) -> Result<Value, String> {
    if raw.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_str(raw).map_err(|error| format!("the arguments are not valid JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalogue::{Annotations, Tool};

    fn check(schema: Value, arguments: &Value) -> Option<String> {
        let id = ToolId::new("s", "t");
        let tool = Tool {
            id: id.clone(),
            description: String::new(),
            input_schema: schema,
            annotations: Annotations::default(),
            core: false,
            tags: Vec::new(),
        };
        let catalogue = Catalogue::new(Vec::new(), vec![tool], Vec::new()).unwrap();
        Validators::new(Arc::new(catalogue)).check(&id, arguments)
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let schema = json!({"type": "object", "required": ["id"], "properties": {
            "id": {"type": "string"}, "opts": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
        assert_eq!(check(schema.clone(), &json!({"id": "x"})), None);
        assert_eq!(check(schema.clone(), &json!({})).unwrap(), r#""id" is a required property"#);
        let nested = check(schema.clone(), &json!({"id": "x", "opts": {"n": "2"}})).unwrap();
        assert!(nested.starts_with("/opts/n: "), "{nested}");
        assert_eq!(check(schema, &json!([])).unwrap(), "the arguments must be a JSON object");
    }

    #[test]
    fn schemas_that_cannot_be_checked_let_calls_through() {
        for schema in [json!({"type": 7}), json!({"$ref": "https://example.invalid/schema.json"})] {
            assert_eq!(check(schema, &json!({"a": 1})), None);
        }
    }

    /// Without a bound: 2³¹ checks, and as many mistakes in memory.
    #[test]
    fn a_schema_that_doubles_is_checked_in_part() {
        let definitions: Map<_, _> = (0..31)
            .map(|index| {
                let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
                (
                    format!("d{index}"),
                    if index == 30 { json!({"type": "string"}) } else { json!({"allOf": [next, next]}) },
                )
            })
            .collect();
        let schema = json!({"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
        assert!(checked_in_part(&schema));
        assert_eq!(check(schema.clone(), &json!({"x": 7})), None);
        assert_eq!(check(schema, &json!({})).unwrap(), r#""x" is a required property"#);
        assert!(!checked_in_part(&json!({"type": "object", "properties": {"x": {"$ref": "#"}}})));
    }

    #[test]
    fn many_parts_are_told_right_from_wrong() {
        let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}}});
        let list = |last: Value| {
            let mut list = vec![json!(1); 200_000];
            list.push(last);
            json!({"l": list})
        };
        assert_eq!(check(schema.clone(), &list(json!(1))), None);
        assert_eq!(check(schema, &list(json!("1"))).unwrap(), "the arguments do not fit the tool's schema");
    }

    #[test]
    fn numbers_of_any_size_and_patterns_that_never_end_are_no_trouble() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "array", "minItems": 9_000_000_000_000_000_u64},
            "s": {"type": "string", "minLength": 9_000_000_000_000_000_u64},
            "p": {"type": "string", "pattern": "^(a|a)*\\1b"}}});
        assert!(check(schema.clone(), &json!({"a": [1]})).is_some());
        assert!(check(schema.clone(), &json!({"s": "x"})).is_some());
        assert_eq!(check(schema, &json!({"p": "a".repeat(60)})), None, "undecided, so let through");
    }

    #[test]
    fn arguments_named_like_keywords_are_plain_arguments() {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"type": {"type": "string"}, "properties": {"type": "array"}, "$ref": {"type": "string"}}});
        assert_eq!(check(schema, &json!({"type": "a", "properties": [], "$ref": "b"})), None);
    }

    #[test]
    fn raw_arguments_are_read() {
        assert_eq!(parse("  ").unwrap(), json!({}));
        assert_eq!(parse(r#"{"a":1}"#).unwrap(), json!({"a": 1}));
        assert!(parse("{a").unwrap_err().starts_with("the arguments are not valid JSON"));
    }
}
