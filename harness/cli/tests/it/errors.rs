//! Bad input gets a clear error and the documented exit code, and nothing is lost.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::server::{Answer, Server, completion, model};
use crate::support::{atlas, atlas_copy, episodes, outcome, run, run_ok, toolgauge};

/// Runs with a model at the server.
fn ask(dir: &Path, server: &Server, extra: &[&str]) -> (i32, String, String) {
    let mut command = toolgauge(dir);
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").env("OPENAI_API_KEY", KEY);
    command.arg("run").arg("-d").arg(atlas()).args(["-s", "bm25-llm", "-n", "50", "--out", "a"]);
    let sample: &[&str] = if extra.contains(&"--sample") { &[] } else { &["--sample", "8"] };
    outcome(&command.args(sample).args(extra).output().unwrap())
}

/// A small run with a model that needs no server, in the folder `a`.
fn scripted_run(dir: &Path, endpoint: &str) {
    let atlas = atlas().display().to_string();
    let args =
        ["run", "-d", &atlas, "-s", "bm25-llm", "-n", "50", "--sample", "8", "--endpoint", endpoint, "--out", "a"];
    run_ok(dir, &args);
}

const KEY: &str = "sk-test-3f9c2a7be1d84c55";

#[test]
fn wrong_words_are_usage_errors_with_a_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let cases: [(&[&str], &str); 11] = [
        (&["-s", "bm25-lm"], "unknown strategy \"bm25-lm\", did you mean \"bm25-llm\"?"),
        (&["-s", "bm25:k=3"], "strategy \"bm25\": unknown parameter \"k\""),
        (&["-s", "bm25-llm:k=many"], "parameter `k`"),
        (&["-s", "bm25", "-n", "5000"], "182"),
        (&["-s", "bm25", "-n", "few"], "expected a number, or `all`"),
        (&["-s", "bm25", "--split", "tset"], "no query of split \"tset\"; the dataset has: dev, test"),
        (&["-s", "bm25,random", "--reference", "eager"], "there are: bm25, random"),
        (&["-s", "bm25-llm"], "set OPENAI_BASE_URL and TOOLGAUGE_MODEL"),
        // The oracle is a strategy like the others to whoever mistypes.
        (&["-s", "nothing-like-it"], "known: oracle, random, eager"),
        (&["-s", "orcale"], "did you mean \"oracle\"?"),
        (&["-s", "oracle:modle=false"], "unknown parameter \"modle\", did you mean \"model\"?"),
    ];
    for (args, expected) in cases {
        let (code, _, err) = run(dir.path(), &[&["run", "-d", &atlas], args].concat());
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    let (code, _, err) = run(dir.path(), &["run", "-s", "bm25"]);
    assert!(code == 2 && err.contains("name a folder with -d"), "{err}");
    let (code, _, err) = run(dir.path(), &["report", "nowhere"]);
    assert!(code == 2 && err.contains("is no run directory"), "{err}");
    let (code, _, err) = run(dir.path(), &["run", "-d", &atlas]);
    assert!(code == 2 && err.contains("known: oracle, random, eager"), "{err}");
}

#[test]
fn a_run_goes_on_only_with_the_profile_it_was_planned_with() {
    let dir = tempfile::tempdir().unwrap();
    let profile = "version = 1\nid = \"e\"\nmodel = \"m\"\ncontext_tokens = 8192\n";
    fs::write(dir.path().join("profile.toml"), profile).unwrap();
    let changed = profile.replace("8192", "4096") + "protocol = \"text\"\nmax_tools = 9\n";
    fs::write(dir.path().join("other.toml"), changed).unwrap();
    let atlas = atlas().display().to_string();
    let run_args = ["run", "-d", &atlas, "-s", "bm25-llm", "-n", "50", "--sample", "8", "--profile", "profile.toml"];
    run_ok(dir.path(), &[&run_args[..], &["--endpoint", "scripted:lexical", "--out", "a"]].concat());
    let (code, _, err) = run(dir.path(), &["run", "--resume", "a", "--profile", "other.toml"]);
    assert_eq!(code, 2, "{err}");
    let differ = "they differ in: context_tokens (8192 there, 4096 here), max_tools (unknown there, 9 here), \
                  protocol (\"native\" there, \"text\" here); start a new run";
    assert!(err.contains("other.toml: is not the profile") && err.contains(differ), "{err}");
    run_ok(dir.path(), &["run", "--resume", "a", "--profile", "profile.toml"]);
    // How much may be sent at once decides no answer.
    fs::write(dir.path().join("faster.toml"), format!("{profile}concurrency = 9\nrequests_per_minute = 600\n"))
        .unwrap();
    run_ok(dir.path(), &["run", "--resume", "a", "--profile", "faster.toml"]);
}

