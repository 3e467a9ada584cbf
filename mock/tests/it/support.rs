//! What the tests share: servers by name, requests, and clients that see every byte.

use std::io;
use std::time::Duration;

use harness::endpoint::http_client;
use mock::{Mock, Script, fixtures};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const CHAT: &str = "chat/completions";

/// A fixture by its name.
pub(crate) async fn fixture(name: &str) -> Mock {
    Mock::start(fixtures::find(name).unwrap().script()).await.unwrap()
}

/// A script without its version.
pub(crate) async fn scripted(toml: &str) -> Mock {
    Mock::start(script(toml)).await.unwrap()
}

pub(crate) fn script(toml: &str) -> Script {
    Script::parse(&format!("version = 1\n{toml}"), "test.toml").unwrap()
}

/// An answer, whatever it is.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The assistant's message of a success.
    pub(crate) fn message(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()["choices"][0]["message"].clone()
    }

    /// The chunks of a stream that ends as it should.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"), "{}", self.text);
        let events: Vec<_> =
            self.text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
        let (done, chunks) = events.split_last().unwrap();
        assert_eq!(*done, "[DONE]");
        chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
    }
}

/// Sends to a path below the base URL.
pub(crate) async fn post(mock: &Mock, path: &str, body: &Value) -> Result<Got, reqwest::Error> {
    send(mock, path, body.to_string(), &[]).await
}

/// Sends any text, with more headers.
pub(crate) async fn send(
    mock: &Mock,
    path: &str,
    text: String,
    headers: &[(&str, &str)],
) -> Result<Got, reqwest::Error> {
    let url = format!("{}/{path}", mock.base_url());
    let client = http_client(&url, Some(Duration::from_secs(20))).unwrap();
    let mut request = client.post(&url).header("content-type", "application/json").body(text);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Got { status, headers, text: response.text().await? })
}

pub(crate) async fn chat(mock: &Mock, body: &Value) -> Got {
    post(mock, CHAT, body).await.unwrap()
}

/// A request to cancel an order, with more fields.
pub(crate) fn request(more: Value) -> Value {
    let mut body = json!({"model": "mock", "messages": [{"role": "user", "content": "please cancel the order"}]});
    let Value::Object(more) = more else { panic!("{more} are no fields") };
    body.as_object_mut().unwrap().extend(more);
    body
}

pub(crate) fn tool(name: &str, parameters: &Value) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}})
}

/// Tools of these names, without parameters.
pub(crate) fn tools<'a>(names: impl IntoIterator<Item = &'a str>) -> Value {
    let parameters = json!({"type": "object", "properties": {}});
    Value::Array(names.into_iter().map(|name| tool(name, &parameters)).collect())
}

/// A request that makes the model call `cancel_order` with `{"reason": "x"}`.
pub(crate) fn calling() -> Value {
    let parameters = json!({"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"],
                            "additionalProperties": false});
    request(json!({"tools": [tool("find_visit", &parameters), tool("cancel_order", &parameters)]}))
}

/// The request after it: the assistant's message comes back, with the result of its first call.
pub(crate) fn answered(request: &Value, message: &Value) -> Value {
    let mut next = request.clone();
    let id = &message["tool_calls"][0]["id"];
    let result = json!({"role": "tool", "tool_call_id": id, "content": "ok"});
    next["messages"].as_array_mut().unwrap().extend([message.clone(), result]);
    next
}

/// Everything that comes over a connection, and the error that ended it if it did not end in order.
pub(crate) async fn bytes(mock: &Mock, body: &Value) -> (String, Option<io::ErrorKind>) {
    let mut stream = TcpStream::connect(mock.address()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut received = Vec::new();
    loop {
        match stream.read_buf(&mut received).await {
            Ok(0) => return (String::from_utf8(received).unwrap(), None),
            Ok(_) => {}
            Err(error) => return (String::from_utf8(received).unwrap(), Some(error.kind())),
        }
    }
}
