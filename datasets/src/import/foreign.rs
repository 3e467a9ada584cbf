//! What other layouts have in common, and its way into the format.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use harness::catalogue::Annotations;
use harness::dataset::{Kind, RELEVANCE_COVERS};
use harness::ids::{Digest, ToolId};
use serde_json::{Value, json};

use super::report::{Findings, Trouble};
use super::server_name::{distinct, is_foreign, numbered, server_name};
use crate::load::{MAX_ID, id_fault, skill_fault, takes};
use crate::unique::Pairs;
use crate::wire;

/// Longest text of a tool, server or skill, in bytes. The longest of a real tool is a hundredth of it.
const TEXT: usize = 1 << 20;
/// Tools of one name and server that are kept apart.
const SIBLINGS: usize = 100;
/// Deepest schema or argument. The format adds a few levels, and a reader of JSON gives up at 128.
const DEPTH: usize = 96;

/// A tool as another layout knows it.
#[derive(Debug, Default)]
pub(super) struct ForeignTool {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// What queries call it where that is not its name. Tools with keys of their own may share a name.
    pub(super) key: Option<String>,
    pub(super) title: Option<String>,
    pub(super) description: String,
    /// The whole documentation as the source has it, for sources that figures on that text were published of.
    pub(super) raw: Option<String>,
    pub(super) schema: Option<Value>,
    pub(super) annotations: Option<Annotations>,
    pub(super) tags: Vec<String>,
}

/// What another layout says about a namespace.
#[derive(Debug, Default)]
pub(super) struct ForeignServer {
    /// Blank: the tools without one.
    pub(super) namespace: String,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) mcp: Option<wire::Implementation>,
}

/// A skill as another layout knows it.
#[derive(Debug)]
pub(super) struct ForeignSkill {
    pub(super) name: String,
    pub(super) description: String,
    /// Names of tools without a server, or their keys.
    pub(super) allowed_tools: Vec<String>,
    pub(super) body: String,
}

/// A query as another layout knows it. Tools are named without a server, or by their keys.
#[derive(Debug, Default)]
pub(super) struct ForeignQuery {
    pub(super) id: String,
    pub(super) text: String,
    /// A sentence beside the query that says what to look for.
    pub(super) instruction: Option<String>,
    /// Every one of them is needed. None, and no label: nothing does the job.
    pub(super) gold: Vec<String>,
    /// What more is known than names, after the groups of `gold`.
    pub(super) labels: Vec<ForeignLabel>,
    /// The tool for which a query without gold was written.
    pub(super) removed: Option<String>,
    pub(super) candidates: Option<Vec<String>>,
    pub(super) sequential: bool,
}

/// A label as another layout knows it.
#[derive(Clone, Debug)]
pub(super) struct ForeignLabel {
    pub(super) tool: String,
    /// Any-of inside, all-of across.
    pub(super) group: usize,
    /// As in the format, 0 to 3.
    pub(super) relevance: u8,
    /// Accepted values of each argument.
    pub(super) arguments: Option<Vec<(String, Vec<Value>)>>,
}

impl ForeignQuery {
    /// All labels, those of `gold` first.
    pub(super) fn labels(&self) -> impl Iterator<Item = ForeignLabel> {
        let plain =
            |(group, tool): (usize, &String)| ForeignLabel { tool: tool.clone(), group, relevance: 3, arguments: None };
        let shifted = |label: &ForeignLabel| ForeignLabel { group: self.gold.len() + label.group, ..label.clone() };
        self.gold.iter().enumerate().map(plain).chain(self.labels.iter().map(shifted))
    }
}

/// Everything read from a source.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// Those of which the source says something.
    pub(super) servers: Vec<ForeignServer>,
    pub(super) tools: Vec<ForeignTool>,
    pub(super) queries: Vec<ForeignQuery>,
    pub(super) skills: Vec<ForeignSkill>,
    /// The server of tools without a namespace, as the source's title or its file name has it.
    pub(super) server: Option<String>,
    /// Of the dataset, if there is more to say than how it was imported.
    pub(super) description: Option<String>,
}

/// Tools by server, and the ids that a name or key stands for.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) servers: Vec<(wire::Server, Vec<wire::Tool>)>,
    by_key: HashMap<String, Vec<ToolId>>,
    /// Server and place of each tool.
    at: HashMap<ToolId, (usize, usize)>,
    /// Server of each file name, and the namespace that made it.
    files: HashMap<String, (usize, String)>,
}

