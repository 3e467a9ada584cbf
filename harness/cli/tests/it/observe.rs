//! What can be seen of a run: its log, its events, its status line, its spans.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::server::{Answer, Server, model};
use crate::support::{atlas, episodes, outcome, run, run_ok, toolgauge};

const KEY: &str = "sk-do-not-show-5678";

/// Lines of the log of run `a`.
fn log(dir: &Path) -> (String, Vec<Value>) {
    let text = fs::read_to_string(dir.join("a/log.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (text, lines)
}

fn said<'l>(lines: &'l [Value], message: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["message"] == message).collect()
}

/// A server that breaks at the first conversation, refuses a parameter, and repeats the key wherever it can.
fn troubled() -> Server {
    let first = Mutex::new(None::<Value>);
    Server::start(move |body, authorization| {
        let mut first = first.lock().unwrap();
        if *first.get_or_insert_with(|| body["messages"].clone()) == body["messages"] {
            let message = format!("broken \u{1b}[31m {authorization}");
            return Answer::json(500, &json!({"error": {"message": message}}));
        }
        if body.get("max_tokens").is_some() {
            let message = format!("{authorization}: max_tokens is not supported, use max_completion_tokens");
            return Answer::json(400, &json!({"error": {"message": message}}));
        }
        let mut answer = model(body);
        answer["model"] = json!(authorization);
        answer["choices"][0]["message"]["reasoning"] = json!(authorization);
        Answer::json(200, &answer)
    })
}

#[test]
fn a_log_holds_what_a_person_wants_to_know_and_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = troubled();
    let ask = |extra: &[&str]| {
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").env("OPENAI_API_KEY", KEY);
        command.args(["run", "--concurrency", "1", "--max-failures", "1"]).args(extra);
        outcome(&command.output().unwrap())
    };
    let atlas = atlas().display().to_string();
    let (code, out, err) = ask(&["-d", &atlas, "-s", "bm25-llm", "-n", "50", "--sample", "3", "--out", "a"]);
    assert_eq!(code, 0, "{err}");
    let (text, lines) = log(dir.path());
    let [given_up] = said(&lines, "request given up")[..] else { panic!("{text}") };
    let facts = [&given_up["level"], &given_up["kind"], &given_up["status"], &given_up["attempts"]];
    assert_eq!(facts, [&json!("warn"), &json!("server"), &json!(500), &json!(4)]);
    assert_eq!(given_up["episode"]["strategy"], "bm25-llm");
    assert_eq!((&given_up["turn"]["span"], &given_up["turn"]["label"]), (&json!("outer"), &json!("agent")));
    let failed =
        episodes(&dir.path().join("a")).into_iter().find(|episode| episode.outcome.is_infra_failure()).unwrap();
    assert_eq!(given_up["episode"]["job"], failed.job.as_str());
    let [learned] = said(&lines, "learned what the endpoint takes")[..] else { panic!("{text}") };
    assert_eq!(learned["lesson"], "max_tokens was sent as max_completion_tokens");
    assert_eq!((&lines[0]["message"], &lines[0]["episodes"]), (&json!("run begun"), &json!(3)));
    assert_eq!((said(&lines, "episode failed").len(), said(&lines, "run ended").len()), (1, 1));
    assert!(said(&lines, "sent").is_empty() && said(&lines, "episode finished").is_empty(), "{text}");

    // Every word of every request and answer, written on behind what stands there.
    let (code, _, second) = ask(&["--resume", "a", "--log-level", "trace"]);
    assert_eq!(code, 0, "{second}");
    let (all, lines) = log(dir.path());
    assert!(all.starts_with(&text));
    assert_eq!(said(&lines, "sent").len(), 4, "{all}");
    assert_eq!(said(&lines, "received")[0]["attempt"]["route"], "chat/completions");
    for text in [&all, &out, &err, &second] {
        assert!(!text.contains("do-not-show") && !text.contains('\u{1b}'), "{text}");
    }
    assert!(all.contains("***"), "the place of the key is marked: {all}");
}