#[test]
fn a_broken_dataset_is_named_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let copy = atlas_copy(dir.path());
    let tools = copy.join("tools/agent.jsonl");
    let text = fs::read_to_string(&tools).unwrap();
    let first = text.lines().next().unwrap();
    fs::write(&tools, format!("{text}{first}\n{{\"name\": \n")).unwrap();
    let qrels = copy.join("qrels.jsonl");
    let labels = fs::read_to_string(&qrels).unwrap();
    fs::write(
        &qrels,
        format!("{labels}{{\"query\":\"a0001\",\"group\":9,\"tool\":\"agent/termnal\",\"relevance\":3}}\n"),
    )
    .unwrap();
    let (code, _, err) = run(dir.path(), &["run", "-d", "atlas", "-s", "bm25"]);
    assert_eq!(code, 3, "{err}");
    let last = format!("qrels.jsonl:{}:", labels.lines().count() + 1);
    for place in ["tools/agent.jsonl:8:", "tools/agent.jsonl:9:", &last, "terminal"] {
        assert!(err.contains(place), "{place}: {err}");
    }
    let (code, _, err) = run(dir.path(), &["run", "-d", "nowhere", "-s", "bm25"]);
    assert_eq!(code, 3, "{err}");
}

#[test]
fn unusable_endpoints_end_with_code_4_and_say_what_to_check() {
    let unauthorized =
        json!({"error": {"message": format!("Incorrect API key provided: {KEY}"), "code": "invalid_api_key"}});
    let no_model = json!({"error": {"message": "The model `m` does not exist", "code": "model_not_found"}});
    let cases = [
        (Answer::json(401, &unauthorized), "unauthorized"),
        (Answer::json(404, &no_model), "model_not_found"),
        (
            Answer { content_type: "text/html", ..Answer::json(404, &json!("<html><title>Not here</title></html>")) },
            "404",
        ),
    ];
    for (answer, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(move |_, _| answer.clone());
        let (code, out, err) = ask(dir.path(), &server, &[]);
        assert_eq!(code, 4, "{expected}: {err}");
        assert!(err.contains(expected), "{expected}: {err}");
        assert!(!format!("{out}{err}").contains(KEY), "the key is shown: {err}");
        for file in ["manifest.json", "responses.jsonl", "episodes.jsonl"] {
            assert!(
                !fs::read_to_string(dir.path().join("a").join(file)).unwrap().contains(KEY),
                "the key is in {file}"
            );
        }
    }
}

#[test]
fn an_endpoint_that_is_down_ends_the_run_early() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = toolgauge(dir.path());
    // Nothing listens on port 9 of loopback.
    command
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .env("TOOLGAUGE_MODEL", "m")
        .arg("run")
        .arg("-d")
        .arg(atlas());
    command.args(["-s", "bm25-llm", "-n", "50", "--sample", "8", "--out", "a"]);
    let (code, _, err) = outcome(&command.output().unwrap());
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("connect"), "{err}");
}

