//! Servers that are child processes and speak over their standard input and output, a message a line.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, RoleClient};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::heard::Heard;
use super::message::{self, Message, UNREAD};
use super::session::{self, Failure};
use super::stderr::Tail;
use super::{Limits, Tried};

/// Longest line that is read.
const LONGEST_LINE: usize = 16 << 20;
/// Most bytes of a session.
const MOST_BYTES: usize = 256 << 20;
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
    let mut heard = heard.take();
    let outcome = outcome.map_err(|failure| match failure {
        Failure::Closed { awaited } => Failure::Other(match (heard.fault.take(), status) {
            (Some(fault), _) => fault,
            (None, Some(status)) => format!("it ended ({status}) without an answer to {awaited}"),
            (None, None) => format!("it closed its standard output without an answer to {awaited}"),
        }),
        other => other,
    });
    Tried { outcome, troubles: heard.troubles(name), stderr: tail.lines().await }
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

/// Messages over the two pipes.
struct Lines {
    reader: BufReader<ChildStdout>,
    /// The line so far: reading may be interrupted at any point and goes on here.
    line: Vec<u8>,
    bytes: usize,
    writer: Writer,
    /// The request that was sent last.
    asked: Option<RequestId>,
    /// Answers to questions of the server, under way.
    replies: JoinSet<io::Result<()>>,
    heard: Heard,
}

type Writer = Arc<Mutex<Option<ChildStdin>>>;

impl Lines {
    fn new(stdin: ChildStdin, stdout: ChildStdout, heard: Heard) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, stdout),
            line: Vec::new(),
            bytes: 0,
            writer: Arc::new(Mutex::new(Some(stdin))),
            asked: None,
            replies: JoinSet::new(),
            heard,
        }
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
            self.heard.fault(fault);
            return None;
        }
    }
}

async fn write(writer: Writer, message: TxJsonRpcMessage<RoleClient>) -> io::Result<()> {
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

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message {
            self.asked = Some(request.id.clone());
        }
        write(self.writer.clone(), message)
    }

    /// The next answer. Everything else ends here, so that no flood of it fills a queue behind.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.read().await?;
            let line = std::mem::take(&mut self.line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            match message::read(&line) {
                Message::Answer { mut message, unreadable } => {
                    self.heard.unreadable(unreadable);
                    message::settle(&mut message, self.asked.as_ref());
                    return Some(message);
                }
                Message::Question(reply) => {
                    while self.replies.try_join_next().is_some() {}
                    if self.replies.len() < UNREAD {
                        self.replies.spawn(write(self.writer.clone(), reply));
                    }
                }
                Message::Notice => {}
                Message::Broken(reason) => {
                    self.heard.fault(reason);
                    return None;
                }
                Message::Stray => self.heard.stray(&line),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // One of them may hold the pipe for ever.
        self.replies.shutdown().await;
        drop(self.writer.lock().await.take());
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_that_nobody_reads_do_not_pile_up() {
        // Five thousand answers are more than a pipe holds.
        let ping = r#"echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'"#;
        let page = r#"echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[]}}'"#;
        let script = format!("i=0; while [ $i -lt 5000 ]; do {ping}; i=$((i+1)); done; {page}; sleep 60");
        let args = ["-c".to_owned(), script];
        let (mut child, _group) = start(&Launch { command: "sh", args: &args, env: &[], cwd: None }).unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = Lines::new(stdin, stdout, Heard::default());
        assert!(matches!(lines.receive().await, Some(JsonRpcMessage::Response(_))));
        assert!(lines.replies.len() <= UNREAD, "{} wait", lines.replies.len());
        // Although one of them waits for a reader.
        tokio::time::timeout(GRACE, lines.close()).await.unwrap().unwrap();
    }
}
