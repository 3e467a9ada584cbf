//! `linear-scan`: the additive scorer of "pluggable tool search" (RhysSullivan/executor, snapshot 76fcb1c), quirks included.
//!
//! Four fields count: path 12, integration 8, name 10, description 5. Per field a phrase may match and every word of the query may;
//! a coverage floor then drops tools that match too few of the words. There is no stemming, no stop word and no inverse document
//! frequency, and that is the point of reproducing it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::episode::ScoredTool;
use harness::ids::ToolId;
use harness::strategy::{Retriever, StrategyError};
use serde::{Deserialize, Serialize};

use super::RetrieverSettings;

const PATH: f64 = 12.0;
const INTEGRATION: f64 = 8.0;
const NAME: f64 = 10.0;
const DESCRIPTION: f64 = 5.0;
/// Queries of more words than this may miss some.
const STRICT_WORDS: usize = 2;
const COVERAGE: f64 = 0.6;

/// Settings of `linear-scan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinearScanSettings {
    /// What stands between server and tool in a path: owner and connection in the original, where it counts like any other part.
    /// Empty: nothing.
    pub scope: String,
}

impl Default for LinearScanSettings {
    fn default() -> Self {
        Self { scope: "org.main".to_owned() }
    }
}

impl RetrieverSettings for LinearScanSettings {
    const KIND: &'static str = "linear-scan";
    const VERSION: u32 = 1;

    fn retriever<'a>(&'a self, view: &'a View) -> BoxFuture<'a, Result<Arc<dyn Retriever>, StrategyError>> {
        let scope = if self.scope.is_empty() { String::new() } else { format!("{}.", self.scope) };
        let mut scan = Scan::default();
        for tool in view.tools() {
            let (server, name) = (tool.id.server(), tool.name());
            scan.add(&format!("{server}.{scope}{name}"), server, name, &tool.description);
        }
        let tools = view.tools().iter().map(|tool| tool.id.clone()).collect();
        let retriever = Arc::new(LinearScan { scan, tools });
        Box::pin(std::future::ready(Ok(retriever as Arc<dyn Retriever>)))
    }
}

struct LinearScan {
    scan: Scan,
    tools: Vec<ToolId>,
}

impl Retriever for LinearScan {
    fn name(&self) -> &'static str {
        LinearScanSettings::KIND
    }

    /// The original's own order: ties by path.
    fn search<'a>(&'a self, text: &'a str, k: usize) -> BoxFuture<'a, Result<Vec<ScoredTool>, StrategyError>> {
        let found = self.scan.search(text, None).into_iter().take(k);
        let ranked = found.map(|(entry, score)| ScoredTool { tool: self.tools[entry].clone(), score }).collect();
        Box::pin(std::future::ready(Ok(ranked)))
    }
}

/// The tools as the scorer sees them. What a word of a query is worth is found once per distinct word of the catalogue.
#[derive(Default)]
struct Scan {
    vocabulary: Vec<String>,
    ids: HashMap<String, usize>,
    entries: Vec<Entry>,
}

struct Entry {
    path: Field,
    integration: Field,
    name: Field,
    description: Field,
    /// Paths in the order of a dictionary, case and punctuation last.
    order: (Vec<u32>, String),
}

/// A normalised text, and its words as places in the vocabulary.
struct Field {
    whole: String,
    words: Vec<usize>,
}

impl Scan {
    fn add(&mut self, path: &str, integration: &str, name: &str, description: &str) {
        let entry = Entry {
            path: self.field(path),
            integration: self.field(integration),
            name: self.field(name),
            description: self.field(description),
            order: (path.chars().map(collation).collect(), path.to_owned()),
        };
        self.entries.push(entry);
    }

    fn field(&mut self, text: &str) -> Field {
        let whole = normalise(text);
        let words = words(&whole)
            .map(|word| {
                *self.ids.entry(word.to_owned()).or_insert_with(|| {
                    self.vocabulary.push(word.to_owned());
                    self.vocabulary.len() - 1
                })
            })
            .collect();
        Field { whole, words }
    }

