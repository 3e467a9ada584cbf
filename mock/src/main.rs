//! The `toolgauge-mock` binary: a server by a fixture's name or by a script, until it is told to stop.

#![allow(clippy::doc_markdown, reason = "these comments are the help texts")]

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use mock::{Mock, Script, Settings, fixtures};

/// An OpenAI-compatible server on loopback that misbehaves as it is told: a fixture of --list, a script, or neither for one that
/// makes no trouble. Prints its base URL, and stops on an interrupt.
#[derive(Debug, Parser)]
#[command(name = "toolgauge-mock", version, max_term_width = 100)]
struct Args {
    /// One of the servers of --list
    #[arg(short, long, value_name = "NAME")]
    fixture: Option<String>,
    /// Dialect and faults, see README.md
    #[arg(short, long, value_name = "FILE", conflicts_with = "fixture")]
    script: Option<PathBuf>,
    /// List the fixtures: row of the table of known behaviour, name, what it is
    #[arg(long, conflicts_with_all = ["fixture", "script", "show"])]
    list: bool,
    /// Print a fixture's script, to begin one of your own with
    #[arg(long, value_name = "NAME", conflicts_with_all = ["fixture", "script"])]
    show: Option<String>,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(short, long, default_value_t = 0)]
    port: u16,
    /// Write a line of JSON for each request
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // A closed stream is no reason to fail differently.
            let _ = writeln!(io::stderr(), "toolgauge-mock: {message}");
            ExitCode::from(2)
        }
    }
}

/// A line on standard output; whoever closed it does not want it.
fn tell(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn run(args: &Args) -> Result<(), String> {
    if args.list {
        for fixture in fixtures::all() {
            let row = fixture.row.map_or_else(String::new, |row| row.to_string());
            tell(&format!("{row:>2}  {:<26} {}", fixture.name, fixture.what));
        }
        return Ok(());
    }
    if let Some(name) = &args.show {
        let fixture = fixtures::find(name).map_err(|error| error.to_string())?;
        tell(&format!("# {}\n{}", fixture.what, fixture.toml.trim_end()));
        return Ok(());
    }
    let script = match (&args.fixture, &args.script) {
        (Some(name), _) => fixtures::find(name).map_err(|error| error.to_string())?.script(),
        (None, Some(path)) => Script::load(path).map_err(|error| error.to_string())?,
        (None, None) => Script::default(),
    };
    // Nobody can ask this process for its log; the file has it.
    let settings = Settings { port: args.port, log: args.log.clone(), keep_bodies: false, ..Settings::default() };
    let stop = stop_signal().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let mock = Mock::start_with(script, &settings).await.map_err(|error| cannot_start(&settings, &error))?;
    tell(&mock.base_url());
    stop.await;
    let failure = mock.log_failure();
    mock.stop().await;
    failure.map_or(Ok(()), |why| Err(format!("the log lacks lines: {why}")))
}

fn cannot_start(settings: &Settings, error: &io::Error) -> String {
    let log = settings.log.as_ref().map(|path| format!(", or {} cannot be written", path.display()));
    format!("cannot start on 127.0.0.1:{}: {error}; the port may be taken{}", settings.port, log.unwrap_or_default())
}

/// Ends at the first interrupt or request to terminate.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        // Without a handler the system ends us at once, which is as good.
        let _ = tokio::signal::ctrl_c().await;
    })
}
