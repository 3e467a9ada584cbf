//! Whole runs against the project's own mock of a server.

use std::path::Path;
use std::process::Output;

use mock::{BlockingMock, Script, fixtures};

use crate::support::{atlas, episodes, outcome, root, toolgauge};

/// A run in `dir` with `concurrency` requests in flight.
fn run(dir: &Path, mock: &BlockingMock, concurrency: usize, strategies: &str) -> Output {
    let profile = format!("version = 1\nid = \"mock\"\nmodel = \"mock\"\nconcurrency = {concurrency}\n");
    std::fs::write(dir.join("profile.toml"), profile).unwrap();
    let mut command = toolgauge(dir);
    command.env("OPENAI_BASE_URL", mock.base_url()).env("TOOLGAUGE_MODEL", "mock").arg("run").arg("-d").arg(atlas());
    command.args(["-s", strategies, "-n", "50", "--sample", "12", "--profile", "profile.toml", "--out", "a"]);
    command.output().unwrap()
}

fn start(script: Script) -> BlockingMock {
    BlockingMock::start(script).unwrap()
}

#[test]
fn faults_that_pass_change_no_episode_and_every_attempt_is_in_the_servers_log() {
    let (calm, stormy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (code, _, err) = outcome(&run(calm.path(), &start(Script::default()), 3, "bm25-llm:k=3"));
    assert_eq!(code, 0, "{err}");
    // The first attempt at a third of all requests fails in some way.
    let script = Script::parse(
        r#"version = 1
        fault = [
            { name = "limit", when = { attempts = [1], share = 0.15 }, instead.error.kind = "rate_limit", retry_after.seconds = 0 },
            { name = "reset", when = { attempts = [1], share = 0.1 }, damage = { how = "reset", after = 30 } },
            { name = "half", when = { attempts = [1], share = 0.1 }, damage = { how = "truncate", after = 60 } },
        ]"#,
        "test",
    )
    .unwrap();
    let mock = start(script);
    let (code, _, err) = outcome(&run(stormy.path(), &mock, 3, "bm25-llm:k=3"));
    assert_eq!(code, 0, "{err}");
    let without_attempts = |dir: &Path| -> Vec<_> {
        episodes(&dir.join("a"))
            .into_iter()
            .map(|episode| (episode.outcome.clone(), episode.usage().0, episode.query))
            .collect()
    };
    assert_eq!(without_attempts(stormy.path()), without_attempts(calm.path()));
    let most = mock.most_in_flight();
    let log = mock.stop();
    assert!((1..=3).contains(&most), "{most} in flight");
    let struck = log.iter().filter(|entry| !entry.faults.is_empty()).count();
    assert!(struck > 0);
    assert!(log.iter().filter(|entry| entry.attempt == 2).count() >= struck, "what failed was asked for again");
    let store = harness::store::responses::ResponseStore::read(&stormy.path().join("a/responses.jsonl")).unwrap();
    assert_eq!(log.iter().filter(|entry| entry.faults.is_empty()).count(), store.len(), "what is good is stored");
    assert_eq!(store.failed_attempts(), struck);
}

#[test]
fn the_script_of_the_soak_can_be_read() {
    let script = Script::load(&root().join("scripts/soak.toml")).unwrap();
    let untouched: f64 = script.faults.iter().map(|fault| 1.0 - fault.when.share.unwrap()).product();
    assert!((untouched - 0.8).abs() < 0.005, "{untouched} of all requests meet no fault");
}

#[test]
fn row_05_a_server_that_cuts_prompts_is_suspected() {
    let dir = tempfile::tempdir().unwrap();
    let mock = start(fixtures::find("silent_truncation").unwrap().script());
    let (code, out, err) = outcome(&run(dir.path(), &mock, 2, "eager"));
    assert_eq!(code, 0, "{err}");
    assert!(mock.log().iter().any(|entry| entry.rules == ["truncated"]));
    assert!(out.contains("the endpoint seems to have cut the prompt silently"), "{out}");
}

#[test]
fn row_01_too_many_tools_are_not_runnable_and_never_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = fixtures::find("too_many_tools").unwrap().script();
    script.dialect.max_tools = Some(20);
    let mock = start(script);
    let (code, _, err) = outcome(&run(dir.path(), &mock, 2, "eager"));
    assert_eq!(code, 0, "{err}");
    let episodes = episodes(&dir.path().join("a"));
    assert!(!episodes.is_empty() && mock.log().iter().all(|entry| entry.rules == ["max_tools"]));
    for episode in episodes {
        assert_eq!(episode.outcome.label(), "not_runnable(tool_limit)", "{:?}", episode.outcome);
    }
}
