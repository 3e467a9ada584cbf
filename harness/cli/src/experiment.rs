//! The experiment file: TOML, strict, each mistake with its line.

use std::path::{Path, PathBuf};

use harness::episode_loop::{Mode, Wording};
use harness::run::manifest::{DistractorKind, OrderKind};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::exit::{Exit, OrExit as _, expected};

/// An experiment as written. Everything may be left out; flags win.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Experiment {
    pub name: Option<String>,
    /// Dataset folder, relative to the experiment file.
    pub dataset: Option<PathBuf>,
    pub split: Option<String>,
    /// Catalogue sizes; without them those of the dataset.
    pub sizes: Vec<u32>,
    /// Numbers of skills, at one catalogue size.
    pub skills: Vec<u32>,
    pub queries: Option<Queries>,
    pub sample: Option<usize>,
    pub repeats: Option<u32>,
    pub seed: Option<u64>,
    pub order: Option<OrderKind>,
    /// Permutations per view with `order = "blocked"`.
    pub orders: Option<u32>,
    pub distractors: Option<DistractorKind>,
    pub reference: Option<String>,
    #[serde(rename = "loop")]
    pub episode_loop: LoopSection,
    pub endpoint: Option<EndpointSection>,
    #[serde(rename = "strategy")]
    pub strategies: Vec<StrategySection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queries {
    Scaling,
    All,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopSection {
    pub mode: Option<Mode>,
    pub wording: Option<Wording>,
    pub max_turns: Option<u32>,
    pub max_episode_tokens: Option<u64>,
    pub max_episode_minutes: Option<f64>,
    pub temperature: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndpointSection {
    /// `openai` or `scripted:<behaviour>`.
    pub kind: Option<String>,
    pub base_url: Option<String>,
    pub model: Option<String>,
    /// Name of the environment variable with the key.
    pub api_key_env: Option<String>,
    /// File with the key, relative to the experiment file; its owner's alone.
    pub api_key_file: Option<PathBuf>,
    pub profile: Option<PathBuf>,
    pub timeout_s: Option<u64>,
}

/// A strategy with its parameters; a list as the value of a parameter makes a grid.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategySection {
    pub kind: String,
    pub label: Option<String>,
    #[serde(default)]
    pub params: Map<String, Value>,
}

impl Experiment {
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| expected(Exit::Usage, format!("{shown}: {error}; name an experiment file with -c")))?;
        let mut experiment: Self = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = &text[..at.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
            expected(Exit::Usage, format!("{shown}:{line}:{column}: {}", error.message()))
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        let of_endpoint = experiment.endpoint.iter_mut().flat_map(|e| [&mut e.profile, &mut e.api_key_file]);
        for file in [&mut experiment.dataset].into_iter().chain(of_endpoint) {
            *file = file.take().map(|file| base.join(file));
        }
        Ok(experiment)
    }
}

