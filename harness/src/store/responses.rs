//! The response store: what was asked and what came back, keyed on the full request.
//!
//! Order of events for one key: `intent` is durable before a request is sent, `response` before any later step depends on
//! it. After a crash an intent without a response is *possibly billed*. A cassette is a slice of a store in the same format.
//!
//! Long parts of a request (tool definitions, long messages) are stored once as `blob` records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::log::{self, Log, LogError};
use super::nearest::{Nearest, differences, distance};
use crate::endpoint::EndpointError;
use crate::gateway::Lesson;
use crate::ids::Digest;

const KIND: &str = "toolgauge-responses";
/// Parts longer than this many bytes of JSON are stored once. Below it a digest would save little.
const BLOB_MIN_BYTES: usize = 1_000;

/// Everything that decides an answer. Two requests are the same only if all of it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// `chat/completions` or `embeddings`.
    pub route: String,
    /// The configured identity of the endpoint, never its address.
    pub endpoint: String,
    /// Repeats are never served from one stored answer.
    pub repeat: u32,
    /// The body: model, messages, tools in their order, sampling.
    pub body: Value,
}

impl Request {
    pub fn key(&self) -> Digest {
        Digest::of_json(self)
    }
}

/// One failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedAttempt {
    pub kind: String,
    pub status: Option<u16>,
    pub message: String,
    pub elapsed_ms: f64,
    /// How long was waited before the next attempt.
    pub wait_ms: f64,
}

/// A stored answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    pub body: Value,
    /// Of the attempt that succeeded.
    pub latency_ms: f64,
    /// Attempts that failed before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedAttempt>,
    /// Taken over from a recording: nothing was spent for it here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// How what was sent differed from the request, for want of parameters that the endpoint takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lessons: Vec<Lesson>,
}

/// A refusal that asking again would only repeat: the prompt does not fit, a schema is not accepted, the model's own call was
/// rejected. Part of the run's answers, unlike a failure of the infrastructure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    pub error: EndpointError,
    pub attempts: u32,
}

/// What the store holds for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    Response(Response),
    Refusal(Refusal),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Record {
    Blob {
        digest: Digest,
        value: Value,
    },
    Intent {
        key: Digest,
        at: String,
        request: Request,
    },
    /// Given up: nothing came back that could be used.
    Failure {
        key: Digest,
        at: String,
        attempts: Vec<FailedAttempt>,
    },
    Refusal {
        key: Digest,
        at: String,
        refusal: Refusal,
    },
    Response {
        key: Digest,
        at: String,
        response: Response,
    },
}

#[derive(Debug, Default)]
struct Index {
    blobs: BTreeMap<Digest, Value>,
    requests: BTreeMap<Digest, Request>,
    responses: BTreeMap<Digest, Response>,
    refusals: BTreeMap<Digest, Refusal>,
    /// Intents without an end. An end closes one: those of processes that died stay when another asks again.
    open: BTreeMap<Digest, usize>,
    failed_attempts: usize,
}

impl Index {
    fn apply(&mut self, record: Record) {
        match record {
            Record::Blob { digest, value } => {
                self.blobs.insert(digest, value);
            }
            Record::Intent { key, request, .. } => {
                *self.open.entry(key.clone()).or_default() += 1;
                self.requests.insert(key, request);
            }
            Record::Failure { key, attempts, .. } => {
                self.close(&key);
                self.failed_attempts += attempts.len();
            }
            Record::Refusal { key, refusal, .. } => {
                self.close(&key);
                self.failed_attempts += refusal.attempts as usize;
                self.refusals.entry(key).or_insert(refusal);
            }
            Record::Response { key, response, .. } => {
                self.close(&key);
                self.failed_attempts += response.failed.len();
                // The first answer stands: later steps may already depend on it.
                self.responses.entry(key).or_insert(response);
            }
        }
    }

    /// One intent has come to an end.
    fn close(&mut self, key: &Digest) {
        if let Some(count) = self.open.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(key);
            }
        }
    }

    fn load(path: &Path, records: Vec<Value>) -> Result<Self, LogError> {
        let mut index = Self::default();
        for (line, record) in records.into_iter().enumerate() {
            let record = serde_json::from_value(record).map_err(|error| LogError::Damaged {
                path: path.to_owned(),
                line: line + 2,
                what: error.to_string(),
            })?;
            index.apply(record);
        }
        Ok(index)
    }
}

/// A response store: open for appending in a run, or read-only as a cassette.
#[derive(Debug)]
pub struct ResponseStore {
    log: Option<Log>,
    index: Mutex<Index>,
}

