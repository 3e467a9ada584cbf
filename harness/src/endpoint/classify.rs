//! What an answer means. Decided by status and by the words that servers use, never by who the server is.

use std::fmt::Write as _;

use serde_json::Value;

use super::{EndpointError, ErrorKind, Route, WireResponse, plain};
use crate::chat::{ChatReply, ReplyError, error_message};

/// The body of a usable answer: JSON with a first choice (chat) or with `data` (embeddings). Anything else is an error,
/// whatever its status.
pub fn classify(route: Route, response: &WireResponse) -> Result<Value, EndpointError> {
    let WireResponse { status, retry_after_ms, ref body, .. } = *response;
    let fail = |(kind, message): (ErrorKind, String)| EndpointError {
        kind,
        status: Some(status),
        message: plain(&message),
        retry_after_ms,
    };
    let text = body.trim_start_matches('\u{feff}').trim();
    let json = serde_json::from_str::<Value>(text);
    if !(200..300).contains(&status) {
        return Err(fail(refusal(status, text, json.ok().as_ref())));
    }
    match json {
        Ok(json) => match defect(route, &json) {
            None => Ok(json),
            Some(defect) => Err(fail(defect)),
        },
        Err(_) if is_web_page(text) => Err(fail((ErrorKind::Decode, web_page(text)))),
        Err(error) if text.is_empty() || error.is_eof() => {
            let message = format!("the JSON text ends too early, after {} bytes", text.len());
            Err(fail((ErrorKind::Decode, message)))
        }
        Err(error) => Err(fail((ErrorKind::Decode, format!("the answer is no JSON ({error}): {}", plain_start(text))))),
    }
}

/// What is wrong with the body of a success.
fn defect(route: Route, json: &Value) -> Option<(ErrorKind, String)> {
    let error = [&json["error"], &json["choices"][0]["error"]].into_iter().find(|error| !error.is_null());
    if let Some(error) = error {
        let words = Words::read(error);
        let code = words.number.filter(|code| (400..600).contains(code));
        // An error without a code that says nothing familiar is most often a fault behind a gateway.
        let kind = by_words(&words).unwrap_or_else(|| code.map_or(ErrorKind::Server, |code| by_status(code, &words)));
        return Some((kind, format!("the status is a success but the body reports an error: {}", words.message)));
    }
    let missing = |what: &str| (ErrorKind::Decode, format!("{what}: {}", plain_start(&json.to_string())));
    match route {
        Route::Chat => match ChatReply::parse(json) {
            Ok(_) => None,
            Err(ReplyError::ErrorBody { message, .. }) => Some((ErrorKind::Server, message)),
            Err(error @ (ReplyError::NoChoices | ReplyError::NoMessage)) => Some(missing(&error.to_string())),
        },
        Route::Embed if json["data"].as_array().is_some_and(|data| !data.is_empty()) => None,
        Route::Embed => Some(missing("the body has no `data`")),
    }
}

/// What a status other than a success means.
fn refusal(status: u16, text: &str, json: Option<&Value>) -> (ErrorKind, String) {
    let words = match json {
        Some(json) => Words::read(json),
        None if is_web_page(text) => Words::text(&web_page(text)),
        None => Words::text(text),
    };
    let kind = match status {
        // The words decide first, except where a status already says all: a refused key is one whatever it is called.
        401 => ErrorKind::Unauthorized,
        300..=399 => ErrorKind::Redirected,
        _ => by_words(&words).unwrap_or_else(|| by_status(status, &words)),
    };
    let mut message =
        if words.message.is_empty() { format!("status {status} without a word") } else { words.message.clone() };
    if let Some(generation) = &words.failed_generation {
        let _ = write!(message, "; the model wrote: {generation}");
    }
    // Servers that know the path name the model; the others do not know what was asked.
    if status == 404 && !words.has(&["model"]) {
        message += "; check the base URL, most servers want it to end in /v1";
    }
    (kind, message)
}

