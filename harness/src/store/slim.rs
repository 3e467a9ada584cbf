//! Long parts of a request (tool definitions, long messages) are stored once, under their digest.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::responses::Request;
use crate::ids::Digest;

/// Parts longer than this many bytes of JSON are stored once. Below it a digest would save little.
const BLOB_MIN_BYTES: usize = 1_000;

/// The parts of a body that may become blobs: the list of tools, each message, and what else may be long.
enum Part {
    Whole,
    EachItem,
    Never,
}

fn part_of(field: &str) -> Part {
    match field {
        "messages" => Part::EachItem,
        "tools" | "input" | "response_format" => Part::Whole,
        _ => Part::Never,
    }
}

/// The request with references in place of its long parts, and those parts.
pub(super) fn slim(request: &Request) -> (Request, BTreeMap<Digest, &Value>) {
    let mut blobs = BTreeMap::new();
    let body = match &request.body {
        Value::Object(fields) => {
            let slimmed = fields.iter().map(|(name, value)| {
                let value = match (part_of(name), value) {
                    (Part::EachItem, Value::Array(items)) => {
                        items.iter().map(|item| slim_part(item, &mut blobs)).collect()
                    }
                    (Part::Whole, value) => slim_part(value, &mut blobs),
                    _ => value.clone(),
                };
                (name.clone(), value)
            });
            Value::Object(slimmed.collect())
        }
        other => other.clone(),
    };
    let Request { route, endpoint, repeat, .. } = request;
    (Request { route: route.clone(), endpoint: endpoint.clone(), repeat: *repeat, body }, blobs)
}

fn slim_part<'r>(part: &'r Value, blobs: &mut BTreeMap<Digest, &'r Value>) -> Value {
    let bytes = serde_json::to_vec(part).expect("plain data serialises");
    if bytes.len() <= BLOB_MIN_BYTES {
        return part.clone();
    }
    let digest = Digest::of(&bytes);
    let reference = json!({"$blob": digest});
    blobs.insert(digest, part);
    reference
}

/// The references in a slim body.
pub(super) fn references(body: &mut Value) -> impl Iterator<Item = (Digest, &mut Value)> {
    let fields = body.as_object_mut().into_iter().flatten();
    let parts = fields.flat_map(|(name, value)| match (part_of(name), value) {
        (Part::EachItem, Value::Array(items)) => items.iter_mut().collect(),
        (Part::Whole, value) => vec![value],
        _ => Vec::new(),
    });
    parts.filter_map(|part| {
        let fields = part.as_object().filter(|fields| fields.len() == 1)?;
        Some((Digest::new(fields.get("$blob")?.as_str()?), part))
    })
}

/// Puts the long parts back; what is not found stays a reference.
pub(super) fn restore<E>(body: &mut Value, mut find: impl FnMut(&Digest) -> Result<Option<Value>, E>) -> Result<(), E> {
    for (digest, part) in references(body) {
        if let Some(value) = find(&digest)? {
            *part = value;
        }
    }
    Ok(())
}
