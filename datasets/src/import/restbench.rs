//! `RestBench` (Song et al., 2023): requests in plain words, and the path of REST calls that answers each.
//!
//! Operations become tools as `openapi` makes them; every call of a path is needed, and its order is not carried over.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::foreign::{Foreign, ForeignQuery, ForeignServer, ForeignTool};
use super::openapi::{self, Document, Operation};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files};
use crate::load::list;
use crate::problem::printable;

const READS: &str = "the folder of RestBench: <name>.json with `query` and `solution`, and <name>_oas.json with the OpenAPI \
                     document (in its repository: `datasets` and `specs`)";

pub(super) const IMPORTER: Importer =
    Importer { name: "restbench", reads: READS, server: "restbench", licence: "MIT", read: Read::Source(read) };

#[derive(Deserialize)]
struct Entry {
    query: String,
    solution: Vec<String>,
}

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let nested = source.join("datasets");
    let folder = if nested.is_dir() { nested } else { source.to_owned() };
    let unreadable = |reason: String| ImportError::Unreadable { path: printable(source), reason, expected: READS };
    let names = list(&folder).map_err(|error| unreadable(error.to_string()))?;
    let mut foreign = Foreign::default();
    for name in &names {
        let Some(stem) = name.strip_suffix(".json").filter(|stem| !stem.ends_with("_oas")) else { continue };
        match specification(source, stem) {
            Some(specification) => set(&folder.join(name), stem, &specification, &mut foreign, findings)?,
            None => findings.add(Trouble::FileLeftOut, &format!("{name} ({stem}_oas.json is missing)")),
        }
    }
    if foreign.tools.is_empty() {
        return Err(unreadable("it holds no queries with an OpenAPI document".to_owned()));
    }
    Ok(foreign)
}

fn specification(source: &Path, stem: &str) -> Option<PathBuf> {
    let places = [source.to_owned(), source.join("specs"), source.join("../specs")];
    places.into_iter().map(|folder| folder.join(format!("{stem}_oas.json"))).find(|path| path.is_file())
}

/// One set of queries and its document; several sets may be imported together.
fn set(
    queries: &Path,
    stem: &str,
    specification: &Path,
    foreign: &mut Foreign,
    findings: &mut Findings,
) -> Result<(), ImportError> {
    let Document { server, operations } = openapi::document(specification, findings)?;
    foreign.servers.push(ForeignServer { namespace: stem.to_owned(), ..server });
    for Operation { place, tool } in operations {
        let (namespace, key) = (Some(stem.to_owned()), Some(key(stem, &place)));
        foreign.tools.push(ForeignTool { namespace, key, ..tool });
    }
    let entries: Vec<Value> = files::json(queries, READS)?;
    for (index, entry) in entries.into_iter().enumerate() {
        match Entry::deserialize(entry) {
            Ok(Entry { solution, .. }) if solution.is_empty() => {
                findings.add(Trouble::NoGold, &format!("{stem}-{}", index + 1));
            }
            Ok(Entry { query, solution }) => foreign.queries.push(ForeignQuery {
                id: format!("{stem}-{}", index + 1),
                text: query,
                gold: solution.iter().map(|call| key(stem, call)).collect(),
                ..ForeignQuery::default()
            }),
            Err(error) => files::unreadable(queries, &format!("entry {}", index + 1), &error.to_string(), findings),
        }
    }
    Ok(())
}

/// `GET /path` of one document.
fn key(stem: &str, call: &str) -> String {
    let (method, path) = call.trim().split_once(char::is_whitespace).unwrap_or((call, ""));
    format!("{stem}: {} {}", method.to_uppercase(), path.trim())
}

#[cfg(test)]
pub(super) mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::tests::{import, mangled, survives};
    use crate::testing::lines;

    pub(crate) const FILES: [(&str, &str); 5] = [
        (
            "rest/datasets/kiln.json",
            r#"[{"query": "Fire the batch.", "solution": ["GET /batches", "POST /batches/{id}/fire"]},
 {"query": "Which batches?", "solution": ["get  /batches"]}, {"query": "Fly.", "solution": ["GET /wings"]},
 {"query": "Nothing.", "solution": []}, {"query": "Odd.", "solution": "GET /batches"}]"#,
        ),
        (
            "rest/specs/kiln_oas.json",
            r#"{"openapi": "3.0.0", "info": {"title": "Kiln"}, "paths": {"/batches": {"get": {"operationId": "list", "summary": "List batches"}},
 "/batches/{id}/fire": {"post": {"operationId": "fire", "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}]}}}}"#,
        ),
        ("rest/datasets/loom.json", r#"[{"query": "What cloth?", "solution": ["GET /batches"]}]"#),
        (
            "rest/specs/loom_oas.json",
            r#"{"openapi": "3.0.0", "info": {"title": "Loom"}, "paths": {"/batches": {"get": {"operationId": "list", "summary": "List cloth"}}}}"#,
        ),
        ("rest/datasets/stray.json", "[]"),
    ];

    #[test]
    fn solutions_name_operations_of_their_document() {
        let (report, dataset) = import("restbench", &FILES, "rest");
        assert_snapshot!(report, @r#"
        servers 2, tools 3, queries 3 (no-tool 0), labels 4
          1 × file that has no place in the format or is missing; not imported: "stray.json (stray_oas.json is missing)"
          1 × entry that cannot be read; left out: "kiln.json:entry 5: invalid type: string "GET /batches", expected a sequence"
          1 × gold that names no tool; the query is left out: "kiln: GET /wings"
          1 × query whose gold the source does not say; left out: "kiln-4"
        "#);
        let queries = dataset.queries.iter().map(|query| format!("{}: {} → {}", query.id, query.text, query.intent));
        assert_snapshot!(lines(queries), @r#"
        kiln-1: Fire the batch. → kiln/fire + kiln/list
        kiln-2: Which batches? → kiln/list
        loom-1: What cloth? → loom/list
        "#);
        assert_eq!(import("restbench", &FILES, "rest/datasets").0, report);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn arbitrary_bytes_never_panic(change in mangled(&FILES)) {
            survives("restbench", &FILES, "rest", change);
        }
    }
}
