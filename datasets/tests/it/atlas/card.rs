//! The card of atlas says what its files hold.

use std::collections::BTreeSet;
use std::path::Path;

use harness::dataset::Kind;

#[test]
fn the_card_counts_what_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/atlas");
    let dataset = datasets::load(&folder).unwrap();
    let card = std::fs::read_to_string(folder.join("README.md")).unwrap().replace('\n', " ");
    let labels: Vec<_> = dataset.queries.iter().map(|query| dataset.qrels.of(&query.id)).collect();
    let qrels: Vec<_> = labels.iter().flat_map(|labels| labels.qrels()).collect();
    let with = |relevance: u8| qrels.iter().filter(|qrel| qrel.relevance == relevance).count();
    let has = |test: &dyn Fn(&harness::dataset::Qrel) -> bool| {
        labels.iter().filter(|labels| labels.qrels().iter().any(test)).count()
    };
    let scaling: Vec<_> = dataset.queries.iter().filter(|query| query.scaling).collect();
    let anchored: BTreeSet<_> = scaling
        .iter()
        .flat_map(|query| dataset.qrels.of(&query.id).qrels())
        .filter(|qrel| qrel.relevance >= 2 && qrel.tool.server() != "agent")
        .map(|qrel| &qrel.tool)
        .collect();
    let of_kind = |kind| dataset.queries.iter().filter(|query| query.kind == kind).count();
    for line in [
        format!(
            "{} servers, {} tools, {} skills, {} actors, {} queries, {} labels",
            dataset.catalogue.servers.len(),
            dataset.catalogue.tools.len(),
            dataset.catalogue.skills.len(),
            dataset.actors.len(),
            dataset.queries.len(),
            qrels.len()
        ),
        format!(
            "Relevance 3: {}, relevance 2: {}, relevance 1: {}, relevance 0: {}.",
            with(3),
            with(2),
            with(1),
            with(0)
        ),
        format!("{} queries have gold arguments.", has(&|qrel| qrel.arguments.is_some())),
        format!("{} have a helper.", has(&|qrel| qrel.relevance == 1)),
        format!("The {} scaling queries (all in `test`) label {} different tools", scaling.len(), anchored.len()),
        format!("| paraphrased | 12 | 32 | {} |", of_kind(Kind::Paraphrased)),
        format!("| no_tool | 2 | 10 | {} |", of_kind(Kind::NoTool)),
    ] {
        assert!(card.contains(&line), "the card does not say: {line}");
    }
}
