//! Schemas of arguments. The walk goes by what stands where: only a key of a schema is a keyword, so an argument called
//! `properties`, `type`, `items` or `$ref` is an argument, and what `default`, `const`, `enum` and `examples` hold is data.
//!
//! Schemas come from anywhere and may be large. Each is walked once and indexed once; a reference costs a look-up, and a pointer
//! is only written out for what is shown.

mod references;

use harness::arguments::{MOST_CHECKS, checked_in_part};
use harness::text::grouped;
use serde_json::Value;

use super::rules::{ARRAY_WITHOUT_ITEMS, DEEP, EXPANDS, REF_UNRESOLVED, ROOT_COMBINATOR, Rule, SCHEMA_INVALID};
use super::{Linter, some};
use crate::problem::{clean_up_to, quote};
use references::unresolved;

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
    let nodes = Nodes::of(schema);
    let mut faults = Vec::new();
    let unresolved = unresolved(&nodes);
    if !unresolved.is_empty() {
        let shown = unresolved.iter().map(|(node, reference)| format!("{} at {}", quote(reference), nodes.place(node)));
        faults.push((&REF_UNRESOLVED, format!("unresolved: {}", some(shown))));
    }
    // A root of another type is refused by the loader, under the same rule.
    let combinators: Vec<_> = COMBINATORS.iter().filter(|key| root.contains_key(**key)).collect();
    if !combinators.is_empty() {
        let shown = combinators.iter().map(|key| format!("`{key}`"));
        faults.push((&ROOT_COMBINATOR, format!("the root has {}", some(shown))));
    } else if !root.contains_key("type") {
        faults.push((&ROOT_COMBINATOR, "the root has no `type`".to_owned()));
    }
    let bare: Vec<_> = nodes.0.iter().filter(|node| is_bare_array(node.schema)).collect();
    if !bare.is_empty() {
        let shown = bare.iter().map(|node| nodes.place(node));
        faults.push((&ARRAY_WITHOUT_ITEMS, format!("no `items` at {}", some(shown))));
    }
    let expands = checked_in_part(schema);
    // What multiplies may do so for the compiler, too.
    if let Some(complaint) = invalid(schema, unresolved.is_empty() && !expands) {
        faults.push((&SCHEMA_INVALID, complaint));
    }
    let deepest = nodes.0.iter().max_by_key(|node| node.level);
    if let Some(node) = deepest.filter(|node| node.level > LEVELS) {
        faults.push((&DEEP, format!("{} levels at {}", node.level, nodes.place(node))));
    }
    if expands {
        faults.push((
            &EXPANDS,
            format!("checking a part of the arguments takes more than {} checks", grouped(MOST_CHECKS)),
        ));
    }
    faults
}

/// Why the schema cannot be used, if it cannot: against its meta-schema, then as a whole (patterns, for one, are only looked
/// at there; a reference that leads nowhere would be, too, and has a rule of its own).
fn invalid(schema: &Value, compile: bool) -> Option<String> {
    if let Err(error) = jsonschema::meta::validate(schema) {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the root".to_owned() } else { quote(&place) };
        return Some(format!("at {place}: {}", clean_up_to(COMPLAINT, &error.to_string())));
    }
    if !compile {
        return None;
    }
    jsonschema::validator_for(schema).err().map(|error| clean_up_to(COMPLAINT, &error.to_string()))
}

fn is_bare_array(schema: &Value) -> bool {
    let array = match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    };
    array && !["items", "prefixItems"].iter().any(|key| schema.get(*key).is_some())
}

/// A schema inside a schema.
struct Node<'s> {
    /// An object.
    schema: &'s Value,
    /// The node it stands in, and the part of that it is; `None`: the root.
    within: Option<(usize, Part<'s>)>,
    /// The nearest node around it, or itself, that is a document of its own, from which its references count.
    document: usize,
    /// How many objects and arrays are around the value it describes, as far as that is written out here: references are
    /// not followed, and a definition starts anew.
    level: usize,
}

