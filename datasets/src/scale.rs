//! Nested catalogue sizes, 150 ⊂ 500 ⊂ 1,000 ⊂ …, and nested sets of skills.
//!
//! One seeded permutation of the catalogue serves every size, so sizes nest by construction and a larger catalogue only
//! adds distractors. Core tools come first in it, then the tools that do the job of a scaling query, then the distractors; a size
//! that holds the first two therefore holds every scaling query.

use std::collections::{BTreeSet, HashMap, HashSet};

use harness::catalogue::{Actor, View, ViewSkill};
use harness::dataset::{Dataset, Query, RELEVANCE_COVERS};
use harness::ids::{ActorId, QueryId, ToolId};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// How distractors are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distractors<'t> {
    /// Uniformly.
    Random,
    /// In this order, then the others uniformly: whoever calls has ranked them, for instance the most confusable first.
    First(&'t [ToolId]),
}

/// No catalogue, or no set of skills, of that size can be cut.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    #[error("dataset {dataset} has {of} tools, so it has no catalogue of {size}: expected a size from 1 to {of}")]
    Tools { dataset: String, of: usize, size: usize },
    #[error(
        "{of} of {all} skills of dataset {dataset} hold a tool there, so there is no set of {size} skills: expected 1 to {of}"
    )]
    Skills { dataset: String, of: usize, all: usize, size: usize },
}

