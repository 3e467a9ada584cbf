//! The numbers, worked out by hand or by a second way.

use harness::gateway::Lesson;
use harness::ids::{ActorId, Digest};
use harness::metric::score::{Score, Stage};
use harness::metric::stats::{LEVEL, wilson};
use harness::run::manifest::{ActorView, OwnCandidates, PlannedCaps, RefusedSchema, RefusedSchemas};
use harness::run::plan::Job;
use harness::usage::UsageSource;
use reports::{Input, Rescored, Row, Style, Summary, TokenSource, Verdict, markdown, summarise, terminal};

use crate::fixture::{QUERIES, Run, run};

fn row<'s>(summary: &'s Summary, size: u32, strategy: &str) -> &'s Row {
    let size = summary.sizes.iter().find(|known| known.size == size).unwrap();
    size.rows.iter().find(|row| row.strategy == strategy).unwrap()
}

fn notes(summary: &Summary) -> String {
    summary.sizes.iter().flat_map(|size| &size.notes).cloned().collect::<Vec<_>>().join("\n")
}

fn of<'r>(run: &'r Run, size: u32, strategy: &'r str) -> impl Iterator<Item = &'r Score> {
    run.scores.iter().filter(move |score| score.size == size && score.strategy == strategy)
}

#[track_caller]
fn assert_near(value: f64, wanted: f64) {
    assert!((value - wanted).abs() < 1e-12, "{value}, not {wanted}");
}

#[test]
fn the_denominator_never_shrinks() {
    let run = run();
    let summary = summarise(&run.input());
    let n = u64::from(QUERIES);
    let eager = row(&summary, 1_000, "eager");
    let success = eager.success.unwrap();
    assert_eq!((success.share.hits, success.share.of, eager.not_runnable), (0, n, n));
    assert_eq!(success.interval, wilson(0, n, LEVEL));
    assert_eq!((eager.effort, eager.tokens, eager.prompt_estimate), (None, None, Some(75_000)));

    let bridge = row(&summary, 1_000, "bridge");
    assert_eq!((bridge.planned, bridge.missing, bridge.failed, bridge.limited), (n, 1, 2, 1));
    let hits = of(&run, 1_000, "bridge").filter(|score| score.success == Some(true)).count() as u64;
    let share = bridge.success.unwrap().share;
    assert_eq!((share.hits, share.of), (hits, n));
    // Two groups in four queries, none in four: the missing query is a no-tool one and has no group.
    assert_eq!(bridge.waterfall.as_ref().unwrap().groups, n);
    assert_eq!(bridge.exposed.unwrap().of, n);
}

#[test]
fn a_capped_run_is_about_the_queries_that_were_begun_and_counts_what_is_missing_of_them() {
    let mut run = run().only(&["eager", "bm25-llm"], &[150, 500]);
    let uncapped = summarise(&run.input());
    run.plan.sort_by(|a, b| a.query.cmp(&b.query));
    run.manifest.capped = Some(PlannedCaps { max_tokens: Some(5_000), ..PlannedCaps::default() });
    let whole = summarise(&run.input());
    assert_eq!((whole.subset, whole.warnings, whole.sizes), (None, uncapped.warnings, uncapped.sizes));

    "capped".clone_into(&mut run.manifest.finish.as_mut().unwrap().how);
    // Of q10 there is no record and of q11 not all of them; nothing behind it was begun.
    let last = |score: &Score| score.query.as_str() == "q11" && (score.strategy != "eager" || score.size == 150);
    run.scores.retain(|score| score.query.as_str() < "q10" || last(score));
    let summary = summarise(&run.input());
    let subset = summary.subset.as_ref().unwrap();
    assert_eq!((subset.begun, subset.planned), (12, u64::from(QUERIES)));
    assert_eq!(subset.unfinished, ["q10", "q11"]);
    for (size, strategy, missing) in [(150, "eager", 1), (150, "bm25-llm", 1), (500, "eager", 2), (500, "bm25-llm", 1)]
    {
        let row = row(&summary, size, strategy);
        assert_eq!(
            (row.planned, row.missing, row.success.unwrap().share.of),
            (12, missing, 12),
            "{strategy} at {size}"
        );
    }
    assert_eq!(row(&summary, 500, "bm25-llm").comparison.as_ref().unwrap().pairs, 12);
    assert_eq!(
        summary.warnings,
        [
            "capped: a random subset of 12 of 48 queries; 36 others were not begun and are in no figure",
            "5 of 48 planned episodes are missing and count as the worst value (the run is capped), all of queries that were begun \
             and not finished: q10, q11",
        ]
    );
    let queries = summary.settings.iter().find(|(name, _)| *name == "queries").unwrap();
    assert_eq!(queries.1, "12 of 48 sampled of 600, valid at every size");
    assert!(summary.provenance.contains(&("planned to stop at", "5,000 tokens".to_owned())));

    run.manifest.capped = None;
    let blocks = summarise(&run.input());
    assert_eq!(
        (blocks.subset.clone(), row(&blocks, 150, "eager").planned),
        (None, u64::from(QUERIES)),
        "in blocks it is no subset"
    );
}

