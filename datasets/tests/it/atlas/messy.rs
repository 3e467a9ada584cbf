//! The catalogue is as messy as real ones: see "sizes of definitions" in the card for how far that was made on purpose.

use serde_json::Value;

use super::dataset;

/// Characters of compact JSON / 4.
fn size(tool: &harness::catalogue::Tool) -> f64 {
    let text =
        serde_json::json!({"name": tool.name(), "description": tool.description, "inputSchema": tool.input_schema});
    text.to_string().chars().count() as f64 / 4.0
}

/// Visits every schema, with its depth.
fn walk<'s>(schema: &'s Value, depth: usize, visit: &mut impl FnMut(&'s Value, usize)) {
    let Some(fields) = schema.as_object() else { return };
    visit(schema, depth);
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(schemas)) => {
                schemas.values().for_each(|schema| walk(schema, depth + 1, visit));
            }
            ("items" | "additionalProperties" | "not", schema) => walk(schema, depth + 1, visit),
            ("anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => {
                for schema in schemas {
                    walk(schema, depth + 1, visit);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn the_catalogue_is_large_and_messy() {
    let dataset = dataset();
    let tools = &dataset.catalogue.tools;
    assert!(tools.len() >= 1_200 && dataset.catalogue.servers.len() >= 60);
    assert!(tools.iter().filter(|tool| tool.core).count() >= 12);
    let mut sizes: Vec<f64> = tools.iter().map(|tool| size(tool)).collect();
    sizes.sort_by(f64::total_cmp);
    let quantile = |share: f64| sizes[(share * sizes.len() as f64) as usize];
    assert!((150.0..=300.0).contains(&quantile(0.5)), "median {}", quantile(0.5));
    assert!(quantile(0.95) >= 700.0, "95th percentile {}", quantile(0.95));

    let (mut combined, mut referring, mut deepest, mut names) = (0, 0, 0, std::collections::BTreeSet::new());
    let (mut loose_arrays, mut untyped) = (0, 0);
    for tool in tools {
        let (mut any_of, mut reference) = (false, false);
        walk(&tool.input_schema, 0, &mut |schema, depth| {
            any_of |= schema.get("anyOf").or(schema.get("oneOf")).is_some();
            reference |= schema.get("$ref").is_some_and(Value::is_string);
            deepest = deepest.max(depth);
            loose_arrays += u32::from(schema["type"] == "array" && schema.get("items").is_none());
            untyped += u32::from(schema.as_object().is_some_and(serde_json::Map::is_empty));
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                names.extend(properties.keys());
            }
        });
        combined += usize::from(any_of || reference);
        referring += usize::from(reference);
    }
    assert!(combined * 20 >= tools.len(), "{combined} of {} use $ref, anyOf or oneOf", tools.len());
    assert!(referring * 20 >= tools.len(), "{referring} of {} use $ref", tools.len());
    assert!(deepest >= 5 && loose_arrays > 0 && untyped > 0, "{deepest} {loose_arrays} {untyped}");
    for keyword in ["type", "description", "properties", "title", "format", "id", "pattern"] {
        assert!(names.contains(&keyword.to_owned()), "no argument is called {keyword}");
    }

    let lengths = || tools.iter().map(|tool| tool.description.chars().count());
    assert!(lengths().any(|length| length < 40) && lengths().any(|length| length > 1_024));
    let shared = |name: &str| tools.iter().filter(|tool| tool.name() == name).count();
    assert!(tools.iter().any(|tool| shared(tool.name()) > 1), "no name occurs on two servers");
    assert!(tools.iter().all(|tool| tool.annotations.read_only_hint.is_some()), "annotations say what is read-only");
}
