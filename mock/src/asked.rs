//! A request as the script sees it.

use harness::endpoint::Route;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiPath {
    Chat,
    Embeddings,
    Models,
}

impl ApiPath {
    /// Of a request, or the method that the path takes, if there is such a path.
    pub(crate) fn of(method: &str, path: &str) -> Result<Self, Option<&'static str>> {
        let (found, takes) = match path {
            "/v1/chat/completions" => (Self::Chat, "POST"),
            "/v1/embeddings" => (Self::Embeddings, "POST"),
            "/v1/models" => (Self::Models, "GET"),
            path if path.starts_with("/v1/models/") => (Self::Models, "GET"),
            _ => return Err(None),
        };
        if method == takes { Ok(found) } else { Err(Some(takes)) }
    }

    /// What the harness calls it; models are not asked for over a route of its own.
    pub(crate) fn route(self) -> Option<Route> {
        match self {
            Self::Chat => Some(Route::Chat),
            Self::Embeddings => Some(Route::Embed),
            Self::Models => None,
        }
    }
}

/// A request and what decides about it. Neither the clock nor the order of arrival is in here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: ApiPath,
    /// The body as it came.
    pub(crate) text: &'a str,
    /// The body read, null if it is no JSON.
    pub(crate) body: &'a Value,
    pub(crate) digest: [u8; 32],
    /// How often this very body has come, from 1.
    pub(crate) attempt: u64,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(path: ApiPath, text: &'a str, body: &'a Value, attempt: u64) -> Self {
        Self { path, text, body, digest: digest(path, text), attempt }
    }

    pub(crate) fn streams(&self) -> bool {
        self.body["stream"] == true
    }

    /// A number from 0 up to but not 1. Equal seeds, purposes, bodies and attempts give equal numbers.
    pub(crate) fn draw(&self, seed: u64, purpose: &str) -> f64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(&self.digest);
        hasher.update(&self.attempt.to_le_bytes());
        hasher.update(purpose.as_bytes());
        let hash = hasher.finalize();
        let head: [u8; 8] = hash.as_bytes()[..8].try_into().expect("a hash is longer than that");
        (u64::from_le_bytes(head) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A short name of this attempt at this body.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", &blake3::Hash::from(self.digest).to_hex()[..12], self.attempt)
    }
}

/// What counts as the same request.
pub(crate) fn digest(path: ApiPath, text: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[path as u8]);
    hasher.update(text.as_bytes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_know_their_method() {
        assert_eq!(ApiPath::of("POST", "/v1/chat/completions"), Ok(ApiPath::Chat));
        assert_eq!(ApiPath::of("GET", "/v1/models/mock"), Ok(ApiPath::Models));
        assert_eq!(ApiPath::of("GET", "/v1/embeddings"), Err(Some("POST")));
        assert_eq!(ApiPath::of("POST", "/v1/responses"), Err(None));
    }

    #[test]
    fn draws_depend_on_everything_that_is_given() {
        let null = Value::Null;
        let asked = |text, attempt| Asked::new(ApiPath::Chat, text, &null, attempt);
        let drawn = asked("a", 1).draw(1, "x");
        assert!((0.0..1.0).contains(&drawn));
        let others = [
            asked("b", 1).draw(1, "x"),
            asked("a", 2).draw(1, "x"),
            asked("a", 1).draw(2, "x"),
            asked("a", 1).draw(1, "y"),
            Asked::new(ApiPath::Embeddings, "a", &null, 1).draw(1, "x"),
        ];
        assert!(others.iter().all(|other| (other - drawn).abs() > 1e-9), "{drawn} {others:?}");
        assert!((asked("a", 1).draw(1, "x") - drawn).abs() < 1e-12);
    }
}
