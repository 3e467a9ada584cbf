//! Schemas of arguments. The walk goes by what stands where: only a key of a schema is a keyword, so an argument called
//! `properties`, `type`, `items` or `$ref` is an argument, and what `default`, `const`, `enum` and `examples` hold is data.

use serde_json::{Map, Value};

use super::rules::{ARRAY_WITHOUT_ITEMS, DEEP, REF_UNRESOLVED, ROOT_COMBINATOR, Rule, SCHEMA_INVALID};
use super::{Linter, some};
use crate::problem::{clean_up_to, quote};

/// More levels of arguments than this are deep.
const LEVELS: usize = 5;
/// Longest complaint of the validator that is repeated, in characters: it may quote the whole schema.
const COMPLAINT: usize = 160;
/// What endpoints refuse beside the root's type.
const COMBINATORS: [&str; 5] = ["anyOf", "oneOf", "allOf", "not", "enum"];

pub(super) fn check(linter: &mut Linter) {
    let dataset = linter.dataset;
    for tool in &dataset.catalogue.tools {
        for (rule, message) in faults(&tool.input_schema) {
            linter.tool(rule, tool, "inputSchema", &message);
        }
    }
}

/// One finding per rule at most.
fn faults(schema: &Value) -> Vec<(&'static Rule, String)> {
    let Value::Object(root) = schema else { return Vec::new() };
    let nodes = nodes(root);
    let mut faults = Vec::new();
    let references = Referable::new(schema, &nodes);
    let unresolved: Vec<_> = nodes
        .iter()
        .filter_map(|node| Some((node, node.schema.get("$ref")?.as_str()?)))
        .filter(|(_, reference)| !references.resolves(reference))
        .map(|(node, reference)| format!("{} at {}", quote(reference), node.place()))
        .collect();
    if !unresolved.is_empty() {
        faults.push((&REF_UNRESOLVED, format!("unresolved: {}", some(&unresolved))));
    }
    // A root of another type is refused by the loader, under the same rule.
    let combinators: Vec<_> =
        COMBINATORS.iter().filter(|key| root.contains_key(**key)).map(|key| format!("`{key}`")).collect();
    if !combinators.is_empty() {
        faults.push((&ROOT_COMBINATOR, format!("the root has {}", some(&combinators))));
    } else if !root.contains_key("type") {
        faults.push((&ROOT_COMBINATOR, "the root has no `type`".to_owned()));
    }
    let bare: Vec<_> = nodes.iter().filter(|node| is_bare_array(node.schema)).map(Node::place).collect();
    if !bare.is_empty() {
        faults.push((&ARRAY_WITHOUT_ITEMS, format!("no `items` at {}", some(&bare))));
    }
    if let Some(complaint) = invalid(schema, unresolved.is_empty()) {
        faults.push((&SCHEMA_INVALID, complaint));
    }
    let deepest = nodes.iter().max_by_key(|node| node.level);
    if let Some(node) = deepest.filter(|node| node.level > LEVELS) {
        faults.push((&DEEP, format!("{} levels at {}", node.level, node.place())));
    }
    faults
}

/// Why the schema cannot be used, if it cannot: against its meta-schema, then as a whole (patterns, for one, are only looked
/// at there; a reference that leads nowhere would be, too, and has a rule of its own).
fn invalid(schema: &Value, resolved: bool) -> Option<String> {
    if let Err(error) = jsonschema::meta::validate(schema) {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the root".to_owned() } else { quote(&place) };
        return Some(format!("at {place}: {}", clean_up_to(COMPLAINT, &error.to_string())));
    }
    if !resolved {
        return None;
    }
    jsonschema::validator_for(schema).err().map(|error| clean_up_to(COMPLAINT, &error.to_string()))
}

fn is_bare_array(schema: &Map<String, Value>) -> bool {
    let array = match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    };
    array && !["items", "prefixItems"].iter().any(|key| schema.contains_key(*key))
}

/// A schema inside a schema.
struct Node<'s> {
    schema: &'s Map<String, Value>,
    pointer: String,
    /// How many objects and arrays are around the value it describes, as far as that is written out here: references are
    /// not followed, and a definition starts anew.
    level: usize,
}

impl Node<'_> {
    fn place(&self) -> String {
        if self.pointer.is_empty() { "the root".to_owned() } else { quote(&self.pointer) }
    }
}

/// What the value of a keyword is.
enum Holds {
    Schema,
    /// A schema or a list of them.
    Schemas,
    /// Schemas by name.
    Named,
}

