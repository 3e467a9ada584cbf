//! `linear-scan`: the additive scorer of "pluggable tool search" (RhysSullivan/executor, snapshot 76fcb1c), quirks included.
//!
//! Four fields count: path 12, integration 8, name 10, description 5. Per field a phrase may match and every word of the query may;
//! a coverage floor then drops tools that match too few of the words. There is no stemming, no stop word and no inverse document
//! frequency, and that is the point of reproducing it.

use std::collections::BTreeSet;
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
        let entries = view.tools().iter().map(|tool| {
            let (server, name) = (tool.id.server(), tool.name());
            Entry::new(&format!("{server}.{scope}{name}"), server, name, &tool.description)
        });
        let tools = view.tools().iter().map(|tool| tool.id.clone()).collect();
        let retriever = Arc::new(LinearScan { entries: entries.collect(), tools });
        Box::pin(std::future::ready(Ok(retriever as Arc<dyn Retriever>)))
    }
}

struct LinearScan {
    entries: Vec<Entry>,
    tools: Vec<ToolId>,
}

impl Retriever for LinearScan {
    fn name(&self) -> &'static str {
        LinearScanSettings::KIND
    }

    /// The original's own order: ties by path.
    fn search<'a>(&'a self, text: &'a str, k: usize) -> BoxFuture<'a, Result<Vec<ScoredTool>, StrategyError>> {
        let found = search(&self.entries, text, None).into_iter().take(k);
        let ranked = found.map(|(entry, score)| ScoredTool { tool: self.tools[entry].clone(), score }).collect();
        Box::pin(std::future::ready(Ok(ranked)))
    }
}

/// A tool as the scorer sees it.
struct Entry {
    path: Text,
    integration: Text,
    name: Text,
    description: Text,
    /// Paths in the order of a dictionary, case and punctuation last.
    order: (Vec<u32>, String),
}

impl Entry {
    fn new(path: &str, integration: &str, name: &str, description: &str) -> Self {
        Self {
            path: Text::new(path),
            integration: Text::new(integration),
            name: Text::new(name),
            description: Text::new(description),
            order: (path.chars().map(collation).collect(), path.to_owned()),
        }
    }

    fn score(&self, query: &Text) -> Option<f64> {
        let fields = [
            (&self.path, PATH),
            (&self.integration, INTEGRATION),
            (&self.name, NAME),
            (&self.description, DESCRIPTION),
        ];
        let mut score = 0.0;
        let mut matched: BTreeSet<&str> = BTreeSet::new();
        let mut phrase_found = false;
        for (field, weight) in fields {
            let phrase = field.phrase(&query.whole);
            phrase_found |= phrase > 0.0;
            score += phrase * weight;
            for word in &query.words {
                let worth = field.word(word);
                if worth > 0.0 {
                    score += worth * weight;
                    matched.insert(word);
                }
            }
        }
        // Repeated words count below the line only: "list list" covers a half.
        let coverage = matched.len() as f64 / query.words.len() as f64;
        let least = if query.words.len() <= STRICT_WORDS { 1.0 } else { COVERAGE };
        if matched.is_empty() || (coverage < least && !phrase_found) {
            return None;
        }
        score += if coverage >= 1.0 { 25.0 } else { (10.0 * coverage).round() };
        let first = query.words.first();
        if first.is_some() && (self.path.words.first() == first || self.name.words.first() == first) {
            score += 8.0;
        }
        if self.path.whole == query.whole || self.name.whole == query.whole {
            score += 20.0;
        }
        Some(score)
    }

    /// A namespace is the beginning of the integration or of the path, word by word.
    fn within(&self, namespace: &Text) -> bool {
        self.integration.words.starts_with(&namespace.words) || self.path.words.starts_with(&namespace.words)
    }
}

/// A normalised text and its words.
struct Text {
    whole: String,
    words: Vec<String>,
}

impl Text {
    fn new(text: &str) -> Self {
        let whole = normalise(text);
        let words = whole.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
        let words = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
        Self { whole, words }
    }

    /// What the whole query is worth in this field.
    fn phrase(&self, query: &str) -> f64 {
        if self.whole == query {
            14.0
        } else if self.whole.starts_with(query) {
            9.0
        } else if self.whole.contains(query) {
            6.0
        } else {
            0.0
        }
    }

    /// What a word of the query is worth in this field. A one-letter word of a description is a prefix of many.
    fn word(&self, word: &str) -> f64 {
        if self.words.iter().any(|other| other == word) {
            4.0
        } else if self.words.iter().any(|other| other.starts_with(word) || word.starts_with(other.as_str())) {
            2.0
        } else if self.whole.contains(word) {
            1.0
        } else {
            0.0
        }
    }
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

/// Entries that match, best first. A query without words finds nothing.
fn search(entries: &[Entry], query: &str, namespace: Option<&str>) -> Vec<(usize, f64)> {
    let query = Text::new(query);
    if query.words.is_empty() {
        return Vec::new();
    }
    let namespace = namespace.map(Text::new);
    let visible = |entry: &Entry| namespace.as_ref().is_none_or(|namespace| entry.within(namespace));
    let mut found: Vec<(usize, f64)> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| visible(entry))
        .filter_map(|(index, entry)| Some((index, entry.score(&query)?)))
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| entries[a.0].order.cmp(&entries[b.0].order)));
    found
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
        let entries: Vec<Entry> = catalogue
            .iter()
            .map(|tool| {
                let [path, integration, name, description] =
                    ["path", "integration", "name", "description"].map(|key| text(tool, key));
                Entry::new(&path, &integration, &name, &description)
            })
            .collect();
        let searches = golden["searches"].as_array().unwrap();
        assert!(searches.len() >= 20, "{} searches", searches.len());
        for expected in searches {
            let found = search(&entries, &text(expected, "query"), expected["namespace"].as_str());
            let found: Vec<_> = found.iter().map(|(entry, score)| (text(&catalogue[*entry], "path"), *score)).collect();
            let ranked = expected["ranked"].as_array().unwrap();
            let ranked: Vec<_> = ranked.iter().map(|row| (text(row, "path"), row["score"].as_f64().unwrap())).collect();
            assert_eq!(found, ranked, "{expected}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_answered(query in "\\PC{0,40}", path in "\\PC{0,20}", name in "[a-zA-Z_.]{0,12}") {
            let entries = [Entry::new(&path, "mail", &name, "Sends a message"), Entry::new("a.b", "a", "b", "")];
            let found = search(&entries, &query, None);
            prop_assert!(found.iter().all(|(_, score)| *score > 0.0));
            prop_assert!(found.is_sorted_by(|a, b| a.1 >= b.1));
        }
    }
}
