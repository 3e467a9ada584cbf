//! What a schema costs to check, and what is left of one that costs too much.
//!
//! A schema of a few hundred bytes can refer to itself so often that checking the smallest arguments takes longer than anybody
//! waits: thirty definitions, each of which wants the next one twice, are a thousand million checks. Nothing in the schema is
//! wrong, and the validator can neither count nor be stopped. So its work is counted before it begins.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::endpoint::decoded;

/// Checks that a schema may take per part of the arguments. Real ones take some ten.
pub const MOST_CHECKS: u64 = 100_000;

/// Keywords that lead to another schema by its name.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

type Schema = Map<String, Value>;

/// A schema as it is checked.
pub(super) struct Priced {
    /// What is to be checked instead; `None`: the schema itself.
    pub(super) instead: Option<Value>,
    /// Checks per part of the arguments, at most.
    pub(super) checks: u64,
}

/// Counts what a schema costs and leaves references out where that is more than [`MOST_CHECKS`].
pub(super) fn priced(schema: &Value) -> Priced {
    let mut graph = Graph::of(schema);
    graph.price();
    let checks = graph.nodes.first().map_or(1, |root| root.checks);
    if !graph.nodes.iter().any(|node| node.cut) {
        return Priced { instead: None, checks };
    }
    let touched = graph.touched();
    let old = schema["$schema"]
        .as_str()
        .is_some_and(|draft| ["-03/", "-04/", "-06/", "-07/"].iter().any(|old| draft.contains(old)));
    let instead = Rest { graph: &graph, touched, alone: old }.of(schema);
    Priced { instead: Some(instead), checks }
}

/// A schema inside the schema.
struct Node<'s> {
    schema: &'s Schema,
    /// The schema from which its references count.
    document: &'s Value,
    /// Checked beside it.
    inner: Vec<usize>,
    /// Each checked against another part of the value, so that only the costliest counts.
    apart: Vec<usize>,
    references: Vec<usize>,
    /// Its references are left out.
    cut: bool,
    state: State,
    checks: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    /// Met again while it is being counted: it leads to itself, and counts once.
    Open,
    Done,
}

/// The schemas that checking may reach, the root first.
struct Graph<'s> {
    nodes: Vec<Node<'s>>,
    known: HashMap<*const Schema, usize>,
}

impl<'s> Graph<'s> {
    fn of(root: &'s Value) -> Self {
        let names = Names::of(root);
        let mut graph = Self { nodes: Vec::new(), known: HashMap::new() };
        graph.add(root, root);
        let mut next = 0;
        while next < graph.nodes.len() {
            graph.connect(next, root, &names);
            next += 1;
        }
        graph
    }

    /// The node of a schema. What is no object costs nothing.
    fn add(&mut self, schema: &'s Value, document: &'s Value) -> Option<usize> {
        let map = schema.as_object()?;
        let index = self.nodes.len();
        let known = *self.known.entry(std::ptr::from_ref(map)).or_insert(index);
        if known == index {
            let document = if id(map).is_some() { schema } else { document };
            let (inner, apart, references) = (Vec::new(), Vec::new(), Vec::new());
            let state = State::New;
            self.nodes.push(Node { schema: map, document, inner, apart, references, cut: false, state, checks: 1 });
        }
        Some(known)
    }

