//! Values of a configuration that must not show, and texts without them.
//!
//! Every value of `env` and `headers` counts as a key, and so does what comes from the environment, the credentials of a URL, and
//! whatever looks like a key. Texts for people are shown without them. What a server lists is never altered, for it is what will
//! be measured: a definition that holds a key is refused.

use std::fmt;

use harness::escapes::{Unescaped, contains, forms, starred};
use serde_json::Value;

use super::pieces::{Rank, is_key_name, ranked, ranked_url};

/// From how many characters on the beginning of a key is taken out of the end of a text: the text may be cut there.
const BEGINNING: usize = 4;
/// Flags whose value is a variable or a header.
const VARIABLES: [&str; 2] = ["-e", "--env"];
const HEADERS: [&str; 3] = ["-H", "--header", "--headers"];

/// Values that must not show.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Hidden>);

#[derive(Clone, PartialEq, Eq)]
struct Hidden {
    /// Where the configuration has it: `env.NAME`, `headers.NAME`, `NAME` for the environment, `url`, `args`.
    of: String,
    /// The value, and what is left of it without escapes.
    forms: Vec<Vec<u8>>,
    rank: Rank,
    length: usize,
}

impl Hidden {
    fn is_hidden(&self) -> bool {
        self.rank.hidden_from().is_some_and(|least| self.length >= least)
    }

    fn is_refused(&self) -> bool {
        self.rank.refused_from().is_some_and(|least| self.length >= least)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// A value that must not show, where something is to be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found<'a> {
    /// What the configuration calls it.
    pub(super) of: &'a str,
    /// Where it is, as a JSON pointer.
    pub(super) at: String,
}

impl Secrets {
    /// A variable that a server is given.
    pub(super) fn add_variable(&mut self, name: &str, value: &str) {
        let rank = if is_key_name(name) { Rank::Key } else { Rank::Setting };
        self.add(&format!("env.{name}"), ranked(value, rank));
    }

    pub(super) fn add_header(&mut self, name: &str, value: &str) {
        self.add(&format!("headers.{name}"), ranked(value, Rank::Key));
    }

    /// A variable of our own environment that the configuration refers to.
    pub(super) fn add_environment(&mut self, name: &str, value: &str) {
        self.add(name, ranked(value, Rank::Key));
    }

    pub(super) fn add_url(&mut self, url: &str) {
        self.add("url", ranked_url(url));
    }

    /// A word of the configuration that is a key only by mistake.
    pub(super) fn add_word(&mut self, of: &str, word: &str) {
        self.add(of, ranked(word, Rank::Word));
    }

    /// A command line: keys by what they look like or by the flag before them.
    pub(super) fn add_arguments<'a>(&mut self, arguments: impl IntoIterator<Item = &'a String>) {
        let mut flag = "";
        for argument in arguments {
            self.add_word("args", argument);
            let pair = |between: char| argument.split_once(between);
            if let Some((name, value)) = pair('=').filter(|_| VARIABLES.contains(&flag)) {
                self.add_variable(name, value);
            } else if let Some((name, value)) = pair(':').filter(|_| HEADERS.contains(&flag)) {
                self.add_header(name, value);
            } else if flag.starts_with('-') && is_key_name(flag) && !argument.starts_with('-') {
                self.add(&format!("args.{}", flag.trim_start_matches('-')), ranked(argument, Rank::Key));
            }
            flag = argument;
        }
    }

    fn add(&mut self, of: &str, values: Vec<(Rank, String)>) {
        for (rank, value) in values {
            let (forms, length) = (forms(&value).collect(), value.chars().count());
            let hidden = Hidden { of: of.to_owned(), forms, rank, length };
            if hidden.is_hidden() && !self.0.contains(&hidden) {
                self.0.push(hidden);
            }
        }
    }

    /// Takes back that what the configuration calls this is a secret: `NAME` of `env`, `headers` or the environment. It is none
    /// wherever else it occurs, too. Whether anything has that name.
    pub fn forget(&mut self, name: &str) -> bool {
        let is_named =
            |hidden: &Hidden| hidden.of == name || hidden.of.split_once('.').is_some_and(|(_, of)| of == name);
        let known: Vec<_> =
            self.0.iter().filter(|hidden| is_named(hidden)).map(|hidden| hidden.forms.clone()).collect();
        self.0.retain(|hidden| !known.contains(&hidden.forms));
        !known.is_empty()
    }

    /// A text that may be shown, however it is escaped and wherever it is cut.
    pub fn redact(&self, text: &str) -> String {
        let unescaped = Unescaped::of(text);
        let forms = || self.0.iter().filter(|hidden| hidden.is_hidden()).flat_map(|hidden| &hidden.forms);
        let mut places: Vec<_> = forms().flat_map(|form| unescaped.places(form)).collect();
        places.extend(forms().filter_map(|form| unescaped.begun(form, BEGINNING)));
        starred(text, places)
    }

    /// The first secret in what is to be stored, names of fields included.
    pub(super) fn find(&self, value: &Value) -> Option<Found<'_>> {
        let refused: Vec<_> = self.0.iter().filter(|hidden| hidden.is_refused()).collect();
        if refused.is_empty() { None } else { find(&refused, value, "") }
    }
}

