//! What `run` and its siblings do when all goes well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness::run::dir::StoredRun;

use crate::server::{Answer, Server, model};
use crate::support::{atlas, atlas_copy, episodes, outcome, root, run, run_ok, toolgauge};

fn scripted<'a>(atlas: &'a str, out: &'a str) -> Vec<&'a str> {
    vec![
        "run",
        "-d",
        atlas,
        "-s",
        "oracle,bm25,bm25-llm:k=2,skill-pick:max_skills=1",
        "-n",
        "50",
        "--sample",
        "12",
        "--endpoint",
        "scripted:lexical",
        "--out",
        out,
    ]
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_same_plan_and_answers_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let first = run_ok(dir.path(), &scripted(&atlas, "a"));
    assert!(!first.contains('\u{1b}'), "no colours off a terminal");
    // Again from the stored answers, in the same folder: nothing is left to do.
    let report = files(&dir.path().join("a/report"));
    let again = run_ok(dir.path(), &["run", "--resume", "a", "--offline"]);
    assert_eq!(again, first);
    assert_eq!(files(&dir.path().join("a/report")), report);
    // A new run that may only replay the first one's answers.
    let mut replay = scripted(&atlas, "b");
    replay.retain(|arg| !arg.starts_with("scripted") && *arg != "--endpoint");
    replay.extend(["--replay", "a"]);
    run_ok(dir.path(), &replay);
    assert_eq!(episodes(&dir.path().join("b")), episodes(&dir.path().join("a")));
    // What a recording lacks is asked for, and only that.
    let mut more = scripted(&atlas, "c");
    more.extend(["--reuse", "a", "--seed", "1"]);
    more.retain(|arg| *arg != "12");
    let at = more.iter().position(|arg| *arg == "--sample").unwrap();
    more.insert(at + 1, "16");
    run_ok(dir.path(), &more);
    let stored = |episode: &harness::episode::Episode| episode.turns.iter().all(|turn| turn.timing.stored);
    let reused = harness::run::dir::StoredRun::read(&dir.path().join("c")).unwrap().episodes;
    let asked: Vec<_> = reused.iter().filter(|episode| !episode.turns.is_empty()).collect();
    assert!(asked.iter().any(|episode| stored(episode)) && asked.iter().any(|episode| !stored(episode)));
    // Pure functions of what is stored.
    assert_eq!(run_ok(dir.path(), &["report", "a"]), first);
    assert_eq!(run_ok(dir.path(), &["rescore", "a"]), first);
}

#[test]
fn a_dry_run_plans_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let mut args = scripted(&atlas, "a");
    args.push("--dry-run");
    let (code, out, err) = run(dir.path(), &args);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("12 queries, a random subset of 72"), "{err}");
    assert!(err.contains("smallest difference in success this plan could show: none: 12 pairs are too few"), "{err}");
    assert!(files(dir.path()).is_empty());
}

/// The plan goes by what each actor has in view, and names the limit that is in the way.
#[test]
fn a_plan_says_for_how_many_queries_a_strategy_will_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let copy = atlas_copy(dir.path());
    let profile = |limit: &str| {
        let text = format!("version = 1\nid = \"x\"\nmodel = \"lexical\"\n{limit}\n");
        std::fs::write(dir.path().join("profile.toml"), text).unwrap();
    };
    let args = ["run", "-d", "atlas", "-s", "eager,bm25-llm", "-n", "all", "--endpoint", "scripted:lexical"];
    let plan = || {
        let (code, _, err) = run(dir.path(), &[&args[..], &["--profile", "profile.toml", "--dry-run"]].concat());
        assert_eq!(code, 0, "{err}");
        err.lines().find(|line| line.starts_with("eager ")).unwrap().to_owned()
    };
    let queries = std::fs::read_to_string(copy.join("queries.jsonl")).unwrap();
    let asked: Vec<serde_json::Value> = queries
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|query: &serde_json::Value| query["split"] == "test")
        .collect();
    let of_all = asked.iter().filter(|query| query["actor"].as_str().is_none_or(|actor| actor == "all")).count();
    let total = asked.len();
    assert!(of_all < total, "some actors have less in view");
    profile("max_tools = 150");
    let line = plan();
    assert!(line.contains(&format!("not runnable for {of_all} of {total} queries (tool limit)")), "{line}");
    profile("max_tools = 1");
    let line = plan();
    assert!(line.ends_with(&format!(" not runnable for {total} of {total} queries (tool limit)")), "{line}");
    profile("context_tokens = 2000");
    let line = plan();
    assert!(line.contains(" queries (context)") && !line.contains("tool limit"), "{line}");
}

