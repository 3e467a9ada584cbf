//! The Berkeley Function-Calling Leaderboard (Patil et al.), as its repository and its package lay it out.
//!
//! A function name has up to sixty definitions, and a query was judged against those that it offers. Each distinct
//! definition is therefore a tool: the first of a name on the server of the importer, further ones on servers of their
//! own number; and each query has its functions as candidates. `possible_answer` gives gold and accepted arguments.
//! Queries of the irrelevance categories have no right tool among their candidates. Conversations of several turns are
//! counted and left out, with their function documents; so are the messages of a system.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use harness::ids::Digest;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::foreign::{Foreign, ForeignLabel, ForeignQuery, ForeignTool};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files, normalised, types};
use crate::load::list;
use crate::unique::{self, Pairs};

const READS: &str = "the folder of BFCL's repository or package that holds BFCL_v*_*.json and possible_answer, or a \
                     folder with tools.jsonl and queries.jsonl";

pub(super) const IMPORTER: Importer =
    Importer { name: "bfcl", reads: READS, server: "bfcl", licence: "Apache-2.0", read: Read::Source(read) };

/// Where the repository and the package keep the files.
const BELOW: [&str; 4] = [
    "data",
    "bfcl_eval/data",
    "berkeley-function-call-leaderboard/bfcl_eval/data",
    "berkeley-function-call-leaderboard/data",
];
const ANSWERS: &str = "possible_answer";
/// Most values that an argument with choices inside may accept.
const CHOICES: usize = 256;

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    if normalised::fits(source) {
        return normalised::read(source, READS, findings);
    }
    let dir = files::folder(source, &BELOW, READS, |dir| category_files(dir).next().is_some())?;
    let mut reading = Reading::default();
    for name in category_files(&dir) {
        reading.category(&dir, &name, findings)?;
    }
    let data = |name: &str| files::ends(name, "json") || name == "multi_turn_func_doc";
    files::left_out(&dir, "", |name| data(name) && !is_category(name), findings);
    Ok(reading.foreign)
}

/// `format_sensitivity` lists ids of other categories.
fn is_category(name: &str) -> bool {
    name.starts_with("BFCL_") && !name.contains("format_sensitivity") && files::ends(name, "json")
}

fn category_files(dir: &Path) -> impl Iterator<Item = String> {
    list(dir).unwrap_or_default().into_iter().filter(|name| is_category(name))
}

#[derive(Deserialize)]
struct Asked {
    id: String,
    question: Vec<Vec<Message>>,
    #[serde(default)]
    function: Vec<Function>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default, deserialize_with = "unique::value")]
    parameters: Value,
}

/// Only looked at to see how long the conversation is.
#[derive(Deserialize)]
struct Turns {
    id: String,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    ground_truth: Vec<Pairs<Pairs<Vec<Value>>>>,
}

#[derive(Default)]
struct Reading {
    foreign: Foreign,
    /// Keys of the definitions that are tools already.
    keys: HashMap<Digest, String>,
}

impl Reading {
    fn category(&mut self, dir: &Path, name: &str, findings: &mut Findings) -> Result<(), ImportError> {
        let path = dir.join(name);
        if ["multi_turn", "memory", "web_search"].iter().any(|kind| name.contains(kind)) {
            for turns in files::records::<Turns>(&path, READS, findings)? {
                findings.add(Trouble::OutOfScope, &turns.id);
            }
            return Ok(());
        }
        let no_tool = name.contains("irrelevance");
        // Of the relevance category it is known that something fits, not what.
        let answered = !no_tool && !name.contains("relevance");
        let mut answers = HashMap::new();
        let answer_file = format!("{ANSWERS}/{name}");
        if answered && files::present(dir, &answer_file, findings) {
            for answer in files::records::<Answer>(&dir.join(answer_file), READS, findings)? {
                match answers.entry(plain_id(&answer.id)) {
                    Entry::Vacant(free) => _ = free.insert((answer.id, answer.ground_truth)),
                    Entry::Occupied(_) => findings.add(Trouble::RepeatedLabel, &answer.id),
                }
            }
        }
        for entry in files::records::<Asked>(&path, READS, findings)? {
            let Asked { id, question, function } = entry;
            let gold = answers.remove(&plain_id(&id)).map(|(_, gold)| gold);
            if question.len() > 1 {
                findings.add(Trouble::OutOfScope, &id);
                continue;
            }
            let candidates = self.tools(function, findings);
            // An answer without a call does not say that nothing fits: categories of their own do.
            let calls = gold.iter().flatten().any(|Pairs(calls)| !calls.is_empty());
            if !no_tool && !calls {
                findings.add(Trouble::NoGold, &id);
            } else if candidates.is_empty() {
                findings.add(Trouble::NoCandidates, &id);
            } else {
                let text = text(question.into_iter().flatten(), &id, findings);
                let labels = labels(gold.unwrap_or_default(), &candidates, findings);
                let candidates = Some(candidates.into_iter().map(|(_, key)| key).collect());
                self.foreign.queries.push(ForeignQuery { id, text, labels, candidates, ..ForeignQuery::default() });
            }
        }
        let mut orphans: Vec<_> = answers.into_values().map(|(id, _)| id).collect();
        orphans.sort();
        for id in orphans {
            findings.add(Trouble::OrphanLabel, &id);
        }
        Ok(())
    }

