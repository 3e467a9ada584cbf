//! Schemas of tools as an endpoint can read them.
//!
//! Endpoints read less of JSON Schema than servers write, and one schema that they cannot read kills the whole request. A
//! profile says what an endpoint cannot read; [`rewrite`] says it otherwise, and writes down each change. Arguments are checked
//! against the real schema and never against a rewritten one.

mod combine;
mod keywords;
mod pattern;
mod place;
mod refs;
mod rules;
mod types;
mod walk;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use refs::decoded;
pub use rules::{DropPatterns, Preset, RootCombinators, Rule, SchemaRules};

/// Schemas below this depth are not read; real ones end at eleven or so.
const DEEPEST: usize = 64;

/// One change of a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// Where, as a JSON pointer into the schema.
    pub pointer: String,
    pub rule: Rule,
    /// What stood there, cut to a short text; empty if nothing did.
    pub before: String,
    /// What stands there now; empty if nothing does.
    pub after: String,
}

/// The schema as the rules want it, and what was changed for it. Rewriting twice changes no more than rewriting once.
///
/// Every object that fits the schema fits the rewritten one too, with two exceptions: `root_combinators = "merge"` may describe
/// a property more closely than one of the alternatives does, and `one_type` guesses where the schema leaves the type open.
pub fn rewrite(schema: &Value, rules: &SchemaRules) -> (Value, Vec<Rewrite>) {
    if rules.is_off() {
        return (schema.clone(), Vec::new());
    }
    let inlines = rules.inline_refs || rules.any_of_only;
    let (rewritten, log, changed) = walk::rewritten(schema, rules, inlines);
    if inlines || !refs::must_go(schema, &rewritten, changed) {
        return (rewritten, log);
    }
    let (rewritten, log, _) = walk::rewritten(schema, rules, true);
    (rewritten, log)
}
