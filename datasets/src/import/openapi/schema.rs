//! Schemas of an `OpenAPI` document as JSON Schema that stands alone.
//!
//! Documents come from strangers: a walk follows keywords by their kind, so that an argument called `properties` is no
//! keyword, and every operation, and all of a document together, have a budget that references which multiply cannot exceed.

use serde_json::{Map, Number, Value, json};

use super::super::report::{Findings, Trouble};

/// Deepest schema inside schemas. Two levels of JSON each stay below what a reader of JSON accepts.
const DEPTH: usize = 40;
/// Nodes of one operation's arguments. A tool of this size fits no prompt.
const NODES: usize = 20_000;
/// Nodes of all operations of a document. The largest ones published, with some thousand operations, stay below.
const DOCUMENT_NODES: usize = 2_000_000;
/// Characters of text that count as one node.
const TEXT: usize = 200;
/// References that may lead to references.
const HOPS: usize = 32;

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keys that say nothing about which arguments fit, or only to a program that reads the document.
const DROPPED: [&str; 15] = [
    "$ref",
    "$schema",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
    "$comment",
    "$defs",
    "definitions",
    "example",
    "discriminator",
    "xml",
    "externalDocs",
    "nullable",
];
/// Keys whose values describe and do not restrict: one beside a reference replaces that of its target.
const WORDS: [&str; 7] = ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// The schemas of one document.
pub(super) struct Schemas<'a> {
    root: &'a Value,
    /// Version 3.0: `nullable`, and bounds that are exclusive by a flag.
    old: bool,
    findings: &'a mut Findings,
    /// The operation at work.
    place: String,
    /// References being replaced.
    active: Vec<String>,
    left: usize,
    /// What the operation at work was given.
    given: usize,
    /// What the document has left, without that.
    rest: usize,
    /// Whether the operation is reported as cut already.
    cut: bool,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(root: &'a Value, old: bool, findings: &'a mut Findings) -> Self {
        let (place, active) = (String::new(), Vec::new());
        Self { root, old, findings, place, active, left: 0, given: 0, rest: DOCUMENT_NODES, cut: false }
    }

    /// Starts an operation with a budget of its own, as far as that of the document goes.
    pub(super) fn begin(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        // What the one before has left is the document's again.
        self.rest += self.left;
        self.given = NODES.min(self.rest);
        self.rest -= self.given;
        self.left = self.given;
        self.cut = false;
    }

    pub(super) fn report(&mut self, trouble: Trouble, example: &str) {
        self.findings.add(trouble, example);
    }

    pub(super) fn note(&mut self, trouble: Trouble, what: &str) {
        let example = format!("{what} in {}", self.place);
        self.findings.add(trouble, &example);
    }

    fn cut(&mut self, why: &str) {
        if !std::mem::replace(&mut self.cut, true) {
            self.note(Trouble::CutSchema, why);
        }
    }

    fn too_large(&self) -> &'static str {
        if self.given < NODES { "too large for what is left of the document's budget" } else { "too large" }
    }

    /// Whether only answers hold a property; a reference is followed.
    fn is_read_only(&self, schema: &Value) -> bool {
        let mut schema = schema;
        for _ in 0..HOPS {
            if let Some(flag) = schema.get("readOnly") {
                return is_true(flag);
            }
            let reference = schema.get("$ref").and_then(Value::as_str);
            let Some(target) = reference.and_then(|reference| self.target(reference)) else { return false };
            schema = target;
        }
        false
    }

    fn repaired(&mut self, what: &str) {
        self.note(Trouble::RepairedSchema, what);
    }

    /// What a reference of this document leads to.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let pointer = decoded(reference.strip_prefix('#')?)?;
        self.root.pointer(&pointer)
    }

    /// The object behind a value that may be a reference, such as a parameter; what leads nowhere is reported.
    pub(super) fn follow(&mut self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..HOPS {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
            let Some(target) = self.target(reference) else {
                self.note(Trouble::UnresolvedReference, reference);
                return &Value::Null;
            };
            value = target;
        }
        self.note(Trouble::CutReference, "a chain of references");
        &Value::Null
    }

    /// A schema that stands alone.
    pub(super) fn schema(&mut self, value: &Value) -> Value {
        self.convert(value, 0)
    }

    fn convert(&mut self, value: &Value, depth: usize) -> Value {
        let object = match value {
            Value::Object(object) => object,
            Value::Bool(_) => return value.clone(),
            _ => {
                self.repaired("schema that is no object");
                return json!({});
            }
        };
        if self.left == 0 || depth > DEPTH {
            self.cut(if self.left == 0 { self.too_large() } else { "too deep" });
            return json!({});
        }
        self.left -= 1;
        match object.get("$ref") {
            None => self.keywords(object, depth),
            Some(Value::String(reference)) => self.reference(reference, object, depth),
            Some(_) => {
                self.repaired("$ref that is no text");
                self.keywords(object, depth)
            }
        }
    }

    fn reference(&mut self, reference: &str, object: &Map<String, Value>, depth: usize) -> Value {
        let Some(target) = self.target(reference) else {
            self.note(Trouble::UnresolvedReference, reference);
            return self.keywords(object, depth);
        };
        if self.active.iter().any(|active| active == reference) {
            self.note(Trouble::CutReference, reference);
            // What kind of value stands there is still known.
            let kind = target.get("type").and_then(Value::as_str).filter(|kind| TYPES.contains(kind));
            return kind.map_or_else(|| json!({}), |kind| json!({"type": kind}));
        }
        self.active.push(reference.to_owned());
        let mut target = self.convert(target, depth + 1);
        self.active.pop();
        let siblings = if object.len() > 1 { self.keywords(object, depth) } else { json!({}) };
        match (&mut target, siblings) {
            (_, Value::Object(siblings)) if siblings.is_empty() => target,
            (Value::Object(into), Value::Object(siblings))
                if siblings.keys().all(|key| WORDS.contains(&key.as_str()) || !into.contains_key(key)) =>
            {
                into.extend(siblings);
                target
            }
            (_, siblings) => json!({"allOf": [target, siblings]}),
        }
    }

    fn keywords(&mut self, object: &Map<String, Value>, depth: usize) -> Value {
        let mut schema = Map::new();
        for (key, value) in object {
            if DROPPED.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }
            if let Some(value) = self.keyword(key, value, object, depth) {
                schema.insert(key.clone(), value);
            }
        }
        if let (Some(Value::Object(properties)), Some(Value::Array(required))) =
            (object.get("properties"), schema.get_mut("required"))
        {
            // Only answers hold these.
            required.retain(|name| {
                name.as_str()
                    .is_none_or(|name| !properties.get(name).is_some_and(|property| self.is_read_only(property)))
            });
            if required.is_empty() {
                schema.shift_remove("required");
            }
        }
        if self.old && object.get("nullable").is_some_and(is_true) {
            return with_null(schema);
        }
        schema.into()
    }

    fn keyword(&mut self, key: &str, value: &Value, object: &Map<String, Value>, depth: usize) -> Option<Value> {
        match key {
            "properties" | "patternProperties" | "dependentSchemas" => {
                let Value::Object(entries) = value else { return self.refuse(key) };
                let mut converted = Map::new();
                for (name, entry) in entries {
                    if key == "properties" && self.is_read_only(entry) {
                        continue;
                    }
                    converted.insert(name.clone(), self.convert(entry, depth + 1));
                }
                Some(converted.into())
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let Value::Array(entries) = value else { return self.refuse(key) };
                if entries.is_empty() {
                    return self.refuse(key);
                }
                Some(entries.iter().map(|entry| self.convert(entry, depth + 1)).collect())
            }
            "items" if value.is_array() => {
                let entries = value.as_array().into_iter().flatten();
                Some(entries.map(|entry| self.convert(entry, depth + 1)).collect())
            }
            "items"
            | "additionalItems"
            | "additionalProperties"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "contentSchema" => match value {
                Value::Object(_) | Value::Bool(_) => Some(self.convert(value, depth + 1)),
                Value::String(text) if text == "true" || text == "false" => {
                    self.repaired(&format!("{key}: \"{text}\""));
                    Some((text == "true").into())
                }
                _ => self.refuse(key),
            },
            "type" => self.kind(value),
            // They lead back to a schema around them.
            "$dynamicRef" | "$recursiveRef" => {
                self.note(Trouble::CutReference, key);
                None
            }
            "required" => match value {
                Value::Array(names) if names.iter().all(Value::is_string) => Some(value.clone()),
                _ => self.refuse(key),
            },
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() || value == "true" || value == "false" => {
                if !self.old {
                    self.repaired(&format!("{key} as a flag"));
                }
                let bound = object.get(if key == "exclusiveMinimum" { "minimum" } else { "maximum" })?;
                is_true(value).then(|| number(bound)).flatten()
            }
            "minimum" | "maximum" => {
                let flag = if key == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
                // The bound itself is out, which the other keyword says.
                if object.get(flag).is_some_and(is_true) { None } else { self.number(key, value) }
            }
            "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minLength" | "maxLength" | "minItems"
            | "maxItems" | "minProperties" | "maxProperties" | "minContains" | "maxContains" => self.number(key, value),
            "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => match value {
                Value::Bool(_) => Some(value.clone()),
                Value::String(text) if text == "true" || text == "false" => {
                    self.repaired(&format!("{key}: \"{text}\""));
                    Some((text == "true").into())
                }
                _ => self.refuse(key),
            },
            "enum" | "examples" if !value.is_array() => self.refuse(key),
            "title" | "description" | "format" | "pattern" if !value.is_string() => self.refuse(key),
            _ => self.data(value),
        }
    }

    fn refuse(&mut self, key: &str) -> Option<Value> {
        self.repaired(&format!("{key} of the wrong type"));
        None
    }

    fn kind(&mut self, value: &Value) -> Option<Value> {
        let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
        match value {
            Value::String(_) if known(value) => Some(value.clone()),
            Value::Array(kinds) if !kinds.is_empty() && kinds.iter().all(known) => Some(value.clone()),
            _ => {
                let kind =
                    value.as_str().map_or_else(|| "type of the wrong type".to_owned(), |kind| format!("type {kind}"));
                self.note(Trouble::UnknownType, &kind);
                None
            }
        }
    }

    /// A number, also one written as text.
    fn number(&mut self, key: &str, value: &Value) -> Option<Value> {
        if value.is_number() {
            return Some(value.clone());
        }
        let read = number(value);
        if read.is_some() {
            self.repaired(&format!("{key} as text"));
            read
        } else {
            self.refuse(key)
        }
    }

    /// Copies what is no schema, at the expense of the budget: references multiply it too.
    fn data(&mut self, value: &Value) -> Option<Value> {
        self.charge(weight(value)).then(|| value.clone())
    }

    /// Whether a text may be copied, at the expense of the budget.
    pub(super) fn charge_text(&mut self, text: &str) -> bool {
        self.charge(1 + text.len() / TEXT)
    }

    fn charge(&mut self, weight: usize) -> bool {
        if weight > self.left {
            self.left = 0;
            self.cut(self.too_large());
            return false;
        }
        self.left -= weight;
        true
    }
}

