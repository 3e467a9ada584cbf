//! When another process, the disk or the clock gets in the way: a clear error with its code, and nothing that was paid for is
//! lost. The server's own log is the judge. What is only an error is in `errors`, what a killed process leaves in `kill`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::ids::Digest;
use harness::run::dir::StoredRun;
use harness::run::manifest::Finish;
use harness::store::responses::ResponseStore;
use mock::{BlockingMock, Script};
use serde_json::{Value, json};

use crate::kill::comparable;
use crate::support::{atlas, episodes, outcome, request_key, run, run_ok, toolgauge, write_profile};

const EPISODES: usize = 30;

/// A folder with a profile in it, and a server that takes so long for each answer.
fn scene(delay_ms: u64) -> (tempfile::TempDir, BlockingMock) {
    let dir = tempfile::tempdir().unwrap();
    write_profile(dir.path(), 4);
    let script = format!("version = 1\nfault = [{{ name = \"slow\", delay_ms = {delay_ms} }}]");
    (dir, BlockingMock::start(Script::parse(&script, "durability").unwrap()).unwrap())
}

/// Arguments of a run with [`EPISODES`].
fn plan<'a>(atlas: &'a str, out: &'a str) -> Vec<&'a str> {
    let profile = ["--profile", "profile.toml", "--out", out];
    [&["run", "-d", atlas, "-s", "bm25-llm:k=2", "-n", "50", "--sample", "30"][..], &profile].concat()
}

fn at<'c>(command: &'c mut Command, mock: &BlockingMock) -> &'c mut Command {
    command.env("OPENAI_BASE_URL", mock.base_url()).env("TOOLGAUGE_MODEL", "m")
}

fn ask(dir: &Path, mock: &BlockingMock, args: &[&str]) -> (i32, String, String) {
    outcome(&at(&mut toolgauge(dir), mock).args(args).output().unwrap())
}

/// A run that its cap stops in the middle.
fn capped(dir: &Path, mock: &BlockingMock) {
    let atlas = atlas().display().to_string();
    let (code, _, err) = ask(dir, mock, &[&plan(&atlas, "a")[..], &["--max-tokens", "20000"]].concat());
    assert_eq!(code, 8, "{err}");
    let done = episodes(&dir.join("a")).len();
    assert!(done > 0 && done < EPISODES, "{done} episodes");
}

/// As [`ask`], where no file may grow above so many KiB, which fails as a full disk does, for root too.
fn ask_on_a_small_disk(dir: &Path, kib: u32, mock: &BlockingMock, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new("bash");
    let limit = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"");
    command.args(["-c", &limit, "bash", env!("CARGO_BIN_EXE_toolgauge")]).args(args).current_dir(dir);
    command.env_remove("OPENAI_API_KEY").env_remove("TOOLGAUGE_PROFILE").env_remove("TOOLGAUGE_LOG");
    outcome(&at(&mut command, mock).output().unwrap())
}

/// Requests whose answers are in the store.
fn committed(dir: &Path) -> BTreeSet<Digest> {
    let store = ResponseStore::read(&dir.join("a/responses.jsonl")).unwrap();
    store.responses().map(|answer| answer.unwrap().0).collect()
}

/// Requests that have come to the server, without the first ones.
fn asked(mock: &BlockingMock, skip: usize) -> BTreeSet<Digest> {
    mock.log().iter().skip(skip).map(|entry| request_key(&entry.body)).collect()
}

fn finish(dir: &Path) -> Finish {
    StoredRun::read(&dir.join("a")).unwrap().manifest.finish.unwrap()
}

/// A line of a log with its checksum.
fn sealed(record: &Value) -> String {
    let record = record.to_string();
    let sum = Digest::of(record.as_bytes());
    format!("{{\"sum\":\"{}\",\"rec\":{record}}}\n", &sum.as_str()[..16])
}

/// Changes the records of a store, whose checksums stay right.
fn rewrite(store: &Path, change: impl Fn(&mut Value)) {
    let mut text = String::new();
    for line in fs::read_to_string(store).unwrap().lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let mut record = line["rec"].take();
        change(&mut record);
        text.push_str(&sealed(&record));
    }
    fs::write(store, text).unwrap();
}

