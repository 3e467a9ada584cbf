//! Values of a configuration that must not show, and texts without them.

use std::fmt;

use harness::endpoint::Secret;
use serde_json::Value;

/// Shortest value that is taken out of what is shown: shorter ones (`true`, `8080`) are no keys, and would make messages unreadable.
const SHOWN: usize = 6;
/// Shortest value that is taken out of what is stored, where a chance match would change somebody's words.
const STORED: usize = 8;
/// Words in the name of a variable that holds a key.
const KEY_NAMES: [&str; 7] = ["key", "token", "secret", "pass", "auth", "cred", "cookie"];

/// Values that must not show.
#[derive(Clone, Default)]
pub struct Secrets {
    shown: Vec<Secret>,
    stored: Vec<Secret>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.shown.len())
    }
}

impl Secrets {
    /// A value that is a key wherever it occurs: a header, or what came from the environment.
    pub(super) fn add_key(&mut self, value: &str) {
        // A scheme precedes the key in many headers, and a server that repeats one may leave it out.
        for part in [value, value.rsplit(' ').next().unwrap_or(value)] {
            self.add(part, true);
        }
    }

    /// A value of `env`: a key if its name says so, else something that need not be shown.
    pub(super) fn add_variable(&mut self, name: &str, value: &str) {
        let name = name.to_lowercase();
        self.add(value, KEY_NAMES.iter().any(|word| name.contains(word)));
    }

    /// The parts of a URL that may hold credentials.
    pub(super) fn add_url(&mut self, url: &str) {
        let (before, query) = url.split_once('?').unwrap_or((url, ""));
        self.add(query, false);
        for pair in query.split('&') {
            self.add_key(pair.split_once('=').map_or(pair, |(_, value)| value));
        }
        let authority = before.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@') {
            self.add(user, true);
            self.add_key(user.split_once(':').map_or(user, |(_, password)| password));
        }
    }

    fn add(&mut self, value: &str, is_key: bool) {
        let secret = Secret::new(value);
        let length = secret.expose().chars().count();
        for (list, least, wanted) in [(&mut self.shown, SHOWN, true), (&mut self.stored, STORED, is_key)] {
            if wanted && length >= least && !list.contains(&secret) {
                list.push(secret.clone());
                // The longest first: one key may be part of another.
                list.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
            }
        }
    }

    /// A text that may be shown.
    pub fn redact(&self, text: &str) -> String {
        self.shown.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    /// Takes keys out of what will be stored; whether there were any.
    pub(super) fn redact_value(&self, value: &mut Value) -> bool {
        if self.stored.is_empty() {
            return false;
        }
        let text = value.to_string();
        let redacted = self.stored.iter().fold(text.clone(), |text, secret| secret.redact(&text));
        if redacted == text {
            return false;
        }
        // Redacting JSON yields JSON; a text that were none would not be what was asked for.
        *value = serde_json::from_str(&redacted).unwrap_or(Value::Null);
        true
    }

    pub(super) fn redact_text(&self, text: &mut String) {
        *text = self.stored.iter().fold(std::mem::take(text), |text, secret| secret.redact(&text));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_taken_out_and_words_are_left() {
        let mut secrets = Secrets::default();
        secrets.add_key("Bearer sk-12345678");
        secrets.add_variable("API_KEY", "abcd-efgh");
        secrets.add_variable("REGION", "us-east-1");
        secrets.add_variable("DEBUG", "true");
        secrets.add_url("https://me:hunter2222@host/mcp?api_key=zzzzzzzz&v=1");
        assert_eq!(
            secrets.redact("true sk-12345678 abcd-efgh us-east-1 hunter2222 me:hunter2222@ zzzzzzzz"),
            "true *** *** *** *** ***@ ***"
        );
        let mut value = json!({"b": "in us-east-1 with abcd-efgh", "a": ["sk-12345678", true]});
        assert!(secrets.redact_value(&mut value));
        assert_eq!(value.to_string(), r#"{"b":"in us-east-1 with ***","a":["***",true]}"#);
        assert!(!secrets.redact_value(&mut json!({"a": "us-east-1"})));
        assert_eq!(format!("{secrets:?}").find("abcd"), None);
    }
}
