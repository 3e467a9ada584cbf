//! A model without a network: deterministic, for offline use and tests. Answers as a server would, usage included.

mod arguments;

use std::collections::{BTreeSet, VecDeque};
use std::str::FromStr;
use std::sync::Mutex;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use self::arguments::{Instances, Properties};
use super::{Route, Transport, TransportError, WireResponse};
use crate::tokens;

/// What an agent always has at hand; a scripted choice passes over these, since they head every list of tools.
const CORE_NAMES: [&str; 7] =
    ["terminal", "read_file", "write_file", "web_search", "fetch_url", "clarify", "current_time"];
/// Words that say nothing about which tool is meant.
const STOP_WORDS: [&str; 22] = [
    "the", "and", "for", "with", "from", "that", "this", "you", "your", "can", "are", "was", "not", "all", "into",
    "its", "our", "has", "have", "please", "tool", "use",
];
const DIMENSIONS: usize = 64;

/// How a scripted model chooses. After a tool's result each of them answers in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// The first offered tool that is none of the usual core tools.
    First,
    /// The offered tool whose name and description share most words with the last user message; none if no word is
    /// shared. The earlier one wins a tie.
    Lexical,
    /// Never a tool.
    Silent,
}

impl Behaviour {
    pub const ALL: [Self; 3] = [Self::First, Self::Lexical, Self::Silent];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Lexical => "lexical",
            Self::Silent => "silent",
        }
    }
}

/// No behaviour has this name.
#[derive(Debug, thiserror::Error)]
#[error("unknown scripted behaviour {0:?}, expected `first`, `lexical` or `silent`")]
pub struct UnknownBehaviour(String);

impl FromStr for Behaviour {
    type Err = UnknownBehaviour;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|one| one.as_str() == text).ok_or_else(|| UnknownBehaviour(text.to_owned()))
    }
}

type Reply = Result<WireResponse, TransportError>;
type Answer = dyn Fn(Route, &Value) -> Reply + Send + Sync;

enum Script {
    Behaviour(Behaviour),
    Replies(Mutex<VecDeque<WireResponse>>),
    With(Box<Answer>),
}

/// A [`Transport`] that answers by itself.
pub struct Scripted(Script);

impl Scripted {
    pub fn new(behaviour: Behaviour) -> Self {
        Self(Script::Behaviour(behaviour))
    }

    /// Gives these answers one after the other, then [`TransportError::Broken`]. A JSON value is a 200 with that body.
    pub fn replies<R: Into<WireResponse>>(replies: impl IntoIterator<Item = R>) -> Self {
        Self(Script::Replies(Mutex::new(replies.into_iter().map(Into::into).collect())))
    }

    /// Asks the function, which sees each request.
    pub fn with(answer: impl Fn(Route, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self(Script::With(Box::new(answer)))
    }
}

impl Transport for Scripted {
    fn post<'a>(&'a self, route: Route, body: &'a Value) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            match &self.0 {
                Script::Behaviour(behaviour) => Ok(match route {
                    Route::Chat => chat(*behaviour, body),
                    Route::Embed => embed(body),
                }
                .into()),
                Script::Replies(replies) => {
                    let next = replies.lock().expect("no holder of the lock panics").pop_front();
                    next.ok_or_else(|| TransportError::Broken { reason: "the script has no reply left".to_owned() })
                }
                Script::With(answer) => answer(route, body),
            }
        })
    }
}

