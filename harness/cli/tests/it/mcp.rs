//! `toolgauge import mcp` against servers of our own, good and bad: child processes (`tests/fixtures/mcp_server.py`) and HTTP on
//! loopback.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Map, Value, json};

use crate::mcp_http::{McpServer, Way};
use crate::support::{outcome, toolgauge};

/// A value that must show nowhere.
pub(crate) const KEY: &str = "sk-hidden-12345";

/// A fake server as an entry of the configuration.
pub(crate) fn fake(way: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mcp_server.py");
    json!({"command": "python3", "args": [script, way], "env": {"API_KEY": "${FAKE_KEY}"}})
}

pub(crate) fn with_args(mut server: Value, more: &[&str]) -> Value {
    server["args"].as_array_mut().unwrap().extend(more.iter().map(|&arg| Value::from(arg)));
    server
}

/// Imports these servers into `out`.
pub(crate) fn import(dir: &Path, servers: &[(&str, Value)], flags: &[&str]) -> (i32, String, String) {
    outcome(&import_raw(dir, servers, flags))
}

pub(crate) fn import_raw(dir: &Path, servers: &[(&str, Value)], flags: &[&str]) -> Output {
    let servers: Map<_, _> = servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    std::fs::write(dir.join("servers.json"), json!({"mcpServers": servers}).to_string()).unwrap();
    let mut command = toolgauge(dir);
    command.args(["import", "mcp", "servers.json", "--out", "out"]).args(flags);
    command.env("FAKE_KEY", KEY).env("OTHER_KEY", "sk-not-for-servers").output().unwrap()
}

/// Times differ from run to run.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        if words[at].starts_with('s') && words[at - 1].parse::<f64>().is_ok() && words[at - 1].contains('.') {
            "…".clone_into(&mut words[at - 1]);
        }
    }
    words.join(" ")
}

pub(crate) fn file(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join("out").join(name)).unwrap()
}

/// Every file below a folder, as one text.
pub(crate) fn everything(dir: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        all += &if entry.is_dir() { everything(&entry) } else { std::fs::read_to_string(&entry).unwrap() };
    }
    all
}

#[test]
fn good_servers_become_a_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let servers = [
        ("plain", fake("plain")),
        ("pages", fake("paged")),
        ("old", fake("old")),
        ("modern", fake("modern")),
        ("blank", fake("paged-empty-cursor")),
    ];
    let (code, out, err) = import(dir.path(), &servers, &["--parallel", "2"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_snapshot!(out);
    assert_snapshot!(file(dir.path(), "servers.jsonl") + &file(dir.path(), "tools/plain.jsonl"));
    assert_eq!(file(dir.path(), "tools/pages.jsonl").lines().count(), 4, "t0 to t3");
    let loaded = datasets::load(&dir.path().join("out")).unwrap();
    assert_eq!(loaded.catalogue.tools.len(), 2 + 4 + 2 + 2 + 1);
    // The same servers, the same snapshot: the revision is a digest of what is in it.
    let first = file(dir.path(), "dataset.toml");
    assert_eq!(import(dir.path(), &servers, &["--overwrite"]).0, 0);
    assert_eq!(file(dir.path(), "dataset.toml"), first);
    assert_eq!(import(dir.path(), &servers[..2], &["--overwrite"]).0, 0);
    assert_ne!(file(dir.path(), "dataset.toml"), first);
}

#[test]
fn bad_servers_are_reported_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let servers = [
        ("good", fake("plain")),
        ("noisy", fake("noisy")),
        ("dies", fake("dies")),
        ("dies-later", fake("dies-later")),
        ("closes", fake("closes")),
        ("refuses", fake("refuses")),
        ("list-error", fake("list-error")),
        ("wrong-greeting", fake("wrong-greeting")),
        ("no-array", fake("no-array")),
        ("loop", fake("loop")),
        ("endless", fake("endless")),
        ("many", fake("many")),
        ("duplicates", fake("duplicates")),
        ("malformed", fake("malformed")),
        ("not-a-number", fake("not-a-number")),
        ("half-a-character", fake("half-a-character")),
        ("cut-answer", fake("cut-answer")),
        ("unnumbered-error", fake("unnumbered-error")),
        ("shapeless-error", fake("shapeless-error")),
        ("asks-and-tells", fake("asks-and-tells")),
        ("empty", fake("empty")),
        ("leaks", fake("repeats-key")),
        ("unset", json!({"command": "x", "env": {"KEY": "${TOOLGAUGE_NEVER_SET}"}})),
        ("missing", json!({"command": "no-such-program-here"})),
        ("nowhere", json!({"command": "python3", "cwd": "no/such/folder"})),
        ("last", fake("plain")),
    ];
    let output = import_raw(dir.path(), &servers, &["--parallel", "1"]);
    let (code, out, err) = outcome(&output);
    assert!(!err.contains("within"), "no server costs the time that it has: {err}");
    assert_eq!(code, 0, "{out}{err}");
    assert_snapshot!(out);
    assert_snapshot!(without_times(&err));
    assert!(!output.stderr.contains(&0x1b) && !output.stdout.contains(&0x1b), "nothing steers a terminal");
    for text in [&out, &err, &everything(&dir.path().join("out"))] {
        assert!(!text.contains(KEY), "{text}");
    }
    for name in ["not-a-number", "half-a-character"] {
        assert_eq!(file(dir.path(), &format!("tools/{name}.jsonl")).lines().count(), 2, "{name}: all but one");
    }
}

