//! BM25 (Robertson and Zaragoza 2009) with idf = ln(1 + (N − df + ½) / (df + ½)), which is never negative.
//!
//! Query words count with their repetitions; only documents with a positive score are results.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::{Tool, View};
use harness::episode::{ScoredTool, rank};
use harness::ids::ToolId;
use harness::strategy::{Retriever, StrategyError};
use serde::{Deserialize, Deserializer, Serialize};

use super::words::{WordSettings, schema_text, words};

/// Settings of the scorer and of the indexed text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bm25Settings {
    /// 0 to 100.
    #[serde(deserialize_with = "k1")]
    pub k1: f64,
    /// 0 to 1.
    #[serde(deserialize_with = "b")]
    pub b: f64,
    /// Index names and descriptions of the arguments too.
    pub schema: bool,
    pub words: WordSettings,
}

impl Default for Bm25Settings {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75, schema: true, words: WordSettings::default() }
    }
}

fn k1<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    within(f64::deserialize(value)?, 100.0)
}

fn b<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    within(f64::deserialize(value)?, 1.0)
}

fn within<E: serde::de::Error>(value: f64, most: f64) -> Result<f64, E> {
    let inside = (0.0..=most).contains(&value);
    if inside { Ok(value) } else { Err(E::custom(format!("{value} is out of range, expected 0 to {most}"))) }
}

/// An index over texts. Documents are numbers, 0 to n − 1.
#[derive(Debug)]
pub struct Index {
    words: WordSettings,
    terms: HashMap<String, u32>,
    /// Per term the documents that hold it, ascending, each with the term's share of its score.
    postings: Vec<Vec<(u32, f64)>>,
    documents: usize,
}

impl Index {
    pub fn new<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, settings: &Bm25Settings) -> Self {
        let mut terms: HashMap<String, u32> = HashMap::new();
        let mut counts: Vec<Vec<(u32, f64)>> = Vec::new();
        let mut lengths = Vec::new();
        for (document, text) in texts.into_iter().enumerate() {
            let words = words(text.as_ref(), settings.words);
            lengths.push(words.len() as f64);
            for word in words {
                let term = *terms.entry(word).or_insert_with(|| {
                    counts.push(Vec::new());
                    counts.len() as u32 - 1
                });
                let postings = &mut counts[term as usize];
                match postings.last_mut() {
                    Some((last, count)) if *last == document as u32 => *count += 1.0,
                    _ => postings.push((document as u32, 1.0)),
                }
            }
        }
        let documents = lengths.len();
        let mean_length = lengths.iter().sum::<f64>() / (documents.max(1) as f64);
        let Bm25Settings { k1, b, .. } = *settings;
        for postings in &mut counts {
            let df = postings.len() as f64;
            let idf = (1.0 + (documents as f64 - df + 0.5) / (df + 0.5)).ln();
            for (document, weight) in postings {
                let length = lengths[*document as usize] / mean_length.max(f64::MIN_POSITIVE);
                *weight = idf * *weight * (k1 + 1.0) / (*weight + k1 * (1.0 - b + b * length));
            }
        }
        Self { words: settings.words, terms, postings: counts, documents }
    }

    /// Every document with a positive score, in ascending order of document.
    pub fn scores(&self, text: &str) -> Vec<(usize, f64)> {
        let mut scores = vec![0.0; self.documents];
        for word in words(text, self.words) {
            if let Some(&term) = self.terms.get(&word) {
                for &(document, weight) in &self.postings[term as usize] {
                    scores[document as usize] += weight;
                }
            }
        }
        scores.into_iter().enumerate().filter(|&(_, score)| score > 0.0).collect()
    }
}

/// BM25 over the tools of a view.
#[derive(Debug)]
pub struct Bm25Retriever {
    index: Index,
    tools: Vec<ToolId>,
}

impl Bm25Retriever {
    pub fn new(view: &View, settings: &Bm25Settings) -> Self {
        let index = Index::new(view.tools().iter().map(|tool| tool_text(tool, settings.schema)), settings);
        Self { index, tools: view.tools().iter().map(|tool| tool.id.clone()).collect() }
    }

