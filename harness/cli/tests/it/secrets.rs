//! The key is in nothing that is written or printed, whatever a server does with it, and it goes nowhere else.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::store::responses::ResponseStore;
use serde_json::{Value, json};

use crate::server::{Answer, Server, completion, model};
use crate::support::{atlas, episodes, outcome, toolgauge};

const KEY: &str = "sk-Zq7/9f3c+2a7be1d84c55e0";
/// What stands for all spellings of the key in the answers of the server below.
const ECHO: &str = "ECHO";
/// How a stream tells the key.
const PIECES: [&str; 3] = ["sk-Zq7/9", "f3c+2a7be", "1d84c55e0"];

/// Without padding; `last` are the two characters by which the alphabets differ.
fn base64(text: &str, last: [char; 2]) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(last).collect();
    let sextets = text.as_bytes().chunks(3).flat_map(|chunk| {
        let bits = chunk.iter().chain([&0, &0]).take(3).fold(0_usize, |bits, byte| (bits << 8) | usize::from(*byte));
        (0..=chunk.len()).map(move |at| (bits >> (18 - 6 * at)) & 63)
    });
    sextets.map(|sextet| alphabet[sextet]).collect()
}

fn each_byte(text: &str, written: impl Fn(u8) -> String) -> String {
    text.bytes().map(written).collect::<Vec<_>>().concat()
}

