//! The agent's conversation in the three protocols of equal standing: native tools, a choice under a JSON schema, a choice in
//! plain text. One conversation, three ways of asking; everything above this file is the same for all.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::arguments;
use crate::chat::{ChatReply, ChatRequest, Message, ToolDef};
use crate::endpoint::{Profile, Protocol};
use crate::handle::Ask;

/// The name that means "no tool" in a choice.
const NONE: &str = "none";

/// A call as read from a reply, before it is resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct RawCall {
    pub id: String,
    pub name: String,
    /// Parsed arguments, or why they could not be parsed and their text.
    pub arguments: Result<Value, (String, String)>,
}

/// What a reply says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// No call: the conversation ends.
    Words,
    Calls(Vec<RawCall>),
    /// The protocol wants a choice in JSON and this is none.
    Unreadable(String),
}

/// Sampling and limits of every request.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    pub model: String,
    pub temperature: f64,
    pub max_tokens: u32,
    pub seed: Option<u64>,
}

/// A growing list of messages with the tools that are defined for it.
#[derive(Clone, Debug)]
pub struct Conversation {
    protocol: Protocol,
    system: String,
    tools: Vec<Arc<ToolDef>>,
    messages: Vec<Message>,
}

impl Conversation {
    pub fn new(protocol: Protocol, system: String, user: &str) -> Self {
        Self { protocol, system, tools: Vec::new(), messages: vec![Message::user(user)] }
    }

    /// Defines a tool from the next request on.
    pub fn define(&mut self, tool: impl Into<Arc<ToolDef>>) {
        self.tools.push(tool.into());
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub fn request(&self, sampling: &Sampling) -> ChatRequest {
        let mut request = base_request(sampling);
        let native = self.protocol == Protocol::Native;
        let system = if native || self.tools.is_empty() {
            self.system.clone()
        } else {
            format!("{}\n\n{}", self.system, choice_prompt(&self.tools))
        };
        request.messages.push(Message::system(&system));
        request.messages.extend(self.messages.iter().cloned());
        match self.protocol {
            Protocol::Native => {
                request.tools.clone_from(&self.tools);
                if !self.tools.is_empty() {
                    request.tool_choice = Some(json!("auto"));
                }
            }
            Protocol::JsonSchema if !self.tools.is_empty() => {
                request.response_format = Some(json_format("choice", &choice_schema(&self.tools)));
            }
            Protocol::JsonSchema | Protocol::Text => {}
        }
        request
    }

    /// Reads a reply and adds it to the conversation, word for word.
    pub fn hear(&mut self, reply: &ChatReply) -> Said {
        self.messages.push(reply.message.clone());
        match self.protocol {
            Protocol::Native if reply.calls.is_empty() => Said::Words,
            Protocol::Native => Said::Calls(
                reply
                    .calls
                    .iter()
                    .map(|call| RawCall {
                        id: call.id.clone(),
                        name: call.name.clone(),
                        arguments: arguments::parse(&call.arguments).map_err(|why| (why, call.arguments.clone())),
                    })
                    .collect(),
            ),
            Protocol::JsonSchema | Protocol::Text if self.tools.is_empty() => Said::Words,
            Protocol::JsonSchema => match first_object(&reply.text) {
                Some(choice) => read_choice(&choice),
                None => Said::Unreadable(reply.text.clone()),
            },
            // In plain text, words without a choice are an answer.
            Protocol::Text => first_object(&reply.text).map_or(Said::Words, |choice| read_choice(&choice)),
        }
    }

    /// Adds the answer to a call.
    pub fn answer(&mut self, call: &RawCall, text: &str) {
        self.messages.push(match self.protocol {
            Protocol::Native => Message::tool(&call.id, text),
            Protocol::JsonSchema | Protocol::Text => Message::user(&format!(
                "Result of {}:\n{text}\n\nChoose again, or answer \"{NONE}\" if the work is done.",
                call.name
            )),
        });
    }

    /// Says that the last reply could not be read as a choice.
    pub fn reject(&mut self, text: &str) {
        self.messages.push(Message::user(text));
    }
}

/// The request of an inner generation.
pub fn inner_request(profile: &Profile, sampling: &Sampling, messages: &[Message], ask: &Ask) -> ChatRequest {
    let protocol = profile.protocol;
    let mut request = base_request(sampling);
    request.messages = messages.to_vec();
    if let Ask::Function { function } = ask {
        match protocol {
            Protocol::Native => {
                request.tools = vec![Arc::new(profile.fit_tool(function.clone()))];
                request.tool_choice = Some(json!("auto"));
            }
            Protocol::JsonSchema => request.response_format = Some(json_format(&function.name, &function.parameters)),
            Protocol::Text => {}
        }
        if protocol != Protocol::Native {
            let how = format!(
                "{}\nAnswer with one JSON object that fits this schema and nothing else:\n{}",
                function.description, function.parameters
            );
            // Some servers accept a system message in the first place only.
            match request.messages.first_mut().filter(|first| first.role() == "system") {
                Some(first) => *first = Message::system(&format!("{}\n\n{how}", first.text())),
                None => request.messages.insert(0, Message::system(&how)),
            }
        }
    }
    request
}

/// The arguments in the reply to an inner generation, if there are any.
pub fn inner_arguments(protocol: Protocol, reply: &ChatReply) -> Option<Value> {
    let arguments = match protocol {
        Protocol::Native => reply
            .calls
            .first()
            .and_then(|call| arguments::parse(&call.arguments).ok())
            .or_else(|| first_object(&reply.text)),
        Protocol::JsonSchema | Protocol::Text => first_object(&reply.text),
    };
    arguments.filter(Value::is_object)
}

fn base_request(sampling: &Sampling) -> ChatRequest {
    ChatRequest {
        model: sampling.model.clone(),
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: None,
        response_format: None,
        temperature: Some(sampling.temperature),
        max_tokens: Some(sampling.max_tokens),
        seed: sampling.seed,
    }
}

fn json_format(name: &str, schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema}})
}