impl ResponseStore {
    /// Opens or creates a store for appending.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let (log, contents) = Log::open(path, KIND)?;
        let index = Mutex::new(Index::load(path, contents.records)?);
        Ok(Self { log: Some(log), index })
    }

    /// Opens a store or cassette for reading.
    pub fn read(path: &Path) -> Result<Self, LogError> {
        let contents = log::read(path, KIND)?;
        let index = Mutex::new(Index::load(path, contents.records)?);
        Ok(Self { log: None, index })
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: &Digest) -> Option<Response> {
        self.index().responses.get(key).cloned()
    }

    /// The answer or the refusal.
    pub fn stored(&self, key: &Digest) -> Option<Stored> {
        let index = self.index();
        let response = index.responses.get(key).cloned().map(Stored::Response);
        response.or_else(|| index.refusals.get(key).cloned().map(Stored::Refusal))
    }

    /// The full request of a key, blobs put back.
    pub fn request(&self, key: &Digest) -> Option<Request> {
        let index = self.index();
        let mut request = index.requests.get(key)?.clone();
        restore(&mut request.body, &index.blobs);
        Some(request)
    }

    /// The recorded request that differs from `asked` in the fewest places. Looks at all of them, so it is for errors only.
    pub fn nearest(&self, asked: &Request) -> Option<Nearest> {
        let slim = json!(slim(asked).0);
        let key = {
            let index = self.index();
            let known = index.requests.iter().filter(|(key, _)| index.responses.contains_key(*key));
            let mut best: Option<(usize, &Digest)> = None;
            for (key, request) in known.filter(|(_, request)| request.route == asked.route) {
                let distance = distance(&json!(request), &slim, best.map_or(usize::MAX, |(distance, _)| distance));
                if best.is_none_or(|(least, _)| distance < least) {
                    best = Some((distance, key));
                }
            }
            best?.1.clone()
        };
        let recorded = json!(self.request(&key)?);
        Some(Nearest { differences: differences(&recorded, &json!(asked)), key })
    }

    /// Makes the intent durable. Call before sending.
    pub async fn intend(&self, key: &Digest, request: &Request, at: String) -> Result<(), LogError> {
        self.append(self.intent(key, request, at)).await
    }

    /// An intent and the parts of its request that are not stored yet.
    fn intent(&self, key: &Digest, request: &Request, at: String) -> Vec<Record> {
        let (slim, blobs) = slim(request);
        let mut records: Vec<Record> = {
            let index = self.index();
            let new = blobs.into_iter().filter(|(digest, _)| !index.blobs.contains_key(digest));
            new.map(|(digest, value)| Record::Blob { digest, value: value.clone() }).collect()
        };
        records.push(Record::Intent { key: key.clone(), at, request: slim });
        records
    }

    /// Makes an answer durable. Call before using it.
    pub async fn answer(&self, key: &Digest, response: Response, at: String) -> Result<(), LogError> {
        self.append(vec![Record::Response { key: key.clone(), at, response }]).await
    }

    /// Makes a refusal durable.
    pub async fn refuse(&self, key: &Digest, refusal: Refusal, at: String) -> Result<(), LogError> {
        self.append(vec![Record::Refusal { key: key.clone(), at, refusal }]).await
    }

    /// Takes over an answer from a recording. Nothing is sent, so that no crash may leave the intent alone.
    pub async fn adopt(&self, key: &Digest, request: &Request, stored: Stored, at: String) -> Result<(), LogError> {
        let mut records = self.intent(key, request, at.clone());
        let key = key.clone();
        records.push(match stored {
            Stored::Response(response) => {
                Record::Response { key, at, response: Response { replayed: true, ..response } }
            }
            Stored::Refusal(refusal) => Record::Refusal { key, at, refusal },
        });
        self.append(records).await
    }

    /// Records that a request was given up.
    pub async fn give_up(&self, key: &Digest, attempts: Vec<FailedAttempt>, at: String) -> Result<(), LogError> {
        self.append(vec![Record::Failure { key: key.clone(), at, attempts }]).await
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), LogError> {
        let log = self.log.as_ref().expect("only a store opened for appending is written to");
        log.append(&records).await?;
        let mut index = self.index();
        for record in records {
            index.apply(record);
        }
        Ok(())
    }

    /// Copies the given keys, with their requests and blobs, into a new file of the same format: a cassette.
    pub async fn export(&self, keys: &BTreeSet<Digest>, path: &Path) -> Result<usize, LogError> {
        let (log, _) = Log::open(path, KIND)?;
        let mut records = Vec::new();
        let mut count = 0;
        {
            let index = self.index();
            let mut blobs = BTreeSet::new();
            for key in keys {
                let Some(request) = index.requests.get(key) else { continue };
                let (key, at) = (key.clone(), String::new());
                let answer = match (index.responses.get(&key), index.refusals.get(&key)) {
                    (Some(response), _) => {
                        Record::Response { key: key.clone(), at: at.clone(), response: response.clone() }
                    }
                    (None, Some(refusal)) => {
                        Record::Refusal { key: key.clone(), at: at.clone(), refusal: refusal.clone() }
                    }
                    (None, None) => continue,
                };
                for (digest, _) in references(&mut request.body.clone()) {
                    if let Some(value) = index.blobs.get(&digest)
                        && blobs.insert(digest.clone())
                    {
                        records.push(Record::Blob { digest, value: value.clone() });
                    }
                }
                records.push(Record::Intent { key, at, request: request.clone() });
                records.push(answer);
                count += 1;
            }
        }
        log.append(&records).await?;
        Ok(count)
    }

    /// Requests that were in flight when a process died: possibly billed, answer unknown. Each time counts, and asking again
    /// with success takes nothing back.
    pub fn possibly_billed(&self) -> usize {
        self.index().open.values().sum()
    }

    pub fn failed_attempts(&self) -> usize {
        self.index().failed_attempts
    }

    pub fn len(&self) -> usize {
        self.index().responses.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lists of tools that were refused in such a way, each once and with the words of one refusal.
    pub fn refused_tools(&self, such: impl Fn(&EndpointError) -> bool) -> Vec<(Value, EndpointError)> {
        let index = self.index();
        let mut seen = BTreeSet::new();
        let mut lists = Vec::new();
        for (key, refusal) in index.refusals.iter().filter(|(_, refusal)| such(&refusal.error)) {
            let Some(tools) = index.requests.get(key).and_then(|request| request.body.get("tools")) else { continue };
            // A long list is a blob by now, so that its digest is as good as the list.
            if seen.insert(Digest::of_json(tools)) {
                let mut body = json!({"tools": tools});
                restore(&mut body, &index.blobs);
                lists.push((body["tools"].take(), refusal.error.clone()));
            }
        }
        lists
    }

    /// Requests with such a body, of which long parts are not put back.
    pub fn count_requests(&self, such: impl Fn(&Value) -> bool) -> usize {
        self.index().requests.values().filter(|request| such(&request.body)).count()
    }

    /// All stored answers, by key.
    pub fn responses(&self) -> Vec<(Digest, Response)> {
        self.index().responses.iter().map(|(key, response)| (key.clone(), response.clone())).collect()
    }
}

