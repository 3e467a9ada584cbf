//! Samples of public layouts, imported as their authors publish them. Snapshots hold counts and digests, no public text.

use std::fmt::Write as _;

use insta::assert_snapshot;
use serde_json::Value;

use crate::{data, import};

/// Counts, the digest of everything imported, and how often each trouble was met.
fn summary(importer: &str, source: &str) -> Option<String> {
    let (report, dataset, _) = import(importer, &data()?.join("formats").join(source));
    let mut text = report.to_string().lines().next().unwrap_or_default().to_owned();
    let _ = write!(text, "\nrevision {}", dataset.revision);
    let findings = serde_json::to_value(&report.findings).unwrap();
    for (trouble, finding) in findings.as_object().into_iter().flatten() {
        let _ = write!(text, "\n{} {trouble}", finding.get("count").and_then(Value::as_u64).unwrap_or_default());
    }
    Some(text)
}

#[test]
fn answer_to_tools_list() {
    let Some(summary) = summary("mcp-tools-list", "mcp_tools_list/npm-sentinel-mcp.tools_list.json") else { return };
    assert_snapshot!(summary, @"");
}

#[test]
fn registry_of_docker() {
    let Some(summary) = summary("docker-mcp-registry", "docker_mcp_registry") else { return };
    assert_snapshot!(summary, @"");
}

#[test]
fn toolkits_of_arcade() {
    let Some(summary) = summary("arcade", "arcade_toolkit") else { return };
    assert_snapshot!(summary, @"");
}

#[test]
fn hubs_of_apibench() {
    let Some(summary) = summary("apibench", "apibench") else { return };
    assert_snapshot!(summary, @"");
}

#[test]
fn dialogues_of_api_bank() {
    let Some(summary) = summary("api-bank", "api_bank") else { return };
    assert_snapshot!(summary, @"");
}

#[test]
fn openapi_of_a_music_service() {
    let Some(summary) = summary("openapi", "restbench_openapi/spotify_oas.json") else { return };
    assert_snapshot!(summary, @"");
}

#[test]
fn paths_of_restbench() {
    let Some(summary) = summary("restbench", "restbench_openapi") else { return };
    assert_snapshot!(summary, @"");
}

#[test]
fn folders_of_skills() {
    let Some(summary) = summary("skills", "skills") else { return };
    assert_snapshot!(summary, @"");
}
