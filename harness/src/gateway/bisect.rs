//! Finds the tools whose schemas an endpoint refuses.
//!
//! One bad schema fails every request that holds it, and the refusal seldom says which it was. So the endpoint is asked about
//! parts of the tools, by requests like any other: stored, counted, bounded by the caps of the run. What was learned is read off
//! the store, so that it survives a crash: a request with one tool that was refused names it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tracing::{info, warn};

use super::{AskError, Gateway};
use crate::catalogue::Catalogue;
use crate::chat::{ChatRequest, Message, ToolDef};
use crate::endpoint::{EndpointError, ErrorKind, Profile, Route, SchemaRules};
use crate::ids::Digest;
use crate::run::manifest::{RefusedSchema, RefusedSchemas};
use crate::store::log::LogError;
use crate::store::responses::ResponseStore;
use crate::text::plain;
use crate::tokens;

/// What a probe says beside the tools: nothing that an episode would say.
const PROBE: &str = "This tests whether the definitions of the tools are accepted. Answer with the word yes.";
/// Refusals are quoted to this length.
const MOST_WORDS: usize = 240;

/// What is known of refused schemas while a run goes on.
#[derive(Debug)]
pub(super) struct Bisected {
    /// Sets of tools that were searched, or that need no search.
    sets: BTreeSet<Digest>,
    /// Definitions that are refused by themselves.
    refused: BTreeSet<Digest>,
    /// Probes of the run, those of earlier processes included.
    sent: u32,
}

impl Bisected {
    pub(super) fn of(store: &ResponseStore) -> Result<Self, LogError> {
        let alone = refused_lists(store)?.into_iter().filter(|(tools, _)| tools.len() == 1);
        let refused = alone.map(|(tools, _)| Digest::of_json(&tools[0])).collect();
        Ok(Self { sets: BTreeSet::new(), refused, sent: store.count_requests(is_probe)? as u32 })
    }
}

impl Gateway {
    /// Finds out which tools of a refused request are refused by themselves: once per set of tools, in probes that
    /// [`Profile::max_schema_probes`] bounds. A set with a tool that is known to be refused is explained by it. Never changes what
    /// becomes of the request.
    pub(super) async fn blame(&self, request: &ChatRequest, error: &EndpointError) -> Result<(), LogError> {
        if !error.may_be_one_schema() || request.tools.is_empty() {
            return Ok(());
        }
        // In one order, so that permutations of a view are asked about once.
        let mut tools: Vec<&Arc<ToolDef>> = request.tools.iter().collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let digests: Vec<Digest> = tools.iter().map(Digest::of_json).collect();
        let mut known = self.bisected.lock().await;
        let explained = digests.iter().any(|digest| known.refused.contains(digest));
        if explained || !known.sets.insert(Digest::of_json(&digests)) {
            return Ok(());
        }
        let mut search = Search::new(tools.len());
        while let Some(part) = search.next() {
            let part = part.iter().map(|&tool| tools[tool].clone()).collect();
            match self.probe(request, part, &mut known.sent).await? {
                Some(refused) => search.tell(refused),
                None => break,
            }
        }
        let probes = known.sent;
        if search.found.is_empty() {
            info!(tools = tools.len(), probes, "no single schema was found to be refused");
        }
        for &tool in &search.found {
            warn!(tool = %plain(&tools[tool].name), probes, "the schema of a tool is refused");
        }
        known.refused.extend(search.found.iter().map(|&tool| digests[tool].clone()));
        Ok(())
    }

