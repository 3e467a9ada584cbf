//! A small server of the Model Context Protocol over streamable HTTP, on loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Json,
    /// Answers as events, a notification before each.
    Events,
    /// Not without this key in a header.
    Key(&'static str),
    Html,
    /// Somewhere else, with a key of its own.
    Redirect,
    Broken,
    Never,
    Forbidden,
    /// Answers as events that end before the answer, which comes to who asks for the rest.
    Resumed,
    /// A page with one tool that is no JSON.
    OddTool,
    /// An event that ends within the answer.
    CutEvent,
    /// Asks and tells more than anybody wants to hear before it answers.
    Chatty,
}

/// A server that lives as long as the process; keeps the method and the headers of each request.
pub(crate) struct McpServer {
    pub(crate) url: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl McpServer {
    pub(crate) fn start(way: Way) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = seen.clone();
                std::thread::spawn(move || serve(stream, way, &seen));
            }
        });
        Self { url, log }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// One request per connection. A client that went away just ends it.
fn serve(mut stream: TcpStream, way: Way, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut length, mut head) = (0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    log.lock().unwrap().push(format!("{head}{message}"));
    let (status, content_type, body) = answer(&head, &message, way);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nMcp-Session-Id: session-1\r\n\
         Location: http://127.0.0.1:9/elsewhere?key=of-their-own\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .ok()
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

fn answer(head: &str, message: &Value, way: Way) -> (&'static str, &'static str, String) {
    match way {
        Way::Never => std::thread::sleep(Duration::from_secs(600)),
        Way::Redirect => return ("307 Temporary Redirect", JSON, String::new()),
        Way::Broken => return ("500 Internal Server Error", "text/plain", "stack trace".to_owned()),
        Way::Html => return ("200 OK", "text/html", "<html>Hello</html>".to_owned()),
        Way::Forbidden => return ("403 Forbidden", JSON, "{}".to_owned()),
        Way::Key(key) if !head.contains(&format!("Bearer {key}")) && !head.contains(&format!("bearer {key}")) => {
            return ("401 Unauthorized\r\nWWW-Authenticate: Bearer", JSON, "{}".to_owned());
        }
        _ => {}
    }
    let head = head.to_ascii_lowercase();
    if let Some(last) = head.split_once("last-event-id: ").map(|(_, last)| last.lines().next().unwrap_or_default()) {
        // The number of the event says what was asked.
        let (method, id) = last.split_once(' ').unwrap_or_default();
        let reply = json!({"jsonrpc": "2.0", "id": id.parse::<u64>().ok(), "result": result(method, &Value::Null)});
        return ("200 OK", EVENTS, format!("data: {reply}\n\n"));
    }
    if !head.starts_with("post") {
        return ("405 Method Not Allowed", JSON, String::new());
    }
    let method = message["method"].as_str().unwrap_or_default();
    let result = result(method, &message["params"]["cursor"]);
    if result.is_null() {
        return ("202 Accepted", JSON, String::new());
    }
    let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    in_its_way(way, message, reply)
}

/// What is answered; nothing to what needs no answer.
fn result(method: &str, cursor: &Value) -> Value {
    let near = json!({"name": "near", "inputSchema": {"type": "object", "properties": {"z": {}, "a": {}}}, "title": "Near",
        "annotations": {"readOnlyHint": true}, "outputSchema": {"type": "object"}, "_meta": {"a": 1}});
    let far = json!({"name": "far", "description": "Goes far.", "inputSchema": {"type": "object"}});
    match method {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "instructions": "Be kind.",
            "serverInfo": {"name": "far-server", "version": "9", "title": "Far away"},
        }),
        "tools/list" if cursor.is_null() => json!({"tools": [near], "nextCursor": "2"}),
        "tools/list" => json!({"tools": [far]}),
        _ => Value::Null,
    }
}

fn in_its_way(way: Way, message: &Value, reply: String) -> (&'static str, &'static str, String) {
    let is_listing = message["method"] == "tools/list";
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let ping = json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"});
    let events = |events: String| ("200 OK", EVENTS, events);
    match way {
        Way::Events => events(format!("event: message\ndata: {notice}\n\nevent: message\ndata: {reply}\n\n")),
        Way::Resumed if message["params"]["cursor"].is_null() => {
            let (method, id) = (message["method"].as_str().unwrap_or_default(), &message["id"]);
            events(format!("id: {method} {id}\nretry: 10\ndata:\n\n"))
        }
        Way::OddTool if is_listing => {
            ("200 OK", JSON, reply.replace("[{", "[NaN, {").replace(",\"nextCursor\":\"2\"", ""))
        }
        Way::CutEvent if is_listing => events(format!("data: {}\n\n", &reply[..reply.len() - 9])),
        Way::Chatty => {
            events(format!("data: {notice}\n\ndata: {ping}\n\n").repeat(2_000) + &format!("data: {reply}\n\n"))
        }
        _ => ("200 OK", JSON, reply),
    }
}
