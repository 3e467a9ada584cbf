//! Shapes of a schema that some servers refuse, one tool for each.

use serde_json::json;

use super::Probed;
use super::facts::{Facts, Native};
use super::limits::taken;
use super::session::{Session, Stop};
use super::tools::NO_TOOLS;
use crate::chat::ToolDef;

pub(super) async fn quirks(session: &Session<'_>, facts: &mut Facts) -> Probed {
    if facts.native == Native::Refused {
        return Err(Stop::Pointless(NO_TOOLS));
    }
    let one = |schema: serde_json::Value| json!({"type": "object", "properties": {"a": schema}});
    let branch = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let shapes = [
        ("a pattern that looks ahead", one(json!({"type": "string", "pattern": "^(?!x)[a-z]+$"}))),
        ("anyOf at the root", json!({"anyOf": [branch("a"), branch("b")]})),
        ("an array without items", one(json!({"type": "array"}))),
        ("an enum of numbers", one(json!({"type": "integer", "enum": [1, 2]}))),
    ];
    let mut number = 0;
    let tools = shapes.map(|(what, parameters)| {
        number += 1;
        let name = format!("schema_{number}");
        (what, ToolDef { name, description: "Does nothing".to_owned(), parameters })
    });
    Ok(taken(session, facts, &tools).await?.outcome())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::Verdict;
    use super::super::testing::{good, probe, refuses};
    use super::*;

    #[tokio::test]
    async fn shapes_are_tried_one_by_one_where_all_together_are_refused() {
        assert_eq!(probe(good, &mut Facts::default(), quirks).await.verdict, Verdict::Yes);
        let outcome = probe(
            |body: &Value| {
                let text = body["tools"].to_string();
                if text.contains("(?!") || text.contains("[1,2]") { refuses(400, "invalid schema") } else { good(body) }
            },
            &mut Facts::default(),
            quirks,
        )
        .await;
        assert_eq!(outcome.verdict, Verdict::Partly);
        assert_eq!(
            outcome.detail,
            "taken: anyOf at the root, an array without items; refused: a pattern that looks ahead, an enum of numbers (schema \
             (status 400): invalid schema)"
        );
    }
}
