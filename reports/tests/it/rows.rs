//! What a report says of known ways in which strategies go wrong (harness/ENDPOINTS.md, rows 32 and 36 to 38).

use harness::dataset::Kind;
use harness::metric::score::Stage;
use reports::{Row, Summary, Verdict, summarise};

use crate::fixture::{Run, run};

fn bridge() -> Run {
    let mut run = run().only(&["eager", "bridge"], &[150]);
    let info = run.manifest.strategies.iter_mut().find(|info| info.label == "bridge").unwrap();
    info.meta.own_tools = vec!["search".to_owned(), "call".to_owned()];
    run
}

fn row(summary: &Summary) -> &Row {
    summary.sizes[0].rows.iter().find(|row| row.strategy == "bridge").unwrap()
}

fn note<'s>(summary: &'s Summary, start: &str) -> Option<&'s str> {
    summary.sizes[0].notes.iter().map(String::as_str).find(|note| note.starts_with(start))
}

#[test]
fn row_32_a_search_that_is_never_called_is_named() {
    let mut run = bridge();
    assert_eq!(note(&summarise(&run.input()), "bridge: called none"), None);
    let of_bridge = run.scores.iter_mut().filter(|score| score.strategy == "bridge" && score.groups > 0);
    for score in of_bridge.take(7) {
        score.own_calls = 0;
    }
    let summary = summarise(&run.input());
    assert_eq!(
        note(&summary, "bridge: called none"),
        Some("bridge: called none of its own tools (search, call) in 7 of 44 answered episodes that need a tool")
    );
}

#[test]
fn row_36_lost_prefix_caches_are_counted() {
    let mut run = bridge();
    assert_eq!(row(&summarise(&run.input())).cache_invalidating_turns, 0);
    for score in run.scores.iter_mut().filter(|score| score.strategy == "bridge").take(3) {
        score.cache_invalidating_turns = 2;
    }
    let summary = summarise(&run.input());
    let expected = "bridge: 6 turns with other definitions than the turn before, which no prefix cache serves";
    assert_eq!(note(&summary, "bridge: 6 turns"), Some(expected));
}

#[test]
fn row_37_a_needed_tool_that_is_dropped_shows_stage_by_stage_and_abstention_apart() {
    let mut run = bridge();
    // Found every time, and never shown: a pooled recall would call this perfect.
    for score in run.scores.iter_mut().filter(|score| score.strategy == "bridge" && score.groups > 0) {
        score.stages = vec![Stage::Retrieved; score.groups as usize];
        (score.success, score.coverage_success, score.covered) = (Some(false), Some(false), 0);
    }
    let summary = summarise(&run.input());
    let row = row(&summary);
    let waterfall = row.waterfall.as_ref().unwrap();
    assert_eq!(waterfall.reached[&Stage::Retrieved], waterfall.groups);
    assert_eq!(waterfall.reached[&Stage::Defined], 0);
    assert_eq!(row.success_by_kind[&Kind::Direct].hits, 0);
    assert!(row.success_by_kind[&Kind::NoTool].hits > 0, "where nothing is needed it did well, in a column of its own");
}

#[test]
fn row_38_a_search_that_is_worse_than_showing_everything_is_called_worse() {
    let mut run = bridge();
    assert_eq!(run.manifest.reference.as_deref(), Some("eager"));
    for (index, score) in run.scores.iter_mut().filter(|score| score.strategy == "bridge").enumerate() {
        score.success = Some(index % 4 == 0);
    }
    let summary = summarise(&run.input());
    let comparison = row(&summary).comparison.as_ref().unwrap();
    assert_eq!(comparison.verdict, Verdict::Worse);
    assert!(comparison.interval.upper < 0.0);
}
