//! Damaged copies of what importers read: each either imports, with what is lost listed, or fails with an error that can be
//! acted upon. Nothing panics, nothing half-written stays.

use std::fs;
use std::time::{Duration, Instant};

use super::*;
use crate::load;
use crate::testing::{folder, put};

type Files = &'static [(&'static str, &'static str)];

/// Importer, files, and what of them is the source.
const SOURCES: [(&str, Files, &str); 9] = [
    ("mcp-tools-list", &mcp_tools_list::tests::FILES, "lists"),
    ("docker-mcp-registry", &docker_mcp_registry::tests::FILES, "registry"),
    ("arcade", &arcade::tests::FILES, "kits"),
    ("openapi", &openapi::tests::FILES, "old.yaml"),
    ("openapi", &openapi::tests::FILES, "new.json"),
    ("restbench", &restbench::tests::FILES, "rest"),
    ("apibench", &apibench::tests::FILES, ""),
    ("api-bank", &api_bank::tests::FILES, "bank"),
    ("skills", &skills::tests::FILES, "skills"),
];

/// The report, if the damaged source imports, or the error.
fn outcome(importer: &str, files: Files, source: &str, name: &str, content: &[u8]) -> Result<ImportReport, String> {
    let dir = folder(files);
    put(dir.path(), name, content);
    let target = dir.path().join("target");
    let result = find(importer).unwrap().import(&dir.path().join(source), &target, &ImportOptions::default());
    let place = format!("{importer}, {name}");
    match result {
        Ok(report) => {
            assert!(load(&target).is_ok(), "{place}");
            let text = report.to_string();
            assert!(text.len() < 20_000 && !text.chars().any(|c| c.is_control() && c != '\n'), "{place}: {text}");
            Ok(report)
        }
        Err(error) => {
            assert!(!matches!(error, ImportError::Invalid(_)), "{place}: {error}");
            assert!(!target.exists(), "{place}");
            let text = error.to_string();
            // Where nothing is left to import, the findings say why, a line each.
            if let ImportError::NoTools { .. } = error {
                assert!(text.len() < 20_000 && !text.chars().any(|c| c.is_control() && c != '\n'), "{place}: {text}");
            } else {
                assert!(text.len() < 2_000 && !text.chars().any(char::is_control), "{place}: {text}");
                assert!(text.contains("; expected ") || text.contains("; convert "), "{place}: {text}");
            }
            Err(text)
        }
    }
}

/// Every source with every one of its files.
fn each(mut check: impl FnMut(&str, Files, &str, &str, &str)) {
    for (importer, files, source) in SOURCES {
        for (name, content) in files.iter().filter(|(name, _)| !source.contains('.') || *name == source) {
            check(importer, files, source, name, content);
        }
    }
}

#[test]
fn truncated_files() {
    let mut refused = 0;
    each(|importer, files, source, name, content| {
        for part in 0..16 {
            let cut = content.len() * part / 16;
            let told = |report: &ImportReport| report.findings.get(Trouble::UnreadableFile).is_some();
            let result = outcome(importer, files, source, name, &content.as_bytes()[..cut]);
            refused += usize::from(result.as_ref().map_or(true, told));
        }
    });
    assert!(refused > 50, "{refused} of the cuts are noticed as such");
}

#[test]
fn values_of_the_wrong_type() {
    let values = [
        "{}",
        "[]",
        "3",
        "null",
        "\"x\"",
        r#"[null, 3, "x", {}, []]"#,
        r#"{"tools": [[]], "id": "i", "paths": {"/a": {"get": {"parameters": 3}}}, "openapi": "3.1.0"}"#,
    ];
    each(|importer, files, source, name, _| {
        for value in values {
            let _ = outcome(importer, files, source, name, value.as_bytes());
        }
    });
}

#[test]
fn text_that_is_no_utf_8() {
    each(|importer, files, source, name, content| {
        let middle = content.len() / 2;
        let mut bytes = content.as_bytes().to_vec();
        bytes.splice(middle..middle, [0xff, 0xfe, 0x00]);
        match outcome(importer, files, source, name, &bytes) {
            Err(text) => assert!(text.contains("UTF-8"), "{importer}, {name}: {text}"),
            // A file that is not read may hold anything, and one of many costs no other.
            Ok(report) => assert!(
                report.to_string().contains("UTF-8")
                    || ["notes", "README", "turn.py", "fire_kiln.py", "train", "stray", "level-3", "remote"]
                        .iter()
                        .any(|other| name.contains(other)),
                "{importer}, {name}: {report}"
            ),
        }
    });
}

