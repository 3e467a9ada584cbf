//! Identifiers. All are cheap to clone and order by their text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A tool: the server that owns it and its name there. Written `server/name`; a name alone is not unique.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolId {
    server: Arc<str>,
    name: Arc<str>,
}

impl ToolId {
    pub fn new(server: &str, name: &str) -> Self {
        Self { server: server.into(), name: name.into() }
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.name)
    }
}

impl fmt::Debug for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no `server/name`.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} names no tool: expected `server/name`")]
pub struct ToolIdError(String);

impl FromStr for ToolId {
    type Err = ToolIdError;

    /// Splits at the first `/`: server names hold none, tool names may.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((server, name)) if !server.is_empty() && !name.is_empty() => Ok(Self::new(server, name)),
            _ => Err(ToolIdError(text.to_owned())),
        }
    }
}

impl Serialize for ToolId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ToolId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: &str) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A query of a dataset.
    QueryId
);
text_id!(
    /// Queries written for one gold tool, or one set of them; the cluster of every interval.
    IntentId
);
text_id!(
    /// A person or bot with grants.
    ActorId
);
text_id!(
    /// One planned episode: a digest of everything that decides its result except the answers of the model.
    JobKey
);
text_id!(
    /// A content digest, lower-case hex of BLAKE3.
    Digest
);

impl Digest {
    /// Digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::new(blake3::hash(bytes).to_hex().as_str())
    }

    /// Digest of the JSON text of a value. Field and key order count.
    pub fn of_json<T: Serialize>(value: &T) -> Self {
        Self::of(&serde_json::to_vec(value).expect("plain data serialises"))
    }

    /// The first twelve hex digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..self.0.len().min(12)]
    }

    /// A number drawn from the digest, for seeded choices.
    pub fn seed(&self) -> u64 {
        blake3::hash(self.0.as_bytes()).as_bytes()[..8].iter().fold(0, |seed, &byte| seed << 8 | u64::from(byte))
    }
}

impl JobKey {
    /// The key of the given plain value.
    pub fn of_json<T: Serialize>(value: &T) -> Self {
        Self(Digest::of_json(value).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_ids_split_at_the_first_slash_and_round_trip() {
        let id: ToolId = "docs/read/page".parse().unwrap();
        assert_eq!((id.server(), id.name()), ("docs", "read/page"));
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""docs/read/page""#);
        for bad in ["", "docs", "/read", "docs/"] {
            assert!(bad.parse::<ToolId>().is_err(), "{bad:?}");
        }
    }
}