/// Where in another schema a schema stands.
#[derive(Clone, Copy)]
enum Part<'s> {
    Keyword(&'s str),
    Item(&'s str, usize),
    Named(&'s str, &'s str),
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
struct Nodes<'s>(Vec<Node<'s>>);

impl<'s> Nodes<'s> {
    fn of(root: &'s Value) -> Self {
        let mut nodes = Vec::new();
        let mut open = vec![Node { schema: root, within: None, document: 0, level: 0 }];
        while let Some(mut node) = open.pop() {
            let index = nodes.len();
            if id(node.schema).is_some() {
                node.document = index;
            }
            let mut inner = Vec::new();
            for (keyword, value) in node.schema.as_object().into_iter().flatten() {
                let Some((holds, level)) = holds(keyword, node.level) else { continue };
                let mut push = |schema: &'s Value, part| {
                    if schema.is_object() {
                        inner.push(Node { schema, within: Some((index, part)), document: node.document, level });
                    }
                };
                match (holds, value) {
                    (Holds::Named, Value::Object(named)) => {
                        named.iter().for_each(|(name, value)| push(value, Part::Named(keyword, name)));
                    }
                    (Holds::Schemas, Value::Array(list)) => {
                        list.iter().enumerate().for_each(|(index, value)| push(value, Part::Item(keyword, index)));
                    }
                    (Holds::Schema | Holds::Schemas, value) => push(value, Part::Keyword(keyword)),
                    (Holds::Named, _) => {}
                }
            }
            nodes.push(node);
            open.extend(inner.into_iter().rev());
        }
        Self(nodes)
    }

    /// The place of a node as a message names it, by its JSON Pointer.
    fn place(&self, node: &Node) -> String {
        let mut parts = Vec::new();
        let mut around = node.within;
        while let Some((index, part)) = around {
            parts.push(match part {
                Part::Keyword(keyword) => format!("/{keyword}"),
                Part::Item(keyword, index) => format!("/{keyword}/{index}"),
                Part::Named(keyword, name) => format!("/{keyword}/{}", escape(name)),
            });
            around = self.0[index].within;
        }
        parts.reverse();
        if parts.is_empty() { "the root".to_owned() } else { quote(&parts.concat()) }
    }
}

/// The id that makes a schema a document of its own; with a fragment it is an anchor, as older drafts write them.
fn id(schema: &Value) -> Option<&str> {
    let id = schema.get("$id")?.as_str()?;
    (!id.starts_with('#')).then(|| id.trim_end_matches('#'))
}

/// A name as a part of a JSON Pointer.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    pub(super) fn ids(schema: &Value) -> String {
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

    /// What would be walked again for every reference to it doubles with each of these.
    #[test]
    fn references_to_references_are_not_walked_again_and_again() {
        let definitions = |count: usize, define: &dyn Fn(usize) -> Value| {
            let definitions: serde_json::Map<_, _> =
                (0..count).map(|index| (format!("d{index}"), define(index))).collect();
            ids(&json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}))
        };
        let to = |index: usize| json!({"$ref": format!("#/$defs/d{index}")});
        let twice = |index| if index == 59 { json!(true) } else { json!({"anyOf": [to(index + 1), to(index + 1)]}) };
        assert_eq!(definitions(60, &twice), "TG306", "not walked so often, and not checked so often either");
        assert_eq!(
            definitions(60, &|index| json!({"properties": {"l": to((index + 1) % 60), "r": to((index + 7) % 60)}})),
            ""
        );
        assert_eq!(definitions(2_000, &|index| if index == 1_999 { json!({}) } else { to(index + 1) }), "");
        assert_eq!(definitions(2_000, &|_| json!({"anyOf": [to(0), {"not": to(1_999)}]})), "");
        let wide: Vec<_> = (0..2_000).map(|_| to(1)).collect();
        assert_eq!(definitions(2, &|index| if index == 0 { json!({"anyOf": wide}) } else { json!({}) }), "");
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
