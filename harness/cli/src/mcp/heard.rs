//! What a server sends beside the answers that are waited for.

use std::sync::{Arc, Mutex, PoisonError};

use datasets::import::Trouble;

/// Bytes kept of something that cannot be read. More than will be shown: it is cut when no key is in it any more.
const EXCERPT: usize = 4 << 10;
/// Unreadable entries that are told one by one.
const ENTRIES: usize = 1_000;

/// Noted where a server is read, told where its session ends.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Noise>>);

#[derive(Default)]
pub struct Noise {
    stray: usize,
    first: String,
    unreadable: Vec<String>,
    /// Why nothing more was read.
    pub fault: Option<String>,
}

impl Heard {
    /// What is no message.
    pub fn stray(&self, bytes: &[u8]) {
        self.note(|noise| {
            if noise.stray == 0 {
                noise.first = excerpt(bytes);
            }
            noise.stray += 1;
        });
    }

    /// Tools of a page that cannot be read.
    pub fn unreadable(&self, entries: Vec<String>) {
        self.note(|noise| {
            let room = ENTRIES.saturating_sub(noise.unreadable.len());
            noise.unreadable.extend(entries.into_iter().take(room));
        });
    }

    /// Why the session ends. The first reason is the one to tell.
    pub fn fault(&self, reason: String) {
        self.note(|noise| {
            noise.fault.get_or_insert(reason);
        });
    }

    pub fn take(&self) -> Noise {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, note: impl FnOnce(&mut Noise)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Noise {
    pub fn troubles(self, server: &str) -> Vec<(Trouble, String)> {
        let entry = |entry| (Trouble::UnreadableEntry, format!("{server}:{entry}"));
        let mut troubles: Vec<_> = self.unreadable.into_iter().map(entry).collect();
        if self.stray > 0 {
            let lines = if self.stray == 1 { "line" } else { "lines" };
            troubles.push((Trouble::StrayOutput, format!("{server}: {} {lines}, first: {}", self.stray, self.first)));
        }
        troubles
    }
}

/// The beginning of something that cannot be read.
pub fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT)]).trim().to_owned()
}
