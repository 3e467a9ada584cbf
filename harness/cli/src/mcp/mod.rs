//! Listing the tools of live servers, with `rmcp`.
//!
//! This lives in the command, not in `datasets`: it needs a runtime, child processes and HTTP, all of which the command
//! links anyway, and which nobody who only loads a dataset should have to build. `datasets` reads the file that names the
//! servers and writes what came back.
//!
//! Every server is on its own: whatever one of them does, the others go on, and all of it is bounded in time and size.

mod events;
mod heard;
mod http;
mod message;
mod scan;
mod session;
mod stderr;
mod stdio;

use std::time::{Duration, Instant};

use datasets::import::Trouble;
use datasets::import::mcp::{Captured, Listing, Reach, Server};
use futures::StreamExt as _;
use futures::stream;
use harness::text::plain;
use rmcp::ClientLifecycleMode;

use session::Failure;

/// What every server is held to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the start to the last tool.
    pub time: Duration,
    pub tools: usize,
    /// Servers at the same time.
    pub parallel: usize,
}

/// What came of a server, and what a person wants to see of it.
#[derive(Debug)]
pub struct Seen {
    pub captured: Captured,
    pub elapsed: Duration,
    /// The end of what it wrote to standard error, line by line, safe to print. Kept where it failed.
    pub stderr: Vec<String>,
}

/// Lists all servers, in their order; `done` is told of each as it ends.
pub async fn capture(servers: Vec<Server>, limits: Limits, done: impl Fn(&Seen)) -> Vec<Captured> {
    let done = &done;
    let all = servers.into_iter().map(|server| async move {
        let seen = capture_one(server, limits).await;
        done(&seen);
        seen.captured
    });
    stream::iter(all).buffered(limits.parallel).collect().await
}

async fn capture_one(server: Server, limits: Limits) -> Seen {
    let started = Instant::now();
    let (outcome, troubles, stderr) = match &server.reach {
        Err(reason) => (Err(reason.clone()), Vec::new(), Vec::new()),
        Ok(reach) => {
            let Tried { outcome, troubles, stderr } = attempt(reach, &server, limits).await;
            (outcome.map_err(|failure| failure.to_string()), troubles, stderr)
        }
    };
    let captured = Captured::new(server, outcome, troubles);
    let stderr = if captured.outcome().is_err() { shown(&captured.server, &stderr) } else { Vec::new() };
    Seen { captured, elapsed: started.elapsed(), stderr }
}

/// Lines of a server as they may be printed. Keys may go on from line to line, and are gone before anything is cut.
fn shown(server: &Server, lines: &[String]) -> Vec<String> {
    let text = server.secrets.redact(&lines.join("\n"));
    text.lines().map(|line| plain(line).chars().take(stderr::LINE).collect()).collect()
}

/// One way to a server, walked to its end.
struct Tried {
    outcome: Result<Listing, Failure>,
    troubles: Vec<(Trouble, String)>,
    stderr: Vec<String>,
}

async fn attempt(reach: &Reach, server: &Server, limits: Limits) -> Tried {
    let [usual, modern] = session::lifecycles();
    let tried = attempt_with(reach, server, limits, usual).await;
    // Nearly every server still shakes hands; one that no longer does says so at once, and is asked in the new way.
    match tried.outcome {
        Err(Failure::NoHandshake(_)) => attempt_with(reach, server, limits, modern).await,
        _ => tried,
    }
}

async fn attempt_with(reach: &Reach, server: &Server, limits: Limits, lifecycle: ClientLifecycleMode) -> Tried {
    match reach {
        Reach::Stdio { command, args, env, cwd } => {
            let launch = stdio::Launch { command, args, env, cwd: cwd.as_deref() };
            stdio::list(&launch, &server.name, lifecycle, limits).await
        }
        Reach::Http { url, headers } => http::list(url, headers, &server.name, lifecycle, limits).await,
    }
}
