//! `kill -9` at random points: nothing committed is lost or asked again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use harness::ids::Digest;
use harness::store::responses::{Request, ResponseStore};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::server::{Answer, Server, model};
use crate::support::{atlas, episodes, toolgauge};

const KILLS: usize = 20;
/// The endpoint's configured identity: the two servers of the test have different ports and must be the same endpoint.
const PROFILE: &str = "version = 1\nid = \"test-endpoint\"\nmodel = \"m\"\nconcurrency = 4\n";

fn start(dir: &Path, server: &Server, run: &str) -> Child {
    let mut command = toolgauge(dir);
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m");
    if dir.join(run).join("manifest.json").exists() {
        command.args(["run", "--resume", run]);
    } else {
        let atlas = atlas();
        command.args([
            "run",
            "-s",
            "bm25-llm:k=2,skill-pick",
            "-n",
            "50",
            "--sample",
            "40",
            "--profile",
            "profile.toml",
        ]);
        command.arg("-d").arg(atlas).args(["--out", run]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn key(body: &serde_json::Value) -> Digest {
    let request = Request {
        route: "chat/completions".to_owned(),
        endpoint: "test-endpoint".to_owned(),
        repeat: 0,
        body: body.clone(),
    };
    request.key()
}

#[test]
fn killed_at_random_points_a_run_ends_as_if_it_had_not_been() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("profile.toml"), PROFILE).unwrap();
    let slow = |body: &serde_json::Value, _: &str| Answer::json(200, &model(body)).after(Duration::from_millis(25));
    let whole = Server::start(slow);
    assert!(start(dir.path(), &whole, "whole").wait().unwrap().success());

    let server = Server::start(slow);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let responses = dir.path().join("killed/responses.jsonl");
    let mut in_flight: BTreeSet<Digest> = BTreeSet::new();
    let mut committed: BTreeSet<Digest> = BTreeSet::new();
    let mut kills = 0;
    while kills < KILLS {
        let before = server.requests().len();
        let wanted = before + rng.random_range(1..=6);
        let mut child = start(dir.path(), &server, "killed");
        let started = Instant::now();
        while server.requests().len() < wanted && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(60), "the run makes no progress");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(rng.random_range(0..40_000)));
        assert!(child.try_wait().unwrap().is_none(), "the run ended after {kills} kills; give it more to do");
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        let asked_again: Vec<_> =
            server.requests()[before..].iter().map(key).filter(|key| committed.contains(key)).collect();
        assert!(asked_again.is_empty(), "committed answers were asked for again: {asked_again:?}");
        let store = ResponseStore::read(&responses).unwrap();
        committed = store.responses().into_iter().map(|(key, _)| key).collect();
        in_flight.extend(server.requests().iter().map(key).filter(|key| !committed.contains(key)));
    }
    let before = server.requests().len();
    assert!(start(dir.path(), &server, "killed").wait().unwrap().success());
    assert!(server.requests()[before..].iter().all(|body| !committed.contains(&key(body))));

    let mut seen = BTreeSet::new();
    for body in server.requests() {
        let key = key(&body);
        assert!(seen.insert(key.clone()) || in_flight.contains(&key), "asked twice and not in flight: {body}");
    }
    let expected = episodes(&dir.path().join("whole"));
    assert_eq!(expected.len(), 80);
    assert_eq!(episodes(&dir.path().join("killed")), expected);
}