fn by_status(status: u16, words: &Words) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Unauthorized,
        402 => ErrorKind::QuotaExhausted,
        404 => ErrorKind::ModelNotFound,
        408 => ErrorKind::Timeout,
        413 => ErrorKind::ContextOverflow,
        429 if words.has(&["per day", "perday", "daily", "(tpd)", "(rpd)"]) => ErrorKind::QuotaExhausted,
        425 | 429 => ErrorKind::RateLimited,
        500.. => ErrorKind::Server,
        _ => ErrorKind::BadRequest,
    }
}

/// Phrases by which servers that share no error codes can still be told apart, the most specific first.
fn by_words(words: &Words) -> Option<ErrorKind> {
    const PHRASES: [(ErrorKind, &[&str]); 10] = [
        (
            ErrorKind::Filtered,
            &["content_filter", "content management policy", "content_policy", "responsibleaipolicy"],
        ),
        (
            ErrorKind::ModelError,
            &[
                "tool_use_failed",
                "tool call validation failed",
                "failed to parse input at pos",
                "failed to parse tool call arguments",
                "failed_generation",
            ],
        ),
        (ErrorKind::QuotaExhausted, &["insufficient_quota", "insufficient credits", "insufficient balance"]),
        (
            ErrorKind::ContextOverflow,
            &[
                "context_length",
                "context length",
                "context window",
                "context size",
                "context limit",
                "exceed_context",
                "max_tokens must be at least 1, got -",
                "prompt is too long",
                "input is too long",
                "request too large",
                "maximum number of tokens",
                "reduce the length",
            ],
        ),
        (
            ErrorKind::ToolLimit,
            &[
                "too many tools",
                "maximum number of tools",
                "number of function declarations",
                "failed to parse grammar",
            ],
        ),
        (ErrorKind::Unauthorized, &["invalid_api_key", "api key not valid", "incorrect api key"]),
        (
            ErrorKind::ModelNotFound,
            &["model_not_found", "model not found", "not a valid model", "unknown model", "no models loaded"],
        ),
        (
            ErrorKind::Schema,
            &[
                "invalid_function_parameters",
                "schema conversion failed",
                "error parsing grammar",
                "regex lookaround",
                "didn't specify the schema type",
                "only allowed for string type",
                "invalid schema",
                "invalid json schema",
                "too many states",
                "function_declarations[",
                "tools[",
                "input_schema",
                ".custom.name",
            ],
        ),
        (ErrorKind::RateLimited, &["rate_limit_exceeded", "rate limit exceeded", "too many requests"]),
        (ErrorKind::Server, &["overloaded"]),
    ];
    if words.has(&["array_above_max_length"]) && words.has(&["tools"]) {
        return Some(ErrorKind::ToolLimit);
    }
    let kind = PHRASES.iter().find(|(_, phrases)| words.has(phrases)).map(|&(kind, _)| kind)?;
    // A daily limit is reported under the code of a rate limit.
    Some(if kind == ErrorKind::RateLimited { by_status(429, words) } else { kind })
}

/// What an error body says, in whichever of the usual forms.
struct Words {
    message: String,
    /// Message, codes, types and details in lower case.
    all: String,
    /// A numeric code.
    number: Option<u16>,
    /// What the model wrote, where the server gives that back.
    failed_generation: Option<String>,
}

impl Words {
    fn text(text: &str) -> Self {
        Self { message: text.to_owned(), all: text.to_lowercase(), number: None, failed_generation: None }
    }

    /// Of a body, or of the error in it: an object, a list with one, a text, or a `detail`.
    fn read(json: &Value) -> Self {
        let body = json.get(0).unwrap_or(json);
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let message = error_message(error.get("detail").unwrap_or(error));
        let mut all = message.clone();
        for field in ["code", "type", "param", "status"] {
            if let Some(text) = error[field].as_str() {
                let _ = write!(all, " {text}");
            }
        }
        // Which limit was hit, and what a gateway was told, stand only here.
        for details in [&error["details"], &error["metadata"], &error["innererror"]] {
            if !details.is_null() {
                let _ = write!(all, " {details}");
            }
        }
        let failed_generation = error["failed_generation"].as_str().map(str::to_owned);
        if failed_generation.is_some() {
            all.push_str(" failed_generation");
        }
        let code = &error["code"];
        let number = code.as_u64().and_then(|code| code.try_into().ok()).or_else(|| code.as_str()?.parse().ok());
        Self { message, all: all.to_lowercase(), number, failed_generation }
    }