fn find<'a>(refused: &[&'a Hidden], value: &Value, at: &str) -> Option<Found<'a>> {
    let within = |text: &str, at: &str| {
        let holds = |text: &[u8], hidden: &Hidden| hidden.forms.iter().any(|form| contains(text, form));
        let hidden = forms(text).find_map(|text| refused.iter().find(|hidden| holds(&text, hidden)))?;
        Some(Found { of: &hidden.of, at: at.to_owned() })
    };
    match value {
        Value::String(text) => within(text, at),
        Value::Number(number) => within(&number.to_string(), at),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| find(refused, item, &format!("{at}/{index}")))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, item)| {
            let below = format!("{at}/{name}");
            within(name, &below).or_else(|| find(refused, item, &below))
        }),
        Value::Null | Value::Bool(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn arguments(line: &str) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add_arguments(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        secrets
    }

    #[test]
    fn keys_are_taken_out_and_words_are_left() {
        let mut secrets = Secrets::default();
        secrets.add_header("Authorization", "Bearer sk-12345678");
        secrets.add_variable("API_KEY", "abcd-efgh");
        secrets.add_variable("REGION", "us-east-1");
        secrets.add_variable("DEBUG", "true");
        secrets.add_url("https://me:hunter2222@host/mcp?api_key=zzzzzzzz&v=1");
        assert_eq!(
            secrets.redact("true sk-12345678 abcd-efgh us-east-1 hunter2222 me:hunter2222@ zzzzzzzz"),
            "true *** *** *** *** ***@ ***"
        );
        assert_eq!(secrets.redact("https://me:hunter2222@host/mcp?api_key=zzzzzzzz&v=1"), "https://***@host/mcp?***");
        assert_eq!(format!("{secrets:?}").find("abcd"), None);
    }

    #[test]
    fn keys_show_in_no_escape_and_in_no_part() {
        let mut secrets = Secrets::default();
        secrets.add_variable("PLAIN", "a/b+c d\"é&99");
        secrets.add_variable("ENCODED", "p%40ss%2Fword");
        secrets.add_variable("DATABASE_URL", "postgres://app:hunter22@db.host/orders");
        secrets.add_variable("CERTIFICATE", "-----BEGIN-----\nMIIabcdef\nMIIghijkl\n-----END-----");
        secrets.add_header("X-Config", r#"{"token": "t0ps3cret"}"#);
        for (text, shown) in [
            ("raw a/b+c d\"é&99.", "raw ***."),
            ("query a%2fb%2Bc%20d%22%C3%A9%2699.", "query ***."),
            (r#"json "a\/b+c d\"\u00e9&99"."#, r#"json "***"."#),
            ("form a%2Fb%2Bc+d%22%C3%A9%2699.", "form ***."),
            ("decoded p@ss/word.", "decoded ***."),
            ("encoded p%40ss%2fword.", "encoded ***."),
            ("password hunter22.", "password ***."),
            ("line MIIghijkl.", "line ***."),
            ("leaf t0ps3cret.", "leaf ***."),
            ("cut p@ss/w", "cut ***"),
            ("cut hunt", "cut ***"),
            ("hunt for words", "hunt for words"),
        ] {
            assert_eq!(secrets.redact(text), shown);
        }
    }

    #[test]
    fn command_lines_hide_what_is_a_key() {
        let secrets =
            arguments("npx -y server --api-key hunter2 --port 8080 -e DB=postgres1 -H X-Odd:headers-value --v=1");
        assert_eq!(secrets.redact("npx server hunter2 8080 postgres1 headers-value"), "npx server *** 8080 *** ***");
        assert_eq!(arguments("x --no-auth --verbose yes").redact("--verbose yes"), "--verbose yes");
    }

    #[test]
    fn definitions_with_a_key_are_found_and_named() {
        let mut secrets = Secrets::default();
        secrets.add_variable("DB_PASSWORD", "postgres");
        secrets.add_variable("MODE", "fast");
        secrets.add_environment("PIN", "12345678");
        secrets.add_url("https://host/customers?v=2025");
        let find = |value: Value| secrets.find(&value).map(|found| (found.of.to_owned(), found.at));
        let found = |of: &str, at: &str| Some((of.to_owned(), at.to_owned()));
        assert_eq!(find(json!({"a": ["fast customers", {"b": "with postgres."}]})), found("env.DB_PASSWORD", "/a/1/b"));
        assert_eq!(find(json!({"a": {"use_postgres": 1}})), found("env.DB_PASSWORD", "/a/use_postgres"));
        assert_eq!(find(json!({"default": 12_345_678})), found("PIN", "/default"));
        assert_eq!(find(json!("post%67res")), found("env.DB_PASSWORD", ""));
        assert_eq!(find(json!({"a": "fast post gres customers"})), None);
        secrets.add_environment("PASSWORD_OF_DB", "postgres");
        assert!(secrets.forget("DB_PASSWORD") && !secrets.forget("DB_PASSWORD"));
        assert_eq!(secrets.find(&json!("postgres")), None);
        assert!(secrets.find(&json!(12_345_678)).is_some());
    }

    #[test]
    fn the_end_of_a_key_may_look_like_the_escape_of_what_follows() {
        let mut secrets = Secrets::default();
        secrets.add_variable("KEY", r#"A+A"A\"#);
        assert_eq!(secrets.redact(r#"{"a": "A+A\"A\\"}"#), r#"{"a": "***"}"#);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_key_is_left_in_any_text(key in r#"[a-zA-Z0-9%+/"\\é&]{6,12}"#, before in ".{0,8}", after in ".{0,8}", form in 0..4) {
            let mut secrets = Secrets::default();
            secrets.add_variable("KEY", &key);
            let key = key.trim();
            let written = match form {
                0 => key.to_owned(),
                1 => json!(key).to_string(),
                2 => format!("{key:?}"),
                _ => key.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat(),
            };
            let redacted = secrets.redact(&format!("{before} {written} {after}"));
            prop_assert!(!redacted.contains(&written), "{}", redacted);
        }
    }
}
