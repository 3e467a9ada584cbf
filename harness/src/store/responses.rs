//! The response store: what was asked and what came back, keyed on the full request.
//!
//! Order of events for one key: `intent` is durable before a request is sent, `response` before any later step depends on
//! it. After a crash an intent without a response is *possibly billed*. A cassette is a slice of a store in the same format.
//!
//! Long parts of a request (tool definitions, long messages) are stored once as `blob` records, see `slim.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::log::{self, Contents, Log, LogError, Place, Reader};
use super::nearest::{Nearest, differences, distance};
use super::slim;
use crate::endpoint::EndpointError;
use crate::gateway::Lesson;
use crate::ids::Digest;
use crate::usage::Usage;

const KIND: &str = "toolgauge-responses";

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
    /// Tokens of an answer that could not be used, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
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

// What is read of a record again.

#[derive(Deserialize)]
struct Answered {
    response: Response,
}

#[derive(Deserialize)]
struct Refused {
    refusal: Refusal,
}

#[derive(Deserialize)]
struct Intended {
    request: Request,
}

#[derive(Deserialize)]
struct Blob {
    value: Value,
}

/// Where everything is. Bodies stay in the file: a run of a night would not fit into memory.
#[derive(Debug, Default)]
struct Index {
    blobs: BTreeMap<Digest, Place>,
    requests: BTreeMap<Digest, Place>,
    responses: BTreeMap<Digest, Place>,
    refusals: BTreeMap<Digest, Place>,
    /// Intents without an end. An end closes one: those of processes that died stay when another asks again.
    open: BTreeMap<Digest, usize>,
    failed_attempts: usize,
    /// What failed attempts say that they used.
    wasted: BTreeMap<Digest, Usage>,
}

impl Index {
    fn apply(&mut self, record: &Record, place: Place) {
        match record {
            Record::Blob { digest, .. } => {
                self.blobs.insert(digest.clone(), place);
            }
            Record::Intent { key, .. } => {
                *self.open.entry(key.clone()).or_default() += 1;
                self.requests.insert(key.clone(), place);
            }
            Record::Failure { key, attempts, .. } => {
                self.close(key);
                self.failed_attempts += attempts.len();
                self.waste(key, attempts);
            }
            Record::Refusal { key, refusal, .. } => {
                self.close(key);
                self.failed_attempts += refusal.attempts as usize;
                self.refusals.entry(key.clone()).or_insert(place);
            }
            Record::Response { key, response, .. } => {
                self.close(key);
                self.failed_attempts += response.failed.len();
                // What failed before an answer that was taken over was paid for elsewhere.
                if !response.replayed {
                    self.waste(key, &response.failed);
                }
                // The first answer stands: later steps may already depend on it.
                self.responses.entry(key.clone()).or_insert(place);
            }
        }
    }

