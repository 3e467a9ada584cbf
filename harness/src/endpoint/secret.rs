//! Keys that do not show.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::pieces::joined;
use crate::escapes::{STARS, Unescaped, contains, forms, starred};

/// What is shorter protects nothing, and may well be a word of an ordinary answer.
const SHORTEST: usize = 8;
/// What servers that want no key are given for one. Everybody knows these words, and they occur in what servers say of themselves.
const KNOWN: [&str; 11] = [
    "dummy",
    "empty",
    "lm-studio",
    "no-key",
    "no-key-required",
    "none",
    "not-needed",
    "null",
    "ollama",
    "placeholder",
    "sk-no-key-required",
];
/// The beginning of a key is taken out from this length on: texts are cut anywhere. Shorter ones may say whose key it is and no more.
const BEGINNING: usize = 16;
/// What is longer and holds the key is not searched for the places: a server must not decide how much memory that takes.
const LONGEST: usize = 1 << 20;

/// A key. Prints as `***` however it is printed and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: String,
    /// What to look for in a text without its escapes; nothing for a placeholder.
    ways: Vec<Way>,
}

/// A way of writing a key.
#[derive(Clone, PartialEq, Eq)]
struct Way {
    bytes: Vec<u8>,
    /// So much of its beginning gives it away.
    least: usize,
}

impl Secret {
    /// White space around a key is a slip of whoever pasted it.
    pub fn new(text: &str) -> Self {
        let key = text.trim();
        let is_placeholder = key.len() < SHORTEST || KNOWN.contains(&key.to_lowercase().as_str());
        Self { key: key.to_owned(), ways: if is_placeholder { Vec::new() } else { ways(key) } }
    }

    /// The key itself, for the request header only.
    pub fn expose(&self) -> &str {
        &self.key
    }

    pub fn is_empty(&self) -> bool {
        self.key.is_empty()
    }

    /// It is no secret: fewer than 8 characters, or a word that servers without keys are given. Answers keep it.
    pub fn is_placeholder(&self) -> bool {
        self.ways.is_empty()
    }

    /// Whether the key stands in the text, however it is escaped. A placeholder may stand anywhere.
    pub fn is_in(&self, text: &str) -> bool {
        let holds = |form: &[u8]| self.ways.iter().any(|way| contains(form, &way.bytes[..way.least]));
        !self.is_placeholder() && forms(text).any(|form| holds(&form))
    }

    /// The text without the key: as it is, escaped by JSON or a URL, both of it and again, in base64, cut off behind its first 16
    /// characters, or told in pieces by a stream. One that does not hold it comes back as it was. Of a placeholder only whole words
    /// are taken out.
    pub fn redact(&self, text: &str) -> String {
        if self.is_placeholder() {
            return self.without_word(text);
        }
        let text = self.without_key(text);
        joined(&text, |whole| self.is_in(whole).then(|| self.without_key(whole))).unwrap_or(text)
    }

    fn without_key(&self, text: &str) -> String {
        if !self.is_in(text) {
            return text.to_owned();
        }
        if text.len() > LONGEST {
            return STARS.to_owned();
        }
        let unescaped = Unescaped::of(text);
        let places = self.ways.iter().flat_map(|way| unescaped.runs(&way.bytes, way.least)).collect();
        starred(text, places)
    }

    /// Known words and numbers stay: without them nobody would understand what a server says.
    fn without_word(&self, text: &str) -> String {
        let is_word = KNOWN.contains(&self.key.to_lowercase().as_str());
        if is_word || self.key.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.to_owned();
        }
        let of_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
        let places = text.match_indices(&self.key).map(|(at, found)| at..at + found.len());
        let whole = places.filter(|place| {
            !of_word(text[..place.start].chars().next_back()) && !of_word(text[place.end..].chars().next())
        });
        starred(text, whole.collect())
    }
}