fn chat(behaviour: Behaviour, request: &Value) -> Value {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let answered = messages.last().is_some_and(|message| message["role"] == "tool");
    let query = messages.iter().rfind(|message| message["role"] == "user").map(|message| words(&message["content"]));
    let chooser =
        Chooser { behaviour: if answered { Behaviour::Silent } else { behaviour }, query: query.unwrap_or_default() };
    let schema = &request["response_format"]["json_schema"]["schema"];
    let (message, finish_reason) = if schema.is_object() {
        let choice = Instances::new(schema, Properties::All, &|options| chooser.pick(options)).make();
        (json!({"role": "assistant", "content": choice.to_string()}), "stop")
    } else if let Some(function) = chooser.tool(request) {
        let parameters = &function["parameters"];
        let arguments = if chooser.is_question(request) {
            Instances::new(parameters, Properties::All, &|options| chooser.pick(options)).make()
        } else {
            Instances::new(parameters, Properties::Required, &|options| options.first()).make()
        };
        let call = json!({
            "id": format!("call_{}", messages.len()),
            "type": "function",
            "function": {"name": function["name"], "arguments": arguments.to_string()},
        });
        (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
    } else {
        let words = if answered { "Done." } else { "None of the tools does this." };
        (json!({"role": "assistant", "content": words}), "stop")
    };
    let (input, output) = (tokens::count_json(request), tokens::count_json(&message));
    json!({
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
    })
}

struct Chooser {
    behaviour: Behaviour,
    /// Words of the last user message.
    query: BTreeSet<String>,
}

impl Chooser {
    /// The function to call, in accordance with `tool_choice`.
    fn tool<'a>(&self, request: &'a Value) -> Option<&'a Value> {
        let functions: Vec<_> = request["tools"]
            .as_array()?
            .iter()
            .map(|tool| &tool["function"])
            .filter(|f| f["name"].is_string())
            .collect();
        let choice = &request["tool_choice"];
        if choice == "none" {
            return None;
        }
        if let Some(name) = choice["function"]["name"].as_str() {
            return functions.into_iter().find(|function| function["name"] == name);
        }
        if self.is_question(request) {
            return functions.first().copied();
        }
        let chosen = self.best(&functions, |function| {
            let text = |field: &str| function[field].as_str().unwrap_or_default();
            (text("name").to_owned(), format!("{} {}", text("name"), text("description")))
        });
        chosen.or_else(|| functions.first().filter(|_| choice == "required")).copied()
    }

    /// A single function with a list to choose from, as strategies ask for a choice of skills: it is answered rather than chosen.
    fn is_question(&self, request: &Value) -> bool {
        let Some([only]) = request["tools"].as_array().map(Vec::as_slice) else { return false };
        let properties = only["function"]["parameters"]["properties"].as_object();
        let lists = |property: &Value| property["items"]["enum"].is_array();
        self.behaviour != Behaviour::Silent && properties.is_some_and(|properties| properties.values().any(lists))
    }

    /// One of the options of a schema's `enum`; `None` to take none of them.
    fn pick<'a>(&self, options: &'a [Value]) -> Option<&'a Value> {
        self.best(options, |option| {
            let text = option.as_str().unwrap_or_default();
            (text.to_owned(), text.to_owned())
        })
        .filter(|option| !option.is_null())
    }

    fn best<'a, T>(&self, options: &'a [T], name_and_text: impl Fn(&T) -> (String, String)) -> Option<&'a T> {
        match self.behaviour {
            Behaviour::Silent => None,
            Behaviour::First => options.iter().find(|option| {
                let (name, _) = name_and_text(option);
                !name.is_empty() && !CORE_NAMES.contains(&name.as_str())
            }),
            Behaviour::Lexical => {
                let shared =
                    |option: &T| self.query.intersection(&words(&Value::from(name_and_text(option).1))).count();
                let scored = options.iter().map(|option| (shared(option), option)).filter(|&(shared, _)| shared > 0);
                // `max_by_key` keeps the last of equals.
                scored.rev().max_by_key(|&(shared, _)| shared).map(|(_, option)| option)
            }
        }
    }
}

/// The words of a text or of the parts of a message: lower case, at least three letters, names split at their joints.
fn words(content: &Value) -> BTreeSet<String> {
    let mut spaced = String::new();
    let mut add = |text: &str| {
        let mut before = ' ';
        for char in text.chars() {
            if char.is_uppercase() && before.is_lowercase() || !char.is_alphanumeric() {
                spaced.push(' ');
            }
            if char.is_alphanumeric() {
                spaced.extend(char.to_lowercase());
            }
            before = char;
        }
        spaced.push(' ');
    };
    match content {
        Value::String(text) => add(text),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).for_each(add),
        _ => {}
    }
    let telling = |word: &&str| word.chars().count() >= 3 && !STOP_WORDS.contains(word);
    spaced.split_whitespace().filter(telling).map(str::to_owned).collect()
}

