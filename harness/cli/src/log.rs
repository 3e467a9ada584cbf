//! `log.jsonl` of a run folder: what happened, for the person who looks at the run the next morning.
//!
//! One JSON object a line, like every other file of a run: it is searched with the same tools, and what a killed process leaves
//! is a half line at most. A layer of our own writes it, because all text goes through one place that knows the key and makes
//! foreign words harmless, and because a formatter for people would have to be built with it.

use std::borrow::Cow;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use harness::endpoint::Secret;
use harness::text::plain;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::print::say;

/// Name of the log in a run folder.
pub const LOG: &str = "log.jsonl";
/// Characters of a text that are told, except at `trace`, where every word is wanted: whoever writes it must not decide how long.
const LONGEST: usize = 2_000;

/// Writes events, each with the spans that it lies in.
pub struct Log {
    path: PathBuf,
    out: Mutex<Out>,
    words: Words,
}

struct Out {
    file: File,
    /// A full disk is said once and stops no run.
    failed: bool,
}

/// Makes text fit to be shown.
#[derive(Clone, Debug, Default)]
pub struct Words(Option<Secret>);

impl Words {
    /// A placeholder is no key: answers keep it, and so does what is told of them.
    pub fn new(key: Option<Secret>) -> Self {
        Self(key.filter(|key| !key.is_placeholder()))
    }

    /// One harmless line without the key.
    pub fn clean(&self, text: &str) -> String {
        let text = self.0.as_ref().map_or(Cow::Borrowed(text), |key| Cow::Owned(key.redact(text)));
        plain(&text)
    }

    /// The same, cut off behind so many characters that they say what there is to say. What was a key is no key any more by then.
    pub fn short(&self, text: &str) -> String {
        let mut text = self.clean(text);
        let cut = text.char_indices().nth(LONGEST).map(|(at, _)| at);
        if let Some(at) = cut {
            text.truncate(at);
            text.push('…');
        }
        text
    }
}

/// Fields of a span, as they are written.
struct Fields(Map<String, Value>);

impl Log {
    /// Opens the log to write on at its end.
    pub fn open(folder: &Path, words: Words) -> io::Result<Self> {
        let path = folder.join(LOG);
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        if file.metadata()?.len() > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Self { path, out: Mutex::new(Out { file, failed: false }), words })
    }

    fn write(&self, line: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // In one go, so that lines stay whole.
        if let Err(error) = out.file.write_all(line.as_bytes())
            && !std::mem::replace(&mut out.failed, true)
        {
            say!("{}: {error}; the run goes on without it", self.path.display());
        }
    }

    fn visitor<'v>(&'v self, into: &'v mut Map<String, Value>, level: Level) -> Visitor<'v> {
        Visitor { words: &self.words, into, whole: level == Level::TRACE }
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut fields = Map::new();
        attributes.record(&mut self.visitor(&mut fields, *attributes.metadata().level()));
        span.extensions_mut().insert(Fields(fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        if let Some(Fields(fields)) = span.extensions_mut().get_mut::<Fields>() {
            values.record(&mut self.visitor(fields, *span.metadata().level()));
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut line = Map::new();
        line.insert("time".to_owned(), format!("{:.3}", Timestamp::now()).into());
        line.insert("level".to_owned(), event.metadata().level().as_str().to_lowercase().into());
        // Its place is before the fields, whatever their order.
        line.insert("message".to_owned(), Value::Null);
        event.record(&mut self.visitor(&mut line, *event.metadata().level()));
        for span in cx.event_scope(event).into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            // The run is the whole file, and its first line says what there is to say of it.
            let fields = extensions.get::<Fields>().filter(|_| span.name() != "run");
            if let Some(Fields(fields)) = fields {
                line.insert(span.name().to_owned(), Value::Object(fields.clone()));
            }
        }
        self.write(&format!("{}\n", Value::Object(line)));
    }
}

/// Names with a dot are those of OpenTelemetry, and what they say is said in our own words too.
fn wanted(field: &Field) -> bool {
    !field.name().contains('.')
}

struct Visitor<'v> {
    words: &'v Words,
    into: &'v mut Map<String, Value>,
    /// Texts are not cut.
    whole: bool,
}

impl Visitor<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        if wanted(field) {
            self.into.insert(field.name().to_owned(), value.into());
        }
    }
}

