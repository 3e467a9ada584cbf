//! The files of format version 1, field by field (FORMAT.md). Reading checks types and keys; `load` checks the rest.
//!
//! References and enumerations are plain text here, so that one bad value does not hide the other problems of its line.
//! No `untagged` and no `flatten`: both lose the position of an error.

#![expect(clippy::struct_field_names, reason = "the format names the fields")]

use harness::catalogue::Annotations;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::unique::{self, Pairs};

/// The only version there is.
pub(crate) const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    pub(crate) name: String,
    pub(crate) revision: String,
    pub(crate) licence: String,
    pub(crate) description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) canary: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sizes: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) server: String,
    pub(crate) title: String,
    pub(crate) description: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) boilerplate: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mcp: Option<Implementation>,
}

/// What a live server said of itself when its tools were listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Implementation {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) protocol: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    #[serde(rename = "inputSchema", deserialize_with = "unique::value")]
    pub(crate) input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<Annotations>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) core: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) description: String,
    #[serde(rename = "allowed-tools")]
    pub(crate) allowed_tools: Vec<String>,
    pub(crate) tier: String,
    pub(crate) body: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Actor {
    pub(crate) actor: String,
    pub(crate) roles: Vec<String>,
    pub(crate) grants: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    pub(crate) query: String,
    pub(crate) intent: String,
    pub(crate) text: String,
    #[serde(default = "everybody")]
    pub(crate) actor: String,
    pub(crate) kind: String,
    #[serde(default = "english")]
    pub(crate) language: String,
    pub(crate) split: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) scaling: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) sequential: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) candidates: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub(crate) results: Pairs<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Qrel {
    pub(crate) query: String,
    pub(crate) group: i64,
    pub(crate) tool: String,
    pub(crate) relevance: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Pairs<Vec<Value>>>,
}

pub(crate) fn everybody() -> String {
    "all".to_owned()
}

pub(crate) fn english() -> String {
    "en".to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
