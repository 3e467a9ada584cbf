//! One operation as a tool.

use harness::catalogue::Annotations;
use serde_json::{Map, Value, json};

use super::super::foreign::ForeignTool;
use super::super::report::Trouble;
use super::schema::Schemas;

/// Headers that a client sets itself (the specification says to ignore them).
const OWN_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];
/// What a body schema may hold to be merged with the parameters; anything else restricts the object as a whole.
const MERGEABLE: [&str; 9] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
];

pub(super) fn tool<'a>(
    name: String,
    method: &str,
    item: &'a Map<String, Value>,
    operation: &'a Map<String, Value>,
    schemas: &mut Schemas<'a>,
) -> ForeignTool {
    let text = |map: &Map<String, Value>, key: &str| {
        map.get(key).and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned()
    };
    let (summary, words) = (text(operation, "summary"), text(operation, "description"));
    // Documentation generators repeat one in the other.
    let mut parts: Vec<String> = if words.starts_with(&summary) { vec![words] } else { vec![summary, words] };
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        // The path may have words that its operations lack.
        parts.extend([text(item, "summary"), text(item, "description")].into_iter().filter(|part| !part.is_empty()));
    }
    let mut description = parts.join("\n\n");
    if !schemas.charge_text(&description) {
        description.clear();
    }
    let mut arguments = Arguments::default();
    for parameter in parameters(item, operation, schemas) {
        arguments.parameter(parameter, schemas);
    }
    if let Some(body) = operation.get("requestBody") {
        arguments.body(schemas.follow(body), schemas);
    }
    let tags =
        if operation.get("deprecated") == Some(&Value::Bool(true)) { vec!["deprecated".to_owned()] } else { vec![] };
    ForeignTool {
        name,
        description,
        schema: arguments.schema(),
        annotations: Some(annotations(method)),
        tags,
        ..ForeignTool::default()
    }
}

/// What HTTP promises of a method (RFC 9110). Whether a POST destroys something it does not say.
fn annotations(method: &str) -> Annotations {
    let safe = ["get", "head", "options", "trace"].contains(&method);
    Annotations {
        title: None,
        read_only_hint: Some(safe),
        destructive_hint: (method == "delete").then_some(true),
        idempotent_hint: ["put", "delete"].contains(&method).then_some(true),
        open_world_hint: None,
    }
}

/// The parameters of an operation: its own, and those of its path that it does not replace.
fn parameters<'a>(
    item: &'a Map<String, Value>,
    operation: &'a Map<String, Value>,
    schemas: &mut Schemas<'a>,
) -> Vec<&'a Map<String, Value>> {
    let mut found: Vec<&Map<String, Value>> = Vec::new();
    for (owner, map) in [("path", item), ("operation", operation)] {
        let entries = match map.get("parameters") {
            None | Some(Value::Null) => continue,
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                schemas.note(Trouble::RepairedSchema, "parameters that are no list");
                continue;
            }
        };
        for entry in entries {
            let entry = schemas.follow(entry);
            let Some(parameter) = entry.as_object().filter(|parameter| key(parameter).is_some()) else {
                if !entry.is_null() {
                    schemas.note(Trouble::RepairedSchema, "parameter without a name or a place");
                }
                continue;
            };
            let same = found.iter().position(|other| key(other) == key(parameter));
            match same {
                Some(index) if owner == "operation" => found[index] = parameter,
                Some(_) => schemas.note(Trouble::RepairedSchema, "parameter that occurs again"),
                None => found.push(parameter),
            }
        }
    }
    found
}

/// Name and place, which identify a parameter.
fn key(parameter: &Map<String, Value>) -> Option<(&str, &str)> {
    let place = parameter.get("in")?.as_str()?;
    let name = parameter.get("name")?.as_str()?;
    ["path", "query", "header", "cookie"].contains(&place).then_some((name, place))
}

#[derive(Default)]
struct Arguments {
    properties: Map<String, Value>,
    required: Vec<String>,
    /// What other keys an object body takes.
    additional: Option<Value>,
}

