//! `doctor` and `init` as their users meet them.

use std::fs;
use std::path::Path;

use harness::endpoint::{OutputLimit, Profile, Protocol};
use harness::run::dir::StoredRun;
use serde_json::{Value, json};

use crate::server::{Answer, Server, model};
use crate::support::{atlas, outcome, run, toolgauge};

const KEY: &str = "sk-test-3f9c2a7be1d84c55";

/// Runs `doctor` against the server.
fn examine(dir: &Path, server: &Server, extra: &[&str]) -> (i32, String, String) {
    let mut command = toolgauge(dir);
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").env("OPENAI_API_KEY", KEY);
    outcome(&command.arg("doctor").args(extra).output().unwrap())
}

fn profile(dir: &Path) -> Profile {
    Profile::load(&dir.join("profile.toml")).unwrap()
}

/// A completion whose count grows with the prompt.
fn counted(body: &Value, message: &Value) -> Value {
    let prompt = body["messages"].to_string().len() / 4;
    json!({"model": "served", "choices": [{"message": message, "finish_reason": "stop"}],
           "usage": {"prompt_tokens": prompt, "completion_tokens": 5}})
}

/// A server that does most of what it is asked.
fn able(body: &Value) -> Answer {
    if body.is_null() {
        return Answer::json(200, &json!({"data": [{"id": "m"}, {"id": "n"}]}));
    }
    if body["stream"] == true {
        let body = "data: {\"choices\":[{\"delta\":{\"content\":\"The sea\"}}]}\n\n\
                    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
        let answer = Answer::json(200, &Value::Null);
        return Answer { content_type: "text/event-stream", body: body.to_owned(), ..answer };
    }
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let text = last["content"].as_str().unwrap_or_default();
    let digits = |word: &str| -> String {
        let behind = text.split_once(word).map_or("", |(_, behind)| behind);
        behind.chars().take_while(char::is_ascii_digit).collect()
    };
    let message = if body["tools"].is_array() && last["role"] != "tool" && text.contains("Oslo") {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
               "function": {"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"}}]})
    } else if body["response_format"].is_object() {
        json!({"role": "assistant", "content": "{\"colour\": \"blue\"}"})
    } else if text.contains("code word") {
        json!({"role": "assistant", "content": format!("{} {}", digits("walnut-"), digits("cobalt-"))})
    } else {
        json!({"role": "assistant", "content": "Sunny, 7 degrees."})
    };
    Answer::json(200, &counted(body, &message))
}

#[test]
fn an_endpoint_is_examined_and_an_experiment_runs_with_what_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| able(body));
    let atlas = atlas().display().to_string();
    let (code, out, err) = examine(dir.path(), &server, &["-d", &atlas, "--record", "log"]);
    assert_eq!(code, 0, "{out}{err}");
    for line in ["native tools    yes", "json schema     yes", "streaming       yes", "usage           yes"] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(out.contains("tested lower bound") && !out.contains("not tested"), "{out}");
    assert!(
        err.starts_with("asking http://127.0.0.1:") && err.contains("price unknown"),
        "the estimate comes first: {err}"
    );
    let found = profile(dir.path());
    assert_eq!(
        (found.protocol, found.output_limit, found.stream_usage),
        (Protocol::Native, OutputLimit::MaxTokens, Some(true))
    );
    assert!(found.context_tokens.is_none() && found.context_tested_tokens.unwrap() > 4_000);
    let log = fs::read_dir(dir.path().join("log")).unwrap().next().unwrap().unwrap().path();
    let log = fs::read_to_string(log).unwrap();
    let ids: Vec<String> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), server.requests().len());
    assert!(out.contains(&format!("[{}", ids[1])), "findings name their requests: {out}");

    let (code, out, err) = run(dir.path(), &["init", "-d", &atlas, "--profile", "profile.toml"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("toolgauge run -c experiment.toml --dry-run"), "{out}");
    let text = fs::read_to_string(dir.path().join("experiment.toml")).unwrap();
    let (code, _, err) = run(dir.path(), &["init", "-d", &atlas]);
    assert!(code == 2 && err.contains("exists and is not replaced"), "{err}");
    let asked = server.requests().len();
    let experiment = |extra: &[&str]| {
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", &server.base_url).env("OPENAI_API_KEY", KEY).args([
            "run",
            "-c",
            "experiment.toml",
        ]);
        outcome(&command.args(extra).output().unwrap())
    };
    let (code, _, err) = experiment(&["--dry-run"]);
    assert_eq!((code, server.requests().len()), (0, asked), "{err}");
    assert!(err.contains("eager") && err.contains("skill-pick"), "{err}");
    assert_eq!(fs::read_to_string(dir.path().join("experiment.toml")).unwrap(), text);
    let (code, _, err) =
        experiment(&["-n", "50", "--sample", "8", "-s", "bm25-llm", "--out", "a", "--reference", "bm25-llm"]);
    assert_eq!(code, 0, "{err}");
    let manifest = StoredRun::read(&dir.path().join("a")).unwrap().manifest;
    let tested = manifest.endpoint.unwrap().profile.tested.unwrap();
    assert!(tested.findings["native tools"].starts_with("yes: "), "the profile is in the manifest: {tested:?}");
}

