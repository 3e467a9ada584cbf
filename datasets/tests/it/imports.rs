//! Every sample imports, and says what it always said; damaged copies never end the process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use datasets::import::{self, Extra, ImportError, ImportOptions, ImportReport};
use harness::dataset::Dataset;
use insta::assert_snapshot;
use serde_json::Value;

use crate::data;

fn import(importer: &str, source: &Path, extras: &[Extra]) -> Result<(ImportReport, Dataset), ImportError> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let target = dir.path().join("dataset");
    let options = ImportOptions { extras: extras.iter().copied().collect(), ..ImportOptions::default() };
    let report = import::find(importer).expect("it is registered").import(source, &target, &options)?;
    Ok((report, datasets::load(&target).expect("it loads")))
}

/// What was imported, in numbers and digests only: the data is not ours to repeat.
fn golden(importer: &str, source: &Path, extras: &[Extra]) -> String {
    let (report, dataset) = import(importer, source, extras).unwrap_or_else(|error| panic!("{importer}: {error}"));
    let ImportReport { servers, tools, queries, no_tool_queries, labels, findings, .. } = report;
    let findings = serde_json::to_value(findings).expect("findings are data");
    let findings: BTreeMap<String, Value> = serde_json::from_value(findings).expect("findings by trouble");
    let findings: Vec<_> =
        findings.iter().map(|(trouble, finding)| format!(", {trouble} {}", finding["count"])).collect();
    let multi = dataset.queries.iter().filter(|query| query.kind.as_str() == "multi").count();
    let candidates = dataset.queries.iter().filter(|query| query.candidates.is_some()).count();
    let qrels = || dataset.queries.iter().flat_map(|query| dataset.qrels.of(&query.id).qrels());
    let arguments = qrels().filter(|label| label.arguments.is_some()).count();
    format!(
        "{servers} servers, {tools} tools, {queries} queries ({no_tool_queries} no-tool, {multi} multi, {candidates} with \
         candidates), {labels} labels ({arguments} with arguments){}, revision {}",
        findings.concat(),
        dataset.revision,
    )
}

/// Importer and folder of every sample of `formats` that belongs to it.
const SAMPLES: [(&str, &str); 8] = [
    ("bfcl", "bfcl"),
    ("toolret", "toolret/apibank"),
    ("toolret", "toolret/apigen"),
    ("toolret", "toolret/gorilla-huggingface"),
    ("seal-tools", "seal_tools"),
    ("livemcpbench", "livemcpbench"),
    ("mcp-zero", "mcp_zero_format"),
    ("beir", "beir_format"),
];

#[test]
fn samples_import_as_they_always_did() {
    let Some(data) = data() else { return };
    let samples = SAMPLES.iter().chain(&[("metatool", "metatool")]);
    let lines = samples
        .map(|(importer, folder)| format!("{folder}: {}\n", golden(importer, &data.join("formats").join(folder), &[])));
    assert_snapshot!(lines.collect::<String>());
}

#[test]
fn whole_sets_import_as_they_always_did() {
    let Some(data) = data() else { return };
    let sets: [(&str, &str, &[Extra]); 6] = [
        ("bfcl", "bfcl_pooled", &[]),
        ("bfcl", "bfcl_pooled", &[Extra::Pooled]),
        ("seal-tools", "seal_tools", &[]),
        ("toolret", "toolret_apigen", &[]),
        ("toolret", "toolret_apigen", &[Extra::Raw, Extra::WithInstruction]),
        ("toolret", "toolret_gorilla_hf", &[Extra::Raw]),
    ];
    let lines = sets.iter().map(|(importer, folder, extras)| {
        format!("{folder} {extras:?}: {}\n", golden(importer, &data.join("public").join(folder), extras))
    });
    assert_snapshot!(lines.collect::<String>());
}

/// The documentation arrives byte for byte.
#[test]
fn raw_documentation_is_what_the_source_says() {
    let Some(data) = data() else { return };
    let source = data.join("public/toolret_apigen");
    let (_, dataset) = import("toolret", &source, &[Extra::Raw]).expect("it imports");
    let text = fs::read_to_string(source.join("tools.jsonl")).expect("it can be read");
    let documentation = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["doc"].clone());
    assert!(dataset.catalogue.tools.iter().map(|tool| Value::from(tool.description.as_str())).eq(documentation));
}

#[test]
fn damaged_samples_give_an_error_or_what_is_left() {
    let Some(data) = data() else { return };
    let mut tried = 0;
    for (importer, folder) in SAMPLES {
        let source = data.join("formats").join(folder);
        let files = files(&source);
        for (name, content) in &files {
            for damaged in damages(content) {
                let copy = tempfile::tempdir().expect("a temporary folder");
                for (other, content) in &files {
                    let path = copy.path().join(other);
                    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
                    fs::write(&path, if other == name { &damaged } else { content }).expect("it can be written");
                }
                if let Err(error) = import(importer, copy.path(), &[]) {
                    let text = error.to_string();
                    assert!(text.contains("cannot be read") && text.contains("expected"), "{importer} {name}: {text}");
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried} damaged files");
}

/// Cut short, with a byte that is no text, with every entry twice, and with numbers for texts.
fn damages(content: &[u8]) -> Vec<Vec<u8>> {
    let middle = content.len() / 2;
    let mut damaged =
        vec![content[..middle].to_vec(), content[..content.len().saturating_sub(3)].to_vec(), content.to_vec()];
    damaged[2].insert(middle, 0xff);
    let numbers = |entry: &Value| match entry {
        Value::Object(map) => Value::Object(map.keys().map(|key| (key.clone(), Value::from(7))).collect()),
        _ => Value::from(7),
    };
    if let Ok(Value::Array(entries)) = serde_json::from_slice(content) {
        let doubled = Value::from([&entries[..], &entries[..]].concat());
        let wrong = Value::from(entries.iter().map(numbers).collect::<Vec<_>>());
        damaged.extend([doubled, wrong].map(|value| value.to_string().into_bytes()));
    } else if let Ok(text) = std::str::from_utf8(content) {
        let wrong = text.lines().map(|line| format!("{}\n", numbers(&serde_json::from_str(line).unwrap_or_default())));
        damaged.extend([format!("{text}\n{text}"), wrong.collect()].map(String::into_bytes));
    }
    damaged
}

/// Files of a folder and one below it.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("the sample is there").map(|entry| entry.expect("it can be read").path()) {
        let name = entry.file_name().expect("it has a name").to_string_lossy().into_owned();
        if entry.is_dir() {
            found.extend(files(&entry).into_iter().map(|(file, content)| (format!("{name}/{file}"), content)));
        } else {
            found.push((name, fs::read(entry).expect("it can be read")));
        }
    }
    found
}
