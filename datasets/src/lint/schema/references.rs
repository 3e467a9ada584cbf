//! Where the references of a schema lead, without following one of them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Node, Nodes, id};

/// References that lead nowhere inside the schema, each with the node it stands in.
pub(super) fn unresolved<'n, 's>(nodes: &'n Nodes<'s>) -> Vec<(&'n Node<'s>, &'s str)> {
    let referable = Referable::new(nodes);
    let references = nodes.0.iter().filter_map(|node| Some((node, node.schema.get("$ref")?.as_str()?)));
    references.filter(|(node, reference)| !referable.resolves(node, reference)).collect()
}

/// What references of a schema can name.
struct Referable<'n, 's> {
    nodes: &'n Nodes<'s>,
    /// Documents by their id, and by the last part of it.
    documents: HashMap<&'s str, Document>,
    anchors: HashSet<&'s str>,
}

/// What goes by a name.
#[derive(Clone, Copy)]
enum Document {
    One(usize),
    /// Which one is meant depends on where the reference stands. That is left to the validator, which resolves it.
    Several,
}

impl<'n, 's> Referable<'n, 's> {
    fn new(nodes: &'n Nodes<'s>) -> Self {
        let (mut documents, mut anchors) = (HashMap::new(), HashSet::new());
        for (index, Node { schema, .. }) in nodes.0.iter().enumerate() {
            let text = |key: &str| schema.get(key).and_then(Value::as_str);
            anchors.extend(text("$anchor"));
            anchors.extend(text("$dynamicAnchor"));
            anchors.extend(text("$id").and_then(|id| id.strip_prefix('#')));
            if let Some(id) = id(schema) {
                let last = id.rsplit('/').next().filter(|last| *last != id);
                for name in [Some(id), last].into_iter().flatten() {
                    documents
                        .entry(name)
                        .and_modify(|document| *document = Document::Several)
                        .or_insert(Document::One(index));
                }
            }
        }
        Self { nodes, documents, anchors }
    }

    fn resolves(&self, node: &Node, reference: &str) -> bool {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if is_meta_schema(document) {
            return true;
        }
        // Without a document its own is meant. Many schemas mean the root all the same.
        let roots = match (document, self.documents.get(document)) {
            ("", _) => [node.document, 0],
            (_, Some(Document::One(index))) => [*index; 2],
            (_, Some(Document::Several)) => return true,
            (_, None) => return false,
        };
        let fragment = percent_decode(fragment);
        if fragment.is_empty() {
            return true;
        }
        if fragment.starts_with('/') {
            return roots.iter().any(|&root| self.nodes.0[root].schema.pointer(&fragment).is_some_and(is_schema));
        }
        self.anchors.contains(fragment.as_str())
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
    use serde_json::json;

    use super::super::tests::ids;
    use super::*;

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
    fn references_count_from_the_document_they_stand_in() {
        let schema = json!({"type": "object", "$defs": {"ours": true}, "properties": {
            "outside": {"$ref": "#/$defs/theirs"},
            "document": {"$id": "https://example.org/d.json", "$defs": {"theirs": true}, "properties": {
                "inside": {"$ref": "#/$defs/theirs"},
                "root": {"$ref": "#/$defs/ours"},
                "none": {"$ref": "#/$defs/nobody's"},
            }},
            // As drafts 6 and 7 write an anchor: no document.
            "anchored": {"$id": "#here", "$defs": {"these": true}, "not": {"$ref": "#/$defs/these"}},
            "anchor": {"$ref": "#here"},
        }});
        let nodes = Nodes::of(&schema);
        let places: Vec<_> = unresolved(&nodes).into_iter().map(|(node, _)| nodes.place(node)).collect();
        assert_eq!(
            places,
            ["\"/properties/outside\"", "\"/properties/document/properties/none\"", "\"/properties/anchored/not\""]
        );
    }

    #[test]
    fn which_of_two_documents_is_meant_is_left_to_the_validator() {
        let schema = |reference: &str| {
            ids(&json!({"$id": "https://example.org/root", "type": "object", "properties": {
                "a": {"$id": "a/item", "$defs": {"x": true}},
                "b": {"$id": "b/item", "$defs": {"y": true}},
                "c": {"$ref": reference},
            }}))
        };
        assert_eq!(schema("b/item#/$defs/y"), "");
        assert_eq!(schema("b/item#/$defs/x"), "TG301");
        assert_eq!(schema("item"), "TG304", "there is none beside the root");
    }

    /// Compared one by one, references and what they may name would take 4·10¹⁰ steps, and their pointers 20 GB.
    #[test]
    fn references_are_looked_up_and_not_searched() {
        let node = |index: usize| {
            let id = format!("https://example.org/{index}.json");
            let reference = match index % 4 {
                0 => format!("#a{index}"),
                1 => format!("{index}.json"),
                2 => "#/nowhere".to_owned(),
                _ => format!("{id}#/$defs/nowhere"),
            };
            (format!("p{index}"), json!({"$anchor": format!("a{index}"), "$id": id, "$ref": reference}))
        };
        let inner = Value::Object((0..200_000).map(node).collect());
        let schema = json!({"type": "object", "properties": {"long ".repeat(20_000): {"properties": inner}}});
        let nodes = Nodes::of(&schema);
        let unresolved = unresolved(&nodes);
        assert_eq!(unresolved.len(), 100_000);
        assert!(nodes.place(unresolved[0].0).starts_with("\"/properties/long long"));
    }
}
