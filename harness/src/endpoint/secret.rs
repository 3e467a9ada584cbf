//! Keys that do not show.

use std::fmt;

use serde_json::Value;

const STARS: &str = "***";

/// A key. Prints as `***` however it is printed and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// White space around a key is a slip of whoever pasted it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The key itself, for the request header only.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with every occurrence of the key replaced, however JSON or a URL has escaped it.
    ///
    /// JSON may escape any character in several ways (`\/`, `\u0073`), so a text that is JSON is read, its strings are
    /// redacted, and it is written again; one that does not hold the key comes back as it was.
    pub fn redact(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        if let Ok(mut value) = serde_json::from_str::<Value>(text) {
            return if self.redact_value(&mut value) { value.to_string() } else { text.to_owned() };
        }
        text.split_inclusive('\n').map(|line| self.redact_line(line)).collect()
    }

    /// A line of what is no JSON as a whole: each event of a stream is a JSON text of its own.
    fn redact_line(&self, line: &str) -> String {
        let Some(mut event) = line.strip_prefix("data:").and_then(|event| serde_json::from_str::<Value>(event).ok())
        else {
            return self.redact_text(line);
        };
        if self.redact_value(&mut event) { format!("data: {event}\n") } else { line.to_owned() }
    }

    fn redact_text(&self, text: &str) -> String {
        let mut text = text.replace(self.expose(), STARS);
        let escaped = Value::from(self.expose()).to_string();
        for form in [escaped.trim_matches('"').to_owned(), escaped.trim_matches('"').replace('/', "\\/"), self.in_url()]
        {
            text = text.replace(&form, STARS);
        }
        text
    }

    /// Percent-encoded, as in a query.
    fn in_url(&self) -> String {
        let encode = |byte: u8| {
            let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        };
        self.expose().bytes().map(encode).collect()
    }

    /// Redacts every string of a value, names of fields included; whether there was anything to redact.
    fn redact_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let redacted = self.redact_text(text);
                let found = redacted != *text;
                *text = redacted;
                found
            }
            Value::Array(items) => items.iter_mut().fold(false, |found, item| self.redact_value(item) | found),
            Value::Object(fields) => {
                let mut found = fields.values_mut().fold(false, |found, item| self.redact_value(item) | found);
                if fields.keys().any(|name| self.redact_text(name) != *name) {
                    let renamed =
                        std::mem::take(fields).into_iter().map(|(name, item)| (self.redact_text(&name), item));
                    *fields = renamed.collect();
                    found = true;
                }
                found
            }
            _ => false,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows() {
        let secret = Secret::new(" sk-1\"2\n");
        assert_eq!(secret.expose(), "sk-1\"2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.redact(r#"a sk-1"2 b sk-1\"2"#), "a *** b ***");
        assert_eq!(Secret::new("").redact("text"), "text");
        let slashes = Secret::new("ab/cd+efgh");
        for body in [
            r#"{"error": "bad key Bearer ab\/cd+efgh"}"#,
            r#"{"a": ["\u0061b/cd\u002befgh"]}"#,
            r#"{"ab/cd+efgh": 1}"#,
            "see ?key=ab%2Fcd%2Befgh",
            "event: x\ndata: {\"delta\": \"\\u0061b/cd+efgh\"}\n\ndata: [DONE]\n",
            r"text with ab\/cd+efgh",
        ] {
            let redacted = slashes.redact(body);
            assert!(redacted.contains(STARS) && !redacted.contains("efgh"), "{redacted}");
        }
        let untouched = r#"{"a":  "\u0062"}"#;
        assert_eq!(slashes.redact(untouched), untouched);
    }
}