#[test]
fn the_reference_is_a_contender_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let profile = "version = 1\nid = \"x\"\nmodel = \"lexical\"\ncontext_tokens = 4000\nmax_output_tokens = 256\n";
    std::fs::write(dir.path().join("small.toml"), profile).unwrap();
    let reference = |out: &str, more: &[&str]| {
        let args = ["run", "-d", &atlas, "-n", "50", "--sample", "8", "--endpoint", "scripted:lexical", "--out", out];
        run_ok(dir.path(), &[&args[..], more].concat());
        StoredRun::read(&dir.path().join(out)).unwrap().manifest.reference.unwrap()
    };
    assert_eq!(reference("a", &["-s", "random,oracle,bm25-llm,eager"]), "eager");
    assert_eq!(reference("b", &["-s", "random,oracle,bm25-llm:k=1,eager", "--profile", "small.toml"]), "bm25-llm k=1");
    assert_eq!(reference("c", &["-s", "oracle,random,bm25", "--mode", "first_call"]), "bm25");
    assert_eq!(reference("d", &["-s", "random,oracle"]), "random");
}

#[test]
fn caps_stop_cleanly_and_resume_finishes() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let mut args = scripted(&atlas, "a");
    args.extend(["--max-tokens", "20000"]);
    let (code, out, err) = run(dir.path(), &args);
    assert_eq!(code, 8, "{err}");
    assert!(err.contains("stopped at --max-tokens") && err.contains("toolgauge run --resume a"), "{err}");
    assert!(err.contains(&tokens_used(&dir.path().join("a")).0), "{err}");
    assert!(out.contains("! capped: a random subset of"), "what is left out is said in the open: {out}");
    run_ok(dir.path(), &["run", "--resume", "a"]);
    // The same jobs as without a cap, in another order.
    run_ok(dir.path(), &scripted(&atlas, "b"));
    let by_job = |run: &str| {
        let mut episodes = episodes(&dir.path().join(run));
        episodes.sort_by(|a, b| a.job.cmp(&b.job));
        episodes
    };
    assert_eq!(by_job("a"), by_job("b"));
    let mut more = scripted(&atlas, "c");
    more.extend(["--max-tokens", "1000000"]);
    let all = run_ok(dir.path(), &more);
    assert_eq!(episodes(&dir.path().join("c")), episodes(&dir.path().join("a")));
    assert!(!all.contains("subset of") && !all.contains("missing episodes"), "a cap that was not reached: {all}");
    // One answer reaches this cap, so the episode that it belongs to stays unfinished.
    let mut args = scripted(&atlas, "d");
    args.extend(["--max-tokens", "1"]);
    let (code, _, err) = run(dir.path(), &args);
    let (used, cut_off) = tokens_used(&dir.path().join("d"));
    assert!(code == 8 && cut_off > 0 && err.contains(&used), "{err}");
}

/// Tokens of all answers, and of those that no finished episode names.
fn tokens_used(run: &Path) -> (String, u64) {
    let store = harness::store::responses::ResponseStore::read(&run.join("responses.jsonl")).unwrap();
    let episodes = episodes(run);
    let finished: Vec<_> = episodes.iter().flat_map(|episode| &episode.turns).map(|turn| &turn.key).collect();
    let (mut all, mut cut_off) = (0, 0);
    for (key, response) in store.responses().map(Result::unwrap) {
        let tokens = harness::usage::Usage::parse(&response.body["usage"]).unwrap().total();
        all += tokens;
        cut_off += if finished.contains(&&key) { 0 } else { tokens };
    }
    let [all, unfinished] = [all, cut_off].map(harness::text::grouped);
    (format!(": {all} tokens used, of which {unfinished} in episodes that did not finish"), cut_off)
}

