//! Rules of the workspace that no compiler checks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::root;

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Normal dependencies of a package of the workspace.
fn dependencies(metadata: &Value, package: &str) -> BTreeSet<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|found| found["name"] == package).unwrap_or_else(|| panic!("no {package}"));
    let normal = package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null());
    normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
}

/// Files with this ending that belong to the project.
fn files(ending: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_string_lossy().into_owned();
            if entry.is_dir() && !["target", ".git", "runs"].contains(&name.as_str()) {
                walk(&entry, ending, found);
            } else if name.ends_with(ending) {
                found.push(entry);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), ending, &mut found);
    found.sort();
    found
}

#[test]
fn crates_depend_in_one_direction() {
    let metadata = metadata();
    let ours = ["toolgauge-harness", "toolgauge-strategies", "toolgauge-datasets", "toolgauge-reports"];
    for (package, allowed) in [
        ("toolgauge-harness", &[][..]),
        ("toolgauge-strategies", &ours[..1]),
        ("toolgauge-datasets", &ours[..1]),
        ("toolgauge-reports", &ours[..1]),
        // Only tests depend on it, which are no normal dependents.
        ("toolgauge-mock", &ours[..1]),
        ("toolgauge-cli", &ours[..]),
    ] {
        let found: Vec<_> =
            dependencies(&metadata, package).into_iter().filter(|name| name.starts_with("toolgauge")).collect();
        assert!(found.iter().all(|name| allowed.contains(&name.as_str())), "{package} depends on {found:?}");
    }
}

#[test]
fn polars_and_plotters_stay_in_reports() {
    let metadata = metadata();
    for package in
        ["toolgauge-harness", "toolgauge-strategies", "toolgauge-datasets", "toolgauge-mock", "toolgauge-cli"]
    {
        let heavy: Vec<_> = dependencies(&metadata, package)
            .into_iter()
            .filter(|name| name.starts_with("polars") || name == "plotters")
            .collect();
        assert!(heavy.is_empty(), "{package} depends on {heavy:?}");
    }
    assert!(dependencies(&metadata, "toolgauge-reports").contains("polars"));
}

#[test]
fn no_strategy_knows_a_vendor_or_a_model() {
    let names = [
        "openai",
        "anthropic",
        "claude",
        "gemini",
        "gpt-",
        "mistral",
        "llama",
        "qwen",
        "deepseek",
        "groq",
        "ollama",
        "vllm",
        "azure",
    ];
    let strategies: Vec<_> =
        files(".rs").into_iter().filter(|path| path.starts_with(root().join("strategies/src"))).collect();
    assert!(strategies.len() >= 5);
    for path in strategies {
        let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for name in names {
            assert!(!code.contains(name), "{} names {name:?}", path.display());
        }
    }
}

#[test]
fn only_two_commands_reach_an_endpoint() {
    let src = root().join("harness/cli/src");
    let reach: Vec<_> = files(".rs")
        .into_iter()
        .filter(|path| path.starts_with(&src) && !path.ends_with("setup.rs"))
        .filter(|path| std::fs::read_to_string(path).unwrap().contains("transport(endpoint, "))
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(reach, ["doctor.rs", "run.rs"]);
}

#[test]
fn whatever_listens_binds_loopback() {
    let (mut listeners, own) = (0, Path::new(file!()).file_name());
    for path in files(".rs").into_iter().chain(files(".py")).filter(|path| path.file_name() != own) {
        let text = std::fs::read_to_string(&path).unwrap();
        let listens =
            |line: &&str| [".bind(", "::bind(", "HTTPServer(", "hostnames ="].iter().any(|how| line.contains(how));
        for line in text.lines().filter(listens) {
            let on_loopback = ["127.0.0.1", "LOCALHOST"].iter().any(|address| line.contains(address));
            assert!(on_loopback, "{}: {line}", path.display());
            listeners += 1;
        }
    }
    assert!(listeners > 5);
}

#[test]
fn no_file_of_code_is_longer_than_800_lines() {
    let files = files(".rs");
    assert!(files.len() > 40);
    for path in files {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 800, "{} has {lines} lines", path.display());
    }
}
