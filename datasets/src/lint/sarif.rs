//! Findings as SARIF 2.1.0, the format in which code hosts take the results of analysers.

use std::fmt::Write as _;
use std::path::{Component, Path};

use harness::ids::Digest;
use serde_json::{Value, json};

use super::rules::STALE_ACCEPTANCE;
use super::{Accepted, Finding, Linted, RULES, Rule};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A SARIF log of one run. `folder` is the dataset folder as a reader of the log should see it, relative to the root of the
/// repository or absolute and without `..`; every place is below it, but for those in a `baseline` from elsewhere, which is
/// named in the same way. What the baseline accepts is there, marked as suppressed.
pub fn sarif(linted: &Linted, folder: &Path, baseline: Option<&Path>) -> Value {
    let open = linted.findings.iter().map(|finding| result(finding, folder, baseline));
    let accepted = linted.accepted.iter().map(|Accepted { finding, why }| {
        let mut result = result(finding, folder, baseline);
        result["suppressions"] = json!([{"kind": "external", "status": "accepted", "justification": why}]);
        result
    });
    let results: Vec<Value> = open.chain(accepted).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "toolgauge",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": RULES.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn descriptor(rule: &Rule) -> Value {
    let Rule { id, name, level, what, fix } = rule;
    json!({
        "id": id,
        "name": name,
        "shortDescription": {"text": format!("{what}.")},
        "help": {"text": format!("What to do: {fix}. LINT.md explains {id} with an example.")},
        "defaultConfiguration": {"level": level.as_str()},
    })
}

fn result(finding: &Finding, folder: &Path, baseline: Option<&Path>) -> Value {
    let Finding { rule, subject, place, message } = finding;
    let uri = match baseline {
        // Only its own entries are in the baseline.
        Some(baseline) if *rule == &STALE_ACCEPTANCE => uri(baseline),
        _ => uri(&folder.join(&place.file)),
    };
    let mut location = json!({"artifactLocation": {"uri": uri}});
    if let Some(position) = place.position {
        location["region"] = json!({"startLine": position.line, "startColumn": position.column});
    }
    let index = RULES.iter().position(|known| known == rule);
    // Independent of lines, so that a finding stays the same one when others come and go above it. What the loader says has
    // no subject but its file.
    let identity = if *subject == place.file { message } else { "" };
    json!({
        "ruleId": rule.id,
        "ruleIndex": index,
        "level": rule.level.as_str(),
        "message": {"text": format!("{subject}: {message}; {}", rule.fix)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"subject/v1": Digest::of_json(&(rule.id, subject, identity))},
    })
}

/// A file as a URI reference: relative if the path is. Segments that say nothing (`.`) are left out, as SARIF wants it.
fn uri(path: &Path) -> String {
    let segments = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(encoded(name.as_encoded_bytes())),
        Component::ParentDir => Some("..".to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let path_of_uri = segments.collect::<Vec<_>>().join("/");
    if path.is_absolute() { format!("file:///{path_of_uri}") } else { path_of_uri }
}

/// A segment of a path, with everything encoded that means something in a URI or is no ASCII.
fn encoded(segment: &[u8]) -> String {
    let mut encoded = String::new();
    for &byte in segment {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_become_uris() {
        let uri = |folder: &str, file: &str| uri(&Path::new(folder).join(file));
        assert_eq!(uri("./data/my set/", "tools/ä:b.jsonl"), "data/my%20set/tools/%C3%A4%3Ab.jsonl");
        assert_eq!(uri("/srv/data", "dataset.toml"), "file:///srv/data/dataset.toml");
        assert_eq!(uri(".", "dataset.toml"), "dataset.toml");
        assert_eq!(uri("a//b/./c", "100%.toml"), "a/b/c/100%25.toml");
        assert_eq!(uri("C:\\odd", "?a#b"), "C%3A%5Codd/%3Fa%23b");
    }

    proptest! {
        /// As the schema of SARIF wants an `artifactLocation`: `"format": "uri-reference"`.
        #[test]
        fn any_path_becomes_a_uri_reference(path in "/?([^/\\x00]{1,6}/){0,3}[^/\\x00]{1,6}") {
            let schema = json!({"type": "string", "format": "uri-reference"});
            let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
            let uri = uri(Path::new(&path));
            prop_assert!(validator.is_valid(&json!(uri)), "{}", uri);
            prop_assert!(uri.is_ascii() && !uri.starts_with("//"), "{}", uri);
        }
    }
}
