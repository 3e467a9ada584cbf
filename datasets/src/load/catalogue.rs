//! Servers, tools, actors and skills.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::{fs, io};

use harness::catalogue::{Actor, Grant, Server, Skill, Tier, Tool};
use harness::ids::{ActorId, ToolId};
use serde_json::Value;

use super::Checker;
use super::source::{Row, Source};
use crate::problem::{Problem, did_you_mean, quote};
use crate::wire;

/// Longest description of a skill, in characters (Agent Skills).
const SKILL_DESCRIPTION: usize = 1024;
/// Longest name of a skill, in characters (Agent Skills).
const SKILL_NAME: usize = 64;

/// Names in a folder, sorted, without hidden ones.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}

pub(super) struct Servers {
    pub(super) list: Vec<Server>,
    /// Lines that could not be used.
    broken: HashSet<String>,
}

pub(super) fn servers(dir: &Path, check: &mut Checker) -> Servers {
    let mut servers = Servers { list: Vec::new(), broken: HashSet::new() };
    let Some(source) = Source::read(dir, "servers.jsonl", check) else { return servers };
    let rows = source.rows::<wire::Server>("server", check);
    let mut seen = HashMap::new();
    for row in &rows.rows {
        let name = &row.value.server;
        if !check.id(row, "server", name) {
            continue;
        }
        // The name is a file name, and `/` ends it in `server/tool`.
        if name.starts_with('.') || name.contains(['/', '\\']) {
            let problem = row.problem(&["server"], &format!("server {} cannot name a file", quote(name)));
            check.report(problem.expected("a name without `/`, `\\` and leading `.`"));
            continue;
        }
        if check.unique(row, ("server", "server"), name, &mut seen) {
            let wire::Server { server, title, description, boilerplate: _, mcp: _ } = row.value.clone();
            servers.list.push(Server { name: server, title, description });
        }
    }
    servers.broken = rows.broken;
    servers
}

/// All tools of a dataset, and what references may name.
pub(super) struct Tools {
    pub(super) list: Vec<Tool>,
    index: HashMap<ToolId, usize>,
    /// Lines that could not be read.
    broken: HashSet<ToolId>,
    /// Servers with a file.
    servers: BTreeSet<String>,
    /// Servers whose file is missing.
    unread: BTreeSet<String>,
}

impl Tools {
    pub(super) fn get(&self, id: &ToolId) -> Option<&Tool> {
        self.index.get(id).map(|&index| &self.list[index])
    }

    /// The tool that a text under a key of a line refers to; reports it if there is none.
    pub(super) fn resolve<T>(&self, row: &Row<T>, key: &str, text: &str, check: &mut Checker) -> Option<ToolId> {
        let Ok(id) = text.parse::<ToolId>() else {
            let hint = self.hint(text, text, check);
            let problem = row.problem(&[key, text], &format!("{} names no tool{hint}", quote(text)));
            check.report(problem.expected("`server/tool`"));
            return None;
        };
        if let Some(known) = self.get(&id) {
            return Some(known.id.clone());
        }
        if !self.broken.contains(&id) && !self.unread.contains(id.server()) {
            let hint = self.hint(text, id.name(), check);
            let problem = row.problem(&[key, text], &format!("tool {} does not exist{hint}", quote(text)));
            check.report(problem.expected("a tool of tools/"));
        }
        None
    }

    /// Suggests the tools called `name`, or else those whose id is like `text`.
    fn hint(&self, text: &str, name: &str, check: &mut Checker) -> String {
        let named: Vec<_> =
            self.list.iter().filter(|tool| tool.name() == name).map(|tool| tool.id.to_string()).collect();
        if named.is_empty() {
            check.suggest(text, self.list.iter().map(|tool| tool.id.to_string()))
        } else {
            did_you_mean(named.iter().map(String::as_str))
        }
    }
}

