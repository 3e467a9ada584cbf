//! Who hears of what a run does: its log, and OpenTelemetry where it is built in.

#![allow(clippy::doc_markdown, reason = "comments of arguments are help texts")]

use std::path::Path;

use clap::{Args, ValueEnum};
use harness::endpoint::Secret;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt as _};
use tracing_subscriber::registry::Registry;

use crate::exit::{Exit, expected};
use crate::log::{LOG, Log, Words};
#[cfg(feature = "otel")]
use crate::otel::Exporter;
use crate::print::say;

/// Crates whose events are ours. Those of the HTTP client hold headers, keys among them; a strategy of somebody else's writes
/// to the log with `target: "toolgauge"`.
const OURS: [&str; 4] = ["harness", "strategies", "toolgauge", "toolgauge_cli"];

#[derive(Debug, Default, Args)]
pub struct ObserveArgs {
    /// Events as JSON on standard output, one a line, instead of the table; harness/cli/EVENTS.md says which
    #[arg(long)]
    pub json: bool,
    /// What goes into `log.jsonl` of the run folder; `trace` holds every prompt and answer [default: info]
    #[arg(long, value_name = "LEVEL", env = "TOOLGAUGE_LOG", value_enum)]
    pub log_level: Option<LogLevel>,
    /// Write no log
    #[arg(long)]
    pub no_log: bool,
    /// Export spans over OTLP/HTTP to OTEL_EXPORTER_OTLP_ENDPOINT, or else http://localhost:4318; a variable that is set does
    /// without the flag. Needs a toolgauge that was built with `--features otel`
    #[arg(long)]
    pub otel: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Lets our own events up to a level through, and all our spans, which say what an event is about.
#[derive(Clone, Copy, Debug)]
pub struct Ours(LevelFilter);

impl Ours {
    pub fn up_to(level: LogLevel) -> Self {
        Self(level.into())
    }

    fn lets_through(self, metadata: &Metadata<'_>) -> bool {
        let of = metadata.target().split("::").next().unwrap_or_default();
        OURS.contains(&of) && (metadata.is_span() || *metadata.level() <= self.0)
    }
}

impl<S> Filter<S> for Ours {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.lets_through(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.lets_through(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // Spans are at this level.
        Some(self.0.max(LevelFilter::INFO))
    }
}

/// Ends what listens to a run.
#[must_use]
pub struct Observed {
    #[cfg(feature = "otel")]
    exporter: Option<Exporter>,
}

/// Begins to listen, for the rest of the process. `key` is what must show nowhere.
pub fn observe(args: &ObserveArgs, folder: &Path, key: Option<Secret>) -> anyhow::Result<Observed> {
    let words = Words::new(key);
    let log = if args.no_log {
        None
    } else {
        let log = Log::open(folder, words.clone())
            .map_err(|error| expected(Exit::Usage, format!("{}: {error}", folder.join(LOG).display())))?;
        Some(log.with_filter(Ours::up_to(args.log_level.unwrap_or_default())))
    };
    let heard = log.is_some();
    let subscriber = Registry::default().with(log);
    #[cfg(not(feature = "otel"))]
    {
        listen(heard, subscriber);
        Ok(Observed {})
    }
    #[cfg(feature = "otel")]
    {
        if !crate::otel::wanted(args) {
            listen(heard, subscriber);
            return Ok(Observed { exporter: None });
        }
        let exporter = Exporter::start(words)?;
        let layer = tracing_opentelemetry::layer()
            .with_tracer(exporter.tracer())
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        listen(true, subscriber.with(layer.with_filter(Ours::up_to(LogLevel::Info))));
        Ok(Observed { exporter: Some(exporter) })
    }
}

/// Whether the flags ask for what was not built in; said before anything is sent.
pub fn check(args: &ObserveArgs) -> anyhow::Result<()> {
    if args.otel && cfg!(not(feature = "otel")) {
        let message = "--otel: this toolgauge was built without OpenTelemetry; build it with `cargo build -p toolgauge-cli --features otel`";
        return Err(expected(Exit::Usage, message));
    }
    Ok(())
}

fn listen(heard: bool, subscriber: impl Subscriber + Send + Sync + 'static) {
    // A `main` of somebody else's may have a subscriber of its own, which then hears all this.
    if heard && set_global_default(subscriber).is_err() {
        say!("{LOG} is not written: this process has a tracing subscriber of its own");
    }
}

impl Observed {
    /// Waits for what is still to be exported.
    pub fn close(self) {
        let Self {
            #[cfg(feature = "otel")]
            exporter,
        } = self;
        #[cfg(feature = "otel")]
        if let Some(exporter) = exporter
            && let Err(why) = exporter.close()
        {
            say!("not all spans were exported: {why}");
        }
    }
}
