//! Queries and their labels.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use harness::dataset::{Kind, Labels, Qrel, Query, RELEVANCE_COVERS};
use harness::ids::{IntentId, QueryId, ToolId};

use super::Checker;
use super::catalogue::{Actors, Tools, takes};
use super::source::{Row, Rows, Source};
use crate::problem::quote;
use crate::wire;

/// Longest BCP 47 tag that is registered or likely, in characters.
const LANGUAGE: usize = 35;
const RELEVANCE_MAX: u8 = 3;

/// A query beside the line it comes from.
struct Entry<'a> {
    row: &'a Row<'a, wire::Query>,
    query: Query,
    /// The kind could be read.
    kind_known: bool,
    /// Its candidates as a set, to look labels up.
    candidates: Option<HashSet<ToolId>>,
}

/// Reads `queries.jsonl` and `qrels.jsonl` and checks one against the other.
pub(super) fn read(
    dir: &Path,
    tools: &Tools,
    actors: &Actors,
    check: &mut Checker,
) -> (Vec<Query>, BTreeMap<QueryId, Labels>) {
    let queries_file = Source::read(dir, "queries.jsonl", check);
    let qrels_file = Source::read(dir, "qrels.jsonl", check);
    let Some(queries_file) = queries_file else { return (Vec::new(), BTreeMap::new()) };
    let query_rows = queries_file.rows::<wire::Query>("query", check);
    let mut seen = HashMap::new();
    let mut entries = Vec::with_capacity(query_rows.rows.len());
    for row in &query_rows.rows {
        let id = &row.value.query;
        if check.id(row, "query", id) && check.unique(row, ("query", "query"), id, &mut seen) {
            entries.push(query(row, tools, actors, check));
        }
    }
    splits(&entries, check);

    let mut labels = BTreeMap::new();
    if let Some(qrels_file) = &qrels_file {
        let qrel_rows = qrels_file.rows::<wire::Qrel>("query", check);
        let by_query = by_query(&qrel_rows, &entries, &query_rows.broken, tools, check);
        for (entry, marks) in entries.iter().zip(by_query) {
            agree(entry, &marks, check);
            if entry.kind_known && !qrel_rows.broken.contains(&entry.row.value.query) {
                groups(entry, &marks, check);
            }
            let qrels: Vec<_> = marks.into_iter().filter_map(|mark| mark.qrel).collect();
            if !qrels.is_empty() {
                labels.insert(entry.query.id.clone(), Labels::new(qrels));
            }
        }
    }
    (entries.into_iter().map(|entry| entry.query).collect(), labels)
}

fn query<'a>(row: &'a Row<'a, wire::Query>, tools: &Tools, actors: &Actors, check: &mut Checker) -> Entry<'a> {
    let wire = &row.value;
    check.id(row, "intent", &wire.intent);
    check.id(row, "split", &wire.split);
    check.text(row, "text", &wire.text);
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == wire.kind);
    if kind.is_none() {
        let hint = check.suggest(&wire.kind, Kind::ALL.iter().map(|kind| kind.as_str()));
        let problem = row.problem(&["kind"], &format!("kind {} is unknown{hint}", quote(&wire.kind)));
        check.report(problem.expected(&Kind::ALL.map(Kind::as_str).join(", ")));
    }
    if !is_language(&wire.language) {
        let problem = row.problem(&["language"], &format!("language {} is no BCP 47 tag", quote(&wire.language)));
        check.report(problem.expected("one such as `en` or `pt-BR`"));
    }
    let candidates = wire.candidates.as_ref().map(|list| candidates(row, list, tools, check));
    let mut results = BTreeMap::new();
    for (text, result) in &wire.results.0 {
        if let Some(tool) = tools.resolve(row, "results", text, check)
            && results.insert(tool, result.clone()).is_some()
        {
            check.report(
                row.problem(&["results", text], &format!("tool {} has two results", quote(text))).expected("one"),
            );
        }
    }
    let query = Query {
        id: QueryId::new(&wire.query),
        intent: IntentId::new(&wire.intent),
        text: wire.text.clone(),
        actor: actors.resolve(row, &["actor", &wire.actor], &wire.actor, check),
        kind: kind.unwrap_or(Kind::Unspecified),
        language: wire.language.clone(),
        split: wire.split.clone(),
        scaling: wire.scaling,
        sequential: wire.sequential,
        candidates,
        results,
        tags: wire.tags.clone(),
    };
    let candidates = query.candidates.as_ref().map(|list| list.iter().cloned().collect());
    Entry { row, query, kind_known: kind.is_some(), candidates }
}

