//! Queries and their labels.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use harness::catalogue::Actor;
use harness::dataset::Query;
use harness::ids::{ActorId, IntentId, ToolId};
use harness::text::mentions;

use super::Linter;
use super::places::Place;
use super::rules::{CONTRADICTION, GOLD_IN_SPLITS, INTENT_IN_SPLITS, NAME_IN_QUERY, REPEATED_QUERY, UNANSWERABLE};
use super::tools::fold;
use crate::problem::quote;

pub(super) fn check(linter: &mut Linter) {
    repeated(linter);
    intents(linter);
    gold_in_splits(linter);
    let dataset = linter.dataset;
    let actors: HashMap<&ActorId, &Actor> = dataset.actors.iter().map(|actor| (&actor.id, actor)).collect();
    for query in &dataset.queries {
        let right: BTreeSet<&ToolId> = right(linter, query).into_iter().flatten().collect();
        named(linter, query, &right);
        let may_call = |id: &ToolId| {
            let actor = actors.get(&query.actor);
            dataset.catalogue.get(id).is_some_and(|tool| actor.is_some_and(|actor| actor.may_call(tool)))
        };
        if dataset.qrels.of(&query.id).within(may_call).is_none() {
            let message = format!("actor {} may call none of a required group", quote(query.actor.as_str()));
            add(linter, &UNANSWERABLE, query, "actor", &message);
        }
    }
}

fn place(linter: &Linter, query: &Query, key: &str) -> Place {
    linter.places.of("queries.jsonl", query.id.as_str(), &[key])
}

fn add(linter: &mut Linter, rule: &'static super::Rule, query: &Query, key: &str, message: &str) {
    let place = place(linter, query, key);
    linter.add(rule, query.id.as_str(), place, message);
}

/// What does the job, group by group.
type Gold<'d> = BTreeSet<BTreeSet<&'d ToolId>>;

fn right<'d>(linter: &Linter<'d>, query: &Query) -> Gold<'d> {
    linter.dataset.qrels.of(&query.id).groups().into_iter().collect()
}

/// What two queries share that are the same to whoever answers them.
#[derive(PartialEq, Eq, Hash)]
struct Asked<'d> {
    words: String,
    actor: &'d ActorId,
    candidates: Option<BTreeSet<&'d ToolId>>,
}

/// Words that occur again, with the same gold or with other gold.
fn repeated(linter: &mut Linter) {
    let dataset = linter.dataset;
    // Per question its first query, and the first query of each gold.
    let mut asked: HashMap<Asked, (&Query, HashMap<Gold, &Query>)> = HashMap::new();
    for query in &dataset.queries {
        let spoken = words(&query.text).join(" ");
        // Nothing but signs: they are what counts.
        let words = if spoken.is_empty() { fold(&query.text) } else { spoken };
        let candidates = query.candidates.as_ref().map(|list| list.iter().collect());
        let asked = asked.entry(Asked { words, actor: &query.actor, candidates });
        let (first, golds) = asked.or_insert_with(|| (query, HashMap::new()));
        let (rule, first, message) = match golds.entry(right(linter, query)) {
            Entry::Occupied(twin) => {
                (&REPEATED_QUERY, *twin.get(), "the words occur before, with the same right tools")
            }
            Entry::Vacant(gold) => {
                gold.insert(query);
                if first.id == query.id {
                    continue;
                }
                (&CONTRADICTION, *first, "the words occur before, with other right tools")
            }
        };
        let place = place(linter, query, "text");
        linter.add(rule, &format!("{} ~ {}", first.id, query.id), place, message);
    }
}

/// Intents in several splits. That `dev` and `test` share one is known from loading.
fn intents(linter: &mut Linter) {
    let dataset = linter.dataset;
    let mut splits: HashMap<&IntentId, BTreeMap<&str, &Query>> = HashMap::new();
    for query in &dataset.queries {
        let splits = splits.entry(&query.intent).or_default();
        if splits.contains_key(query.split.as_str()) {
            continue;
        }
        let official = |split: &str| matches!(split, "dev" | "test");
        let other = splits.iter().find(|(split, _)| !(official(split) && official(&query.split)));
        if let Some((split, first)) = other {
            let (intent, split, here) = (quote(query.intent.as_str()), quote(split), quote(&query.split));
            let message = format!("intent {intent} is in {here} here and in {split} with {}", quote(first.id.as_str()));
            add(linter, &INTENT_IN_SPLITS, query, "intent", &message);
        }
        splits.insert(&query.split, query);
    }
}

/// Tools that are right in both splits.
fn gold_in_splits(linter: &mut Linter) {
    let dataset = linter.dataset;
    let mut counts: BTreeMap<&ToolId, [usize; 2]> = BTreeMap::new();
    for query in &dataset.queries {
        let Some(split) = ["dev", "test"].iter().position(|split| *split == query.split) else { continue };
        let tools: BTreeSet<&ToolId> = right(linter, query).into_iter().flatten().collect();
        for tool in tools {
            counts.entry(tool).or_default()[split] += 1;
        }
    }
    for (tool, [dev, test]) in counts.into_iter().filter(|(_, [dev, test])| dev.min(test) > &0) {
        let place = linter.places.tool(tool, "name");
        let message = format!("right in dev (queries: {dev}) and in test ({test})");
        linter.add(&GOLD_IN_SPLITS, &tool.to_string(), place, &message);
    }
}

/// A query that names its tool.
fn named(linter: &mut Linter, query: &Query, right: &BTreeSet<&ToolId>) {
    let spoken = words(&query.text);
    let written = query.text.to_lowercase();
    for tool in right {
        let name = words(tool.name());
        // A single word (`search`, `terminal`) is an ordinary one.
        if name.len() < 2 {
            continue;
        }
        let vendor = words(tool.server());
        let own = name.strip_prefix(vendor.as_slice()).unwrap_or(&name);
        let message = if mentions(&written, &tool.name().to_lowercase()) {
            format!("it holds the name {}", quote(tool.name()))
        } else if own.len() >= 2 && spoken.windows(own.len()).any(|window| window == own) {
            let bare = if own.len() < name.len() { " without its vendor" } else { "" };
            format!("it holds {}, the words of {}{bare}", quote(&own.join(" ")), quote(tool.name()))
        } else {
            continue;
        };
        add(linter, &NAME_IN_QUERY, query, "text", &message);
        return;
    }
}

/// The words of a text in lower case. Signs end words, and so does a capital inside one: `getURLPath` is get, url, path.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let characters: Vec<char> = text.chars().collect();
    for (index, &character) in characters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| characters[before]);
        let after = characters.get(index + 1);
        let hump = character.is_uppercase()
            && before.is_some_and(|before| !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()));
        if (hump || !character.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_end_at_signs_and_humps() {
        assert_eq!(words("google_drive-list.files"), ["google", "drive", "list", "files"]);
        assert_eq!(words("getURLPath, iPhone15 ÄÖ Éa"), ["get", "url", "path", "i", "phone15", "äö", "éa"]);
        assert_eq!(words("会議を 3 件"), ["会議を", "3", "件"]);
        assert_eq!(words(" -- "), [""; 0]);
    }
}
