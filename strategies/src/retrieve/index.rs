//! An inverted index with BM25F weights; BM25 is the case of one field.
//!
//! BM25F as in Robertson and Zaragoza (2009), "The Probabilistic Relevance Framework: BM25 and Beyond", section 3.5: a word's counts of
//! all fields are length-normalised per field, weighted, added, and saturated once:
//! `tf = Σ w_f · count_f / (1 − b + b · length_f / mean length_f)`, `score = Σ idf · tf · (k1 + 1) / (tf + k1)`, with
//! `idf = ln(1 + (N − df + ½) / (df + ½))`, which is never negative. With one field of weight 1 that is BM25.
//!
//! Query words count with their repetitions; only documents with a positive score are results.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer};

use super::words::{WordSettings, words};

/// How counts become a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// 0 to 100.
    pub k1: f64,
    /// 0 to 1.
    pub b: f64,
}

/// One text of a document and how much its words count.
#[derive(Clone, Debug)]
pub struct Field<S> {
    pub text: S,
    /// 0 or more.
    pub weight: f64,
}

/// An index over documents, which are numbers, 0 to n − 1.
#[derive(Debug)]
pub struct Index {
    words: WordSettings,
    terms: HashMap<String, usize>,
    /// Per term the documents that hold it, ascending, each with the term's share of its score.
    postings: Vec<Vec<(usize, f64)>>,
    documents: usize,
}

impl Index {
    /// Every document has the same fields in the same order.
    pub fn new<S: AsRef<str>, const FIELDS: usize>(
        documents: impl IntoIterator<Item = [Field<S>; FIELDS]>,
        saturation: Saturation,
        settings: WordSettings,
    ) -> Self {
        let mut terms: HashMap<String, usize> = HashMap::new();
        let mut postings: Vec<Vec<(usize, f64)>> = Vec::new();
        let documents: Vec<[(Vec<String>, f64); FIELDS]> = documents
            .into_iter()
            .map(|fields| fields.map(|field| (words(field.text.as_ref(), settings), field.weight)))
            .collect();
        let mean_lengths: [f64; FIELDS] = std::array::from_fn(|field| {
            let total: usize = documents.iter().map(|fields| fields[field].0.len()).sum();
            total as f64 / documents.len().max(1) as f64
        });
        let Saturation { k1, b } = saturation;
        for (document, fields) in documents.iter().enumerate() {
            let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
            for ((words, weight), mean_length) in fields.iter().zip(mean_lengths) {
                // A field that does not count must not make its words look frequent either.
                if *weight == 0.0 {
                    continue;
                }
                let length = words.len() as f64 / mean_length.max(f64::MIN_POSITIVE);
                let one = weight / (1.0 - b + b * length);
                for word in words {
                    *counts.entry(word).or_default() += one;
                }
            }
            for (word, count) in counts {
                let next = postings.len();
                let term = *terms.entry(word.to_owned()).or_insert(next);
                if term == next {
                    postings.push(Vec::new());
                }
                postings[term].push((document, count));
            }
        }
        let documents = documents.len();
        for postings in &mut postings {
            let df = postings.len() as f64;
            let idf = (1.0 + (documents as f64 - df + 0.5) / (df + 0.5)).ln();
            for (_, weight) in postings {
                *weight = idf * *weight * (k1 + 1.0) / (*weight + k1).max(f64::MIN_POSITIVE);
            }
        }
        Self { words: settings, terms, postings, documents }
    }

    /// Every document with a positive score, in ascending order of document.
    pub fn scores(&self, text: &str) -> Vec<(usize, f64)> {
        let mut scores = vec![0.0; self.documents];
        for word in words(text, self.words) {
            if let Some(&term) = self.terms.get(&word) {
                for &(document, weight) in &self.postings[term] {
                    scores[document] += weight;
                }
            }
        }
        scores.into_iter().enumerate().filter(|&(_, score)| score > 0.0).collect()
    }
}

/// For `deserialize_with`: k1, 0 to 100.
pub(super) fn k1<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    within(f64::deserialize(value)?, 100.0)
}

/// For `deserialize_with`: b, 0 to 1.
pub(super) fn b<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    within(f64::deserialize(value)?, 1.0)
}

/// For `deserialize_with`: the weight of a field, 0 to 1,000.
pub(super) fn weight<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    within(f64::deserialize(value)?, 1_000.0)
}

fn within<E: serde::de::Error>(value: f64, most: f64) -> Result<f64, E> {
    let inside = (0.0..=most).contains(&value);
    if inside { Ok(value) } else { Err(E::custom(format!("{value} is out of range, expected 0 to {most}"))) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::retrieve::words::{StopWords, Unit};

    /// The formula, document by document: the oracle of the index.
    fn naive(texts: &[[String; 2]], weights: [f64; 2], query: &str, Saturation { k1, b }: Saturation) -> Vec<f64> {
        let words = |text: &str| words(text, SETTINGS);
        let n = texts.len() as f64;
        let mean = |field: usize| texts.iter().map(|fields| words(&fields[field]).len()).sum::<usize>() as f64 / n;
        let holds = |texts: &[String; 2], word: &String| {
            texts.iter().zip(weights).any(|(text, weight)| weight > 0.0 && words(text).contains(word))
        };
        let score = |document: &[String; 2]| -> f64 {
            let term = |word: &String| {
                let df = texts.iter().filter(|texts| holds(texts, word)).count() as f64;
                let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
                let tf: f64 = (0..2)
                    .map(|field| {
                        let all = words(&document[field]);
                        let count = all.iter().filter(|other| *other == word).count() as f64;
                        let norm = 1.0 - b + b * all.len() as f64 / mean(field);
                        if count == 0.0 { 0.0 } else { weights[field] * count / norm }
                    })
                    .sum();
                if tf == 0.0 { 0.0 } else { idf * tf * (k1 + 1.0) / (tf + k1) }
            };
            words(query).iter().map(term).sum()
        };
        texts.iter().map(score).collect()
    }

    const SETTINGS: WordSettings =
        WordSettings { split: true, stop_words: StopWords::None, stem: false, unit: Unit::Ascii };

    proptest! {
        #[test]
        fn the_index_agrees_with_the_formula(
            texts in prop::collection::vec(["[abcd ]{0,24}", "[abcd ]{0,8}"], 1..8),
            query in "[abcde ]{0,12}",
            first in 0.1..5.0,
            second in prop_oneof![Just(0.0), 0.1..5.0],
            k1 in 0.0..2.0,
            b in 0.0..=1.0,
        ) {
            let (saturation, weights) = (Saturation { k1, b }, [first, second]);
            let expected = naive(&texts, weights, &query, saturation);
            let fields = texts.iter().map(|[one, two]| {
                [Field { text: one, weight: weights[0] }, Field { text: two, weight: weights[1] }]
            });
            let scores = Index::new(fields, saturation, SETTINGS).scores(&query);
            for (document, score) in &scores {
                prop_assert!((score - expected[*document]).abs() < 1e-9);
            }
            let positive = expected.iter().filter(|&&score| score > 1e-12).count();
            prop_assert_eq!(scores.len(), positive);
        }
    }

    #[test]
    fn an_index_without_documents_finds_nothing() {
        let none: [[Field<&str>; 1]; 0] = [];
        let index = Index::new(none, Saturation { k1: 1.2, b: 0.75 }, WordSettings::default());
        assert!(index.scores("anything").is_empty());
    }
}