impl Arguments {
    fn parameter<'a>(&mut self, parameter: &'a Map<String, Value>, schemas: &mut Schemas<'a>) {
        let Some((name, place)) = key(parameter) else { return };
        if place == "header" && OWN_HEADERS.contains(&name.to_lowercase().as_str()) {
            return;
        }
        let about = parameter.get("description").and_then(Value::as_str).map_or("", str::trim);
        if !schemas.charge_text(about) {
            return;
        }
        let inner = parameter.get("schema").or_else(|| {
            let content = parameter.get("content")?.as_object()?;
            content.values().next()?.get("schema")
        });
        let mut schema = inner.map_or_else(|| json!({}), |inner| schemas.schema(inner));
        if let Value::Object(schema) = &mut schema
            && !about.is_empty()
        {
            schema.insert("description".to_owned(), about.into());
        }
        let flag = |key: &str| parameter.get(key).is_some_and(|flag| *flag == Value::Bool(true) || flag == "true");
        if parameter.get("required").is_some_and(Value::is_string) {
            schemas.note(Trouble::RepairedSchema, "required as text");
        }
        if let (Value::Object(schema), true) = (&mut schema, flag("deprecated")) {
            schema.insert("deprecated".to_owned(), true.into());
        }
        // A path is incomplete without all its parts, whatever the document says.
        self.insert(name, place, schema, flag("required") || place == "path", schemas);
    }

    fn insert(&mut self, name: &str, place: &str, schema: Value, required: bool, schemas: &mut Schemas) {
        let mut free = name.to_owned();
        if self.properties.contains_key(name) {
            schemas.note(Trouble::RenamedArgument, &format!("{name} ({place})"));
            free = format!("{name}_{place}");
            let mut number = 2;
            while self.properties.contains_key(&free) {
                free = format!("{name}_{place}_{number}");
                number += 1;
            }
        }
        if required {
            self.required.push(free.clone());
        }
        self.properties.insert(free, schema);
    }

    fn body<'a>(&mut self, body: &'a Value, schemas: &mut Schemas<'a>) {
        let Some(content) = body.get("content").and_then(Value::as_object) else {
            if !body.is_null() {
                schemas.note(Trouble::RepairedSchema, "request body without content");
            }
            return;
        };
        let Some((media, entry)) = media(content) else { return };
        let needed = body.get("required").is_some_and(|flag| *flag == Value::Bool(true) || flag == "true");
        let mut schema = entry.get("schema").map_or_else(|| json!({}), |schema| schemas.schema(schema));
        if schema == json!({}) && !is_structured(media) {
            schema = json!({"type": "string"});
        }
        if let Some(object) = object(&schema) {
            for (name, property) in object.properties {
                let required = needed && object.required.contains(&name);
                self.insert(&name, "body", property, required, schemas);
            }
            self.additional = object.additional;
            return;
        }
        let text = body.get("description").and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        if let (Value::Object(schema), Some(text)) = (&mut schema, text) {
            schema.entry("description").or_insert_with(|| text.into());
        }
        self.insert("body", "body", schema, needed, schemas);
    }

    fn schema(self) -> Option<Value> {
        let Self { properties, required, additional } = self;
        if properties.is_empty() && additional.is_none() {
            return None;
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        schema.extend(additional.map(|additional| ("additionalProperties".to_owned(), additional)));
        Some(schema.into())
    }
}

fn is_structured(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim();
    media == "application/json"
        || media.ends_with("+json")
        || ["application/x-www-form-urlencoded", "multipart/form-data"].contains(&media)
}

/// The way of writing a body that a model handles best: JSON, then forms, then whatever comes first.
fn media(content: &Map<String, Value>) -> Option<(&str, &Value)> {
    let rank = |media: &str| match media.split(';').next().unwrap_or_default().trim() {
        "application/json" => 0,
        media if media.ends_with("+json") => 1,
        media if is_structured(media) => 2,
        _ => 3,
    };
    content.iter().min_by_key(|(media, _)| rank(media)).map(|(media, entry)| (media.as_str(), entry))
}

/// A body that is an object and nothing else.
struct Object {
    properties: Map<String, Value>,
    required: Vec<String>,
    additional: Option<Value>,
}

fn object(schema: &Value) -> Option<Object> {
    let schema = schema.as_object()?;
    let mut found = Object { properties: Map::new(), required: Vec::new(), additional: None };
    for key in schema.keys() {
        if key != "allOf" && !MERGEABLE.contains(&key.as_str()) {
            return None;
        }
    }
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    if schema.contains_key("type") && !is_object {
        return None;
    }
    if !is_object && !schema.contains_key("properties") && !schema.contains_key("allOf") {
        return None;
    }
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        // A closed part would refuse the properties of the others.
        let part = object(part).filter(|part| part.additional.is_none())?;
        for (name, property) in part.properties {
            // Two parts that restrict one property do so together.
            if found.properties.get(&name).is_some_and(|other| *other != property) {
                return None;
            }
            found.properties.insert(name, property);
        }
        found.required.extend(part.required);
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if found.properties.get(name).is_some_and(|other| other != property) {
            return None;
        }
        found.properties.insert(name.clone(), property.clone());
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    found.required.extend(required.filter_map(Value::as_str).map(str::to_owned));
    found.additional = schema.get("additionalProperties").filter(|value| **value != Value::Bool(true)).cloned();
    if schema.contains_key("allOf") && found.additional.is_some() {
        return None;
    }
    // A required key that no property describes cannot be asked for on its own.
    let described = found.required.iter().all(|name| found.properties.contains_key(name));
    // A free-form object has no arguments of its own.
    (described && !found.properties.is_empty()).then_some(found)
}
