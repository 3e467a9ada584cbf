//! Error bodies: one set of words in the forms that servers give it.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::dialect::{Errors, SchemaFault};
use crate::refusal::SchemaRefusal;

/// What an error says, whatever its form.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) status: u16,
    message: String,
    kind: Option<&'static str>,
    param: Option<String>,
    code: Option<&'static str>,
    /// Fields beside these.
    more: Map<String, Value>,
}

impl Words {
    pub(crate) fn new(status: u16, message: String) -> Self {
        let kind = Some("invalid_request_error");
        Self { status, message, kind, param: None, code: None, more: Map::new() }
    }

    pub(crate) fn kind(self, kind: &'static str) -> Self {
        Self { kind: Some(kind), ..self }
    }

    pub(crate) fn no_kind(self) -> Self {
        Self { kind: None, ..self }
    }

    pub(crate) fn param(self, param: &str) -> Self {
        Self { param: Some(param.to_owned()), ..self }
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    /// The body in the form of a server.
    pub(crate) fn body(&self, errors: Errors) -> Value {
        let Self { status, message, kind, param, code, more } = self;
        let error = match errors {
            Errors::Openai | Errors::Azure | Errors::Deepseek | Errors::Groq | Errors::Ollama => {
                json!({"message": message, "type": kind, "param": param, "code": code})
            }
            Errors::Vllm => json!({"message": message, "type": vllm_type(*status), "param": param, "code": status}),
            Errors::LlamaCpp => json!({"code": status, "message": message, "type": kind}),
            Errors::Openrouter => json!({"message": message, "code": status}),
            Errors::Gemini => json!({"code": status, "message": message, "status": google_status(*status)}),
            Errors::LmStudio => return json!({"error": message}),
        };
        let mut error = match error {
            Value::Object(error) => error,
            other => unreachable!("{other} is an object in every form"),
        };
        error.extend(more.clone());
        if errors == Errors::Gemini { json!([{"error": error}]) } else { json!({"error": error}) }
    }
}

fn vllm_type(status: u16) -> &'static str {
    match status {
        400 => "BadRequestError",
        404 => "NotFoundError",
        429 => "RateLimitError",
        _ => "InternalServerError",
    }
}

fn google_status(status: u16) -> &'static str {
    match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

/// How servers speak of a schema that they refuse.
pub(crate) fn schema_words(refusal: &SchemaRefusal, errors: Errors) -> Words {
    match errors {
        Errors::Gemini => Words::new(400, google_schema(refusal)),
        Errors::LlamaCpp if refusal.fault == SchemaFault::UnanchoredPattern => {
            Words::new(400, "JSON schema conversion failed:\nPattern must start with '^' and end with '$'".to_owned())
        }
        // The same words as for a grammar that is too large: that server says no more.
        Errors::LlamaCpp => Words::new(400, "Failed to initialize samplers: failed to parse grammar".to_owned()),
        _ => openai_schema(refusal),
    }
}

fn openai_schema(refusal: &SchemaRefusal) -> Words {
    let SchemaRefusal { tool, fault, place, value } = refusal;
    let path = place.iter().fold("$".to_owned(), |path, step| format!("{path}.{}", step_name(step)));
    let why = match fault {
        SchemaFault::LookAround => {
            let message = format!("Invalid JSON schema: regex lookaround is not supported. Found at {path}.");
            return Words::new(400, message).code("invalid_function_parameters");
        }
        SchemaFault::ClassEscape | SchemaFault::UnanchoredPattern | SchemaFault::BigRepeat => {
            format!("pattern {value} is not supported.")
        }
        SchemaFault::RootUnion => {
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at \
                                   the top level."
                .to_owned()
        }
        SchemaFault::MissingProperties => "object schema missing properties.".to_owned(),
        SchemaFault::MissingItems => "array schema missing items.".to_owned(),
        SchemaFault::OtherEnum => format!("{value} is not of type 'string'."),
        SchemaFault::UntypedBranch => "schema must have a 'type' key.".to_owned(),
    };
    let context = match fault {
        SchemaFault::RootUnion => String::new(),
        _ => format!("In context=({}), ", place.iter().map(quoted).collect::<Vec<_>>().join(", ")),
    };
    match tool {
        Some((index, name)) => Words::new(400, format!("Invalid schema for function '{name}': {context}{why}"))
            .param(&format!("tools[{index}].function.parameters"))
            .code("invalid_function_parameters"),
        None => Words::new(400, format!("Invalid schema for response_format: {context}{why}")).param("response_format"),
    }
}

