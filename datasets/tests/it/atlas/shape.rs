//! What the dataset promises: splits, mix, scaling core, actors, skills.

use std::collections::{BTreeMap, BTreeSet};

use datasets::scale::{Distractors, nested, valid_at};
use harness::dataset::{Kind, RELEVANCE_COVERS};
use harness::ids::ToolId;

use super::dataset;

#[test]
fn dev_and_test_share_no_right_tool_and_no_intent() {
    let dataset = dataset();
    let mut intents: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut tools: BTreeMap<&ToolId, BTreeSet<&str>> = BTreeMap::new();
    for query in &dataset.queries {
        intents.entry(query.intent.as_str()).or_default().insert(&query.split);
        let right = dataset.qrels.of(&query.id).qrels().iter().filter(|qrel| qrel.relevance == 3);
        for qrel in right {
            let core = dataset.catalogue.get(&qrel.tool).unwrap().core;
            if !core {
                tools.entry(&qrel.tool).or_default().insert(&query.split);
            }
        }
    }
    let both: Vec<_> = intents.iter().filter(|(_, splits)| splits.len() > 1).collect();
    assert!(both.is_empty(), "intents in both splits: {both:?}");
    // The second pass found equals across the split; they are few and stay as they are true.
    let both = tools.values().filter(|splits| splits.len() > 1).count();
    assert!(both * 50 <= tools.len(), "{both} of {} tools are right in both splits", tools.len());
}

#[test]
fn the_mix_is_the_promised_one() {
    let dataset = dataset();
    let split = |name: &str| dataset.queries.iter().filter(|query| query.split == name).count();
    assert!(split("test") >= 1_000 && split("dev") >= 500);
    let share = |kinds: &[Kind]| {
        let count = dataset.queries.iter().filter(|query| kinds.contains(&query.kind)).count();
        100.0 * count as f64 / dataset.queries.len() as f64
    };
    for (kinds, wanted) in [
        (&[Kind::Direct][..], 20.0),
        (&[Kind::Paraphrased], 35.0),
        (&[Kind::Vendor], 10.0),
        (&[Kind::Multi], 15.0),
        (&[Kind::NoTool], 10.0),
        (&[Kind::Noisy, Kind::Foreign], 10.0),
    ] {
        let found = share(kinds);
        assert!((found - wanted).abs() <= 2.0, "{kinds:?}: {found:.1} %, wanted about {wanted}");
    }
    let languages: BTreeSet<&str> = dataset.queries.iter().map(|query| query.language.as_str()).collect();
    assert!(["de", "fr", "es", "pt", "ja", "zh"].iter().all(|language| languages.contains(language)));
    let tagged = |tag: &str| dataset.queries.iter().filter(|query| query.tags.iter().any(|own| own == tag)).count();
    assert!(tagged("core_tempting") >= 40, "{} core_tempting", tagged("core_tempting"));
    let with_arguments = dataset
        .queries
        .iter()
        .filter(|query| dataset.qrels.of(&query.id).qrels().iter().any(|qrel| qrel.arguments.is_some()));
    assert!(with_arguments.count() >= 300);
}

#[test]
fn scaling_queries_are_valid_at_every_size() {
    let dataset = dataset();
    let scaling: Vec<_> = dataset.queries.iter().filter(|query| query.scaling).collect();
    assert!(scaling.len() >= 300, "{} scaling queries", scaling.len());
    let labelled: BTreeSet<_> = scaling
        .iter()
        .flat_map(|query| dataset.qrels.of(&query.id).qrels())
        .filter(|qrel| qrel.relevance >= RELEVANCE_COVERS && !dataset.catalogue.get(&qrel.tool).unwrap().core)
        .map(|qrel| &qrel.tool)
        .collect();
    assert!(labelled.len() <= 100, "{} labelled tools", labelled.len());
    for &size in &dataset.sizes {
        let subset = nested(&dataset, size, Distractors::Random, 1).unwrap();
        let valid: BTreeSet<_> = valid_at(&dataset, &subset).into_iter().collect();
        assert!(scaling.iter().all(|query| valid.contains(&query.id)), "at {size}");
    }
}

#[test]
fn actors_differ_in_what_they_may_call() {
    let dataset = dataset();
    let readers = dataset.actors.iter().filter(|actor| actor.read_only).count();
    assert!(dataset.actors.len() > 8 && readers >= 2, "{} actors, {readers} read-only", dataset.actors.len());
    let answerable = |query: &harness::dataset::Query| {
        let actor = dataset.actor(&query.actor).unwrap();
        let visible = |tool: &ToolId| actor.may_call(dataset.catalogue.get(tool).unwrap());
        dataset.qrels.of(&query.id).within(visible).is_some()
    };
    let others: Vec<_> = dataset.queries.iter().filter(|query| query.actor.as_str() != "all").collect();
    let refused = others.iter().filter(|query| !answerable(query)).count();
    assert!(refused >= 20 && others.len() - refused >= 40, "{refused} of {} refused", others.len());
}

#[test]
fn skills_are_many_and_leave_some_tools_out() {
    let dataset = dataset();
    let skills = &dataset.catalogue.skills;
    assert!(skills.len() >= 180);
    let uses = |tool: &ToolId| skills.iter().filter(|skill| skill.allowed_tools.contains(tool)).count();
    let tools = dataset.catalogue.tools.iter().filter(|tool| !tool.core);
    let counts: Vec<usize> = tools.map(|tool| uses(&tool.id)).collect();
    assert!(counts.contains(&0) && counts.iter().any(|count| *count > 1));
}
