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
    let findings = serde_json::to_value(&report.findings).expect("counts and texts");
    for (trouble, finding) in findings.as_object().into_iter().flatten() {
        let _ = write!(text, "\n{} {trouble}", finding.get("count").and_then(Value::as_u64).unwrap_or_default());
    }
    Some(text)
}

#[test]
fn answer_to_tools_list() {
    let Some(summary) = summary("mcp-tools-list", "mcp_tools_list/npm-sentinel-mcp.tools_list.json") else { return };
    assert_snapshot!(summary, @r#"
    servers 1, tools 19, queries 0 (no-tool 0), labels 0
    revision b3d3910beed5
    "#);
}

#[test]
fn registry_of_docker() {
    let Some(summary) = summary("docker-mcp-registry", "docker_mcp_registry") else { return };
    assert_snapshot!(summary, @r#"
    servers 3, tools 56, queries 0 (no-tool 0), labels 0
    revision 8215004e440b
    "#);
}

#[test]
fn toolkits_of_arcade() {
    let Some(summary) = summary("arcade", "arcade_toolkit") else { return };
    assert_snapshot!(summary, @r#"
    servers 2, tools 10, queries 0 (no-tool 0), labels 0
    revision 27a1df9dcb33
    1 file_left_out
    10 ignored_key
    "#);
}

#[test]
fn hubs_of_apibench() {
    let Some(summary) = summary("apibench", "apibench") else { return };
    assert_snapshot!(summary, @r#"
    servers 5, tools 18, queries 6 (no-tool 0), labels 6
    revision 3605f396cadf
    2 moved_tool
    6 unresolved_gold
    "#);
}

#[test]
fn dialogues_of_api_bank() {
    let Some(summary) = summary("api-bank", "api_bank") else { return };
    assert_snapshot!(summary, @r#"
    servers 1, tools 101, queries 5 (no-tool 0), labels 11
    revision b2455cb92580
    1 unreadable_entry
    5 unfit_argument
    "#);
}

#[test]
fn openapi_of_a_music_service() {
    let Some(summary) = summary("openapi", "restbench_openapi/spotify_oas.json") else { return };
    assert_snapshot!(summary, @r#"
    servers 1, tools 40, queries 0 (no-tool 0), labels 0
    revision 01932f325b80
    7 renamed_argument
    120 repaired_schema
    "#);
}

#[test]
fn paths_of_restbench() {
    let Some(summary) = summary("restbench", "restbench_openapi") else { return };
    assert_snapshot!(summary, @r#"
    servers 1, tools 40, queries 56 (no-tool 0), labels 143
    revision e6bd13d6c71e
    7 renamed_argument
    120 repaired_schema
    1 unresolved_gold
    "#);
}

#[test]
fn folders_of_skills() {
    let Some(summary) = summary("skills", "skills") else { return };
    assert_snapshot!(summary, @r#"
    servers 0, tools 0, queries 0 (no-tool 0), labels 0, skills 7
    revision 7bc1730f84d9
    2 file_left_out
    4 ignored_skill_key
    "#);
}