fn candidates(row: &Row<wire::Query>, list: &[String], tools: &Tools, check: &mut Checker) -> Vec<ToolId> {
    if list.is_empty() {
        check.report(row.problem(&["candidates"], "candidates is empty").expected("tools, or no such key"));
    }
    let mut seen = HashSet::new();
    for text in list.iter().filter(|text| !seen.insert(text.as_str())) {
        check.report(
            row.problem(&["candidates", text], &format!("candidate {} occurs twice", quote(text)))
                .expected("each one once"),
        );
    }
    list.iter().filter_map(|text| tools.resolve(row, "candidates", text, check)).collect()
}

/// Whether a text has the shape of a BCP 47 tag: subtags of 1 to 8 letters and digits, the first of letters.
fn is_language(text: &str) -> bool {
    let first = text.split('-').next().unwrap_or_default();
    text.len() <= LANGUAGE
        && first.bytes().all(|byte| byte.is_ascii_alphabetic())
        && text.split('-').all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// `dev` and `test` never share an intent.
fn splits(entries: &[Entry], check: &mut Checker) {
    let mut first: HashMap<&IntentId, (&str, usize)> = HashMap::new();
    let mut reported = HashSet::new();
    for Entry { row, query, .. } in entries.iter().filter(|entry| matches!(&*entry.query.split, "dev" | "test")) {
        let (split, line) = *first.entry(&query.intent).or_insert((&query.split, row.line));
        if split != query.split && reported.insert(&query.intent) {
            let intent = quote(query.intent.as_str());
            let message = format!("intent {intent} is in {} here and in {split} on line {line}", query.split);
            let problem = row.problem(&["intent"], &message).expected("one split for all queries of an intent");
            check.report(problem.rule("TG604"));
        }
    }
}

/// A label beside the line it comes from.
struct Mark<'a> {
    row: &'a Row<'a, wire::Qrel>,
    /// `None`: it was reported.
    qrel: Option<Qrel>,
}

impl Mark<'_> {
    fn covers(&self) -> bool {
        self.row.value.relevance >= i64::from(RELEVANCE_COVERS)
    }
}

/// The labels of each entry, in the order of the entries; labels of no query are reported.
fn by_query<'a>(
    rows: &'a Rows<'a, wire::Qrel>,
    entries: &[Entry],
    broken: &HashSet<String>,
    tools: &Tools,
    check: &mut Checker,
) -> Vec<Vec<Mark<'a>>> {
    let ids = || entries.iter().map(|entry| entry.query.id.as_str());
    let index: HashMap<_, _> = ids().enumerate().map(|(index, id)| (id, index)).collect();
    let mut by_query: Vec<_> = entries.iter().map(|_| Vec::new()).collect();
    for row in &rows.rows {
        let qrel = qrel(row, tools, check);
        let id = row.value.query.as_str();
        if let Some(&index) = index.get(id) {
            by_query[index].push(Mark { row, qrel });
        } else if !broken.contains(id) {
            let hint = check.suggest(id, ids());
            let problem = row.problem(&["query", id], &format!("query {} does not exist{hint}", quote(id)));
            check.report(problem.expected("a query of queries.jsonl"));
        }
    }
    by_query
}

/// What one line says, whatever its query.
fn qrel(row: &Row<wire::Qrel>, tools: &Tools, check: &mut Checker) -> Option<Qrel> {
    let wire = &row.value;
    let group = u32::try_from(wire.group).ok();
    if group.is_none() {
        let problem = row.problem(&["group"], &format!("group {} is out of range", wire.group));
        check.report(problem.expected("an integer from 0"));
    }
    let relevance = u8::try_from(wire.relevance).ok().filter(|&relevance| relevance <= RELEVANCE_MAX);
    if relevance.is_none() {
        let problem = row.problem(&["relevance"], &format!("relevance {} is out of range", wire.relevance));
        check.report(problem.expected("0, 1, 2 or 3"));
    }
    let tool = tools.resolve(row, "tool", &wire.tool, check)?;
    arguments(row, &tool, tools, check);
    let arguments = wire.arguments.as_ref().map(|pairs| pairs.0.iter().cloned().collect());
    Some(Qrel { group: group?, tool, relevance: relevance?, arguments })
}