    /// Entries that match, best first. A query without words finds nothing.
    fn search(&self, query: &str, namespace: Option<&str>) -> Vec<(usize, f64)> {
        let whole = normalise(query);
        let words: Vec<&str> = words(&whole).collect();
        if words.is_empty() {
            return Vec::new();
        }
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for word in &words {
            *counts.entry(word).or_default() += 1;
        }
        let worths = |word: &str| self.vocabulary.iter().map(|own| worth(own, word)).collect();
        let query = Query {
            distinct: counts.into_iter().map(|(word, count)| (count, worths(word))).collect(),
            words: words.len(),
            first: self.ids.get(words[0]).copied(),
            whole: &whole,
        };
        let namespace = namespace.map(normalise);
        let visible = |entry: &Entry| namespace.as_ref().is_none_or(|namespace| self.within(entry, namespace));
        let mut found: Vec<(usize, f64)> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| visible(entry))
            .filter_map(|(index, entry)| Some((index, entry.score(&query)?)))
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| self.entries[a.0].order.cmp(&self.entries[b.0].order)));
        found
    }

    /// A namespace is the beginning of the integration or of the path, word by word.
    fn within(&self, entry: &Entry, namespace: &str) -> bool {
        let begins = |field: &Field| {
            let mut own = field.words.iter().map(|&word| self.vocabulary[word].as_str());
            words(namespace).all(|word| own.next() == Some(word))
        };
        begins(&entry.integration) || begins(&entry.path)
    }
}

struct Query<'q> {
    whole: &'q str,
    /// With repetitions.
    words: usize,
    /// Per distinct word how often it occurs and what it is worth against every word of the vocabulary.
    distinct: Vec<(u32, Vec<u8>)>,
    /// The place of the first word in the vocabulary.
    first: Option<usize>,
}

impl Entry {
    fn score(&self, query: &Query<'_>) -> Option<f64> {
        let fields = [
            (&self.path, PATH),
            (&self.integration, INTEGRATION),
            (&self.name, NAME),
            (&self.description, DESCRIPTION),
        ];
        let mut score = 0.0;
        let mut matched: BTreeSet<usize> = BTreeSet::new();
        let mut phrase_found = false;
        for (field, weight) in fields {
            let phrase = phrase(&field.whole, query.whole);
            phrase_found |= phrase > 0.0;
            score += phrase * weight;
            for (word, (count, worths)) in query.distinct.iter().enumerate() {
                let worth = field.words.iter().map(|&own| worths[own]).max().unwrap_or(0);
                if worth > 0 {
                    score += f64::from(*count) * f64::from(worth) * weight;
                    matched.insert(word);
                }
            }
        }
        // Repeated words count below the line only: "list list" covers a half.
        let coverage = matched.len() as f64 / query.words as f64;
        let least = if query.words <= STRICT_WORDS { 1.0 } else { COVERAGE };
        if matched.is_empty() || (coverage < least && !phrase_found) {
            return None;
        }
        score += if coverage >= 1.0 { 25.0 } else { (10.0 * coverage).round() };
        let first = query.first.as_ref();
        if first.is_some() && (self.path.words.first() == first || self.name.words.first() == first) {
            score += 8.0;
        }
        if self.path.whole == query.whole || self.name.whole == query.whole {
            score += 20.0;
        }
        Some(score)
    }
}

/// What the whole query is worth in a field.
fn phrase(field: &str, query: &str) -> f64 {
    if field == query {
        14.0
    } else if field.starts_with(query) {
        9.0
    } else if field.contains(query) {
        6.0
    } else {
        0.0
    }
}