/// Bags of hashed words, of length one: texts that share words are near each other.
fn embed(request: &Value) -> Value {
    let inputs = match &request["input"] {
        Value::Array(inputs) => inputs.as_slice(),
        one => std::slice::from_ref(one),
    };
    let data: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| json!({"object": "embedding", "index": index, "embedding": vector(input)}))
        .collect();
    let input_tokens = tokens::count_json(&request["input"]);
    json!({
        "object": "list",
        "data": data,
        "model": request["model"],
        "usage": {"prompt_tokens": input_tokens, "total_tokens": input_tokens},
    })
}

fn vector(input: &Value) -> Vec<f64> {
    let mut vector = vec![0.0; DIMENSIONS];
    for word in words(input) {
        vector[usize::from(blake3::hash(word.as_bytes()).as_bytes()[0]) % DIMENSIONS] += 1.0;
    }
    // A text without words still needs a direction.
    if vector.iter().all(|&value| value == 0.0) {
        vector[0] = 1.0;
    }
    let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    vector.iter().map(|value| value / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::ChatReply;
    use crate::endpoint::classify;

    fn tool(name: &str, description: &str) -> Value {
        let parameters = json!({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]});
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
    }

    fn request(text: &str) -> Value {
        json!({
            "model": "m",
            "messages": [{"role": "system", "content": "cancel"}, {"role": "user", "content": text}],
            "tools": [
                tool("terminal", "Run a command"),
                tool("send_mail", "Send a letter"),
                tool("cancelOrder", "Stop a purchase"),
                tool("cancel_visit", "Stop a visit"),
            ],
        })
    }

    async fn reply(behaviour: &str, request: &Value) -> ChatReply {
        let scripted = Scripted::new(behaviour.parse().unwrap());
        let body = classify(Route::Chat, &scripted.post(Route::Chat, request).await.unwrap()).unwrap();
        ChatReply::parse(&body).unwrap()
    }

    async fn called(behaviour: &str, request: &Value) -> Option<String> {
        reply(behaviour, request).await.calls.first().map(|call| call.name.clone())
    }

    #[tokio::test]
    async fn each_behaviour_calls_its_tool() {
        let query = "please cancel the order";
        assert_eq!(called("first", &request(query)).await.unwrap(), "send_mail");
        assert_eq!(called("lexical", &request(query)).await.unwrap(), "cancelOrder");
        assert_eq!(called("lexical", &request("cancel")).await.unwrap(), "cancelOrder", "the earlier of equals");
        assert_eq!(called("lexical", &request("bonjour the a")).await, None);
        assert_eq!(called("silent", &request(query)).await, None);
        assert_eq!("frist".parse::<Behaviour>().unwrap_err().to_string().matches('`').count(), 6);
        let call = reply("first", &request(query)).await.calls.remove(0);
        assert_eq!((call.id.as_str(), call.arguments.as_str()), ("call_2", r#"{"to":"x"}"#));
    }

    #[tokio::test]
    async fn the_choice_of_the_caller_binds() {
        let mut request = request("bonjour");
        request["tool_choice"] = json!("required");
        assert_eq!(called("lexical", &request).await.unwrap(), "terminal");
        request["tool_choice"] = json!({"type": "function", "function": {"name": "cancel_visit"}});
        assert_eq!(called("silent", &request).await.unwrap(), "cancel_visit");
        request["tool_choice"] = json!("none");
        assert_eq!(called("first", &request).await, None);
    }

    #[tokio::test]
    async fn after_a_result_the_answer_is_in_words() {
        for behaviour in Behaviour::ALL {
            let mut request = request("cancel the order");
            request["messages"].as_array_mut().unwrap().push(json!({"role": "tool", "content": "ok"}));
            let reply = reply(behaviour.as_str(), &request).await;
            assert_eq!((reply.text.as_str(), reply.calls.len()), ("Done.", 0));
        }
    }

    #[tokio::test]
    async fn usage_is_what_our_tokenizer_counts() {
        let request = request("cancel");
        let usage = reply("silent", &request).await.usage.unwrap();
        assert_eq!(usage.input_tokens, tokens::count_json(&request));
        assert!(usage.output_tokens > 0);
    }

    async fn structured(behaviour: &str, text: &str, schema: Value) -> Value {
        let request = json!({
            "model": "m",
            "messages": [{"role": "user", "content": text}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "choice", "schema": schema}},
        });
        serde_json::from_str(&reply(behaviour, &request).await.text).unwrap()
    }

    #[tokio::test]
    async fn a_schema_is_answered_with_json_that_fits() {
        let choice = json!({"type": "object", "properties": {
            "tool": {"enum": ["terminal", "send_mail", "cancel_order", null]},
            "arguments": {"type": "object"},
        }});
        for (behaviour, text, tool) in [
            ("first", "hello", json!("send_mail")),
            ("lexical", "cancel the order", json!("cancel_order")),
            ("lexical", "bonjour", json!(null)),
            ("silent", "cancel the order", json!(null)),
        ] {
            let answer = structured(behaviour, text, choice.clone()).await;
            assert_eq!(answer, json!({"tool": tool, "arguments": {}}), "{behaviour} {text}");
        }
        let names = json!({"type": "object", "properties": {
            "names": {"type": "array", "items": {"type": "string", "enum": ["mailing", "order-desk"]}},
        }, "required": ["names"]});
        assert_eq!(structured("lexical", "my order", names.clone()).await, json!({"names": ["order-desk"]}));
        assert_eq!(structured("lexical", "bonjour", names).await, json!({"names": []}));
    }

    #[tokio::test]
    async fn a_single_function_with_a_list_is_a_question() {
        let names = json!({"type": "object", "properties": {
            "names": {"type": "array", "items": {"type": "string", "enum": ["mailing", "order-desk"]}},
        }, "required": ["names"]});
        let tool = json!({"type": "function", "function": {"name": "select", "description": "d", "parameters": names}});
        let request =
            |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}], "tools": [tool]});
        for (behaviour, text, expected) in [
            ("lexical", "where is my order", Some(r#"{"names":["order-desk"]}"#)),
            ("lexical", "bonjour", Some(r#"{"names":[]}"#)),
            ("first", "bonjour", Some(r#"{"names":["mailing"]}"#)),
            ("silent", "where is my order", None),
        ] {
            let call = reply(behaviour, &request(text)).await.calls.into_iter().next();
            assert_eq!(call.map(|call| call.arguments).as_deref(), expected, "{behaviour} {text}");
        }
    }

    #[tokio::test]
    async fn embeddings_are_unit_vectors_near_to_what_shares_words() {
        let scripted = Scripted::new(Behaviour::Silent);
        let request = json!({"model": "e", "input": ["cancel my order", "order cancelled: cancel", "weather", ""]});
        let body = classify(Route::Embed, &scripted.post(Route::Embed, &request).await.unwrap()).unwrap();
        let vectors: Vec<Vec<f64>> =
            (0..4).map(|index| serde_json::from_value(body["data"][index]["embedding"].clone()).unwrap()).collect();
        let dot = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum::<f64>();
        assert!((0..4).all(|index| (dot(index, index) - 1.0).abs() < 1e-12));
        assert!(dot(0, 1) > 0.5 && dot(0, 1) > dot(0, 2));
    }

    #[tokio::test]
    async fn queues_and_functions_answer_as_told() {
        let queue = Scripted::replies([json!({"a": 1})]);
        assert_eq!(queue.post(Route::Chat, &json!({})).await.unwrap().body, r#"{"a":1}"#);
        assert!(matches!(queue.post(Route::Chat, &json!({})).await, Err(TransportError::Broken { .. })));
        let echo = Scripted::with(|route, body| Ok(json!({"route": route.to_string(), "body": body}).into()));
        let answer = echo.post(Route::Embed, &json!(1)).await.unwrap();
        assert_eq!(answer.body, r#"{"route":"embeddings","body":1}"#);
    }
}
