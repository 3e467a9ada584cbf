//! What a strategy would put into a prompt at a size, and whether the endpoint takes that.

use std::collections::HashMap;

use harness::catalogue::{Actor, Catalogue, Tool};
use harness::dataset::Dataset;
use harness::endpoint::Profile;
use harness::episode::NotRunnable;
use harness::ids::ToolId;
use harness::registry::Registry;
use harness::run::manifest::{Axis, DistractorKind, StrategyInfo};
use harness::run::plan::{Estimate, EstimateBasis, estimate};
use harness::strategy::StrategyMeta;
use harness::text::grouped;
use harness::tokens;
use harness::toolbox::definition;
use serde_json::Map;

use crate::args::SEED;
use crate::exit::{Exit, OrExit as _};
use crate::subsets::Subsets;

/// Estimated tokens and counts of a view.
#[derive(Clone, Debug)]
pub struct Weight {
    core_tokens: u64,
    core_tools: u64,
    /// Of all tools that are not core.
    tokens: u64,
    tools: u64,
    skill_tokens: u64,
    skills: Vec<Load>,
}

/// What a skill brings along beside the core tools.
#[derive(Clone, Copy, Debug)]
struct Load {
    tools: u64,
    tokens: u64,
    body: u64,
}

/// Weighs views. Each definition is counted once, however many views hold it.
pub struct Scales<'p> {
    profile: &'p Profile,
    definitions: HashMap<ToolId, u64>,
}

impl<'p> Scales<'p> {
    pub fn new(profile: &'p Profile) -> Self {
        Self { profile, definitions: HashMap::new() }
    }

    fn definition(&mut self, tool: &Tool) -> u64 {
        if let Some(tokens) = self.definitions.get(&tool.id) {
            return *tokens;
        }
        let tokens = definition_tokens(tool, self.profile);
        self.definitions.insert(tool.id.clone(), tokens);
        tokens
    }

    /// The view that `actor` has of these tools. It is not made: with candidates of their own there are as many as queries.
    pub fn weigh(&mut self, catalogue: &Catalogue, actor: &Actor, tools: &[ToolId]) -> Weight {
        let granted = tools.iter().filter_map(|id| catalogue.get(id)).filter(|tool| actor.may_call(tool));
        let granted: HashMap<&ToolId, (bool, u64)> =
            granted.map(|tool| (&tool.id, (tool.core, self.definition(tool)))).collect();
        let mut weight =
            Weight { core_tokens: 0, core_tools: 0, tokens: 0, tools: 0, skill_tokens: 0, skills: Vec::new() };
        // In the order of the list: a sum does not depend on it, but a hash map is not walked.
        for (core, tokens) in tools.iter().filter_map(|id| granted.get(id)) {
            let (count, sum) = if *core {
                (&mut weight.core_tools, &mut weight.core_tokens)
            } else {
                (&mut weight.tools, &mut weight.tokens)
            };
            *count += 1;
            *sum += tokens;
        }
        for skill in catalogue.skills.iter().filter(|skill| actor.sees(skill)) {
            let held: Vec<_> = skill.allowed_tools.iter().filter_map(|id| granted.get(id)).collect();
            if held.is_empty() {
                continue;
            }
            let loaded = || held.iter().filter(|(core, _)| !core);
            weight.skill_tokens += tokens::count(&skill.description) + 8;
            weight.skills.push(Load {
                tools: loaded().count() as u64,
                tokens: loaded().map(|(_, tokens)| tokens).sum(),
                body: tokens::count(&skill.body),
            });
        }
        weight
    }
}

impl Weight {
    /// The most that so many skills load.
    fn loaded(&self, skills: usize, with_bodies: bool) -> Load {
        let most = |of: fn(&Load) -> u64| {
            let mut all: Vec<u64> = self.skills.iter().map(of).collect();
            all.sort_unstable();
            all.into_iter().rev().take(skills).sum::<u64>()
        };
        Load {
            tools: most(|load| load.tools).min(self.tools),
            tokens: most(|load| load.tokens).min(self.tokens),
            body: if with_bodies { most(|load| load.body) } else { 0 },
        }
    }
}

/// Estimated tokens of a tool's definition as it is sent.
pub fn definition_tokens(tool: &Tool, profile: &Profile) -> u64 {
    tokens::count_json(&definition(tool, tool.name(), profile))
}

