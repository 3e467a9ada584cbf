//! An append-only log of checksummed JSON lines.
//!
//! Each line is `{"sum":"<16 hex digits>","rec":<record>}`; the sum is the head of the BLAKE3 digest of the record's bytes,
//! so a line is checked without knowing what it means, and `jq .rec` still reads it. The first record is a header with the
//! kind of log and the version of its format.
//!
//! One writer thread owns the file. It takes whatever has queued up, writes it in one go, makes it durable with one
//! `fdatasync` and only then wakes the callers: group commit. One caller at a time therefore pays one sync per record, and
//! sixty-four callers share them. A write that fails (disk full) is cut back to the last whole line and closes the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::ids::Digest;

/// The newest format this code writes and reads.
pub const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    log: String,
    version: u32,
}

#[derive(Deserialize)]
struct Line<'a> {
    sum: &'a str,
    #[serde(borrow)]
    rec: &'a RawValue,
}

/// A log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}:{line}: damaged: {what}; restore the file, or start a new run")]
    Damaged { path: PathBuf, line: usize, what: String },
    #[error(
        "{path}: the record at byte {at} is not what was written there: {what}; restore the file, or start a new run"
    )]
    Altered { path: PathBuf, at: u64, what: String },
    #[error("{path}: is a log of {found:?}, expected {expected:?}")]
    OtherKind { path: PathBuf, found: String, expected: String },
    #[error(
        "{path}: format version {found} is newer than {VERSION}, which this toolgauge reads; use a newer toolgauge"
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("{path}: closed after a failed write ({why}); free space or fix the folder, then resume")]
    Closed { path: PathBuf, why: String },
}

impl LogError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Where a record's line stands in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte at which the line begins.
    pub at: u64,
    pub bytes: u32,
}

/// What a log held when it was opened.
#[derive(Debug)]
pub struct Contents {
    pub records: Vec<Value>,
    /// Of each record.
    pub places: Vec<Place>,
    /// Bytes of a last line that a crash left unfinished. They were never acknowledged to anybody.
    pub torn_bytes: usize,
    /// There was a whole header.
    headed: bool,
}

fn encode(record: &[u8]) -> Vec<u8> {
    let sum = Digest::of(record);
    let mut line = Vec::with_capacity(record.len() + 40);
    line.extend_from_slice(b"{\"sum\":\"");
    line.extend_from_slice(&sum.as_str().as_bytes()[..16]);
    line.extend_from_slice(b"\",\"rec\":");
    line.extend_from_slice(record);
    line.extend_from_slice(b"}\n");
    line
}

fn decode(line: &[u8]) -> Result<Value, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let record = line.rec.get();
    if Digest::of(record.as_bytes()).as_str()[..16] != *line.sum {
        return Err("the checksum does not match".to_owned());
    }
    serde_json::from_str(record).map_err(|error| error.to_string())
}

/// Reads a whole log. Only the last line may be unfinished; damage before it is an error.
pub fn read(path: &Path, kind: &str) -> Result<Contents, LogError> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(LogError::io(path))?;
    let contents = parse(path, kind, &bytes)?;
    if contents.headed {
        return Ok(contents);
    }
    let what = format!("it does not begin as a log of {kind:?}");
    Err(LogError::Damaged { path: path.to_owned(), line: 1, what })
}

