//! `toolgauge import`.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use datasets::import::mcp::{self, Reach, Server, Snapshot};
use datasets::import::{ImportError, ImportOptions, ImportReport, find};
use harness::text::{plain, plural};

use crate::args::{ImportArgs, LiveArgs, seconds};
use crate::exit::{Exit, OrExit as _, expected};
use crate::mcp::{Limits, Seen, capture};
use crate::print::{print_out, say};

/// Time that each server has, in seconds. Of 64 servers that were tried the slowest took half of it.
const TIME: f64 = 60.0;
const PARALLEL: u16 = 4;
/// The largest server that was seen lists a few hundred.
const TOOLS: usize = 1_000;

pub fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let options = ImportOptions {
        name: args.name.clone(),
        server: args.server.clone(),
        overwrite: args.overwrite,
        strict: args.strict,
        tools: args.tools,
        skills: args.skills,
        seed: args.seed,
        extras: args.extras.given(),
        ..ImportOptions::default()
    };
    let report = if args.format == mcp::NAME {
        match live(args, &options)? {
            Some(report) => report,
            None => return Ok(Exit::Interrupted),
        }
    } else {
        let importer = find(&args.format).or_exit(Exit::Usage)?;
        if let Some(flag) = args.live.given() {
            return Err(expected(Exit::Usage, format!("{flag} belongs to `import {}`", mcp::NAME)));
        }
        let report = match &args.source {
            Some(source) => importer.import(source, &args.out, &options),
            None => importer.generate(&args.out, &options),
        };
        report.map_err(failed)?
    };
    print_out(&format!("{}: {report}\n", plain(&args.out.display().to_string())))?;
    Ok(Exit::Ok)
}

fn failed(error: ImportError) -> anyhow::Error {
    let exit = match error {
        ImportError::UnknownImporter { .. }
        | ImportError::UnfitOption { .. }
        | ImportError::ForeignOption { .. }
        | ImportError::UnusedServer { .. }
        | ImportError::SourceMissing { .. }
        | ImportError::SourceUnused { .. }
        | ImportError::TargetExists { .. }
        | ImportError::TargetForeign { .. }
        | ImportError::TargetEdited { .. }
        | ImportError::Unwritable { .. } => Exit::Usage,
        ImportError::Unreadable { .. }
        | ImportError::Strict { .. }
        | ImportError::NoTools { .. }
        | ImportError::Invalid(_) => Exit::Dataset,
        ImportError::NoServer { .. } => Exit::Endpoint,
    };
    expected(exit, error)
}

/// Lists live servers; nothing if interrupted.
fn live(args: &ImportArgs, options: &ImportOptions) -> anyhow::Result<Option<ImportReport>> {
    let snapshot = Snapshot::new(&args.out, options).map_err(failed)?;
    if args.live.max_tools == Some(0) {
        return Err(expected(Exit::Usage, "--max-tools is 0, expected at least 1"));
    }
    let mut servers = servers(args)?;
    for server in &mut servers {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        server.recognise(std::env::vars_os().filter_map(text));
    }
    for name in &args.live.not_secret {
        // Not `any`: of every server it is to be taken back.
        let known = servers.iter_mut().filter_map(|server| server.secrets.forget(name).then_some(())).count();
        if known == 0 && std::env::var_os(name).is_none() {
            let message =
                format!("--not-secret {name:?}: neither `env` nor `headers` nor the environment has that name");
            return Err(expected(Exit::Usage, message));
        }
    }
    let time = args.live.timeout.as_deref().map_or(Ok(TIME), |text| seconds("--timeout", text))?;
    let limits = Limits {
        time: Duration::from_secs_f64(time),
        tools: args.live.max_tools.unwrap_or(TOOLS),
        parallel: args.live.parallel.unwrap_or(PARALLEL).into(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let captured = runtime.block_on(async {
        let stopped = stopped()?;
        // Servers are in process groups of their own, out of reach of the terminal's signals: dropping them ends them.
        Ok::<_, io::Error>(tokio::select! {
            captured = capture(servers, limits, tell) => Some(captured),
            () = stopped => None,
        })
    })?;
    // Somebody's DNS look-up may still hang in a thread.
    runtime.shutdown_timeout(Duration::from_secs(1));
    captured.map(|captured| snapshot.write(captured)).transpose().map_err(failed)
}

/// Listens from now on, and ends when somebody wants this to end: at the keyboard, by `kill`, or by closing the terminal.
#[cfg(unix)]
fn stopped() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn stopped() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

fn servers(args: &ImportArgs) -> anyhow::Result<Vec<Server>> {
    let LiveArgs { command, url, only, .. } = &args.live;
    let name = args.server.as_deref().unwrap_or(mcp::NAME);
    let reach = match (command, url, &args.source) {
        (Some(line), ..) => {
            let usage = || expected(Exit::Usage, "--command: expected a program and its arguments, quotes closed");
            let mut words = shlex::split(line).ok_or_else(usage)?.into_iter();
            let command = words.next().ok_or_else(usage)?;
            Reach::Stdio { command, args: words.collect(), env: Vec::new(), cwd: None }
        }
        (None, Some(url), _) if !url.starts_with("http://") && !url.starts_with("https://") => {
            return Err(expected(Exit::Usage, "--url: expected http:// or https://"));
        }
        (None, Some(url), _) => Reach::Http { url: url.clone(), headers: Vec::new() },
        (None, None, Some(source)) => {
            if args.server.is_some() {
                let message = "--server names a server of --command or --url; those of a file have their names there";
                return Err(expected(Exit::Usage, message));
            }
            let mut servers = mcp::read(source, &|name| std::env::var(name).ok()).map_err(failed)?;
            for name in only {
                if !servers.iter().any(|server| server.name == *name) {
                    let known: Vec<_> = servers.iter().map(|server| plain(&server.name)).collect();
                    let message = format!("--only {name:?} is no server of the file; it has {}", known.join(", "));
                    return Err(expected(Exit::Usage, message));
                }
            }
            servers.retain(|server| only.is_empty() || only.contains(&server.name));
            return Ok(servers);
        }
        (None, None, None) => return Err(expected(Exit::Usage, "name a file, or --command, or --url")),
    };
    if !only.is_empty() {
        return Err(expected(Exit::Usage, "--only picks servers of a file"));
    }
    Ok(vec![Server::new(name, reach)])
}

/// A line for each server as it ends; what it wrote to standard error if it failed.
fn tell(seen: &Seen) {
    let name = plain(&seen.captured.server.name);
    let time = seen.elapsed.as_secs_f64();
    match seen.captured.outcome() {
        Ok(listing) => {
            say!("{name}: {} in {time:.1} s", plural(listing.tools.len() as u64, "tool", "tools"));
        }
        Err(reason) => say!("{name}: left out after {time:.1} s: {reason}"),
    }
    for line in &seen.stderr {
        say!("  stderr: {line}");
    }
}
