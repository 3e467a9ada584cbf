//! The server's own log, which tests trust: what came, what was made of it, and what became of the answer.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hyper::header::HeaderMap;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

/// Headers that hold keys.
const SECRET: [&str; 6] = ["authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"];

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// In order of arrival, from 1.
    pub ordinal: u64,
    /// Milliseconds since the start of the server.
    pub at_ms: u64,
    pub method: String,
    /// Without a query.
    pub path: String,
    /// Names in lower case. Of a key there is only a short hash.
    pub headers: BTreeMap<String, String>,
    /// A string if it was no JSON.
    pub body: Value,
    /// How often this very body had come, this time included; 0 for what is not answered from the script.
    pub attempt: u64,
    /// Names of the faults that applied.
    pub faults: Vec<String>,
    /// Rules of the dialect that refused or changed something.
    pub rules: Vec<String>,
    /// Prompt and answer, as the answer of the model reports them; None if there was no such answer or it reports nothing.
    pub tokens: Option<u64>,
    /// None if no status was sent.
    pub status: Option<u16>,
    /// Of the body, handed to the connection.
    pub bytes: u64,
    /// Requests being answered when this one came, itself included.
    pub in_flight: usize,
    /// None while it is being answered.
    pub end: Option<End>,
    /// From arrival to end.
    pub took_ms: u64,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was sent as far as HTTP goes.
    Answered,
    /// The script cut it off.
    Severed,
    /// The client went away before it was whole, or the server was stopped.
    HungUp,
}

pub(crate) struct Log {
    start: Instant,
    inner: Mutex<Inner>,
    in_flight: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    entries: Vec<Entry>,
    most: usize,
    file: Option<Box<dyn Write + Send>>,
    keep_bodies: bool,
    failure: Option<io::Error>,
}

