//! The binary as a person starts it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use mock::fixtures;
use serde_json::Value;

use crate::support::calling;

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_toolgauge-mock"))
}

fn run(args: &[&str]) -> (i32, String, String) {
    let output = command().args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn fixtures_are_listed_and_shown() {
    let (code, out, _) = run(&["--list"]);
    assert_eq!((code, out.lines().count()), (0, fixtures::all().count()));
    assert!(out.starts_with(" 1  too_many_tools "), "{out}");
    assert!(out.lines().any(|line| line.starts_with("    flaky ")), "{out}");
    let (code, out, _) = run(&["--show", "unique_names"]);
    assert_eq!(code, 0);
    assert_eq!(
        mock::Script::parse(&out, "shown.toml").unwrap(),
        fixtures::find("unique_names").unwrap().script(),
        "what is shown can be used"
    );
}

#[test]
fn mistakes_end_with_a_word_and_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("s.toml");
    std::fs::write(&script, "version = 1\nsed = 1").unwrap();
    let script = script.display().to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, expected) in [
        (&["--fixture", "too_many_tool"][..], "did you mean \"too_many_tools\"?"),
        (&["--show", "nothing_like_it"], "see --list"),
        (&["--script", &script], "did you mean `seed`?"),
        (&["--script", "no/such.toml"], "no/such.toml: cannot be read"),
        (&["--port", &port], "the port may be taken"),
        (&["--host", "0.0.0.0"], "unexpected argument '--host'"),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

#[cfg(unix)]
#[test]
fn it_prints_its_url_serves_and_stops_on_either_signal() {
    for signal in ["-INT", "-TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log.jsonl");
        let mut child = command()
            .args(["--fixture", "arguments_as_object", "--log"])
            .arg(&log)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = line.trim_end();
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"), "{url}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = format!("{url}/chat/completions");
        let text = runtime.block_on(async {
            let client = harness::endpoint::http_client(&url, None).unwrap();
            client.post(&url).body(calling().to_string()).send().await.unwrap().text().await.unwrap()
        });
        let body: Value = serde_json::from_str(&text).unwrap();
        assert!(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].is_object());
        let signalled = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let (mut rest, mut err) = (String::new(), String::new());
        out.read_to_string(&mut rest).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((rest.as_str(), err.as_str()), ("", ""), "the URL is all that is printed");
        let entry: Value = serde_json::from_str(std::fs::read_to_string(&log).unwrap().trim_end()).unwrap();
        assert_eq!((&entry["status"], &entry["end"]), (&Value::from(200), &Value::from("answered")));
    }
}
