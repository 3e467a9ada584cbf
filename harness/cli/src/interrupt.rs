//! Ctrl-C and SIGTERM during a run.
//!
//! A task of its own listens. A run that asks no model never waits for anything, so whatever shared its task would be heard
//! only at its end.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::exit::Exit;
use crate::print::say;

/// How long a run that is to end at once has to drop its requests and to write down how it ended.
const GRACE: Duration = Duration::from_secs(1);

/// What the signals of a run have asked for.
pub struct Interrupts {
    drain: AtomicBool,
    at_once: Notify,
}

impl Interrupts {
    /// Listens from here to the end of the process; `resume` says how to go on. The first signal starts no further episode. The
    /// second, or the first after [`Self::run_is_over`], ends the process within [`GRACE`]; one more does not wait for that.
    pub fn listen(resume: String) -> Arc<Self> {
        let interrupts = Arc::new(Self { drain: AtomicBool::new(false), at_once: Notify::new() });
        // Where signals cannot be had they end the process by themselves.
        if let Ok(signals) = Signals::new() {
            tokio::spawn(interrupts.clone().watch(signals, resume));
        }
        interrupts
    }

    /// Whether no further episode is to be started.
    pub fn drain(&self) -> &AtomicBool {
        &self.drain
    }

    /// Waits for the signal that ends everything at once.
    pub async fn at_once(&self) {
        self.at_once.notified().await;
    }

    /// No episode is left to wait for. Whether the run was interrupted.
    pub fn run_is_over(&self) -> bool {
        self.drain.swap(true, Ordering::SeqCst)
    }

    async fn watch(self: Arc<Self>, mut signals: Signals, resume: String) {
        signals.next().await;
        if !self.drain.swap(true, Ordering::SeqCst) {
            say!("finishing the episodes under way; once more to end at once");
            signals.next().await;
        }
        self.at_once.notify_one();
        tokio::select! {
            () = tokio::time::sleep(GRACE) => {}
            () = signals.next() => {}
        }
        // Whatever still computes cannot be told to stop. What is written stands in whole lines.
        say!("toolgauge: interrupted; {resume}");
        exit(Exit::Interrupted as i32);
    }
}

#[cfg(unix)]
struct Signals([tokio::signal::unix::Signal; 2]);

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