#[test]
fn nothing_is_sent_for_what_is_wrong_from_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| able(body));
    fs::write(dir.path().join("profile.toml"), "mine").unwrap();
    let cases: [(&[&str], i32, &str); 9] = [
        (&[], 2, "replace it with --overwrite"),
        (&["-o", "new.toml", "--context"], 2, "agree with --yes"),
        (&["-o", "no/such/new.toml"], 2, "no such folder"),
        (&["-o", "new.toml", "--max-tokens", "5"], 2, "at least 1000"),
        (&["-o", "new.toml", "--budget", "soon"], 2, "--budget"),
        (&["-o", "new.toml", "--id", " "], 2, "--id is blank"),
        (&["-o", "new.toml", "--profile", "profile.toml"], 2, "profile.toml:1"),
        (&["-o", "new.toml", "-d", "nowhere"], 3, "nowhere"),
        (&["-o", "new.toml", "--base-url", "http://u:hunter22@h/v1"], 2, "holds credentials"),
    ];
    for (args, expected, words) in cases {
        let (code, out, err) = examine(dir.path(), &server, args);
        assert_eq!(code, expected, "{args:?}: {err}");
        assert!(err.contains(words) && !format!("{out}{err}").contains("hunter22"), "{args:?}: {err}");
    }
    assert!(server.requests().is_empty());
    assert_eq!(fs::read_to_string(dir.path().join("profile.toml")).unwrap(), "mine");
    let (code, _, err) = run(dir.path(), &["doctor", "-o", "new.toml"]);
    assert!(code == 2 && err.contains("set OPENAI_BASE_URL and TOOLGAUGE_MODEL"), "{err}");
    assert!(!dir.path().join("new.toml").exists());
}

#[test]
fn an_endpoint_without_a_completion_ends_with_code_4_and_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = json!({"error": {"message": "The model `m` does not exist", "code": "model_not_found"}});
    let server = Server::start(move |body, _| {
        if body.is_null() {
            Answer::json(200, &json!({"data": [{"id": "other"}]}))
        } else {
            Answer::json(404, &unknown)
        }
    });
    let (code, out, err) = examine(dir.path(), &server, &[]);
    assert_eq!((code, out.as_str()), (4, ""), "{err}");
    assert!(
        err.contains("model_not_found") && err.contains("check the name of the model") && err.contains("\"other\""),
        "{err}"
    );
    assert!(!dir.path().join("profile.toml").exists());
    let mut down = toolgauge(dir.path());
    down.env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1").env("TOOLGAUGE_MODEL", "m");
    let (code, _, err) = outcome(&down.args(["doctor", "--budget", "5s"]).output().unwrap());
    assert!(code == 4 && err.contains("start the server"), "{err}");
}

