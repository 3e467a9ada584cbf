//! The end of what a server writes to standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;

/// Bytes kept.
const KEPT: usize = 8 << 10;
/// Lines shown.
const LINES: usize = 12;
/// Longest line shown, in characters.
pub const LINE: usize = 200;
/// Time for what is still in the pipe; a grandchild may hold it open for ever.
const DRAIN: Duration = Duration::from_millis(200);

/// Reads a pipe to its end, so that the server never waits for it, and keeps the end.
pub struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
}

impl Tail {
    pub fn of(mut pipe: ChildStderr) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let sink = kept.clone();
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
                let mut kept = sink.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..read]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
        });
        Self { kept, reader }
    }

    /// The last lines.
    pub async fn lines(mut self) -> Vec<String> {
        let _ = tokio::time::timeout(DRAIN, &mut self.reader).await;
        self.reader.abort();
        let bytes: Vec<u8> = self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        lines[lines.len().saturating_sub(LINES)..].to_vec()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