fn step_name(step: &Value) -> String {
    step.as_str().map_or_else(|| step.to_string(), str::to_owned)
}

fn quoted(step: &Value) -> String {
    format!("'{}'", step_name(step))
}

/// As from a server that reads schemas into messages of its own, whose fields are numbered.
fn google_schema(refusal: &SchemaRefusal) -> String {
    let SchemaRefusal { tool, fault, place, value } = refusal;
    let mut path = match tool {
        Some((index, _)) => format!("tools[0].function_declarations[{index}].parameters"),
        None => "generation_config.response_schema".to_owned(),
    };
    let mut steps = place.iter();
    while let Some(step) = steps.next() {
        match step {
            Value::String(key) if key == "properties" => {
                // Properties are a list of pairs there; a name stands for the number that only that server knows.
                let name = steps.next().map(step_name).unwrap_or_default();
                let _ = write!(path, ".properties[{name}].value");
            }
            Value::String(key) if key == "anyOf" => path.push_str(".any_of"),
            Value::String(key) => {
                let _ = write!(path, ".{key}");
            }
            index => {
                let _ = write!(path, "[{index}]");
            }
        }
    }
    match fault {
        SchemaFault::OtherEnum => format!("Invalid value at '{path}' (TYPE_STRING), {value}"),
        SchemaFault::UntypedBranch => {
            format!(
                "Invalid value at '{path}.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type), \"\""
            )
        }
        SchemaFault::MissingItems => format!("* GenerateContentRequest.{path}.items: missing field.\n"),
        SchemaFault::MissingProperties => {
            format!("* GenerateContentRequest.{path}.properties: should be non-empty for OBJECT type\n")
        }
        SchemaFault::LookAround
        | SchemaFault::ClassEscape
        | SchemaFault::UnanchoredPattern
        | SchemaFault::BigRepeat
        | SchemaFault::RootUnion => format!("Invalid value at '{path}', {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_in_the_form_of_each_server() {
        let words = Words::new(400, "no".to_owned()).param("p").code("c").with("extra", json!(1));
        for (errors, expected) in [
            (
                Errors::Openai,
                json!({"error": {"message": "no", "type": "invalid_request_error", "param": "p", "code": "c", "extra": 1}}),
            ),
            (
                Errors::Vllm,
                json!({"error": {"message": "no", "type": "BadRequestError", "param": "p", "code": 400, "extra": 1}}),
            ),
            (
                Errors::LlamaCpp,
                json!({"error": {"code": 400, "message": "no", "type": "invalid_request_error", "extra": 1}}),
            ),
            (
                Errors::Gemini,
                json!([{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT", "extra": 1}}]),
            ),
            (Errors::Openrouter, json!({"error": {"message": "no", "code": 400, "extra": 1}})),
            (Errors::LmStudio, json!({"error": "no"})),
        ] {
            assert_eq!(words.body(errors), expected, "{errors:?}");
        }
    }

    #[test]
    fn places_in_a_schema_are_named_as_each_server_does() {
        let refusal = SchemaRefusal {
            tool: Some((3, "find".to_owned())),
            fault: SchemaFault::OtherEnum,
            place: vec![json!("properties"), json!("size"), json!("anyOf"), json!(1), json!("enum"), json!(0)],
            value: json!(4),
        };
        let message = |refusal: &SchemaRefusal, errors| schema_words(refusal, errors).message;
        assert_eq!(
            message(&refusal, Errors::Gemini),
            "Invalid value at 'tools[0].function_declarations[3].parameters.properties[size].value.any_of[1].enum[0]' \
             (TYPE_STRING), 4"
        );
        assert_eq!(
            message(&refusal, Errors::Openai),
            "Invalid schema for function 'find': In context=('properties', 'size', 'anyOf', '1', 'enum', '0'), 4 is not of \
             type 'string'."
        );
        let refusal = SchemaRefusal { tool: None, fault: SchemaFault::LookAround, ..refusal };
        assert_eq!(
            message(&refusal, Errors::Openai),
            "Invalid JSON schema: regex lookaround is not supported. Found at $.properties.size.anyOf.1.enum.0."
        );
    }
}
