//! BM25 over one text per tool.

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::{Tool, View};
use harness::episode::ScoredTool;
use harness::ids::ToolId;
use harness::strategy::{Retriever, StrategyError};
use serde::{Deserialize, Serialize};

use super::index::{Field, Index, Saturation, b, k1};
use super::words::{WordSettings, schema_text};
use super::{RetrieverSettings, best};

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
    /// Index names: of the tool and of its server.
    pub names: bool,
    /// Index names and descriptions of the arguments.
    pub schema: bool,
    pub words: WordSettings,
}

impl Default for Bm25Settings {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75, names: true, schema: true, words: WordSettings::default() }
    }
}

impl Bm25Settings {
    /// An index over texts.
    pub fn index<S: AsRef<str>>(&self, texts: impl IntoIterator<Item = S>) -> Index {
        let saturation = Saturation { k1: self.k1, b: self.b };
        Index::new(texts.into_iter().map(|text| [Field { text, weight: 1.0 }]), saturation, self.words)
    }

    /// The indexed text of a tool: names, description, arguments.
    fn text(&self, tool: &Tool) -> String {
        let mut text = String::new();
        if self.names {
            text.extend([tool.name(), " ", tool.id.server(), " "]);
        }
        text.push_str(&tool.description);
        if self.schema {
            text.push_str(&schema_text(&tool.input_schema));
        }
        text
    }
}

impl RetrieverSettings for Bm25Settings {
    const KIND: &'static str = "bm25";
    const VERSION: u32 = 2;

    fn retriever<'a>(&'a self, view: &'a View) -> BoxFuture<'a, Result<Arc<dyn Retriever>, StrategyError>> {
        let retriever = Arc::new(Bm25Retriever::new(view, self));
        Box::pin(std::future::ready(Ok(retriever as Arc<dyn Retriever>)))
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
        let index = settings.index(view.tools().iter().map(|tool| settings.text(tool)));
        Self { index, tools: view.tools().iter().map(|tool| tool.id.clone()).collect() }
    }

    pub fn rank(&self, text: &str, k: usize) -> Vec<ScoredTool> {
        best(self.index.scores(text), &self.tools, k)
    }
}

impl Retriever for Bm25Retriever {
    fn name(&self) -> &'static str {
        Bm25Settings::KIND
    }

    fn search<'a>(&'a self, text: &'a str, k: usize) -> BoxFuture<'a, Result<Vec<ScoredTool>, StrategyError>> {
        Box::pin(std::future::ready(Ok(self.rank(text, k))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::view;

    proptest! {
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
}