fn parse(path: &Path, kind: &str, bytes: &[u8]) -> Result<Contents, LogError> {
    let mut contents = Contents { records: Vec::new(), places: Vec::new(), torn_bytes: 0, headed: false };
    let mut at = 0;
    let lines: Vec<_> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    for (index, line) in lines.iter().enumerate() {
        if !line.ends_with(b"\n") {
            contents.torn_bytes = line.len();
            break;
        }
        let damaged = |what| LogError::Damaged { path: path.to_owned(), line: index + 1, what };
        let record = match decode(line) {
            Ok(record) => record,
            // A machine that lost power can leave a last line whose end reached the disk before its middle did.
            Err(_) if index + 1 == lines.len() => {
                contents.torn_bytes = line.len();
                break;
            }
            Err(what) => return Err(damaged(what)),
        };
        if index == 0 {
            let header: Header = serde_json::from_value(record).map_err(|error| damaged(error.to_string()))?;
            if header.log != kind {
                return Err(LogError::OtherKind {
                    path: path.to_owned(),
                    found: header.log,
                    expected: kind.to_owned(),
                });
            }
            if header.version > VERSION {
                return Err(LogError::Newer { path: path.to_owned(), found: header.version });
            }
            contents.headed = true;
        } else {
            contents.records.push(record);
            contents.places.push(Place { at, bytes: line.len() as u32 });
        }
        at += line.len() as u64;
    }
    Ok(contents)
}

/// Reads single records of a log again, which are too many to be kept.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: Mutex<File>,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let file = File::open(path).map_err(LogError::io(path))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// The record at a place that [`Log::append`] or [`Contents`] named.
    pub fn record<T: DeserializeOwned>(&self, place: Place) -> Result<T, LogError> {
        let mut line = vec![0; place.bytes as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let read = file.seek(SeekFrom::Start(place.at)).and_then(|_| file.read_exact(&mut line));
            read.map_err(LogError::io(&self.path))?;
        }
        let record = decode(&line).and_then(|record| serde_json::from_value(record).map_err(|error| error.to_string()));
        record.map_err(|what| LogError::Altered { path: self.path.clone(), at: place.at, what })
    }
}

struct Append {
    line: Vec<u8>,
    /// Told the byte at which the line begins.
    done: oneshot::Sender<Result<u64, String>>,
}

/// A log open for appending. Dropping it waits for what was queued.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    queue: Option<mpsc::Sender<Append>>,
    writer: Option<JoinHandle<()>>,
}