#[test]
fn entries_that_occur_again() {
    for (importer, files, source, name, trouble) in [
        (
            "mcp-tools-list",
            &mcp_tools_list::tests::FILES[..],
            "lists",
            "lists/lamp.tools_list.json",
            Trouble::DuplicateTool,
        ),
        ("apibench", &apibench::tests::FILES, "", "data/apibench/clayhub_eval.json", Trouble::DuplicateQuery),
        ("apibench", &apibench::tests::FILES, "", "data/api/clayhub_api.jsonl", Trouble::DuplicateTool),
        ("api-bank", &api_bank::tests::FILES, "bank", "bank/level-1/Fire-1.jsonl", Trouble::RepeatedGold),
    ] {
        let (_, content) = files.iter().find(|(found, _)| *found == name).unwrap();
        let report = outcome(importer, files, source, name, format!("{content}\n{content}").as_bytes()).unwrap();
        assert!(report.findings.get(trouble).is_some(), "{importer}: {report}");
    }
    // Keys of YAML may not repeat at all.
    let error =
        outcome("openapi", &openapi::tests::FILES, "old.yaml", "old.yaml", b"openapi: 3.0.0\npaths: {}\npaths: {}\n");
    assert!(error.unwrap_err().contains("duplicate"));
}

/// A line of 50 MB, as one value and as none.
#[test]
fn one_enormous_line() {
    let start = Instant::now();
    for (importer, files, source) in SOURCES {
        let read = |name: &str| {
            if source.contains('.') {
                name == source
            } else {
                [".json", ".jsonl", ".csv", "SKILL.md"].iter().any(|ending| name.ends_with(ending))
            }
        };
        let (name, _) = files.iter().find(|(name, _)| read(name)).unwrap();
        let line = vec![b'x'; 50 << 20];
        match outcome(importer, files, source, name, &line) {
            Err(text) => assert!(text.len() < 1_000),
            Ok(report) => assert!(!report.findings.is_empty(), "{importer}"),
        }
    }
    let text = "x".repeat(50 << 20);
    let tool = format!(r#"[{{"name": "a", "description": "{text}"}}, {{"name": "b"}}]"#);
    let report = outcome("mcp-tools-list", &[("t.json", "")], "t.json", "t.json", tool.as_bytes()).unwrap();
    assert_eq!((report.tools, report.findings.get(Trouble::EnormousTool).map(|found| found.count)), (1, Some(1)));
    let skill = format!("---\nname: a\ndescription: b\n---\n{text}");
    let error = outcome("skills", &[("SKILL.md", "")], "SKILL.md", "SKILL.md", skill.as_bytes()).unwrap_err();
    assert!(error.contains(Trouble::UnfitSkill.as_str()), "{error}");
    // Minutes would mean a step that is quadratic.
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

#[test]
fn sources_that_are_not_there() {
    let dir = folder::<&str>(&[]);
    for (importer, _, _) in SOURCES {
        let importer = find(importer).unwrap();
        let target = dir.path().join("target");
        let missing = importer.import(&dir.path().join("nowhere"), &target, &ImportOptions::default()).unwrap_err();
        assert!(matches!(missing, ImportError::Unreadable { .. }), "{missing}");
        let empty = dir.path().join("empty");
        fs::create_dir_all(&empty).unwrap();
        let error = importer.import(&empty, &target, &ImportOptions::default()).unwrap_err();
        assert!(matches!(error, ImportError::Unreadable { .. }), "{error}");
    }
}

/// One of many files that is no JSON, no YAML or no text.
#[test]
fn one_bad_file_costs_no_other() {
    for (importer, files, source, name) in [
        ("mcp-tools-list", &mcp_tools_list::tests::FILES[..], "lists", "lists/radio.json"),
        ("docker-mcp-registry", &docker_mcp_registry::tests::FILES, "registry", "registry/servers/kiln/server.yaml"),
        ("docker-mcp-registry", &docker_mcp_registry::tests::FILES, "registry", "registry/servers/bare/tools.json"),
        ("arcade", &arcade::tests::FILES, "kits", "kits/package.json"),
    ] {
        for content in [&b"{\"a\": ["[..], b"\xff"] {
            let dir = folder(files);
            put(dir.path(), name, content);
            let run = |strict: bool| {
                let options = ImportOptions { strict, ..ImportOptions::default() };
                find(importer).unwrap().import(&dir.path().join(source), &dir.path().join("target"), &options)
            };
            assert!(matches!(run(true), Err(ImportError::Strict { .. })), "{importer}, {name}");
            let report = run(false).unwrap();
            let listed = report.findings.get(Trouble::UnreadableFile);
            assert_eq!(listed.map(|listed| listed.count), Some(1), "{importer}, {name}: {report}");
        }
    }
}
