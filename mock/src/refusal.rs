//! Why a server does not answer, and the error body that says so, in the form and the words of the servers concerned.

use serde_json::{Value, json};

use crate::dialect::{Errors, SchemaFault};
use crate::fault::ErrorName;
use crate::words::{Words, schema_words};

/// Why there is no good answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    Named(ErrorName),
    UnknownModel(String),
    NoSuchPath(String),
    WrongMethod(&'static str),
    /// Of so many bytes, which are the most.
    TooLarge(usize),
    /// The body is no request.
    Unreadable(String),
    TooManyTools {
        found: usize,
        max: usize,
    },
    ToolsTooBig,
    ToolName {
        index: usize,
        length: usize,
        longest: usize,
    },
    DuplicateName(String),
    Schema(Box<SchemaRefusal>),
    Context {
        prompt: u64,
        output: Option<u64>,
        limit: u64,
    },
    Parameter {
        name: &'static str,
        instead: &'static str,
    },
    Temperature(String),
    StreamOptions,
    NullContent,
    NoReasoning(usize),
    NoSignature {
        index: usize,
        name: String,
    },
    WrongSignature,
    Filtered,
    WrongCall {
        why: String,
        generation: String,
    },
}

/// Where a schema is refused, and for what.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SchemaRefusal {
    /// Of the tool; none for the schema of a `response_format`.
    pub(crate) tool: Option<(usize, String)>,
    pub(crate) fault: SchemaFault,
    /// Keys and indices from the root of the schema.
    pub(crate) place: Vec<Value>,
    /// The value at fault.
    pub(crate) value: Value,
}

impl Refusal {
    /// As in the log.
    pub(crate) fn rule(&self) -> &'static str {
        match self {
            Self::Named(name) => match name {
                ErrorName::RateLimit => "rate_limit",
                ErrorName::DailyQuota => "daily_quota",
                ErrorName::SpentQuota => "spent_quota",
                ErrorName::Server => "server",
                ErrorName::Overloaded => "overloaded",
                ErrorName::Upstream => "upstream",
                ErrorName::Unauthorized => "key",
            },
            Self::UnknownModel(_) => "unknown_models",
            Self::NoSuchPath(_) => "path",
            Self::WrongMethod(_) => "method",
            Self::TooLarge(_) => "body_size",
            Self::Unreadable(_) => "body",
            Self::TooManyTools { .. } => "max_tools",
            Self::ToolsTooBig => "max_tool_bytes",
            Self::ToolName { .. } => "tool_names",
            Self::DuplicateName(_) => "duplicate_names",
            Self::Schema(_) => "refuses_schemas",
            Self::Context { .. } => "context_tokens",
            Self::Parameter { name, .. } => name,
            Self::Temperature(_) => "temperature",
            Self::StreamOptions => "stream_options",
            Self::NullContent => "null_content",
            Self::NoReasoning(_) => "reasoning_content",
            Self::NoSignature { .. } | Self::WrongSignature => "thought_signature",
            Self::Filtered => "filtered_words",
            Self::WrongCall { .. } => "wrong_calls",
        }
    }

    /// Status and body.
    pub(crate) fn answer(&self, errors: Errors) -> (u16, Value) {
        let words = self.words(errors);
        (words.status, words.body(errors))
    }

    fn words(&self, errors: Errors) -> Words {
        match self {
            Self::Named(name) => named(*name, errors),
            Self::UnknownModel(model) => {
                Words::new(404, format!("The model `{model}` does not exist or you do not have access to it."))
                    .code("model_not_found")
            }
            Self::NoSuchPath(path) => Words::new(404, format!("Unknown request URL: {path}.")).code("unknown_url"),
            Self::WrongMethod(takes) => Words::new(405, format!("Not allowed; this path takes {takes}.")),
            Self::TooLarge(most) => Words::new(413, format!("Request body too large, the most are {most} bytes.")),
            Self::Unreadable(why) => Words::new(400, format!("We could not parse the body of your request: {why}.")),
            Self::Schema(refusal) => schema_words(refusal, errors),
            Self::Context { prompt, output, limit } => context(*prompt, *output, *limit, errors),
            Self::TooManyTools { .. } | Self::ToolsTooBig | Self::ToolName { .. } | Self::DuplicateName(_) => {
                self.tools(errors)
            }
            Self::Parameter { .. } | Self::Temperature(_) | Self::StreamOptions => self.parameters(),
            _ => self.messages(),
        }
    }

    fn tools(&self, errors: Errors) -> Words {
        match self {
            Self::TooManyTools { found, max } => Words::new(
                400,
                format!(
                    "Invalid 'tools': array too long. Expected an array with maximum length {max}, but got an array with \
                     length {found} instead."
                ),
            )
            .param("tools")
            .code("array_above_max_length"),
            Self::ToolName { index, .. } if errors == Errors::Gemini => Words::new(
                400,
                format!(
                    "The GenerateContentRequest proto is invalid:\n  * tools[0].function_declarations[{index}].name: \
                     [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, \
                     or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
                ),
            ),
            Self::ToolName { index, length, longest } => {
                let place = format!("tools[{index}].function.name");
                let (code, why) = if length > longest {
                    let expected = format!("Expected a string with maximum length {longest}");
                    let got = format!("but got a string with length {length} instead.");
                    ("string_above_max_length", format!("string too long. {expected}, {got}"))
                } else {
                    let expected = "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.";
                    ("invalid_value", format!("string does not match pattern. {expected}"))
                };
                Words::new(400, format!("Invalid '{place}': {why}")).param(&place).code(code)
            }
            Self::DuplicateName(name) => {
                Words::new(400, format!("tools: Tool names must be unique, `{name}` comes twice.")).param("tools")
            }
            _ => Words::new(400, "Failed to initialize samplers: failed to parse grammar".to_owned()),
        }
    }

    fn parameters(&self) -> Words {
        match self {
            Self::Parameter { name, instead } => {
                let message =
                    format!("Unsupported parameter: '{name}' is not supported with this model. Use '{instead}' instead.");
                Words::new(400, message).param(name).code("unsupported_parameter")
            }
            Self::Temperature(value) => Words::new(
                400,
                format!(
                    "Unsupported value: 'temperature' does not support {value} with this model. Only the default (1) value is \
                     supported."
                ),
            )
            .param("temperature")
            .code("unsupported_value"),
            _ => Words::new(400, "Extra inputs are not permitted, field: 'stream_options'".to_owned())
                .param("stream_options"),
        }
    }

    fn messages(&self) -> Words {
        match self {
            Self::NullContent => Words::new(
                400,
                "Invalid 'content': 'content' field must be a string or an array of objects.".to_owned(),
            ),
            Self::NoReasoning(index) => Words::new(
                400,
                format!("Missing `reasoning_content` field in the assistant message at message index {index}."),
            )
            .code("invalid_request_error"),
            Self::NoSignature { index, name } => Words::new(
                400,
                format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                     correctly. Additional data, function call `default_api:{name}` , position {index}."
                ),
            ),
            Self::WrongSignature => Words::new(400, "Corrupted thought signature.".to_owned()),
            Self::WrongCall { why, generation } => {
                Words::new(400, why.clone()).code("tool_use_failed").with("failed_generation", json!(generation))
            }
            _ => filtered(),
        }
    }
}

