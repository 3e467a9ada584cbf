//! Descriptions that nobody can tell apart.
//!
//! Two descriptions are compared by the sets of their character trigrams (Jaccard: shared / all of both). Only pairs that
//! share a rare trigram are compared at all: with the trigrams of every set in one order, rare ones first, two sets with
//! a Jaccard above t have one in common among the first (1 − t) of each. That is a filter only, it loses no pair.

use std::collections::{BTreeMap, HashMap};

use harness::catalogue::Tool;

use super::Linter;
use super::rules::ALIKE;
use super::tools::fold;

/// Descriptions of more similarity than this are alike.
const THRESHOLD: f64 = 0.6;
/// Steps per server, each a trigram looked at. Where thousands of tools were made from one template, or descriptions are whole
/// books, comparing all of them would take minutes and say nothing that the first do not.
const STEPS: usize = 400_000_000;
/// Pairs listed per server.
const LISTED: usize = 200;

pub(super) fn check(linter: &mut Linter) {
    let dataset = linter.dataset;
    let mut servers: BTreeMap<&str, Vec<(&Tool, String)>> = BTreeMap::new();
    // Name and description together, wherever the tool is.
    let mut twins: HashMap<(&str, String), &Tool> = HashMap::new();
    for tool in &dataset.catalogue.tools {
        let text = fold(&tool.description);
        if text.is_empty() {
            continue;
        }
        match twins.get(&(tool.name(), text.clone())) {
            Some(first) => pair(linter, first, tool, "the same name and description on two servers"),
            None => _ = twins.insert((tool.name(), text.clone()), tool),
        }
        servers.entry(tool.id.server()).or_default().push((tool, text));
    }
    for (server, tools) in servers {
        if !linter.places.boilerplate(server) {
            within(linter, server, &tools);
        }
    }
}

fn pair(linter: &mut Linter, first: &Tool, second: &Tool, message: &str) {
    let place = linter.places.tool(&second.id, "description");
    linter.add(&ALIKE, &format!("{} ~ {}", first.id, second.id), place, message);
}

/// Pairs of one server.
fn within(linter: &mut Linter, server: &str, tools: &[(&Tool, String)]) {
    // Equal texts first, each with the first of them: a hundred copies are 99 pairs, not 4,950.
    let mut first: HashMap<&str, &Tool> = HashMap::new();
    let mut pairs = Vec::new();
    let mut different = Vec::new();
    for (tool, text) in tools {
        if let Some(other) = first.get(text.as_str()) {
            pairs.push((*other, *tool, None));
        } else {
            first.insert(text, tool);
            different.push((*tool, text.as_str()));
        }
    }
    let Similar { found, stopped } = similar(&different.iter().map(|(_, text)| *text).collect::<Vec<_>>(), STEPS);
    pairs.extend(
        found.into_iter().map(|(left, right, similarity)| (different[left].0, different[right].0, Some(similarity))),
    );
    for (first, second, similarity) in pairs.iter().take(LISTED) {
        let message = match similarity {
            None => "the descriptions are equal".to_owned(),
            Some(similarity) => format!("the descriptions share {:.0} % of their trigrams", similarity * 100.0),
        };
        pair(linter, first, second, &message);
    }
    let more = pairs.len().saturating_sub(LISTED);
    if more > 0 || stopped.is_some() {
        let place = linter.places.of("servers.jsonl", server, &["server"]);
        let unseen = stopped.map_or(String::new(), |index| {
            format!(", and the descriptions after that of {} were not compared", different[index].0.name())
        });
        linter.add(&ALIKE, server, place, &format!("{more} more pairs are alike{unseen}"));
    }
}

/// Pairs above the threshold, and the text at which the search was given up.
struct Similar {
    found: Vec<(usize, usize, f64)>,
    stopped: Option<usize>,
}

/// Pairs of different texts above the threshold, as (earlier, later, similarity), by the later one; as many as so many steps
/// find.
fn similar(texts: &[&str], steps: usize) -> Similar {
    let sets = ranked(texts);
    let mut search = Search { sets: &sets, index: HashMap::new(), met: vec![usize::MAX; sets.len()], steps };
    let mut found = Vec::new();
    for later in 0..sets.len() {
        let Some(pairs) = search.partners(later) else {
            return Similar { found, stopped: Some(later.saturating_sub(1)) };
        };
        found.extend(pairs);
    }
    Similar { found, stopped: None }
}

/// The sets up to some text.
struct Search<'t> {
    sets: &'t [Vec<u32>],
    /// Sets by each of their rarest trigrams.
    index: HashMap<u32, Vec<usize>>,
    /// Per set the text for which it was last met as a candidate.
    met: Vec<usize>,
    /// Steps that are left.
    steps: usize,
}