#[test]
fn a_failure_is_the_worst_value_whatever_was_recorded() {
    let mut run = run();
    let summary = summarise(&run.input());
    let before = row(&summary, 150, "bm25-llm").clone();
    for score in run.scores.iter_mut().filter(|score| score.size == 150 && score.strategy == "bm25-llm") {
        score.outcome = "failed(connect)".to_owned();
        score.infra_failure = true;
        score.success = Some(true);
    }
    let summary = summarise(&run.input());
    let after = row(&summary, 150, "bm25-llm");
    assert!(before.retrieved("recall@5").unwrap() > 0.5 && before.success.unwrap().rate > 0.5);
    assert_near(after.retrieved("recall@5").unwrap(), 0.0);
    assert_eq!((after.success.unwrap().share.hits, after.exposed.unwrap().hits), (0, 0));
    assert_eq!(after.retrieval.as_ref().unwrap().n, before.retrieval.as_ref().unwrap().n);
}

#[test]
fn retrieval_means_leave_out_queries_that_need_no_tool() {
    let run = run();
    let summary = summarise(&run.input());
    let retrieval = row(&summary, 500, "bm25").retrieval.as_ref().unwrap();
    let values: Vec<f64> = of(&run, 500, "bm25").filter_map(|score| score.retrieval.get("recall@5").copied()).collect();
    assert_eq!((retrieval.n, retrieval.no_tool), (44, 4));
    assert_near(retrieval.means["recall@5"], values.iter().sum::<f64>() / 44.0);
    assert!(row(&summary, 500, "bridge").retrieval.is_none() && row(&summary, 500, "bm25").success.is_none());
}

#[test]
fn the_price_of_a_success_is_a_ratio_of_sums() {
    let run = run();
    let summary = summarise(&run.input());
    let tokens: u64 = of(&run, 500, "eager").map(Score::tokens).sum();
    let row = row(&summary, 500, "eager");
    let shown = row.tokens.unwrap();
    assert_near(shown.per_success.unwrap(), tokens as f64 / row.success.unwrap().share.hits as f64);
    assert_near(shown.per_query.unwrap(), tokens as f64 / 32.0);
    assert_eq!((shown.source, row.effort.unwrap().episodes), (TokenSource::Reported, 32));
}

#[test]
fn reported_and_estimated_tokens_are_never_added_up() {
    let mut run = run();
    for (index, score) in run.scores.iter_mut().filter(|score| score.size == 150).enumerate() {
        let estimated = score.strategy == "bridge" || score.strategy == "bm25-llm" && index % 2 == 0;
        score.token_source = if estimated { UsageSource::Estimated } else { UsageSource::Reported };
    }
    let summary = summarise(&run.input());
    let mixed = row(&summary, 150, "bm25-llm").tokens.unwrap();
    assert_eq!((mixed.source, mixed.per_query, mixed.per_success), (TokenSource::Mixed, None, None));
    assert_eq!(row(&summary, 150, "bridge").tokens.unwrap().source, TokenSource::Estimated);
    assert!(notes(&summary).contains("mixed: some episodes of bm25-llm reported"));
}

