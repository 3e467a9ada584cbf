//! The script of a server: one strict TOML file, or the same as Rust values.

use std::collections::BTreeSet;
use std::path::Path;

use harness::endpoint::Behaviour;
use harness::registry::nearest;
use serde::{Deserialize, Deserializer};

use crate::dialect::Dialect;
use crate::fault::Fault;

const VERSION: u32 = 1;

/// How a server behaves: a model, its rules, and what goes wrong.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Of the format; there is one.
    #[serde(deserialize_with = "known_version")]
    pub version: u32,
    /// What is drawn depends on it.
    #[serde(default)]
    pub seed: u64,
    /// Who answers: `first`, `lexical` or `silent`, see [`Behaviour`].
    #[serde(default = "lexical", deserialize_with = "behaviour")]
    pub behaviour: Behaviour,
    #[serde(default)]
    pub dialect: Dialect,
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("{path}: cannot be read: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path}:{line}:{column}: {message}")]
    Parse { path: String, line: usize, column: usize, message: String },
    #[error("{path}: {message}")]
    Invalid { path: String, message: String },
}

impl Default for Script {
    /// A server that calls the tool with the most words in common and makes no trouble.
    fn default() -> Self {
        Self { version: VERSION, seed: 0, behaviour: lexical(), dialect: Dialect::default(), faults: Vec::new() }
    }
}

impl Script {
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ScriptError::Read { path: name.clone(), source })?;
        Self::parse(&text, &name)
    }

    /// Reads the text of a script; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Self, ScriptError> {
        let script: Self = toml::from_str(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            ScriptError::Parse { path: path.to_owned(), line, column, message: with_hint(error.message()) }
        })?;
        script.check().map_err(|message| ScriptError::Invalid { path: path.to_owned(), message })?;
        Ok(script)
    }

    /// What is wrong with the values, whichever way they came.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.dialect.models.is_empty() {
            return Err("`dialect.models` is empty, expected at least one name".to_owned());
        }
        if !(0.0..=1.0).contains(&self.dialect.unstable) {
            return Err("`dialect.unstable` is not between 0 and 1".to_owned());
        }
        let mut names = BTreeSet::new();
        for fault in &self.faults {
            fault.check()?;
            if !names.insert(&fault.name) {
                return Err(format!("two faults are called {:?}; names tell them apart in the log", fault.name));
            }
        }
        Ok(())
    }
}

fn lexical() -> Behaviour {
    Behaviour::Lexical
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        VERSION => Ok(VERSION),
        other => Err(serde::de::Error::custom(format!("version {other} is not known here, expected {VERSION}"))),
    }
}

fn behaviour<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Behaviour, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Line and column, from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Adds the nearest of the words that serde says it expected. Its messages quote the culprit first, then the choices.
fn with_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let culprit = quoted.next().filter(|_| message.starts_with("unknown"));
    match culprit.and_then(|culprit| nearest(culprit, quoted)) {
        Some(near) => format!("{message}; did you mean `{near}`?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Damage, How};

    fn error(tail: &str) -> String {
        Script::parse(&format!("version = 1\n{tail}"), "s.toml").unwrap_err().to_string()
    }

    #[test]
    fn an_empty_script_is_the_default() {
        assert_eq!(Script::parse("version = 1", "s.toml").unwrap(), Script::default());
    }

    #[test]
    fn mistakes_are_placed_and_named() {
        let message = error("sede = 1");
        assert!(message.starts_with("s.toml:2:1: unknown field `sede`"), "{message}");
        assert!(message.ends_with("did you mean `seed`?"), "{message}");
        let message = error("[dialect]\nmax_tool = 3");
        assert!(message.starts_with("s.toml:3:1: unknown field `max_tool`"), "{message}");
        let message = error("[dialect.shape]\n  usage = \"nul\"");
        assert!(message.starts_with("s.toml:3:11: unknown variant `nul`"), "{message}");
        assert!(message.ends_with("did you mean `null`?"), "{message}");
        let message = error("[[fault]]\nname = \"a\"\nwhen.atempts = [1]");
        assert!(message.contains("did you mean `attempts`?"), "{message}");
        let message = error("[[fault]]\nname = \"a\"\ninstead.error.kind = \"rate_limits\"");
        assert!(message.contains("did you mean `rate_limit`?"), "{message}");
        let message = error("behaviour = \"clever\"");
        assert!(message.contains("unknown scripted behaviour \"clever\""), "{message}");
        let message = Script::parse("version = 2", "s.toml").unwrap_err().to_string();
        assert_eq!(message, "s.toml:1:11: version 2 is not known here, expected 1");
        let message = Script::load(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(message.starts_with("no/such.toml: cannot be read"), "{message}");
    }

    #[test]
    fn values_that_cannot_be_meant_are_refused() {
        let fault = |tail: &str| error(&format!("[[fault]]\nname = \"a\"\n{tail}"));
        assert_eq!(fault("when.share = 1.5"), "s.toml: fault \"a\": `share` is not between 0 and 1");
        assert!(fault("when.every = 0").contains("counted from 1"));
        assert!(fault("when.attempts = [0]").contains("counted from 1"));
        assert!(fault("instead.raw = { status = 99, body = \"\" }").contains("not between 200 and 599"));
        assert!(fault("damage.how = \"truncate\"").contains("`damage.after` is missing"));
        assert!(fault("headers = { \"a b\" = \"c\" }").contains("is no header"));
        assert!(fault("retry_after.text = \"a\\nb\"").contains("is no header"));
        assert!(fault("headers = { Content-Length = \"3\" }").contains("is the business of `damage`"));
        assert!(fault("[[fault]]\nname = \"a\"").contains("two faults are called \"a\""));
        assert!(error("[[fault]]\nname = \" \"").contains("its name is blank"));
        assert!(error("[dialect]\nmodels = []").contains("`dialect.models` is empty"));
        assert!(error("[dialect]\nunstable = 2.0").contains("not between 0 and 1"));
    }

    #[test]
    fn damage_without_a_place_is_before_everything() {
        let script = Script::parse("version = 1\n[[fault]]\nname = \"a\"\ndamage.how = \"reset\"", "s.toml").unwrap();
        assert_eq!(script.faults[0].damage, Some(Damage { how: How::Reset, after: None }));
    }
}
