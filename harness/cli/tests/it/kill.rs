//! `kill -9` at random points, judged by the server's own log: nothing committed is lost or asked again.

mod ledger;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::episode::Episode;
use harness::run::dir::StoredRun;
use mock::{BlockingMock, Script};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use self::ledger::Ledger;
use crate::support::{atlas, episodes, toolgauge, write_profile};

/// Processes that must have died by the signal.
const KILLS: usize = 200;
/// Run directories at a time; each has a server of its own.
const WORKERS: usize = 2;
const QUERIES: usize = 24;
/// One strategy asks no model, one asks twice per query, one three times.
const STRATEGIES: &str = "bm25,bm25-llm:k=2,skill-pick";
const EPISODES: usize = 3 * QUERIES;
const SIGKILL: i32 = 9;

/// Small delays, and faults that pass with the next attempt or the one after, so that kills land in every state of a request.
const SCRIPT: &str = r#"version = 1
fault = [
    { name = "slow", delay_ms = 4 },
    { name = "slower", when.share = 0.3, delay_ms = 25 },
    { name = "limit", when = { attempts = [1], share = 0.05 }, instead.error.kind = "rate_limit", retry_after.seconds = 0 },
    { name = "broken", when = { attempts = [1], share = 0.04 }, instead.error.kind = "server" },
    { name = "overloaded", when = { attempts = [1, 2], share = 0.04 }, instead.error.kind = "overloaded" },
    { name = "reset", when = { attempts = [1], share = 0.04 }, damage = { how = "reset", after = 40 } },
    { name = "half", when = { attempts = [1], share = 0.04 }, damage = { how = "truncate", after = 60 } },
]"#;

fn server(seed: u64) -> BlockingMock {
    let mut script = Script::parse(SCRIPT, "kill").unwrap();
    script.seed = seed;
    BlockingMock::start(script).unwrap()
}

fn start(dir: &Path, mock: &BlockingMock, run: &str, api_key: &str) -> Child {
    let mut command = toolgauge(dir);
    command.env("OPENAI_BASE_URL", mock.base_url()).env("TOOLGAUGE_MODEL", "m").env("OPENAI_API_KEY", api_key);
    if dir.join(run).join("manifest.json").exists() {
        command.args(["run", "--resume", run]);
    } else {
        command.arg("run").arg("-d").arg(atlas()).args(["-s", STRATEGIES, "-n", "50", "--profile", "profile.toml"]);
        command.args(["--sample", &QUERIES.to_string(), "--out", run]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// When a process dies.
#[derive(Debug)]
enum Moment {
    /// So long after its start: while it reads, plans, or writes its first files.
    After(Duration),
    /// So many requests after its start, and a while later.
    Asked(usize, Duration),
    /// All episodes are written, and a while later: while it ends the manifest or writes the report.
    Written(Duration),
}

fn draw(rng: &mut ChaCha8Rng, written: usize) -> Moment {
    let kind = rng.random_range(0..8);
    if kind == 0 {
        return Moment::After(Duration::from_millis(rng.random_range(0..400)));
    }
    if written + 6 >= EPISODES && kind < 5 {
        return Moment::Written(Duration::from_millis(rng.random_range(0..300)));
    }
    Moment::Asked(rng.random_range(1..=8), Duration::from_micros(rng.random_range(0..30_000)))
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.matches('\n').count())
}

/// Waits for the moment and kills; or for the end, if that comes first.
fn live(mut child: Child, moment: &Moment, asked: impl Fn() -> usize, episodes: &Path) -> ExitStatus {
    let started = Instant::now();
    let pause = loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        let due = match moment {
            Moment::After(time) => (started.elapsed() >= *time).then_some(Duration::ZERO),
            Moment::Asked(count, pause) => (asked() >= *count).then_some(*pause),
            Moment::Written(pause) => (lines(episodes) >= EPISODES).then_some(*pause),
        };
        if let Some(pause) = due {
            break pause;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "the run makes no progress: {moment:?}");
        std::thread::sleep(Duration::from_millis(1));
    };
    std::thread::sleep(pause);
    // No error if it has just ended by itself; the status tells.
    child.kill().unwrap();
    child.wait().unwrap()
}

/// Episodes without what depends on where a run was cut: times, and the HTTP requests that an answer took. Those of a process
/// that died are not known to the one that got the answer.
pub(crate) fn comparable(run: &Path) -> Vec<Episode> {
    let mut episodes = episodes(run);
    for turn in episodes.iter_mut().flat_map(|episode| &mut episode.turns) {
        turn.attempts = 0;
    }
    episodes
}

/// Starts a run again and again until it completes; how many processes died, and how many with a request in flight.
fn kill_until_done(dir: &Path, seed: u64, expected: &[Episode]) -> (usize, usize) {
    let (mock, run) = (server(seed), format!("run-{seed}"));
    let folder = dir.join(&run);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ledger = Ledger::default();
    loop {
        let api_key = format!("key-of-process-{}-of-run-{seed}", ledger.lives());
        let moment = draw(&mut rng, lines(&folder.join("episodes.jsonl")));
        let before = mock.arrived();
        let child = start(dir, &mock, &run, &api_key);
        let status = live(child, &moment, || mock.arrived() - before, &folder.join("episodes.jsonl"));
        let killed = status.signal() == Some(SIGKILL);
        ledger.close(&api_key, &folder.join("responses.jsonl"), killed);
        if !killed {
            assert_eq!(status.code(), Some(0), "{run} ended by itself: {status}");
            break;
        }
        assert!(ledger.lives() < 10 * KILLS, "{run} never ends");
    }
    let verdict = ledger.judge(&mock.stop());
    assert_eq!(lines(&folder.join("episodes.jsonl")), EPISODES, "no episode is written twice");
    assert_eq!(comparable(&folder), expected, "{run} is not what an uninterrupted run is");
    let finish = StoredRun::read(&folder).unwrap().manifest.finish.unwrap();
    assert_eq!(finish.how, "complete");
    assert_eq!((finish.possibly_billed, finish.failed_attempts), (verdict.lost, verdict.failed), "{run}: {verdict:?}");
    assert!(verdict.lost_at_the_server <= verdict.lost, "{run}: {verdict:?}");
    let report = fs::read_to_string(folder.join("report/report.md")).unwrap();
    let said = format!("| possibly billed requests | {} |", verdict.lost);
    assert!(report.contains(&said), "{run}: the report does not say {said}");
    (ledger.lives() - 1, verdict.kills_in_flight)
}

#[test]
fn killed_at_random_points_a_run_ends_as_if_it_had_not_been() {
    let dir = tempfile::tempdir().unwrap();
    write_profile(dir.path(), 4);
    assert!(start(dir.path(), &server(0), "whole", "key-of-the-whole-run").wait().unwrap().success());
    let expected = comparable(&dir.path().join("whole"));
    assert_eq!(expected.len(), EPISODES);
    let (seeds, kills, in_flight) = (AtomicU64::new(1), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while kills.load(Ordering::SeqCst) < KILLS {
                    let seed = seeds.fetch_add(1, Ordering::SeqCst);
                    let (died, with_a_request) = kill_until_done(dir.path(), seed, &expected);
                    kills.fetch_add(died, Ordering::SeqCst);
                    in_flight.fetch_add(with_a_request, Ordering::SeqCst);
                }
            });
        }
    });
    let (kills, in_flight) = (kills.into_inner(), in_flight.into_inner());
    assert!(kills >= KILLS, "{kills} kills");
    assert!(in_flight >= KILLS / 4, "{in_flight} of {kills} kills found a request in flight");
}