/// The summary of a run.
fn summary(dir: &Path, run: &str) -> serde_json::Value {
    serde_json::from_str(&run_ok(dir, &["report", run, "--format", "json"])).unwrap()
}

#[test]
fn a_capped_run_is_the_sample_of_as_many_queries() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let args = ["run", "-d", &atlas, "-s", "bm25,bm25-llm:k=2,skill-pick:max_skills=1", "-n", "50,100", "--endpoint"];
    let args = [&args[..], &["scripted:lexical"]].concat();
    let (code, _, err) = run(dir.path(), &[&args[..], &["--out", "a", "--max-tokens", "300000"]].concat());
    assert_eq!(code, 8, "{err}");
    let capped = summary(dir.path(), "a");
    let begun = capped["subset"]["begun"].as_u64().unwrap();
    assert!((2..70).contains(&begun), "{begun}");
    assert_eq!(capped["subset"]["planned"], 72);
    // All strategies and sizes are about the same queries.
    let planned = |summary: &serde_json::Value| -> Vec<u64> {
        let sizes = summary["sizes"].as_array().unwrap().iter();
        sizes.flat_map(|size| size["rows"].as_array().unwrap()).map(|row| row["planned"].as_u64().unwrap()).collect()
    };
    assert_eq!(planned(&capped), [begun; 6]);
    // They are those that `--sample` draws, and finished they give the same figures.
    run_ok(dir.path(), &[&args[..], &["--out", "b", "--sample", &begun.to_string()]].concat());
    let asked = |run: &str| -> BTreeSet<String> {
        episodes(&dir.path().join(run)).iter().map(|episode| episode.query.to_string()).collect()
    };
    assert_eq!(asked("a"), asked("b"));
    let whole = summary(dir.path(), "b");
    assert_eq!(planned(&whole), [begun; 6]);
    let shares = |summary: &serde_json::Value| -> Vec<serde_json::Value> {
        let sizes = summary["sizes"].as_array().unwrap().iter();
        sizes.flat_map(|size| size["rows"].as_array().unwrap()).map(|row| row["success"]["share"].clone()).collect()
    };
    if capped["subset"]["unfinished"].as_array().unwrap().is_empty() {
        assert_eq!(shares(&capped), shares(&whole));
    }
}

#[test]
fn minutes_stop_cleanly_and_resume_finishes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| Answer::json(200, &model(body)).after(Duration::from_millis(100)));
    let ask = |extra: &[&str]| {
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").arg("run");
        outcome(&command.args(extra).output().unwrap())
    };
    let atlas = atlas().display().to_string();
    let args =
        ["-d", &atlas, "-s", "bm25-llm,oracle", "-n", "50", "--sample", "40", "--out", "a", "--max-minutes", "0.03"];
    let (code, out, err) = ask(&args);
    assert_eq!(code, 8, "{err}");
    assert!(err.contains("stopped at --max-minutes"), "{err}");
    assert!(out.contains("! capped: a random subset of") && out.contains(" of 40 queries"), "{out}");
    let store = harness::store::responses::ResponseStore::read(&dir.path().join("a/responses.jsonl")).unwrap();
    assert_eq!(store.possibly_billed(), 0, "what was out was waited for");
    let (code, out, err) = ask(&["--resume", "a", "--concurrency", "16"]);
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains("a random subset of") && episodes(&dir.path().join("a")).len() == 80, "{out}");
    let most = StoredRun::read(&dir.path().join("a")).unwrap().manifest.finish.unwrap().most_in_flight;
    assert!((5..=16).contains(&most), "{most}");
}