/// How many skills a strategy loads at once, if it works by skills: the contract has no word for it, so its parameter tells.
pub fn most_skills(meta: &StrategyMeta) -> Option<usize> {
    meta.params.get("max_skills")?.as_u64().map(|skills| skills as usize)
}

/// What an endpoint takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'p> {
    pub profile: &'p Profile,
    pub max_output_tokens: u32,
}

impl Limits<'_> {
    /// The gateway refuses prompts above this: estimate + 5 % + output must fit.
    fn prompt_tokens(&self) -> Option<u64> {
        let room = |context: u64| u128::from(context.saturating_sub(u64::from(self.max_output_tokens)));
        self.profile.context_tokens.map(|context| (room(context) * 20 / 21) as u64)
    }

    fn too_long(&self, prompt: u64) -> bool {
        self.prompt_tokens().is_some_and(|limit| prompt > limit)
    }

    fn too_many(&self, tools: u64) -> bool {
        self.profile.max_tools.is_some_and(|max| tools > max as u64)
    }
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
    /// How an episode ends in which the strategy shows as much as it may.
    pub may_not_run: Option<NotRunnable>,
    /// Tokens and tools are a bound.
    pub at_most: bool,
}

/// Estimates one strategy at one size, in one view.
pub fn fit(info: &StrategyInfo, size: (u32, usize), weight: &Weight, limits: Limits<'_>) -> Fit {
    if let Some(skills) = most_skills(&info.meta).filter(|_| info.meta.drives_model) {
        return fit_by_skills(info, size, skills, weight, limits);
    }
    let Weight { core_tokens, core_tools, tokens, tools, skill_tokens, .. } = *weight;
    let catalogue = (core_tokens, tokens, tools, skill_tokens);
    let mut row = estimate(info, size, catalogue, limits.prompt_tokens(), EstimateBasis::default());
    let shown = info.meta.shown_tools.map_or(tools, |shown| tools.min(shown as u64));
    let too_many = info.meta.drives_model && limits.too_many(shown + core_tools);
    let not_runnable =
        if too_many { Some(NotRunnable::ToolLimit) } else { row.not_runnable.then_some(NotRunnable::Context) };
    if too_many {
        row = Estimate { requests: 0, input_tokens: 0, output_tokens: 0, not_runnable: true, ..row };
    }
    let definition_tokens = core_tokens + tokens * shown / tools.max(1);
    let shown_tools = shown + core_tools;
    Fit { estimate: row, shown_tools, definition_tokens, not_runnable, may_not_run: None, at_most: false }
}

