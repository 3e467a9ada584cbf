//! What `show` tells of an episode.

use std::fs;

use serde_json::json;

use crate::server::{Answer, Server, completion};
use crate::support::{atlas, episodes, outcome, run, run_ok, toolgauge};

/// The text without what differs from one machine to the next.
fn without_times(text: &str) -> String {
    let timeless = |line: &str| match line.rsplit_once(" · ") {
        Some((start, _)) if line.starts_with(" turn ") => format!("{start} · …"),
        _ => line.to_owned(),
    };
    text.lines().map(timeless).collect::<Vec<_>>().join("\n")
}

#[test]
fn outcomes_marks_groups_and_definitions_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let scripted = ["-n", "50", "--endpoint", "scripted:lexical", "--out", "a"];
    let strategies = ["run", "-d", &atlas, "-s", "oracle,bm25,bm25-llm:k=2"];
    run_ok(dir.path(), &[&strategies[..], &scripted[..]].concat());
    insta::assert_snapshot!("show", without_times(&run_ok(dir.path(), &["show", "a", "a0001"])));
    let full = run_ok(dir.path(), &["show", "a", "a0001", "-s", "bm25-llm k=2", "--full"]);
    insta::assert_snapshot!("show-full", without_times(&full));
    // Without the dataset everything but the judgement is told.
    let manifest = dir.path().join("a/manifest.json");
    let moved = fs::read_to_string(&manifest).unwrap().replace(&atlas, "nowhere");
    fs::write(&manifest, moved).unwrap();
    let bare = run_ok(dir.path(), &["show", "a", "a0001"]);
    assert!(bare.contains("ranked:") && bare.contains("call ") && !bare.contains('✓'), "{bare}");
}

#[test]
fn strategies_are_named_as_run_takes_them_and_what_is_there_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let flags = ["run", "-d", &atlas, "-s", "bm25,bm25-llm:k=[1,2]", "-n", "50,100", "--endpoint", "scripted:lexical"];
    run_ok(dir.path(), &[&flags[..], &["--out", "a"]].concat());
    let shown = |args: &[&str]| run_ok(dir.path(), &[&["show", "a", "a0001"], args].concat());
    let one = shown(&["-s", "bm25-llm:k=2", "-n", "50"]);
    assert_eq!(one.matches("── ").count(), 1, "{one}");
    assert_eq!(shown(&["-s", "bm25-llm k=2", "-n", "50"]), one);
    assert_eq!(shown(&["-s", "bm25-llm:k=[1,2]"]).matches("── ").count(), 4, "a grid names all of its labels");
    let refused = |args: &[&str]| {
        let (code, _, err) = run(dir.path(), &[&["show", "a"], args].concat());
        assert_eq!(code, 2, "{err}");
        err
    };
    let err = refused(&["a0001", "-s", "bm25-llm"]);
    let there = "query \"a0001\" is there, but not with these filters; strategies (-s): bm25, bm25-llm k=1, bm25-llm k=2; \
                 sizes (-n): 50 tools, 100 tools";
    assert!(err.contains(there), "{err}");
    assert!(refused(&["a0001", "-n", "70"]).contains("not with these filters"));
    let err = refused(&["a001"]);
    assert!(err.contains("no query \"a001\" in this run") && err.contains("did you mean"), "{err}");
}

#[test]
fn skills_views_and_own_calls_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let flags = ["run", "-d", &atlas, "-s", "skill-pick:max_skills=1", "--endpoint", "scripted:lexical"];
    run_ok(dir.path(), &[&flags[..], &["-n", "150", "--skills", "6", "--sample", "8", "--out", "a"]].concat());
    let asked = episodes(&dir.path().join("a"));
    let picked = asked.iter().find(|episode| !episode.skills.is_empty() && episode.view_tools == 150).unwrap();
    let query = picked.query.to_string();
    let shown = run_ok(dir.path(), &["show", "a", &query, "--full"]);
    assert!(shown.contains(" · 6 skills, 150 tools · "), "{shown}");
    assert!(shown.contains("   skills: ") && shown.contains("[calls select_skills {"), "{shown}");
    assert!(!run_ok(dir.path(), &["show", "a", &query]).contains("[calls select_skills {"), "only in full");
    // Somebody who may not call everything.
    run_ok(dir.path(), &["run", "-d", &atlas, "-s", "bm25", "-n", "all", "--out", "b"]);
    let narrow = episodes(&dir.path().join("b")).into_iter().find(|episode| episode.view_tools < episode.size).unwrap();
    let shown = run_ok(dir.path(), &["show", "b", narrow.query.as_str()]);
    assert!(shown.contains(&format!(" · 182 tools, {} in view · ", narrow.view_tools)), "{shown}");
}

/// Every way in which an episode can end has words, and they agree with the score.
#[test]
fn every_outcome_of_a_run_is_told_as_it_is_scored() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    for (endpoint, out) in [("scripted:lexical", "lexical"), ("scripted:first", "first"), ("scripted:silent", "silent")]
    {
        let args = ["run", "-d", &atlas, "-s", "bm25-llm:k=2", "-n", "50", "--endpoint", endpoint, "--out", out];
        run_ok(dir.path(), &args);
        let scores = fs::read_to_string(dir.path().join(out).join("report/scores.csv")).unwrap();
        let head: Vec<_> = scores.lines().next().unwrap().split(',').collect();
        let column = |name: &str| head.iter().position(|known| *known == name).unwrap();
        for row in scores.lines().skip(1).step_by(5) {
            let cells: Vec<_> = row.split(',').collect();
            let shown = run_ok(dir.path(), &["show", out, cells[column("query")]]);
            let told = shown.lines().skip_while(|line| !line.starts_with("── ")).nth(1).unwrap();
            let expected = match (cells[column("success")], cells[column("coverage_success")]) {
                ("1", _) => "   success",
                (_, "1") => "   coverage success, but no success: ",
                _ => "   no success: ",
            };
            assert!(told.starts_with(expected) && !told.ends_with(": "), "{row}\n{told}");
            assert_eq!(told.contains("wrong call"), cells[column("wrong_calls")] != "0", "{row}\n{told}");
            let covered = shown.lines().filter(|line| line.contains(" covered: ") && !line.contains("not covered"));
            assert_eq!(covered.count().to_string(), cells[column("covered")], "{row}\n{shown}");
        }
    }
}

#[test]
fn words_of_a_model_steer_no_terminal() {
    const EVIL: &str = "\u{1b}[2J\u{202e}\u{9b}31m";
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _| {
        let call = json!({"id": "c", "function": {"name": EVIL, "arguments": json!({ EVIL: EVIL }).to_string()}});
        Answer::json(200, &completion(&json!({"role": EVIL, "content": EVIL, "tool_calls": [call]})))
    });
    let mut command = toolgauge(dir.path());
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").arg("run").arg("-d").arg(atlas());
    command.args(["-s", "bm25-llm", "-n", "50", "--sample", "8", "--out", "a"]);
    let (code, _, err) = outcome(&command.output().unwrap());
    assert_eq!(code, 0, "{err}");
    let query = episodes(&dir.path().join("a"))[0].query.to_string();
    for extra in [&[][..], &["--full"]] {
        let shown = run_ok(dir.path(), &[&["show", "a", &query], extra].concat());
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(steers) && shown.contains("\\u{1b}[2J"), "{shown}");
    }
}
