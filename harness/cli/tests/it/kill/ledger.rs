//! What the store of a run owes to the server's log, over all the processes that worked on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use harness::ids::Digest;
use mock::{End, Entry};
use serde_json::Value;

use crate::support::request_key;

/// A process that worked on the run.
struct Life {
    /// How the log shows the key that only this process was given.
    sender: String,
    killed: bool,
    /// Requests that it wrote down before it sent them.
    intents: BTreeSet<Digest>,
    /// Requests whose answer is in the store when it ends, from earlier lives too.
    committed: BTreeSet<Digest>,
}

/// The processes of one run, in their order; one at a time.
#[derive(Default)]
pub(super) struct Ledger {
    lives: Vec<Life>,
    /// Bytes of the store that are read.
    read: usize,
    committed: BTreeSet<Digest>,
}

/// What the log says of a run.
#[derive(Debug)]
pub(super) struct Verdict {
    /// Requests that a process had written down when it was killed, and whose answer nobody knows: possibly billed.
    pub(super) lost: usize,
    /// Those among them that reached the server.
    pub(super) lost_at_the_server: usize,
    /// Attempts that failed before an answer that was kept.
    pub(super) failed: usize,
    /// Kills with a request under way at the server.
    pub(super) kills_in_flight: usize,
}

impl Ledger {
    pub(super) fn lives(&self) -> usize {
        self.lives.len()
    }

    /// Takes down what a process left that has just ended.
    pub(super) fn close(&mut self, api_key: &str, store: &Path, killed: bool) {
        let bytes = std::fs::read(store).unwrap_or_default();
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        assert!(whole >= self.read, "the store lost whole lines");
        let records = records(&bytes[self.read..whole]);
        self.read = whole;
        let keys = |kinds: &[&str]| -> BTreeSet<Digest> {
            let wanted = records.iter().filter(|(kind, _)| kinds.contains(&kind.as_str()));
            wanted.map(|(_, key)| key.clone()).collect()
        };
        self.committed.extend(keys(&["response", "refusal"]));
        self.lives.push(Life {
            sender: sender(api_key),
            killed,
            intents: keys(&["intent"]),
            committed: self.committed.clone(),
        });
    }

    /// Holds the store against the log of the server.
    ///
    /// No request with a committed answer is asked for again. So one that more than one process asked for was in flight (or
    /// between two attempts) whenever a process before the last of them was killed, and of complete answers there are at most
    /// as many as those kills and one more, which is the one that was kept.
    pub(super) fn judge(&self, log: &[Entry]) -> Verdict {
        let asked = self.asked(log);
        let mut failed = 0;
        // Complete answers, and kills that no answer was committed before.
        let mut answers: BTreeMap<&Digest, (usize, usize)> = BTreeMap::new();
        for ((life, key), entries) in &asked {
            let process = &self.lives[*life];
            let known = life.checked_sub(1).is_some_and(|before| self.lives[before].committed.contains(key));
            assert!(!known, "process {life} asked again for what was committed: {key}");
            assert!(process.intents.contains(key), "process {life} sent what it had not written down: {key}");
            let attempts = attempts(entries);
            let (complete, kills) = answers.entry(key).or_default();
            *complete += usize::from(attempts.complete);
            if process.committed.contains(key) {
                assert!(attempts.complete, "process {life} kept an answer that it was not given: {key}");
                failed += attempts.failed;
            } else {
                assert!(process.killed, "process {life} lived and kept no answer: {key}");
                *kills += 1;
            }
        }
        for (key, (complete, kills)) in &answers {
            assert!((1..=*kills + 1).contains(complete), "{complete} complete answers after {kills} kills: {key}");
        }
        let kept: BTreeSet<&Digest> = self.committed.iter().collect();
        assert_eq!(
            answers.keys().copied().collect::<BTreeSet<_>>(),
            kept,
            "what was asked for and what was kept differ"
        );
        let lost = |life: &Life| life.intents.difference(&life.committed).count();
        assert!(self.lives.iter().all(|life| life.killed || lost(life) == 0));
        let at_the_server: Vec<usize> = asked
            .keys()
            .filter(|(life, key)| !self.lives[*life].committed.contains(key))
            .map(|(life, _)| *life)
            .collect();
        Verdict {
            lost: self.lives.iter().map(lost).sum(),
            lost_at_the_server: at_the_server.len(),
            failed,
            kills_in_flight: at_the_server.into_iter().collect::<BTreeSet<_>>().len(),
        }
    }

    /// Requests by process and key, in the order of their arrival.
    fn asked<'l>(&self, log: &'l [Entry]) -> BTreeMap<(usize, Digest), Vec<&'l Entry>> {
        let mut asked: BTreeMap<(usize, Digest), Vec<&Entry>> = BTreeMap::new();
        for entry in log {
            let sender = &entry.headers["authorization"];
            let life = self.lives.iter().position(|life| life.sender == *sender).unwrap();
            if entry.attempt == 0 {
                // Killed while it sent: the server has no whole request.
                assert!(self.lives[life].killed && entry.end == Some(End::HungUp), "no request: {entry:?}");
                continue;
            }
            asked.entry((life, request_key(&entry.body))).or_default().push(entry);
        }
        asked
    }
}

/// What a process got for one request.
struct Attempts {
    failed: usize,
    /// The last one was answered.
    complete: bool,
}

/// A process asks one at a time, and never again once it has been answered.
fn attempts(entries: &[&Entry]) -> Attempts {
    for pair in entries.windows(2) {
        assert!(!answered(pair[0]), "asked again by a process that had the answer: {:?}", pair[1]);
        let ended = pair[0].end.is_some() && pair[0].at_ms + pair[0].took_ms <= pair[1].at_ms;
        assert!(ended, "asked again before the attempt before had ended: {:?}", pair[1]);
    }
    let complete = entries.last().is_some_and(|entry| answered(entry));
    Attempts { failed: entries.len() - usize::from(complete), complete }
}

/// A good answer, sent to its end as far as the server knows. Delays are no harm.
fn answered(entry: &Entry) -> bool {
    let harmless = entry.faults.iter().all(|fault| fault.starts_with("slow"));
    entry.status == Some(200) && entry.end == Some(End::Answered) && harmless
}

/// Kind and key of every record that has a key.
fn records(lines: &[u8]) -> Vec<(String, Digest)> {
    let record = |line: &[u8]| {
        let line: Value = serde_json::from_slice(line).unwrap();
        let record = &line["rec"];
        Some((record["type"].as_str()?.to_owned(), Digest::new(record["key"].as_str()?)))
    };
    lines.split_inclusive(|&byte| byte == b'\n').filter_map(record).collect()
}

/// A key as the mock's log shows it.
fn sender(api_key: &str) -> String {
    format!("blake3:{}", &Digest::of(format!("Bearer {api_key}").as_bytes()).as_str()[..8])
}
