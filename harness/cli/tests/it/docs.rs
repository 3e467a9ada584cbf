//! Every figure in a document comes from a committed run: the tables in README are what `report` prints of it, and the
//! committed report is what `report` makes of the committed episodes.

use std::path::PathBuf;

use crate::support::{root, run_ok, toolgauge};

/// Committed runs, by folder name.
fn published() -> Vec<PathBuf> {
    let mut runs: Vec<_> = std::fs::read_dir(root().join("reports/published"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("manifest.json").exists())
        .collect();
    runs.sort();
    runs
}

/// What `report` prints of a run, and the folder it writes.
fn report(run: &std::path::Path) -> (String, tempfile::TempDir) {
    let files = tempfile::tempdir().unwrap();
    // From the root: the manifest names the dataset relative to it, or the run's own copy where atlas has moved on.
    let output = toolgauge(&root()).arg("report").arg(run).arg("--out").arg(files.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).unwrap(), files)
}

#[test]
fn committed_reports_are_what_their_episodes_say() {
    let runs = published();
    assert!(!runs.is_empty());
    for run in runs {
        let (_, files) = report(&run);
        let mut compared = 0;
        for entry in std::fs::read_dir(run.join("report")).unwrap().map(|entry| entry.unwrap()) {
            let committed = std::fs::read(entry.path()).unwrap();
            let made = std::fs::read(files.path().join(entry.file_name()));
            assert!(made.is_ok_and(|made| made == committed), "{} is not what report writes", entry.path().display());
            compared += 1;
        }
        assert!(compared >= 4, "{} holds {compared} files of a report", run.display());
    }
}

#[test]
fn tables_in_the_readme_are_what_report_prints() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let mut tables = 0;
    for part in readme.split("<!-- table:").skip(1) {
        let (name, rest) = part.split_once(" -->").unwrap();
        let block = rest.split("<!-- /table -->").next().unwrap();
        let shown = block.trim().trim_start_matches("```text").trim_end_matches("```").trim_matches('\n');
        let (printed, _files) = report(&root().join("reports/published").join(name));
        for paragraph in shown.split("\n\n") {
            assert!(printed.contains(paragraph), "README shows of {name}:\n{paragraph}\nreport prints:\n{printed}");
        }
        tables += 1;
    }
    assert!(tables > 0, "README shows no table");
}

/// What FORMAT.md tells newcomers to copy measures more than nothing.
#[test]
fn the_example_of_the_format_measures_something() {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(root().join("datasets/FORMAT.md")).unwrap();
    let (_, example) = text.split_once("\n## A whole example\n").unwrap();
    let parts: Vec<_> = example.split("```").collect();
    for pair in parts.chunks_exact(2) {
        let name = pair[0].rsplit('`').nth(1).unwrap();
        let path = dir.path().join("first-steps").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, pair[1].split_once('\n').unwrap().1).unwrap();
    }
    run_ok(dir.path(), &["run", "-d", "first-steps", "-s", "bm25", "--out", "run"]);
    let summary: serde_json::Value =
        serde_json::from_str(&run_ok(dir.path(), &["report", "run", "--format", "json"])).unwrap();
    let recall = summary["sizes"][0]["rows"][0]["retrieval"]["means"]["recall@5"].as_f64().unwrap();
    assert!(recall > 0.0, "{summary}");
}

/// Rows of the tables in ENDPOINTS.md: number, and the name in the last column.
fn rows_of_endpoints() -> Vec<(u32, String)> {
    let text = std::fs::read_to_string(root().join("harness/ENDPOINTS.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let number = cells.next()?.parse().ok()?;
        Some((number, cells.next_back()?.trim_matches('`').to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_known_case_has_a_row_and_every_row_a_test() {
    let rows = rows_of_endpoints();
    let numbers: Vec<u32> = rows.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=29).chain([32, 36, 37, 38, 39]).collect::<Vec<_>>());
    let mut sources = String::new();
    for folder in ["harness/src", "harness/tests", "harness/cli/tests", "mock/tests", "reports/tests"] {
        read_rust(&root().join(folder), &mut sources);
    }
    for (number, test) in rows {
        assert!(sources.contains(&format!("fn {test}(")), "row {number} names {test}, which is no test");
    }
}

fn read_rust(folder: &std::path::Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            read_rust(&entry, into);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(entry).unwrap());
        }
    }
}