/// Splits at commas outside brackets: `bm25-llm:k=[1,3],eager` names two strategies.
pub fn split_list(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, char) in text.char_indices() {
        match char {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Reads `kind:key=value:key=value`. Values are JSON where they parse as such, else text; dots reach into groups.
pub fn parse_strategy(text: &str) -> anyhow::Result<StrategySection> {
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default().trim().to_owned();
    let mut params = Map::new();
    let mut label = kind.clone();
    for part in parts {
        // Values that make a grid are added to the label one by one, see `expand`.
        if !part.contains("=[") {
            label = format!("{label} {part}");
        }
        let (path, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{text:?}: {part:?} is no parameter; expected `key=value`"))
            .or_exit(Exit::Usage)?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if !insert(&mut params, path, value) {
            return Err(expected(Exit::Usage, format!("{text:?}: `{path}` is given twice")));
        }
    }
    Ok(StrategySection { kind, label: Some(label), params })
}

/// Puts a value at its dotted path; whether the place was free.
fn insert(params: &mut Map<String, Value>, path: &str, value: Value) -> bool {
    match path.split_once('.') {
        None => params.insert(path.to_owned(), value).is_none(),
        Some((group, rest)) => {
            let group = params.entry(group.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = group { insert(inner, rest, value) } else { false }
        }
    }
}

/// Expands lists, at any depth, into one section per combination, each with a label that names what varies.
pub fn expand(section: &StrategySection) -> Vec<StrategySection> {
    let label = section.label.as_ref().unwrap_or(&section.kind);
    let variants = combinations(&section.params, "").into_iter();
    let section = |(varied, params)| StrategySection {
        kind: section.kind.clone(),
        label: Some(format!("{label}{varied}")),
        params,
    };
    variants.map(section).collect()
}

/// Every choice of one value from each list, with the words that tell the choices apart.
fn combinations(params: &Map<String, Value>, group: &str) -> Vec<(String, Map<String, Value>)> {
    let mut variants = vec![(String::new(), Map::new())];
    for (name, value) in params {
        let path = format!("{group}{name}");
        let choices: Vec<(String, Value)> = match value {
            Value::Array(values) if values.len() > 1 => {
                values.iter().map(|value| (format!(" {path}={value}"), value.clone())).collect()
            }
            Value::Array(values) => values.iter().map(|value| (String::new(), value.clone())).collect(),
            Value::Object(inner) => {
                let inner = combinations(inner, &format!("{path}."));
                inner.into_iter().map(|(varied, params)| (varied, Value::Object(params))).collect()
            }
            single => vec![(String::new(), single.clone())],
        };
        variants = variants
            .into_iter()
            .flat_map(|(label, params)| {
                choices.iter().map(move |(varied, value)| {
                    let mut params = params.clone();
                    params.insert(name.clone(), value.clone());
                    (format!("{label}{varied}"), params)
                })
            })
            .collect();
    }
    variants
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strategies_are_read_from_flags() {
        let section = parse_strategy("bm25-llm:k=3:bm25.words.stem=true:name=x").unwrap();
        assert_eq!(section.kind, "bm25-llm");
        assert_eq!(json!(section.params), json!({"k": 3, "bm25": {"words": {"stem": true}}, "name": "x"}));
        assert!(parse_strategy("bm25:k").unwrap_err().to_string().contains("expected `key=value`"));
        assert!(parse_strategy("bm25:k=1:k=2").unwrap_err().to_string().contains("`k` is given twice"));
    }

    #[test]
    fn commas_in_brackets_do_not_split() {
        assert_eq!(split_list("bm25-llm:k=[1,3], eager,"), ["bm25-llm:k=[1,3]", "eager"]);
    }

    #[test]
    fn lists_in_groups_make_a_grid_too() {
        let section = parse_strategy("bm25f:weights.name=[1,2]:words.stem=[true,false]").unwrap();
        let labels: Vec<_> = expand(&section).into_iter().map(|section| section.label.unwrap()).collect();
        assert_eq!(
            labels,
            [
                "bm25f weights.name=1 words.stem=true",
                "bm25f weights.name=1 words.stem=false",
                "bm25f weights.name=2 words.stem=true",
                "bm25f weights.name=2 words.stem=false",
            ]
        );
        assert_eq!(json!(expand(&section)[2].params["weights"]), json!({"name": 2}));
    }

    #[test]
    fn lists_make_a_grid_with_labels() {
        let section = parse_strategy("bm25-llm:k=[1,3]:x=2").unwrap();
        let labels: Vec<_> = expand(&section).into_iter().filter_map(|section| section.label).collect();
        assert_eq!(labels, ["bm25-llm x=2 k=1", "bm25-llm x=2 k=3"]);
    }

    #[test]
    fn mistakes_in_the_file_have_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.toml");
        std::fs::write(&path, "name = \"x\"\nsplti = \"dev\"\n").unwrap();
        let error = Experiment::load(&path).unwrap_err().to_string();
        assert!(error.contains("e.toml:2:1: unknown field `splti`"), "{error}");
    }
}