    pub fn rank(&self, text: &str, k: usize) -> Vec<ScoredTool> {
        let mut found = self.index.scores(text);
        let by_score = |a: &(usize, f64), b: &(usize, f64)| {
            b.1.total_cmp(&a.1).then_with(|| self.tools[a.0].cmp(&self.tools[b.0]))
        };
        if k < found.len() {
            found.select_nth_unstable_by(k, by_score);
            found.truncate(k);
        }
        let mut scored: Vec<_> =
            found.into_iter().map(|(tool, score)| ScoredTool { tool: self.tools[tool].clone(), score }).collect();
        rank(&mut scored);
        scored
    }
}

impl Retriever for Bm25Retriever {
    fn name(&self) -> &'static str {
        "bm25"
    }

    fn search<'a>(&'a self, text: &'a str, k: usize) -> BoxFuture<'a, Result<Vec<ScoredTool>, StrategyError>> {
        Box::pin(std::future::ready(Ok(self.rank(text, k))))
    }
}

/// The indexed text of a tool: name, server, description, and with `schema` the arguments.
pub fn tool_text(tool: &Arc<Tool>, schema: bool) -> String {
    let mut text = format!("{} {} {}", tool.name(), tool.id.server(), tool.description);
    if schema {
        text.push_str(&schema_text(&tool.input_schema));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::view;

    /// The formula, document by document: the oracle of the index.
    fn naive(texts: &[String], query: &str, settings: &Bm25Settings) -> Vec<f64> {
        let documents: Vec<_> = texts.iter().map(|text| words(text, settings.words)).collect();
        let n = documents.len() as f64;
        let mean = documents.iter().map(Vec::len).sum::<usize>() as f64 / n;
        let score = |document: &Vec<String>| -> f64 {
            let term = |word: &String| {
                let tf = document.iter().filter(|other| *other == word).count() as f64;
                let df = documents.iter().filter(|other| other.contains(word)).count() as f64;
                let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
                let norm = 1.0 - settings.b + settings.b * document.len() as f64 / mean;
                idf * tf * (settings.k1 + 1.0) / (tf + settings.k1 * norm)
            };
            words(query, settings.words).iter().map(term).filter(|share| share.is_finite()).sum()
        };
        documents.iter().map(score).collect()
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_the_formula(
            texts in prop::collection::vec("[abcd ]{0,24}", 1..8),
            query in "[abcde ]{0,12}",
            k1 in 0.0f64..2.0,
            b in 0.0f64..1.0,
        ) {
            let words = WordSettings { split: true, stop_words: false, stem: false };
            let settings = Bm25Settings { k1, b, schema: false, words };
            let expected = naive(&texts, &query, &settings);
            let scores = Index::new(&texts, &settings).scores(&query);
            for (document, score) in &scores {
                prop_assert!((score - expected[*document]).abs() < 1e-9);
            }
            let positive = expected.iter().filter(|&&score| score > 1e-12).count();
            prop_assert_eq!(scores.len(), positive);
        }

        /// A ranking is a permutation of a subset of the view, whatever the order of the view.
        #[test]
        fn rankings_do_not_depend_on_catalogue_order(query in "[a-z ]{0,30}", seed in any::<u64>(), k in 0usize..12) {
            let settings = Bm25Settings::default();
            let ranked = Bm25Retriever::new(&view(None), &settings).rank(&query, k);
            prop_assert_eq!(&ranked, &Bm25Retriever::new(&view(Some(seed)), &settings).rank(&query, k));
            prop_assert!(ranked.len() <= k);
            let unique: std::collections::BTreeSet<_> = ranked.iter().map(|entry| &entry.tool).collect();
            prop_assert_eq!(unique.len(), ranked.len());
        }
    }

    #[test]
    fn a_view_without_tools_finds_nothing() {
        let index = Index::new(Vec::<String>::new(), &Bm25Settings::default());
        assert!(index.scores("anything").is_empty());
    }
}