    fn connect(&mut self, index: usize, root: &'s Value, names: &Names<'s>) {
        let (schema, document) = (self.nodes[index].schema, self.nodes[index].document);
        let (mut inner, mut apart, mut references) = (Vec::new(), Vec::new(), Vec::new());
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(parts)) => {
                    apart.extend(parts.values().filter_map(|schema| self.add(schema, document)));
                }
                ("patternProperties" | "dependentSchemas" | "dependencies", Value::Object(parts)) => {
                    inner.extend(parts.values().filter_map(|schema| self.add(schema, document)));
                }
                ("prefixItems" | "items", Value::Array(list)) => {
                    apart.extend(list.iter().filter_map(|schema| self.add(schema, document)));
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    inner.extend(list.iter().filter_map(|schema| self.add(schema, document)));
                }
                (
                    "items"
                    | "additionalItems"
                    | "additionalProperties"
                    | "contains"
                    | "unevaluatedItems"
                    | "unevaluatedProperties"
                    | "not"
                    | "if"
                    | "then"
                    | "else"
                    | "propertyNames",
                    value,
                ) => inner.extend(self.add(value, document)),
                (keyword, Value::String(reference)) if REFERENCES.contains(&keyword) => {
                    for (target, document) in names.targets(reference, document, root) {
                        references.extend(self.add(target, document));
                    }
                }
                _ => {}
            }
        }
        let node = &mut self.nodes[index];
        (node.inner, node.apart, node.references) = (inner, apart, references);
    }

    /// Counts every node, those that it leads to first, each once.
    fn price(&mut self) {
        if self.nodes.is_empty() {
            return;
        }
        self.nodes[0].state = State::Open;
        let mut open = vec![(0_usize, 0_usize)];
        while let Some((index, at)) = open.last_mut() {
            let (index, next) = (*index, self.nodes[*index].leads_to(*at));
            *at += 1;
            match next {
                Some(next) if self.nodes[next].state == State::New => {
                    self.nodes[next].state = State::Open;
                    open.push((next, 0));
                }
                Some(_) => {}
                None => {
                    open.pop();
                    self.nodes[index].state = State::Done;
                    self.nodes[index].checks = self.sum(index);
                    if self.nodes[index].checks > MOST_CHECKS {
                        self.cut(index);
                    }
                }
            }
        }
    }

    fn sum(&self, index: usize) -> u64 {
        let node = &self.nodes[index];
        let checks = |index: &usize| match self.nodes[*index].state {
            State::Done => self.nodes[*index].checks,
            State::New | State::Open => 1,
        };
        let references = node.references.iter().filter(|_| !node.cut);
        let beside = node.inner.iter().chain(references).map(checks);
        let apart = node.apart.iter().map(checks).max().unwrap_or(0);
        beside.fold(1_u64.saturating_add(apart), u64::saturating_add)
    }

    /// Leaves out the references of a schema that costs too much. What is written out costs what it is long.
    fn cut(&mut self, index: usize) {
        let mut within = vec![index];
        let mut seen = HashSet::from([index]);
        let mut next = 0;
        while let Some(&at) = within.get(next) {
            let node = &self.nodes[at];
            within.extend(node.inner.iter().chain(&node.apart).copied().filter(|&child| seen.insert(child)));
            next += 1;
        }
        for at in within.into_iter().rev() {
            let node = &mut self.nodes[at];
            node.cut |= !node.references.is_empty();
            if node.state == State::Done {
                self.nodes[at].checks = self.sum(at);
            }
        }
    }

    /// Nodes that accept more than they did, since references are left out in them or in what they lead to.
    fn touched(&self) -> HashSet<usize> {
        let mut around: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            (0..).map_while(|at| node.leads_to(at)).for_each(|inner| around[inner].push(index));
        }
        let mut open: Vec<usize> = (0..self.nodes.len()).filter(|&index| self.nodes[index].cut).collect();
        let mut touched: HashSet<usize> = open.iter().copied().collect();
        while let Some(index) = open.pop() {
            open.extend(around[index].iter().copied().filter(|&outer| touched.insert(outer)));
        }
        touched
    }
}

impl Node<'_> {
    /// The nodes that it leads to, one after the other.
    fn leads_to(&self, mut at: usize) -> Option<usize> {
        let references: &[usize] = if self.cut { &[] } else { &self.references };
        for list in [self.inner.as_slice(), self.apart.as_slice(), references] {
            match list.get(at) {
                Some(index) => return Some(*index),
                None => at -= list.len(),
            }
        }
        None
    }
}