/// Keywords that hold schemas: what they hold, and the level of those, given that of the schema they stand in.
fn holds(keyword: &str, level: usize) -> Option<(Holds, usize)> {
    Some(match keyword {
        "properties" | "patternProperties" => (Holds::Named, level + 1),
        "items" | "prefixItems" => (Holds::Schemas, level + 1),
        "additionalProperties" | "additionalItems" | "contains" | "unevaluatedItems" | "unevaluatedProperties" => {
            (Holds::Schema, level + 1)
        }
        "$defs" | "definitions" => (Holds::Named, 0),
        "dependentSchemas" | "dependencies" => (Holds::Named, level),
        "allOf" | "anyOf" | "oneOf" => (Holds::Schemas, level),
        "not" | "if" | "then" | "else" | "propertyNames" => (Holds::Schema, level),
        _ => return None,
    })
}

/// All schemas of a schema, itself first, in the order in which they are written.
fn nodes<'s>(root: &'s Map<String, Value>) -> Vec<Node<'s>> {
    let mut nodes = Vec::new();
    let mut open = vec![Node { schema: root, pointer: String::new(), level: 0 }];
    while let Some(node) = open.pop() {
        let mut inner = Vec::new();
        for (keyword, value) in node.schema {
            let Some((holds, level)) = holds(keyword, node.level) else { continue };
            let pointer = format!("{}/{keyword}", node.pointer);
            let mut push = |value: &'s Value, pointer: String| {
                if let Value::Object(schema) = value {
                    inner.push(Node { schema, pointer, level });
                }
            };
            match (holds, value) {
                (Holds::Named, Value::Object(named)) => {
                    named.iter().for_each(|(name, value)| push(value, format!("{pointer}/{}", escape(name))));
                }
                (Holds::Schemas, Value::Array(list)) => {
                    list.iter().enumerate().for_each(|(index, value)| push(value, format!("{pointer}/{index}")));
                }
                (Holds::Schema | Holds::Schemas, value) => push(value, pointer),
                (Holds::Named, _) => {}
            }
        }
        nodes.push(node);
        open.extend(inner.into_iter().rev());
    }
    nodes
}

/// A name as a part of a JSON Pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// What references of a schema can name.
struct Referable<'s> {
    root: &'s Value,
    nodes: &'s [Node<'s>],
}