#[test]
fn an_outage_is_waited_for_or_ends_the_run_and_nothing_fails_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (asked, down) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let (count, until) = (asked.clone(), down.clone());
    let server = Server::start(move |body, _| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        if n >= 10 && n < until.load(Ordering::SeqCst) {
            return Answer::json(500, &serde_json::json!({"error": {"message": "out of order"}}));
        }
        Answer::json(200, &model(body))
    });
    let ask = |extra: &[&str]| {
        let mut command = toolgauge(dir.path());
        command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").arg("run");
        outcome(&command.args(extra).output().unwrap())
    };
    let atlas = atlas().display().to_string();
    let args = ["-d", &atlas, "-s", "bm25-llm", "-n", "50", "--sample", "30", "--out", "a", "--max-downtime", "1s"];
    let (code, _, err) = ask(&args);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("paused: the endpoint answers nobody (server (status 500): out of order)"), "{err}");
    assert!(err.contains("no answer for 1 s") && err.contains("toolgauge run --resume a"), "{err}");
    assert!(asked.load(Ordering::SeqCst) < 40, "an endpoint that is down is left alone");
    let failed = || episodes(&dir.path().join("a")).iter().filter(|episode| episode.outcome.is_infra_failure()).count();
    assert_eq!(failed(), 0, "unfinished is not failed");
    // Another process, whose endpoint answers at first and then comes back after a while.
    asked.store(0, Ordering::SeqCst);
    down.store(14, Ordering::SeqCst);
    let (code, _, err) = ask(&["--resume", "a"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("resumed: the endpoint answers again"), "{err}");
    assert_eq!((failed(), episodes(&dir.path().join("a")).len()), (0, 30));
}

#[test]
fn an_interrupted_run_drains_and_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|body, _| Answer::json(200, &model(body)).after(Duration::from_millis(100)));
    let mut command = toolgauge(dir.path());
    command.env("OPENAI_BASE_URL", &server.base_url).env("TOOLGAUGE_MODEL", "m").arg("run").arg("-d").arg(atlas());
    command.args(["-s", "bm25-llm", "-n", "50", "--sample", "40", "--out", "a"]);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while server.requests().len() < 4 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let signalled = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let (code, _, err) = outcome(&child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{err}");
    assert!(err.contains("toolgauge run --resume a"), "{err}");
    let done = episodes(&dir.path().join("a"));
    assert!(!done.is_empty() && done.len() < 40, "{} episodes", done.len());
    // What was under way was finished: every request has its answer.
    let store = harness::store::responses::ResponseStore::read(&dir.path().join("a/responses.jsonl")).unwrap();
    assert_eq!(store.possibly_billed(), 0);
}

