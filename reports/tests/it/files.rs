//! What is written.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use polars::prelude::{DataFrame, PlSmallStr};
use polars_io::SerReader as _;
use polars_io::parquet::read::ParquetReader;
use reports::{metrics, summarise, write_all};

use crate::fixture::{Run, run};

fn written(run: &Run) -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let paths = write_all(dir.path(), &run.input(), &summarise(&run.input())).unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

fn text(files: &BTreeMap<String, Vec<u8>>, name: &str) -> String {
    String::from_utf8(files[name].clone()).unwrap()
}

fn is_svg(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "svg")
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let files = written(&run());
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let all = [
        "mix.svg",
        "recall.svg",
        "report.md",
        "scores.csv",
        "scores.parquet",
        "success.svg",
        "summary.json",
        "tokens.svg",
    ];
    assert_eq!(names, all);
    assert!(files == written(&run()), "two reports of one run differ");
}

#[test]
fn a_run_without_a_model_has_no_plot_of_it() {
    let files = written(&run().only(&["bm25"], &[150, 500]));
    assert!(
        files.contains_key("recall.svg") && !files.contains_key("success.svg") && !files.contains_key("tokens.svg")
    );
    assert!(!text(&files, "report.md").contains("success.svg"));
}

#[test]
fn plots_look_as_they_did() {
    let files = written(&run());
    for name in ["recall.svg", "success.svg", "tokens.svg"] {
        insta::assert_snapshot!(name, text(&files, name));
    }
    let files = written(&run().only(&["eager", "bm25-llm", "bridge"], &[1_000]));
    insta::assert_snapshot!("success-one-size.svg", text(&files, "success.svg"));
    insta::assert_snapshot!("tokens-one-size.svg", text(&files, "tokens.svg"));
}

#[test]
fn no_line_joins_sizes_that_ask_other_queries() {
    let paths = |run: &Run| text(&written(run), "recall.svg").matches("<polyline").count();
    let whole = run().only(&["bm25"], &[150, 500, 1_000]);
    let mut other = run().only(&["bm25"], &[150, 500, 1_000]);
    other.plan.retain(|job| job.size != 500 || job.query.as_str() != "q00");
    other.scores.retain(|score| score.size != 500 || score.query.as_str() != "q00");
    assert_eq!(paths(&other) + 2, paths(&whole), "neither to the size in the middle nor from it");
    assert!(text(&written(&other), "recall.svg").contains("no line leads to a size that asks other queries"));
}

#[test]
fn every_coordinate_of_a_plot_is_on_the_page() {
    let mut run = run().rename("bm25-llm", &"very long label ".repeat(20));
    run.manifest.dataset.name = "long name ".repeat(40);
    let files = written(&run);
    for (name, svg) in files.iter().filter(|(name, _)| is_svg(name)) {
        let svg = String::from_utf8(svg.clone()).unwrap();
        for (attribute, most) in [("x", 800), ("cx", 800), ("y", 480), ("cy", 480)] {
            let start = format!(" {attribute}=\"");
            let values = svg.split(start.as_str()).skip(1);
            for value in values.map(|rest| rest.split('"').next().unwrap().parse::<i32>().unwrap()) {
                assert!((0..=most).contains(&value), "{name}: {attribute} = {value}");
            }
        }
    }
}

#[test]
fn csv_has_a_row_per_planned_episode() {
    let csv = text(&written(&run()), "scores.csv");
    assert_eq!(csv.lines().count(), 1 + run().plan.len());
    let chosen = |line: &&str| line.starts_with("job,") || line.contains(",q00,") || line.contains(",q47,");
    insta::assert_snapshot!(csv.lines().filter(chosen).collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_number_of_an_episode_is_explained() {
    let run = run();
    let csv = text(&written(&run), "scores.csv");
    let head = csv.lines().next().unwrap().split(',').skip_while(|name| *name != "repeat").skip(1);
    let metrics = metrics(&run.measures);
    assert_eq!(metrics.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), head.collect::<Vec<_>>());
    assert!(metrics.iter().all(|(_, about)| !about.is_empty() && !about.contains("METHODOLOGY")), "{metrics:?}");
}

#[test]
fn hostile_labels_are_harmless_in_every_file() {
    let run =
        run().rename("bridge", "=HYPERLINK(\"http://e.org\")").rename("bm25-llm", "</text><script>\u{202e}&\u{7}");
    let files = written(&run);
    let csv = text(&files, "scores.csv");
    assert!(csv.contains(",\"'=HYPERLINK(\"\"http://e.org\"\")\","), "{}", &csv[..2_000]);
    assert!(!csv.contains(['\u{202e}', '\u{7}']) && csv.contains("\\u{202e}"));
    for (name, bytes) in files.iter().filter(|(name, _)| is_svg(name)) {
        let svg = String::from_utf8(bytes.clone()).unwrap();
        assert!(!svg.contains("<script") && !svg.contains(['\u{202e}', '\u{7}']), "{name}");
        assert!(svg.contains("&lt;/text&gt;"), "{name} shows the label");
    }
}

fn parquet(run: &Run) -> DataFrame {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &run.input(), &summarise(&run.input())).unwrap();
    ParquetReader::new(fs::File::open(dir.path().join("scores.parquet")).unwrap()).finish().unwrap()
}

#[test]
fn parquet_reads_back() {
    let run = run();
    let frame = parquet(&run);
    let names: Vec<&str> = frame.get_column_names().into_iter().map(PlSmallStr::as_str).collect();
    assert_eq!(names, ["job", "strategy", "size", "query", "kind", "repeat", "metric", "value"]);
    let texts = |name: &str| frame.column(name).unwrap().str().unwrap().clone();
    let (strategies, metrics) = (texts("strategy"), texts("metric"));
    let sizes = frame.column("size").unwrap().u32().unwrap().clone();
    let values = frame.column("value").unwrap().f64().unwrap().clone();
    let sum = |metric: &str, strategy: &str, size: u32| -> f64 {
        let rows = (0..frame.height()).filter(|&row| {
            metrics.get(row) == Some(metric) && strategies.get(row) == Some(strategy) && sizes.get(row) == Some(size)
        });
        rows.filter_map(|row| values.get(row)).sum()
    };
    let scores = || run.scores.iter().filter(|score| score.size == 500 && score.strategy == "bm25-llm");
    let successes = scores().filter(|score| score.success == Some(true)).count() as f64;
    assert!((sum("success", "bm25-llm", 500) - successes).abs() < 1e-9);
    let recall: f64 = scores().filter_map(|score| score.retrieval.get("recall@5")).sum();
    assert!((sum("recall@5", "bm25-llm", 500) - recall).abs() < 1e-9);
    assert!((sum("missing", "bridge", 1_000) - 1.0).abs() < 1e-9);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let run = run().only(&["bm25"], &[150]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = write_all(file.path(), &run.input(), &summarise(&run.input())).unwrap_err().to_string();
    assert!(error.starts_with(&file.path().display().to_string()), "{error}");
}
