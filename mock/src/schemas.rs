//! Schemas as servers look at them before they answer: the first fault that the dialect refuses.

use serde_json::{Value, json};

use crate::dialect::SchemaFault;
use crate::refusal::SchemaRefusal;

/// Nothing real is nested deeper.
const MAX_DEPTH: usize = 64;
const MOST_REPEATS: u64 = 2_000;

/// The first of these faults in the tools or in the schema of the answer.
pub(crate) fn first_fault(body: &Value, refused: &[SchemaFault]) -> Option<SchemaRefusal> {
    if refused.is_empty() {
        return None;
    }
    let tools = body["tools"].as_array().into_iter().flatten().enumerate().map(|(index, tool)| {
        let function = &tool["function"];
        (Some((index, function["name"].as_str().unwrap_or_default().to_owned())), &function["parameters"])
    });
    let answer = (None, &body["response_format"]["json_schema"]["schema"]);
    tools.chain([answer]).find_map(|(tool, schema)| {
        let mut place = Vec::new();
        let (fault, value) = Look { refused }.at(schema, &mut place)?;
        Some(SchemaRefusal { tool, fault, place, value })
    })
}

struct Look<'a> {
    refused: &'a [SchemaFault],
}

impl Look<'_> {
    /// `place` leads to the schema, and to the fault if there is one.
    fn at(&self, schema: &Value, place: &mut Vec<Value>) -> Option<(SchemaFault, Value)> {
        if !schema.is_object() || place.len() > MAX_DEPTH {
            return None;
        }
        if let Some((fault, steps, value)) = self.own(schema, place.is_empty()) {
            place.extend(steps);
            return Some((fault, value));
        }
        for keyword in ["properties", "$defs", "definitions"] {
            for (name, child) in schema[keyword].as_object().into_iter().flatten() {
                if let Some(found) = self.below(child, place, [json!(keyword), json!(name)]) {
                    return Some(found);
                }
            }
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for (index, child) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                if let Some(found) = self.below(child, place, [json!(keyword), json!(index)]) {
                    return Some(found);
                }
            }
        }
        ["items", "additionalProperties"]
            .into_iter()
            .find_map(|keyword| self.below(&schema[keyword], place, [json!(keyword)]))
    }

    fn below<const N: usize>(
        &self,
        child: &Value,
        place: &mut Vec<Value>,
        steps: [Value; N],
    ) -> Option<(SchemaFault, Value)> {
        let depth = place.len();
        place.extend(steps);
        let found = self.at(child, place);
        if found.is_none() {
            place.truncate(depth);
        }
        found
    }

    /// What is wrong with the schema itself: the fault, the steps to it and the value.
    fn own(&self, schema: &Value, root: bool) -> Option<(SchemaFault, Vec<Value>, Value)> {
        let found = |fault: SchemaFault, steps: Vec<Value>, value: &Value| {
            self.refused.contains(&fault).then(|| (fault, steps, value.clone()))
        };
        if let Some(pattern) = schema["pattern"].as_str() {
            for fault in pattern_faults(pattern) {
                if let Some(found) = found(fault, vec![json!("pattern")], &schema["pattern"]) {
                    return Some(found);
                }
            }
        }
        let union = ["oneOf", "anyOf", "allOf", "enum", "not"].into_iter().find(|key| schema.get(*key).is_some());
        if let Some(key) = union.filter(|_| root)
            && let Some(found) = found(SchemaFault::RootUnion, vec![json!(key)], &schema[key])
        {
            return Some(found);
        }
        if schema["type"] == "object"
            && schema.get("properties").is_none()
            && let Some(found) = found(SchemaFault::MissingProperties, Vec::new(), schema)
        {
            return Some(found);
        }
        if schema["type"] == "array"
            && schema.get("items").is_none()
            && let Some(found) = found(SchemaFault::MissingItems, Vec::new(), schema)
        {
            return Some(found);
        }
        let options = schema["enum"].as_array().into_iter().flatten().enumerate();
        if let Some((index, option)) = options.into_iter().find(|(_, option)| !option.is_string())
            && let Some(found) = found(SchemaFault::OtherEnum, vec![json!("enum"), json!(index)], option)
        {
            return Some(found);
        }
        let branches = schema["anyOf"].as_array().into_iter().flatten().enumerate();
        let untyped = |branch: &Value| branch.get("type").is_none() && branch.get("$ref").is_none();
        let (index, branch) = branches.into_iter().find(|(_, branch)| untyped(branch))?;
        found(SchemaFault::UntypedBranch, vec![json!("anyOf"), json!(index)], branch)
    }
}