/// What schemas go by beside their place.
struct Names<'s> {
    /// By the last part of an `$id`: relative ones are not put together, so that one name may stand for several.
    documents: HashMap<&'s str, Vec<&'s Value>>,
    anchors: HashMap<&'s str, Vec<(&'s Value, &'s Value)>>,
}

impl<'s> Names<'s> {
    fn of(root: &'s Value) -> Self {
        let mut names = Self { documents: HashMap::new(), anchors: HashMap::new() };
        let mut open = vec![(root, root)];
        while let Some((value, document)) = open.pop() {
            let Value::Object(map) = value else {
                open.extend(value.as_array().into_iter().flatten().map(|inner| (inner, document)));
                continue;
            };
            let own = id(map);
            let document = if own.is_some() { value } else { document };
            if let Some(id) = own {
                names.documents.entry(last(id)).or_default().push(value);
            }
            let text = |key: &str| map.get(key).and_then(Value::as_str);
            let old = text("$id").and_then(|id| id.strip_prefix('#'));
            for anchor in [text("$anchor"), text("$dynamicAnchor"), old].into_iter().flatten() {
                names.anchors.entry(anchor).or_default().push((value, document));
            }
            open.extend(map.values().map(|inner| (inner, document)));
        }
        names
    }

    /// Every schema that a reference may mean, each with its document. Too many cost a little, one too few may cost everything.
    fn targets(&self, reference: &str, document: &'s Value, root: &'s Value) -> Vec<(&'s Value, &'s Value)> {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = decoded(fragment);
        let documents = if resource.is_empty() {
            vec![document, root]
        } else {
            self.documents.get(last(resource.trim_end_matches('#'))).cloned().unwrap_or_default()
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchors.get(fragment.as_str()).cloned().unwrap_or_default();
        }
        let found = documents.into_iter().filter_map(|document| Some((document.pointer(&fragment)?, document)));
        // What its own document has is what is meant.
        if resource.is_empty() { found.take(1).collect() } else { found.collect() }
    }
}

/// The id that makes a schema a document of its own.
fn id(schema: &Schema) -> Option<&str> {
    let id = schema.get("$id").or_else(|| schema.get("id"))?.as_str()?;
    (!id.starts_with('#')).then(|| id.trim_end_matches('#'))
}

/// The last part of an address.
fn last(address: &str) -> &str {
    address.rsplit('/').next().unwrap_or(address)
}

/// What is left of a schema without the references that cost too much. It accepts whatever the schema accepts.
struct Rest<'g, 's> {
    graph: &'g Graph<'s>,
    touched: HashSet<usize>,
    /// In drafts up to 7 nothing beside a `$ref` counts, nor may it begin to.
    alone: bool,
}

impl Rest<'_, '_> {
    fn of(&self, value: &Value) -> Value {
        match value {
            Value::Array(list) => list.iter().map(|inner| self.of(inner)).collect(),
            Value::Object(map) => {
                let node = self.graph.known.get(&std::ptr::from_ref(map)).copied();
                let kept =
                    map.iter().filter(|(keyword, inner)| node.is_none_or(|node| self.keeps(node, keyword, inner)));
                Value::Object(kept.map(|(keyword, inner)| (keyword.clone(), self.of(inner))).collect())
            }
            other => other.clone(),
        }
    }

    /// Whether a keyword of a schema stays. What refuses more where something inside accepts more must go.
    fn keeps(&self, node: usize, keyword: &str, value: &Value) -> bool {
        if self.graph.nodes[node].cut {
            if self.alone && self.graph.nodes[node].schema.contains_key("$ref") {
                return ["$schema", "$id", "id", "$defs", "definitions"].contains(&keyword);
            }
            if REFERENCES.contains(&keyword) {
                return false;
            }
        }
        if !self.touched.contains(&node) {
            return true;
        }
        match keyword {
            "unevaluatedProperties" | "unevaluatedItems" | "maxContains" => false,
            "not" => !self.accepts_more(value),
            "oneOf" => !value.as_array().into_iter().flatten().any(|branch| self.accepts_more(branch)),
            "if" | "then" | "else" => {
                !self.graph.nodes[node].schema.get("if").is_some_and(|condition| self.accepts_more(condition))
            }
            _ => true,
        }
    }