/// A text as servers may write it into a JSON text: as it is, escaped once or twice, percent-encoded.
fn escaped(text: &str) -> Vec<String> {
    let unicode = each_byte(text, |byte| format!("\\u{byte:04x}"));
    let in_query = each_byte(text, |byte| match byte {
        byte if byte.is_ascii_alphanumeric() || byte == b'-' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    vec![
        text.to_owned(),
        text.replace('/', "\\/"),
        unicode.replace('\\', "\\\\"),
        unicode,
        in_query,
        each_byte(text, |byte| format!("%{byte:02x}")),
    ]
}

/// Every way in which the server below says the key.
fn spellings() -> Vec<String> {
    let mut all = escaped(KEY);
    all.push(format!("cut: {}", &KEY[..20]));
    for text in [KEY.to_owned(), format!("Bearer {KEY}"), format!("user:{KEY}")] {
        all.extend([['+', '/'], ['-', '_']].map(|last| base64(&text, last)));
    }
    all
}

/// What must be found nowhere: parts of the key in every spelling.
fn traces() -> Vec<String> {
    let mut all: Vec<String> = PIECES.iter().flat_map(|piece| escaped(piece)).collect();
    for before in 0..3 {
        let text = format!("{}{KEY}", &"..."[..before]);
        // Without the characters that also say something of what stands around the key.
        let own = (8 * before).div_ceil(6)..8 * text.len() / 6;
        all.extend([['+', '/'], ['-', '_']].map(|last| base64(&text, last)[own.clone()].to_owned()));
    }
    all
}

fn told(status: u16, body: &Value) -> Answer {
    let echo = spellings().join(" ");
    let headers = vec![format!("x-request-id: {}", echo.replace('\\', "")), "retry-after: 0".to_owned()];
    Answer { headers, body: body.to_string().replace(ECHO, &echo), ..Answer::json(status, &Value::Null) }
}

/// A server that says the key wherever it can: it answers, calls tools, is busy, refuses and fails, by what it is asked.
fn echoing(body: &Value, asked: &Mutex<HashSet<String>>, answered: &AtomicUsize) -> Answer {
    if body.is_null() {
        return told(200, &json!({"data": [{"id": "m"}, {"id": ECHO}], "note": ECHO}));
    }
    if body["stream"] == true {
        let event = |text: &str| json!({"id": ECHO, "choices": [{"delta": {"content": text}}]});
        let events: Vec<_> = PIECES.iter().map(|piece| format!("data: {}\n\n", event(piece))).collect();
        let stream = events.concat().replace(ECHO, &spellings().join(" ")) + "data: [DONE]\n\n";
        return Answer { content_type: "text/event-stream", body: stream, ..Answer::json(200, &Value::Null) };
    }
    let first = asked.lock().unwrap().insert(body.to_string());
    let messages = body["messages"].as_array().unwrap();
    let query = messages.get(1).and_then(|message| message["content"].as_str()).unwrap_or_default();
    let closing = messages.last().is_some_and(|message| message["role"] == "tool");
    let error = |code: &str| json!({"error": {"message": format!("{ECHO} {code}"), "code": code, "details": [ECHO]}});
    // An endpoint that fails before the first episode is through counts as down.
    let goes = answered.load(Ordering::SeqCst) > 8;
    match query.len() % 6 {
        1 if goes => return told(400, &error("no luck")),
        2 if goes => return told(400, &error("content_filter")),
        3 if first => return told(503, &error("overloaded")),
        _ => {}
    }
    answered.fetch_add(1, Ordering::SeqCst);
    let mut answer = if query.len() % 6 == 4 && !closing {
        completion(&json!({"role": "assistant", "content": ECHO, "tool_calls": [{"id": "c", "type": "function",
                           "function": {"name": ECHO, "arguments": format!("{{\"text\": \"{ECHO}\"}}")}}]}))
    } else {
        model(body)
    };
    if let Some(text) = answer["choices"][0]["message"]["content"].as_str() {
        answer["choices"][0]["message"]["content"] = json!(format!("{text} {ECHO}"));
    }
    (answer["model"], answer["system_fingerprint"]) = (json!(ECHO), json!({ECHO: [ECHO]}));
    told(200, &answer)
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
    found
}

fn assert_no_trace(dir: &Path, said: String) {
    let mut texts = files(dir);
    texts.push(("what was printed".to_owned(), said));
    let traces = traces();
    for (place, text) in texts {
        for trace in &traces {
            assert!(!text.contains(trace.as_str()), "{place} holds {trace}");
            assert!(!place.contains(trace.as_str()), "{place} is named by the key");
        }
    }
}

/// Exit code, and all that was printed.
fn gauge(dir: &Path, base_url: &str, args: &[&str]) -> (i32, String) {
    let mut command = toolgauge(dir);
    command.env("OPENAI_BASE_URL", base_url).env("TOOLGAUGE_MODEL", "m").env("OPENAI_API_KEY", KEY);
    let (code, out, err) = outcome(&command.args(args).output().unwrap());
    (code, format!("{args:?}: {code}\n{out}{err}"))
}

#[test]
fn the_key_is_in_nothing_that_is_written_or_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (asked, answered) = (Mutex::default(), AtomicUsize::new(0));
    let server = Server::start(move |body, authorization| {
        assert_eq!(authorization, format!("Bearer {KEY}"));
        echoing(body, &asked, &answered)
    });
    let mut said = String::new();
    let mut run = |args: &[&str]| {
        let (code, printed) = gauge(dir.path(), &server.base_url, args);
        said.push_str(&printed);
        (code, printed)
    };
    let atlas = atlas().display().to_string();
    let plan = ["run", "-d", &atlas, "-s", "bm25,bm25-llm", "-n", "50", "--sample", "30", "--max-failures", "99"];
    // What failed fails again, and nothing else is left.
    let must: [(i32, &[&str]); 8] = [
        (0, &[&plan[..], &["--out", "a", "--log-level", "trace"]].concat()),
        (4, &["run", "--resume", "a", "--max-failures", "99", "--json"]),
        (0, &["report", "a", "--cassette", "cassette.jsonl"]),
        (0, &["report", "a", "--format", "json"]),
        (0, &["rescore", "a"]),
        (0, &["gate", "a", "--baseline", "baseline.json", "--write"]),
        (0, &["gate", "a", "--baseline", "baseline.json"]),
        (0, &["list", "runs", "--dir", "."]),
    ];
    for (expected, args) in must {
        let (code, printed) = run(args);
        assert_eq!(code, expected, "{printed}");
    }
    // What has failed is in no recording: a replay ends there.
    run(&[&plan[..], &["--out", "b", "--replay", "a"]].concat());
    run(&[&plan[..], &["--out", "c", "--reuse", "cassette.jsonl"]].concat());
    let queries: BTreeSet<_> = episodes(&dir.path().join("a")).into_iter().map(|episode| episode.query).collect();
    for query in queries {
        let (code, printed) = run(&["show", "a", query.as_str(), "--full"]);
        assert_eq!(code, 0, "{printed}");
    }
    run(&["doctor", "--record", "log", "-o", "profile.toml"]);
    run(&["init", "--profile", "profile.toml"]);

    let store = ResponseStore::read(&dir.path().join("a/responses.jsonl")).unwrap();
    let failed = episodes(&dir.path().join("a")).iter().filter(|episode| episode.outcome.is_infra_failure()).count();
    assert!(failed > 0 && store.failed_attempts() > failed && !store.is_empty(), "every kind of answer was given");
    let stars = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap().contains("***");
    let written = ["a/responses.jsonl", "a/episodes.jsonl", "a/log.jsonl", "cassette.jsonl"];
    assert!(written.into_iter().all(stars), "the key was there");
    let log = files(&dir.path().join("log"));
    assert!(log.len() == 1 && log[0].1.lines().count() > 5 && log[0].1.contains("***"), "{said}");
    assert_no_trace(dir.path(), said);
}

#[test]
fn refusals_and_redirects_do_not_show_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let mut said = String::new();
    for (out, status) in [("a", 401), ("b", 302), ("c", 404)] {
        let server = Server::start(move |_, _| {
            let mut answer = told(status, &json!({"error": {"message": ECHO}}));
            answer.headers.push(format!("location: http://elsewhere.invalid/?key={KEY}"));
            answer
        });
        let args = ["run", "-d", &atlas, "-s", "bm25-llm", "-n", "50", "--sample", "8", "--out", out];
        let (code, printed) = gauge(dir.path(), &server.base_url, &args);
        assert_eq!(code, 4, "{printed}");
        let (_, examined) = gauge(dir.path(), &server.base_url, &["doctor", "--record", out]);
        said.extend([printed, examined]);
    }
    assert!(said.contains("***"), "{said}");
    assert_no_trace(dir.path(), said);
}

