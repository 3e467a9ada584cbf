//! Skills and actors: what can be reached, and by whom.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use harness::catalogue::{Actor, Grant, Tier, Tool};

use super::rules::{ACTOR_WITHOUT_GRANT, ORPHANS, SKILL_EMPTY, TIER_OF_NOBODY, TOO_MANY_SKILLS, TOOL_CAP};
use super::{Linter, plural, some};
use crate::problem::{quote, suggestion};

/// More skills than this are no longer a list that one reads.
pub(super) const SKILLS: usize = 150;
/// Tools that several endpoints take in one request.
pub(super) const TOOLS: usize = 128;

pub(super) fn check(linter: &mut Linter) {
    orphans(linter);
    tiers(linter);
    empty(linter);
    let dataset = linter.dataset;
    for actor in &dataset.actors {
        let place = linter.places.of("actors.jsonl", actor.id.as_str(), &["actor"]);
        let tools: Vec<_> = tools_of(actor, linter).collect();
        if tools.len() > TOOLS {
            let message = format!("the actor sees {} tools", tools.len());
            linter.add(&TOOL_CAP, actor.id.as_str(), place.clone(), &message);
        }
        let skills = skills_of(actor, linter);
        if skills > SKILLS {
            linter.add(&TOO_MANY_SKILLS, actor.id.as_str(), place, &format!("the actor sees {skills} skills"));
        }
        grants(linter, actor, &tools);
    }
}

fn tools_of<'d>(actor: &'d Actor, linter: &Linter<'d>) -> impl Iterator<Item = &'d Tool> {
    linter.dataset.catalogue.tools.iter().map(AsRef::as_ref).filter(move |tool| actor.may_call(tool))
}

/// Skills of the actor that keep a tool.
fn skills_of(actor: &Actor, linter: &Linter) -> usize {
    let catalogue = &linter.dataset.catalogue;
    let callable = |id| catalogue.get(id).is_some_and(|tool| actor.may_call(tool));
    catalogue.skills.iter().filter(|skill| actor.sees(skill) && skill.allowed_tools.iter().any(callable)).count()
}

/// Tools in no skill. Core tools need none: they are always there.
fn orphans(linter: &mut Linter) {
    let catalogue = &linter.dataset.catalogue;
    if catalogue.skills.is_empty() {
        return;
    }
    let listed: HashSet<_> = catalogue.skills.iter().flat_map(|skill| &skill.allowed_tools).collect();
    let mut servers: BTreeMap<&str, (usize, Vec<&str>)> = BTreeMap::new();
    for tool in catalogue.tools.iter().filter(|tool| !tool.core) {
        let (all, orphans) = servers.entry(tool.id.server()).or_default();
        *all += 1;
        if !listed.contains(&tool.id) {
            orphans.push(tool.name());
        }
    }
    for (server, (all, orphans)) in servers.into_iter().filter(|(_, (_, orphans))| !orphans.is_empty()) {
        let place = linter.places.of("servers.jsonl", server, &["server"]);
        let shown = some(orphans.iter().map(|name| (*name).to_owned()));
        let message = format!("{} of {} in no skill: {shown}", orphans.len(), plural(all, "tool"));
        linter.add(&ORPHANS, server, place, &message);
    }
}

/// Roles of tiers that no actor has, mostly slips of the pen. Where there is nobody but `all`, roles say nothing.
fn tiers(linter: &mut Linter) {
    let dataset = linter.dataset;
    if dataset.actors.iter().all(|actor| actor.id.as_str() == "all") {
        return;
    }
    let roles: BTreeSet<&str> = dataset.actors.iter().flat_map(|actor| &actor.roles).map(String::as_str).collect();
    let mut of_nobody: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skill in &dataset.catalogue.skills {
        if let Tier::Role(role) = &skill.tier
            && !roles.contains(role.as_str())
        {
            of_nobody.entry(role).or_default().push(&skill.name);
        }
    }
    for (role, skills) in of_nobody {
        let place = linter.places.of("skills.jsonl", skills[0], &["tier"]);
        let hint = suggestion(role, roles.iter().copied());
        let shown = some(skills.iter().map(|name| (*name).to_owned()));
        let message = format!("no actor has the role{hint}; for it are {}: {shown}", plural(skills.len(), "skill"));
        linter.add(&TIER_OF_NOBODY, &format!("role:{role}"), place, &message);
    }
}

/// Skills whose choice changes nothing.
fn empty(linter: &mut Linter) {
    let catalogue = &linter.dataset.catalogue;
    for skill in &catalogue.skills {
        let loads = |id| catalogue.get(id).is_some_and(|tool| !tool.core);
        if !skill.allowed_tools.iter().any(loads) {
            let place = linter.places.of("skills.jsonl", &skill.name, &["allowed-tools"]);
            let message = if skill.allowed_tools.is_empty() { "it names no tool" } else { "it names core tools only" };
            linter.add(&SKILL_EMPTY, &skill.name, place, message);
        }
    }
}

/// `tools` are those that the actor may call.
fn grants(linter: &mut Linter, actor: &Actor, tools: &[&Tool]) {
    let deferrable = linter.dataset.catalogue.tools.iter().any(|tool| !tool.core);
    if !deferrable {
        return;
    }
    if tools.iter().all(|tool| tool.core) {
        let place = linter.places.of("actors.jsonl", actor.id.as_str(), &["grants"]);
        linter.add(&ACTOR_WITHOUT_GRANT, actor.id.as_str(), place, "the actor may call no tool but core");
        return;
    }
    for grant in &actor.grants {
        if tools.iter().any(|tool| grant.covers(&tool.id)) {
            continue;
        }
        let pattern = match grant {
            Grant::Everything => "*".to_owned(),
            Grant::Server(server) => format!("{server}/*"),
            Grant::Tool(tool) => tool.to_string(),
        };
        let place = linter.places.of("actors.jsonl", actor.id.as_str(), &["grants", &pattern]);
        let narrowed = if actor.read_only { " that only reads" } else { "" };
        let message = format!("grant {} covers no tool{narrowed}", quote(&pattern));
        linter.add(&ACTOR_WITHOUT_GRANT, &format!("{} ~ {pattern}", actor.id), place, &message);
    }
}