/// Puts tools on servers: that of their namespace, or `server`.
pub(super) fn tools(
    foreign: Vec<ForeignTool>,
    known: &[ForeignServer],
    server: &str,
    findings: &mut Findings,
) -> Tools {
    check_servers(known, findings);
    let known: HashMap<&str, &ForeignServer> = known.iter().rev().map(|known| (&*known.namespace, known)).collect();
    let mut tools = Tools::default();
    let mut merged = HashSet::new();
    let mut siblings: HashMap<ToolId, usize> = HashMap::new();
    for tool in foreign {
        if id_fault(&tool.name).is_some() {
            findings.add(Trouble::UnfitToolName, &tool.name);
            continue;
        }
        if is_enormous(&tool) {
            findings.add(Trouble::EnormousTool, &tool.name);
            continue;
        }
        let ForeignTool { namespace, name, key, title, description, raw: _, schema, annotations, tags } = tool;
        if let Some(key) = key.as_ref().filter(|key| tools.by_key.contains_key(*key)) {
            findings.add(Trouble::DuplicateTool, key);
            continue;
        }
        let about = known.get(namespace.as_deref().unwrap_or_default());
        let mut namespace = namespace.unwrap_or_else(|| server.to_owned());
        let mut file =
            Some(server_name(&namespace)).filter(|file| !file.is_empty()).unwrap_or_else(|| server.to_owned());
        let is_taken = |file: &str| tools.files.get(file).is_some_and(|(_, owner)| *owner != namespace);
        if is_taken(&file) && is_foreign(&namespace) {
            // What told the two apart is what a file name cannot hold.
            file = distinct(&file, &namespace);
        }
        if is_taken(&file) && merged.insert(namespace.clone()) {
            findings.add(Trouble::MergedServers, &namespace);
        }
        let first = ToolId::new(&file, &name);
        let mut number = 1;
        if tools.at.contains_key(&first) {
            // Queries cannot tell tools of one name apart unless each has a key.
            let next = siblings.entry(first).or_insert(2);
            number = *next;
            *next += 1;
            let (other, at) = (numbered(&file, number), format!("{namespace} ({number})"));
            if key.is_none() || number > SIBLINGS || tools.at.contains_key(&ToolId::new(&other, &name)) {
                findings.add(Trouble::DuplicateTool, &name);
                continue;
            }
            findings.add(Trouble::MovedTool, &name);
            (file, namespace) = (other, at);
        }
        let (position, _) = tools.files.entry(file.clone()).or_insert_with(|| {
            let title = about.and_then(|about| about.title.clone());
            let title = title.filter(|title| !title.trim().is_empty() && title.len() <= TEXT);
            let title = match title {
                Some(title) if number > 1 => format!("{title} ({number})"),
                Some(title) => title,
                None => namespace.clone(),
            };
            let description = about.map(|about| about.description.clone());
            let description = description.filter(|text| text.len() <= TEXT).unwrap_or_default();
            let mcp = about.and_then(|about| about.mcp.clone());
            let server = wire::Server { server: file.clone(), title, description, boilerplate: false, mcp };
            tools.servers.push((server, Vec::new()));
            (tools.servers.len() - 1, namespace.clone())
        });
        let id = ToolId::new(&file, &name);
        let (_, list) = &mut tools.servers[*position];
        tools.at.insert(id.clone(), (*position, list.len()));
        tools.by_key.entry(key.unwrap_or_else(|| name.clone())).or_default().push(id);
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
        list.push(wire::Tool { name, title, description, input_schema, annotations, core: false, tags });
    }
    tools
}

fn check_servers(servers: &[ForeignServer], findings: &mut Findings) {
    let mut named = HashSet::new();
    for server in servers {
        if !named.insert(&*server.namespace) {
            findings.add(Trouble::RepeatedServer, &server.namespace);
        }
        if is_long(server.title.as_ref()) || server.description.len() > TEXT {
            findings.add(Trouble::EnormousServer, &server.namespace);
        }
    }
}

/// Whether a tool is longer than any prompt.
pub(super) fn is_enormous(tool: &ForeignTool) -> bool {
    let hint = tool.annotations.as_ref().and_then(|annotations| annotations.title.as_ref());
    is_long(tool.title.as_ref())
        || is_long(hint)
        || tool.description.len() > TEXT
        || tool.schema.as_ref().is_some_and(|schema| schema.to_string().len() > TEXT)
}

