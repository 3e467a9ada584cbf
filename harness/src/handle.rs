//! What a strategy may ask of the harness, as data: the same requests serve code in this process and, as lines of JSON, code
//! in another.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::{Message, ToolDef};
use crate::episode::{Level, ScoredTool};
use crate::ids::ToolId;

/// A request to the harness. The only door to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum HandleRequest {
    /// An inner generation on the strategy's own messages.
    Chat {
        label: String,
        messages: Vec<Message>,
        ask: Ask,
    },
    Embed {
        texts: Vec<String>,
    },
    /// A named retriever of the harness.
    Search {
        retriever: String,
        text: String,
        k: usize,
        by_model: bool,
    },
    /// Says that tools became visible in the text of the conversation.
    Expose {
        tools: Vec<ToolId>,
        level: Level,
    },
}

/// The form of answer wanted from an inner generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum Ask {
    Text,
    /// Arguments for one function, asked for in the way the endpoint's protocol has.
    Function {
        function: ToolDef,
    },
}

/// The answer to a [`HandleRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum HandleReply {
    /// `arguments` is `None` if the model called nothing or wrote no JSON object.
    Chat {
        text: String,
        arguments: Option<Value>,
    },
    Embed {
        vectors: Vec<Vec<f32>>,
    },
    Search {
        ranked: Vec<ScoredTool>,
    },
    Exposed,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_lines_of_json() {
        let function = ToolDef { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) };
        let requests = [
            HandleRequest::Chat {
                label: "select skills".into(),
                messages: vec![Message::user("hi")],
                ask: Ask::Function { function },
            },
            HandleRequest::Embed { texts: vec!["a".into()] },
            HandleRequest::Search { retriever: "bm25".into(), text: "a".into(), k: 5, by_model: true },
            HandleRequest::Expose { tools: vec![ToolId::new("a", "b")], level: Level::Named },
        ];
        for request in requests {
            let line = serde_json::to_string(&request).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<HandleRequest>(&line).unwrap(), request);
        }
    }
}