/// The key, the key without escapes of its own, and what base64 makes of it wherever in a text it begins.
fn ways(key: &str) -> Vec<Way> {
    let plain = forms(key).map(|bytes| {
        let least = if bytes.len() >= BEGINNING + SHORTEST { BEGINNING } else { bytes.len() };
        Way { bytes, least }
    });
    let mut ways: Vec<Way> = plain.collect();
    for before in 0..3 {
        let bytes = [&b"..."[..before], key.as_bytes()].concat();
        // Six bits a character; those that also hold bits of a neighbour are left out.
        let (first, last) = ((8 * before).div_ceil(6), 8 * bytes.len() / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            ways.extend(forms(&encoded[first..last]).map(|bytes| Way { least: bytes.len(), bytes }));
        }
    }
    ways.sort_by(|a, b| a.bytes.cmp(&b.bytes));
    ways.dedup();
    ways
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-Zq7/9f3c+2a7be1d84c55=";

    #[test]
    fn a_key_never_shows() {
        let secret = Secret::new(" sk-1\"2345\n");
        assert_eq!(secret.expose(), "sk-1\"2345");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.redact(r#"a sk-1"2345 b sk-1\"2345"#), "a *** b ***");
        assert_eq!(Secret::new("").redact("text"), "text");
        let slashes = Secret::new("ab/cd+efgh");
        for body in [
            r#"{"error": "bad key Bearer ab\/cd+efgh"}"#,
            r#"{"a": ["\u0061b/cd\u002befgh"]}"#,
            r#"{"ab/cd+efgh": 1}"#,
            "see ?key=ab%2Fcd%2Befgh",
            "event: x\ndata: {\"delta\": \"\\u0061b/cd+efgh\"}\n\ndata: [DONE]\n",
            r"text with ab\/cd+efgh",
            r#"{"arguments": "{\"a\": \"\\u0061b\\/cd+efgh\"}"}"#,
            // Whoever reads this as JSON sees only the second field.
            r#"{"a": "ab/cd+efgh", "a": ""}"#,
        ] {
            let redacted = slashes.redact(body);
            assert!(redacted.contains(STARS) && !redacted.contains("efgh"), "{redacted}");
        }
        let untouched = r#"{"a":  "\u0062"}"#;
        assert_eq!(slashes.redact(untouched), untouched);
        let answer = json!({"a": [format!("{KEY}\n"), 1], "b": "c"}).to_string();
        assert_eq!(Secret::new(KEY).redact(&answer), r#"{"a":["***\n",1],"b":"c"}"#);
    }

    #[test]
    fn base64_is_no_hiding_place() {
        let secret = Secret::new(KEY);
        for before in ["", "a", "ab", "Bearer ", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let told = format!("{before}{KEY}{after}");
                for encoded in [STANDARD_NO_PAD.encode(&told), URL_SAFE_NO_PAD.encode(&told)] {
                    let redacted = secret.redact(&format!("basic {encoded}."));
                    assert!(redacted.contains(STARS) && redacted.len() < 30, "{encoded}: {redacted}");
                    let quoted = json!(encoded).to_string().replace('/', "\\/");
                    assert!(secret.redact(&quoted).len() < 30, "{quoted}");
                }
            }
        }
        assert_eq!(secret.redact("c2stWnE3"), "c2stWnE3", "a few characters say nothing");
    }

    #[test]
    fn keys_that_were_cut_are_recognised_by_their_beginning() {
        let secret = Secret::new(KEY);
        assert_eq!(secret.redact(&KEY[..20]), STARS);
        assert_eq!(
            secret.redact(&format!(r#"{{"m": "key {}… is wrong"}}"#, &KEY[..16])),
            r#"{"m": "key ***… is wrong"}"#
        );
        assert_eq!(secret.redact(&KEY[..15]), &KEY[..15]);
        assert_eq!(Secret::new("sk-ant-api03").redact("sk-ant-"), "sk-ant-");
    }

    #[test]
    fn placeholders_maim_nothing() {
        for (key, text) in [
            ("EMPTY", "the box is EMPTY"),
            ("lm-studio", "lm-studio: no such model"),
            ("1", r#"{"code":1,"message":"at most 1"}"#),
            ("token", "the maximum number of tokens"),
        ] {
            let secret = Secret::new(key);
            assert!(secret.is_placeholder() && !secret.is_in(text));
            assert_eq!(secret.redact(text), text);
        }
        assert_eq!(Secret::new("hunter2").redact("hunter2, hunter22 and hunter2"), "***, hunter22 and ***");
        assert!(!Secret::new("hunter22").is_placeholder());
    }

    #[test]
    fn a_long_text_with_the_key_in_it_is_dropped() {
        let secret = Secret::new(KEY);
        let long = "a".repeat(LONGEST);
        assert_eq!(secret.redact(&long), long);
        assert_eq!(secret.redact(&format!("{long}{KEY}")), STARS);
    }

    #[test]
    fn pieces_of_a_stream_do_not_tell_it_together() {
        let event = |text: &str| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}], "id": "c"}));
        let stream = |texts: &[&str]| texts.iter().map(|text| event(text)).collect::<String>() + "data: [DONE]\n\n";
        let told = stream(&["It is ", &KEY[..7], &KEY[7..14], &KEY[14..], "."]);
        assert_eq!(Secret::new(KEY).redact(&told), stream(&["It is ***.", "", "", "", ""]));
        let harmless = stream(&["It ", "is."]);
        assert_eq!(Secret::new(KEY).redact(&harmless), harmless);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_key_is_left_in_any_text(
            key in r#"[a-zA-Z0-9+/"&=_.-]{8,40}"#, before in ".{0,8}", after in ".{0,8}", form in 0..5,
        ) {
            let secret = Secret::new(&key);
            prop_assume!(!secret.is_placeholder());
            let written = match form {
                0 => key.clone(),
                1 => json!(key).to_string(),
                2 => json!(json!(key).to_string()).to_string(),
                3 => key.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat(),
                _ => STANDARD_NO_PAD.encode(&key),
            };
            let redacted = secret.redact(&format!("{before} {written} {after}"));
            prop_assert!(!redacted.contains(&written), "{}", redacted);
            prop_assert!(!secret.is_in(&redacted), "{}", redacted);
        }
    }
}