#[test]
fn comparisons_are_paired_and_as_deployed() {
    let run = run();
    let summary = summarise(&run.input());
    let comparison = row(&summary, 500, "bm25-llm").comparison.as_ref().unwrap();
    let rate = |strategy| row(&summary, 500, strategy).success.unwrap().rate;
    assert_near(comparison.difference, rate("bm25-llm") - rate("eager"));
    assert!(comparison.interval.lower < comparison.difference && comparison.difference < comparison.interval.upper);
    assert_eq!((comparison.pairs, comparison.verdict), (u64::from(QUERIES), Verdict::Better));
    assert!(comparison.p_adjusted >= comparison.p);
    let both = comparison.both_run.unwrap();
    let ran = |score: &&Score| !score.not_runnable;
    let successes = of(&run, 500, "eager").filter(ran).filter(|score| score.success == Some(true)).count();
    assert_eq!((both.pairs, both.of), (32, 48));
    assert_near(both.reference_rate, successes as f64 / 32.0);
    assert!(row(&summary, 150, "bm25-llm").comparison.as_ref().unwrap().both_run.is_none());
    assert!(row(&summary, 500, "eager").comparison.is_none() && row(&summary, 500, "bm25").comparison.is_none());
}

#[test]
fn the_closing_sentence_claims_only_what_is_shown() {
    let closing = |run: &Run| summarise(&run.input()).closing;
    assert!(closing(&run()).contains("shown to be better than eager: +81.2 points"), "{}", closing(&run()));
    let mut level = run().only(&["eager", "bm25-llm"], &[150]);
    assert!(closing(&level).ends_with("no difference to eager is shown: too small to rank"), "{}", closing(&level));
    level.manifest.reference = None;
    assert!(closing(&level).ends_with("no difference was tested"), "{}", closing(&level));
    let mut lost = run().only(&["bm25-llm", "eager"], &[1_000]);
    lost.manifest.reference = Some("bm25-llm".to_owned());
    assert!(closing(&lost).ends_with("the reference; shown to be worse: eager"), "{}", closing(&lost));
    let mut ceiling = run();
    ceiling.manifest.strategies[2].meta.kind = "oracle".to_owned();
    assert!(closing(&ceiling).contains("52.1 % by bridge"), "the oracle does not contend: {}", closing(&ceiling));
    ceiling.manifest.reference = Some("bm25-llm".to_owned());
    assert!(closing(&ceiling).contains("shown to be worse than bm25-llm: -29.2"), "{}", closing(&ceiling));
    let none = run().only(&["eager"], &[1_000]);
    assert_eq!(closing(&none), "at 1,000 tools no strategy had any success");
}

#[test]
fn the_closing_sentence_says_that_the_oracle_is_left_out_where_it_is() {
    let closing = |run: &Run| summarise(&run.input()).closing;
    let with_oracle = |mut run: Run, label: &str| {
        let info = run.manifest.strategies.iter_mut().find(|info| info.label == label).unwrap();
        info.meta.kind = "oracle".to_owned();
        run
    };
    assert!(!closing(&run()).contains("oracle"));
    let ceiling = closing(&with_oracle(run(), "bm25-llm"));
    assert!(ceiling.starts_with("at 1,000 tools: highest success (oracle aside) 52.1 % by bridge"), "{ceiling}");
    // Its ranking alone is no row of the table of success.
    let ranking = closing(&with_oracle(run(), "bm25"));
    assert!(!ranking.contains("oracle"), "{ranking}");
    let ranked = closing(&with_oracle(run().only(&["bm25"], &[1_000]), "bm25"));
    assert_eq!(ranked, "at 1,000 tools no strategy (oracle aside) had any recall@5");
}

