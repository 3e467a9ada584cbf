//! `MetaTool` (Huang et al., 2023), as its repository lays it out and as two normalised JSONL files.
//!
//! Each gold tool is a group of its own: a query with two golds needs both. Queries of the reliability task had their gold
//! tool taken out of ten candidates; they become no-tool queries that are valid among those candidates only, and they
//! share the intent of the tool they were written for.

use std::path::Path;

use serde::Deserialize;

use super::foreign::{Foreign, ForeignQuery, ForeignTool};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files, normalised, table};
use crate::unique::Pairs;

const READS: &str = "the folder of MetaTool's repository or its `dataset` folder (plugin_des.json, \
                     data/all_clean_data.csv, …), or a folder with tools.jsonl and queries.jsonl";

pub(super) const IMPORTER: Importer =
    Importer { name: "metatool", reads: READS, server: "metatool", licence: "MIT", read: Read::Source(read) };

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let nested = source.join("dataset");
    if normalised::fits(source) {
        normalised::read(source, READS, findings)
    } else if nested.join("plugin_des.json").exists() {
        upstream(&nested, findings)
    } else {
        upstream(source, findings)
    }
}

/// How the repository marks tools that its authors merged from several plugins.
pub(super) fn tags(merged: bool) -> Vec<String> {
    if merged { vec!["merged".to_owned()] } else { Vec::new() }
}

const PLUGINS: &str = "plugin_des.json";
const MERGED: &str = "big_tool_des.json";
const SINGLE: &str = "data/all_clean_data.csv";
const MULTI: &str = "data/multi_tool_query_golden.json";
const RELIABILITY: &str = "tmp_dataset/Task2-Subtask3.json";

#[derive(Deserialize)]
struct MultiEntry {
    query: String,
    tool: Vec<String>,
}

#[derive(Deserialize)]
struct ReliabilityEntry {
    query: String,
    tool: String,
    action_prompt: String,
}

fn upstream(dir: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let mut foreign = Foreign::default();
    let Pairs(plugins) = files::json::<Pairs<String>>(&dir.join(PLUGINS), READS)?;
    let Pairs(merged) = if files::present(dir, MERGED, findings) {
        files::json::<Pairs<String>>(&dir.join(MERGED), READS)?
    } else {
        Pairs::default()
    };
    let tool = |(name, description): (String, String), merged: bool| ForeignTool {
        name,
        description,
        tags: tags(merged),
        ..ForeignTool::default()
    };
    // The list of all tools repeats the merged ones. One that differs is a second tool of the same name, and listed so.
    let repeats = |entry: &(String, String)| merged.contains(entry);
    foreign.tools.extend(plugins.iter().map(|entry| tool(entry.clone(), repeats(entry))));
    let missing = merged.iter().filter(|&entry| !plugins.contains(entry));
    foreign.tools.extend(missing.map(|entry| tool(entry.clone(), true)));

    if files::present(dir, SINGLE, findings) {
        single(&dir.join(SINGLE), &mut foreign, findings)?;
    }
    if files::present(dir, MULTI, findings) {
        let entries: Vec<MultiEntry> = files::entries(&dir.join(MULTI), READS, findings)?;
        for (index, MultiEntry { query: text, tool: gold }) in entries.into_iter().enumerate() {
            let id = format!("multi-{index}");
            if gold.is_empty() {
                findings.add(Trouble::NoGold, &id);
            } else {
                foreign.queries.push(ForeignQuery { id, text, gold, ..ForeignQuery::default() });
            }
        }
    }
    if files::present(dir, RELIABILITY, findings) {
        reliability(&dir.join(RELIABILITY), &mut foreign, findings)?;
    }
    for folder in ["data", "tmp_dataset"] {
        let read = |name: &str| [SINGLE, MULTI, RELIABILITY].contains(&&*format!("{folder}/{name}"));
        files::left_out(dir, folder, |name| !read(name), findings);
    }
    Ok(foreign)
}

/// One gold per row.
fn single(path: &Path, foreign: &mut Foreign, findings: &mut Findings) -> Result<(), ImportError> {
    let text = files::text(path, READS)?;
    for (index, row) in table::rows(&text).into_iter().enumerate() {
        let place = format!("record {index}");
        if !row.is_whole(path, &place, findings) {
            continue;
        }
        let cells: Vec<_> = row.record.iter().collect();
        match cells[..] {
            ["Query", "Tool"] if index == 0 => {}
            [query, tool] => foreign.queries.push(ForeignQuery {
                id: format!("single-{index}"),
                text: query.to_owned(),
                gold: vec![tool.to_owned()],
                ..ForeignQuery::default()
            }),
            _ => row.unreadable(path, &place, "expected two cells", findings),
        }
    }
    Ok(())
}

/// The gold tool is not among the ten candidates that the prompt lists.
fn reliability(path: &Path, foreign: &mut Foreign, findings: &mut Findings) -> Result<(), ImportError> {
    for (index, entry) in files::entries::<ReliabilityEntry>(path, READS, findings)?.into_iter().enumerate() {
        let candidates = candidates(&entry.action_prompt);
        if candidates.is_empty() {
            files::unreadable(path, &format!("entry {index}"), "its prompt lists no tool", findings);
            continue;
        }
        foreign.queries.push(ForeignQuery {
            id: format!("no-tool-{index}"),
            text: entry.query,
            removed: Some(entry.tool),
            candidates: Some(candidates),
            ..ForeignQuery::default()
        });
    }
    Ok(())
}

/// The names in the numbered list of a prompt.
fn candidates(prompt: &str) -> Vec<String> {
    let list = prompt.split_once("Descriptions Start]").map_or("", |(_, rest)| rest);
    let list = list.split_once("[List of Tools").map_or(list, |(list, _)| list);
    let name = |line: &str| {
        let (_, rest) = line.split_once(". tool name: ")?;
        rest.split_once(", tool description:").map(|(name, _)| name.to_owned())
    };
    list.lines().filter_map(name).collect()
}