/// The parts of a body that may become blobs: the list of tools, each message, and what else may be long.
enum Part {
    Whole,
    EachItem,
    Never,
}

fn part_of(field: &str) -> Part {
    match field {
        "messages" => Part::EachItem,
        "tools" | "input" | "response_format" => Part::Whole,
        _ => Part::Never,
    }
}

/// The request with references in place of its long parts, and those parts.
fn slim(request: &Request) -> (Request, BTreeMap<Digest, &Value>) {
    let mut blobs = BTreeMap::new();
    let body = match &request.body {
        Value::Object(fields) => {
            let slimmed = fields.iter().map(|(name, value)| {
                let value = match (part_of(name), value) {
                    (Part::EachItem, Value::Array(items)) => {
                        items.iter().map(|item| slim_part(item, &mut blobs)).collect()
                    }
                    (Part::Whole, value) => slim_part(value, &mut blobs),
                    _ => value.clone(),
                };
                (name.clone(), value)
            });
            Value::Object(slimmed.collect())
        }
        other => other.clone(),
    };
    let Request { route, endpoint, repeat, .. } = request;
    (Request { route: route.clone(), endpoint: endpoint.clone(), repeat: *repeat, body }, blobs)
}

fn slim_part<'r>(part: &'r Value, blobs: &mut BTreeMap<Digest, &'r Value>) -> Value {
    let bytes = serde_json::to_vec(part).expect("plain data serialises");
    if bytes.len() <= BLOB_MIN_BYTES {
        return part.clone();
    }
    let digest = Digest::of(&bytes);
    let reference = json!({"$blob": digest});
    blobs.insert(digest, part);
    reference
}

