//! BM25F over four fields of a tool: its name, its server, its description, its arguments.

use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::View;
use harness::episode::ScoredTool;
use harness::ids::ToolId;
use harness::strategy::{Retriever, StrategyError};
use serde::{Deserialize, Serialize};

use super::index::{Field, Index, Saturation, b, k1, weight};
use super::words::{WordSettings, schema_text};
use super::{RetrieverSettings, best};

/// Settings of the scorer: saturation, what each field counts, and how text becomes words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bm25fSettings {
    /// 0 to 100.
    #[serde(deserialize_with = "k1")]
    pub k1: f64,
    /// 0 to 1, of every field.
    #[serde(deserialize_with = "b")]
    pub b: f64,
    pub weights: Weights,
    pub words: WordSettings,
}

/// What a word counts by where it stands, 0 to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    #[serde(deserialize_with = "weight")]
    pub name: f64,
    #[serde(deserialize_with = "weight")]
    pub server: f64,
    #[serde(deserialize_with = "weight")]
    pub description: f64,
    /// Names and descriptions of the arguments.
    #[serde(deserialize_with = "weight")]
    pub arguments: f64,
}

impl Default for Weights {
    /// The best recall@5 of 18 settings on the `dev` queries of atlas (METHODOLOGY.md, retrievers).
    fn default() -> Self {
        Self { name: 4.0, server: 2.0, description: 1.0, arguments: 1.0 }
    }
}

impl Default for Bm25fSettings {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75, weights: Weights::default(), words: WordSettings::default() }
    }
}

impl RetrieverSettings for Bm25fSettings {
    const KIND: &'static str = "bm25f";
    const VERSION: u32 = 1;

    fn retriever<'a>(&'a self, view: &'a View) -> BoxFuture<'a, Result<Arc<dyn Retriever>, StrategyError>> {
        let Weights { name, server, description, arguments } = self.weights;
        let fields = view.tools().iter().map(|tool| {
            [
                Field { text: tool.name().to_owned(), weight: name },
                Field { text: tool.id.server().to_owned(), weight: server },
                Field { text: tool.description.clone(), weight: description },
                Field { text: schema_text(&tool.input_schema), weight: arguments },
            ]
        });
        let index = Index::new(fields, Saturation { k1: self.k1, b: self.b }, self.words);
        let retriever =
            Arc::new(Bm25fRetriever { index, tools: view.tools().iter().map(|tool| tool.id.clone()).collect() });
        Box::pin(std::future::ready(Ok(retriever as Arc<dyn Retriever>)))
    }
}

struct Bm25fRetriever {
    index: Index,
    tools: Vec<ToolId>,
}

impl Retriever for Bm25fRetriever {
    fn name(&self) -> &'static str {
        Bm25fSettings::KIND
    }

    fn search<'a>(&'a self, text: &'a str, k: usize) -> BoxFuture<'a, Result<Vec<ScoredTool>, StrategyError>> {
        Box::pin(std::future::ready(Ok(best(self.index.scores(text), &self.tools, k))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{names, view};

    async fn ranked(weights: Weights, query: &str) -> Vec<String> {
        let settings = Bm25fSettings { weights, ..Bm25fSettings::default() };
        names(&settings.retriever(&view(None)).await.unwrap().search(query, 10).await.unwrap())
    }

    #[tokio::test]
    async fn a_field_of_weight_zero_is_not_searched() {
        let server = Weights { server: 1.0, name: 0.0, description: 0.0, arguments: 0.0 };
        assert_eq!(ranked(server, "desk").await, ["desk_close", "desk_search"]);
        assert!(ranked(server, "message").await.is_empty());
        let arguments = Weights { server: 0.0, arguments: 1.0, ..server };
        assert_eq!(ranked(arguments, "query").await.len(), 6);
    }

    #[tokio::test]
    async fn the_name_counts_more_than_the_description() {
        assert_eq!(ranked(Weights::default(), "search messages").await[0], "mail_search");
    }
}