impl<'s> Referable<'s> {
    fn new(root: &'s Value, nodes: &'s [Node<'s>]) -> Self {
        Self { root, nodes }
    }

    fn resolves(&self, reference: &str) -> bool {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if is_meta_schema(resource) {
            return true;
        }
        // Schemas with an `$id` are documents of their own; the root is one, with or without.
        let resources = self.nodes.iter().filter(|node| {
            let id = node.schema.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
            match id {
                _ if resource.is_empty() => node.pointer.is_empty() || id.is_some(),
                Some(id) => id == resource || id.rsplit('/').next() == Some(resource),
                None => false,
            }
        });
        let fragment = percent_decode(fragment);
        let mut resources = resources.peekable();
        if fragment.is_empty() || resources.peek().is_none() {
            return resources.peek().is_some();
        }
        if fragment.starts_with('/') {
            let target = |node: &Node| self.root.pointer(&format!("{}{fragment}", node.pointer)).is_some_and(is_schema);
            return resources.any(target);
        }
        let named = |node: &Node, key: &str, name: &str| node.schema.get(key).is_some_and(|value| value == name);
        let id = format!("#{fragment}");
        self.nodes.iter().any(|node| {
            named(node, "$anchor", &fragment) || named(node, "$dynamicAnchor", &fragment) || named(node, "$id", &id)
        })
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Those of the drafts are compiled into the validator.
fn is_meta_schema(resource: &str) -> bool {
    let rest = resource.strip_prefix("https://").or_else(|| resource.strip_prefix("http://"));
    rest.is_some_and(|rest| rest.starts_with("json-schema.org/draft"))
}

/// `%7B` as `{`; what is no such code stays.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = (byte == b'%').then(|| tail.get(..2)).flatten();
        let decoded = code
            .and_then(|code| std::str::from_utf8(code).ok())
            .filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn ids(schema: &Value) -> String {
        faults(schema).iter().map(|(rule, _)| rule.id).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_named_like_keywords_are_arguments() {
        let schema = json!({"type": "object", "properties": {
            "$ref": {"type": "string"},
            "type": {"type": "string", "enum": ["array"]},
            "items": {"type": "array", "items": {"type": "string"}},
            "properties": {"type": "object", "properties": {"anyOf": {"type": "string"}, "$ref": {"$ref": "#/properties/type"}}},
            "anyOf": {"type": "string", "default": {"$ref": "#/nowhere", "type": "array"}},
            "const": {"const": {"$ref": "#/nowhere"}},
            "list": {"enum": [{"type": "array"}], "examples": [{"$ref": "nowhere"}]},
        }});
        assert_eq!(ids(&schema), "");
    }

    #[test]
    fn references_resolve_inside_the_schema_only() {
        let with = |reference: &str| {
            ids(&json!({"type": "object", "properties": {
                "a/b": {"anyOf": [{"type": "object", "properties": {"ü": {"type": "null"}}}]},
                "c": {"$ref": reference},
                "d": {"$anchor": "here", "title": "text"},
                "e": {"$id": "https://example.org/item.json", "$defs": {"x": true}},
            }}))
        };
        for good in [
            "#",
            "#/properties/a~1b/anyOf/0/properties/%C3%BC",
            "#here",
            "https://example.org/item.json#/$defs/x",
            "item.json",
            "http://json-schema.org/draft-07/schema#",
        ] {
            assert!(!with(good).contains("TG301"), "{good}: {}", with(good));
        }
        for bad in [
            "#/properties/x",
            "#/properties/a~1b/anyOf/1",
            "#there",
            "other.json",
            "#/properties/d/title",
            "https://example.org/item.json#/$defs/y",
        ] {
            assert_eq!(with(bad), "TG301", "{bad}");
        }
    }

    #[test]
    fn roots_are_plain_objects() {
        assert_eq!(ids(&json!({"type": "object"})), "");
        assert_eq!(ids(&json!({"type": "object", "properties": {"a": {"anyOf": [{}, {"type": "null"}]}}})), "");
        assert_eq!(ids(&json!({"type": "object", "not": {"required": ["a"]}})), "TG302");
        assert_eq!(ids(&json!({"properties": {}})), "TG302");
    }

    #[test]
    fn arrays_say_what_they_hold() {
        let with = |schema: Value| ids(&json!({"type": "object", "properties": {"a": schema}}));
        assert_eq!(with(json!({"type": "array"})), "TG303");
        assert_eq!(with(json!({"anyOf": [{"type": ["array", "null"]}]})), "TG303");
        assert_eq!(with(json!({"type": "array", "items": {}})), "");
        assert_eq!(with(json!({"type": "array", "prefixItems": [{"type": "string"}]})), "");
    }

    #[test]
    fn schemas_are_valid_by_their_own_draft() {
        let with = |schema: Value| ids(&json!({"type": "object", "properties": {"a": schema}}));
        assert_eq!(with(json!({"type": "text"})), "TG304");
        assert_eq!(with(json!({"type": "string", "pattern": "("})), "TG304");
        assert_eq!(with(json!({"type": "string", "format": "cidrv4", "pattern": "^(?!a)"})), "");
        let exclusive = |draft: &str| {
            ids(
                &json!({"$schema": draft, "type": "object", "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}}),
            )
        };
        assert_eq!(exclusive("http://json-schema.org/draft-04/schema#"), "");
        assert_eq!(exclusive("http://json-schema.org/draft-07/schema#"), "TG304");
        assert_eq!(exclusive("https://example.org/of-our-own"), "TG304", "a meta-schema that nobody fetches");
    }

    #[test]
    fn levels_count_objects_and_arrays_around_a_value() {
        let nest = |levels: usize| {
            let inner = (1..levels).fold(json!({"type": "string"}), |inner, level| {
                if level.is_multiple_of(2) {
                    json!({"type": "array", "items": inner})
                } else {
                    json!({"anyOf": [{"type": "object", "properties": {"x": inner}}, {"type": "null"}]})
                }
            });
            ids(&json!({"type": "object", "properties": {"x": inner}}))
        };
        assert_eq!(nest(5), "");
        assert_eq!(nest(6), "TG305");
    }

    fn odd_schema() -> impl Strategy<Value = Value> {
        let keys = prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "$ref",
            "$id",
            "$defs",
            "anyOf",
            "not",
            "pattern",
            "$schema",
            "$anchor",
            "enum",
            "required",
            "minimum",
            "a",
            "x~/y",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::sample::select(vec![
                "object",
                "array",
                "#",
                "#/$defs/a",
                "#/%zz%",
                "#a",
                "a",
                "(",
                "https://json-schema.org/draft/2020-12/schema",
                "http://[",
                "urn:x",
                "",
            ])
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(keys.clone(), inner, 0..5).prop_map(|entries| {
                    Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn odd_schemas_never_panic(schema in odd_schema()) {
            faults(&schema);
        }
    }
}
