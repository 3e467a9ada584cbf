//! A small HTTP/1.1 server on loopback that says exactly the bytes a test tells it to.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// What to do with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These bytes, then the end of the connection.
    Bytes(Vec<u8>),
    /// These bytes, then a reset.
    Reset(Vec<u8>),
    /// Nothing, with the connection held open.
    Hang,
}

impl Reply {
    /// A whole answer. `headers` are lines without their ends.
    pub(crate) fn new(status: u16, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        Self::Bytes(Self::bytes(status, headers, body.as_ref(), body.as_ref().len()))
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, &["content-type: application/json"], body.to_string())
    }

    /// Part of an answer of which `missing` more bytes were announced.
    pub(crate) fn cut(body: &str, missing: usize) -> Self {
        Self::Bytes(Self::bytes(200, &[], body.as_bytes(), body.len() + missing))
    }

    fn bytes(status: u16, headers: &[&str], body: &[u8], length: usize) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n");
        for header in headers {
            let _ = write!(head, "{header}\r\n");
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }
}

/// Stops when dropped.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Asks `answer` about each request; the number counts requests from 0.
    pub(crate) async fn start(answer: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log), Arc::clone(&answer)));
            }
        });
        Self { address, seen, task }
    }

    /// The same reply to everything.
    pub(crate) async fn always(reply: Reply) -> Self {
        Self::start(move |_, _| reply.clone()).await
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no holder of the lock panics").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<impl Fn(usize, &Seen) -> Reply + Send + Sync>,
) {
    let Some(seen) = read_request(&mut stream).await else { return };
    let number = {
        let mut log = log.lock().expect("no holder of the lock panics");
        log.push(seen.clone());
        log.len() - 1
    };
    // The client may be gone before all is written, which is its business.
    match answer(number, &seen) {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Reply::Reset(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.set_zero_linger();
        }
        Reply::Hang => std::future::pending().await,
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_length = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_length].to_vec()).ok()?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(Some(0), |(_, length)| length.parse::<usize>().ok())?;
    while bytes.len() < head_length + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = &bytes[head_length..];
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).ok()? };
    Some(Seen { path, headers, body })
}