#[test]
fn answers_that_are_no_answers_are_failures_of_the_endpoint() {
    for (answer, expected) in [
        (
            Answer {
                content_type: "text/html",
                body: "<html><title>Login</title></html>".to_owned(),
                ..Answer::json(200, &json!(0))
            },
            "web page",
        ),
        (Answer::json(200, &json!({"id": "x"})), "choices"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(move |_, _| answer.clone());
        let (code, _, err) = ask(dir.path(), &server, &[]);
        assert_eq!(code, 4, "{err}");
        assert!(err.contains(expected), "{expected}: {err}");
    }
}

#[test]
fn an_endpoint_that_fails_now_and_then_ends_with_code_5_and_is_repaired_by_resume() {
    let dir = tempfile::tempdir().unwrap();
    let broken = Arc::new(AtomicBool::new(true));
    let (switch, answered) = (broken.clone(), AtomicBool::new(false));
    let server = Server::start(move |body, _| {
        let unlucky = body["messages"][1]["content"].as_str().unwrap_or_default().len() % 3 == 0;
        // Not before a first success: an endpoint that never answered counts as down.
        if unlucky && switch.load(Ordering::SeqCst) && answered.load(Ordering::SeqCst) {
            return Answer::json(400, &json!({"error": {"message": "no luck today"}}));
        }
        answered.store(true, Ordering::SeqCst);
        Answer::json(200, &model(body))
    });
    let (code, _, err) = ask(dir.path(), &server, &["--sample", "30"]);
    assert_eq!(code, 5, "{err}");
    let failed =
        |dir: &Path| episodes(&dir.join("a")).iter().filter(|episode| episode.outcome.is_infra_failure()).count();
    let unlucky = failed(dir.path());
    assert!(unlucky > 0 && unlucky < 30);
    assert!(err.contains(&format!("{unlucky} episodes failed for want of an answer")), "{err}");
    broken.store(false, Ordering::SeqCst);
    let mut command = toolgauge(dir.path());
    let resumed = command.args(["run", "--resume", "a"]).output().unwrap();
    let (code, _, err) = outcome(&resumed);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains(&format!("{unlucky} that failed are tried again")), "{err}");
    assert_eq!((failed(dir.path()), episodes(&dir.path().join("a")).len()), (0, 30));
}

#[test]
fn arguments_that_are_no_json_cost_a_turn_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| {
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let message = if last["role"] == "tool" {
            json!({"role": "assistant", "content": "I give up."})
        } else {
            json!({"role": "assistant", "tool_calls": [
                {"id": "c", "function": {"name": "terminal", "arguments": "{\"command\": "}}]})
        };
        Answer::json(200, &completion(&message))
    });
    let (code, _, err) = ask(dir.path(), &server, &[]);
    assert_eq!(code, 0, "{err}");
    let episode = &episodes(&dir.path().join("a"))[0];
    assert!(format!("{:?}", episode.turns[0].calls[0].verdict).contains("not valid JSON"));
}

#[test]
fn a_full_disk_is_said_and_the_run_can_go_on() {
    let dir = tempfile::tempdir().unwrap();
    // A limit on file size stands in for a full disk: the write fails in the same way, for root too.
    let line = format!(
        "trap '' XFSZ; ulimit -f 200; exec '{}' run -d '{}' -s bm25-llm,skill-pick -n 50 --endpoint scripted:lexical --out a",
        env!("CARGO_BIN_EXE_toolgauge"),
        atlas().display()
    );
    let output = Command::new("bash").arg("-c").arg(line).current_dir(dir.path()).output().unwrap();
    let (code, _, err) = outcome(&output);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a/episodes.jsonl") || err.contains("a/responses.jsonl"), "{err}");
    run_ok(dir.path(), &["run", "--resume", "a"]);
    assert_eq!(episodes(&dir.path().join("a")).len(), 144);
}

#[test]
fn a_half_written_last_line_is_cut_off_and_done_again() {
    let dir = tempfile::tempdir().unwrap();
    scripted_run(dir.path(), "scripted:lexical");
    let whole = episodes(&dir.path().join("a"));
    for file in ["a/episodes.jsonl", "a/responses.jsonl"] {
        let path = dir.path().join(file);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    }
    assert_eq!(episodes(&dir.path().join("a")).len(), whole.len() - 1);
    run_ok(dir.path(), &["run", "--resume", "a"]);
    assert_eq!(episodes(&dir.path().join("a")), whole);
}

