//! One layout for data of several sources: `tools.jsonl`, `queries.jsonl` and `queries_no_tool.jsonl`. That nothing fits is
//! only said by the latter; a query without a relevant tool among the others is one whose gold is missing.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::foreign::{Foreign, ForeignQuery, ForeignTool};
use super::report::{Findings, Trouble};
use super::{ImportError, files, metatool};

const TOOLS: &str = "tools.jsonl";
const LABELLED: &str = "queries.jsonl";
const NO_TOOL: &str = "queries_no_tool.jsonl";

/// Whether a folder is laid out like this. `ToolRet` has files of these names too, with other keys.
pub(super) fn fits(dir: &Path) -> bool {
    let path = dir.join(TOOLS);
    // A pipe would be waited for.
    let Some(file) = path.is_file().then(|| File::open(&path).ok()).flatten() else { return path.exists() };
    let mut line = Vec::new();
    // What cannot be read is reported when it is.
    let _ = BufReader::new(file).take(files::ENTRY as u64).read_until(b'\n', &mut line);
    let first = serde_json::from_slice::<Value>(&line).unwrap_or_default();
    first.get("documentation").is_none()
}

#[derive(Deserialize)]
struct ToolLine {
    name: String,
    namespace: Option<String>,
    description: Option<String>,
    parameters: Option<Value>,
    /// The documentation that `description` and `parameters` were taken from.
    doc: Option<String>,
    #[serde(default)]
    merged_tool: bool,
}

#[derive(Deserialize)]
struct QueryLine {
    id: String,
    query: String,
    instruction: Option<String>,
    relevant: Vec<String>,
    removed_gold: Option<String>,
    candidates: Option<Vec<String>>,
}

pub(super) fn read(dir: &Path, reads: &'static str, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let mut foreign = Foreign::default();
    for line in files::lines::<ToolLine>(&dir.join(TOOLS), reads, findings)? {
        let ToolLine { name, namespace, description, parameters, doc, merged_tool } = line;
        foreign.tools.push(ForeignTool {
            namespace,
            name,
            description: description.unwrap_or_default(),
            raw: doc,
            schema: parameters,
            tags: metatool::tags(merged_tool),
            ..ForeignTool::default()
        });
    }
    if files::present(dir, LABELLED, findings) {
        queries(&dir.join(LABELLED), reads, &mut foreign, findings)?;
    }
    // Not every set has queries without a right tool.
    if dir.join(NO_TOOL).exists() {
        queries(&dir.join(NO_TOOL), reads, &mut foreign, findings)?;
    }
    files::left_out(dir, "", |name| name.starts_with("queries") && ![LABELLED, NO_TOOL].contains(&name), findings);
    Ok(foreign)
}

fn queries(
    path: &Path,
    reads: &'static str,
    foreign: &mut Foreign,
    findings: &mut Findings,
) -> Result<(), ImportError> {
    for line in files::lines::<QueryLine>(path, reads, findings)? {
        let QueryLine { id, query, instruction, relevant, removed_gold, candidates } = line;
        if relevant.is_empty() && candidates.as_ref().is_some_and(Vec::is_empty) {
            findings.add(Trouble::NoCandidates, &id);
            continue;
        }
        if relevant.is_empty() && path.file_name().is_some_and(|name| name == LABELLED) {
            findings.add(Trouble::NoGold, &id);
            continue;
        }
        foreign.queries.push(ForeignQuery {
            id,
            text: query,
            instruction,
            gold: relevant,
            removed: removed_gold,
            candidates: candidates.filter(|names| !names.is_empty()),
            ..ForeignQuery::default()
        });
    }
    Ok(())
}
