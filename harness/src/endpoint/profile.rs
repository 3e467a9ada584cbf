//! What an endpoint can do, as `doctor` writes it and a person may edit it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::schema::{Rewrite, SchemaRules, rewrite};
use crate::chat::{ChatRequest, ToolDef};

const VERSION: u32 = 1;
/// Keys on which nothing of a run depends: an endpoint that was examined again is the same endpoint.
const REMARKS: [&str; 3] = ["context_tested_tokens", "stream_usage", "tested"];

/// How a model is asked for its choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// `tools` and `tool_calls`.
    #[default]
    Native,
    /// `response_format` with a JSON Schema.
    JsonSchema,
    /// Plain words both ways.
    Text,
}

/// Which names an endpoint accepts for a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameRule {
    /// `^[a-zA-Z0-9_-]{1,64}$`
    #[default]
    Openai,
    /// The same, and the first character is a letter or `_`.
    Identifier,
    Any,
}

/// The parameter that limits the length of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    #[default]
    MaxTokens,
    MaxCompletionTokens,
}

impl OutputLimit {
    /// Its name in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// What `doctor` found, for whoever reads the profile or the manifest of a run; nothing acts on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Version of toolgauge.
    pub toolgauge: String,
    /// A line for each probe.
    #[serde(default)]
    pub findings: BTreeMap<String, String>,
}

/// An endpoint and a model behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(deserialize_with = "known_version")]
    version: u32,
    /// Identity in every key of the response store. A managed server is known by what it serves, never by its port.
    #[serde(deserialize_with = "some_text")]
    pub id: String,
    /// The name that goes into requests.
    #[serde(deserialize_with = "some_text")]
    pub model: String,
    #[serde(default)]
    pub protocol: Protocol,
    /// Tokens that one request may use, prompt and output together; unknown if absent.
    #[serde(default, deserialize_with = "some_positive", skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The largest prompt that was seen to be read whole: a lower bound of the context. Nothing is refused because of it.
    #[serde(default, deserialize_with = "some_positive", skip_serializing_if = "Option::is_none")]
    pub context_tested_tokens: Option<u64>,
    /// Tools that one request may offer; unknown if absent.
    #[serde(default, deserialize_with = "some_positive", skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<usize>,
    /// Tokens that one generation may use.
    #[serde(default = "default_output", deserialize_with = "positive")]
    pub max_output_tokens: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_limit: OutputLimit,
    /// Some models refuse a request that sets the temperature.
    #[serde(default, skip_serializing_if = "is_default")]
    pub omit_temperature: bool,
    #[serde(default)]
    pub tool_name_rule: NameRule,
    /// Requests in flight at once, at most.
    #[serde(default = "default_concurrency", deserialize_with = "positive")]
    pub concurrency: usize,
    /// Whether fewer are in flight while the endpoint has too much to do. Where it refuses for reasons that fewer do not cure,
    /// `false` keeps to `concurrency`.
    #[serde(default = "default_adaptive", skip_serializing_if = "is_default_adaptive")]
    pub adaptive: bool,
    /// Requests that may be sent per minute; without a limit if absent.
    #[serde(default, deserialize_with = "some_positive", skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// Tokens, prompts and answers together, that may be used per minute; without a limit if absent.
    #[serde(default, deserialize_with = "some_positive", skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// Whether a stream ends with its usage; unknown if absent. Runs do not stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_usage: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embed_model: Option<String>,
    /// Requests of a run that may go into finding out whose schema the endpoint refuses; 0 = none.
    #[serde(default = "default_schema_probes", skip_serializing_if = "is_default_schema_probes")]
    pub max_schema_probes: u32,
    /// How schemas of tools are rewritten. This and what follows stand last, because they are tables of their own in the file.
    #[serde(default, skip_serializing_if = "SchemaRules::is_off")]
    pub schema: SchemaRules,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<Tested>,
}

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("{path}: cannot be read: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path}:{line}:{column}: {message}")]
    Parse { path: String, line: usize, column: usize, message: String },
    #[error("{path}: `max_output_tokens` ({output}) leaves no room for a prompt in `context_tokens` ({context})")]
    NoRoom { path: String, output: u32, context: u64 },
}

