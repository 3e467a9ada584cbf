//! The rules for the keywords of one schema.

use serde_json::{Map, Value, json};

use super::pattern::{largest_repeat, offends};
use super::rules::Rule;
use super::walk::{Walk, short};

/// Bounds that a grammar has to spell out.
const BOUNDS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
/// Values of an enumeration that a description lists.
const MOST_LISTED: usize = 40;

impl Walk<'_> {
    pub(super) fn keywords(&mut self, map: &mut Map<String, Value>, root: bool) {
        let rules = self.rules;
        self.patterns(map);
        if let Some(largest) = rules.largest_repeat {
            for keyword in BOUNDS {
                if map.get(keyword).and_then(Value::as_f64).is_some_and(|bound| bound > largest as f64) {
                    self.leave_out(Rule::LargestRepeat, map, keyword);
                }
            }
        }
        if let (Some(kept), Some(format)) = (&rules.keep_formats, map.get("format").and_then(Value::as_str))
            && !kept.iter().any(|kept| kept == format)
        {
            self.leave_out(Rule::KeepFormats, map, "format");
        }
        if rules.string_enums {
            self.string_const(map);
            self.string_enum(map);
        }
        // First: what follows goes by the type.
        if rules.one_type {
            self.one_type(map, root);
        }
        if rules.array_items {
            self.array_items(map);
        }
        if rules.ensure_properties {
            self.ensure_properties(map, root);
        }
        // Last, so that what the other rules put in is left out with the rest.
        for keyword in &rules.drop_keywords {
            if self.leave_out(Rule::DropKeywords, map, keyword) {
                for along in goes_along(keyword) {
                    self.leave_out(Rule::DropKeywords, map, along);
                }
            }
        }
    }

    fn patterns(&mut self, map: &mut Map<String, Value>) {
        if let Some(rule) = map.get("pattern").and_then(Value::as_str).and_then(|pattern| self.offence(pattern)) {
            self.leave_out(rule, map, "pattern");
        }
        let Some(Value::Object(named)) = map.get_mut("patternProperties") else { return };
        let gone: Vec<(String, Rule)> =
            named.keys().filter_map(|pattern| Some((pattern.clone(), self.offence(pattern)?))).collect();
        for (pattern, _) in &gone {
            named.shift_remove(pattern);
        }
        let empty = named.is_empty();
        for (pattern, rule) in &gone {
            self.note(*rule, Some("patternProperties"), pattern, "");
            self.changed += 1;
            // What it let in must not be shut out now.
            self.leave_out(*rule, map, "additionalProperties");
        }
        if empty && !gone.is_empty() {
            map.shift_remove("patternProperties");
        }
    }

    /// The rule that a pattern offends.
    fn offence(&self, pattern: &str) -> Option<Rule> {
        if offends(pattern, self.rules.drop_patterns) {
            return Some(Rule::DropPatterns);
        }
        let largest = self.rules.largest_repeat?;
        (largest_repeat(pattern) > largest).then_some(Rule::LargestRepeat)
    }

    /// One text that a value has to be becomes a list of one; another value becomes words.
    fn string_const(&mut self, map: &mut Map<String, Value>) {
        let Some(value) = map.shift_remove("const") else { return };
        if is_text(&value) {
            self.note(Rule::StringEnums, Some("const"), short(&value), "enum");
            // Beside another enumeration this says the same unless the two contradict each other.
            let others = map.get("enum").and_then(Value::as_array);
            self.changed += usize::from(others.is_some_and(|others| !others.contains(&value)));
            map.insert("enum".to_owned(), json!([value]));
            return;
        }
        self.note(Rule::StringEnums, Some("const"), short(&value), "a sentence of the description");
        self.changed += 1;
        say_type(map, std::slice::from_ref(&value));
        describe(map, &format!("Always {}.", short(&value)));
    }

    fn string_enum(&mut self, map: &mut Map<String, Value>) {
        let Some(Value::Array(values)) = map.get("enum") else { return };
        if values.iter().all(is_text) {
            return;
        }
        let values = values.clone();
        let all = map.shift_remove("enum").unwrap_or_default();
        self.note(Rule::StringEnums, Some("enum"), short(&all), "a sentence of the description");
        self.changed += 1;
        say_type(map, &values);
        let listed: Vec<String> = values.iter().take(MOST_LISTED).map(short).collect();
        let more = if values.len() > MOST_LISTED { ", …" } else { "" };
        describe(map, &format!("Allowed values: {}{more}.", listed.join(", ")));
    }

    fn array_items(&mut self, map: &mut Map<String, Value>) {
        let is_list = |keyword: &str| map.get(keyword).is_some_and(Value::is_array);
        let (list, rest) = if is_list("items") {
            ("items", "additionalItems")
        } else if is_list("prefixItems") {
            ("prefixItems", "items")
        } else {
            if says(map, "array") && !map.contains_key("items") {
                self.note(Rule::ArrayItems, Some("items"), "", "{}");
                map.insert("items".to_owned(), json!({}));
            }
            return;
        };
        let Some(Value::Array(places)) = map.shift_remove(list) else { return };
        let before = short(&Value::Array(places.clone()));
        let rest = map.shift_remove(rest);
        let most = map.get("maxItems").and_then(Value::as_u64);
        let full = rest.is_none() && most.is_some_and(|most| most <= places.len() as u64);
        let mut schemas: Vec<Value> = Vec::new();
        for schema in places.into_iter().chain(if full { None } else { Some(rest.unwrap_or_else(|| json!({}))) }) {
            if schema != Value::Bool(false) && !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        let anything = |schema: &Value| *schema == json!({}) || *schema == Value::Bool(true);
        let items = match schemas.as_slice() {
            [one] => one.clone(),
            schemas if schemas.is_empty() || schemas.iter().any(anything) => json!({}),
            schemas => json!({"anyOf": schemas}),
        };
        self.note(Rule::ArrayItems, Some(list), before, short(&items));
        self.changed += 1;
        map.insert("items".to_owned(), items);
    }

    fn ensure_properties(&mut self, map: &mut Map<String, Value>, root: bool) {
        if root && !map.get("type").is_some_and(Value::is_string) {
            let before = map.get("type").map_or_else(String::new, short);
            self.note(Rule::EnsureProperties, Some("type"), before, "\"object\"");
            map.insert("type".to_owned(), json!("object"));
        }
        if says(map, "object") && !map.contains_key("properties") {
            self.note(Rule::EnsureProperties, Some("properties"), "", "{}");
            map.insert("properties".to_owned(), json!({}));
        }
    }
}

/// Keywords that mean something else once this one is gone, and would shut out what it let in.
fn goes_along(keyword: &str) -> &'static [&'static str] {
    match keyword {
        "properties" | "patternProperties" => &["additionalProperties"],
        "prefixItems" => &["items"],
        "minContains" => &["contains"],
        _ => &[],
    }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// The schema speaks of this type, alone or among others.
pub(super) fn says(map: &Map<String, Value>, kind: &str) -> bool {
    match map.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    }
}

/// The JSON Schema type of a value.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// States the types of these values where no type is stated.
fn say_type(map: &mut Map<String, Value>, values: &[Value]) {
    if map.contains_key("type") || values.is_empty() {
        return;
    }
    let mut kinds: Vec<&str> = values.iter().map(kind_of).collect();
    kinds.sort_unstable();
    kinds.dedup();
    map.insert("type".to_owned(), if let [kind] = kinds.as_slice() { json!(kind) } else { json!(kinds) });
}

fn describe(map: &mut Map<String, Value>, words: &str) {
    let known = map.get("description").and_then(Value::as_str).map(str::trim_end).unwrap_or_default();
    let text = if known.is_empty() { words.to_owned() } else { format!("{known} {words}") };
    map.insert("description".to_owned(), json!(text));
}