#[test]
fn sizes_that_ask_other_queries_say_so() {
    let mut run = run().only(&["bm25", "bm25-llm"], &[150, 1_000]);
    assert!(!notes(&summarise(&run.input())).contains("other queries"));
    let small = |size: u32, query: &str| size == 150 && ["q00", "q01", "q02"].contains(&query);
    run.plan.retain(|job| !small(job.size, job.query.as_str()));
    run.scores.retain(|score| !small(score.size, score.query.as_str()));
    let summary = summarise(&run.input());
    for size in &summary.sizes {
        let note = "45 at 150 tools, 48 at 1,000 tools; 45 are asked at every size";
        assert!(size.notes.iter().any(|known| known.contains(note)), "{:?}", size.notes);
    }
    assert!(summary.settings.contains(&("queries", "48 sampled of 600, of which 45 at every size".to_owned())));
    assert_eq!(summary.sizes.iter().map(|size| size.other_queries).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn views_below_the_size_and_own_candidates_are_told() {
    let mut run = run().only(&["bm25", "bm25-llm"], &[150, 1_000]);
    let before = summarise(&run.input());
    assert!(!notes(&before).contains("views:") && before.warnings.is_empty());
    let view =
        |size, actor: &str, tools, queries| ActorView { size, actor: ActorId::new(actor), tools, skills: 2, queries };
    run.manifest.actor_views = vec![view(150, "dev", 21, 5), view(150, "ops", 1, 1)];
    run.manifest.candidates = Some(OwnCandidates { queries: 40, mean: 1.62, most: 1_200 });
    let summary = summarise(&run.input());
    assert!(summary.sizes[0].notes.contains(&"views: dev 21 tools (5 queries), ops 1 tool (1 query)".to_owned()));
    assert!(!summary.sizes[1].notes.iter().any(|note| note.starts_with("views:")));
    let counts = "40 of 48, 1.6 tools on average and 1,200 at most";
    assert!(summary.settings.contains(&("queries asked of their own candidates", counts.to_owned())));
    assert_eq!(
        summary.warnings,
        [format!("queries asked of their own candidates, not of the whole catalogue: {counts}")]
    );
    assert_eq!(summary.dataset, "made-up r1, own candidates (mean 1.6 tools)");
    assert!(summary.closing.starts_with("at 1,000 tools (own candidates, 1.6 on average): "), "{}", summary.closing);
}

#[test]
fn a_rescored_report_says_so() {
    let run = run();
    let plain = summarise(&run.input());
    assert!(plain.rescored.is_none() && !serde_json::to_string(&plain).unwrap().contains("rescored"));
    let digest = Digest::of(b"other labels");
    let input = Input { rescored: Some(Rescored { revision: "r2", digest: &digest }), ..run.input() };
    let summary = summarise(&input);
    let (labels, answers) = (digest.short(), run.manifest.dataset.digest.short());
    assert!(summary.settings.contains(&("labels of", format!("revision r2, digest {labels}"))));
    assert!(summary.settings.contains(&("answers to", format!("revision r1, digest {answers}"))));
    let banner = format!(
        "rescored: the labels are those of made-up (revision r2, digest {labels}), the answers were given to revision r1, digest \
         {answers}: these are not the figures of the run"
    );
    assert_eq!(summary.warnings[0], banner);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["rescored"]["labels"]["revision"], "r2");
    assert_eq!(json["rescored"]["answers"]["revision"], "r1");
}

#[test]
fn a_table_that_compares_no_success_says_why() {
    let why = |run: &Run| {
        let summary = summarise(&run.input());
        let note = summary.sizes[0].notes.iter().find_map(|note| note.strip_prefix("success is not compared: "));
        note.map(str::to_owned)
    };
    let mut run = run().only(&["bm25", "bm25-llm", "bridge"], &[150]);
    assert_eq!(why(&run).unwrap(), "the reference, eager, was not asked here");
    run.manifest.reference = Some("bm25".to_owned());
    assert_eq!(why(&run).unwrap(), "the reference, bm25, drives no model; `--reference` names another");
    run.manifest.reference = None;
    assert_eq!(why(&run).unwrap(), "the run names no reference");
    run.manifest.reference = Some("bridge".to_owned());
    assert_eq!(why(&run), None);
    let alone = run.only(&["bm25", "bridge"], &[150]);
    assert_eq!(why(&alone).unwrap(), "bridge, the reference, is the only strategy that drives a model");
    let rankings = crate::fixture::run().only(&["bm25"], &[150]);
    assert_eq!(why(&rankings), None, "nothing to compare by success");
}

/// Five successes more of 48: the interval leaves out 0, the exact test gives 0.0625.
#[test]
fn an_interval_and_a_verdict_that_disagree_are_explained() {
    let mut run = run().only(&["eager", "bm25-llm"], &[150]);
    assert!(!notes(&summarise(&run.input())).contains("different methods"));
    for score in &mut run.scores {
        let query: u32 = score.query.as_str()[1..].parse().unwrap();
        score.success = Some(query < if score.strategy == "eager" { 20 } else { 25 });
    }
    let summary = summarise(&run.input());
    let comparison = row(&summary, 150, "bm25-llm").comparison.as_ref().unwrap();
    assert!(comparison.interval.lower > 0.0 && comparison.verdict == Verdict::NotShown, "{comparison:?}");
    assert!(notes(&summary).contains("bm25-llm: interval and verdict seem to disagree"), "{}", notes(&summary));
}

#[test]
fn one_is_no_plural() {
    let mut run = run().only(&["bm25", "bm25-llm"], &[150]);
    run.plan.retain(|job| job.query.as_str() == "q00");
    run.scores.retain(|score| score.query.as_str() == "q00");
    run.manifest.reference = Some("bm25-llm".to_owned());
    let lost = run.scores.pop().unwrap();
    assert_eq!(lost.strategy, "bm25-llm");
    let page = markdown(&summarise(&run.input()));
    let text = terminal(&summarise(&run.input()), Style { width: 110, color: false });
    for text in [page, text] {
        assert!(text.contains("1 query"), "{text}");
        assert!(text.contains("1 of 2 planned episodes is missing and counts"), "{text}");
        for noun in ["queries", "episodes", "pairs", "tools"] {
            assert!(!text.contains(&format!(" 1 {noun}")) && !text.contains(&format!("\n1 {noun}")), "{noun}: {text}");
        }
    }
}

#[test]
fn leaks_are_shouted_and_doubts_are_named() {
    let mut run = run().only(&["eager", "bm25-llm"], &[150]);
    assert_eq!(summarise(&run.input()).warnings, Vec::<String>::new());
    run.scores[0].leaks = 2;
    run.scores[1].truncation_suspected = true;
    run.scores[2].hinges_on_unjudged = true;
    let warnings = summarise(&run.input()).warnings;
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("LEAK: eager showed the model 2 traces"), "{warnings:?}");
    assert!(warnings[1].starts_with("truncation suspected in 1 episode of eager"), "{warnings:?}");
    assert!(warnings[2].starts_with("calls to unjudged tools decided 2.1 % of the episodes of eager"), "{warnings:?}");
}

