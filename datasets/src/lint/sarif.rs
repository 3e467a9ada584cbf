//! Findings as SARIF 2.1.0, the format in which code hosts take the results of analysers.

use std::fmt::Write as _;

use harness::ids::Digest;
use serde_json::{Value, json};

use super::rules::STALE_ACCEPTANCE;
use super::{Accepted, BASELINE, Finding, Linted, RULES, Rule};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A SARIF log of one run. `folder` is the dataset folder as a reader of the log should see it, relative to the root of the
/// repository or absolute; every place is below it. What the baseline accepts is there, marked as suppressed.
pub fn sarif(linted: &Linted, folder: &str) -> Value {
    let open = linted.findings.iter().map(|finding| result(linted, finding, folder));
    let accepted = linted.accepted.iter().map(|Accepted { finding, why }| {
        let mut result = result(linted, finding, folder);
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

fn result(linted: &Linted, finding: &Finding, folder: &str) -> Value {
    let Finding { rule, subject, place, message } = finding;
    // A baseline from elsewhere is named as it was given, all other files lie in the folder.
    let outside = *rule == &STALE_ACCEPTANCE && linted.baseline.as_deref() != Some(BASELINE);
    let uri = if outside { uri("", &place.file) } else { uri(folder, &place.file) };
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

/// A file as a URI: relative if the folder is.
fn uri(folder: &str, file: &str) -> String {
    let folder = folder.trim_end_matches('/');
    let folder = folder.strip_prefix("./").unwrap_or(folder);
    let path = if folder.is_empty() || folder == "." { file.to_owned() } else { format!("{folder}/{file}") };
    let mut uri = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn files_become_uris() {
        assert_eq!(uri("./data/my set/", "tools/ä:b.jsonl"), "data/my%20set/tools/%C3%A4%3Ab.jsonl");
        assert_eq!(uri("/srv/data", "dataset.toml"), "file:///srv/data/dataset.toml");
        assert_eq!(uri(".", "dataset.toml"), "dataset.toml");
    }
}