/// The catalogue of `size` tools, 1 to all, in the order of the dataset's files: the draw decides which tools there are,
/// never where they stand in a prompt.
///
/// A size smaller than the core and scaling tools together holds a part of them; [`valid_at`] says which queries remain.
pub fn nested(
    dataset: &Dataset,
    size: usize,
    distractors: Distractors<'_>,
    seed: u64,
) -> Result<Vec<ToolId>, ScaleError> {
    let tools = &dataset.catalogue.tools;
    if size == 0 || size > tools.len() {
        return Err(ScaleError::Tools { dataset: dataset.name.clone(), of: tools.len(), size });
    }
    let anchored = anchored(dataset);
    let (mut core, mut named, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (position, tool) in tools.iter().enumerate() {
        let tier = match (tool.core, anchored.contains(&tool.id)) {
            (true, _) => &mut core,
            (false, true) => &mut named,
            (false, false) => &mut rest,
        };
        tier.push(position);
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    core.shuffle(&mut random);
    named.shuffle(&mut random);
    rest.shuffle(&mut random);
    if let Distractors::First(ranked) = distractors {
        let places: HashMap<&ToolId, usize> = ranked.iter().enumerate().map(|(place, tool)| (tool, place)).collect();
        // Stable: what is not ranked keeps its random order at the end.
        rest.sort_by_key(|&position| places.get(&tools[position].id).copied().unwrap_or(usize::MAX));
    }
    let mut drawn: Vec<_> = core.into_iter().chain(named).chain(rest).take(size).collect();
    drawn.sort_unstable();
    Ok(drawn.into_iter().map(|position| tools[position].id.clone()).collect())
}

/// The names of `size` skills of those that the actor `all` has at a catalogue, 1 to all: 25 ⊂ 50 ⊂ 100 ⊂ …
///
/// First the skills that between them hold what does the job of the scaling queries, each time the one that adds most such
/// tools; then the others in a seeded order. So a small set already answers many queries, and a larger one mostly adds
/// distractors. [`held`] says which queries a set answers.
pub fn nested_skills(dataset: &Dataset, view: &View, size: usize, seed: u64) -> Result<BTreeSet<String>, ScaleError> {
    let of = view.skills().len();
    if size == 0 || size > of {
        let everybody = Actor::all();
        let all = dataset.catalogue.skills.iter().filter(|skill| everybody.sees(skill)).count();
        return Err(ScaleError::Skills { dataset: dataset.name.clone(), of, all, size });
    }
    let mut missing = anchored(dataset);
    missing.retain(|tool| view.get(tool).is_some_and(|tool| !tool.core));
    let mut rest: Vec<_> = view.skills().iter().collect();
    rest.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut drawn = BTreeSet::new();
    while drawn.len() < size {
        let adds = |skill: &ViewSkill| skill.tools.iter().filter(|tool| missing.contains(tool)).count();
        // Of equals the first: `max_by_key` gives the last.
        let best =
            (0..rest.len()).rev().max_by_key(|&place| adds(rest[place])).expect("fewer are drawn than there are");
        let skill = rest.remove(best);
        for tool in &skill.tools {
            missing.remove(tool);
        }
        drawn.insert(skill.name.clone());
    }
    Ok(drawn)
}

/// The queries whose tools the core or some of these skills hold, as far as the actor who asks sees them. No-tool queries
/// need none.
pub fn held(dataset: &Dataset, skills: &BTreeSet<String>) -> BTreeSet<QueryId> {
    let mut by_actor: HashMap<&ActorId, HashSet<&ToolId>> = HashMap::new();
    let everyone = Actor::all();
    let valid = dataset.queries.iter().filter(|query| {
        let tools = by_actor.entry(&query.actor).or_insert_with(|| {
            let actor = dataset.actor(&query.actor).unwrap_or(&everyone);
            let core = dataset.catalogue.tools.iter().filter(|tool| tool.core).map(|tool| &tool.id);
            let seen =
                dataset.catalogue.skills.iter().filter(|skill| skills.contains(&skill.name) && actor.sees(skill));
            core.chain(seen.flat_map(|skill| &skill.allowed_tools)).collect()
        });
        dataset.qrels.of(&query.id).groups().iter().all(|group| group.iter().any(|tool| tools.contains(tool)))
    });
    valid.map(|query| query.id.clone()).collect()
}

/// The queries that mean the same in a catalogue of `subset` as in the whole one, in the order of the dataset: every tool
/// that does their job is there, and so is every candidate of a query that was labelled against candidates only. Helpers
/// may be missing: one that is not there cannot be called. No-tool queries without candidates are valid anywhere.
pub fn valid_at(dataset: &Dataset, subset: &[ToolId]) -> Vec<QueryId> {
    let subset: HashSet<&ToolId> = subset.iter().collect();
    let valid = dataset.queries.iter().filter(|query| {
        covering(dataset, query).all(|tool| subset.contains(tool))
            && query.candidates.iter().flatten().all(|candidate| subset.contains(candidate))
    });
    valid.map(|query| query.id.clone()).collect()
}

/// Tools that do the job of a query, or a part of it.
fn covering<'d>(dataset: &'d Dataset, query: &Query) -> impl Iterator<Item = &'d ToolId> {
    let qrels = dataset.qrels.of(&query.id).qrels();
    qrels.iter().filter(|qrel| qrel.relevance >= RELEVANCE_COVERS).map(|qrel| &qrel.tool)
}

/// Core tools, what does the job of a scaling query, and the candidates of scaling queries: what every size holds.
pub fn anchored(dataset: &Dataset) -> HashSet<&ToolId> {
    let core = dataset.catalogue.tools.iter().filter(|tool| tool.core).map(|tool| &tool.id);
    let scaling = dataset.queries.iter().filter(|query| query.scaling);
    let named = scaling.flat_map(|query| covering(dataset, query).chain(query.candidates.iter().flatten()));
    core.chain(named).collect()
}

#[cfg(test)]
mod tests {
    use harness::catalogue::Subset;
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    const QUERIES: &str = r#"
{"query": "core", "intent": "a", "text": "t", "kind": "direct", "split": "test", "scaling": true}
{"query": "late", "intent": "b", "text": "t", "kind": "direct", "split": "test"}
{"query": "zero", "intent": "c", "text": "t", "kind": "direct", "split": "test"}
{"query": "none", "intent": "d", "text": "t", "kind": "no_tool", "split": "test"}
{"query": "some", "intent": "e", "text": "t", "kind": "no_tool", "split": "test", "candidates": ["s/t002"]}
"#;
    const QRELS: &str = r#"
{"query": "core", "group": 0, "tool": "s/t017", "relevance": 3}
{"query": "core", "group": 0, "tool": "s/t018", "relevance": 0}
{"query": "late", "group": 0, "tool": "s/t001", "relevance": 2}
{"query": "zero", "group": 0, "tool": "s/t017", "relevance": 3}
{"query": "zero", "group": 0, "tool": "s/t001", "relevance": 0}
"#;