#[test]
fn of_two_processes_that_begin_one_run_at_once_one_makes_it() {
    let (dir, mock) = scene(30);
    let atlas = atlas().display().to_string();
    let start = || {
        let mut command = toolgauge(dir.path());
        at(&mut command, &mock).args(plan(&atlas, "a")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (first, second) = (start(), start());
    let mut ended = [first, second].map(|child| outcome(&child.wait_with_output().unwrap()));
    ended.sort();
    assert_eq!([ended[0].0, ended[1].0], [0, 2], "{ended:?}");
    let reasons = ["another process is working on this run", "exists already", "is not empty and no run"];
    assert!(reasons.iter().any(|reason| ended[1].2.contains(reason)), "{}", ended[1].2);
    assert_eq!(episodes(&dir.path().join("a")).len(), EPISODES);
    assert_eq!(asked(&mock, 0).len(), mock.arrived(), "nothing was asked twice");
}

#[test]
fn a_run_can_be_read_while_a_process_works_on_it() {
    let (dir, mock) = scene(100);
    let atlas = atlas().display().to_string();
    let mut command = toolgauge(dir.path());
    let command = at(&mut command, &mock).args(plan(&atlas, "a")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while fs::metadata(dir.path().join("a/episodes.jsonl")).map_or(0, |file| file.len()) == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "no episode");
        std::thread::sleep(Duration::from_millis(5));
    }
    run_ok(dir.path(), &["report", "a", "--out", "elsewhere"]);
    assert!(child.wait().unwrap().success());
    assert_eq!(episodes(&dir.path().join("a")).len(), EPISODES);
    assert_eq!(asked(&mock, 0).len(), mock.arrived());
}

#[test]
fn a_disk_that_is_full_before_the_plan_is_written_leaves_no_run() {
    let (dir, mock) = scene(0);
    let atlas = atlas().display().to_string();
    let (code, _, err) = ask_on_a_small_disk(dir.path(), 2, &mock, &plan(&atlas, "a"));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a/plan.jsonl"), "{err}");
    assert!(!dir.path().join("a/manifest.json").exists());
    assert_eq!(mock.arrived(), 0);
    // What was left is not in the way.
    let (code, _, err) = ask(dir.path(), &mock, &plan(&atlas, "a"));
    assert_eq!(code, 0, "{err}");
    assert_eq!(episodes(&dir.path().join("a")).len(), EPISODES);
}

#[test]
fn a_disk_that_fills_up_loses_no_answer_that_was_kept() {
    let (dir, mock) = scene(5);
    let atlas = atlas().display().to_string();
    let (code, _, err) = ask_on_a_small_disk(dir.path(), 64, &mock, &plan(&atlas, "a"));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a/responses.jsonl") || err.contains("a/episodes.jsonl"), "{err}");
    let kept = committed(dir.path());
    assert!(!kept.is_empty());
    // Answered by the server and written nowhere.
    let lost: BTreeSet<_> = asked(&mock, 0).difference(&kept).cloned().collect();
    let before = mock.arrived();
    let (code, _, err) = ask(dir.path(), &mock, &["run", "--resume", "a"]);
    assert_eq!(code, 0, "{err}");
    let again = asked(&mock, before);
    assert!(again.is_disjoint(&kept), "what was kept is asked for again");
    assert!(again.is_superset(&lost));
    assert_eq!(finish(dir.path()).possibly_billed, lost.len());
    assert_eq!(episodes(&dir.path().join("a")).len(), EPISODES);
}

#[test]
fn what_cannot_be_written_is_named_and_nothing_there_is_lost() {
    let (dir, mock) = scene(0);
    let dir = dir.path();
    fs::write(dir.join("file"), "somebody's").unwrap();
    let atlas = atlas().display().to_string();
    for out in ["file/a", "/proc/no-such-run"] {
        let (code, _, err) = ask(dir, &mock, &plan(&atlas, out));
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(out), "{err}");
    }
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "somebody's");
    assert_eq!(mock.arrived(), 0, "nothing is asked for that has no place");

    // A folder where a file should be: nobody can write it, root included.
    capped(dir, &mock);
    let (done, before) = (episodes(&dir.join("a")), mock.arrived());
    for name in ["lock", "episodes.jsonl", "responses.jsonl"] {
        let (path, aside) = (dir.join("a").join(name), dir.join("aside"));
        fs::rename(&path, &aside).unwrap();
        fs::create_dir(&path).unwrap();
        let (code, _, err) = ask(dir, &mock, &["run", "--resume", "a"]);
        assert_eq!(code, 2, "{name}: {err}");
        assert!(err.contains(&format!("a/{name}")), "{err}");
        fs::remove_dir(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    assert_eq!((episodes(&dir.join("a")), mock.arrived()), (done, before));

    // The end of the run cannot be written down: its episodes are.
    let partial = dir.join("a/manifest.partial");
    fs::create_dir(&partial).unwrap();
    let (code, _, err) = ask(dir, &mock, &["run", "--resume", "a"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a/manifest.json"), "{err}");
    assert_eq!((episodes(&dir.join("a")).len(), finish(dir).how.as_str()), (EPISODES, "capped"));
    fs::remove_dir(&partial).unwrap();
    let before = mock.arrived();

    let report = dir.join("a/report");
    fs::remove_dir_all(&report).unwrap();
    fs::write(&report, "somebody's").unwrap();
    let (code, _, err) = ask(dir, &mock, &["run", "--resume", "a"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a/report: "), "{err}");
    assert_eq!(fs::read_to_string(&report).unwrap(), "somebody's");
    fs::remove_file(&report).unwrap();
    let (code, _, err) = ask(dir, &mock, &["run", "--resume", "a"]);
    assert_eq!(code, 0, "{err}");
    assert!(report.join("report.md").is_file());
    assert_eq!((finish(dir).how.as_str(), mock.arrived()), ("complete", before));
}

#[test]
#[expect(clippy::disallowed_macros, reason = "a skipped test says so")]
fn a_read_only_run_is_read_and_not_resumed() {
    let (dir, mock) = scene(0);
    capped(dir.path(), &mock);
    let folder = dir.path().join("a");
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    for file in &files {
        mode(file, 0o444);
    }
    mode(&folder, 0o555);
    let before = mock.arrived();
    if fs::write(folder.join("probe"), "").is_ok() {
        eprintln!("skipped: modes do not bind this user, who is root; see the test before this one");
        return;
    }
    let (code, _, err) = ask(dir.path(), &mock, &["run", "--resume", "a"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a/lock"), "{err}");
    run_ok(dir.path(), &["report", "a", "--out", "elsewhere"]);
    assert_eq!(mock.arrived(), before);
    // Or the folder could not be removed.
    mode(&folder, 0o755);
}

#[test]
fn a_clock_that_went_back_before_the_resumption_costs_nothing() {
    let (dir, mock) = scene(0);
    capped(dir.path(), &mock);
    // As if everything so far had happened in a time to come.
    let later = json!("2999-12-31T23:59:59Z");
    rewrite(&dir.path().join("a/responses.jsonl"), |record| {
        if record.get("at").is_some() {
            record["at"] = later.clone();
        }
    });
    let path = dir.path().join("a/manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["started"] = later.clone();
    manifest["finish"]["at"] = later.clone();
    fs::write(&path, serde_json::to_string_pretty(&manifest).unwrap()).unwrap();

    let (kept, before) = (committed(dir.path()), mock.arrived());
    let (code, _, err) = ask(dir.path(), &mock, &["run", "--resume", "a"]);
    assert_eq!(code, 0, "{err}");
    assert!(asked(&mock, before).is_disjoint(&kept));
    let finish = finish(dir.path());
    assert_eq!((finish.how.as_str(), finish.possibly_billed), ("complete", 0));
    assert!(later.as_str().unwrap() > finish.at.as_str(), "the clock is back: {}", finish.at);
    run_ok(dir.path(), &["report", "a"]);
    // The same as without all that.
    let atlas = atlas().display().to_string();
    let (code, _, err) = ask(dir.path(), &mock, &plan(&atlas, "b"));
    assert_eq!(code, 0, "{err}");
    let by_job = |run: &str| {
        let mut episodes = comparable(&dir.path().join(run));
        // A run with a cap asks in an order of its own.
        episodes.sort_by(|a, b| a.job.cmp(&b.job));
        episodes
    };
    assert_eq!(by_job("a"), by_job("b"));
}

/// Arguments of a small run that needs no server.
fn scripted<'a>(atlas: &'a str, out: &'a str) -> Vec<&'a str> {
    let sample = ["--sample", "8", "--endpoint", "scripted:lexical", "--out", out];
    [&["run", "-d", atlas, "-s", "bm25-llm", "-n", "50"][..], &sample].concat()
}

#[test]
fn files_of_a_newer_format_are_refused_and_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &scripted(&atlas, "a"));
    let refused = |args: &[&str], file: &str| {
        let before = fs::read(dir.path().join(file)).unwrap();
        let (code, _, err) = run(dir.path(), args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(&format!("{file}: format version 2 is newer than 1")), "{args:?}: {err}");
        assert_eq!(fs::read(dir.path().join(file)).unwrap(), before, "{args:?} changed {file}");
    };
    let newer = |record: &mut Value| {
        if record.get("log").is_some() {
            record["version"] = json!(2);
        }
    };
    let store = dir.path().join("a/responses.jsonl");
    fs::copy(&store, dir.path().join("newer.jsonl")).unwrap();
    rewrite(&dir.path().join("newer.jsonl"), newer);
    for (flag, out) in [("--replay", "b"), ("--reuse", "c")] {
        refused(&[&scripted(&atlas, out)[..], &[flag, "newer.jsonl"]].concat(), "newer.jsonl");
    }

    // Episodes that would read as ours.
    let path = dir.path().join("a/episodes.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"schema\":1,", "\"schema\":2,", 1)).unwrap();
    for args in [&["report", "a"][..], &["run", "--resume", "a"]] {
        refused(args, "a/episodes.jsonl");
    }

    // The store of a run that has something left to do.
    let fewer: Vec<_> = text.lines().skip(1).collect();
    fs::write(&path, fewer.join("\n") + "\n").unwrap();
    rewrite(&store, newer);
    refused(&["run", "--resume", "a"], "a/responses.jsonl");
    assert_eq!(episodes(&dir.path().join("a")).len(), 7);
}

#[test]
fn a_last_line_that_ends_within_a_letter_hides_no_episode() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &scripted(&atlas, "a"));
    let whole = episodes(&dir.path().join("a"));
    let mut file = fs::OpenOptions::new().append(true).open(dir.path().join("a/episodes.jsonl")).unwrap();
    file.write_all(b"{\"schema\":1,\"strategy\":\"caf\xc3").unwrap();
    drop(file);
    run_ok(dir.path(), &["report", "a"]);
    assert_eq!(episodes(&dir.path().join("a")), whole);
}