impl Search<'_> {
    /// The pairs of a text with earlier ones; `None`: it takes more steps than are left.
    fn partners(&mut self, later: usize) -> Option<Vec<(usize, usize, f64)>> {
        let set = &self.sets[later];
        let prefix = &set[..prefix(set.len())];
        let mut candidates = Vec::new();
        for list in prefix.iter().filter_map(|trigram| self.index.get(trigram)) {
            self.steps = self.steps.checked_sub(list.len())?;
            for earlier in list {
                if self.met[*earlier] != later {
                    self.met[*earlier] = later;
                    candidates.push(*earlier);
                }
            }
        }
        candidates.sort_unstable();
        let mut pairs = Vec::new();
        for earlier in candidates {
            self.steps = self.steps.checked_sub(self.sets[earlier].len() + set.len())?;
            let similarity = jaccard(&self.sets[earlier], set);
            if similarity > THRESHOLD {
                pairs.push((earlier, later, similarity));
            }
        }
        for trigram in prefix {
            self.index.entry(*trigram).or_default().push(later);
        }
        Some(pairs)
    }
}

/// How many of a set's rarest trigrams another set above the threshold must share one of.
fn prefix(size: usize) -> usize {
    (size + 1 - (size as f64 * THRESHOLD).ceil() as usize).min(size)
}

/// The trigrams of each text as ranks, the rarest first.
fn ranked(texts: &[&str]) -> Vec<Vec<u32>> {
    let sets: Vec<Vec<[char; 3]>> = texts.iter().map(|text| trigrams(text)).collect();
    let mut counts: BTreeMap<[char; 3], usize> = BTreeMap::new();
    for trigram in sets.iter().flatten() {
        *counts.entry(*trigram).or_default() += 1;
    }
    let mut order: Vec<_> = counts.into_iter().map(|(trigram, count)| (count, trigram)).collect();
    order.sort_unstable();
    let ranks: HashMap<[char; 3], u32> = order.iter().zip(0..).map(|((_, trigram), rank)| (*trigram, rank)).collect();
    let ranked = |set: &Vec<[char; 3]>| {
        let mut set: Vec<u32> = set.iter().map(|trigram| ranks[trigram]).collect();
        set.sort_unstable();
        set
    };
    sets.iter().map(ranked).collect()
}

/// The different trigrams of a text; a shorter text is one, filled up.
fn trigrams(text: &str) -> Vec<[char; 3]> {
    let mut characters: Vec<char> = text.chars().collect();
    characters.resize(characters.len().max(3), '\0');
    let mut set: Vec<[char; 3]> = characters.windows(3).map(|window| [window[0], window[1], window[2]]).collect();
    set.sort_unstable();
    set.dedup();
    set
}

/// Shared members of two sorted sets over all of both.
fn jaccard(left: &[u32], right: &[u32]) -> f64 {
    let (mut at, mut other, mut shared) = (0, 0, 0);
    while at < left.len() && other < right.len() {
        match left[at].cmp(&right[other]) {
            std::cmp::Ordering::Less => at += 1,
            std::cmp::Ordering::Greater => other += 1,
            std::cmp::Ordering::Equal => {
                shared += 1;
                at += 1;
                other += 1;
            }
        }
    }
    f64::from(shared) / (left.len() + right.len() - shared as usize).max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn similarity_counts_different_trigrams() {
        let score = |left, right| {
            let sets = ranked(&[left, right]);
            jaccard(&sets[0], &sets[1])
        };
        assert!((score("abcd", "abcd") - 1.0).abs() < 1e-9);
        // abc bcd | abc bce: one of three.
        assert!((score("abcd", "abce") - 1.0 / 3.0).abs() < 1e-9);
        assert!((score("aaaaaa", "aaa") - 1.0).abs() < 1e-9);
        assert!(score("ab", "cd").abs() < 1e-9);
    }

    /// Long texts of few templates, where every comparison is long and nearly all have to be made.
    #[test]
    fn the_search_stops_when_its_steps_are_used_up() {
        let book = |index: usize| {
            let words = (0..150).map(|word| format!("word{} ", word * (index % 7 + 1)));
            format!("{}number {index}", words.collect::<String>())
        };
        let texts: Vec<_> = (0..400).map(book).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let Similar { found, stopped } = similar(&texts, 2_000_000);
        let stopped = stopped.unwrap();
        assert!((20..380).contains(&stopped), "{stopped}");
        assert_eq!(found.last().map(|(_, later, _)| *later), Some(stopped), "what was compared is listed");
    }

    proptest! {
        #[test]
        fn fewer_steps_find_the_first_pairs(texts in prop::collection::vec("[ab ]{0,12}", 0..12), steps in 0usize..400) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let (all, some) = (similar(&texts, usize::MAX), similar(&texts, steps));
            let last = some.stopped.unwrap_or(texts.len());
            let expected: Vec<_> = all.found.into_iter().filter(|(_, later, _)| *later <= last).collect();
            prop_assert_eq!(some.found, expected);
        }

        #[test]
        fn the_filter_loses_no_pair(texts in prop::collection::vec("[ab ]{0,12}|[a-d]{3,9}", 0..12)) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let sets = ranked(&texts);
            let mut all = Vec::new();
            for later in 0..sets.len() {
                for earlier in 0..later {
                    let similarity = jaccard(&sets[earlier], &sets[later]);
                    if similarity > THRESHOLD {
                        all.push((earlier, later, similarity));
                    }
                }
            }
            prop_assert_eq!(similar(&texts, usize::MAX).found, all);
        }
    }
}