#[test]
fn a_key_in_the_wrong_place_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let with_key = format!("http://127.0.0.1:9/{}/v1", escaped(KEY).swap_remove(4));
    let good = "http://127.0.0.1:9/v1";
    let run = ["run", "-d", &atlas, "-s", "bm25-llm", "-n", "50", "--out", "a"];
    let named = [&run[..], &["--name", KEY]].concat();
    let mut said = String::new();
    for (base_url, model, args, words) in [
        (good, "m", &named[..], "the name of the run holds the API key"),
        (good, "m", &["doctor", "--id", KEY][..], "the id of the profile holds the API key"),
        (good, KEY, &run[..], "the name of the model holds the API key"),
        (with_key.as_str(), "m", &run[..], "the base URL holds the API key"),
        (with_key.as_str(), "m", &["doctor"][..], "the base URL holds the API key"),
        (good, "m", &["doctor", "--api-key-env", KEY][..], "is the name of an environment variable"),
    ] {
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", base_url).env("TOOLGAUGE_MODEL", model).env("OPENAI_API_KEY", KEY);
        let (code, out, err) = outcome(&command.args(args).output().unwrap());
        assert!(code == 2 && err.contains(words), "{code}: {err}");
        said.extend([out, err]);
    }
    assert!(files(dir.path()).is_empty());
    assert_no_trace(dir.path(), said);
}

#[cfg(unix)]
#[test]
fn a_key_file_is_its_owners_alone_and_named_nowhere() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let server = Server::start(|body, authorization| {
        if authorization == format!("Bearer {KEY}") { Answer::json(200, &model(body)) } else { told(401, &json!({})) }
    });
    let file = dir.path().join("kept-apart");
    fs::write(&file, format!("{KEY}\n")).unwrap();
    let mode = |mode: u32| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let run = |args: &[&str]| {
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m");
        let (code, out, err) = outcome(&command.args(args).output().unwrap());
        assert!(!format!("{out}{err}").contains(KEY), "{out}{err}");
        (code, err)
    };
    let plan = ["run", "-d", &atlas, "-s", "bm25-llm", "-n", "50", "--sample", "8"];
    let with_file = [&plan[..], &["--out", "a", "--api-key-file", "kept-apart"]].concat();
    mode(0o644);
    let (code, err) = run(&with_file);
    assert!(code == 2 && err.contains("(mode 644); run: chmod 600 kept-apart"), "{err}");
    assert!(!dir.path().join("a").exists());
    mode(0o600);
    let (code, err) = run(&with_file);
    assert_eq!(code, 0, "{err}");
    fs::write(dir.path().join("e.toml"), "[endpoint]\napi_key_file = \"kept-apart\"\n").unwrap();
    let (code, err) = run(&[&plan[..], &["--out", "b", "-c", "e.toml"]].concat());
    assert_eq!(code, 0, "{err}");
    for out in ["a", "b"] {
        for (place, text) in files(&dir.path().join(out)) {
            assert!(!text.contains("kept-apart") && !text.contains(KEY), "{place}");
        }
    }
    // An episode is done again, from stored answers; whoever goes on with a run is told that its key is not there.
    let path = dir.path().join("a/episodes.jsonl");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    let (code, err) = run(&["run", "--resume", "a"]);
    assert!(code == 0 && err.contains("needs --api-key-file again"), "{err}");
    // A recording needs no key, wherever its file is.
    fs::remove_file(&file).unwrap();
    let (code, err) = run(&[&plan[..], &["--out", "c", "-c", "e.toml", "--replay", "b"]].concat());
    assert_eq!(code, 0, "{err}");
}

#[test]
fn proxies_of_the_environment_are_used_and_loopback_goes_without() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let server = Server::start(|body, _| Answer::json(200, &model(body)));
    let run = |base_url: &str, proxy: &str, out: &str| {
        let mut command = toolgauge(dir.path());
        for name in ["http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
            command.env_remove(name);
        }
        command.env("HTTP_PROXY", proxy).env("OPENAI_BASE_URL", base_url);
        command.env("TOOLGAUGE_MODEL", "m").env("OPENAI_API_KEY", KEY);
        command.args(["run", "-d", &atlas, "-s", "bm25-llm", "-n", "50", "--sample", "8", "--out", out]);
        outcome(&command.output().unwrap())
    };
    // Nobody can resolve that name: only the proxy answers for it.
    let (code, _, err) = run("http://models.invalid/v1", server.base_url.trim_end_matches("/v1"), "a");
    assert_eq!(code, 0, "{err}");
    assert!(!server.requests().is_empty() && err.contains("the address begins with http:"), "{err}");
    // Nothing listens on port 9 of loopback.
    let (code, _, err) = run(&server.base_url, "http://127.0.0.1:9", "b");
    assert_eq!(code, 0, "{err}");
    assert!(!err.contains("the address begins with http:"), "{err}");
}