#[test]
fn a_log_has_a_level_and_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let args = ["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--sample", "2", "--out"];
    let out = run_ok(dir.path(), &[&args[..], &["none", "--no-log"]].concat());
    assert!(!dir.path().join("none/log.jsonl").exists());
    let mut command = toolgauge(dir.path());
    let (code, logged, err) = outcome(&command.args(args).arg("a").env("TOOLGAUGE_LOG", "debug").output().unwrap());
    assert_eq!((code, logged), (0, out), "{err}");
    let (text, lines) = log(dir.path());
    assert_eq!(said(&lines, "episode finished").len(), 2, "{text}");
    assert_eq!(said(&lines, "episode finished")[0]["episode"]["outcome"], "completed");
    // The flag wins over the variable.
    let mut command = toolgauge(dir.path());
    command.args(args).args(["quiet", "--log-level", "error"]).env("TOOLGAUGE_LOG", "trace");
    assert_eq!(outcome(&command.output().unwrap()).0, 0);
    assert_eq!(fs::read_to_string(dir.path().join("quiet/log.jsonl")).unwrap(), "");
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Each kind of event with its fields and their types, in the order in which they come.
fn shapes(events: &[Value]) -> String {
    let mut order: Vec<&str> = Vec::new();
    let mut fields: BTreeMap<&str, Vec<(&str, BTreeSet<&str>)>> = BTreeMap::new();
    for event in events {
        let name = event["event"].as_str().unwrap();
        if !order.contains(&name) {
            order.push(name);
        }
        let known = fields.entry(name).or_default();
        for (field, value) in event.as_object().unwrap() {
            match known.iter_mut().find(|(seen, _)| seen == field) {
                Some((_, kinds)) => {
                    kinds.insert(kind(value));
                }
                None => known.push((field.as_str(), BTreeSet::from([kind(value)]))),
            }
        }
    }
    let field = |(name, kinds): &(&str, BTreeSet<&str>)| {
        format!("\n  {name}: {}", kinds.iter().copied().collect::<Vec<_>>().join(" | "))
    };
    let lines =
        order.iter().map(|name| (*name).to_owned() + &fields[name].iter().map(field).collect::<String>() + "\n");
    lines.collect()
}

#[test]
fn events_are_lines_of_json_and_the_same_for_equal_runs() {
    let atlas = atlas().display().to_string();
    let scripted = ["-n", "50", "--sample", "2", "--endpoint", "scripted:lexical", "--concurrency", "1", "--out", "a"];
    let args = [&["run", "--json", "-d", &atlas, "-s", "bm25,bm25-llm:k=2"], &scripted[..]].concat();
    let told = || {
        let dir = tempfile::tempdir().unwrap();
        let out = run_ok(dir.path(), &args);
        assert!(dir.path().join("a/report/report.md").is_file());
        out
    };
    let out = told();
    assert_eq!(out, told());
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    insta::assert_snapshot!("events", shapes(&events));
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let episode = "episode";
    assert_eq!(names, ["planned", "started", episode, episode, episode, episode, "report", "finished"]);
    let last = &events[7];
    assert_eq!((&last["how"], &last["exit"], &last["episodes"]), (&json!("complete"), &json!(0), &json!(4)));
    let success = |wanted: bool| {
        let wanted = json!(wanted);
        json!(events.iter().filter(|event| event["success"] == wanted).count())
    };
    assert_eq!((&last["ok"], &last["wrong"]), (&success(true), &success(false)));
    assert_eq!(events[5]["done"], events[5]["of"]);
    assert_eq!(events[6]["path"], "a/report");
}

#[test]
fn an_error_is_the_last_event() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(dir.path(), &["run", "--json", "-d", "nowhere", "-s", "bm25"]);
    assert!(code != 0 && err.contains("nowhere"), "{code} {err}");
    let event: Value = serde_json::from_str(out.trim_end()).unwrap();
    assert_eq!((&event["event"], &event["exit"]), (&json!("failed"), &json!(code)));
    assert!(event["reason"].as_str().unwrap().contains("nowhere"), "{out}");
}