fn is_long(text: Option<&String>) -> bool {
    text.is_some_and(|text| text.len() > TEXT)
}

/// Whether values nest at most `depth` levels.
fn shallow<'a>(mut values: impl Iterator<Item = &'a Value>, depth: usize) -> bool {
    values.all(|value| match value {
        Value::Object(map) => depth > 0 && shallow(map.values(), depth - 1),
        Value::Array(list) => depth > 0 && shallow(list.iter(), depth - 1),
        _ => true,
    })
}

/// Skills in the format, visible to everybody.
pub(super) fn skills(foreign: Vec<ForeignSkill>, tools: &Tools, findings: &mut Findings) -> Vec<wire::Skill> {
    let mut names = HashSet::new();
    let mut skills = Vec::with_capacity(foreign.len());
    for ForeignSkill { name, description, allowed_tools, body } in foreign {
        let fault = skill_fault(&name, &description);
        let fault = fault.or_else(|| (body.len() > TEXT).then(|| format!("its body has {} bytes", body.len())));
        if let Some(fault) = fault {
            findings.add(Trouble::UnfitSkill, &format!("{name}: {fault}"));
        } else if names.insert(name.clone()) {
            let allowed = allowed_tools.iter().filter_map(|tool| {
                if let Some([id]) = tools.by_key.get(tool).map(Vec::as_slice) {
                    return Some(id.to_string());
                }
                findings.add(Trouble::UnknownAllowedTool, &format!("{tool} of {name}"));
                None
            });
            let allowed_tools = allowed.collect();
            skills.push(wire::Skill { name, description, allowed_tools, tier: "pinned".to_owned(), body });
        } else {
            findings.add(Trouble::DuplicateSkill, &name);
        }
    }
    skills
}

fn empty_schema() -> Value {
    json!({"type": "object"})
}

/// The server that a title or the name of a file speaks of; names that any such file may have speak of none.
pub(super) fn server_of(text: &str) -> Option<String> {
    const ANYBODY_S: [&str; 9] =
        ["tools", "tools_list", "tools-list", "list", "request", "response", "input", "output", "openapi"];
    let name = server_name(text);
    (!name.is_empty() && !ANYBODY_S.contains(&name.as_str())).then_some(name)
}