impl Profile {
    /// A hosted endpoint of which nothing is known but its address: native tools, no known limits. What it cannot take shows
    /// in its refusals, episode by episode.
    pub fn hosted(base_url: &str, model: &str) -> Self {
        Self {
            version: VERSION,
            id: format!("{}#{model}", base_url.trim_end_matches('/')),
            model: model.to_owned(),
            protocol: Protocol::Native,
            context_tokens: None,
            context_tested_tokens: None,
            max_tools: None,
            max_output_tokens: default_output(),
            output_limit: OutputLimit::MaxTokens,
            omit_temperature: false,
            tool_name_rule: NameRule::Openai,
            concurrency: default_concurrency(),
            adaptive: default_adaptive(),
            requests_per_minute: None,
            tokens_per_minute: None,
            stream_usage: None,
            embed_model: None,
            max_schema_probes: default_schema_probes(),
            schema: SchemaRules::default(),
            tested: None,
        }
    }

    /// A request as this endpoint takes it.
    pub fn body(&self, request: &ChatRequest) -> Value {
        let mut body = json!(request);
        if let Some(fields) = body.as_object_mut() {
            if self.omit_temperature {
                fields.shift_remove("temperature");
            }
            if self.output_limit != OutputLimit::MaxTokens
                && let Some(limit) = fields.shift_remove(OutputLimit::MaxTokens.as_str())
            {
                fields.insert(self.output_limit.as_str().to_owned(), limit);
            }
        }
        body
    }

    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ProfileError::Read { path: name.clone(), source })?;
        Self::parse(&text, &name)
    }

    /// Reads the text of a profile; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            ProfileError::Parse { path: path.to_owned(), line, column, message: with_hint(error.message()) }
        })?;
        match profile.context_tokens {
            Some(context) if context <= u64::from(profile.max_output_tokens) => {
                Err(ProfileError::NoRoom { path: path.to_owned(), output: profile.max_output_tokens, context })
            }
            _ => Ok(profile),
        }
    }

    /// Keys of which the two hold different values, each with both; null for what is not known. Those on which nothing acts are
    /// left out.
    pub fn differences(&self, other: &Self) -> Vec<(String, Value, Value)> {
        let [own, others] = [self, other].map(|profile| serde_json::to_value(profile).expect("plain data serialises"));
        let keys = |profile: &Value| profile.as_object().into_iter().flat_map(Map::keys).cloned().collect::<Vec<_>>();
        let keys: BTreeSet<String> = [&own, &others].into_iter().flat_map(keys).collect();
        let matters = |key: &String| !REMARKS.contains(&key.as_str()) && own.get(key) != others.get(key);
        let differing = keys.into_iter().filter(matters);
        differing.map(|key| (key.clone(), own[&key].clone(), others[&key].clone())).collect()
    }

    /// Takes over how much may be sent at once and per minute: a matter of the server and the account of the day, which decides no
    /// answer, unlike all else here.
    pub fn at_the_pace_of(&mut self, other: &Self) {
        self.concurrency = other.concurrency;
        self.adaptive = other.adaptive;
        self.requests_per_minute = other.requests_per_minute;
        self.tokens_per_minute = other.tokens_per_minute;
    }

    /// The schema of a tool as this endpoint is sent it, and what was changed for that. The endpoint reads schemas where it is
    /// sent tools as such; in the other protocols they are words of the prompt and stay as they are.
    pub fn fit(&self, schema: &Value) -> (Value, Vec<Rewrite>) {
        match self.protocol {
            Protocol::Native => rewrite(schema, &self.schema),
            Protocol::JsonSchema | Protocol::Text => (schema.clone(), Vec::new()),
        }
    }

    /// The same for a whole definition.
    pub fn fit_tool(&self, tool: ToolDef) -> ToolDef {
        ToolDef { parameters: self.fit(&tool.parameters).0, ..tool }
    }

    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is plain data")
    }
}

fn default_output() -> u32 {
    1_024
}

fn default_concurrency() -> usize {
    4
}

fn default_adaptive() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_adaptive(adaptive: &bool) -> bool {
    *adaptive == default_adaptive()
}

fn default_schema_probes() -> u32 {
    64
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_schema_probes(probes: &u32) -> bool {
    *probes == default_schema_probes()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        VERSION => Ok(VERSION),
        other => Err(serde::de::Error::custom(format!("version {other} is not known here, expected {VERSION}"))),
    }
}

fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim().is_empty() { Err(serde::de::Error::custom("it is blank, expected some text")) } else { Ok(text) }
}

