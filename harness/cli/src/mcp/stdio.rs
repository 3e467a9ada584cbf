//! Servers that are child processes and speak over their standard input and output, a message a line.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datasets::import::Trouble;
use rmcp::model::{CustomResult, RequestId, ServerJsonRpcMessage, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, RoleClient};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::session::{self, Failure};
use super::stderr::Tail;
use super::{Limits, Tried};

/// Longest line that is read.
const LONGEST_LINE: usize = 16 << 20;
/// Most bytes of a session.
const MOST_BYTES: usize = 256 << 20;
/// Longest stray line that is repeated, in bytes.
const STRAY: usize = 120;
/// Time to end after standard input was closed, and after being asked to.
const GRACE: Duration = Duration::from_secs(2);
/// What a server gets of our environment: enough to start and to find its files, none of our keys. More comes from `env`.
const INHERITED: [&str; 16] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// How to start a server.
pub struct Launch<'a> {
    pub command: &'a str,
    pub args: &'a [String],
    pub env: &'a [(String, String)],
    pub cwd: Option<&'a Path>,
}

/// Starts a server, lists its tools and ends it, with everything that it started.
pub(super) async fn list(launch: &Launch<'_>, name: &str, lifecycle: ClientLifecycleMode, limits: Limits) -> Tried {
    let failed = |reason: String| {
        let outcome = Err(Failure::Other(reason));
        Tried { outcome, troubles: Vec::new(), stderr: Vec::new() }
    };
    let (mut child, mut group) = match start(launch) {
        Ok(started) => started,
        Err(reason) => return failed(reason),
    };
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return failed("its standard streams could not be opened".to_owned());
    };
    let tail = Tail::of(stderr);
    let heard = Heard::default();
    let outcome = session::list(Lines::new(stdin, stdout, heard.clone()), lifecycle, limits).await;
    // A server that did not answer in time has no claim to more of it.
    let grace = if matches!(outcome, Err(Failure::Late { .. })) { Duration::ZERO } else { GRACE };
    let status = end(&mut child, &mut group, grace).await;
    let heard = heard.take();
    let outcome = outcome.map_err(|failure| match failure {
        Failure::Closed { awaited } => Failure::Other(match (heard.fault, status) {
            (Some(fault), _) => fault,
            (None, Some(status)) => format!("it ended ({status}) without an answer to {awaited}"),
            (None, None) => format!("it closed its standard output without an answer to {awaited}"),
        }),
        other => other,
    });
    let mut troubles = Vec::new();
    if heard.stray > 0 {
        let lines = if heard.stray == 1 { "line" } else { "lines" };
        troubles.push((Trouble::StrayOutput, format!("{name}: {} {lines}, first: {}", heard.stray, heard.first)));
    }
    Tried { outcome, troubles, stderr: tail.lines().await }
}

fn start(launch: &Launch) -> Result<(Child, Group), String> {
    let mut command = Command::new(launch.command);
    command
        .args(launch.args)
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value))))
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(cwd) = launch.cwd {
        // The error of the start itself would be the same as for a missing command.
        if !cwd.is_dir() {
            return Err(format!("its `cwd` {} is no folder", cwd.display()));
        }
        command.current_dir(cwd);
    }
    // A group of its own, so that what it starts can be ended with it.
    #[cfg(unix)]
    command.process_group(0);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("its command {:?} is not on the PATH", launch.command),
        _ => format!("its command {:?} cannot be started: {error}", launch.command),
    })?;
    let group = Group::of(&child);
    Ok((child, group))
}

/// Ends a server whose standard input is closed; its status if it ended by itself.
async fn end(child: &mut Child, group: &mut Group, grace: Duration) -> Option<std::process::ExitStatus> {
    let status = tokio::time::timeout(grace, child.wait()).await.ok().and_then(Result::ok);
    if status.is_none() && !grace.is_zero() {
        group.ask();
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
    }
    group.kill();
    let _ = child.start_kill();
    let _ = child.wait().await;
    status
}

/// The process group of a server. Whatever is left in it when this goes is killed.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self { leader: id.and_then(rustix::process::Pid::from_raw) }
    }

    fn ask(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Once, and never again: the number may belong to somebody else when its owner is gone.
    fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.leader = None;
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader {
            // An error means that nobody is left.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

#[cfg(not(unix))]
impl Group {
    fn of(_: &Child) -> Self {
        Self {}
    }

    fn ask(&self) {}

    fn kill(&mut self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a server sent beside messages.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Noise>>);

#[derive(Default)]
struct Noise {
    /// Lines that are no message.
    stray: usize,
    first: String,
    /// Why nothing more was read.
    fault: Option<String>,
}

impl Heard {
    fn note(&self, note: impl FnOnce(&mut Noise)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn take(&self) -> Noise {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Messages over the two pipes.
struct Lines {
    reader: BufReader<ChildStdout>,
    /// The line so far: reading may be interrupted at any point and goes on here.
    line: Vec<u8>,
    bytes: usize,
    writer: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    heard: Heard,
}

impl Lines {
    fn new(stdin: ChildStdin, stdout: ChildStdout, heard: Heard) -> Self {
        let writer = Arc::new(tokio::sync::Mutex::new(Some(stdin)));
        Self { reader: BufReader::with_capacity(64 << 10, stdout), line: Vec::new(), bytes: 0, writer, heard }
    }

    /// Whether a whole line was read; `None` at the end.
    async fn read(&mut self) -> Option<()> {
        loop {
            let part = self.reader.fill_buf().await.ok().filter(|part| !part.is_empty())?;
            let end = part.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(part.len(), |end| end + 1);
            self.line.extend_from_slice(&part[..taken]);
            self.reader.consume(taken);
            self.bytes += taken;
            let fault = if self.line.len() > LONGEST_LINE {
                format!("it sent a line of more than {} MiB", LONGEST_LINE >> 20)
            } else if self.bytes > MOST_BYTES {
                format!("it sent more than {} MiB", MOST_BYTES >> 20)
            } else if end.is_some() {
                return Some(());
            } else {
                continue;
            };
            self.heard.note(|noise| noise.fault = Some(fault));
            return None;
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = self.writer.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let Some(pipe) = writer.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
            let written = async {
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            match written.await {
                // It is gone, which reading will notice too, and tell better.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.read().await?;
            let line = std::mem::take(&mut self.line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Some(message) = message(&line) {
                return Some(message);
            }
            self.heard.note(|noise| {
                if noise.stray == 0 {
                    let first = String::from_utf8_lossy(&line[..line.len().min(STRAY)]);
                    first.trim().clone_into(&mut noise.first);
                }
                noise.stray += 1;
            });
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        drop(self.writer.lock().await.take());
        Ok(())
    }
}

/// A line as a message. The answer with the tools stays the JSON that it is: read as types, keys that the types do not know
/// would be gone, and one tool that does not fit them would take all others along.
fn message(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    let mut value: Value = serde_json::from_slice(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)).ok()?;
    let is_page = value.get("result").and_then(|result| result.get("tools")).is_some_and(Value::is_array);
    if is_page && let Ok(id) = RequestId::deserialize(&value["id"]) {
        let result = ServerResult::CustomResult(CustomResult(value["result"].take()));
        return Some(ServerJsonRpcMessage::response(result, id));
    }
    serde_json::from_value(value).ok()
}
