//! References inside a schema: following them, and knowing when they must not stay.

use serde_json::{Map, Value};

use super::DEEPEST;
use super::place::children;

/// References inside references.
const MOST_NESTED: usize = 16;
/// JSON values that all references of a schema may bring in together.
const MOST_VALUES: usize = 20_000;

/// The references of one schema while they are being replaced.
pub(super) struct Refs<'d> {
    document: &'d Value,
    /// Those that the current place came from.
    inside: Vec<String>,
    left: usize,
    /// What is referred to by other means must stay where it is.
    pub(super) keeps_definitions: bool,
    /// In drafts up to 7 nothing beside a `$ref` counts but words.
    pub(super) alone: bool,
}

impl<'d> Refs<'d> {
    pub(super) fn new(document: &'d Value) -> Self {
        let draft = document["$schema"].as_str().unwrap_or_default();
        Self {
            document,
            inside: Vec::new(),
            left: MOST_VALUES,
            keeps_definitions: any(document, 0, &|map| {
                map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef")
            }),
            alone: ["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"].iter().any(|old| draft.contains(old)),
        }
    }

    /// What a reference points at, or why that cannot take its place. Call [`leave`](Self::leave) when done with it.
    pub(super) fn enter(&mut self, reference: &str) -> Result<&'d Value, &'static str> {
        let target = resolve(self.document, reference).ok_or("it leads nowhere")?;
        if self.inside.iter().any(|outer| outer == reference) {
            return Err("it leads to itself");
        }
        let size = count(target, self.left);
        if self.inside.len() >= MOST_NESTED || size >= self.left {
            // Nothing more is let in, so that the order of places does not decide which of them are whole.
            self.left = 0;
            return Err("it brings in too much");
        }
        self.left -= size;
        self.inside.push(reference.to_owned());
        Ok(target)
    }

    pub(super) fn leave(&mut self, references: usize) {
        self.inside.truncate(self.inside.len() - references);
    }
}

/// The schema that a reference of the same document names.
pub(super) fn resolve<'d>(document: &'d Value, reference: &str) -> Option<&'d Value> {
    let fragment = decoded(reference.strip_prefix('#')?);
    let target = document.pointer(&fragment)?;
    (target.is_object() || target.is_boolean()).then_some(target)
}

/// Per cent signs of a URI fragment undone; what is no such sign stays.
pub(crate) fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = (byte == b'%').then(|| tail.get(..2)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        if let Some(code) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(code);
            rest = &tail[2..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// JSON values in a value, counted up to a limit.
fn count(value: &Value, limit: usize) -> usize {
    let mut found = 1;
    let mut count_in = |child: &Value| {
        if found < limit {
            found += count(child, limit - found);
        }
    };
    match value {
        Value::Array(values) => values.iter().for_each(&mut count_in),
        Value::Object(map) => map.values().for_each(&mut count_in),
        _ => {}
    }
    found
}

/// Some schema of the document, down to the depth that is read, is such a one.
fn any(schema: &Value, depth: usize, test: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    let Value::Object(map) = schema else { return false };
    depth <= DEEPEST && (test(map) || children(map).any(|(_, child)| any(child, depth + 1, test)))
}

/// References of the original cannot stay in the rewritten schema: one would lead nowhere now, one stands where a looser target
/// makes the whole tighter (`changed` says that there may be one), or one leads to the root, which is an object for sure where the
/// arguments are meant and nowhere else.
pub(super) fn must_go(original: &Value, rewritten: &Value, changed: bool) -> bool {
    let lost = |reference: &str| resolve(original, reference).is_some() && resolve(rewritten, reference).is_none();
    let typed = original["type"] != rewritten["type"];
    stands(rewritten, 0, false, &|reference, inverted| {
        lost(reference) || (changed && inverted) || (typed && reference == "#")
    })
}

/// Some reference passes the test, which is told whether a looser target could make the whole tighter.
fn stands(schema: &Value, depth: usize, inverted: bool, test: &dyn Fn(&str, bool) -> bool) -> bool {
    let Value::Object(map) = schema else { return false };
    if depth > DEEPEST {
        return false;
    }
    let inverted = inverted || map.contains_key("unevaluatedProperties") || map.contains_key("unevaluatedItems");
    if map.get("$ref").and_then(Value::as_str).is_some_and(|reference| test(reference, inverted)) {
        return true;
    }
    children(map).any(|(keyword, child)| {
        let inverted = inverted || matches!(keyword, "not" | "if" | "oneOf" | "contains");
        stands(child, depth + 1, inverted, test)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_lead_to_schemas_only() {
        let document = json!({"properties": {"a/b": {"type": "string"}, "ü": true, "n": {"enum": [{"x": 1}]}}});
        assert_eq!(resolve(&document, "#"), Some(&document));
        for reference in ["#/properties/a~1b", "#/properties/a%7E1b"] {
            assert_eq!(resolve(&document, reference), Some(&json!({"type": "string"})), "{reference}");
        }
        assert_eq!(resolve(&document, "#/properties/%C3%BC"), Some(&json!(true)));
        for reference in ["#/properties/none", "#/properties/n/enum", "other.json#/properties/n", "#anchor", "", "#/%"]
        {
            assert_eq!(resolve(&document, reference), None, "{reference}");
        }
    }

    #[test]
    fn values_are_counted_up_to_a_limit() {
        let value = json!({"a": [1, 2, {"b": 3}], "c": null});
        assert_eq!(count(&value, 100), 7);
        assert_eq!(count(&value, 3), 3);
    }
}