#[test]
fn the_gate_passes_fails_and_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let bm25 = |strategy: &'static str, out: &'static str| {
        run_ok(dir.path(), &["run", "-d", &atlas, "-s", strategy, "-n", "50", "--out", out]);
    };
    bm25("bm25", "a");
    run_ok(dir.path(), &["gate", "a", "--baseline", "base.json", "--write"]);
    let out = run_ok(dir.path(), &["gate", "a", "--baseline", "base.json", "--exact"]);
    assert!(out.ends_with("gate passed\n"), "{out}");
    // A baseline that promises more than the run holds.
    let text = std::fs::read_to_string(dir.path().join("base.json")).unwrap();
    let line = text.lines().find(|line| line.contains("[0.0,0.0,")).unwrap();
    std::fs::write(dir.path().join("high.json"), text.replace(line, &line.replace("[0.0,0.0,", "[1.0,1.0,"))).unwrap();
    let (code, out, _) = run(dir.path(), &["gate", "a", "--baseline", "high.json"]);
    assert_eq!(code, 6, "{out}");
    assert!(out.contains("FELL") && out.contains("1.000 → 0.000"), "{out}");
    // Another strategy version is no loss but no comparison either.
    bm25("bm25:k1=1.5", "b");
    let (code, _, err) = run(dir.path(), &["gate", "b", "--baseline", "base.json"]);
    assert_eq!(code, 7, "{err}");
    let strategies = err.split("they differ in: strategies (bm25 version ").nth(1).unwrap_or_else(|| panic!("{err}"));
    assert!(strategies.contains("\"k1\":1.2") && strategies.contains("here); write a new baseline"), "{err}");
    assert!(strategies.contains("there, bm25 k1=1.5 version "), "{err}");
    assert!(!err.contains("dataset"), "what is the same is not named: {err}");
    // A baseline from before there were words.
    let bare = text.lines().filter(|line| !line.starts_with("\"words\"")).collect::<Vec<_>>().join("\n");
    std::fs::write(dir.path().join("bare.json"), bare).unwrap();
    let (code, out, err) = run(dir.path(), &["gate", "a", "--baseline", "bare.json", "--exact"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, _, err) = run(dir.path(), &["gate", "b", "--baseline", "bare.json"]);
    assert!(code == 7 && err.contains(" there, bm25 k1=1.5 version "), "{err}");
    let (code, _, err) = run(dir.path(), &["gate", "a", "--baseline", "none.json"]);
    assert_eq!(code, 7, "{err}");
    // Baselines that promise nothing decide nothing.
    for (from, to) in [
        (r#""recall@5","complete@5""#, r#""complete@5","recall@5""#),
        (line, &line.replace("[0.0,0.0,", "[null,null,")),
        (r#""version": 3"#, r#""version": 2"#),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(dir.path().join("odd.json"), text.replace(from, to)).unwrap();
        let (code, _, err) = run(dir.path(), &["gate", "a", "--baseline", "odd.json"]);
        assert_eq!(code, 7, "{to}: {err}");
    }
}

#[test]
fn scores_by_other_labels_stand_apart_and_never_on_another_catalogue() {
    let dir = tempfile::tempdir().unwrap();
    let copy = atlas_copy(dir.path());
    run_ok(dir.path(), &["run", "-d", "atlas", "-s", "bm25", "-n", "50", "--out", "a"]);
    let path = dir.path().join("a/report/summary.json");
    let before = std::fs::read(&path).unwrap();
    let labels = std::fs::read_to_string(copy.join("qrels.jsonl")).unwrap();
    let scaling = std::fs::read_to_string(copy.join("queries.jsonl")).unwrap();
    let scaling = scaling.lines().find(|line| line.contains(r#""scaling": true"#)).unwrap();
    let query = scaling.split('"').nth(3).unwrap();
    // A helper more changes scores at most.
    let helper = format!(
        "{{\"query\": \"{query}\", \"group\": 0, \"tool\": \"stripe/stripe_get_balance\", \"relevance\": 1}}\n"
    );
    std::fs::write(copy.join("qrels.jsonl"), labels.clone() + &helper).unwrap();
    let out = run_ok(dir.path(), &["rescore", "a"]);
    assert!(out.contains("! rescored: the labels are those of atlas (revision 0.1.0, digest "), "{out}");
    let flat = out.replace('\n', " ");
    assert!(flat.contains("labels of revision 0.1.0, digest ") && flat.contains("answers to revision"), "{out}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "the report of the run is as it was");
    assert!(dir.path().join("a/rescored/summary.json").is_file());
    // A tool that is right for a scaling query is in every catalogue: the run had another one.
    std::fs::write(copy.join("qrels.jsonl"), labels + &helper.replace(": 1}", ": 2}")).unwrap();
    let (code, _, err) = run(dir.path(), &["rescore", "a"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("start a new run"), "{err}");
}

#[test]
fn nothing_is_confusable_without_scaling_queries() {
    let dir = tempfile::tempdir().unwrap();
    let copy = atlas_copy(dir.path());
    let queries = std::fs::read_to_string(copy.join("queries.jsonl")).unwrap();
    std::fs::write(copy.join("queries.jsonl"), queries.replace(r#""scaling": true"#, r#""scaling": false"#)).unwrap();
    let args = ["run", "-d", "atlas", "-s", "bm25", "-n", "100", "--queries", "all", "--distractors"];
    let (code, _, err) = run(dir.path(), &[&args[..], &["confusable", "--out", "a"]].concat());
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("nothing is confusable"), "{err}");
    run_ok(dir.path(), &[&args[..], &["random", "--out", "b"]].concat());
}

#[test]
fn show_tells_one_episode_turn_by_turn() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    run_ok(dir.path(), &scripted(&atlas, "a"));
    let query = episodes(&dir.path().join("a"))[0].query.to_string();
    let out = run_ok(dir.path(), &["show", "a", &query, "-s", "bm25-llm k=2"]);
    for part in [query.as_str(), "ranked:", "defined:", "turn 1 · agent", "system", "user"] {
        assert!(out.contains(part), "{part:?} in\n{out}");
    }
    let (code, _, err) = run(dir.path(), &["show", "a", "nothing"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn lists_and_help_read_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    insta::assert_snapshot!("strategies", run_ok(dir.path(), &["list", "strategies"]));
    insta::assert_snapshot!("help", run_ok(dir.path(), &["--help"]));
    insta::assert_snapshot!("help-run", run_ok(dir.path(), &["run", "--help"]));
    let metrics = run_ok(dir.path(), &["list", "metrics"]);
    for line in [
        "success                    1: completed, every group covered, no wrong call",
        "recall@5 ",
        "waste_wrong_call ",
    ] {
        assert!(metrics.lines().any(|known| known.starts_with(line)), "{line} in\n{metrics}");
    }
    let data = root().join("datasets/data").display().to_string();
    assert!(run_ok(dir.path(), &["list", "datasets", "--dir", &data]).contains("1,400 tools"));
}

#[test]
fn skills_have_an_axis_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = atlas().display().to_string();
    let flags = ["run", "-d", &atlas, "-s", "bm25,skill-pick", "--endpoint", "scripted:lexical"];
    let out = run_ok(dir.path(), &[&flags[..], &["-n", "150", "--skills", "6,12,all", "--out", "a"]].concat());
    assert!(out.contains("6 skills, ") && out.contains("21 skills, ") && !out.contains("150 skills"), "{out}");
    let stored = StoredRun::read(&dir.path().join("a")).unwrap();
    let asked = |size| -> BTreeSet<_> {
        stored.plan.iter().filter(|job| job.size == size).map(|job| job.query.clone()).collect()
    };
    assert!(asked(6).len() > 8, "{}", asked(6).len());
    assert_eq!(asked(6), asked(21), "every set of skills is asked the same");
    let views: Vec<_> = stored.manifest.views.iter().map(|view| (view.size, view.skills)).collect();
    assert_eq!(views, [(6, 6), (12, 12), (21, 21)]);
    let ranked = |size| {
        let bm25 = stored.episodes.iter().filter(|episode| episode.strategy == "bm25" && episode.size == size);
        bm25.map(|episode| (&episode.query, &episode.ranked)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(ranked(6), ranked(21), "what does not use skills does not notice");
    // From the stored plan the same again.
    assert_eq!(run_ok(dir.path(), &["run", "--resume", "a", "--offline"]), out);

    let (code, _, err) = run(dir.path(), &[&flags[..], &["-n", "50,150", "--skills", "6"]].concat());
    assert_eq!(code, 2);
    assert!(err.contains("skills are counted at one catalogue size"), "{err}");
    let (code, _, err) = run(dir.path(), &[&flags[..], &["--skills", "25"]].concat());
    assert_eq!(code, 2);
    let all = "21 of 21 skills of dataset atlas hold a tool there, so there is no set of 25 skills: expected 1 to 21";
    assert!(err.contains(all), "{err}");
    let (code, _, err) = run(dir.path(), &[&flags[..], &["-n", "150", "--skills", "6,12,all", "--dry-run"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("21 of 21 skills hold a tool there\n"), "{err}");
    assert!(err.matches("at every number of skills: ").count() <= 1 && !err.contains("\nat 6 skills"), "{err}");
    assert!(err.contains(" at most "), "what skills can load is a bound: {err}");
}