    fn has(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.all.contains(phrase))
    }
}

fn is_web_page(text: &str) -> bool {
    let start: String = text.chars().take(200).collect::<String>().to_lowercase();
    start.starts_with('<') && ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| start.contains(tag))
}

fn web_page(text: &str) -> String {
    // Lower case in ASCII only, so that offsets hold in the original.
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|tag| {
        let start = tag + lower[tag..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(text[start..end].trim()).filter(|title| !title.is_empty())
    });
    let title = title.map_or_else(String::new, |title| format!(" titled {title:?}"));
    format!("the answer is a web page{title}, not an API's; check the base URL")
}

fn plain_start(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(status: u16, body: &str) -> EndpointError {
        let response = WireResponse { status, retry_after_ms: None, request_id: None, body: body.to_owned() };
        classify(Route::Chat, &response).unwrap_err()
    }

    fn kind(status: u16, body: &Value) -> ErrorKind {
        error(status, &body.to_string()).kind
    }

    #[test]
    fn answers_pass_unchanged() {
        let chat = json!({"choices": [{"message": {"content": "a"}}], "error": null, "x": 1});
        assert_eq!(classify(Route::Chat, &chat.clone().into()).unwrap(), chat);
        let embed = json!({"data": [{"embedding": [0.5]}]});
        assert_eq!(classify(Route::Embed, &embed.clone().into()).unwrap(), embed);
        assert_eq!(classify(Route::Chat, &embed.into()).unwrap_err().kind, ErrorKind::Decode);
        assert_eq!(classify(Route::Embed, &json!({"data": []}).into()).unwrap_err().kind, ErrorKind::Decode);
    }

    #[test]
    fn refusals_are_told_apart_by_their_words() {
        use ErrorKind::{
            BadRequest, ContextOverflow, Filtered, ModelError, ModelNotFound, QuotaExhausted, RateLimited, Schema,
            Server, ToolLimit, Unauthorized,
        };
        let message = |message: &str| json!({"error": {"message": message}});
        let coded = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
        let cases = [
            (400, coded("array_above_max_length", "Invalid 'tools': array too long, at most 128"), ToolLimit),
            (400, coded("array_above_max_length", "Invalid 'messages': array too long"), BadRequest),
            (
                400,
                json!({"error": {"code": 400, "message": "Failed to initialize samplers: failed to parse grammar"}}),
                ToolLimit,
            ),
            (400, message("JSON schema conversion failed: unsupported pattern"), Schema),
            (400, message("JSON schema conversion failed: Pattern must start with '^' and end with '$'"), Schema),
            (400, message("parse: error parsing grammar: unknown escape at \\d"), Schema),
            (400, message("f functionDeclaration parameters.a schema didn't specify the schema type field"), Schema),
            (400, message("function declaration enum only allowed for STRING type"), Schema),
            (400, json!({"error": {"message": "string does not match", "param": "tools[0].function.name"}}), Schema),
            (400, message("max_tokens must be at least 1, got -1072."), ContextOverflow),
            (400, message("This model's maximum context length is 4096 tokens"), ContextOverflow),
            (400, json!({"error": {"type": "exceed_context_size_error", "message": "too big"}}), ContextOverflow),
            (413, json!({}), ContextOverflow),
            (429, coded("rate_limit_exceeded", "Request too large on tokens per minute"), ContextOverflow),
            (400, coded("content_filter", "The response was filtered"), Filtered),
            (403, coded("content_filter", "flagged"), Filtered),
            (400, coded("tool_use_failed", "Failed to call a function"), ModelError),
            (500, message("Failed to parse input at pos 13: <tool>"), ModelError),
            (500, message("Failed to parse tool call arguments as JSON: parse error at line 1"), ModelError),
            (401, message("a key with no context length"), Unauthorized),
            (403, json!({"detail": "no"}), Unauthorized),
            (
                400,
                json!([{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]),
                Unauthorized,
            ),
            (404, message("The model `x` does not exist"), ModelNotFound),
            (400, coded("model_not_found", "x"), ModelNotFound),
            (429, message("slow down"), RateLimited),
            (429, coded("insufficient_quota", "You exceeded your current quota"), QuotaExhausted),
            (429, message("Rate limit reached on requests per day (RPD)"), QuotaExhausted),
            (
                429,
                json!([{"error": {"message": "quota", "details": [{"quotaId": "RequestsPerDay-Free"}]}}]),
                QuotaExhausted,
            ),
            (402, message("pay"), QuotaExhausted),
            (503, message("Loading model"), Server),
            (400, message("the model does not support tools."), BadRequest),
            (422, json!({"detail": [{"loc": ["body", "seed"], "msg": "wrong"}]}), BadRequest),
        ];
        for (status, body, expected) in cases {
            assert_eq!(kind(status, &body), expected, "{status} {body}");
        }
    }

    #[test]
    fn messages_survive_every_form_of_error_body() {
        for body in [
            r#"{"error":{"message":"no luck"}}"#,
            r#"{"error":"no luck"}"#,
            r#"[{"error":{"message":"no luck"}}]"#,
            r#"{"message":"no luck","code":3}"#,
            r#"{"detail":"no luck"}"#,
            r#"{"error":{"message":{"message":"no luck"}}}"#,
            "no luck",
        ] {
            assert_eq!(error(418, body).message, "no luck", "{body}");
        }
        assert_eq!(error(500, "").message, "status 500 without a word");
        let failed = json!({"error": {"code": "tool_use_failed", "message": "m", "failed_generation": "<f>\n{}"}});
        assert_eq!(error(400, &failed.to_string()).message, "m; the model wrote: <f> {}");
    }

    #[test]
    fn a_success_can_be_a_failure() {
        use ErrorKind::{BadRequest, ContextOverflow, Decode, RateLimited, Server};
        let cases = [
            (json!({"error": {"code": 429, "message": "m"}}), RateLimited),
            (json!({"error": {"code": "502", "message": "m"}}), Server),
            (json!({"error": {"code": 400, "message": "m"}}), BadRequest),
            (json!({"error": {"code": 400, "message": "maximum context length"}}), ContextOverflow),
            (json!({"error": "upstream"}), Server),
            (json!({"choices": [{"error": {"code": 429, "message": "m"}, "message": {"content": ""}}]}), RateLimited),
            (json!({"choices": []}), Decode),
            (json!([]), Decode),
            (json!(null), Decode),
        ];
        for (body, expected) in cases {
            assert_eq!(kind(200, &body), expected, "{body}");
        }
        assert_eq!(error(200, "").kind, Decode);
        assert!(error(200, r#"{"choices": [{"mess"#).message.contains("ends too early"));
        assert!(error(200, "data: {}").message.starts_with("the answer is no JSON"));
    }

    #[test]
    fn web_pages_point_at_the_base_url() {
        let page = "<!DOCTYPE html>\n<html><head><TITLE lang=de>Größe İ</TITLE></head></html>";
        let found = error(200, page);
        assert_eq!(found.kind, ErrorKind::Decode);
        assert_eq!(found.message, r#"the answer is a web page titled "Größe İ", not an API's; check the base URL"#);
        assert_eq!(error(502, page).kind, ErrorKind::Server);
        assert!(error(200, "<html><title").message.starts_with("the answer is a web page, not"));
    }

    #[test]
    fn an_unknown_path_hints_at_the_version() {
        assert!(error(404, "404 page not found").message.contains("/v1"));
        assert!(!error(404, r#"{"error":{"message":"model x not found"}}"#).message.contains("/v1"));
    }
}