    /// Names and keys of the functions that an entry offers.
    fn tools(&mut self, functions: Vec<Function>, findings: &mut Findings) -> Vec<(String, String)> {
        let key = |Function { name, description, mut parameters }: Function| {
            let digest = Digest::of_json(&(&name, &description, &parameters));
            let key = self.keys.entry(digest).or_insert_with_key(|digest| {
                let unknown = &mut |kind: &str| findings.add(Trouble::UnknownType, &format!("{kind} of {name}"));
                types::translate(&mut parameters, unknown);
                let key = format!("{name} {}", digest.short());
                self.foreign.tools.push(ForeignTool {
                    name: name.clone(),
                    key: Some(key.clone()),
                    description,
                    schema: Some(parameters),
                    ..ForeignTool::default()
                });
                key
            });
            (name, key.clone())
        };
        functions.into_iter().map(key).collect()
    }
}

/// Some answers double an underscore that their question has once.
fn plain_id(id: &str) -> String {
    id.replace("__", "_")
}

/// The words of the person.
fn text(messages: impl Iterator<Item = Message>, id: &str, findings: &mut Findings) -> String {
    let mut words = Vec::new();
    for Message { role, content } in messages {
        if role == "user" {
            words.push(content);
        } else {
            findings.add(Trouble::IgnoredText, &format!("{role} of {id}"));
        }
    }
    words.join("\n")
}

/// A group per function that has to be called.
fn labels(
    calls: Vec<Pairs<Pairs<Vec<Value>>>>,
    candidates: &[(String, String)],
    findings: &mut Findings,
) -> Vec<ForeignLabel> {
    let calls = calls.into_iter().flat_map(|Pairs(call)| call).enumerate();
    let label = |(group, (name, Pairs(arguments))): (usize, (String, Pairs<Vec<Value>>))| {
        let mut accepted = Vec::with_capacity(arguments.len());
        for (argument, values) in arguments {
            match values.iter().map(expand).collect::<Option<Vec<_>>>() {
                Some(values) => accepted.push((argument, values.concat())),
                None => findings.add(Trouble::UnfitArgument, &format!("{argument} of {name}")),
            }
        }
        let key = candidates.iter().find(|(known, _)| *known == name).map_or(name, |(_, key)| key.clone());
        ForeignLabel { tool: key, group, relevance: 3, arguments: Some(accepted) }
    };
    calls.map(label).collect()
}

/// The values that an accepted value stands for: an object in it gives, for each of its keys, the values accepted there.
/// `None` if there are too many.
fn expand(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::Object(map) if map.len() > CHOICES => None,
        Value::Array(list) if list.len() > CHOICES && list.iter().any(Value::is_object) => None,
        Value::Object(map) if !map.is_empty() && map.values().all(Value::is_array) => {
            let mut made = vec![Map::new()];
            for (key, choices) in map {
                let choices: Vec<_> = choices.as_array().into_iter().flatten().collect();
                let with = |object: &Map<String, Value>, choice: &Value| {
                    let mut object = object.clone();
                    // An empty text among the choices: the key may be left out.
                    if choice != "" || choices.len() == 1 {
                        object.insert(key.clone(), choice.clone());
                    }
                    object
                };
                made = product(&made, &choices, with)?;
            }
            Some(made.into_iter().map(Value::Object).collect())
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            let mut made = vec![Vec::new()];
            for item in list {
                let choices = expand(item)?;
                let choices: Vec<_> = choices.iter().collect();
                made = product(&made, &choices, |list: &Vec<Value>, choice| {
                    [&list[..], std::slice::from_ref(choice)].concat()
                })?;
            }
            Some(made.into_iter().map(Value::Array).collect())
        }
        plain => Some(vec![plain.clone()]),
    }
}

fn product<T>(made: &[T], choices: &[&Value], with: impl Fn(&T, &Value) -> T) -> Option<Vec<T>> {
    let fits = made.len() * choices.len() <= CHOICES;
    fits.then(|| {
        made.iter().flat_map(|made| choices.iter().map(|choice| with(made, choice)).collect::<Vec<_>>()).collect()
    })
}

#[cfg(test)]
mod tests;
