//! Queries, labels and the dataset that holds them. Labels live apart from queries so that nothing that runs can see them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::{Actor, Catalogue};
use crate::ids::{ActorId, Digest, IntentId, QueryId, ToolId};

/// How a query relates to its gold tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Uses the words of the tool.
    Direct,
    /// Almost no word in common with the tool.
    Paraphrased,
    /// Names the vendor.
    Vendor,
    /// Needs two or three tools.
    Multi,
    /// Nothing in the catalogue does the job.
    NoTool,
    /// Typos, chat, context first.
    Noisy,
    /// Not in English.
    Foreign,
    /// An import that does not say.
    Unspecified,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Direct,
        Self::Paraphrased,
        Self::Vendor,
        Self::Multi,
        Self::NoTool,
        Self::Noisy,
        Self::Foreign,
        Self::Unspecified,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Paraphrased => "paraphrased",
            Self::Vendor => "vendor",
            Self::Multi => "multi",
            Self::NoTool => "no_tool",
            Self::Noisy => "noisy",
            Self::Foreign => "foreign",
            Self::Unspecified => "unspecified",
        }
    }
}

/// A person's words and who says them. Holds no label; even so a strategy is given only `text`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Query {
    pub id: QueryId,
    pub intent: IntentId,
    pub text: String,
    pub actor: ActorId,
    pub kind: Kind,
    /// BCP 47.
    pub language: String,
    pub split: String,
    /// Valid at every nested catalogue size.
    pub scaling: bool,
    /// A later call needs the result of an earlier one.
    pub sequential: bool,
    /// The query was labelled against these only.
    pub candidates: Option<Vec<ToolId>>,
    /// What a tool answers in this episode instead of the fixed receipt.
    pub results: BTreeMap<ToolId, String>,
    pub tags: Vec<String>,
}

/// One label.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Qrel {
    /// Any-of inside a group, all-of across groups.
    pub group: u32,
    pub tool: ToolId,
    /// 3 does it, 2 does it acceptably, 1 helper, 0 judged and does not.
    pub relevance: u8,
    /// Per argument the accepted values; `""` among them means it may be left out.
    pub arguments: Option<BTreeMap<String, Vec<Value>>>,
}

/// A group is required if one of its members does the job at least acceptably.
pub const RELEVANCE_COVERS: u8 = 2;

/// The labels of one query.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Labels {
    qrels: Vec<Qrel>,
}

impl Labels {
    pub fn new(qrels: Vec<Qrel>) -> Self {
        Self { qrels }
    }

    pub fn qrels(&self) -> &[Qrel] {
        &self.qrels
    }

    /// The highest relevance given to the tool in any group; `None` = unjudged.
    pub fn relevance(&self, tool: &ToolId) -> Option<u8> {
        self.qrels.iter().filter(|qrel| qrel.tool == *tool).map(|qrel| qrel.relevance).max()
    }

    /// Required groups in ascending order, each with the tools that cover it.
    pub fn groups(&self) -> Vec<BTreeSet<&ToolId>> {
        let mut groups: BTreeMap<u32, BTreeSet<&ToolId>> = BTreeMap::new();
        for qrel in self.qrels.iter().filter(|qrel| qrel.relevance >= RELEVANCE_COVERS) {
            groups.entry(qrel.group).or_default().insert(&qrel.tool);
        }
        groups.into_values().collect()
    }

    /// Nothing does the job.
    pub fn is_no_tool(&self) -> bool {
        self.qrels.iter().all(|qrel| qrel.relevance < RELEVANCE_COVERS)
    }

    /// The labels as they stand for a view: members outside it are gone. `None` if a required group loses all its
    /// members, so that the query cannot be answered there.
    pub fn within(&self, visible: impl Fn(&ToolId) -> bool) -> Option<Self> {
        let kept: Vec<_> = self.qrels.iter().filter(|qrel| visible(&qrel.tool)).cloned().collect();
        let kept = Self::new(kept);
        (kept.groups().len() == self.groups().len()).then_some(kept)
    }
}

