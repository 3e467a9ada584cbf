//! Accepted values of arguments against the schemas of their tools.

use std::collections::HashMap;

use harness::dataset::Qrel;
use harness::ids::{QueryId, ToolId};
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::places::qrel_id;
use super::rules::{GOLD_ARGUMENT, GOLD_OMITTED, Rule};
use super::{Linter, some};
use crate::problem::{clean_up_to, quote};

/// Longest complaint of the validator that is repeated, in characters.
const COMPLAINT: usize = 160;
/// Accepted: the argument may be left out.
const LEFT_OUT: &str = "";

pub(super) fn check(linter: &mut Linter) {
    let dataset = linter.dataset;
    let mut validators: HashMap<&ToolId, Option<Validator>> = HashMap::new();
    for query in &dataset.queries {
        for qrel in dataset.qrels.of(&query.id).qrels().iter().filter(|qrel| qrel.arguments.is_some()) {
            let Some(tool) = dataset.catalogue.get(&qrel.tool) else { continue };
            let validator = validators.entry(&tool.id).or_insert_with(|| each_alone(&tool.input_schema));
            if let Some(validator) = validator {
                add(linter, &GOLD_ARGUMENT, &query.id, qrel, &unfit(qrel, validator));
            }
            add(linter, &GOLD_OMITTED, &query.id, qrel, &omitted(qrel, &tool.input_schema));
        }
    }
}

/// The name of an argument and what is wrong with its accepted values.
type Fault = (String, String);

fn add(linter: &mut Linter, rule: &'static Rule, query: &QueryId, qrel: &Qrel, faults: &[Fault]) {
    let Some((first, _)) = faults.first() else { return };
    let id = qrel_id(query.as_str(), qrel.group.into(), &qrel.tool.to_string());
    let place = linter.places.of("qrels.jsonl", &id, &["arguments", first]);
    let message = some(faults.iter().map(|(_, fault)| fault.clone()));
    linter.add(rule, &format!("{query} ~ {}", qrel.tool), place, &message);
}

/// Checks every argument by itself: what a schema demands of several together is no matter of one value.
fn each_alone(schema: &Value) -> Option<Validator> {
    const KEPT: [&str; 6] = ["$schema", "$id", "$defs", "definitions", "type", "properties"];
    let kept = schema.as_object()?.iter().filter(|(key, _)| KEPT.contains(&key.as_str()));
    let kept: Map<String, Value> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    // A schema that cannot be used has rules of its own.
    jsonschema::validator_for(&Value::Object(kept)).ok()
}

fn unfit(qrel: &Qrel, validator: &Validator) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, accepted) in qrel.arguments.iter().flatten() {
        for value in accepted.iter().filter(|value| *value != LEFT_OUT) {
            let given = json!({ name: value });
            if let Some(error) = validator.iter_errors(&given).next() {
                let fault = format!("{}: {}", quote(name), clean_up_to(COMPLAINT, &error.to_string()));
                faults.push((name.clone(), fault));
            }
        }
    }
    faults
}

/// Arguments that the label lets a call leave out and the schema does not.
fn omitted(qrel: &Qrel, schema: &Value) -> Vec<Fault> {
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|known| known == name))
    };
    let lax =
        |(name, accepted): &(&String, &Vec<Value>)| accepted.iter().any(|value| value == LEFT_OUT) && required(name);
    let fault = |(name, _): (&String, &Vec<Value>)| (name.clone(), format!("{} is required", quote(name)));
    qrel.arguments.iter().flatten().filter(lax).map(fault).collect()
}