#[test]
fn off_a_terminal_a_short_run_has_two_status_lines() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let (code, _, err) = run(dir.path(), &["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--out", "a"]);
    assert_eq!(code, 0, "{err}");
    let all = episodes(&dir.path().join("a")).len();
    let status = |line: &&str| line.split_once('/').is_some_and(|(done, _)| done.parse::<usize>().is_ok());
    let lines: Vec<&str> = err.lines().filter(status).collect();
    // The first and the last; one more for every ten seconds of a slow machine.
    assert!((2..6).contains(&lines.len()) && all > 20, "{err}");
    assert!(lines[0].starts_with(&format!("1/{all} ranked 1")), "{err}");
    assert!(lines[lines.len() - 1].starts_with(&format!("{all}/{all} ranked {all}")), "{err}");
}

#[cfg(not(feature = "otel"))]
#[test]
fn what_was_not_built_in_is_refused_and_a_variable_for_others_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let args = ["run", "-d", &atlas, "-s", "bm25", "-n", "50", "--sample", "2", "--out"];
    let (code, _, err) = run(dir.path(), &[&args[..], &["a", "--otel"]].concat());
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--features otel") && !dir.path().join("a").exists(), "{err}");
    let mut command = toolgauge(dir.path());
    command.args(args).arg("b").env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    assert_eq!(outcome(&command.output().unwrap()).0, 0);
}

#[cfg(feature = "otel")]
mod otel {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use super::*;

    /// A collector that keeps the first line and the body of each request.
    fn collector() -> (String, Arc<Mutex<Vec<(String, Vec<u8>)>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(request) = receive(stream) {
                    kept.lock().unwrap().push(request);
                }
            }
        });
        (address, seen)
    }

    fn receive(stream: TcpStream) -> Option<(String, Vec<u8>)> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim().split_once(':') {
                _ if line.trim().is_empty() => break,
                _ if first.is_empty() => line.trim().clone_into(&mut first),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().ok()?
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut stream = stream;
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()?;
        Some((first, body))
    }

    fn holds(body: &[u8], words: &str) -> bool {
        body.windows(words.len()).any(|window| window == words.as_bytes())
    }

    #[test]
    fn spans_follow_the_conventions_and_hold_no_words_and_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let (server, (address, seen)) = (troubled(), collector());
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").env("OPENAI_API_KEY", KEY);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address).arg("run").arg("-d").arg(atlas());
        command.args(["-s", "bm25-llm", "-n", "50", "--sample", "3", "--concurrency", "1", "--max-failures", "1"]);
        let (code, _, err) = outcome(&command.args(["--out", "a"]).output().unwrap());
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("not all spans"), "{err}");
        let seen = seen.lock().unwrap();
        assert!(!seen.is_empty() && seen.iter().all(|(first, _)| first.starts_with("POST /v1/traces ")), "{seen:?}");
        let all: Vec<u8> = seen.iter().flat_map(|(_, body)| body).copied().collect();
        for words in [
            "chat m",
            "episode",
            "attempt",
            "toolgauge",
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.request.temperature",
            "gen_ai.request.max_tokens",
            "gen_ai.response.model",
            "gen_ai.response.finish_reasons",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "error.type",
            "server.address",
            "127.0.0.1",
            "request given up",
        ] {
            assert!(holds(&all, words), "no {words:?}");
        }
        let asked = server.requests();
        let question = asked[0]["messages"][1]["content"].as_str().unwrap();
        for words in ["do-not-show", question, "Done."] {
            assert!(!holds(&all, words), "{words:?} left");
        }
    }

    #[test]
    fn a_collector_that_is_away_spoils_no_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = toolgauge(dir.path());
        command
            .arg("run")
            .arg("-d")
            .arg(atlas())
            .args(["-s", "bm25", "-n", "50", "--sample", "2", "--otel", "--out", "a"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let (code, _, err) = outcome(&command.env("OTEL_EXPORTER_OTLP_ENDPOINT", address).output().unwrap());
        assert_eq!(code, 0, "{err}");
        assert_eq!(episodes(&dir.path().join("a")).len(), 2);
    }
}