fn choice_prompt(tools: &[Arc<ToolDef>]) -> String {
    let mut text = String::from("Tools:\n");
    for tool in tools {
        let _ = writeln!(text, "- {}: {}\n  arguments: {}", tool.name, tool.description, tool.parameters);
    }
    let _ = write!(
        text,
        "\nTo call a tool, answer with one JSON object and nothing else: {{\"tool\": \"<name>\", \"arguments\": {{…}}}}. \
         If no tool is needed, answer {{\"tool\": \"{NONE}\", \"arguments\": {{}}}}."
    );
    text
}

fn choice_schema(tools: &[Arc<ToolDef>]) -> Value {
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).chain([NONE]).collect();
    json!({
        "type": "object",
        "properties": {"tool": {"type": "string", "enum": names}, "arguments": {"type": "object"}},
        "required": ["tool", "arguments"],
        "additionalProperties": false,
    })
}

fn read_choice(choice: &Value) -> Said {
    match choice["tool"].as_str() {
        Some(NONE) => Said::Words,
        Some(name) => {
            let arguments = if choice["arguments"].is_null() { json!({}) } else { choice["arguments"].clone() };
            Said::Calls(vec![RawCall { id: String::new(), name: name.to_owned(), arguments: Ok(arguments) }])
        }
        None if choice.get("tool").is_some_and(Value::is_null) => Said::Words,
        None => Said::Unreadable(choice.to_string()),
    }
}

/// The first JSON object in a text, fenced or not.
fn first_object(text: &str) -> Option<Value> {
    text.match_indices('{').find_map(|(start, _)| {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        stream.next()?.ok().filter(Value::is_object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling() -> Sampling {
        Sampling { model: "m".to_owned(), temperature: 0.0, max_tokens: 64, seed: None }
    }

    fn conversation(protocol: Protocol) -> Conversation {
        let mut conversation = Conversation::new(protocol, "Be useful.".to_owned(), "send it");
        conversation.define(ToolDef {
            name: "mail_send".to_owned(),
            description: "Sends a message.".to_owned(),
            parameters: json!({"type": "object", "properties": {"to": {"type": "string"}}}),
        });
        conversation
    }

    fn says(protocol: Protocol, message: &Value) -> Said {
        let reply = ChatReply::parse(&json!({"choices": [{"message": message}]})).unwrap();
        conversation(protocol).hear(&reply)
    }

    #[test]
    fn requests_of_the_three_protocols() {
        for (name, protocol) in
            [("native", Protocol::Native), ("json_schema", Protocol::JsonSchema), ("text", Protocol::Text)]
        {
            insta::assert_json_snapshot!(name, conversation(protocol).request(&sampling()));
        }
    }

    #[test]
    fn choices_are_read_in_every_protocol() {
        let call = |id: &str| {
            Said::Calls(vec![RawCall {
                id: id.to_owned(),
                name: "mail_send".to_owned(),
                arguments: Ok(json!({"to": "a"})),
            }])
        };
        let native =
            json!({"tool_calls": [{"id": "c", "function": {"name": "mail_send", "arguments": "{\"to\":\"a\"}"}}]});
        assert_eq!(says(Protocol::Native, &native), call("c"));
        let choice =
            json!({"content": "Sure:\n```json\n{\"tool\": \"mail_send\", \"arguments\": {\"to\": \"a\"}}\n```"});
        assert_eq!(says(Protocol::JsonSchema, &choice), call(""));
        assert_eq!(says(Protocol::Text, &choice), call(""));
        for none in ["{\"tool\": \"none\", \"arguments\": {}}", "{\"tool\": null}"] {
            assert_eq!(says(Protocol::JsonSchema, &json!({"content": none})), Said::Words);
        }
        assert_eq!(says(Protocol::Text, &json!({"content": "Done."})), Said::Words);
        assert!(matches!(says(Protocol::JsonSchema, &json!({"content": "Done."})), Said::Unreadable(_)));
    }

    #[test]
    fn arguments_that_are_no_json_are_kept() {
        let native = json!({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{to"}}]});
        let Said::Calls(calls) = says(Protocol::Native, &native) else { panic!("a call") };
        assert_eq!(calls[0].arguments.as_ref().unwrap_err().1, "{to");
    }
}