impl Tools {
    fn resolve(&self, name: &str, trouble: Trouble, findings: &mut Findings) -> Option<ToolId> {
        match self.by_key.get(name).map(Vec::as_slice) {
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

impl Tools {
    /// The arguments that the tool takes and that accept a value.
    fn fitting(&self, tool: &ToolId, mut arguments: Arguments, findings: &mut Findings) -> Arguments {
        let schema = self.at.get(tool).map(|&(server, place)| &self.servers[server].1[place].input_schema);
        let mut seen = HashSet::new();
        arguments.retain(|(name, accepted)| {
            let fits = schema.is_some_and(|schema| takes(schema, name))
                && !accepted.is_empty()
                && shallow(accepted.iter(), DEPTH)
                && seen.insert(name.clone());
            if !fits {
                findings.add(Trouble::UnfitArgument, &format!("{name} of {}", tool.name()));
            }
            fits
        });
        arguments
    }
}

/// Queries and labels in the format: all of split `test`.
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
        let covering = query.labels.iter().filter(|label| label.relevance >= RELEVANCE_COVERS);
        let gold = query.gold.iter().chain(covering.map(|label| &label.tool));
        let gold: BTreeSet<_> = gold.map(String::as_str).collect();
        let key = key(query);
        if *first.entry(key.clone()).or_insert_with(|| gold.clone()) != gold && conflicting.insert(key) {
            findings.add(Trouble::ConflictingGold, &query.text);
        }
    }
    conflicting
}

fn map(query: ForeignQuery, tools: &Tools, findings: &mut Findings) -> Option<(wire::Query, Vec<wire::Qrel>)> {
    let labels = labels(&query, tools, findings)?;
    let mut candidates: Option<Vec<ToolId>> = None;
    let mut among = HashSet::new();
    for name in query.candidates.iter().flatten() {
        let id = tools.resolve(name, Trouble::UnresolvedCandidate, findings)?;
        let candidates = candidates.get_or_insert_default();
        if among.insert(id.clone()) {
            candidates.push(id);
        }
    }
    if candidates.is_some() && !labels.iter().all(|label| among.contains(&label.tool)) {
        findings.add(Trouble::GoldNoCandidate, &query.text);
        return None;
    }
    let covering = || labels.iter().filter(|label| label.relevance >= RELEVANCE_COVERS);
    let kind = match covering().map(|label| label.group).collect::<BTreeSet<_>>().len() {
        0 => Kind::NoTool,
        1 => Kind::Unspecified,
        _ => Kind::Multi,
    };
    // A query whose tool was taken away was still written for that tool.
    let removed = query.removed.as_ref().and_then(|name| tools.by_key.get(name)).and_then(|ids| ids.first());
    let written_for: BTreeSet<String> =
        covering().map(|label| &label.tool).chain(removed).map(ToString::to_string).collect();
    let labels = labels.into_iter().map(|label| wire::Qrel {
        query: query.id.clone(),
        group: i64::try_from(label.group).expect("a list in memory is shorter"),
        tool: label.tool.to_string(),
        relevance: i64::from(label.relevance),
        arguments: label.arguments.map(Pairs),
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
        sequential: query.sequential,
        candidates: candidates.map(|ids| ids.iter().map(ToString::to_string).collect()),
        results: Pairs::default(),
        tags: Vec::new(),
    };
    Some((query, labels))
}

/// A label whose tool was found.
struct Label {
    tool: ToolId,
    group: usize,
    relevance: u8,
    arguments: Option<Vec<(String, Vec<Value>)>>,
}

/// The labels of a query, one per tool: a group is a need, and a tool that is called twice meets it once. Where the calls
/// differ, the values of either are accepted.
fn labels(query: &ForeignQuery, tools: &Tools, findings: &mut Findings) -> Option<Vec<Label>> {
    let mut labels: Vec<Label> = Vec::new();
    let mut places: HashMap<ToolId, usize> = HashMap::new();
    for ForeignLabel { tool, group, relevance, arguments } in query.labels() {
        let tool = tools.resolve(&tool, Trouble::UnresolvedGold, findings)?;
        let arguments = arguments.map(|arguments| tools.fitting(&tool, arguments, findings));
        if let Some(&place) = places.get(&tool) {
            findings.add(Trouble::RepeatedGold, &query.text);
            labels[place].relevance = labels[place].relevance.max(relevance);
            labels[place].arguments = either(labels[place].arguments.take(), arguments);
        } else {
            places.insert(tool.clone(), labels.len());
            labels.push(Label { tool, group, relevance, arguments });
        }
    }
    // Groups are needs: what covers none, a helper or a judged zero, goes with the first.
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    for label in labels.iter().filter(|label| label.relevance >= RELEVANCE_COVERS) {
        let next = numbers.len();
        numbers.entry(label.group).or_insert(next);
    }
    for label in &mut labels {
        label.group = numbers.get(&label.group).copied().unwrap_or_default();
    }
    labels.sort_by_key(|label| label.group);
    Some(labels)
}

type Arguments = Vec<(String, Vec<Value>)>;

/// Arguments of two calls of which either is right. `""`: may be left out.
fn either(one: Option<Arguments>, other: Option<Arguments>) -> Option<Arguments> {
    let (mut one, other) = (one?, other?);
    let lacks = |arguments: &Arguments, name: &str| !arguments.iter().any(|(known, _)| known == name);
    for (_, accepted) in one.iter_mut().filter(|(name, _)| lacks(&other, name)) {
        accepted.push("".into());
    }
    for (name, mut accepted) in other {
        if lacks(&one, &name) {
            accepted.push("".into());
            one.push((name, accepted));
        } else if let Some((_, known)) = one.iter_mut().find(|(known, _)| *known == name) {
            accepted.retain(|value| !known.contains(value));
            known.append(&mut accepted);
        }
    }
    Some(one)
}

/// The set of tools a query was written for, or the query itself if nobody says.
fn intent(written_for: &BTreeSet<String>, query: &str) -> String {
    if written_for.is_empty() {
        return query.to_owned();
    }
    let intent = written_for.iter().map(String::as_str).collect::<Vec<_>>().join(" + ");
    if intent.chars().count() <= MAX_ID { intent } else { format!("set {}", Digest::of(intent.as_bytes()).short()) }
}
