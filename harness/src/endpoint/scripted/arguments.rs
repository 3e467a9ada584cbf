//! Values that satisfy a JSON Schema, as far as a simple look can tell.

use std::cell::Cell;

use serde_json::{Map, Number, Value, json};

/// References may be circular; nothing real is nested deeper.
const MAX_DEPTH: usize = 12;
/// Values of one answer. Lists in lists and references to references multiply; beyond this they hold null.
const MOST_VALUES: usize = 20_000;

/// Which properties of an object to fill in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Properties {
    Required,
    All,
}

/// Makes values for one schema.
pub(super) struct Instances<'a> {
    root: &'a Value,
    properties: Properties,
    /// Picks one of an `enum`, or none where that is allowed.
    pick: &'a dyn for<'o> Fn(&'o [Value]) -> Option<&'o Value>,
    /// Values that may still be made.
    left: Cell<usize>,
}

impl<'a> Instances<'a> {
    pub(super) fn new(
        root: &'a Value,
        properties: Properties,
        pick: &'a dyn for<'o> Fn(&'o [Value]) -> Option<&'o Value>,
    ) -> Self {
        Self { root, properties, pick, left: Cell::new(MOST_VALUES) }
    }

    /// A value for the root. Follows `$ref` inside the document, `allOf`, and the first branch of `anyOf` and `oneOf`;
    /// does not know `pattern`, `not`, `if`.
    pub(super) fn make(&self) -> Value {
        match self.value(self.root, 0) {
            // Arguments are an object even where a schema does not say so.
            Value::String(_) if self.root.get("type").is_none() => json!({}),
            value => value,
        }
    }

    fn value(&self, schema: &Value, depth: usize) -> Value {
        if depth > MAX_DEPTH || !self.may_make(1) {
            return Value::Null;
        }
        if let Some(target) =
            schema["$ref"].as_str().and_then(|reference| self.root.pointer(reference.strip_prefix('#')?))
        {
            return self.value(target, depth + 1);
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        if let Some(options) = schema["enum"].as_array().filter(|options| !options.is_empty()) {
            let picked = (self.pick)(options).or_else(|| options.iter().find(|option| option.is_null()));
            return picked.unwrap_or(&options[0]).clone();
        }
        let typed = schema.get("type").is_some() || schema.get("properties").is_some();
        if !typed && let Some(branches) = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].as_array()) {
            return self.branch(branches, depth);
        }
        if !typed && let Some(parts) = schema["allOf"].as_array().filter(|parts| !parts.is_empty()) {
            return self.merged(parts, depth);
        }
        let kind = match &schema["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(kinds) => {
                kinds.iter().filter_map(Value::as_str).find(|&kind| kind != "null").unwrap_or("null")
            }
            _ if schema.get("properties").is_some() => "object",
            _ => "string",
        };
        match kind {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "integer" => number(schema, true),
            "number" => number(schema, false),
            "boolean" => json!(true),
            "null" => Value::Null,
            _ => string(schema),
        }
    }

    /// Whether so many more values may be made; if so, they count as made.
    fn may_make(&self, values: usize) -> bool {
        let left = self.left.get().checked_sub(values);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// The first branch, unless it is a list of options none of which is picked and another branch allows null.
    fn branch(&self, branches: &[Value], depth: usize) -> Value {
        let null = branches.iter().any(|branch| branch["type"] == "null");
        let declined = |branch: &Value| branch["enum"].as_array().is_some_and(|options| (self.pick)(options).is_none());
        match branches.first() {
            Some(first) if null && declined(first) => Value::Null,
            Some(first) => self.value(first, depth + 1),
            None => Value::Null,
        }
    }

    fn merged(&self, parts: &[Value], depth: usize) -> Value {
        let mut fields = Map::new();
        for part in parts {
            match self.value(part, depth + 1) {
                Value::Object(part) => fields.extend(part),
                other => return other,
            }
        }
        Value::Object(fields)
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut fields = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if self.properties == Properties::All || required.contains(&name.as_str()) {
                fields.insert(name.clone(), self.value(property, depth + 1));
            }
        }
        for name in required {
            if !fields.contains_key(name) {
                let schema =
                    schema.get("additionalProperties").filter(|schema| schema.is_object()).unwrap_or(&Value::Null);
                fields.insert(name.to_owned(), self.value(schema, depth + 1));
            }
        }
        Value::Object(fields)
    }

    fn array(&self, schema: &Value, depth: usize) -> Value {
        let item = self.item(&schema["items"], depth);
        let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap_or(0).min(64);
        let wanted = if item.is_some() && self.properties == Properties::All { least.max(1) } else { least };
        let item = item.unwrap_or_else(|| self.value(&schema["items"], depth + 1));
        // The first is made; the others are as large.
        let wanted = if wanted > 1 && !self.may_make((wanted - 1).saturating_mul(size(&item))) { 1 } else { wanted };
        Value::Array(vec![item; wanted])
    }

    /// The item to put into a list that may stay empty: only a picked option.
    fn item(&self, items: &Value, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(target) =
            items["$ref"].as_str().and_then(|reference| self.root.pointer(reference.strip_prefix('#')?))
        {
            return self.item(target, depth + 1);
        }
        (self.pick)(items["enum"].as_array()?).cloned()
    }
}

/// Values in a value, itself among them.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn string(schema: &Value) -> Value {
    let sample = match schema["format"].as_str() {
        Some("date") => "2024-01-31",
        Some("date-time") => "2024-01-31T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("email") => "x@example.com",
        Some("uri" | "url") => "https://example.com/x",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => {
            let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(1)).unwrap_or(1);
            return json!("x".repeat(least.clamp(1, 4_096)));
        }
    };
    json!(sample)
}

