//! The BEIR layout (Thakur et al., 2021): `corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv`, as MTEB has it too.
//!
//! A document is a tool: its title is the name where it can be one, else its id is. Every relevant document is a group of
//! its own. Grades of 0 and 1 become 0 and 3; grades up to 2 become 0, 2 and 3; grades up to 3 stay. `qrels/test.tsv` is
//! read if it is there, otherwise all files are. Queries that these files do not judge, or judge against everything, are
//! left out: that nothing fits is not known.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;

use super::foreign::{Foreign, ForeignLabel, ForeignQuery, ForeignTool};
use super::grade::Grades;
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files};
use crate::load::{id_fault, list};

const READS: &str = "a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv";

pub(super) const IMPORTER: Importer =
    Importer { name: "beir", reads: READS, server: "corpus", licence: "NOASSERTION", read: Read::Source(read) };

const QRELS: &str = "qrels";
const TEST: &str = "test.tsv";

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

#[derive(Deserialize)]
struct QueryLine {
    #[serde(rename = "_id")]
    id: String,
    text: String,
}

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let mut foreign = Foreign::default();
    for Document { id, title, text } in files::lines(&source.join("corpus.jsonl"), READS, findings)? {
        let title = title.trim();
        let named = id_fault(title).is_none();
        foreign.tools.push(ForeignTool {
            name: if named { title } else { &*id }.to_owned(),
            title: (!named && !title.is_empty()).then(|| title.to_owned()),
            key: Some(id),
            description: text,
            ..ForeignTool::default()
        });
    }
    let (mut judged, damaged) = judgements(source, findings)?;
    let grades = Grades::of(judged.values().flatten().map(|&(_, grade)| grade));
    for QueryLine { id, text } in files::lines(&source.join("queries.jsonl"), READS, findings)? {
        let judgements = judged.remove(&id).unwrap_or_default();
        if damaged.contains(&id) {
            findings.add(Trouble::DamagedQuery, &id);
            continue;
        }
        if !judgements.iter().any(|&(_, grade)| grade > 0) {
            findings.add(Trouble::NoGold, &id);
            continue;
        }
        let label = |(group, (tool, grade)): (usize, (String, i64))| ForeignLabel {
            relevance: grades.relevance(grade, || format!("{grade} of {tool} for {id}"), findings),
            tool,
            group,
            arguments: None,
        };
        let labels = judgements.into_iter().enumerate().map(label).collect();
        foreign.queries.push(ForeignQuery { id, text, labels, ..ForeignQuery::default() });
    }
    let mut orphans: Vec<_> = judged.into_iter().collect();
    orphans.sort();
    for (query, judgements) in orphans {
        for (tool, _) in judgements {
            findings.add(Trouble::OrphanLabel, &format!("{tool} for {query}"));
        }
    }
    Ok(foreign)
}

type Judgements = HashMap<String, Vec<(String, i64)>>;

/// Documents and grades of each query, and the queries with a line that cannot be read.
fn judgements(source: &Path, findings: &mut Findings) -> Result<(Judgements, HashSet<String>), ImportError> {
    let dir = source.join(QRELS);
    let names: Vec<_> = list(&dir).unwrap_or_default().into_iter().filter(|name| files::ends(name, "tsv")).collect();
    let (mut judged, mut damaged) = (Judgements::new(), HashSet::new());
    if names.is_empty() {
        findings.add(Trouble::FileLeftOut, "qrels/*.tsv (missing)");
    }
    let test = names.iter().any(|name| name == TEST);
    for name in names {
        if test && name != TEST {
            findings.add(Trouble::FileLeftOut, &format!("{QRELS}/{name}"));
            continue;
        }
        let path = dir.join(&name);
        for (index, line) in files::text(&path, READS)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
        {
            let cells: Vec<_> = line.split('\t').map(str::trim).collect();
            // The second of four columns is TREC's iteration.
            let (query, document, grade) = match cells[..] {
                ["query-id", "corpus-id", "score"] if index == 0 => continue,
                [query, document, grade] | [query, _, document, grade] => (query, document, grade),
                _ => {
                    files::unreadable(&path, &(index + 1).to_string(), "expected three cells", findings);
                    damaged.extend(cells.first().map(|&query| query.to_owned()));
                    continue;
                }
            };
            if let Ok(grade) = grade.parse::<i64>() {
                judged.entry(query.to_owned()).or_default().push((document.to_owned(), grade));
            } else {
                let place = format!("{}:{}", index + 1, line.chars().count() - grade.chars().count() + 1);
                files::unreadable(&path, &place, "the score is no whole number", findings);
                damaged.insert(query.to_owned());
            }
        }
    }
    Ok((judged, damaged))
}

#[cfg(test)]
mod tests;
