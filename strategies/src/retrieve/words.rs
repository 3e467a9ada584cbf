//! Text to words, the way a catalogue is indexed and a query is read.
//!
//! A word is a run of ASCII letters and digits, or one CJK character. With `split`, `listOpenIssues2` also yields `list`,
//! `open`, `issues` and `2`: boundaries are case changes and changes between letters and digits, and a word that splits still
//! yields itself whole.

use rust_stemmers::{Algorithm, Stemmer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Words too common in requests and descriptions to tell tools apart: first the English list of Lucene, then words of requests. Fixed:
/// results name the lists.
const STOP_WORDS: [&str; 53] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
    "i", "me", "my", "you", "your", "can", "could", "would", "please", "what", "how", "do", "does", "did", "have",
    "has", "from", "about", "need", "want",
];
const LUCENE: usize = 33;

/// What a word is, before it is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A run of ASCII letters and digits, or one CJK character.
    #[default]
    Ascii,
    /// A run of two or more letters, digits or `_` of any script: `\w\w+`, as the library bm25s has it.
    WordCharacters,
}

/// Which words are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWords {
    None,
    /// The 33 of Lucene's English list.
    Lucene,
    /// Those and 20 words of requests.
    #[default]
    Requests,
}

impl StopWords {
    fn list(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Lucene => &STOP_WORDS[..LUCENE],
            Self::Requests => &STOP_WORDS,
        }
    }
}

/// How text becomes words. Results move by several points with these, so every report prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WordSettings {
    pub unit: Unit,
    /// Split at case changes and between letters and digits.
    pub split: bool,
    pub stop_words: StopWords,
    /// Snowball stemmer for English.
    pub stem: bool,
}

impl Default for WordSettings {
    fn default() -> Self {
        Self { unit: Unit::Ascii, split: true, stop_words: StopWords::Requests, stem: false }
    }
}

/// The words of a text in their order, with repetitions.
pub fn words(text: &str, settings: WordSettings) -> Vec<String> {
    let stemmer = settings.stem.then(|| Stemmer::create(Algorithm::English));
    let mut out = Vec::new();
    let mut push = |word: &str| {
        let lower = word.to_lowercase();
        if settings.stop_words.list().contains(&lower.as_str()) {
            return;
        }
        out.push(match &stemmer {
            Some(stemmer) => stemmer.stem(&lower).into_owned(),
            None => lower,
        });
    };
    for word in raw_words(text, settings.unit) {
        if settings.split {
            let parts = split_word(word);
            if parts.len() > 1 {
                for part in parts {
                    push(part);
                }
            }
        }
        push(word);
    }
    out
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

fn raw_words(text: &str, unit: Unit) -> impl Iterator<Item = &str> {
    let within = move |c: char| match unit {
        Unit::Ascii => c.is_ascii_alphanumeric(),
        Unit::WordCharacters => c.is_alphanumeric() || c == '_',
    };
    let alone = move |c: char| unit == Unit::Ascii && is_cjk(c);
    let mut rest = text;
    let runs = std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !within(c) && !alone(c));
        let first = rest.chars().next()?;
        let end = if alone(first) { first.len_utf8() } else { rest.find(|c: char| !within(c)).unwrap_or(rest.len()) };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    });
    runs.filter(move |word| unit == Unit::Ascii || word.chars().nth(1).is_some())
}

/// `HTTPServer2` → `HTTP`, `Server`, `2`.
fn split_word(word: &str) -> Vec<&str> {
    let bytes = word.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        let (before, here) = (bytes[at - 1], bytes[at]);
        let next_is_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let boundary = before.is_ascii_digit() != here.is_ascii_digit()
            || (before.is_ascii_lowercase() && here.is_ascii_uppercase())
            || (before.is_ascii_uppercase() && here.is_ascii_uppercase() && next_is_lower);
        if boundary {
            parts.push(&word[start..at]);
            start = at;
        }
    }
    parts.push(&word[start..]);
    parts
}

/// The words of a name with blanks between them: `listOpenIssues` → `list Open Issues`.
pub fn name_words(name: &str) -> String {
    raw_words(name, Unit::Ascii).flat_map(split_word).collect::<Vec<_>>().join(" ")
}

/// Names and descriptions of every property of a schema, nested ones and `$defs` included, in document order.
///
/// Arguments may be called `properties` or `description`: names are taken from the keys of `properties` objects only, and
/// descriptions from schemas only.
pub fn schema_text(schema: &Value) -> String {
    let mut out = String::new();
    collect(schema, &mut out, 0);
    out
}

/// Deeper schemas exist only in hostile catalogues.
const MAX_DEPTH: usize = 64;

fn collect(schema: &Value, out: &mut String, depth: usize) {
    let Some(fields) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return };
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(entries)) => {
                for (name, property) in entries {
                    if key == "properties" {
                        out.push(' ');
                        out.push_str(name);
                        if let Some(description) = property.get("description").and_then(Value::as_str) {
                            out.push(' ');
                            out.push_str(description);
                        }
                    }
                    collect(property, out, depth + 1);
                }
            }
            ("items" | "additionalProperties" | "not", value) => collect(value, out, depth + 1),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                for schema in schemas {
                    collect(schema, out, depth + 1);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_split_and_stay_whole() {
        let all = WordSettings { stop_words: StopWords::None, ..WordSettings::default() };
        assert_eq!(words("listOpenIssues2", all), ["list", "open", "issues", "2", "listopenissues2"]);
        assert_eq!(words("HTTPServer v2", all), ["http", "server", "httpserver", "v", "2", "v2"]);
        assert_eq!(words("drive_search-files", all), ["drive", "search", "files"]);
        assert_eq!(name_words("drive_listOpenIssues2"), "drive list Open Issues 2");
        assert_eq!(words("发送 mail", all), ["发", "送", "mail"]);
        assert_eq!(words("Größe", all), ["gr", "e"], "runs of ASCII: as the reference counts");
        let bm25s =
            WordSettings { unit: Unit::WordCharacters, split: false, stop_words: StopWords::Lucene, stem: false };
        assert_eq!(words("The Größe of a_b, I: x (ID 发送) you", bm25s), ["größe", "a_b", "id", "发送", "you"]);
    }

    #[test]
    fn stop_words_go_and_stems_stay() {
        assert_eq!(words("Could you send the emails", WordSettings::default()), ["send", "emails"]);
        let stemmed = WordSettings { stem: true, ..WordSettings::default() };
        assert_eq!(words("sending emails", stemmed), ["send", "email"]);
        assert_eq!(STOP_WORDS.len(), 53);
    }

    #[test]
    fn schemas_yield_names_and_descriptions_at_any_depth() {
        let schema = json!({"type": "object", "description": "root is not a property", "properties": {
            "properties": {"type": "string", "description": "an argument named like a keyword"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"id": {"description": "of it"}}}},
            "either": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/x"}]}},
            "$defs": {"x": {"properties": {"deep": {}}}}});
        assert_eq!(schema_text(&schema), " properties an argument named like a keyword list id of it either deep");
    }

    proptest! {
        #[test]
        fn any_text_has_words_without_panic(text in "\\PC{0,80}") {
            for unit in [Unit::Ascii, Unit::WordCharacters] {
                for word in words(&text, WordSettings { unit, ..WordSettings::default() }) {
                    prop_assert!(!word.is_empty());
                }
            }
        }
    }
}
