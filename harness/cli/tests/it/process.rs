//! What happens around a process must not spoil a run: readers that leave, signals at any time.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::context::EpisodeCx;
use harness::strategy::{Prepared, Selection, Strategy, StrategyError, StrategyMeta};
use serde::{Deserialize, Serialize};

use crate::support::{atlas, episodes, outcome, run, run_ok, toolgauge};

/// Runs a command whose readers are gone before it says anything; its exit code.
fn unread(dir: &Path, args: &[&str]) -> Option<i32> {
    let mut command = toolgauge(dir);
    let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    child.wait().unwrap().code()
}

#[test]
fn closed_pipes_stop_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let scripted = ["--endpoint", "scripted:lexical", "-n", "50", "--sample", "8"];
    let first = [&["run", "-d", &atlas, "-s", "bm25,bm25-llm", "--out", "a"], &scripted[..]].concat();
    assert_eq!(unread(dir.path(), &first), Some(0));
    assert_eq!(episodes(&dir.path().join("a")).len(), 16);
    assert!(dir.path().join("a/report/report.md").is_file());
    let query = episodes(&dir.path().join("a"))[0].query.to_string();
    for (args, code) in [
        (&["report", "a"][..], 0),
        (&["report", "a", "--cassette", "answers.jsonl"], 0),
        (&["show", "a", &query], 0),
        (&["list", "strategies"], 0),
        (&["lint", &atlas], run(dir.path(), &["lint", &atlas]).0),
        (&["import", "synth", "--tools", "20", "--out", "synth"], 0),
        (&["run", "--help"], 0),
        (&["run", "--resume", "a"], 0),
        (&["run", "-d", &atlas, "-s", "bm25", "--dry-run"], 0),
        // Nobody hears what is wrong either, but the code says it.
        (&["report", "nowhere"], 2),
        (&["no-such-command"], 2),
    ] {
        assert_eq!(unread(dir.path(), args), Some(code), "{args:?}");
    }
}

fn signal(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

fn wait_for(what: &str, seen: impl Fn() -> bool) {
    let started = Instant::now();
    while !seen() {
        assert!(started.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Rankings alone never wait for anything, so that nothing else of their task gets its turn.
#[test]
fn a_run_without_a_model_stops_between_two_queries() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = toolgauge(dir.path());
    command.arg("run").arg("-d").arg(atlas()).args(["-s", "bm25", "-n", "150", "--repeats", "400", "--out", "a"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let written = || std::fs::metadata(dir.path().join("a/episodes.jsonl")).is_ok_and(|file| file.len() > 0);
    wait_for("episode", written);
    signal(&child);
    let (code, out, err) = outcome(&child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{err}");
    assert!(err.contains("finishing the episodes under way"), "{err}");
    assert!(err.contains("toolgauge: interrupted; resume with: toolgauge run --resume a"), "{err}");
    assert!(out.contains("missing"), "the table says what is not there: {out}");
    let run = harness::run::dir::StoredRun::read(&dir.path().join("a")).unwrap();
    assert!(!run.episodes.is_empty() && run.episodes.len() < run.plan.len(), "{} episodes", run.episodes.len());
    assert_eq!(run.manifest.finish.unwrap().how, "interrupted");
}

/// A strategy that computes without end.
struct Endless;

#[derive(Default, Serialize, Deserialize)]
struct NoParams {}

impl Strategy for Endless {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "endless".to_owned(),
            version: 1,
            params: serde_json::json!({}),
            drives_model: false,
            ranks: true,
            own_tools: Vec::new(),
            inner_turns: 0,
            shown_tools: None,
        }
    }

    fn prepare(&self, _: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        Box::pin(std::future::ready(Ok(Arc::new(Self) as Arc<dyn Prepared>)))
    }
}

impl Prepared for Endless {
    fn select<'a>(&'a self, _: &'a str, _: &'a mut EpisodeCx<'_>) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        std::fs::write("computing", "").unwrap();
        std::thread::sleep(Duration::from_secs(600));
        unreachable!("nobody waits that long")
    }
}

const ENDLESS: &str = "TOOLGAUGE_TEST_ENDLESS";

/// No test by itself: the command as the next test starts it, with a strategy of its own.
#[test]
fn command_with_an_endless_strategy() {
    let Ok(atlas) = std::env::var(ENDLESS) else { return };
    let registry = strategies::builtin().with("endless", "computes without end", |NoParams {}| Endless);
    let args = ["toolgauge", "run", "-d", &atlas, "-s", "endless", "-n", "50", "--out", "a"];
    let _ = toolgauge_cli::run(registry, args.map(Into::into));
}

#[test]
fn a_second_signal_ends_what_cannot_be_drained() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process::command_with_an_endless_strategy", "--nocapture"]).current_dir(dir.path());
    command.env(ENDLESS, atlas()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for("computing", || dir.path().join("computing").exists());
    let started = Instant::now();
    for _ in 0..2 {
        signal(&child);
        std::thread::sleep(Duration::from_millis(200));
    }
    let (code, _, err) = outcome(&child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{err}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(err.contains("once more to end at once") && err.contains("resume with: toolgauge run --resume a"), "{err}");
    run_ok(dir.path(), &["list", "runs", "--dir", "."]);
}