/// The labels of a dataset.
#[derive(Debug, Default, Serialize)]
pub struct Qrels {
    by_query: BTreeMap<QueryId, Labels>,
}

impl Qrels {
    pub fn new(by_query: BTreeMap<QueryId, Labels>) -> Self {
        Self { by_query }
    }

    /// Labels of a query; empty for a no-tool query.
    pub fn of(&self, query: &QueryId) -> &Labels {
        static NONE: Labels = Labels { qrels: Vec::new() };
        self.by_query.get(query).unwrap_or(&NONE)
    }
}

/// A labelled query-to-tool dataset, read and checked.
#[derive(Debug)]
pub struct Dataset {
    pub name: String,
    pub revision: String,
    pub licence: String,
    /// Nested catalogue sizes at which every scaling query is valid, ascending.
    pub sizes: Vec<usize>,
    pub catalogue: Arc<Catalogue>,
    pub actors: Vec<Actor>,
    pub queries: Vec<Arc<Query>>,
    pub qrels: Qrels,
    by_id: HashMap<QueryId, usize>,
    digest: Digest,
}

/// The parts of a [`Dataset`], before its index and digest exist.
#[derive(Debug)]
pub struct DatasetParts {
    pub name: String,
    pub revision: String,
    pub licence: String,
    pub sizes: Vec<usize>,
    pub catalogue: Catalogue,
    pub actors: Vec<Actor>,
    pub queries: Vec<Query>,
    pub qrels: Qrels,
}

impl Dataset {
    /// The caller has checked that ids are unique and references resolve; see `datasets::load`.
    pub fn new(parts: DatasetParts) -> Self {
        let DatasetParts { name, revision, licence, sizes, catalogue, actors, queries, qrels } = parts;
        let digest = Digest::of_json(&(&name, &revision, catalogue.digest(), &actors, &queries, &qrels));
        let queries: Vec<_> = queries.into_iter().map(Arc::new).collect();
        let by_id = queries.iter().enumerate().map(|(index, query)| (query.id.clone(), index)).collect();
        Self { name, revision, licence, sizes, catalogue: Arc::new(catalogue), actors, queries, qrels, by_id, digest }
    }

    pub fn query(&self, id: &QueryId) -> Option<&Arc<Query>> {
        self.by_id.get(id).map(|&index| &self.queries[index])
    }

    pub fn actor(&self, id: &ActorId) -> Option<&Actor> {
        self.actors.iter().find(|actor| actor.id == *id)
    }

    /// Digest of catalogue, actors, queries and labels.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qrel(group: u32, tool: &str, relevance: u8) -> Qrel {
        Qrel { group, tool: tool.parse().unwrap(), relevance, arguments: None }
    }

    #[test]
    fn helpers_and_judged_zeros_make_no_group() {
        let labels = Labels::new(vec![qrel(0, "a/x", 3), qrel(0, "b/x", 2), qrel(1, "a/y", 1), qrel(2, "a/z", 0)]);
        assert_eq!(labels.groups().len(), 1);
        assert_eq!(labels.groups()[0].len(), 2);
        assert_eq!(labels.relevance(&"a/z".parse().unwrap()), Some(0));
        assert_eq!(labels.relevance(&"a/q".parse().unwrap()), None);
        assert!(!labels.is_no_tool());
        assert!(Labels::new(vec![qrel(0, "a/x", 1)]).is_no_tool());
    }

    #[test]
    fn a_view_without_a_required_group_cannot_answer() {
        let labels = Labels::new(vec![qrel(0, "a/x", 3), qrel(0, "b/x", 2), qrel(1, "a/y", 3)]);
        assert!(labels.within(|tool| tool.server() == "b").is_none());
        let kept = labels.within(|tool| tool.server() == "a").unwrap();
        assert_eq!(kept.qrels().len(), 2);
    }
}
