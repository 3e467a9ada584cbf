//! Tool annotations as the Model Context Protocol writes them.

use harness::catalogue::Annotations;
use serde_json::Value;

/// The annotations of a tool. What is no boolean or has no place in the format is told to `left_out`.
pub(super) fn annotations(value: Option<Value>, left_out: &mut dyn FnMut(&str)) -> Option<Annotations> {
    let object = match value? {
        Value::Null => return None,
        Value::Object(object) => object,
        _ => {
            left_out("non-object annotations");
            return None;
        }
    };
    let mut annotations = Annotations::default();
    for (key, value) in object {
        let hint = match key.as_str() {
            "readOnlyHint" => &mut annotations.read_only_hint,
            "destructiveHint" => &mut annotations.destructive_hint,
            "idempotentHint" => &mut annotations.idempotent_hint,
            "openWorldHint" => &mut annotations.open_world_hint,
            "title" if value.is_string() => {
                annotations.title = value.as_str().map(str::to_owned);
                continue;
            }
            _ => {
                if !value.is_null() {
                    left_out(&format!("annotations.{key}"));
                }
                continue;
            }
        };
        match value {
            Value::Bool(flag) => *hint = Some(flag),
            Value::Null => {}
            _ => left_out(&format!("non-boolean annotations.{key}")),
        }
    }
    (annotations != Annotations::default()).then_some(annotations)
}
