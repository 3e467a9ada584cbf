//! A running server.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::line::{Cut, Line};
use crate::log::{Entry, Log};
use crate::script::Script;
use crate::server::Server;

/// Time that answers under way get when the server is stopped.
const GRACE: Duration = Duration::from_secs(2);
/// Wait after the system could not give us a connection.
const BREATH: Duration = Duration::from_millis(20);

/// What is no part of a script.
#[derive(Clone, Debug)]
pub struct Settings {
    /// 0 takes a free one. The address is always 127.0.0.1.
    pub port: u16,
    /// Larger requests get a 413.
    pub max_body_bytes: usize,
    /// A file that gets a line of JSON for each request when it ends; it is begun anew.
    pub log: Option<PathBuf>,
    /// [`Mock::log`] gives bodies back. Without it an entry that has ended loses its body, which the file has: of long runs all
    /// prompts together are gigabytes.
    pub keep_bodies: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { port: 0, max_body_bytes: 32 << 20, log: None, keep_bodies: true }
    }
}

/// A server on loopback. Stops when it is dropped, and in order with [`Mock::stop`].
pub struct Mock {
    address: SocketAddr,
    log: Arc<Log>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Mock {
    /// On a free port.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_with(script, &Settings::default()).await
    }

    pub async fn start_with(script: Script, settings: &Settings) -> io::Result<Self> {
        script.check().map_err(|message| io::Error::new(io::ErrorKind::InvalidInput, message))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.port)).await?;
        let address = listener.local_addr()?;
        let file = match &settings.log {
            Some(path) => Some(Box::new(File::create(path)?) as Box<dyn Write + Send>),
            None => None,
        };
        let log = Log::new(file, settings.keep_bodies);
        let server = Server {
            script,
            log: Arc::clone(&log),
            max_body_bytes: settings.max_body_bytes,
            attempts: std::sync::Mutex::default(),
        };
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(listener, Arc::new(server), stopped));
        Ok(Self { address, log, stop, task })
    }

    /// Ends in `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far, in order of arrival. An answer that a client has is in here.
    pub fn log(&self) -> Vec<Entry> {
        self.log.entries()
    }

    /// How many requests have come so far; cheaper than counting the log, which is copied.
    pub fn arrived(&self) -> usize {
        self.log.arrived()
    }

    /// The most requests that were being answered at one time.
    pub fn most_in_flight(&self) -> usize {
        self.log.most_in_flight()
    }

    /// Why lines are missing in the log file, if they are.
    pub fn log_failure(&self) -> Option<String> {
        self.log.failure()
    }

    /// Waits until nothing is being answered: clients that went away are then in the log as such.
    pub async fn settled(&self) {
        self.log.settled().await;
    }

    /// Accepts nothing more, lets answers under way end, for two seconds at most, and gives the log.
    pub async fn stop(mut self) -> Vec<Entry> {
        self.stop.send_replace(true);
        // An error would be a panic of the task, which has said so itself.
        let _ = (&mut self.task).await;
        self.log.entries()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: Arc<Server>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&server), stopped.clone()));
                }
                // Out of file descriptors, most likely.
                Err(_) => sleep(BREATH).await,
            },
            Some(_) = connections.join_next() => {}
            () = told(&mut stopped) => break,
        }
    }
    drop(listener);
    let _ = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    // What hangs by order of the script never ends by itself.
    connections.shutdown().await;
}

/// Until the server is to stop, or is gone.
async fn told(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|&stopped| stopped).await;
}

async fn serve(stream: TcpStream, server: Arc<Server>, mut stopped: watch::Receiver<bool>) {
    // Chunks are to leave when they are written.
    let _ = stream.set_nodelay(true);
    let cut = Arc::new(Cut::default());
    let line = TokioIo::new(Line::new(stream, Arc::clone(&cut)));
    let service = service_fn(move |request| Arc::clone(&server).answer(request, Arc::clone(&cut)));
    let connection = http1::Builder::new().serve_connection(line, service);
    tokio::pin!(connection);
    // An error is a client that went away or an end by order of the script; the log knows of both.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = told(&mut stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