/// A strategy that works by skills: which of them the model picks is not known, only the most that they can load.
fn fit_by_skills(info: &StrategyInfo, size: (u32, usize), skills: usize, weight: &Weight, limits: Limits<'_>) -> Fit {
    let flag = |name: &str| info.meta.params.get(name).and_then(serde_json::Value::as_bool) == Some(true);
    let basis = EstimateBasis::default();
    let load = weight.loaded(skills, flag("bodies"));
    // All that is loaded is shown.
    let shows_all = StrategyInfo { meta: StrategyMeta { shown_tools: None, ..info.meta.clone() }, ..info.clone() };
    // Above a number of skills a ranking narrows the list down that the model picks from.
    let all = weight.skills.len() as u64;
    let listed = info.meta.params.get("prefilter_above").and_then(serde_json::Value::as_u64).unwrap_or(all).min(all);
    let list_tokens = weight.skill_tokens * listed / all.max(1);
    let catalogue = (weight.core_tokens, load.tokens + load.body, load.tools, list_tokens);
    let mut row = estimate(&shows_all, size, catalogue, None, basis);
    let overhead = basis.overhead_tokens;
    let not_runnable = if weight.skills.is_empty() {
        Some(NotRunnable::Unsupported)
    } else if limits.too_many(weight.core_tools) {
        Some(NotRunnable::ToolLimit)
    } else {
        // A prompt without any of their tools.
        limits.too_long(weight.core_tokens + overhead).then_some(NotRunnable::Context)
    };
    let definition_tokens = weight.core_tokens + load.tokens;
    let shown_tools = weight.core_tools + load.tools;
    let may_not_run = if limits.too_many(shown_tools) {
        Some(NotRunnable::ToolLimit)
    } else {
        let longest = list_tokens.max(definition_tokens + load.body);
        limits.too_long(longest + overhead).then_some(NotRunnable::Context)
    };
    if not_runnable.is_some() {
        row = Estimate { requests: 0, input_tokens: 0, output_tokens: 0, not_runnable: true, ..row };
    }
    // A model that may pick again can load more.
    let at_most = !flag("reselect");
    Fit { estimate: row, shown_tools, definition_tokens, not_runnable, may_not_run, at_most }
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
    let mut scales = Scales::new(profile);
    let mut fits = Vec::new();
    for size in sizes(dataset) {
        let subset = subsets.of(size).or_exit(Exit::Dataset)?;
        let weight = scales.weigh(&subset.catalogue, &Actor::all(), &subset.tools);
        fits.extend(infos.iter().map(|info| fit(info, (size, 1), &weight, limits)));
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
    let Fit { estimate, shown_tools, definition_tokens, not_runnable, .. } = fit;
    let end = (*not_runnable)?;
    let limit = match end {
        NotRunnable::ToolLimit => {
            format!("the endpoint takes {} in one request", known(profile.max_tools.map(|max| max as u64)))
        }
        NotRunnable::Unsupported => "no skill loads a tool of it".to_owned(),
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

    use harness::catalogue::{Annotations, Skill, Tier};
    use serde_json::{Value, json};

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

    /// Three tools of about the same weight, in two skills, and a core tool.
    fn by_skills(params: Value, limits: Limits<'_>) -> Fit {
        let tool = |name: &str, core| Tool {
            id: ToolId::new("s", name),
            description: "Does something for somebody.".to_owned(),
            input_schema: json!({"type": "object"}),
            annotations: Annotations::default(),
            core,
            tags: Vec::new(),
        };
        let skill = |name: &str, tools: &[&str]| Skill {
            name: name.to_owned(),
            description: "d".to_owned(),
            allowed_tools: tools.iter().map(|name| ToolId::new("s", name)).collect(),
            tier: Tier::Pinned,
            body: "Read it first.".to_owned(),
        };
        let tools = vec![tool("a", false), tool("b", false), tool("c", false), tool("core", true)];
        let skills = vec![skill("two", &["a", "b", "core"]), skill("one", &["c"]), skill("none", &["gone"])];
        let catalogue = Catalogue::new(Vec::new(), tools, skills).unwrap();
        let all: Vec<ToolId> = catalogue.tools.iter().map(|tool| tool.id.clone()).collect();
        let meta = StrategyMeta {
            kind: "k".to_owned(),
            version: 1,
            params,
            drives_model: true,
            ranks: false,
            own_tools: Vec::new(),
            inner_turns: 1,
            shown_tools: Some(18),
        };
        let weight = Scales::new(limits.profile).weigh(&catalogue, &Actor::all(), &all);
        fit(&StrategyInfo { label: "k".to_owned(), meta }, (4, 1), &weight, limits)
    }

    #[test]
    fn skills_are_weighed_by_what_they_can_load() {
        let open = limited(None, None);
        let limits = Limits { profile: &open, max_output_tokens: 256 };
        let one = by_skills(json!({"max_skills": 1}), limits);
        assert_eq!(
            (one.shown_tools, one.at_most, one.may_not_run),
            (3, true, None),
            "the core tool and the larger skill"
        );
        let two = by_skills(json!({"max_skills": 2, "reselect": true}), limits);
        assert_eq!((two.shown_tools, two.at_most), (4, false), "a second choice may load more");
        let bodies = by_skills(json!({"max_skills": 2, "bodies": true}), limits);
        assert!(bodies.estimate.input_tokens > two.estimate.input_tokens);
        let few = limited(None, Some(2));
        let tight = by_skills(json!({"max_skills": 1}), Limits { profile: &few, max_output_tokens: 256 });
        assert_eq!((tight.not_runnable, tight.may_not_run), (None, Some(NotRunnable::ToolLimit)));
        assert!(tight.estimate.requests > 0, "a smaller choice runs");
        let none = limited(None, Some(0));
        let never = by_skills(json!({"max_skills": 1}), Limits { profile: &none, max_output_tokens: 256 });
        assert_eq!((never.not_runnable, never.estimate.requests), (Some(NotRunnable::ToolLimit), 0));
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