impl Visit for Visitor<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, (value * 1e3).round() / 1e3);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if wanted(field) {
            let words = if self.whole { self.words.clean(value) } else { self.words.short(value) };
            self.put(field, words);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if wanted(field) {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tracing::{debug, info, info_span, trace, warn};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::registry::Registry;

    use super::*;
    use crate::observe::{LogLevel, Ours};

    const KEY: &str = "sk-do-not-show-1234";

    /// What is written of the events within, without the times.
    fn written(folder: &Path, level: LogLevel, events: impl FnOnce()) -> Vec<Value> {
        let log = Log::open(folder, Words::new(Some(Secret::new(KEY)))).unwrap();
        let subscriber = Registry::default().with(log.with_filter(Ours::up_to(level)));
        tracing::subscriber::with_default(subscriber, events);
        let text = std::fs::read_to_string(folder.join(LOG)).unwrap();
        let line = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let time = line.as_object_mut().unwrap().shift_remove("time").unwrap();
            assert!(time.as_str().unwrap().parse::<Timestamp>().is_ok(), "{time}");
            line
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn an_event_is_a_line_with_the_spans_it_lies_in() {
        let dir = tempfile::tempdir().unwrap();
        let lines = written(dir.path(), LogLevel::Info, || {
            let episode = info_span!("episode", size = 50_i64, outcome = tracing::field::Empty, "otel.name" = "x");
            info_span!("run", jobs = 3).in_scope(|| {
                episode.in_scope(|| warn!(attempts = 2_u32, status = Some(500_u16), "request given up"));
                episode.record("outcome", "completed");
                info!(parent: &episode, wait = 0.123_456, ok = true, "done");
                debug!("not at this level");
            });
            info!(target: "hyper::client", "not of ours");
        });
        let expected = [
            json!({"level": "warn", "message": "request given up", "attempts": 2, "status": 500, "episode": {"size": 50}}),
            json!({"level": "info", "message": "done", "wait": 0.123, "ok": true, "episode": {"size": 50, "outcome": "completed"}}),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn no_key_and_nothing_that_steers_a_terminal_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let lines = written(dir.path(), LogLevel::Trace, || {
            let span = info_span!("turn", label = %format!("a {KEY}"));
            span.in_scope(|| {
                let body = json!({"error": format!("Bearer {KEY} \u{1b}[31m\n\u{202e}")}).to_string();
                info!(body, reason = %body, "the server said {KEY}");
            });
        });
        let text = std::fs::read_to_string(dir.path().join(LOG)).unwrap();
        assert!(!text.contains("do-not-show") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
        assert_eq!(lines[0]["message"], "the server said ***");
        assert_eq!(lines[0]["turn"]["label"], "a ***");
        assert!(lines[0]["body"].as_str().unwrap().contains("Bearer ***"), "{text}");
    }

    #[test]
    fn whoever_is_told_of_does_not_decide_how_long_a_line_is() {
        let dir = tempfile::tempdir().unwrap();
        // The key lies across the place of the cut.
        let long = format!("{}{KEY}{}", "é".repeat(LONGEST - 9), "é".repeat(5_000));
        let lines = written(dir.path(), LogLevel::Trace, || {
            info_span!("turn", label = long.as_str()).in_scope(|| {
                warn!(reason = long.as_str(), "request given up");
                trace!(body = long.as_str(), "received");
            });
        });
        let count = |value: &Value| value.as_str().unwrap().chars().count();
        let counts = [&lines[0]["reason"], &lines[0]["turn"]["label"], &lines[1]["body"]].map(count);
        assert_eq!(counts, [LONGEST + 1, LONGEST + 1, LONGEST - 9 + 3 + 5_000]);
        let text = std::fs::read_to_string(dir.path().join(LOG)).unwrap();
        assert!(!text.contains("sk-do-not") && text.contains("***"));
    }

    #[test]
    fn a_half_line_is_ended_and_what_stands_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOG), "{\"message\":\"whole\"}\n{\"mess").unwrap();
        drop(Log::open(dir.path(), Words::default()).unwrap());
        drop(Log::open(dir.path(), Words::default()).unwrap());
        let text = std::fs::read_to_string(dir.path().join(LOG)).unwrap();
        assert_eq!(text, "{\"message\":\"whole\"}\n{\"mess\n");
    }
}