/// What a word of the query is worth against a word of a field. The original looks for the word anywhere in the field's text; as a word of
/// a query is letters and digits only, that is to look for it in each word. A one-letter word of a description is a prefix of many.
fn worth(own: &str, word: &str) -> u8 {
    match own.len().cmp(&word.len()) {
        Ordering::Equal => 4 * u8::from(own == word),
        Ordering::Less => 2 * u8::from(word.starts_with(own)),
        Ordering::Greater if own.starts_with(word) => 2,
        Ordering::Greater => u8::from(own.contains(word)),
    }
}

/// Runs of ASCII letters and digits of a normalised text.
fn words(normalised: &str) -> impl Iterator<Item = &str> {
    normalised.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit()).filter(|word| !word.is_empty())
}

/// Blanks at case changes and for runs of `_ . / : -`, lower case, trimmed.
fn normalise(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = None;
    for c in text.chars() {
        let separator = |c: char| matches!(c, '_' | '.' | '/' | ':' | '-');
        if separator(c) {
            if !before.is_some_and(separator) {
                out.push(' ');
            }
        } else {
            if c.is_ascii_uppercase() && before.is_some_and(|b: char| b.is_ascii_lowercase() || b.is_ascii_digit()) {
                out.push(' ');
            }
            out.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    out.trim().to_owned()
}

/// The original compares paths by locale: punctuation before digits before letters, and case only when all else is equal.
fn collation(c: char) -> u32 {
    match c {
        '_' => 0,
        '-' => 1,
        ':' => 2,
        '.' => 3,
        '/' => 4,
        c => c.to_lowercase().next().map_or(0, u32::from) + 8,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Scores that an independent implementation gives for a small catalogue.
    #[test]
    fn scores_equal_the_independent_implementation() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/linear_scan.json")).unwrap();
        let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
        let catalogue = golden["catalogue"].as_array().unwrap();
        let mut scan = Scan::default();
        for tool in catalogue {
            let [path, integration, name, description] =
                ["path", "integration", "name", "description"].map(|key| text(tool, key));
            scan.add(&path, &integration, &name, &description);
        }
        let searches = golden["searches"].as_array().unwrap();
        assert!(searches.len() >= 20, "{} searches", searches.len());
        for expected in searches {
            let found = scan.search(&text(expected, "query"), expected["namespace"].as_str());
            let found: Vec<_> = found.iter().map(|(entry, score)| (text(&catalogue[*entry], "path"), *score)).collect();
            let ranked = expected["ranked"].as_array().unwrap();
            let ranked: Vec<_> = ranked.iter().map(|row| (text(row, "path"), row["score"].as_f64().unwrap())).collect();
            assert_eq!(found, ranked, "{expected}");
        }
    }

    /// The scorer as it is described, field by field and word by word: the oracle of the vocabulary.
    fn plain(field: &str, word: &str) -> u8 {
        let field = normalise(field);
        if words(&field).any(|own| own == word) {
            4
        } else if words(&field).any(|own| own.starts_with(word) || word.starts_with(own)) {
            2
        } else {
            u8::from(field.contains(word))
        }
    }

    proptest! {
        #[test]
        fn a_word_is_worth_what_the_description_says(field in "[a-cA-C1é _.-]{0,16}", word in "[a-c1]{1,3}") {
            let mut scan = Scan::default();
            let own = scan.field(&field);
            let best = own.words.iter().map(|&own| worth(&scan.vocabulary[own], &word)).max().unwrap_or(0);
            prop_assert_eq!(best, plain(&field, &word));
        }

        #[test]
        fn any_query_is_answered(query in "\\PC{0,40}", path in "\\PC{0,20}", name in "[a-zA-Z_.]{0,12}") {
            let mut scan = Scan::default();
            scan.add(&path, "mail", &name, "Sends a message");
            scan.add("a.b", "a", "b", "");
            let found = scan.search(&query, None);
            prop_assert!(found.iter().all(|(_, score)| *score > 0.0));
            prop_assert!(found.is_sorted_by(|a, b| a.1 >= b.1));
        }
    }
}