#[test]
fn newer_formats_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    scripted_run(dir.path(), "scripted:silent");
    let manifest = dir.path().join("a/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    for command in [&["report", "a"][..], &["run", "--resume", "a"]] {
        let (code, _, err) = run(dir.path(), command);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("format version 2 is newer than 1"), "{err}");
    }
    fs::write(&manifest, text).unwrap();
    let store = dir.path().join("a/responses.jsonl");
    let header = json!({"log": "toolgauge-responses", "version": 2}).to_string();
    let sum = harness::ids::Digest::of(header.as_bytes()).as_str()[..16].to_owned();
    fs::write(&store, format!("{{\"sum\":\"{sum}\",\"rec\":{header}}}\n")).unwrap();
    fs::write(dir.path().join("a/episodes.jsonl"), "").unwrap();
    let (code, _, err) = run(dir.path(), &["run", "--resume", "a"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("responses.jsonl: format version 2 is newer"), "{err}");
}

#[test]
fn two_processes_cannot_work_on_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| Answer::json(200, &model(body)).after(std::time::Duration::from_millis(150)));
    let mut command = toolgauge(dir.path());
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").arg("run").arg("-d").arg(atlas());
    command.args(["-s", "bm25-llm", "-n", "50", "--sample", "30", "--out", "a"]);
    let mut first = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    while server.requests().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (code, _, err) = run(dir.path(), &["run", "--resume", "a"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("another process is working on this run"), "{err}");
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn an_existing_run_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let args = ["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--out", "a"];
    run_ok(dir.path(), &args);
    let (code, _, err) = run(dir.path(), &args);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("resume it with --resume"), "{err}");
}

#[test]
fn a_password_in_the_address_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    for address in ["http://user:sk-PASSWORD9@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=sk-PASSWORD9"] {
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", address).env("TOOLGAUGE_MODEL", "m").arg("run").arg("-d").arg(atlas());
        let (code, out, err) = outcome(&command.args(["-s", "eager", "-n", "50", "--out", "a"]).output().unwrap());
        assert_eq!(code, 2, "{err}");
        assert!(!format!("{out}{err}").contains("PASSWORD9"), "{err}");
        assert!(!dir.path().join("a").exists());
    }
}

#[test]
fn numbers_that_plan_nothing_or_fit_no_file_are_refused_first() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    fs::write(dir.path().join("nan.toml"), format!("dataset = {atlas:?}\n[loop]\ntemperature = nan\n")).unwrap();
    fs::write(dir.path().join("turns.toml"), format!("dataset = {atlas:?}\n[loop]\nmax_turns = 0\n")).unwrap();
    fs::write(dir.path().join("time.toml"), format!("dataset = {atlas:?}\n[loop]\nmax_episode_minutes = 0\n")).unwrap();
    let cases: [(&[&str], &str); 14] = [
        (&["-s", "bm25", "--max-minutes", "0"], "expected a number of minutes above 0"),
        (&["-s", "bm25", "--max-minutes", "inf"], "expected a number of minutes above 0"),
        (&["-s", "bm25", "--max-downtime", "soon"], "expected a time such as 90s, 10m or 1h"),
        (&["-s", "bm25", "--concurrency", "0"], "--concurrency"),
        (&["-c", "time.toml", "-s", "bm25"], "max_episode_minutes: expected a number above 0"),
        (&["-s", "bm25", "--sample", "0"], "--sample is 0"),
        (&["-s", "bm25", "--repeats", "0"], "repeats is 0"),
        (&["-s", "bm25", "--repeats", "100000000"], "at most 1000"),
        (&["-s", "bm25:k1=-5"], "expected 0 to 100"),
        (&["-s", "bm25:k1=1e308"], "expected 0 to 100"),
        (&["-s", "bm25-llm:k=0", "--endpoint", "scripted:silent"], "expected at least 1"),
        (&["-s", "bm25-llm:k=[]", "--endpoint", "scripted:silent"], "is an empty list"),
        (&["-c", "nan.toml", "-s", "bm25"], "temperature NaN"),
        (&["-c", "turns.toml", "-s", "bm25"], "max_turns is 0"),
    ];
    for (args, expected) in cases {
        let (code, _, err) = run(dir.path(), &[&["run", "-d", &atlas, "--out", "a"], args].concat());
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
        assert!(!dir.path().join("a").exists(), "{args:?}");
    }
}

#[test]
fn a_folder_that_holds_other_things_is_no_place_for_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let copy = atlas_copy(dir.path());
    let before = fs::read(copy.join("queries.jsonl")).unwrap();
    let (code, _, err) = run(dir.path(), &["run", "-d", "atlas", "-s", "bm25", "-n", "50", "--out", "atlas"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("is not empty and no run"), "{err}");
    assert_eq!(fs::read(copy.join("queries.jsonl")).unwrap(), before);
    assert!(!copy.join("plan.jsonl").exists());
}