/// The smallest allowed number, or 1 where that is allowed and there is no lower bound.
fn number(schema: &Value, whole: bool) -> Value {
    let bound = |key: &str| schema[key].as_f64();
    let step = bound("multipleOf").filter(|&step| step > 0.0).unwrap_or(if whole { 1.0 } else { 0.0 });
    let least =
        bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + if whole { 1.0 } else { 0.5 }));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - if whole { 1.0 } else { 0.5 }));
    let wanted = least.unwrap_or_else(|| most.map_or(1.0, |most| most.min(1.0)));
    let value = match wanted / step {
        _ if step == 0.0 => wanted,
        steps if least.is_none() && most.is_some() => steps.floor() * step,
        steps => steps.ceil() * step,
    };
    // Whole numbers are written without a fraction; beyond 2^53 there is no telling.
    if value.fract() == 0.0 && value.abs() < 9e15 {
        #[allow(clippy::cast_possible_truncation)]
        return json!(value as i64);
    }
    Number::from_f64(value).map_or(json!(1), Value::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn make(schema: &Value) -> Value {
        Instances::new(schema, Properties::Required, &|options| options.first()).make()
    }

    /// As written they ask for 64¹² and 10¹² values.
    #[test]
    fn what_multiplies_ends() {
        let lists = json!({"type": "array", "minItems": 64, "items": {"$ref": "#/$defs/list"}});
        let schema = json!({"type": "object", "required": ["l"], "properties": {"l": lists}, "$defs": {"list": lists}});
        assert!(size(&make(&schema)) <= MOST_VALUES);
        let named: Map<_, _> = (0..10).map(|index| (format!("p{index}"), json!({"$ref": "#"}))).collect();
        let schema = json!({"type": "object", "properties": named});
        let made = Instances::new(&schema, Properties::All, &|options| options.first()).make();
        assert!(size(&made) <= 11 * MOST_VALUES);
    }

    #[test]
    fn required_properties_are_filled() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "unit": {"enum": ["c", "f"]},
                "count": {"type": "integer", "minimum": 3},
                "share": {"type": ["null", "number"]},
                "when": {"$ref": "#/$defs/when"},
                "who": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
                "both": {"allOf": [
                    {"type": "object", "properties": {"a": {"const": 7}}, "required": ["a"]},
                    {"properties": {"b": {"type": "integer", "maximum": 0}}, "required": ["b"]},
                ]},
                "optional": {"type": "string"},
            },
            "required": ["name", "unit", "count", "share", "when", "who", "tags", "both", "undeclared"],
            "$defs": {"when": {"type": "string", "format": "date"}},
        });
        let expected = json!({
            "name": "x", "unit": "c", "count": 3, "share": 1, "when": "2024-01-31", "who": "xx", "tags": [true, true],
            "both": {"a": 7, "b": 0}, "undeclared": "x",
        });
        assert_eq!(make(&schema), expected);
    }

    #[test]
    fn odd_schemas_still_give_an_object() {
        for schema in [json!(null), json!({}), json!(true), json!({"type": "object"}), json!({"properties": {}})] {
            assert_eq!(make(&schema), json!({}), "{schema}");
        }
    }

    #[test]
    fn circles_end() {
        let schema = json!({"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"]});
        assert!(make(&schema).to_string().contains(r#"{"child":null}"#));
    }

    fn schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (0_u64..5).prop_map(|least| json!({"type": "string", "minLength": least})),
            Just(json!({"type": "string", "format": "date-time"})),
            (-9_i64..9, 0_i64..9)
                .prop_map(|(least, room)| json!({"type": "integer", "minimum": least, "maximum": least + room})),
            (-9_i64..9).prop_map(|most| json!({"type": "integer", "exclusiveMaximum": most})),
            (-9_i64..9).prop_map(|least| json!({"type": "number", "exclusiveMinimum": least})),
            (1_i64..9, -9_i64..9)
                .prop_map(|(step, least)| json!({"type": "integer", "multipleOf": step, "minimum": least})),
            Just(json!({"enum": ["a", 2, null]})),
            Just(json!({"const": {"k": [1]}})),
            Just(json!({"type": ["boolean", "null"]})),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let fields = prop::collection::btree_map("[a-e]", (inner.clone(), any::<bool>()), 0..4);
            let object = fields.prop_map(|fields| {
                let required: Vec<_> = fields.iter().filter(|(_, field)| field.1).map(|(name, _)| name).collect();
                let properties: Map<_, _> =
                    fields.iter().map(|(name, field)| (name.clone(), field.0.clone())).collect();
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
            });
            let array = (inner.clone(), 0_u64..3)
                .prop_map(|(items, least)| json!({"type": "array", "items": items, "minItems": least}));
            let either = (inner.clone(), inner).prop_map(|(first, second)| json!({"anyOf": [first, second]}));
            prop_oneof![object, array, either]
        })
    }

    proptest! {
        #[test]
        fn values_satisfy_their_schema(schema in schema(), all in any::<bool>(), picks in any::<bool>()) {
            let schema = json!({"type": "object", "properties": {"v": schema}, "required": ["v"]});
            let properties = if all { Properties::All } else { Properties::Required };
            let value = Instances::new(&schema, properties, &|options| options.first().filter(|_| picks)).make();
            let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
            prop_assert!(validator.is_valid(&value), "{} does not fit {}", value, schema);
        }
    }
}