    fn data() -> Dataset {
        testing::dataset(20, QUERIES, QRELS)
    }

    fn names(tools: &[ToolId]) -> Vec<&str> {
        tools.iter().map(ToolId::name).collect()
    }

    #[test]
    fn core_and_scaling_tools_come_first_and_files_give_the_order() {
        let data = data();
        for seed in 0..20 {
            let two = nested(&data, 2, Distractors::Random, seed).unwrap();
            assert_eq!(names(&two), ["t000", "t017"], "a judged zero is a distractor like any other");
            let one = nested(&data, 1, Distractors::Random, seed).unwrap();
            assert_eq!(names(&one), ["t000"]);
        }
    }

    #[test]
    fn seeds_draw_different_distractors() {
        let data = data();
        let draws: HashSet<_> = (0..20).map(|seed| nested(&data, 8, Distractors::Random, seed).unwrap()).collect();
        assert!(draws.len() > 10, "{} different draws of 20", draws.len());
    }

    #[test]
    fn ranked_distractors_come_first_and_anchors_before_them() {
        let data = data();
        let ranked: Vec<_> = ["t009", "t017", "t003"].map(|name| ToolId::new("s", name)).to_vec();
        let drawn = |size| names(&nested(&data, size, Distractors::First(&ranked), 1).unwrap()).join(" ");
        assert_eq!(drawn(3), "t000 t009 t017");
        assert_eq!(drawn(4), "t000 t003 t009 t017");
        assert!(drawn(5).contains("t000 ") && drawn(5).contains("t003"), "{}", drawn(5));
    }

