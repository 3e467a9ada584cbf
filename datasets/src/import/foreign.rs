//! What other layouts have in common, and its way into the format.

use std::collections::{BTreeSet, HashMap, HashSet};

use harness::catalogue::Annotations;
use harness::dataset::Kind;
use harness::ids::{Digest, ToolId};
use serde_json::{Value, json};

use super::report::{Findings, Trouble};
use crate::load::{MAX_ID, id_fault};
use crate::unique::Pairs;
use crate::wire;

/// Longest server name: it names a file.
const SERVER: usize = 64;
/// Deepest schema. The format adds a few levels, and a reader of JSON gives up at 128.
const DEPTH: usize = 96;

/// What another layout says about a namespace.
#[derive(Debug, Default)]
pub(super) struct ForeignServer {
    pub(super) namespace: String,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) mcp: Option<wire::Implementation>,
}

/// A tool as another layout knows it.
#[derive(Debug, Default)]
pub(super) struct ForeignTool {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) schema: Option<Value>,
    pub(super) annotations: Option<Annotations>,
    pub(super) tags: Vec<String>,
}

/// A query as another layout knows it. Tools are named without a server.
#[derive(Debug)]
pub(super) struct ForeignQuery {
    pub(super) id: String,
    pub(super) text: String,
    /// Every one of them is needed. None: nothing does the job.
    pub(super) gold: Vec<String>,
    /// The tool for which a query without gold was written.
    pub(super) removed: Option<String>,
    pub(super) candidates: Option<Vec<String>>,
}

/// Everything read from a source.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// Those of which the source says something.
    pub(super) servers: Vec<ForeignServer>,
    pub(super) tools: Vec<ForeignTool>,
    pub(super) queries: Vec<ForeignQuery>,
}

/// Tools by server, and the ids that a bare name stands for.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) servers: Vec<(wire::Server, Vec<wire::Tool>)>,
    by_name: HashMap<String, Vec<ToolId>>,
}

/// Puts tools on servers: that of their namespace, or `server`.
pub(super) fn tools(
    foreign: Vec<ForeignTool>,
    known: &[ForeignServer],
    server: &str,
    findings: &mut Findings,
) -> Tools {
    let known: HashMap<&str, &ForeignServer> = known.iter().rev().map(|known| (&*known.namespace, known)).collect();
    let mut tools = Tools::default();
    let mut positions: HashMap<String, usize> = HashMap::new();
    // The namespace that each server is named after.
    let mut namespaces: Vec<String> = Vec::new();
    let mut merged = HashSet::new();
    for ForeignTool { namespace, name, title: shown, description, schema, annotations, tags } in foreign {
        if id_fault(&name).is_some() {
            findings.add(Trouble::UnfitToolName, &name);
            continue;
        }
        let title = namespace.unwrap_or_else(|| server.to_owned());
        let file = Some(server_name(&title)).filter(|file| !file.is_empty()).unwrap_or_else(|| server.to_owned());
        let position = *positions.entry(file.clone()).or_insert_with(|| {
            let mut server = wire::Server {
                server: file.clone(),
                title: title.clone(),
                description: String::new(),
                boilerplate: false,
                mcp: None,
            };
            if let Some(known) = known.get(title.as_str()) {
                if let Some(title) = known.title.as_ref().filter(|title| !title.trim().is_empty()) {
                    server.title.clone_from(title);
                }
                known.description.clone_into(&mut server.description);
                server.mcp.clone_from(&known.mcp);
            }
            tools.servers.push((server, Vec::new()));
            namespaces.push(title.clone());
            tools.servers.len() - 1
        });
        let (_, list) = &mut tools.servers[position];
        if namespaces[position] != title && merged.insert(title.clone()) {
            findings.add(Trouble::MergedServers, &title);
        }
        let id = ToolId::new(&file, &name);
        let ids = tools.by_name.entry(name.clone()).or_default();
        if ids.contains(&id) {
            findings.add(Trouble::DuplicateTool, &name);
            continue;
        }
        ids.push(id);
        let input_schema = match schema {
            None | Some(Value::Null) => empty_schema(),
            Some(Value::Object(schema))
                if schema.get("type").is_none_or(|kind| kind == "object") && shallow(schema.values(), DEPTH) =>
            {
                schema.into()
            }
            Some(_) => {
                findings.add(Trouble::UnfitSchema, &name);
                empty_schema()
            }
        };
        list.push(wire::Tool { name, title: shown, description, input_schema, annotations, core: false, tags });
    }
    tools
}

/// Whether values nest at most `depth` levels.
fn shallow<'a>(mut values: impl Iterator<Item = &'a Value>, depth: usize) -> bool {
    values.all(|value| match value {
        Value::Object(map) => depth > 0 && shallow(map.values(), depth - 1),
        Value::Array(list) => depth > 0 && shallow(list.iter(), depth - 1),
        _ => true,
    })
}

fn empty_schema() -> Value {
    json!({"type": "object"})
}

/// The name of a server that can be a file on every system.
pub(super) fn server_name(namespace: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || character == '-' { character.to_ascii_lowercase() } else { '_' }
    };
    let name: String = namespace.chars().map(plain).take(SERVER).collect();
    name.trim_matches(['_', '-']).to_owned()
}