    fn waste(&mut self, key: &Digest, attempts: &[FailedAttempt]) {
        for usage in attempts.iter().filter_map(|attempt| attempt.usage) {
            let wasted = self.wasted.entry(key.clone()).or_default();
            wasted.input_tokens += usage.input_tokens;
            wasted.output_tokens += usage.output_tokens;
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

    fn load(path: &Path, contents: Contents) -> Result<Self, LogError> {
        let mut index = Self::default();
        for (line, (record, place)) in contents.records.into_iter().zip(contents.places).enumerate() {
            let record = serde_json::from_value(record).map_err(|error| LogError::Damaged {
                path: path.to_owned(),
                line: line + 2,
                what: error.to_string(),
            })?;
            index.apply(&record, place);
        }
        Ok(index)
    }
}

/// A response store: open for appending in a run, or read-only as a cassette.
#[derive(Debug)]
pub struct ResponseStore {
    log: Option<Log>,
    reader: Reader,
    index: Mutex<Index>,
}

impl ResponseStore {
    /// Opens or creates a store for appending.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let (log, contents) = Log::open(path, KIND)?;
        let index = Mutex::new(Index::load(path, contents)?);
        Ok(Self { log: Some(log), reader: Reader::open(path)?, index })
    }

    /// Opens a store or cassette for reading.
    pub fn read(path: &Path) -> Result<Self, LogError> {
        let index = Mutex::new(Index::load(path, log::read(path, KIND)?)?);
        Ok(Self { log: None, reader: Reader::open(path)?, index })
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer of the store, whole.
    fn response(&self, place: Place) -> Result<Response, LogError> {
        let Answered { response } = self.reader.record(place)?;
        Ok(response)
    }

    pub fn get(&self, key: &Digest) -> Result<Option<Response>, LogError> {
        let place = self.index().responses.get(key).copied();
        place.map(|place| self.response(place)).transpose()
    }

    /// The answer or the refusal.
    pub fn stored(&self, key: &Digest) -> Result<Option<Stored>, LogError> {
        let (response, refusal) = {
            let index = self.index();
            (index.responses.get(key).copied(), index.refusals.get(key).copied())
        };
        Ok(match (response, refusal) {
            (Some(place), _) => Some(Stored::Response(self.response(place)?)),
            (None, Some(place)) => {
                let Refused { refusal } = self.reader.record(place)?;
                Some(Stored::Refusal(refusal))
            }
            (None, None) => None,
        })
    }

    /// The request at a place, long parts not put back.
    fn slim_request(&self, place: Place) -> Result<Request, LogError> {
        let Intended { request } = self.reader.record(place)?;
        Ok(request)
    }

    fn restore(&self, body: &mut Value) -> Result<(), LogError> {
        slim::restore(body, |digest| {
            let place = self.index().blobs.get(digest).copied();
            let blob = place.map(|place| self.reader.record::<Blob>(place)).transpose()?;
            Ok(blob.map(|blob| blob.value))
        })
    }

    /// The full request of a key, blobs put back.
    pub fn request(&self, key: &Digest) -> Result<Option<Request>, LogError> {
        let Some(place) = self.index().requests.get(key).copied() else { return Ok(None) };
        let mut request = self.slim_request(place)?;
        self.restore(&mut request.body)?;
        Ok(Some(request))
    }

    /// The recorded request that differs from `asked` in the fewest places. Reads all of them, so it is for errors only.
    pub fn nearest(&self, asked: &Request) -> Result<Option<Nearest>, LogError> {
        let slim = json!(slim::slim(asked).0);
        let answered: Vec<(Digest, Place)> = {
            let index = self.index();
            let known = index.requests.iter().filter(|(key, _)| index.responses.contains_key(*key));
            known.map(|(key, place)| (key.clone(), *place)).collect()
        };
        let mut best: Option<(usize, Digest)> = None;
        for (key, place) in answered {
            let request = self.slim_request(place)?;
            let least = best.as_ref().map_or(usize::MAX, |(least, _)| *least);
            let distance = if request.route == asked.route { distance(&json!(request), &slim, least) } else { least };
            if distance < least {
                best = Some((distance, key));
            }
        }
        let Some((_, key)) = best else { return Ok(None) };
        let recorded = json!(self.request(&key)?);
        Ok(Some(Nearest { differences: differences(&recorded, &json!(asked)), key }))
    }

    /// Makes the intent durable. Call before sending.
    pub async fn intend(&self, key: &Digest, request: &Request, at: String) -> Result<(), LogError> {
        self.append(&self.intent(key, request, at)).await
    }

    /// An intent and the parts of its request that are not stored yet.
    fn intent(&self, key: &Digest, request: &Request, at: String) -> Vec<Record> {
        let (slim, blobs) = slim::slim(request);
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
        self.append(&[Record::Response { key: key.clone(), at, response }]).await
    }

    /// Makes a refusal durable.
    pub async fn refuse(&self, key: &Digest, refusal: Refusal, at: String) -> Result<(), LogError> {
        self.append(&[Record::Refusal { key: key.clone(), at, refusal }]).await
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
        self.append(&records).await
    }

    /// Records that a request was given up.
    pub async fn give_up(&self, key: &Digest, attempts: Vec<FailedAttempt>, at: String) -> Result<(), LogError> {
        self.append(&[Record::Failure { key: key.clone(), at, attempts }]).await
    }

    async fn append(&self, records: &[Record]) -> Result<(), LogError> {
        let log = self.log.as_ref().expect("only a store opened for appending is written to");
        let places = log.append(records).await?;
        let mut index = self.index();
        for (record, place) in records.iter().zip(places) {
            index.apply(record, place);
        }
        Ok(())
    }

    /// Copies the given keys, with their requests and blobs, into a new file of the same format: a cassette.
    pub async fn export(&self, keys: &BTreeSet<Digest>, path: &Path) -> Result<usize, LogError> {
        let (log, _) = Log::open(path, KIND)?;
        let mut records = Vec::new();
        let mut blobs = BTreeSet::new();
        let mut count = 0;
        for key in keys {
            let Some(place) = self.index().requests.get(key).copied() else { continue };
            let Some(stored) = self.stored(key)? else { continue };
            let request = self.slim_request(place)?;
            for (digest, _) in slim::references(&mut request.body.clone()) {
                let place = self.index().blobs.get(&digest).copied();
                if let Some(place) = place
                    && blobs.insert(digest.clone())
                {
                    let Blob { value } = self.reader.record(place)?;
                    records.push(Record::Blob { digest, value });
                }
            }
            let (key, at) = (key.clone(), String::new());
            records.push(Record::Intent { key: key.clone(), at: at.clone(), request });
            records.push(match stored {
                Stored::Response(response) => Record::Response { key, at, response },
                Stored::Refusal(refusal) => Record::Refusal { key, at, refusal },
            });
            count += 1;
        }
        log.append(&records).await?;
        Ok(count)
    }

    /// Requests that were in flight when a process died: possibly billed, answer unknown. Each time counts, and asking again
    /// with success takes nothing back.
    pub fn possibly_billed(&self) -> usize {
        self.index().open.values().sum()
    }

    /// Tokens of answers that came and could not be used, by request, as far as those answers told.
    pub fn wasted(&self) -> BTreeMap<Digest, Usage> {
        self.index().wasted.clone()
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
    pub fn refused_tools(
        &self,
        such: impl Fn(&EndpointError) -> bool,
    ) -> Result<Vec<(Value, EndpointError)>, LogError> {
        let refused: Vec<(Place, Option<Place>)> = {
            let index = self.index();
            index.refusals.iter().map(|(key, place)| (*place, index.requests.get(key).copied())).collect()
        };
        let mut seen = BTreeSet::new();
        let mut lists = Vec::new();
        for (place, request) in refused {
            let Refused { refusal } = self.reader.record(place)?;
            let Some(request) = request.filter(|_| such(&refusal.error)) else { continue };
            let Some(tools) = self.slim_request(request)?.body.get("tools").cloned() else { continue };
            // A long list is a blob by now, so that its digest is as good as the list.
            if seen.insert(Digest::of_json(&tools)) {
                let mut body = json!({"tools": tools});
                self.restore(&mut body)?;
                lists.push((body["tools"].take(), refusal.error));
            }
        }
        Ok(lists)
    }

    /// Requests with such a body, of which long parts are not put back.
    pub fn count_requests(&self, such: impl Fn(&Value) -> bool) -> Result<usize, LogError> {
        let places: Vec<Place> = self.index().requests.values().copied().collect();
        places.into_iter().try_fold(0, |count, place| Ok(count + usize::from(such(&self.slim_request(place)?.body))))
    }

    /// All stored answers, by key, read one by one.
    pub fn responses(&self) -> impl Iterator<Item = Result<(Digest, Response), LogError>> + '_ {
        let places: Vec<_> = self.index().responses.iter().map(|(key, place)| (key.clone(), *place)).collect();
        places.into_iter().map(|(key, place)| Ok((key, self.response(place)?)))
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
        assert_eq!(store.get(&asked.key()).unwrap(), Some(response("yes")));
        assert_eq!(store.get(&lost.key()).unwrap(), None);
        assert_eq!(store.possibly_billed(), 1);
        assert_eq!(store.request(&asked.key()).unwrap(), Some(asked), "blobs are put back");
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
        assert!(store.get(&adopted.key()).unwrap().unwrap().replayed);
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
        assert_eq!(cassette.request(&request("c", 0).key()).unwrap(), Some(request("c", 0)));
        assert_eq!(cassette.get(&request("b", 0).key()).unwrap(), None);
    }
}
