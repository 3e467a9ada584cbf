//! The end of what a server writes to standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;

/// Lines kept, each of them whole: cut, it might begin or end within a key.
const LINES: usize = 12;
/// Longest line kept, in bytes. Of a longer one only that it was there.
const LONGEST: usize = 64 << 10;
/// Longest line shown, in characters.
pub const LINE: usize = 200;
/// Time for what is still in the pipe; a grandchild may hold it open for ever.
const DRAIN: Duration = Duration::from_millis(200);

/// Reads a pipe to its end, so that the server never waits for it, and keeps the end.
pub struct Tail {
    kept: Arc<Mutex<Kept>>,
    reader: JoinHandle<()>,
}

impl Tail {
    pub fn of(mut pipe: ChildStderr) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let sink = kept.clone();
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
                sink.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..read]);
            }
        });
        Self { kept, reader }
    }

    /// The last lines, with whatever keys are in them.
    pub async fn lines(mut self) -> Vec<String> {
        let _ = tokio::time::timeout(DRAIN, &mut self.reader).await;
        self.reader.abort();
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner)).lines()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    line: Vec<u8>,
    is_long: bool,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.is_long |= self.line.len() + part.len() > LONGEST;
            if !self.is_long {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let mut line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim_end().to_owned();
        if std::mem::take(&mut self.is_long) {
            line = format!("(a line of more than {} KiB)", LONGEST >> 10);
        }
        if !line.is_empty() {
            self.lines.push_back(line);
            self.lines.drain(..self.lines.len().saturating_sub(LINES));
        }
    }

    fn lines(mut self) -> Vec<String> {
        self.end_line();
        self.lines.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of a text that comes in pieces of this size.
    fn kept(text: &str, size: usize) -> Vec<String> {
        let mut kept = Kept::default();
        for chunk in text.as_bytes().chunks(size) {
            kept.add(chunk);
        }
        kept.lines()
    }

    #[test]
    fn lines_are_kept_whole_or_not_at_all() {
        let text = format!("first\r\n\n{}\nlast {}", "x".repeat(LONGEST), "y".repeat(9_000));
        for size in [1, 7, 4096, 1 << 20] {
            let lines = kept(&text, size);
            assert_eq!(
                (lines.len(), lines[0].as_str(), lines[1].as_str()),
                (3, "first", "(a line of more than 64 KiB)")
            );
            assert_eq!(lines[2].len(), 9_005);
        }
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let text = (0..1_000).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
        let lines = kept(&text, 100);
        assert_eq!((lines.len(), lines[0].as_str()), (LINES, "line 988"));
    }
}