    /// Whether these tools are refused; `None` if that cannot be told, or no more may be asked.
    async fn probe(
        &self,
        refused: &ChatRequest,
        tools: Vec<Arc<ToolDef>>,
        sent: &mut u32,
    ) -> Result<Option<bool>, LogError> {
        let body = ChatRequest {
            model: refused.model.clone(),
            messages: vec![Message::user(PROBE)],
            tools,
            tool_choice: refused.tool_choice.clone(),
            response_format: None,
            temperature: refused.temperature,
            max_tokens: Some(1),
            seed: refused.seed,
        };
        let request = self.request(Route::Chat, self.profile.body(&body), 0);
        if self.store.stored(&request.key())?.is_none() {
            if *sent >= self.profile.max_schema_probes {
                return Ok(None);
            }
            *sent += 1;
        }
        let tokens = tokens::count_json(&request.body);
        match self.ask(Route::Chat, request, tokens).await {
            Ok(_) => Ok(Some(false)),
            Err(AskError::Endpoint(failure)) => Ok(match failure.error.kind {
                _ if failure.error.may_be_one_schema() => Some(true),
                // Something was generated, so the schemas were read.
                ErrorKind::ModelError | ErrorKind::Filtered => Some(false),
                _ => None,
            }),
            Err(AskError::Store(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// The body of a request that goes into finding out whose schema is refused, and belongs to no episode.
pub fn is_probe(body: &Value) -> bool {
    body["messages"] == json!([Message::user(PROBE)])
}

/// Lists of tools that were refused for a schema, each with words of the endpoint.
fn refused_lists(store: &ResponseStore) -> Result<Vec<(Vec<ToolDef>, EndpointError)>, LogError> {
    let read = |(tools, error): (Value, EndpointError)| {
        Some((serde_json::from_value::<Vec<ToolDef>>(tools).ok()?, error)).filter(|(tools, _)| !tools.is_empty())
    };
    Ok(store.refused_tools(EndpointError::may_be_one_schema)?.into_iter().filter_map(read).collect())
}

/// What a run learned of schemas that its endpoint refuses; `None` if it refused none.
pub fn refused_schemas(
    store: &ResponseStore,
    profile: &Profile,
    catalogue: &Catalogue,
) -> Result<Option<RefusedSchemas>, LogError> {
    let lists = refused_lists(store)?;
    if lists.is_empty() {
        return Ok(None);
    }
    let alone: Vec<(&ToolDef, &EndpointError)> =
        lists.iter().filter(|(tools, _)| tools.len() == 1).map(|(tools, error)| (&tools[0], error)).collect();
    let explained = |tools: &[ToolDef]| tools.iter().any(|tool| alone.iter().any(|(refused, _)| *refused == tool));
    let unexplained = lists.iter().any(|(tools, _)| !explained(tools));
    let mut refused: Vec<RefusedSchema> = alone
        .iter()
        .map(|(tool, error)| RefusedSchema {
            tool: owner(tool, profile, catalogue),
            words: error.message.chars().take(MOST_WORDS).collect(),
            advice: SchemaRules::advice(&tool.parameters).into_iter().map(str::to_owned).collect(),
        })
        .collect();
    refused.sort_by(|a, b| a.tool.cmp(&b.tool));
    refused.dedup_by(|a, b| a.tool == b.tool);
    Ok(Some(RefusedSchemas { refused, unexplained, probes: store.count_requests(is_probe)? }))
}

/// The tool of the catalogue that a definition is of; its own name where it is none of the catalogue's.
fn owner(sent: &ToolDef, profile: &Profile, catalogue: &Catalogue) -> String {
    let same = catalogue
        .tools
        .iter()
        .filter(|tool| tool.description == sent.description && profile.fit(&tool.input_schema).0 == sent.parameters);
    let best = same.max_by_key(|tool| (tool.name() == sent.name, sent.name.starts_with(tool.id.server())));
    best.map_or_else(|| sent.name.clone(), |tool| tool.id.to_string())
}

/// Which tools of a refused list are refused by themselves. Halves are asked about until one tool is left, then the rest of the
/// list: at most log2(n) + 3 questions for each tool that is found.
#[derive(Debug)]
struct Search {
    /// Refused, less what was found in it.
    rest: Vec<usize>,
    /// One of these is refused, if any is refused by itself.
    suspects: Vec<usize>,
    step: Step,
    found: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first half of the suspects.
    Half,
    /// The last suspect, not seen alone yet.
    Alone,
    /// All but what was found.
    Rest,
    Done,
}

impl Search {
    /// Of a list with so many tools that was refused.
    fn new(tools: usize) -> Self {
        let rest = (0..tools).collect();
        let mut search = Self { rest, suspects: Vec::new(), step: Step::Done, found: Vec::new() };
        search.suspect(search.rest.clone(), true);
        search
    }

    /// The tools to ask about next.
    fn next(&self) -> Option<&[usize]> {
        match self.step {
            Step::Half => Some(&self.suspects[..self.suspects.len() / 2]),
            Step::Alone => Some(&self.suspects),
            Step::Rest => Some(&self.rest),
            Step::Done => None,
        }
    }

    fn tell(&mut self, refused: bool) {
        match self.step {
            Step::Half => {
                let mut first = std::mem::take(&mut self.suspects);
                let second = first.split_off(first.len() / 2);
                self.suspect(if refused { first } else { second }, refused);
            }
            Step::Alone if refused => self.suspect(self.suspects.clone(), true),
            Step::Rest if refused => self.suspect(self.rest.clone(), true),
            // The rest is accepted, or what is left over is: then it is all of them together that is refused.
            Step::Alone | Step::Rest | Step::Done => self.step = Step::Done,
        }
    }

    /// `seen`: these were refused together. Otherwise they are what is left over where the others are accepted.
    fn suspect(&mut self, suspects: Vec<usize>, seen: bool) {
        self.step = match suspects[..] {
            [] => Step::Done,
            [_] if !seen => Step::Alone,
            [found] => {
                self.found.push(found);
                self.rest.retain(|tool| *tool != found);
                if self.rest.is_empty() { Step::Done } else { Step::Rest }
            }
            _ => Step::Half,
        };
        self.suspects = suspects;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is found, and in how many questions, where these tools are refused.
    fn search(tools: usize, bad: &BTreeSet<usize>) -> (BTreeSet<usize>, usize) {
        let mut search = Search::new(tools);
        let mut asked = 0;
        while let Some(part) = search.next() {
            assert!(!part.is_empty());
            let refused = part.iter().any(|tool| bad.contains(tool));
            search.tell(refused);
            asked += 1;
        }
        (search.found.into_iter().collect(), asked)
    }

    proptest! {
        #[test]
        fn every_culprit_is_found_in_few_questions(
            tools in 1_usize..2_000,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        ) {
            let bad: BTreeSet<usize> = picks.iter().map(|pick| pick.index(tools)).collect();
            let (found, asked) = search(tools, &bad);
            prop_assert_eq!(&found, &bad);
            let each = 2.0 * (tools as f64).log2() + 2.0;
            prop_assert!(asked as f64 <= each * bad.len() as f64, "{} questions for {} of {}", asked, bad.len(), tools);
        }
    }

    #[test]
    fn what_is_refused_only_together_is_nobody_s_fault() {
        let mut search = Search::new(100);
        let mut asked = 0;
        while let Some(part) = search.next() {
            let refused = part.len() > 60;
            search.tell(refused);
            asked += 1;
        }
        assert!(search.found.is_empty());
        assert!(asked <= 8, "{asked}");
    }
}
