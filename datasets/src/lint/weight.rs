//! What definitions weigh in tokens, by the tokenizer of every estimate.

use harness::catalogue::Catalogue;
use harness::chat::ToolDef;
use harness::dataset::Dataset;
use harness::tokens;
use serde::Serialize;

use super::Linter;
use super::rules::HEAVY as HEAVY_RULE;
use super::skills::TOOLS;
use crate::scale::{Distractors, nested};

/// Tokens from which a definition is heavy.
const HEAVY: u64 = 1000;
/// Heaviest definitions listed.
const LISTED: usize = 10;
/// The draw of sizes that runs use unless told otherwise.
const SEED: u64 = 1;

/// The weight of a catalogue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Weight {
    pub tokenizer: &'static str,
    pub tools: usize,
    /// Of all definitions, as an endpoint is sent them.
    pub tokens: u64,
    pub heaviest: Vec<ToolWeight>,
    /// The seed that the sizes are drawn with.
    pub seed: u64,
    pub sizes: Vec<SizeWeight>,
    /// Tools that several endpoints take in one request.
    pub cap: usize,
    pub views: Vec<ViewWeight>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolWeight {
    pub tool: String,
    pub tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeWeight {
    pub tools: usize,
    pub tokens: u64,
}

/// What one actor may call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ViewWeight {
    pub actor: String,
    pub tools: usize,
    pub tokens: u64,
}

/// Tokens of each definition, in the order of the catalogue.
pub(super) fn of_tools(catalogue: &Catalogue) -> Vec<u64> {
    let weight = |tool: &harness::catalogue::Tool| {
        tokens::count_json(&ToolDef {
            name: tool.name().to_owned(),
            description: tool.description.clone(),
            parameters: tool.input_schema.clone(),
        })
    };
    catalogue.tools.iter().map(|tool| weight(tool)).collect()
}

pub(super) fn check(linter: &mut Linter, weights: &[u64]) {
    let dataset = linter.dataset;
    for (tool, weight) in dataset.catalogue.tools.iter().zip(weights).filter(|(_, weight)| **weight > HEAVY) {
        linter.tool(&HEAVY_RULE, tool, "name", &format!("the definition has about {weight} tokens"));
    }
}

impl Weight {
    pub(super) fn new(dataset: &Dataset, weights: &[u64]) -> Self {
        let tools = &dataset.catalogue.tools;
        let mut heaviest: Vec<_> = tools.iter().zip(weights).collect();
        heaviest.sort_by(|left, right| right.1.cmp(left.1).then_with(|| left.0.id.cmp(&right.0.id)));
        let heaviest = heaviest.into_iter().take(LISTED);
        let of_size = |size: usize| {
            // A size that the catalogue does not have is a finding of its own.
            let drawn = nested(dataset, size, Distractors::Random, SEED).ok()?;
            // Both are in the order of the catalogue.
            let mut drawn = drawn.iter().peekable();
            let kept = tools.iter().zip(weights).filter(|(tool, _)| drawn.next_if(|id| **id == tool.id).is_some());
            Some(SizeWeight { tools: size, tokens: kept.map(|(_, weight)| weight).sum() })
        };
        let of_view = |actor: &harness::catalogue::Actor| {
            let seen = || tools.iter().zip(weights).filter(|(tool, _)| actor.may_call(tool));
            let tokens = seen().map(|(_, weight)| weight).sum();
            ViewWeight { actor: actor.id.to_string(), tools: seen().count(), tokens }
        };
        Self {
            tokenizer: tokens::TOKENIZER,
            tools: tools.len(),
            tokens: weights.iter().sum(),
            heaviest: heaviest.map(|(tool, &tokens)| ToolWeight { tool: tool.id.to_string(), tokens }).collect(),
            seed: SEED,
            sizes: dataset.sizes.iter().filter_map(|&size| of_size(size)).collect(),
            cap: TOOLS,
            views: dataset.actors.iter().map(of_view).collect(),
        }
    }
}
