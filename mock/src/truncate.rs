//! What a server does that cuts a prompt to its context and tells nobody.

use serde_json::Value;

use crate::dialect::prompt_tokens;

/// The request as the model gets to read it, if that is less than was sent: without the oldest messages, except system ones and
/// the last; then without the first tools.
pub(crate) fn truncated(body: &Value, limit: u64) -> Option<Value> {
    let mut excess = prompt_tokens(body).checked_sub(limit).filter(|&excess| excess > 0)?;
    let mut body = body.clone();
    let messages = body["messages"].as_array().map_or(0, Vec::len);
    let old = |index: usize, message: &Value| index + 1 < messages && message["role"] != "system";
    let fields = body.as_object_mut()?;
    remove(fields.get_mut("messages"), &mut excess, old);
    remove(fields.get_mut("tools"), &mut excess, |_, _| true);
    if fields.get("tools").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        fields.shift_remove("tools");
    }
    Some(body)
}

/// Takes out what may go, from the front, until nothing exceeds.
fn remove(list: Option<&mut Value>, excess: &mut u64, may_go: impl Fn(usize, &Value) -> bool) {
    let Some(items) = list.and_then(Value::as_array_mut) else { return };
    let mut index = 0;
    items.retain(|item| {
        let goes = *excess > 0 && may_go(index, item);
        index += 1;
        if goes {
            *excess = excess.saturating_sub(prompt_tokens(item) + 1);
        }
        !goes
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> Value {
        let message =
            |role: &str, n: usize| json!({"role": role, "content": format!("{role} {n} {}", "word ".repeat(40))});
        let tools: Vec<_> = (0..4)
            .map(|n| json!({"function": {"name": format!("tool_{n}"), "description": "x ".repeat(40)}}))
            .collect();
        json!({"messages": [message("system", 0), message("user", 1), message("assistant", 2), message("user", 3)],
               "tools": tools})
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(truncated(&request(), 10_000), None);
    }

    #[test]
    fn old_messages_go_first_then_tools_and_the_rest_fits() {
        let full = prompt_tokens(&request());
        let cut = truncated(&request(), full - 30).unwrap();
        let roles: Vec<_> = cut["messages"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
        assert_eq!(roles, ["system", "assistant", "user"]);
        assert_eq!(cut["tools"].as_array().unwrap().len(), 4);
        assert!(prompt_tokens(&cut) <= full - 30);

        let cut = truncated(&request(), full / 2).unwrap();
        assert_eq!(cut["messages"].as_array().unwrap().len(), 2);
        assert!((1..4).contains(&cut["tools"].as_array().unwrap().len()));
        assert_eq!(cut["tools"].as_array().unwrap().last().unwrap()["function"]["name"], "tool_3");

        let cut = truncated(&request(), 1).unwrap();
        assert_eq!(cut["messages"].as_array().unwrap().len(), 2, "the system's and the last");
        assert!(cut.get("tools").is_none());
    }
}