    fn accepts_more(&self, schema: &Value) -> bool {
        let node = schema.as_object().and_then(|map| self.graph.known.get(&std::ptr::from_ref(map)));
        node.is_some_and(|node| self.touched.contains(node))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema with a chain of definitions; the last accepts what is `last`.
    fn chain(count: usize, define: impl Fn(Value) -> Value, last: &Value) -> Value {
        let definitions: Map<_, _> = (0..count)
            .map(|index| {
                let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
                (format!("d{index}"), define(next))
            })
            .chain([(format!("d{count}"), last.clone())])
            .collect();
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
    }

    fn accepts(schema: &Value, arguments: &Value) -> bool {
        jsonschema::validator_for(schema).unwrap().is_valid(arguments)
    }

    #[test]
    fn ordinary_schemas_are_left_alone() {
        let tree = json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": {
            "type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"},
            "all": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}});
        let long = chain(2_000, |next| next, &json!({}));
        for schema in [json!({}), json!(true), json!({"$ref": "#"}), json!({"type": "object"}), tree, long] {
            let priced = priced(&schema);
            assert!(priced.instead.is_none() && priced.checks <= 2_010, "{}", priced.checks);
        }
        let twice =
            json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {"b": {}}}}});
        assert_eq!(priced(&twice).checks, 7);
    }

    #[test]
    fn arguments_apart_do_not_multiply() {
        let deep = chain(60, |next| json!({"properties": {"l": next, "r": next}}), &json!({"type": "string"}));
        assert!(priced(&deep).instead.is_none());
    }

    #[test]
    fn what_doubles_is_cut_and_the_rest_is_still_checked() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let schema = chain(30, |next| json!({keyword: [next, next]}), &json!({"type": "string"}));
            let priced = priced(&schema);
            let rest = priced.instead.expect("a copy");
            assert!(priced.checks <= MOST_CHECKS, "{keyword}: {}", priced.checks);
            assert!(accepts(&rest, &json!({"x": 1})), "{keyword}");
            assert!(!accepts(&rest, &json!([])), "{keyword}: what costs nothing is checked");
        }
    }

    #[test]
    fn names_lead_as_far_as_places_do() {
        let by = |key: &str, name: &str| {
            let definition = |index: usize| {
                let next = json!({key: format!("#d{}", index + 1)});
                (format!("d{index}"), json!({name: format!("d{index}"), "allOf": [next, next]}))
            };
            let mut definitions: Map<_, _> = (0..40).map(definition).collect();
            definitions.insert("d40".to_owned(), json!({name: "d40"}));
            json!({"type": "object", "properties": {"x": {key: "#d0"}}, "$defs": definitions})
        };
        for schema in [by("$ref", "$anchor"), by("$dynamicRef", "$dynamicAnchor")] {
            assert!(accepts(&priced(&schema).instead.expect("a copy"), &json!({"x": 1})));
        }
    }

    #[test]
    fn what_is_left_accepts_whatever_the_schema_accepts() {
        let bomb = json!({"$ref": "#/$defs/d0"});
        let with = |extra: Value| {
            let mut schema = chain(40, |next| json!({"allOf": [next, next]}), &json!({"type": "string"}));
            schema["properties"] = json!({"y": extra});
            priced(&schema).instead.expect("a copy")
        };
        for (schema, value) in [
            (json!({"not": bomb}), json!(1)),
            (json!({"oneOf": [bomb, {"type": "integer"}]}), json!(1)),
            (json!({"if": bomb, "then": false}), json!(1)),
            (json!({"contains": bomb, "maxContains": 1}), json!(["a", 1])),
            (json!({"allOf": [bomb], "unevaluatedProperties": false}), json!({"z": 1})),
        ] {
            assert!(accepts(&with(schema.clone()), &json!({"y": value})), "{schema}");
        }
    }
}
