//! `toolgauge import mcp` and keys: none is printed or stored, and no definition is altered for one.

use std::path::Path;

use serde_json::{Value, json};

use crate::mcp::{KEY, everything, fake, file, import, with_args};
use crate::mcp_http::{McpServer, Way};
use crate::support::{outcome, toolgauge};

/// Everything that a run printed or wrote holds none of these.
fn assert_hidden(dir: &Path, printed: &[&str], keys: &[&str]) {
    let written = if dir.join("out").exists() { everything(&dir.join("out")) } else { String::new() };
    for text in printed.iter().copied().chain([written.as_str()]) {
        for key in keys {
            assert!(!text.contains(key), "{key} in {text}");
        }
    }
}

fn with_env(mut server: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        server["env"][name] = value.clone();
    }
    server
}

#[test]
fn what_a_server_was_given_is_not_printed_however_it_tells_it() {
    let dir = tempfile::tempdir().unwrap();
    let env = json!({
        "ENCODED": "p%40ss%2Fw0rd",
        "DATABASE_URL": "postgres://app:hunter22@db.host/orders",
        "GH_PAT": "gh-pat-998877",
        "CERTIFICATE": "-----BEGIN-----\nMIIabcdef\nMIIghijkl\n-----END-----",
        "JSON": r#"{"headers": {"Authorization": "Bearer j5on-token-1"}}"#,
        "BASIC": "Basic YXBwOmI0c2ljLXBhc3M=",
    });
    let given = ["--api-key", "l1teral-key", "--url=https://u:pa55w0rd@h/mcp?token=q9q9q9", "sk-p0sitional-1"];
    let servers: Vec<_> = (0..7)
        .map(|part| {
            let part = part.to_string();
            let args: Vec<_> = [part.as_str()].into_iter().chain(given).collect();
            (format!("tells-{part}"), with_env(with_args(fake("tells"), &args), &env))
        })
        .collect();
    let servers: Vec<_> = servers.iter().map(|(name, server)| (name.as_str(), server.clone())).collect();
    let (code, out, err) = import(dir.path(), &servers, &[]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(err.matches("  stderr: ").count() > 60 && err.matches("***").count() > 50, "{err}");
    let keys = [
        KEY,
        "sk%2Dhidden",
        "p@ss/w0rd",
        "p%40ss",
        "p%2540ss",
        "hunter22",
        "gh-pat-998877",
        "MIIabcdef",
        "MIIghijkl",
        "j5on-token-1",
        "b4sic-pass",
        "YXBwOmI0c2lj",
        "l1teral-key",
        "pa55w0rd",
        "q9q9q9",
        "sk-p0sitional-1",
    ];
    assert_hidden(dir.path(), &[&out, &err], &keys);
}

#[test]
fn no_end_of_what_is_kept_falls_into_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = import(dir.path(), &[("cuts", fake("cuts"))], &[]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("  stderr: the end: ***\n") && err.contains("(a line of more than 64 KiB)"), "{err}");
    assert_hidden(dir.path(), &[&err], &["sk-hid", "12345", "hidden"]);
}

#[test]
fn a_word_that_is_a_password_alters_no_definition() {
    let dir = tempfile::tempdir().unwrap();
    let servers = [("db", with_env(fake("word"), &json!({"DB_PASSWORD": "postgres"}))), ("other", fake("plain"))];
    let (code, out, err) = import(dir.path(), &servers, &[]);
    assert_eq!(code, 0, "{out}{err}");
    let reason = "the value of `env.DB_PASSWORD` occurs in tool 0 \"***_search\" at `/name`, and no key is stored; give it another \
                  value for the import, or, if it is no secret, add `--not-secret DB_PASSWORD`";
    assert!(err.contains(reason), "{err}");
    assert!(out.contains("servers 1, tools 2"), "{out}");
    assert_hidden(dir.path(), &[&out, &err], &["postgres"]);
    assert_eq!(
        import(dir.path(), &servers, &["--strict", "--overwrite"]).0,
        3,
        "what is left out is an error if strict"
    );
    let (code, out, err) = import(dir.path(), &servers, &["--not-secret", "DB_PASSWORD", "--overwrite"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(file(dir.path(), "tools/db.jsonl").contains(r#"{"name":"postgres_search","description":"Asks postgres.""#));
}

#[test]
fn keys_of_a_url_and_of_a_command_line_are_not_printed() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = toolgauge(dir.path());
        command.args(["import", "mcp", "-o", "out"]).args(args);
        outcome(&command.env("SERVICE_TOKEN", "correct-horse").output().unwrap())
    };
    let keys = [
        "sk-in-the-path-1",
        "querykey",
        "fragmentkey",
        "pa55w0rd",
        "cGE1NXcwcmQ",
        "correct-horse",
        "correct%2Dhorse",
        "flagkey",
    ];
    let url = "http://me:pa55w0rd@127.0.0.1:9/v1/sk-in-the-path-1/correct-horse?v=1&k=querykey#fragmentkey";
    let (code, out, err) = run(&["--url", url]);
    assert!(code == 4 && err.contains("127.0.0.1:9/v1/***"), "{err}");
    assert_hidden(dir.path(), &[&out, &err], &keys);
    let (code, out, err) = run(&["--command", "correct-horse --token flagkey"]);
    assert!(code == 4 && err.contains("its command \"***\" is not on the PATH"), "{err}");
    assert_hidden(dir.path(), &[&out, &err], &keys);
    // What it is told by somebody else is told on without what was sent.
    let server = McpServer::start(Way::Broken);
    let (code, out, err) = run(&["--url", &format!("{}/correct-horse", server.url)]);
    assert!(code == 4 && err.contains("status 500 Internal Server Error: stack trace"), "{err}");
    assert_hidden(dir.path(), &[&out, &err], &keys);
}

#[test]
fn a_dataset_with_somebody_s_work_in_it_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let servers = [("plain", fake("plain"))];
    assert_eq!(import(dir.path(), &servers, &[]).0, 0);
    assert_eq!(import(dir.path(), &servers, &["--overwrite"]).0, 0, "nothing of a person's is in it");
    for (name, content) in [
        ("queries.jsonl", "{\"query\": \"q1\"}\n"),
        ("qrels.jsonl", "{\"query\": \"q1\"}\n"),
        ("actors.jsonl", "{\"actor\": \"all\"}\n"),
        ("lint.toml", "version = 1\n"),
    ] {
        std::fs::write(dir.path().join("out").join(name), content).unwrap();
        let (code, _, err) = import(dir.path(), &servers, &["--overwrite"]);
        let said = format!("out holds \"{name}\", which this import does not write the same and would delete");
        assert!(code == 2 && err.contains(&said) && err.contains("import into another folder"), "{name}: {err}");
        assert_eq!(file(dir.path(), name), content);
        std::fs::remove_file(dir.path().join("out").join(name)).unwrap();
    }
}
