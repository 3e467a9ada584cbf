//! Validation of a call's arguments against the tool's own schema.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::catalogue::Catalogue;
use crate::ids::ToolId;

/// Compiled schemas of a catalogue, each built when it is first needed.
///
/// A schema that does not compile, or that refers outside itself, accepts everything: a host that cannot check lets the call
/// through to the server.
#[derive(Debug)]
pub struct Validators {
    catalogue: Arc<Catalogue>,
    compiled: HashMap<ToolId, OnceLock<Option<Validator>>>,
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
        let compile = || jsonschema::validator_for(&self.catalogue.get(tool)?.input_schema).ok();
        let validator = cell.get_or_init(compile).as_ref()?;
        let mut errors: Vec<_> = validator
            .iter_errors(arguments)
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