/// The nodes of a value; long text counts as several.
fn weight(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(entries) => {
            1 + entries.iter().map(|(key, value)| key.len() / TEXT + weight(value)).sum::<usize>()
        }
        Value::String(text) => 1 + text.len() / TEXT,
        _ => 1,
    }
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true) || value == "true"
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => {
            let whole = text.trim().parse::<i64>().map(Number::from).ok();
            whole.or_else(|| text.trim().parse::<f64>().ok().and_then(Number::from_f64)).map(Value::Number)
        }
        _ => None,
    }
}

/// The schema with null allowed.
fn with_null(mut schema: Map<String, Value>) -> Value {
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let composed = ["allOf", "anyOf", "oneOf", "not", "if"].iter().any(|key| schema.contains_key(*key));
    match schema.get_mut("type") {
        Some(kind @ Value::String(_)) => {
            let single = kind.take();
            *kind = if single == "null" { single } else { json!([single, "null"]) };
            schema.into()
        }
        None if composed => {
            let description = schema.shift_remove("description");
            let mut either = Map::new();
            either.extend(description.map(|description| ("description".to_owned(), description)));
            either.insert("anyOf".to_owned(), json!([schema, {"type": "null"}]));
            either.into()
        }
        _ => schema.into(),
    }
}

/// A fragment without its percent signs.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