    #[test]
    fn the_largest_size_is_everything_and_no_other_size_exists() {
        let data = data();
        let all = nested(&data, 20, Distractors::Random, 1).unwrap();
        assert!(all.iter().eq(data.catalogue.tools.iter().map(|tool| &tool.id)));
        for size in [0, 21, usize::MAX] {
            let text = nested(&data, size, Distractors::Random, 1).unwrap_err().to_string();
            let expected =
                format!("dataset small has 20 tools, so it has no catalogue of {size}: expected a size from 1 to 20");
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn queries_are_valid_where_their_tools_are() {
        let data = data();
        let valid = |tools: &[&str]| {
            let subset: Vec<_> = tools.iter().map(|name| ToolId::new("s", name)).collect();
            valid_at(&data, &subset).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(valid(&[]), "none");
        assert_eq!(valid(&["t017"]), "core zero none");
        assert_eq!(valid(&["t001", "t002"]), "late none some");
    }

    /// Five skills, of which `pair` and `late` between them hold what scaling queries need.
    fn skilled() -> Dataset {
        const SKILLS: &str = r#"
{"name": "empty", "description": "d", "allowed-tools": ["s/t003"], "tier": "pinned", "body": ""}
{"name": "half", "description": "d", "allowed-tools": ["s/t017"], "tier": "pinned", "body": ""}
{"name": "mine", "description": "d", "allowed-tools": ["s/t017", "s/t018", "s/t004"], "tier": "personal:ana", "body": ""}
{"name": "pair", "description": "d", "allowed-tools": ["s/t004", "s/t017", "s/t018"], "tier": "role:a", "body": ""}
{"name": "late", "description": "d", "allowed-tools": ["s/t001"], "tier": "pinned", "body": ""}
"#;
        const QUERIES: &str = r#"
{"query": "core", "intent": "a", "text": "t", "kind": "direct", "split": "test", "scaling": true}
{"query": "both", "intent": "b", "text": "t", "kind": "multi", "split": "test", "scaling": true}
{"query": "late", "intent": "c", "text": "t", "kind": "direct", "split": "test"}
{"query": "hers", "intent": "d", "text": "t", "kind": "direct", "split": "test", "actor": "ana"}
{"query": "none", "intent": "e", "text": "t", "kind": "no_tool", "split": "test"}
"#;
        const QRELS: &str = r#"
{"query": "core", "group": 0, "tool": "s/t000", "relevance": 3}
{"query": "both", "group": 0, "tool": "s/t017", "relevance": 3}
{"query": "both", "group": 1, "tool": "s/t018", "relevance": 2}
{"query": "late", "group": 0, "tool": "s/t001", "relevance": 3}
{"query": "hers", "group": 0, "tool": "s/t004", "relevance": 3}
"#;
        const ACTORS: &str = r#"
{"actor": "all", "roles": [], "grants": ["*"]}
{"actor": "ana", "roles": [], "grants": ["*"]}
"#;
        testing::skilled(20, QUERIES, QRELS, SKILLS, ACTORS)
    }

    fn drawn(data: &Dataset, size: usize, seed: u64) -> Result<BTreeSet<String>, ScaleError> {
        let view = Subset::whole(&data.catalogue).view(&Actor::all(), None, None);
        nested_skills(data, &view, size, seed)
    }

    #[test]
    fn few_skills_hold_what_scaling_queries_need() {
        let data = skilled();
        for seed in 0..20 {
            assert_eq!(drawn(&data, 1, seed).unwrap(), BTreeSet::from(["pair".to_owned()]), "seed {seed}");
        }
        let second: BTreeSet<String> = (0..20).flat_map(|seed| drawn(&data, 2, seed).unwrap()).collect();
        assert_eq!(second.len(), 4, "{second:?}");
        let text = drawn(&data, 5, 1).unwrap_err().to_string();
        let expected =
            "4 of 4 skills of dataset small hold a tool there, so there is no set of 5 skills: expected 1 to 4";
        assert_eq!(text, expected, "what only ana has is no choice of everybody");
    }

    #[test]
    fn queries_are_held_by_the_skills_that_their_actor_sees() {
        let data = skilled();
        let of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let held = held(&data, &names);
            data.queries
                .iter()
                .map(|query| query.id.as_str())
                .filter(|id| held.contains(&QueryId::new(id)))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of(&[]), "core none");
        assert_eq!(of(&["half"]), "core none");
        assert_eq!(of(&["pair"]), "core both none", "ana does not have the role");
        assert_eq!(of(&["mine", "late"]), "core late hers none", "all is not ana");
    }

    proptest! {
        #[test]
        fn sets_of_skills_nest(small in 1_usize..=4, more in 0_usize..=3, seed: u64) {
            let data = skilled();
            let large = (small + more).min(4);
            let (few, many) = (drawn(&data, small, seed).unwrap(), drawn(&data, large, seed).unwrap());
            prop_assert_eq!((few.len(), many.len()), (small, large));
            prop_assert!(few.is_subset(&many));
            prop_assert!(held(&data, &few).is_subset(&held(&data, &many)));
        }

        #[test]
        fn sizes_nest_and_keep_scaling_queries(small in 3_usize..=20, more in 0_usize..=17, seed: u64) {
            let data = data();
            let large = (small + more).min(20);
            let small_tools = nested(&data, small, Distractors::Random, seed).unwrap();
            let large_tools = nested(&data, large, Distractors::Random, seed).unwrap();
            prop_assert_eq!((small_tools.len(), large_tools.len()), (small, large));
            prop_assert!(small_tools.is_sorted(), "file order");
            prop_assert!(small_tools.iter().all(|tool| large_tools.contains(tool)));
            let core = QueryId::new("core");
            prop_assert!(valid_at(&data, &small_tools).contains(&core));
        }
    }
}