impl Tools {
    fn resolve(&self, name: &str, trouble: Trouble, findings: &mut Findings) -> Option<ToolId> {
        match self.by_name.get(name).map(Vec::as_slice) {
            Some([id]) => Some(id.clone()),
            Some(_) => {
                findings.add(Trouble::AmbiguousName, name);
                None
            }
            None => {
                findings.add(trouble, name);
                None
            }
        }
    }
}

/// Queries and labels in the format: one group per gold tool, relevance 3, all of split `test`.
pub(super) fn queries(
    foreign: Vec<ForeignQuery>,
    tools: &Tools,
    findings: &mut Findings,
) -> (Vec<wire::Query>, Vec<wire::Qrel>) {
    let conflicting = conflicting(&foreign, findings);
    let (mut queries, mut qrels) = (Vec::with_capacity(foreign.len()), Vec::with_capacity(foreign.len()));
    let (mut ids, mut asked) = (HashSet::new(), HashSet::new());
    for query in foreign {
        if query.text.trim().is_empty() {
            findings.add(Trouble::BlankQuery, &query.id);
        } else if id_fault(&query.id).is_some() {
            findings.add(Trouble::UnfitQueryId, &query.id);
        } else if conflicting.contains(&key(&query)) {
            // Reported once per words, not per query.
        } else if asked.contains(&key(&query)) {
            findings.add(Trouble::DuplicateQuery, &query.text);
        } else if !ids.insert(query.id.clone()) {
            findings.add(Trouble::DuplicateQueryId, &query.id);
        } else {
            asked.insert(key(&query));
            if let Some((query, labels)) = map(query, tools, findings) {
                queries.push(query);
                qrels.extend(labels);
            }
        }
    }
    (queries, qrels)
}

/// What two queries must share to be the same: their words and what they were judged against.
type Key = (String, Option<BTreeSet<String>>);

fn key(query: &ForeignQuery) -> Key {
    (query.text.clone(), query.candidates.as_ref().map(|names| names.iter().cloned().collect()))
}

/// Words that occur with more than one set of gold.
fn conflicting(queries: &[ForeignQuery], findings: &mut Findings) -> HashSet<Key> {
    let mut first: HashMap<Key, BTreeSet<&str>> = HashMap::new();
    let mut conflicting = HashSet::new();
    for query in queries.iter().filter(|query| !query.text.trim().is_empty()) {
        let gold: BTreeSet<_> = query.gold.iter().map(String::as_str).collect();
        let key = key(query);
        if *first.entry(key.clone()).or_insert_with(|| gold.clone()) != gold && conflicting.insert(key) {
            findings.add(Trouble::ConflictingGold, &query.text);
        }
    }
    conflicting
}

fn map(query: ForeignQuery, tools: &Tools, findings: &mut Findings) -> Option<(wire::Query, Vec<wire::Qrel>)> {
    let mut gold = Vec::new();
    for name in &query.gold {
        let id = tools.resolve(name, Trouble::UnresolvedGold, findings)?;
        if gold.contains(&id) {
            findings.add(Trouble::RepeatedGold, &query.text);
        } else {
            gold.push(id);
        }
    }
    let mut candidates: Option<Vec<ToolId>> = None;
    for name in query.candidates.iter().flatten() {
        let id = tools.resolve(name, Trouble::UnresolvedCandidate, findings)?;
        let candidates = candidates.get_or_insert_default();
        if !candidates.contains(&id) {
            candidates.push(id);
        }
    }
    if candidates.as_ref().is_some_and(|candidates| !gold.iter().all(|id| candidates.contains(id))) {
        findings.add(Trouble::GoldNoCandidate, &query.text);
        return None;
    }
    let kind = match gold.len() {
        0 => Kind::NoTool,
        1 => Kind::Unspecified,
        _ => Kind::Multi,
    };
    // A query whose tool was taken away was still written for that tool.
    let removed = query.removed.as_ref().and_then(|name| tools.by_name.get(name)).and_then(|ids| ids.first());
    let written_for: BTreeSet<String> = gold.iter().chain(removed).map(ToString::to_string).collect();
    let labels = gold.iter().enumerate().map(|(group, id)| wire::Qrel {
        query: query.id.clone(),
        group: i64::try_from(group).expect("a list in memory is shorter"),
        tool: id.to_string(),
        relevance: 3,
        arguments: None,
    });
    let labels = labels.collect();
    let query = wire::Query {
        intent: intent(&written_for, &query.id),
        query: query.id,
        text: query.text,
        actor: wire::everybody(),
        kind: kind.as_str().to_owned(),
        language: wire::english(),
        split: "test".to_owned(),
        scaling: false,
        sequential: false,
        candidates: candidates.map(|ids| ids.iter().map(ToString::to_string).collect()),
        results: Pairs::default(),
        tags: Vec::new(),
    };
    Some((query, labels))
}

/// The set of tools a query was written for, or the query itself if nobody says.
fn intent(written_for: &BTreeSet<String>, query: &str) -> String {
    if written_for.is_empty() {
        return query.to_owned();
    }
    let intent = written_for.iter().map(String::as_str).collect::<Vec<_>>().join(" + ");
    if intent.chars().count() <= MAX_ID { intent } else { format!("set {}", Digest::of(intent.as_bytes()).short()) }
}
