//! Parameters that an endpoint refuses, learned from the words in which it does.
//!
//! What was asked for keeps its key in the store; what was sent instead stands beside the answer. So a run that has to learn and
//! one whose profile knew ask for the same things under two keys, but neither hides what the model was given.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::endpoint::{EndpointError, ErrorKind};
use crate::store::log::LogError;
use crate::store::responses::ResponseStore;

const MAX_TOKENS: &str = "max_tokens";
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

/// How a request is sent differently from how it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lesson {
    /// The limit of the answer under its newer name.
    MaxCompletionTokens,
    /// The limit of the answer under its older name.
    MaxTokens,
    /// The model samples as it likes: a temperature of 0 was not had.
    NoTemperature,
    NoSeed,
}

impl Lesson {
    /// What a refusal of this body teaches, if it names one of its parameters.
    pub(super) fn of(error: &EndpointError, body: &Value) -> Option<Self> {
        if error.kind != ErrorKind::BadRequest {
            return None;
        }
        let words = error.message.to_lowercase();
        let sent = |name: &str| body.get(name).is_some();
        let refused = |name: &str| sent(name) && words.contains(name) && says_no(&words);
        if sent(MAX_TOKENS) && words.contains(MAX_COMPLETION_TOKENS) {
            Some(Self::MaxCompletionTokens)
        } else if refused(MAX_COMPLETION_TOKENS) {
            Some(Self::MaxTokens)
        } else if refused("temperature") {
            Some(Self::NoTemperature)
        } else if refused("seed") {
            Some(Self::NoSeed)
        } else {
            None
        }
    }

    /// For the reader of a report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_tokens was sent as max_completion_tokens",
            Self::MaxTokens => "max_completion_tokens was sent as max_tokens",
            Self::NoTemperature => "temperature was left out",
            Self::NoSeed => "seed was left out",
        }
    }

    /// What in a profile saves the refusal.
    pub fn profile_line(self) -> Option<&'static str> {
        match self {
            Self::MaxCompletionTokens => Some("output_limit = \"max_completion_tokens\""),
            Self::MaxTokens => Some("output_limit = \"max_tokens\""),
            Self::NoTemperature => Some("omit_temperature = true"),
            // A seed is set by the experiment.
            Self::NoSeed => None,
        }
    }

    fn apply(self, body: &mut Value) {
        let Some(fields) = body.as_object_mut() else { return };
        let mut rename = |from: &str, to: &str| {
            if let Some(limit) = fields.shift_remove(from) {
                fields.insert(to.to_owned(), limit);
            }
        };
        match self {
            Self::MaxCompletionTokens => rename(MAX_TOKENS, MAX_COMPLETION_TOKENS),
            Self::MaxTokens => rename(MAX_COMPLETION_TOKENS, MAX_TOKENS),
            Self::NoTemperature => drop(fields.shift_remove("temperature")),
            Self::NoSeed => drop(fields.shift_remove("seed")),
        }
    }
}

/// A parameter can also be named because its value is out of range, and leaving it out would hide that.
fn says_no(words: &str) -> bool {
    [
        "unsupported",
        "not support",
        "unrecognized",
        "unknown",
        "unexpected",
        "not permitted",
        "not allowed",
        "extra inputs",
    ]
    .iter()
    .any(|no| words.contains(no))
}

/// The body as it is sent, and the lessons that changed it.
pub(super) fn follow<'b>(lessons: &[Lesson], body: &'b Value) -> (Cow<'b, Value>, Vec<Lesson>) {
    let mut sent = Cow::Borrowed(body);
    let mut followed = Vec::new();
    for lesson in lessons {
        let mut changed = sent.as_ref().clone();
        lesson.apply(&mut changed);
        if changed != *sent {
            sent = Cow::Owned(changed);
            followed.push(*lesson);
        }
    }
    (sent, followed)
}

/// What the answers of a store were given in place of what was asked for.
pub fn lessons(store: &ResponseStore) -> Result<Vec<Lesson>, LogError> {
    let mut all = BTreeSet::new();
    for answer in store.responses() {
        all.extend(answer?.1.lessons);
    }
    Ok(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lesson(message: &str, body: &Value) -> Option<Lesson> {
        let error = EndpointError {
            kind: ErrorKind::BadRequest,
            status: Some(400),
            message: message.to_owned(),
            retry_after_ms: None,
        };
        Lesson::of(&error, body)
    }

    #[test]
    fn a_refusal_teaches_only_of_what_was_sent() {
        let body = json!({"model": "m", "temperature": 0.0, "max_tokens": 5});
        let old = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        let cold = "Unsupported value: 'temperature' does not support 0.0 with this model.";
        assert_eq!(lesson(old, &body), Some(Lesson::MaxCompletionTokens));
        assert_eq!(lesson(cold, &body), Some(Lesson::NoTemperature));
        assert_eq!(lesson("Extra inputs are not permitted: seed", &body), None, "no seed was sent");
        assert_eq!(lesson("temperature must be between 0 and 2", &json!({"temperature": 7})), None, "a wrong value");
        let newer = json!({"max_completion_tokens": 5, "seed": 1});
        assert_eq!(lesson("Unrecognized request argument: max_completion_tokens", &newer), Some(Lesson::MaxTokens));
        assert_eq!(lesson("Unknown field `seed`", &newer), Some(Lesson::NoSeed));
        let overflow = EndpointError {
            kind: ErrorKind::ContextOverflow,
            status: Some(400),
            message: old.to_owned(),
            retry_after_ms: None,
        };
        assert_eq!(Lesson::of(&overflow, &body), None);
    }

    #[test]
    fn only_lessons_that_change_a_request_are_followed() {
        let body = json!({"model": "m", "temperature": 0.0, "max_tokens": 5});
        let all = [Lesson::MaxCompletionTokens, Lesson::NoTemperature, Lesson::NoSeed];
        let (sent, followed) = follow(&all, &body);
        assert_eq!(sent.to_string(), r#"{"model":"m","max_completion_tokens":5}"#);
        assert_eq!(followed, all[..2]);
        assert!(matches!(follow(&[Lesson::NoSeed], &body).0, Cow::Borrowed(_)));
    }
}