impl Log {
    /// Opens or creates the log, cutting off an unfinished last line. The caller makes sure that nobody else has it open.
    pub fn open(path: &Path, kind: &str) -> Result<(Self, Contents), LogError> {
        let io = LogError::io(path);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(&io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(&io)?;
        let contents = parse(path, kind, &bytes)?;
        let mut length = (bytes.len() - contents.torn_bytes) as u64;
        if contents.torn_bytes > 0 {
            file.set_len(length).map_err(&io)?;
        }
        file.seek(SeekFrom::Start(length)).map_err(&io)?;
        if length == 0 {
            let header = Header { log: kind.to_owned(), version: VERSION };
            let line = encode(&serde_json::to_vec(&header).expect("a header serialises"));
            file.write_all(&line).and_then(|()| file.sync_all()).map_err(&io)?;
            length = line.len() as u64;
        }
        let (queue, appends) = mpsc::channel();
        let writer = std::thread::Builder::new()
            .name(format!("log {kind}"))
            .spawn(move || write_loop(&mut file, length, &appends))
            .map_err(&io)?;
        Ok((Self { path: path.to_owned(), queue: Some(queue), writer: Some(writer) }, contents))
    }

    /// Appends records in their order and returns their places once all are durable.
    pub async fn append<T: Serialize>(&self, records: &[T]) -> Result<Vec<Place>, LogError> {
        let mut line = Vec::new();
        let mut ends = Vec::with_capacity(records.len());
        for record in records {
            line.extend(encode(&serde_json::to_vec(record).expect("plain data serialises")));
            ends.push(line.len() as u64);
        }
        let (done, durable) = oneshot::channel();
        let queued = self.queue.as_ref().is_some_and(|queue| queue.send(Append { line, done }).is_ok());
        let outcome = if queued { durable.await.ok() } else { None };
        match outcome {
            Some(Ok(begin)) => {
                let begins = std::iter::once(0).chain(ends.iter().copied());
                let places = begins.zip(&ends).map(|(from, to)| Place { at: begin + from, bytes: (to - from) as u32 });
                Ok(places.collect())
            }
            Some(Err(why)) => Err(LogError::Closed { path: self.path.clone(), why }),
            None => Err(LogError::Closed { path: self.path.clone(), why: "the writer has stopped".to_owned() }),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write_loop(file: &mut File, mut length: u64, appends: &mpsc::Receiver<Append>) {
    let mut failed: Option<String> = None;
    while let Ok(first) = appends.recv() {
        let batch: Vec<_> = std::iter::once(first).chain(appends.try_iter()).collect();
        let mut at = length;
        if failed.is_none() {
            let bytes = batch.iter().map(|append| append.line.as_slice()).collect::<Vec<_>>().concat();
            match file.write_all(&bytes).and_then(|()| file.sync_data()) {
                Ok(()) => length += bytes.len() as u64,
                Err(error) => {
                    // Half a line must not stand before whatever a later process appends.
                    let _ = file.set_len(length);
                    failed = Some(error.to_string());
                }
            }
        }
        for append in batch {
            let begin = at;
            at += append.line.len() as u64;
            let _ = append.done.send(failed.clone().map_or(Ok(begin), Err));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn append(path: &Path, records: &[Value]) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (log, _) = Log::open(path, "test").unwrap();
        runtime.block_on(log.append(records)).unwrap();
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, &[json!({"a": 1}), json!("é\n")]);
        append(&path, &[json!([2])]);
        let contents = read(&path, "test").unwrap();
        assert_eq!(contents.records, [json!({"a": 1}), json!("é\n"), json!([2])]);
        assert_eq!(contents.torn_bytes, 0);
    }

    #[test]
    fn other_kinds_and_newer_versions_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, &[]);
        assert!(matches!(read(&path, "other"), Err(LogError::OtherKind { .. })));
        let header = serde_json::to_vec(&json!({"log": "test", "version": VERSION + 1})).unwrap();
        std::fs::write(&path, encode(&header)).unwrap();
        assert!(matches!(Log::open(&path, "test"), Err(LogError::Newer { found: 2, .. })));
    }

    #[test]
    fn a_full_disk_closes_the_log_and_says_so() {
        // /dev/full takes no byte: every write fails with "no space left on device".
        let Ok(mut file) = OpenOptions::new().write(true).open("/dev/full") else { return };
        let (queue, appends) = mpsc::channel();
        let (done, mut outcome) = oneshot::channel();
        queue.send(Append { line: b"x\n".to_vec(), done }).unwrap();
        drop(queue);
        write_loop(&mut file, 0, &appends);
        let error = outcome.try_recv().unwrap().unwrap_err();
        assert!(error.to_lowercase().contains("space"), "{error}");
    }

    proptest! {
        /// Wherever a crash cuts the file, whole lines survive and the next append starts on a fresh line.
        #[test]
        fn a_cut_loses_only_the_unfinished_line(cut in 0.0f64..1.0, values in prop::collection::vec(".{0,40}", 1..6)) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            let records: Vec<_> = values.iter().map(|text| json!({"t": text})).collect();
            append(&path, &records);
            let bytes = std::fs::read(&path).unwrap();
            let keep = (bytes.len() as f64 * cut) as usize;
            std::fs::write(&path, &bytes[..keep]).unwrap();
            let whole_lines = bytes[..keep].split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")).count();
            append(&path, &[json!("after")]);
            let contents = read(&path, "test").unwrap();
            let survived = whole_lines.saturating_sub(1);
            prop_assert_eq!(&contents.records[..survived], &records[..survived]);
            prop_assert_eq!(contents.records.last(), Some(&json!("after")));
            prop_assert_eq!(contents.records.len(), survived + 1);
        }

        /// Any changed byte before the last line is noticed.
        #[test]
        fn damage_is_noticed(at in 0.0f64..1.0, flip in 1u8..=255) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            append(&path, &[json!({"t": "some text"}), json!({"t": "more"}), json!("last")]);
            let mut bytes = std::fs::read(&path).unwrap();
            let last_line = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap();
            let index = (last_line as f64 * at) as usize;
            bytes[index] ^= flip;
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(read(&path, "test").is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(Path::new("x"), "test", &bytes);
        }
    }
}
