//! A small chat-completions server on loopback that answers what a test tells it to and keeps a log.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// An answer: status, content type, further lines of the head, body, and how long it takes.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
    pub(crate) delay: Duration,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let (content_type, headers) = ("application/json", Vec::new());
        Self { status, content_type, headers, body: body.to_string(), delay: Duration::ZERO }
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

type Behaviour = dyn Fn(&Value, &str) -> Answer + Send + Sync;

/// A server that lives as long as the process.
pub(crate) struct Server {
    pub(crate) base_url: String,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    /// `answer` sees the body and the Authorization header.
    pub(crate) fn start(answer: impl Fn(&Value, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = log.clone();
        let answer: Arc<Behaviour> = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (answer.clone(), seen.clone());
                std::thread::spawn(move || serve(stream, answer.as_ref(), &seen));
            }
        });
        Self { base_url, log }
    }

    /// Bodies in the order of their arrival.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.log.lock().unwrap().clone()
    }
}

/// One request per connection. A client that was killed just ends it.
fn serve(stream: TcpStream, answer: &Behaviour, log: &Mutex<Vec<Value>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "authorization" => value.trim().clone_into(&mut authorization),
                _ => {}
            }
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    // A request for a list has no body.
    let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).ok()? };
    log.lock().unwrap().push(body.clone());
    let Answer { status, content_type, headers, body, delay } = answer(&body, &authorization);
    std::thread::sleep(delay);
    let mut stream = stream;
    let headers: Vec<_> = headers.iter().map(|line| format!("{line}\r\n")).collect();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n{}connection: close\r\n\r\n{body}",
        body.len(),
        headers.concat()
    )
    .ok()
}

/// A completion with this assistant message.
pub(crate) fn completion(message: &Value) -> Value {
    json!({"model": "served", "choices": [{"message": message, "finish_reason": "stop"}],
           "usage": {"prompt_tokens": 50, "completion_tokens": 5}})
}

/// A deterministic model: it calls the last offered tool with no arguments, and closes after any result.
pub(crate) fn model(body: &Value) -> Value {
    let messages = body["messages"].as_array().unwrap();
    let answered = messages.last().is_some_and(|message| message["role"] == "tool");
    let tool = body["tools"].as_array().and_then(|tools| tools.last());
    match tool {
        Some(tool) if !answered => completion(&json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": tool["function"]["name"], "arguments": "{}"}}]})),
        _ => completion(&json!({"role": "assistant", "content": "Done."})),
    }
}