#[test]
fn the_key_shows_nowhere_and_no_text_of_the_server_steers_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, authorization| {
        let echo = format!("{authorization} \u{1b}[31m\n# evil = 1\r\u{202e}{authorization}");
        if body.is_null() {
            return Answer::json(200, &json!({"data": [{"id": echo}]}));
        }
        if body["stream"] == true {
            let event = json!({"choices": [{"delta": {"content": echo}}]});
            return Answer { body: format!("data: {event}\n\n"), ..Answer::json(200, &Value::Null) };
        }
        let called = json!({"role": "assistant", "content": echo, "tool_calls": [
            {"id": echo, "type": "function", "function": {"name": echo, "arguments": echo}}]});
        let refused = json!({"error": {"message": echo, "code": echo}});
        if body["response_format"].is_object() {
            return Answer::json(400, &refused);
        }
        let mut answer = counted(body, &called);
        answer["model"] = json!(echo);
        Answer::json(200, &answer)
    });
    let (code, out, err) = examine(dir.path(), &server, &["--record", "log", "--max-tokens", "20000"]);
    assert_eq!(code, 0, "{err}");
    let (code, json, _) = examine(dir.path(), &server, &["--json", "-o", "second.toml", "--max-tokens", "20000"]);
    assert_eq!(code, 0);
    let parsed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(parsed["profile_file"], "second.toml");
    let file = fs::read_to_string(dir.path().join("profile.toml")).unwrap();
    let log = fs::read_dir(dir.path().join("log")).unwrap().next().unwrap().unwrap().path();
    let log = fs::read_to_string(log).unwrap();
    for text in [&out, &err, &json, &file, &log] {
        assert!(!text.contains(KEY) && !text.contains('\u{1b}'), "{text}");
    }
    for text in [&out, &err, &json, &file] {
        assert!(!text.contains('\u{202e}'), "{text}");
    }
    assert!(out.contains("***"), "the place of the key is marked: {out}");
    assert_eq!(profile(dir.path()).model, "m");
}

#[test]
fn a_search_prints_what_it_may_take_and_finds_silent_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| {
        let mut answer = able(body);
        let mut parsed: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if parsed["usage"]["prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 2_048) {
            parsed["usage"]["prompt_tokens"] = json!(2_048);
            answer.body = parsed.to_string();
        }
        answer
    });
    fs::write(dir.path().join("prices.toml"), "date = \"2026-11-30\"\n[models.m]\ninput = 1.0\noutput = 2.0\n")
        .unwrap();
    let flags = ["--context", "--yes", "--max-tokens", "100000", "--prices", "prices.toml", "--overwrite"];
    let (code, out, err) = examine(dir.path(), &server, &flags);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("100000 tokens (at most $0.20)"), "{err}");
    assert!(err.contains("--context: prompts of up to"), "{err}");
    assert!(out.contains("SILENT TRUNCATION"), "{out}");
    assert_eq!(profile(dir.path()).context_tokens, Some(2_048));
}

#[test]
fn what_does_not_fit_the_time_is_listed_and_the_profile_written_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| able(body).after(std::time::Duration::from_millis(300)));
    let (code, out, err) = examine(dir.path(), &server, &["--budget", "2s"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("completion      yes") && out.contains("allow more with --budget"), "{out}");
    assert!(profile(dir.path()).tested.unwrap().findings["parallel calls"].starts_with("not tested: "));
}

#[test]
fn a_profile_decides_what_a_run_sends_and_an_address_in_the_file_needs_no_environment() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| Answer::json(200, &model(body)));
    let atlas = atlas().display().to_string();
    fs::write(
        dir.path().join("p.toml"),
        "version = 1\nid = \"e\"\nmodel = \"m\"\noutput_limit = \"max_completion_tokens\"\nomit_temperature = true\n",
    )
    .unwrap();
    fs::write(
        dir.path().join("e.toml"),
        format!("dataset = {atlas:?}\n[endpoint]\nprofile = \"p.toml\"\nbase_url = {:?}\n", server.base_url),
    )
    .unwrap();
    let (code, _, err) =
        run(dir.path(), &["run", "-c", "e.toml", "-s", "bm25-llm", "-n", "50", "--sample", "8", "--out", "a"]);
    assert_eq!(code, 0, "{err}");
    let request = &server.requests()[0];
    assert!(request["max_completion_tokens"].is_u64(), "{request}");
    assert!(request.get("max_tokens").is_none() && request.get("temperature").is_none(), "{request}");
    let report = fs::read_to_string(dir.path().join("a/report/report.md")).unwrap();
    assert!(report.contains("not sent"), "the report says so: {report}");
}