/// The references in a slim body.
fn references(body: &mut Value) -> impl Iterator<Item = (Digest, &mut Value)> {
    let fields = body.as_object_mut().into_iter().flatten();
    let parts = fields.flat_map(|(name, value)| match (part_of(name), value) {
        (Part::EachItem, Value::Array(items)) => items.iter_mut().collect(),
        (Part::Whole, value) => vec![value],
        _ => Vec::new(),
    });
    parts.filter_map(|part| {
        let fields = part.as_object().filter(|fields| fields.len() == 1)?;
        Some((Digest::new(fields.get("$blob")?.as_str()?), part))
    })
}

fn restore(body: &mut Value, blobs: &BTreeMap<Digest, Value>) {
    for (digest, part) in references(body) {
        if let Some(value) = blobs.get(&digest) {
            *part = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str, repeat: u32) -> Request {
        let tools: Vec<_> = (0..40).map(|n| json!({"function": {"name": format!("tool_{n}")}})).collect();
        Request {
            route: "chat/completions".to_owned(),
            endpoint: "e".to_owned(),
            repeat,
            body: json!({"model": "m", "messages": [{"role": "user", "content": text}], "tools": tools}),
        }
    }

    fn response(text: &str) -> Response {
        Response { body: json!({"t": text}), latency_ms: 1.5, failed: Vec::new(), replayed: false, lessons: Vec::new() }
    }

    #[tokio::test]
    async fn answers_survive_and_open_intents_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("responses.jsonl");
        let (asked, lost) = (request("a", 0), request("b", 0));
        {
            let store = ResponseStore::open(&path).unwrap();
            store.intend(&asked.key(), &asked, String::new()).await.unwrap();
            store.answer(&asked.key(), response("yes"), String::new()).await.unwrap();
            store.intend(&lost.key(), &lost, String::new()).await.unwrap();
        }
        let store = ResponseStore::open(&path).unwrap();
        assert_eq!(store.get(&asked.key()), Some(response("yes")));
        assert_eq!(store.get(&lost.key()), None);
        assert_eq!(store.possibly_billed(), 1);
        assert_eq!(store.request(&asked.key()), Some(asked), "blobs are put back");
        let bytes = std::fs::read_to_string(&path).unwrap();
        assert_eq!(bytes.matches("tool_39").count(), 1, "definitions are stored once");
    }

    #[tokio::test]
    async fn what_was_lost_stays_possibly_billed_when_it_is_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("responses.jsonl");
        let (asked, adopted) = (request("a", 0), request("b", 0));
        for _ in 0..3 {
            // Each time the process dies before the answer.
            let store = ResponseStore::open(&path).unwrap();
            store.intend(&asked.key(), &asked, String::new()).await.unwrap();
        }
        let store = ResponseStore::open(&path).unwrap();
        assert_eq!(store.possibly_billed(), 3);
        store.intend(&asked.key(), &asked, String::new()).await.unwrap();
        store.answer(&asked.key(), response("yes"), String::new()).await.unwrap();
        store.adopt(&adopted.key(), &adopted, Stored::Response(response("old")), String::new()).await.unwrap();
        assert_eq!(store.possibly_billed(), 3);
        drop(store);
        let store = ResponseStore::read(&path).unwrap();
        assert_eq!((store.possibly_billed(), store.len()), (3, 2));
        assert!(store.get(&adopted.key()).unwrap().replayed);
    }

    #[test]
    fn the_key_covers_order_repeat_and_endpoint() {
        let base = request("a", 0);
        let mut swapped = base.clone();
        swapped.body["tools"].as_array_mut().unwrap().swap(0, 1);
        let mut elsewhere = base.clone();
        elsewhere.endpoint = "f".to_owned();
        let keys: BTreeSet<_> = [&base, &swapped, &elsewhere, &request("a", 1)].map(Request::key).into();
        assert_eq!(keys.len(), 4);
    }

    #[tokio::test]
    async fn a_cassette_is_a_slice_in_the_same_format() {
        let dir = tempfile::tempdir().unwrap();
        let store = ResponseStore::open(&dir.path().join("responses.jsonl")).unwrap();
        for text in ["a", "b", "c"] {
            let request = request(text, 0);
            store.intend(&request.key(), &request, "now".to_owned()).await.unwrap();
            store.answer(&request.key(), response(text), "now".to_owned()).await.unwrap();
        }
        let path = dir.path().join("cassette.jsonl");
        let keys = BTreeSet::from([request("a", 0).key(), request("c", 0).key()]);
        assert_eq!(store.export(&keys, &path).await.unwrap(), 2);
        let cassette = ResponseStore::read(&path).unwrap();
        assert_eq!(cassette.len(), 2);
        assert_eq!(cassette.request(&request("c", 0).key()), Some(request("c", 0)));
        assert_eq!(cassette.get(&request("b", 0).key()), None);
    }
}