pub(super) fn tools(dir: &Path, servers: &Servers, check: &mut Checker) -> Tools {
    let mut tools = Tools {
        list: Vec::new(),
        index: HashMap::new(),
        broken: HashSet::new(),
        servers: BTreeSet::new(),
        unread: BTreeSet::new(),
    };
    let entries = list(&dir.join("tools")).unwrap_or_else(|error| {
        check
            .report(Problem::error("tools", &format!("cannot be listed: {error}")).expected("a folder of JSONL files"));
        Vec::new()
    });
    let mut files = BTreeSet::new();
    for entry in entries {
        match entry.strip_suffix(".jsonl") {
            Some(server) => _ = files.insert(server.to_owned()),
            None => check.report(Problem::error(&format!("tools/{entry}"), "is not read").expected("<server>.jsonl")),
        }
    }
    for server in &servers.list {
        if files.remove(&server.name) {
            tools_of(dir, &server.name, &mut tools, check);
        } else {
            let file = format!("tools/{}.jsonl", server.name);
            let problem = Problem::error(&file, "no such file, though servers.jsonl lists the server");
            check.report(problem.expected("one line per tool, or an empty file"));
            tools.unread.insert(server.name.clone());
        }
    }
    for server in files {
        if !servers.broken.contains(&server) {
            let hint = check.suggest(&server, servers.list.iter().map(|server| &server.name));
            let problem = Problem::error(&format!("tools/{server}.jsonl"), &format!("servers.jsonl lacks it{hint}"));
            check.report(problem.expected("a line for the server"));
        }
        tools_of(dir, &server, &mut tools, check);
    }
    tools
}

fn tools_of(dir: &Path, server: &str, tools: &mut Tools, check: &mut Checker) {
    tools.servers.insert(server.to_owned());
    let Some(source) = Source::read(dir, &format!("tools/{server}.jsonl"), check) else {
        tools.unread.insert(server.to_owned());
        return;
    };
    let rows = source.rows::<wire::Tool>("name", check);
    tools.broken.extend(rows.broken.iter().map(|name| ToolId::new(server, name)));
    let mut seen = HashMap::new();
    for row in rows.rows {
        let name = &row.value.name;
        if !check.id(&row, "name", name) || !check.unique(&row, ("name", "tool"), name, &mut seen) {
            continue;
        }
        let schema = row.value.input_schema.as_object();
        if schema.is_none_or(|schema| schema.get("type").is_some_and(|kind| kind != "object")) {
            let problem = row.problem(&["inputSchema"], &format!("the input schema of {} is no object", quote(name)));
            check.report(problem.expected("a JSON Schema with \"type\": \"object\"").rule("TG302"));
        }
        let wire::Tool { name, title, description, input_schema, annotations, core, tags } = row.value;
        let mut annotations = annotations.unwrap_or_default();
        annotations.title = title.or(annotations.title);
        let id = ToolId::new(server, &name);
        tools.index.insert(id.clone(), tools.list.len());
        tools.list.push(Tool { id, description, input_schema, annotations, core, tags });
    }
}

/// Whether a schema can take a top-level argument called `name`. Composed schemas may take anything.
pub(crate) fn takes(schema: &Value, name: &str) -> bool {
    let composed = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"].iter().any(|key| schema.get(key).is_some());
    composed || schema.get("properties").is_some_and(|properties| properties.get(name).is_some())
}

pub(super) struct Actors {
    pub(super) list: Vec<Actor>,
    known: HashSet<String>,
}

impl Actors {
    /// The actor of that name; reports it, at the end of `path`, if there is none.
    pub(super) fn resolve<T>(&self, row: &Row<T>, path: &[&str], name: &str, check: &mut Checker) -> ActorId {
        if !self.known.contains(name) {
            let hint = check.suggest(name, self.list.iter().map(|actor| actor.id.as_str()));
            let problem = row.problem(path, &format!("actor {} does not exist{hint}", quote(name)));
            check.report(problem.expected("an actor of actors.jsonl, or `all`"));
        }
        ActorId::new(name)
    }
}