fn pattern_faults(pattern: &str) -> Vec<SchemaFault> {
    let looks = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| pattern.contains(look));
    let anchored = pattern.starts_with('^') && pattern.ends_with('$');
    [
        (SchemaFault::LookAround, looks),
        (SchemaFault::ClassEscape, escapes_a_class(pattern)),
        (SchemaFault::UnanchoredPattern, !anchored),
        (SchemaFault::BigRepeat, repeats(pattern) > MOST_REPEATS),
    ]
    .into_iter()
    .filter_map(|(fault, is)| is.then_some(fault))
    .collect()
}

fn escapes_a_class(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        // The character behind is taken with it: `\\d` is a backslash and a letter.
        if char == '\\' && chars.next().is_some_and(|escaped| "dDwWsS".contains(escaped)) {
            return true;
        }
    }
    false
}

/// The largest number in braces.
fn repeats(pattern: &str) -> u64 {
    let counts = pattern.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    counts.flat_map(|count| count.split(',')).filter_map(|number| number.parse().ok()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SchemaFault; 9] = [
        SchemaFault::LookAround,
        SchemaFault::ClassEscape,
        SchemaFault::UnanchoredPattern,
        SchemaFault::BigRepeat,
        SchemaFault::RootUnion,
        SchemaFault::MissingProperties,
        SchemaFault::MissingItems,
        SchemaFault::OtherEnum,
        SchemaFault::UntypedBranch,
    ];

    fn fault(schema: &Value, refused: &[SchemaFault]) -> Option<(SchemaFault, String)> {
        let body = json!({"tools": [{"function": {"name": "f", "parameters": schema}}]});
        first_fault(&body, refused).map(|found| (found.fault, json!(found.place).to_string()))
    }

    #[test]
    fn each_fault_is_found_where_it_is_and_only_if_it_is_refused() {
        let property = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        let cases = [
            (
                property(json!({"type": "string", "pattern": "^(?!x).*$"})),
                SchemaFault::LookAround,
                r#"["properties","a","pattern"]"#,
            ),
            (
                property(json!({"type": "string", "pattern": r"^\d+$"})),
                SchemaFault::ClassEscape,
                r#"["properties","a","pattern"]"#,
            ),
            (
                property(json!({"type": "string", "pattern": "[a-z]+"})),
                SchemaFault::UnanchoredPattern,
                r#"["properties","a","pattern"]"#,
            ),
            (
                property(json!({"type": "string", "pattern": "^[a-z]{1,9999}$"})),
                SchemaFault::BigRepeat,
                r#"["properties","a","pattern"]"#,
            ),
            (json!({"type": "object", "properties": {}, "oneOf": []}), SchemaFault::RootUnion, r#"["oneOf"]"#),
            (json!({"type": "object"}), SchemaFault::MissingProperties, "[]"),
            (property(json!({"type": "array"})), SchemaFault::MissingItems, r#"["properties","a"]"#),
            (
                property(json!({"type": "array", "items": {"enum": ["a", 4]}})),
                SchemaFault::OtherEnum,
                r#"["properties","a","items","enum",1]"#,
            ),
            (
                property(json!({"anyOf": [{"type": "null"}, {"description": "x"}]})),
                SchemaFault::UntypedBranch,
                r#"["properties","a","anyOf",1]"#,
            ),
        ];
        for (schema, expected, place) in &cases {
            assert_eq!(fault(schema, &ALL), Some((*expected, (*place).to_owned())), "{schema}");
            let others: Vec<_> = ALL.into_iter().filter(|other| other != expected).collect();
            assert_eq!(fault(schema, &others), None, "{schema}");
            assert_eq!(fault(schema, &[]), None);
        }
    }

    #[test]
    fn what_only_looks_like_a_fault_is_none() {
        let schema = json!({"type": "object", "properties": {
            "pattern": {"type": "string", "pattern": r"^\\d{2}$"},
            "enum": {"type": "string", "enum": ["(?=", "4"]},
            "oneOf": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]},
        }, "$defs": {"x": {"type": "array", "items": {"type": "string"}}}});
        assert_eq!(fault(&schema, &ALL), None);
    }

    #[test]
    fn the_schema_of_the_answer_counts_and_the_first_tool_is_named() {
        let bad = json!({"type": "object"});
        let body = json!({"response_format": {"type": "json_schema", "json_schema": {"schema": bad}}});
        assert_eq!(first_fault(&body, &ALL).unwrap().tool, None);
        let tool = |name: &str, schema: &Value| json!({"function": {"name": name, "parameters": schema}});
        let good = json!({"type": "object", "properties": {}});
        let body = json!({"tools": [tool("a", &good), tool("b", &bad), tool("c", &bad)]});
        assert_eq!(first_fault(&body, &ALL).unwrap().tool, Some((1, "b".to_owned())));
    }
}