fn named(name: ErrorName, errors: Errors) -> Words {
    let gemini = errors == Errors::Gemini;
    match name {
        ErrorName::RateLimit if gemini => {
            Words::new(429, "Resource has been exhausted (e.g. check quota).".to_owned())
        }
        ErrorName::RateLimit => Words::new(
            429,
            "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."
                .to_owned(),
        )
        .kind("requests")
        .code("rate_limit_exceeded"),
        ErrorName::DailyQuota if gemini => {
            let message = "You exceeded your current quota, please check your plan and billing details.";
            let violation = json!({"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                                   "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"});
            let failure =
                json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]});
            let retry = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"});
            Words::new(429, message.to_owned()).with("details", json!([failure, retry]))
        }
        ErrorName::DailyQuota => Words::new(
            429,
            "Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s."
                .to_owned(),
        )
        .kind("requests")
        .code("rate_limit_exceeded"),
        ErrorName::SpentQuota => {
            let message = "You exceeded your current quota, please check your plan and billing details.";
            Words::new(429, message.to_owned()).kind("insufficient_quota").code("insufficient_quota")
        }
        ErrorName::Server => {
            let message = "The server had an error while processing your request.";
            Words::new(500, message.to_owned()).kind("server_error")
        }
        ErrorName::Overloaded => {
            let message = "The engine is currently overloaded, please try again later.";
            Words::new(503, message.to_owned()).kind("server_error")
        }
        ErrorName::Upstream => Words::new(502, "Provider returned error".to_owned())
            .with("metadata", json!({"raw": "upstream connect error", "provider_name": "Mock"})),
        ErrorName::Unauthorized => {
            Words::new(401, "Incorrect API key provided.".to_owned()).code("invalid_api_key")
        }
    }
}

fn context(prompt: u64, output: Option<u64>, limit: u64, errors: Errors) -> Words {
    let length = format!("This model's maximum context length is {limit} tokens");
    let asked = prompt + output.unwrap_or(0);
    match errors {
        // What is left for the output goes into a check of its own.
        Errors::Vllm if output.is_none() => {
            let left = i128::from(limit) - i128::from(prompt);
            Words::new(400, format!("max_tokens must be at least 1, got {left}."))
        }
        Errors::LlamaCpp => {
            let message = format!("request ({asked} tokens) exceeds the available context size ({limit} tokens)");
            Words::new(400, message)
                .kind("exceed_context_size_error")
                .with("n_prompt_tokens", json!(prompt))
                .with("n_ctx", json!(limit))
        }
        _ => {
            let parts = format!("({prompt} in the messages, {} in the completion)", output.unwrap_or(0));
            let message = format!("{length}. However, you requested {asked} tokens {parts}. Please reduce the length.");
            Words::new(400, message).param("messages").code("context_length_exceeded")
        }
    }
}

fn filtered() -> Words {
    let results =
        json!({"hate": {"filtered": false, "severity": "safe"}, "violence": {"filtered": true, "severity": "high"}});
    Words::new(
        400,
        "The response was filtered due to the prompt triggering the content management policy. Please modify your prompt and \
         retry."
            .to_owned(),
    )
    .no_kind()
    .param("prompt")
    .code("content_filter")
    .with("innererror", json!({"code": "ResponsibleAIPolicyViolation", "content_filter_result": results}))
}