/// Labels of one query occur once and stay within its candidates.
fn agree(entry: &Entry, marks: &[Mark], check: &mut Checker) {
    let mut seen: HashMap<(i64, &str), usize> = HashMap::new();
    for Mark { row, qrel } in marks {
        let wire = &row.value;
        if let Some(line) = seen.insert((wire.group, &wire.tool), row.line) {
            let message = format!("group {} labels {} twice, first on line {line}", wire.group, quote(&wire.tool));
            check.report(row.problem(&["tool", &wire.tool], &message).expected("one label"));
        }
        let outside = |qrel: &Qrel| entry.candidates.as_ref().is_some_and(|tools| !tools.contains(&qrel.tool));
        if qrel.as_ref().is_some_and(outside) {
            let query = quote(entry.query.id.as_str());
            let message = format!("{} is labelled but no candidate of query {query}", quote(&wire.tool));
            check.report(row.problem(&["tool", &wire.tool], &message).expected("one of its candidates"));
        }
    }
}

fn arguments(row: &Row<wire::Qrel>, tool: &ToolId, tools: &Tools, check: &mut Checker) {
    let schema = &tools.get(tool).expect("the tool was resolved").input_schema;
    let mut seen = HashSet::new();
    for (name, accepted) in row.value.arguments.iter().flat_map(|pairs| &pairs.0) {
        if !seen.insert(name) {
            check.report(
                row.problem(&["arguments", name], &format!("argument {} occurs twice", quote(name)))
                    .expected("one list"),
            );
        }
        if accepted.is_empty() {
            let problem = row.problem(&["arguments", name], &format!("argument {} accepts no value", quote(name)));
            check.report(problem.expected("a list of accepted values"));
        }
        if !takes(schema, name) {
            let known: Vec<_> =
                schema.get("properties").and_then(|map| map.as_object()).into_iter().flatten().collect();
            let hint = check.suggest(name, known.iter().map(|(known, _)| known.as_str()));
            let problem = row.problem(&["arguments", name], &format!("{tool} has no argument {}{hint}", quote(name)));
            check.report(problem.expected("a property of its input schema"));
        }
    }
}

/// What the kind says has to agree with the labels, and every group has to be coverable.
fn groups(entry: &Entry, marks: &[Mark], check: &mut Checker) {
    let id = quote(entry.query.id.as_str());
    let covering = marks.iter().find(|mark| mark.covers());
    match (entry.query.kind, covering) {
        (Kind::NoTool, None) => {}
        (Kind::NoTool, Some(label)) => {
            let message = format!("query {id} is of kind no_tool, but qrels.jsonl line {} covers it", label.row.line);
            check.report(
                entry.row.problem(&["kind"], &message).expected("no label of relevance 2 or 3, or another kind"),
            );
        }
        (kind, None) => {
            let message = format!("query {id} is of kind {}, but no label covers it", kind.as_str());
            check.report(
                entry.row.problem(&["kind"], &message).expected("a label of relevance 2 or 3, or kind no_tool"),
            );
        }
        (kind, Some(_)) => {
            // Per group its first line and whether it can be covered.
            let mut groups: BTreeMap<i64, (&Row<wire::Qrel>, bool)> = BTreeMap::new();
            for mark in marks {
                groups.entry(mark.row.value.group).or_insert((mark.row, false)).1 |= mark.covers();
            }
            for (group, (row, _)) in groups.iter().filter(|(_, (_, covered))| !covered) {
                let message = format!("no label covers group {group} of query {id}");
                check.report(row.problem(&["group"], &message).expected("a member of relevance 2 or 3"));
            }
            if kind == Kind::Multi && groups.len() < 2 {
                let message = format!("query {id} is of kind multi, but has one group");
                check.report(entry.row.problem(&["kind"], &message).expected("two groups or more, or another kind"));
            }
        }
    }
}
