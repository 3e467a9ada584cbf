//! Ctrl-C and SIGTERM during a run.
//!
//! A thread of its own listens. A run that asks no model never waits for anything, and whatever shared its task, or the workers of
//! its runtime where all of them compute, would be heard only at its end.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;
use tracing::warn;

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
        let (listens, until) = channel();
        let watched = interrupts.clone();
        // Where signals cannot be had, nor a thread, they end the process by themselves.
        let started = thread::Builder::new().name("signals".to_owned()).spawn(move || watched.run(&listens, resume));
        if started.is_ok() {
            // An error: the thread has ended already.
            let _ = until.recv();
        }
        interrupts
    }

    /// Watches in a runtime that nothing else can keep busy; says when it does.
    fn run(self: Arc<Self>, listens: &Sender<()>, resume: String) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(signals) = Signals::new() else { return };
            let _ = listens.send(());
            self.watch(signals, resume).await;
        });
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
            warn!("interrupted: no further episode is begun, those under way are finished");
            say!("finishing the episodes under way; once more to end at once");
            signals.next().await;
        }
        warn!("interrupted: the run ends at once, requests in flight are dropped");
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
