//! What a strategy would put into a prompt at a size, and whether the endpoint takes that.

use harness::catalogue::{Actor, Tool, View};
use harness::dataset::Dataset;
use harness::endpoint::Profile;
use harness::episode::NotRunnable;
use harness::registry::Registry;
use harness::run::manifest::{Axis, DistractorKind, StrategyInfo};
use harness::run::plan::{Estimate, EstimateBasis, estimate};
use harness::text::grouped;
use harness::tokens;
use harness::toolbox::definition;
use serde_json::Map;

use crate::args::SEED;
use crate::exit::{Exit, OrExit as _};
use crate::subsets::Subsets;

/// Estimated tokens and counts of a view.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    core_tokens: u64,
    core_tools: u64,
    /// Of all tools that are not core.
    tokens: u64,
    tools: u64,
    skill_tokens: u64,
}

impl Weight {
    pub fn of(view: &View, profile: &Profile) -> Self {
        Self {
            core_tokens: view.core().map(|tool| definition_tokens(tool, profile)).sum(),
            core_tools: view.core().count() as u64,
            tokens: view.deferrable().map(|tool| definition_tokens(tool, profile)).sum(),
            tools: view.deferrable().count() as u64,
            skill_tokens: view.skills().iter().map(|skill| tokens::count(&skill.description) + 8).sum(),
        }
    }
}

/// Estimated tokens of a tool's definition as it is sent.
pub fn definition_tokens(tool: &Tool, profile: &Profile) -> u64 {
    tokens::count_json(&definition(tool, tool.name(), profile))
}

/// What an endpoint takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'p> {
    pub profile: &'p Profile,
    pub max_output_tokens: u32,
}

/// A strategy at a size.
#[derive(Clone, Debug)]
pub struct Fit {
    pub estimate: Estimate,
    /// Tools that the model is shown, core tools included.
    pub shown_tools: u64,
    /// Tokens of their definitions, on average.
    pub definition_tokens: u64,
    /// How every episode would end, if it would.
    pub not_runnable: Option<NotRunnable>,
}

/// Estimates one strategy at one size.
pub fn fit(info: &StrategyInfo, size: (u32, usize), weight: Weight, limits: Limits<'_>) -> Fit {
    let Weight { core_tokens, core_tools, tokens, tools, skill_tokens } = weight;
    // The gateway refuses prompts above this: estimate + 5 % + output must fit.
    let limit = limits
        .profile
        .context_tokens
        .map(|context| (u128::from(context.saturating_sub(u64::from(limits.max_output_tokens))) * 20 / 21) as u64);
    let catalogue = (core_tokens, tokens, tools, skill_tokens);
    let mut row = estimate(info, size, catalogue, limit, EstimateBasis::default());
    let shown = info.meta.shown_tools.map_or(tools, |shown| tools.min(shown as u64));
    let too_many =
        limits.profile.max_tools.is_some_and(|max| info.meta.drives_model && shown + core_tools > max as u64);
    let not_runnable =
        if too_many { Some(NotRunnable::ToolLimit) } else { row.not_runnable.then_some(NotRunnable::Context) };
    if too_many {
        row = Estimate { requests: 0, input_tokens: 0, output_tokens: 0, not_runnable: true, ..row };
    }
    let definition_tokens = core_tokens + tokens * shown / tools.max(1);
    Fit { estimate: row, shown_tools: shown + core_tools, definition_tokens, not_runnable }
}

/// Every strategy that asks a model, with its defaults, at every size of a dataset.
pub fn fits(registry: &Registry, dataset: &Dataset, profile: &Profile) -> anyhow::Result<Vec<Fit>> {
    let mut infos = Vec::new();
    for kind in registry.entries().iter().map(|entry| entry.kind) {
        let meta = registry.make(kind, &Map::new()).or_exit(Exit::Usage)?.meta();
        if meta.drives_model {
            infos.push(StrategyInfo { label: kind.to_owned(), meta });
        }
    }
    let limits = Limits { profile, max_output_tokens: profile.max_output_tokens };
    let subsets = Subsets::new(dataset, Axis::Tools, DistractorKind::Random, SEED);
    let mut fits = Vec::new();
    for size in sizes(dataset) {
        let subset = subsets.of(size).or_exit(Exit::Dataset)?;
        let weight = Weight::of(&subset.view(&Actor::all(), None, None), profile);
        fits.extend(infos.iter().map(|info| fit(info, (size, 1), weight, limits)));
    }
    Ok(fits)
}

/// The sizes of a dataset, the whole catalogue among them.
pub fn sizes(dataset: &Dataset) -> Vec<u32> {
    let whole = dataset.catalogue.tools.len();
    let mut sizes: Vec<u32> = dataset.sizes.iter().chain([&whole]).map(|size| *size as u32).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Why a strategy will not run at a size; `None` if it will.
pub fn why_not(fit: &Fit, profile: &Profile) -> Option<String> {
    let Fit { estimate, shown_tools, definition_tokens, not_runnable } = fit;
    let end = (*not_runnable)?;
    let limit = match end {
        NotRunnable::ToolLimit => {
            format!("the endpoint takes {} in one request", known(profile.max_tools.map(|max| max as u64)))
        }
        _ => format!("the context holds {} tokens", known(profile.context_tokens)),
    };
    Some(format!(
        "{} at {}: shows {}, about {} tokens of definitions, {limit}: will end as not_runnable({})",
        estimate.strategy,
        Axis::Tools.count(estimate.size),
        grouped(*shown_tools),
        grouped(*definition_tokens),
        end.as_str()
    ))
}

fn known(limit: Option<u64>) -> String {
    limit.map_or_else(|| "an unknown number of".to_owned(), grouped)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn limited(context_tokens: Option<u64>, max_tools: Option<usize>) -> Profile {
        let mut profile = Profile::hosted("https://a/v1", "m");
        (profile.context_tokens, profile.max_tools, profile.max_output_tokens) = (context_tokens, max_tools, 256);
        profile
    }

    fn reasons(profile: &Profile) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/data/atlas");
        let dataset = datasets::load(&folder).unwrap();
        let fits = fits(&strategies::builtin(), &dataset, profile).unwrap();
        fits.iter().filter_map(|fit| why_not(fit, profile)).collect()
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_size_and_the_limit() {
        assert_eq!(reasons(&limited(None, None)), Vec::<String>::new());
        let small = reasons(&limited(Some(8_192), None));
        assert!(small.iter().all(|reason| reason.starts_with("eager at ")), "{small:?}");
        assert!(small[0].contains("the context holds 8,192 tokens: will end as not_runnable(context)"), "{small:?}");
        let few = reasons(&limited(None, Some(128)));
        assert!(few[0].starts_with("eager at 150 tools: shows 150, "), "{few:?}");
        assert!(
            few[0].ends_with("the endpoint takes 128 in one request: will end as not_runnable(tool_limit)"),
            "{few:?}"
        );
    }
}