#[test]
fn a_plan_that_lost_lines_is_damage_and_no_smaller_run() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--out", "a"]);
    run_ok(dir.path(), &["gate", "a", "--baseline", "base.json", "--write"]);
    let baseline = fs::read_to_string(dir.path().join("base.json")).unwrap();
    let fewer: Vec<_> = baseline.lines().enumerate().filter(|(line, _)| *line != 10).map(|(_, text)| text).collect();
    fs::write(dir.path().join("fewer.json"), fewer.join("\n")).unwrap();
    let (code, _, err) = run(dir.path(), &["gate", "a", "--baseline", "fewer.json"]);
    assert_eq!(code, 7, "{err}");
    assert!(err.contains("they are not the same"), "{err}");
    let plan = dir.path().join("a/plan.jsonl");
    let text = fs::read_to_string(&plan).unwrap();
    let kept: Vec<_> = text.lines().take(40).collect();
    fs::write(&plan, kept.join("\n") + "\n").unwrap();
    for command in [&["report", "a"][..], &["run", "--resume", "a"], &["gate", "a", "--baseline", "base.json"]] {
        let (code, out, err) = run(dir.path(), command);
        assert_eq!(code, 2, "{command:?}: {out}{err}");
        assert!(err.contains("40 jobs are planned, the manifest says 72"), "{err}");
    }
}

#[test]
fn missing_episodes_of_no_tool_queries_stay_outside_retrieval_means() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--out", "a"]);
    let means = || -> serde_json::Value {
        let summary: serde_json::Value =
            serde_json::from_str(&run_ok(dir.path(), &["report", "a", "--format", "json"])).unwrap();
        summary["sizes"][0]["rows"][0]["retrieval"].clone()
    };
    let whole = means();
    let lines = fs::read_to_string(dir.path().join("a/episodes.jsonl")).unwrap();
    // a0033 needs no tool; a0001 does and was found, so that losing it costs something.
    let without = |query: &str| {
        let kept: Vec<_> = lines.lines().filter(|line| !line.contains(&format!("\"query\":\"{query}\""))).collect();
        fs::write(dir.path().join("a/episodes.jsonl"), kept.join("\n") + "\n").unwrap();
    };
    without("a0033");
    assert_eq!(means(), whole);
    without("a0001");
    let less = means();
    assert_eq!(less["n"], whole["n"], "the denominator never shrinks");
    assert!(less["means"]["recall@5"].as_f64().unwrap() < whole["means"]["recall@5"].as_f64().unwrap());
}

#[test]
fn a_second_interrupt_drops_requests_that_hang() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| Answer::json(200, &model(body)).after(std::time::Duration::from_secs(120)));
    let mut command = toolgauge(dir.path());
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").arg("run").arg("-d").arg(atlas());
    command.args(["-s", "bm25-llm", "-n", "50", "--sample", "8", "--out", "a"]);
    let child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while server.requests().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    }
    let (code, _, err) = outcome(&child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{err}");
    let store = harness::store::responses::ResponseStore::read(&dir.path().join("a/responses.jsonl")).unwrap();
    assert!(store.possibly_billed() > 0, "what was in flight is listed");
}

#[test]
fn a_full_standard_output_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let output = toolgauge(dir.path()).args(["list", "strategies"]).stdout(full).output().unwrap();
    let (code, _, err) = outcome(&output);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("standard output"), "{err}");
}

#[test]
fn what_is_no_recording_is_not_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    fs::write(dir.path().join("profile.toml"), "version = 1\nid = \"e\"\nmodel = \"m\"\n").unwrap();
    for text in ["", "garbage"] {
        fs::write(dir.path().join("cassette"), text).unwrap();
        let args =
            ["run", "-d", &atlas, "-s", "bm25-llm", "-n", "50", "--replay", "cassette", "--profile", "profile.toml"];
        let (code, _, err) = run(dir.path(), &args);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("cassette:1: damaged"), "{err}");
    }
}