/// Whether a process with this id runs. A zombie does not.
fn alive(id: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat"))
        .map_or_else(|_| !Path::new("/proc/self").exists() && ps(id), |stat| !stat.contains(") Z"))
}

fn ps(id: &str) -> bool {
    std::process::Command::new("ps").args(["-p", id]).output().is_ok_and(|output| output.status.success())
}

/// Ids that a fake server wrote, once they are there.
fn ids(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

fn assert_gone(ids: &[String]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while ids.iter().any(|id| alive(id)) {
        assert!(Instant::now() < deadline, "{ids:?} still run");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn servers_that_never_answer_are_ended_with_all_that_they_started() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let servers = [
        ("silent", with_args(fake("silent"), &[&pids.display().to_string()])),
        ("never-lists", fake("never-lists")),
        ("good", fake("plain")),
    ];
    let (code, out, err) = import(dir.path(), &servers, &["--timeout", "2.5s"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("no answer to `initialize` within 2.5 s"), "{err}");
    assert!(err.contains("no answer to `tools/list` within 2.5 s"), "{err}");
    assert!(err.contains("  stderr: waiting for a database"), "{err}");
    assert!(out.contains("servers 1, tools 2"), "{out}");
    let ids = ids(&pids);
    assert_eq!(ids.len(), 2);
    assert_gone(&ids);
}

#[test]
fn a_server_that_stays_after_its_listing_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let servers = [("stays", with_args(fake("stays"), &[&pids.display().to_string()]))];
    let (code, out, err) = import(dir.path(), &servers, &[]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("servers 1, tools 2"), "{out}");
    assert_gone(&ids(&pids));
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = import(dir.path(), &[("flood", fake("flood"))], &[]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("flood: it sent a line of more than 16 MiB"), "{err}");
    assert!(!dir.path().join("out").exists());
}

#[cfg(unix)]
#[test]
fn whoever_ends_us_ends_the_servers() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().join("pids");
        let server = with_args(fake("silent"), &[&pids.display().to_string()]);
        std::fs::write(dir.path().join("servers.json"), json!({"mcpServers": {"silent": server}}).to_string()).unwrap();
        let mut child = toolgauge(dir.path())
            .args(["import", "mcp", "servers.json", "--out", "out"])
            .env("FAKE_KEY", KEY)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !std::fs::read_to_string(&pids).is_ok_and(|text| text.contains(' ')) {
            assert!(Instant::now() < deadline, "the server did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        assert_gone(&ids(&pids));
        assert!(!dir.path().join("out").exists());
    }
}

#[test]
fn servers_get_none_of_our_keys() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(import(dir.path(), &[("env", fake("environment"))], &[]).0, 0);
    let tools = file(dir.path(), "tools/env.jsonl");
    assert!(tools.contains("\"API_KEY\"") && tools.contains("\"PATH\""), "{tools}");
    assert!(!tools.contains("OTHER_KEY") && !tools.contains("FAKE_KEY"), "{tools}");
}

#[test]
fn what_is_lost_is_an_error_if_strict_and_no_server_at_all_is_always_one() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = import(dir.path(), &[("good", fake("paged")), ("dies", fake("dies"))], &["--strict"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("1 × server that could not be listed"), "{err}");
    let (code, _, err) = import(dir.path(), &[("dies", fake("dies"))], &[]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("none of the servers could be listed"), "{err}");
    assert!(!dir.path().join("out").exists());
    assert_eq!(import(dir.path(), &[("good", fake("paged"))], &["--strict"]).0, 0);
}

#[test]
fn servers_over_http_are_listed_and_bad_ones_reported() {
    let dir = tempfile::tempdir().unwrap();
    let ways = [
        Way::Json,
        Way::Events,
        Way::Key(KEY),
        Way::Key("another"),
        Way::Html,
        Way::Redirect,
        Way::Broken,
        Way::Never,
        Way::Forbidden,
        Way::Resumed,
        Way::OddTool,
        Way::CutEvent,
        Way::Chatty,
    ];
    let started = ways.map(McpServer::start);
    let key = json!({"Authorization": "Bearer ${FAKE_KEY}"});
    let at = |index: usize| started[index].url.clone();
    let servers = [
        ("json", json!({"url": at(0)})),
        ("events", json!({"type": "http", "url": at(1) + "?key=${FAKE_KEY}"})),
        ("key", json!({"type": "streamable-http", "url": at(2), "headers": key})),
        ("no-key", json!({"url": at(3), "headers": key})),
        ("html", json!({"url": at(4)})),
        ("redirect", json!({"url": at(5), "headers": key})),
        ("broken", json!({"url": at(6)})),
        ("never", json!({"url": at(7)})),
        ("forbidden", json!({"url": at(8), "headers": key})),
        ("resumed", json!({"url": at(9)})),
        ("odd-tool", json!({"url": at(10)})),
        ("cut-event", json!({"url": at(11)})),
        ("chatty", json!({"url": at(12)})),
        ("down", json!({"url": "http://127.0.0.1:9/mcp?key=${FAKE_KEY}"})),
        ("header", json!({"url": at(0), "headers": {"X-Odd": "a\nb"}})),
        ("sse", json!({"type": "sse", "url": at(0)})),
    ];
    let (code, out, err) = import(dir.path(), &servers, &["--timeout", "5s", "--parallel", "16"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_snapshot!(out);
    // What the system says of a refused connection differs.
    let (down, rest): (Vec<_>, Vec<_>) = err.lines().partition(|line| line.starts_with("down: "));
    assert!(down[0].contains("http://127.0.0.1:9/mcp?***") && down[0].to_lowercase().contains("refused"), "{down:?}");
    let mut lines: Vec<_> = rest.into_iter().map(without_times).collect();
    lines.sort();
    assert_snapshot!(lines.join("\n"));
    assert_snapshot!(file(dir.path(), "servers.jsonl") + &file(dir.path(), "tools/json.jsonl"));
    for name in ["events", "resumed", "chatty"] {
        assert_eq!(file(dir.path(), "tools/json.jsonl"), file(dir.path(), &format!("tools/{name}.jsonl")), "{name}");
    }
    assert_eq!(file(dir.path(), "tools/odd-tool.jsonl").lines().count(), 1, "all but one");
    for text in [&out, &err, &everything(&dir.path().join("out"))] {
        assert!(!text.contains(KEY), "{text}");
    }
    let asked = started[2].requests();
    assert!(asked.iter().any(|request| request.contains(&format!("Bearer {KEY}"))), "{asked:?}");
    assert!(asked.iter().any(|request| request.contains("session-1")), "the session is kept: {asked:?}");
    assert!(started[12].requests().iter().any(|request| request.contains("\"result\":{}")), "a ping is answered");
}

#[test]
fn one_server_needs_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mcp_server.py");
    let line = format!("python3 '{}' plain", script.display());
    let run = |args: &[&str]| outcome(&toolgauge(dir.path()).args(["import", "mcp"]).args(args).output().unwrap());
    let (code, out, err) = run(&["--command", &line, "--server", "mine", "-o", "a"]);
    assert_eq!((code, dir.path().join("a/tools/mine.jsonl").exists()), (0, true), "{out}{err}");
    let server = McpServer::start(Way::Json);
    let (code, out, err) = run(&["--url", &server.url, "-o", "b"]);
    assert_eq!((code, dir.path().join("b/tools/mcp.jsonl").exists()), (0, true), "{out}{err}");
    for (args, part) in [
        (&["-o", "c"][..], "name a file, or --command, or --url"),
        (&["--command", "x", "--seed", "3", "-o", "c"], "option seed does not apply to importer mcp"),
        (&["--command", "a 'b", "-o", "c"], "quotes closed"),
        (&["--command", "", "-o", "c"], "expected a program"),
        (&["--url", "ftp://x", "-o", "c"], "http:// or https://"),
        (&["--url", "http://x", "--only", "y", "-o", "c"], "--only picks servers of a file"),
        (&["--command", "x", "--timeout", "soon", "-o", "c"], "--timeout \"soon\""),
        (&["--command", "x", "-o", "a"], "exists"),
    ] {
        let (code, _, err) = run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
    std::fs::write(dir.path().join("t.json"), "[]").unwrap();
    let misplaced =
        toolgauge(dir.path()).args(["import", "openai-tools", "t.json", "-o", "c", "--timeout", "1s"]).output();
    let (code, _, err) = outcome(&misplaced.unwrap());
    assert!(code == 2 && err.contains("--timeout belongs to `import mcp`"), "{err}");
    let servers = [("good", fake("plain")), ("dies", fake("dies"))];
    let (code, _, err) = import(dir.path(), &servers, &["--only", "god"]);
    assert!(code == 2 && err.contains("it has good, dies"), "{err}");
    let (code, _, err) = import(dir.path(), &servers, &["--server", "mine"]);
    assert!(code == 2 && err.contains("--server names a server of --command or --url"), "{err}");
    let (code, out, err) = import(dir.path(), &servers, &["--only", "good", "--strict", "--name", "my-set"]);
    assert_eq!(code, 0, "keys of the protocol are no loss: {out}{err}");
    assert!(file(dir.path(), "dataset.toml").contains("name = \"my-set\""));
}