impl Log {
    pub(crate) fn new(file: Option<Box<dyn Write + Send>>, keep_bodies: bool) -> Arc<Self> {
        let inner = Inner { file, keep_bodies, ..Inner::default() };
        Arc::new(Self { start: Instant::now(), inner: Mutex::new(inner), in_flight: watch::Sender::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    pub(crate) fn arrived(&self) -> usize {
        self.lock().entries.len()
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.lock().most
    }

    /// Why lines are missing in the file, if they are.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failure.as_ref().map(ToString::to_string)
    }

    /// Waits until no request is being answered.
    pub(crate) async fn settled(&self) {
        // The sender lives in `self`, so the channel is open.
        let _ = self.in_flight.subscribe().wait_for(|&count| count == 0).await;
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn arrive(self: &Arc<Self>, method: &str, path: &str, headers: &HeaderMap) -> Ticket {
        let mut inner = self.lock();
        let index = inner.entries.len();
        let mut in_flight = 0;
        self.in_flight.send_modify(|count| {
            *count += 1;
            in_flight = *count;
        });
        inner.most = inner.most.max(in_flight);
        inner.entries.push(Entry {
            ordinal: index as u64 + 1,
            at_ms: self.now_ms(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: shown(headers),
            body: Value::Null,
            attempt: 0,
            faults: Vec::new(),
            rules: Vec::new(),
            tokens: None,
            status: None,
            bytes: 0,
            in_flight,
            end: None,
            took_ms: 0,
        });
        Ticket { log: Arc::clone(self), index, ended: false }
    }
}

/// Headers without keys; several of one name are joined.
fn shown(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = if SECRET.contains(&name.as_str()) {
            format!("blake3:{}", &blake3::hash(value.as_bytes()).to_hex()[..8])
        } else {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        shown.entry(name.as_str().to_owned()).and_modify(|all| *all = format!("{all}, {value}")).or_insert(value);
    }
    shown
}

/// A request being answered. Dropped before its end, it was hung up on.
pub(crate) struct Ticket {
    log: Arc<Log>,
    index: usize,
    ended: bool,
}

impl Ticket {
    pub(crate) fn note(&self, change: impl FnOnce(&mut Entry)) {
        change(&mut self.log.lock().entries[self.index]);
    }

    pub(crate) fn ruled(&self, rule: &str) {
        self.note(|entry| entry.rules.push(rule.to_owned()));
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.note(|entry| entry.bytes += bytes as u64);
    }

    /// Called before the last bytes leave, so that a client which has them all is no longer counted as in flight.
    pub(crate) fn end(&mut self, end: End) {
        if self.ended {
            return;
        }
        self.ended = true;
        let now = self.log.now_ms();
        let mut inner = self.log.lock();
        let inner = &mut *inner;
        let entry = &mut inner.entries[self.index];
        entry.end = Some(end);
        entry.took_ms = now.saturating_sub(entry.at_ms);
        if let Some(file) = &mut inner.file {
            let line = serde_json::to_string(entry).expect("an entry is plain data") + "\n";
            if let Err(error) = file.write_all(line.as_bytes()).and_then(|()| file.flush()) {
                inner.failure.get_or_insert(error);
            }
        }
        if !inner.keep_bodies {
            entry.body = Value::Null;
        }
        self.log.in_flight.send_modify(|count| *count -= 1);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(End::HungUp);
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    /// What was written, for all to read.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn requests_are_counted_and_written_when_they_end() {
        let file = Shared::default();
        let log = Log::new(Some(Box::new(file.clone())), true);
        let arrive = || log.arrive("POST", "/v1/chat/completions", &HeaderMap::new());
        let (mut a, b) = (arrive(), arrive());
        a.sent(5);
        a.end(End::Answered);
        a.end(End::Severed);
        drop(a);
        drop(b);
        drop(arrive());
        let entries = log.entries();
        let seen: Vec<_> =
            entries.iter().map(|entry| (entry.ordinal, entry.in_flight, entry.end, entry.bytes)).collect();
        let (answered, hung_up) = (Some(End::Answered), Some(End::HungUp));
        assert_eq!(seen, [(1, 1, answered, 5), (2, 2, hung_up, 0), (3, 1, hung_up, 0)]);
        assert_eq!((log.most_in_flight(), log.failure()), (2, None));
        let written = String::from_utf8(file.0.lock().unwrap().clone()).unwrap();
        let ordinals: Vec<_> =
            written.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["ordinal"].clone()).collect();
        assert_eq!(ordinals, [1, 2, 3]);
    }

    #[test]
    fn a_full_disk_is_reported() {
        let log = Log::new(Some(Box::new(Full)), true);
        drop(log.arrive("GET", "/", &HeaderMap::new()));
        assert!(log.failure().is_some());
        assert_eq!(log.entries().len(), 1);
    }

    #[test]
    fn bodies_that_are_not_kept_are_in_the_file() {
        let file = Shared::default();
        let log = Log::new(Some(Box::new(file.clone())), false);
        let ticket = log.arrive("POST", "/v1/chat/completions", &HeaderMap::new());
        ticket.note(|entry| entry.body = Value::from("asked"));
        assert_eq!(log.entries()[0].body, "asked");
        drop(ticket);
        assert_eq!((log.arrived(), &log.entries()[0].body), (1, &Value::Null));
        let written = String::from_utf8(file.0.lock().unwrap().clone()).unwrap();
        assert!(written.contains(r#""body":"asked""#), "{written}");
    }

    #[test]
    fn keys_are_hashed_and_the_rest_is_shown() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer sk-secret"));
        headers.insert("x-api-key", HeaderValue::from_static("sk-secret"));
        headers.append("accept", HeaderValue::from_static("a"));
        headers.append("accept", HeaderValue::from_static("b"));
        let shown = shown(&headers);
        assert!(!format!("{shown:?}").contains("sk-secret"));
        assert!(shown["authorization"].starts_with("blake3:") && shown["authorization"].len() == 15);
        assert_eq!(shown["accept"], "a, b");
    }
}