#[test]
fn refused_schemas_are_named_with_a_way_out() {
    let mut run = run().only(&["eager", "bm25-llm"], &[150]);
    let mut warnings = |refused: &[(&str, &[&str])], unexplained: bool| {
        let refused = refused.iter().map(|(tool, advice)| RefusedSchema {
            tool: (*tool).to_owned(),
            words: "bad pattern".to_owned(),
            advice: advice.iter().map(|&line| line.to_owned()).collect(),
        });
        let schemas = RefusedSchemas { refused: refused.collect(), unexplained, probes: 12 };
        run.manifest.finish.as_mut().unwrap().schemas = Some(schemas);
        summarise(&run.input()).warnings
    };
    assert_eq!(
        warnings(&[("mail/send", &["drop_patterns = \"lookaround\"", "array_items = true"])], false),
        [
            "the endpoint refuses the schema of 1 of 1,000 tools: mail/send (its words: bad pattern); next step: set `array_items = true` \
          or `drop_patterns = \"lookaround\"` under `[schema]` in profile.toml, or leave what is refused out"
        ]
    );
    let no_advice: &[&str] = &[];
    let many = vec![("a/a", no_advice); 7];
    let warning = &warnings(&many, false)[0];
    assert!(warning.contains("schema of 7 of") && warning.contains(" and 2 more; next step: leave"), "{warning}");
    let warning = &warnings(&[], true)[0];
    assert!(
        warning.contains("no tool was found that it refuses by itself; 12 requests went into looking"),
        "{warning}"
    );
}