fn positive<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default + PartialEq>(
    deserializer: D,
) -> Result<T, D::Error> {
    match T::deserialize(deserializer)? {
        zero if zero == T::default() => Err(serde::de::Error::custom("0 is too small, expected at least 1")),
        value => Ok(value),
    }
}

fn some_positive<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default + PartialEq>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    positive(deserializer).map(Some)
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
    let nearest = quoted.next().filter(|_| message.starts_with("unknown")).and_then(|culprit| {
        let distance = |choice: &&str| strsim::damerau_levenshtein(culprit, choice);
        quoted.min_by_key(distance).filter(|choice| distance(choice) <= 1 + culprit.chars().count() / 3)
    });
    match nearest {
        Some(nearest) => format!("{message}; did you mean `{nearest}`?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::{DropPatterns, Preset, RootCombinators};
    use super::*;

    const HEAD: &str = "version = 1\nid = \"local\"\nmodel = \"m\"\n";

    fn error(tail: &str) -> String {
        Profile::parse(&format!("{HEAD}{tail}"), "p.toml").unwrap_err().to_string()
    }

    #[test]
    fn profiles_round_trip() {
        let hosted = Profile::hosted("https://api.example.com/v1/", "m-1");
        assert_eq!(hosted.id, "https://api.example.com/v1#m-1");
        assert_eq!(Profile::parse(&hosted.to_toml(), "p.toml").unwrap(), hosted);
        let full = Profile {
            protocol: Protocol::JsonSchema,
            context_tokens: Some(8_192),
            max_tools: Some(128),
            tool_name_rule: NameRule::Any,
            requests_per_minute: Some(60),
            tokens_per_minute: Some(90_000),
            embed_model: Some("e".to_owned()),
            max_schema_probes: 0,
            schema: Preset::StrictTypes.rules(),
            context_tested_tokens: Some(6_000),
            output_limit: OutputLimit::MaxCompletionTokens,
            omit_temperature: true,
            stream_usage: Some(false),
            tested: Some(Tested {
                at: "2026-12-01T10:00:00Z".to_owned(),
                toolgauge: "0.1.0".to_owned(),
                findings: BTreeMap::from([("native tools".to_owned(), "yes: \"quoted\"".to_owned())]),
            }),
            ..hosted
        };
        assert_eq!(Profile::parse(&full.to_toml(), "p.toml").unwrap(), full);
    }

    #[test]
    fn every_key_that_differs_is_named() {
        let planned = Profile::hosted("https://api.example.com/v1", "m");
        assert_eq!(planned.differences(&planned), []);
        let other = Profile { context_tokens: Some(8_192), max_output_tokens: 64, ..planned.clone() };
        let found = planned.differences(&other);
        assert_eq!(found[0], ("context_tokens".to_owned(), Value::Null, 8_192.into()));
        assert_eq!(found[1], ("max_output_tokens".to_owned(), 1_024.into(), 64.into()));
        assert_eq!(found.len(), 2);
        let examined = Profile { context_tested_tokens: Some(6_000), stream_usage: Some(true), ..planned.clone() };
        assert_eq!(planned.differences(&examined), [], "what was only seen changes no answer");
    }

    #[test]
    fn the_pace_is_all_that_is_taken_over() {
        let planned = Profile::hosted("https://api.example.com/v1", "m");
        let today =
            Profile { concurrency: 9, tokens_per_minute: Some(5), context_tokens: Some(8_192), ..planned.clone() };
        let mut used = planned.clone();
        used.at_the_pace_of(&today);
        assert_eq!(used, Profile { concurrency: 9, tokens_per_minute: Some(5), ..planned });
    }

    #[test]
    fn a_request_goes_out_as_the_profile_says() {
        let request = ChatRequest {
            model: "m".to_owned(),
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: None,
            response_format: None,
            temperature: Some(0.5),
            max_tokens: Some(7),
            seed: Some(1),
        };
        let plain = Profile::hosted("https://api.example.com/v1", "m");
        assert_eq!(plain.body(&request).to_string(), serde_json::to_string(&request).unwrap());
        let odd = Profile { output_limit: OutputLimit::MaxCompletionTokens, omit_temperature: true, ..plain };
        assert_eq!(
            odd.body(&request).to_string(),
            r#"{"model":"m","messages":[],"seed":1,"max_completion_tokens":7}"#,
            "the other fields keep their order"
        );
    }

    #[test]
    fn profiles_from_before_the_doctor_load_and_serialise_as_they_did() {
        let text = format!(
            "{HEAD}protocol = \"native\"\nmax_output_tokens = 256\ntool_name_rule = \"openai\"\nconcurrency = 1\n"
        );
        let profile = Profile::parse(&text, "p.toml").unwrap();
        assert_eq!((profile.omit_temperature, profile.output_limit), (false, OutputLimit::MaxTokens));
        assert_eq!(profile.to_toml(), text, "stored manifests and keys rest on it");
    }

    #[test]
    fn mistakes_are_placed_and_named() {
        let message = error("contxt_tokens = 5\n");
        assert!(message.starts_with("p.toml:4:1: unknown field `contxt_tokens`"), "{message}");
        assert!(message.ends_with("did you mean `context_tokens`?"), "{message}");
        let message = error("max_tools = 3\n  protocol = \"nativ\"\n");
        assert!(message.starts_with("p.toml:5:14: unknown variant `nativ`"), "{message}");
        assert!(message.ends_with("did you mean `native`?"), "{message}");
        assert!(!error("zzzzzzzz = 1").contains("did you mean"), "nothing is near");
        assert!(error("concurrency = 0").starts_with("p.toml:4:15: 0 is too small"), "{}", error("concurrency = 0"));
        assert!(error("max_tools = 0").starts_with("p.toml:4:13: 0 is too small"));
        assert!(error("tokens_per_minute = 0").starts_with("p.toml:4:21: 0 is too small"));
        assert!(error("model = 3").starts_with("p.toml:4:1: duplicate key"), "{}", error("model = 3"));
    }

    #[test]
    fn a_preset_of_schema_rules_can_be_changed_rule_by_rule() {
        let tail = "[schema]\npreset = \"plain_object\"\ndrop_patterns = \"all\"\narray_items = false\n";
        let rules = Profile::parse(&format!("{HEAD}{tail}"), "p.toml").unwrap().schema;
        let expected = SchemaRules {
            drop_patterns: DropPatterns::All,
            root_combinators: RootCombinators::Merge,
            ensure_properties: true,
            ..SchemaRules::default()
        };
        assert_eq!(rules, expected);
        let message = error("[schema]\ndrop_pattern = \"all\"\n");
        assert!(message.starts_with("p.toml:5:1: unknown field `drop_pattern`"), "{message}");
        assert!(message.ends_with("did you mean `drop_patterns`?"), "{message}");
        assert!(error("[schema]\npreset = \"plain\"").contains("unknown variant `plain`"));
    }

    #[test]
    fn a_profile_without_schema_rules_is_written_as_before_there_were_any() {
        let text = Profile::hosted("https://api.example.com/v1", "m").to_toml();
        assert!(!text.contains("schema"), "{text}");
        let json = serde_json::to_string(&Profile::hosted("https://api.example.com/v1", "m")).unwrap();
        assert!(!json.contains("schema"), "{json}");
    }

    #[test]
    fn only_tools_sent_as_such_are_rewritten() {
        let mut profile = Profile::hosted("https://api.example.com/v1", "m");
        profile.schema.ensure_properties = true;
        let bare = serde_json::json!({"type": "object"});
        assert_ne!(profile.fit(&bare).0, bare);
        for protocol in [Protocol::JsonSchema, Protocol::Text] {
            profile.protocol = protocol;
            assert_eq!(profile.fit(&bare), (bare.clone(), Vec::new()));
        }
    }

    #[test]
    fn other_versions_and_impossible_limits_are_refused() {
        let message = Profile::parse("version = 2\nid = \"a\"\nmodel = \"m\"", "p.toml").unwrap_err().to_string();
        assert_eq!(message, "p.toml:1:11: version 2 is not known here, expected 1");
        let message = Profile::parse("id = \"a\"\nmodel = \"m\"", "p.toml").unwrap_err().to_string();
        assert!(message.contains("missing field `version`"), "{message}");
        assert!(error("context_tokens = 1024").contains("leaves no room"), "{}", error("context_tokens = 1024"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let message = Profile::load(Path::new("no/such/profile.toml")).unwrap_err().to_string();
        assert!(message.starts_with("no/such/profile.toml: cannot be read"), "{message}");
    }
}
