//! Imports of public data, which is not part of this repository.
//!
//! `TOOLGAUGE_DATA` names a folder with `public/` (normalised sets) and `formats/` (samples of the original layouts).
//! Without it these tests pass without checking anything and say so; `TOOLGAUGE_REQUIRE_DATA=1` makes that a failure.

mod atlas;
mod formats;
mod imports;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use datasets::import::{self, ImportOptions, ImportReport, Trouble};
use harness::dataset::{Dataset, Kind};
use harness::ids::QueryId;

fn data() -> Option<PathBuf> {
    let dir = std::env::var_os("TOOLGAUGE_DATA").map(PathBuf::from).filter(|dir| dir.join("public").is_dir());
    let required = std::env::var("TOOLGAUGE_REQUIRE_DATA").is_ok_and(|value| value == "1");
    assert!(dir.is_some() || !required, "TOOLGAUGE_DATA names no folder with `public` and `formats`");
    if dir.is_none() {
        #[expect(clippy::disallowed_macros, reason = "whoever runs the tests should know what was not tested")]
        {
            eprintln!("skipped: set TOOLGAUGE_DATA to a folder with `public` and `formats`");
        }
    }
    dir
}

fn import(importer: &str, source: &Path) -> (ImportReport, Dataset, Duration) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let target = dir.path().join("dataset");
    let importer = import::find(importer).expect("it is registered");
    let report = importer.import(source, &target, &ImportOptions::default()).expect("it imports");
    let start = Instant::now();
    let dataset = datasets::load(&target).expect("it loads");
    (report, dataset, start.elapsed())
}

#[test]
fn the_whole_of_metatool() {
    let Some(data) = data() else { return };
    let (report, dataset, took) = import("metatool", &data.join("public/metatool"));
    assert_eq!((report.tools, report.no_tool_queries, report.queries), (199, 995, 21_029 + 995));
    assert_eq!(dataset.queries.len(), report.queries);
    assert_eq!(dataset.queries.iter().filter(|query| query.kind == Kind::Multi).count(), 497);
    let left_out = report.findings.get(Trouble::FileLeftOut).unwrap();
    assert_eq!(left_out.count, 2, "{report}");
    // Half a second in a release build; a debug build on a busy machine takes longer, a quadratic step minutes.
    assert!(took < Duration::from_secs(20), "{took:?}");

    let all: Vec<_> = dataset.catalogue.tools.iter().map(|tool| tool.id.clone()).collect();
    assert_eq!(datasets::scale::valid_at(&dataset, &all).len(), dataset.queries.len());
    let sample = datasets::sample::stratified(&dataset.queries, 100, 1);
    let no_tool = sample.iter().filter(|id| dataset.qrels.of(id).is_no_tool()).count();
    assert!((3..=6).contains(&no_tool), "995 of 22,024 are 4.5 of 100, not {no_tool}");
}

#[test]
fn the_layout_of_metatools_repository() {
    let Some(data) = data() else { return };
    let (report, dataset, _) = import("metatool", &data.join("formats/metatool"));
    assert_eq!(report.tools, 199);
    assert_eq!(report.no_tool_queries, 3, "{report}");
    let multi = dataset.query(&QueryId::new("multi-0")).unwrap();
    assert_eq!(multi.intent.as_str(), "metatool/FinanceTool + metatool/NewsTool");
    let no_tool = dataset.query(&QueryId::new("no-tool-0")).unwrap();
    assert_eq!(no_tool.candidates.as_ref().map(Vec::len), Some(10));
    assert_eq!(no_tool.intent.as_str(), "metatool/timeport");
}

#[test]
fn tools_of_a_request() {
    let Some(data) = data() else { return };
    let (report, _, _) = import("openai-tools", &data.join("formats/openai_tools/tools.json"));
    assert_eq!((report.tools, report.queries), (19, 0));
    assert!(report.findings.is_empty(), "{report}");
}