#[test]
fn refused_parameters_are_told_and_saved_next_time() {
    let mut run = run().only(&["eager", "bm25-llm"], &[150]);
    run.manifest.finish.as_mut().unwrap().lessons = vec![Lesson::MaxCompletionTokens, Lesson::NoTemperature];
    assert_eq!(
        summarise(&run.input()).warnings,
        [
            "the endpoint refused parameters: max_tokens was sent as max_completion_tokens, temperature was left out; next step: \
          `output_limit = \"max_completion_tokens\"`, `omit_temperature = true` in profile.toml"
        ]
    );
}

#[test]
fn repeats_are_no_new_queries() {
    let once = run().only(&["eager", "bm25-llm"], &[150]);
    let mut twice = run().only(&["eager", "bm25-llm"], &[150]);
    twice.manifest.repeats = 2;
    for index in 0..once.plan.len() {
        let again = |key: &harness::ids::JobKey| harness::ids::JobKey::of_json(&(key, "again"));
        let job = &once.plan[index];
        twice.plan.push(Job { key: again(&job.key), repeat: 1, ..job.clone() });
        let score = &once.scores[index];
        twice.scores.push(Score { job: again(&score.job), repeat: 1, ..score.clone() });
    }
    let (once, twice) = (summarise(&once.input()), summarise(&twice.input()));
    let width = |summary: &Summary| {
        let interval = row(summary, 150, "eager").success.unwrap().interval;
        interval.upper - interval.lower
    };
    assert_near(row(&twice, 150, "eager").success.unwrap().rate, row(&once, 150, "eager").success.unwrap().rate);
    // The same answers once more: taken for new ones they would narrow it to 0.71 of its width.
    assert!(width(&twice) > 0.85 * width(&once), "{} {}", width(&twice), width(&once));
    let difference = |summary: &Summary| row(summary, 150, "bm25-llm").comparison.clone().unwrap();
    assert_near(difference(&twice).difference, difference(&once).difference);
    assert_eq!(difference(&twice).smallest_difference, difference(&once).smallest_difference);
}

#[test]
fn the_waterfall_starts_where_the_strategy_does() {
    let run = run();
    let summary = summarise(&run.input());
    let stages = |strategy| row(&summary, 150, strategy).waterfall.as_ref().unwrap().reached.clone();
    assert!(!stages("eager").contains_key(&Stage::Retrieved));
    assert!(stages("bridge").contains_key(&Stage::Retrieved), "it searched");
    for strategy in ["eager", "bm25-llm", "bridge"] {
        let reached: Vec<u64> = stages(strategy).into_values().collect();
        assert!(reached.windows(2).all(|pair| pair[0] >= pair[1]), "{strategy}: {reached:?}");
    }
}

#[test]
fn sequential_queries_outside_success_stay_outside_when_missing() {
    let mut run = run().only(&["eager", "bm25-llm"], &[150]);
    for score in run.scores.iter_mut().filter(|score| score.query.as_str() < "q04") {
        (score.success, score.coverage_success) = (None, None);
    }
    run.scores.retain(|score| score.strategy != "eager" || score.query.as_str() != "q00");
    let summary = summarise(&run.input());
    assert_eq!(row(&summary, 150, "eager").success.unwrap().share.of, 44);
    assert_eq!(row(&summary, 150, "eager").planned, 48);
}