pub(super) fn actors(dir: &Path, tools: &Tools, check: &mut Checker) -> Actors {
    let all = Actor::all();
    let mut actors = Actors { list: Vec::new(), known: HashSet::from([wire::everybody()]) };
    let Some(source) = Source::read_optional(dir, "actors.jsonl", check) else {
        actors.list.push(all);
        return actors;
    };
    let rows = source.rows::<wire::Actor>("actor", check);
    let mut seen = HashMap::new();
    for row in &rows.rows {
        let wire::Actor { actor, roles, grants, read_only } = &row.value;
        if !check.id(row, "actor", actor) || !check.unique(row, ("actor", "actor"), actor, &mut seen) {
            continue;
        }
        for role in roles {
            check.id(row, "roles", role);
        }
        let grants: Vec<_> = grants.iter().filter_map(|pattern| grant(row, pattern, tools, check)).collect();
        if *actor == wire::everybody() && (*read_only || !grants.contains(&Grant::Everything)) {
            let problem = row.problem(
                &["actor", "all"],
                "actor `all` is not granted everything, but the scaling curve is measured with it",
            );
            check.report(problem.expected("grants [\"*\"] and no `read_only`"));
        }
        actors.known.insert(actor.clone());
        actors.list.push(Actor { id: ActorId::new(actor), roles: roles.clone(), grants, read_only: *read_only });
    }
    if !seen.contains_key("all") && !rows.broken.contains("all") {
        let problem = Problem::error("actors.jsonl", "there is no actor `all`");
        check.report(problem.expected(r#"a line {"actor": "all", "roles": [], "grants": ["*"]}"#));
    }
    actors.known.extend(rows.broken);
    actors
}

fn grant<T>(row: &Row<T>, pattern: &str, tools: &Tools, check: &mut Checker) -> Option<Grant> {
    if pattern == "*" {
        return Some(Grant::Everything);
    }
    let Some(server) = pattern.strip_suffix("/*") else {
        return tools.resolve(row, "grants", pattern, check).map(Grant::Tool);
    };
    if !tools.servers.contains(server) && !tools.unread.contains(server) {
        let hint = check.suggest(server, tools.servers.iter());
        let problem = row.problem(&["grants", pattern], &format!("grant {} covers no tool{hint}", quote(pattern)));
        check.report(problem.expected("`*`, `server/*` or `server/tool`"));
    }
    Some(Grant::Server(server.to_owned()))
}

pub(super) fn skills(dir: &Path, tools: &Tools, actors: &Actors, check: &mut Checker) -> Vec<Skill> {
    let mut skills = Vec::new();
    let Some(source) = Source::read_optional(dir, "skills.jsonl", check) else { return skills };
    let mut seen = HashMap::new();
    for row in source.rows::<wire::Skill>("name", check).rows {
        let wire::Skill { name, description, allowed_tools, tier, body } = &row.value;
        if !is_skill_name(name) {
            let problem = row.problem(&["name"], &format!("skill name {} is unfit", quote(name)));
            check.report(problem.expected("1 to 64 lower-case letters, digits and single inner hyphens"));
            continue;
        }
        if !check.unique(&row, ("name", "skill"), name, &mut seen) {
            continue;
        }
        let length = description.chars().count();
        check.text(&row, "description", description);
        if length > SKILL_DESCRIPTION {
            let message = format!("the description of skill {} has {length} characters", quote(name));
            check.report(row.problem(&["description"], &message).expected("at most 1024"));
        }
        let allowed_tools =
            allowed_tools.iter().filter_map(|text| tools.resolve(&row, "allowed-tools", text, check)).collect();
        let tier = match tier.split_once(':') {
            None if tier == "pinned" => Some(Tier::Pinned),
            Some(("role", role)) if !role.trim().is_empty() => Some(Tier::Role(role.to_owned())),
            Some(("personal", actor)) => Some(Tier::Personal(actors.resolve(&row, &["tier", tier], actor, check))),
            _ => None,
        };
        let Some(tier) = tier else {
            let problem = row.problem(&["tier"], &format!("tier {} is unknown", quote(&row.value.tier)));
            check.report(problem.expected("`pinned`, `role:<role>` or `personal:<actor>`"));
            continue;
        };
        let (name, description, body) = (name.clone(), description.clone(), body.clone());
        skills.push(Skill { name, description, allowed_tools, tier, body });
    }
    skills
}

/// Why the loader would refuse a skill.
pub(crate) fn skill_fault(name: &str, description: &str) -> Option<String> {
    let length = description.chars().count();
    if !is_skill_name(name) {
        Some("its name is not 1 to 64 lower-case letters, digits and single inner hyphens".to_owned())
    } else if description.trim().is_empty() {
        Some("its description is blank".to_owned())
    } else if length > SKILL_DESCRIPTION {
        Some(format!("its description has {length} characters; {SKILL_DESCRIPTION} are allowed"))
    } else {
        None
    }
}

fn is_skill_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= SKILL_NAME && name.split('-').all(|part| !part.is_empty() && part.bytes().all(plain))
}
