//! The explicit table of strategies: a kind, what it does, and how to make one from its parameters.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::strategy::Strategy;

/// A strategy cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("unknown strategy {kind:?}{}; known: {}", suggestion(near.as_deref()), known.join(", "))]
    UnknownKind { kind: String, near: Option<String>, known: Vec<&'static str> },
    #[error("strategy {kind:?}: unknown parameter {name:?}{}; accepted: {}", suggestion(near.as_deref()), accepted(known))]
    UnknownParameter { kind: &'static str, name: String, near: Option<String>, known: Vec<String> },
    #[error("strategy {kind:?}, parameter `{path}`: {message}")]
    BadParameter { kind: &'static str, path: String, message: String },
}

/// `, did you mean "x"?` or nothing.
pub fn suggestion(near: Option<&str>) -> String {
    near.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default()
}

fn accepted(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// The known word closest to `word`, if it is close enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

type Make = Arc<dyn Fn(&Map<String, Value>) -> Result<Box<dyn Strategy>, RegistryError> + Send + Sync>;

/// One row of the table.
#[derive(Clone)]
pub struct Entry {
    pub kind: &'static str,
    /// One line for `toolgauge list`.
    pub summary: &'static str,
    /// Parameter names with their defaults.
    pub defaults: Map<String, Value>,
    make: Make,
}

/// Strategies by kind, in the order in which they are listed.
#[derive(Default)]
pub struct Registry {
    entries: Vec<Entry>,
}

impl Registry {
    /// Adds a kind. `P` is the typed parameters: a struct with `#[serde(default, deny_unknown_fields)]`.
    #[must_use]
    pub fn with<P, S>(
        mut self,
        kind: &'static str,
        summary: &'static str,
        make: impl Fn(P) -> S + Send + Sync + 'static,
    ) -> Self
    where
        P: Serialize + DeserializeOwned + Default + 'static,
        S: Strategy + 'static,
    {
        let Ok(Value::Object(defaults)) = serde_json::to_value(P::default()) else {
            unreachable!("parameters are a struct with named fields");
        };
        let known: Vec<String> = defaults.keys().cloned().collect();
        let make: Make = Arc::new(move |params| {
            if let Some(name) = params.keys().find(|name| !known.contains(name)) {
                let near = nearest(name, known.iter().map(String::as_str));
                return Err(RegistryError::UnknownParameter { kind, name: name.clone(), near, known: known.clone() });
            }
            let params = Value::Object(params.clone());
            let params = serde_path_to_error::deserialize(params).map_err(|error| RegistryError::BadParameter {
                kind,
                path: error.path().to_string(),
                message: error.inner().to_string(),
            })?;
            Ok(Box::new(make(params)))
        });
        self.entries.push(Entry { kind, summary, defaults, make });
        self
    }

    /// Adds the kinds of another table behind those of this one.
    #[must_use]
    pub fn then(mut self, others: &Self) -> Self {
        self.entries.extend_from_slice(&others.entries);
        self
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.kind)
    }

    /// Makes a strategy; parameters not given keep their defaults.
    pub fn make(&self, kind: &str, params: &Map<String, Value>) -> Result<Box<dyn Strategy>, RegistryError> {
        let Some(entry) = self.entries.iter().find(|entry| entry.kind == kind) else {
            let known: Vec<_> = self.kinds().collect();
            let near = nearest(kind, known.iter().copied());
            return Err(RegistryError::UnknownKind { kind: kind.to_owned(), near, known });
        };
        (entry.make)(params)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;
    use crate::catalogue::View;
    use crate::strategy::{Prepared, StrategyError, StrategyMeta};

    #[derive(Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Params {
        limit: usize,
    }

    impl Default for Params {
        fn default() -> Self {
            Self { limit: 5 }
        }
    }

    struct Fake(Params);

    impl Strategy for Fake {
        fn meta(&self) -> StrategyMeta {
            StrategyMeta {
                kind: "fake".to_owned(),
                version: 1,
                params: json!({"limit": self.0.limit}),
                drives_model: false,
                ranks: false,
                own_tools: Vec::new(),
                inner_turns: 0,
                shown_tools: None,
            }
        }

        fn prepare(&self, _: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
            unimplemented!("not called")
        }
    }

    fn make(kind: &str, params: &Value) -> Result<Value, String> {
        let registry = Registry::default().with("fake", "for this test", Fake);
        let made = registry.make(kind, params.as_object().unwrap());
        made.map(|strategy| strategy.meta().params).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_fill_in_and_mistakes_are_named() {
        assert_eq!(make("fake", &json!({})), Ok(json!({"limit": 5})));
        assert_eq!(make("fake", &json!({"limit": 2})), Ok(json!({"limit": 2})));
        let error = |kind, params| make(kind, &params).unwrap_err();
        assert_eq!(error("fkae", json!({})), r#"unknown strategy "fkae", did you mean "fake"?; known: fake"#);
        assert_eq!(
            error("fake", json!({"limti": 2})),
            r#"strategy "fake": unknown parameter "limti", did you mean "limit"?; accepted: limit"#
        );
        let wrong_type = error("fake", json!({"limit": "many"}));
        assert_eq!(wrong_type, r#"strategy "fake", parameter `limit`: invalid type: string "many", expected usize"#);
    }
}
