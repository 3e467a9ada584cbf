//! The card of atlas says what its files hold.

use std::collections::BTreeSet;

use harness::dataset::{Dataset, Kind, Qrel, Query, RELEVANCE_COVERS};

use super::{card_says, dataset, table};

fn qrels<'d>(dataset: &'d Dataset, query: &Query) -> &'d [Qrel] {
    dataset.qrels.of(&query.id).qrels()
}

#[test]
fn counts() {
    let dataset = dataset();
    let all: Vec<&Qrel> = dataset.queries.iter().flat_map(|query| qrels(&dataset, query)).collect();
    let with = |relevance: u8| all.iter().filter(|qrel| qrel.relevance == relevance).count();
    let catalogue = &dataset.catalogue;
    card_says(&format!(
        "{} servers, {} tools, {} skills, {} actors, {} queries, {} labels",
        catalogue.servers.len(),
        catalogue.tools.len(),
        catalogue.skills.len(),
        dataset.actors.len(),
        dataset.queries.len(),
        all.len()
    ));
    card_says(&format!(
        "Relevance 3: {}, relevance 2: {}, relevance 1: {}, relevance 0: {}.",
        with(3),
        with(2),
        with(1),
        with(0)
    ));
    let scaling: Vec<_> = dataset.queries.iter().filter(|query| query.scaling).collect();
    let labelled: BTreeSet<_> = scaling
        .iter()
        .flat_map(|query| qrels(&dataset, query))
        .filter(|qrel| qrel.relevance >= RELEVANCE_COVERS && !catalogue.get(&qrel.tool).unwrap().core)
        .map(|qrel| &qrel.tool)
        .collect();
    card_says(&format!("{} scaling queries are answered by {} different tools", scaling.len(), labelled.len()));
    let arguments =
        dataset.queries.iter().filter(|query| qrels(&dataset, query).iter().any(|qrel| qrel.arguments.is_some()));
    card_says(&format!("{} queries have gold arguments", arguments.count()));
    let right: BTreeSet<_> =
        all.iter().filter(|qrel| qrel.relevance >= RELEVANCE_COVERS).map(|qrel| &qrel.tool).collect();
    card_says(&format!("{} different tools are right for some query", right.len()));
    let mut languages: Vec<_> = dataset.queries.iter().map(|query| query.language.as_str()).collect();
    languages.sort_unstable();
    let counted: Vec<_> = languages.chunk_by(|a, b| a == b).map(|same| format!("{} {}", same[0], same.len())).collect();
    card_says(&format!("Languages: {}.", counted.join(", ")));
}

#[test]
fn kinds_and_splits() {
    let dataset = dataset();
    let count = |kind: Option<Kind>, test: &dyn Fn(&Query) -> bool| {
        let of_kind = dataset.queries.iter().filter(|query| kind.is_none_or(|kind| query.kind == kind));
        of_kind.filter(|query| test(query)).count().to_string()
    };
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Unspecified).map(Some).chain([None]);
    let rows = kinds.map(|kind| {
        vec![
            kind.map_or("all", Kind::as_str).to_owned(),
            count(kind, &|query| query.split == "dev"),
            count(kind, &|query| query.split == "test"),
            count(kind, &|query| query.scaling),
            count(kind, &|query| query.actor.as_str() != "all"),
            count(kind, &|query| query.tags.iter().any(|tag| tag == "confusable")),
        ]
    });
    card_says(&table(&["kind", "dev", "test", "of these scaling", "other actors", "confusable"], rows));
}

#[test]
fn sizes_of_definitions() {
    let dataset = dataset();
    let size = |tool: &harness::catalogue::Tool| {
        let text =
            serde_json::json!({"name": tool.name(), "description": tool.description, "inputSchema": tool.input_schema});
        text.to_string().chars().count() / 4
    };
    let mut sizes: Vec<usize> = dataset.catalogue.tools.iter().map(|tool| size(tool)).collect();
    sizes.sort_unstable();
    let at = |share: f64| sizes[(share * sizes.len() as f64) as usize].to_string();
    let row = vec![
        "tokens, about".to_owned(),
        sizes[0].to_string(),
        at(0.25),
        at(0.5),
        at(0.75),
        at(0.9),
        at(0.95),
        sizes[sizes.len() - 1].to_string(),
        sizes.iter().sum::<usize>().to_string(),
    ];
    card_says(&table(
        &["definition", "least", "25 %", "median", "75 %", "90 %", "95 %", "most", "all together"],
        [row],
    ));
}

/// Share of the words of a right tool's name that occur in the query, in five bins: the best of the right tools.
#[test]
fn words_shared_with_the_name() {
    let dataset = dataset();
    let kinds = Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Unspecified | Kind::NoTool)).map(Some);
    let rows = kinds.chain([None]).map(|kind| {
        let mut bins = [0_usize; 5];
        for query in dataset.queries.iter().filter(|query| kind.is_none_or(|kind| query.kind == kind)) {
            let right = qrels(&dataset, query).iter().filter(|qrel| qrel.relevance >= RELEVANCE_COVERS);
            if let Some(best) = right.map(|qrel| shared(&query.text, qrel.tool.name())).max_by(f64::total_cmp) {
                bins[((best * 5.0) as usize).min(4)] += 1;
            }
        }
        let cells = bins.iter().map(usize::to_string);
        std::iter::once(kind.map_or("all", Kind::as_str).to_owned()).chain(cells).collect()
    });
    let heading = ["kind", "0 to <0.2", "0.2 to <0.4", "0.4 to <0.6", "0.6 to <0.8", "0.8 to 1"];
    card_says(&table(&heading, rows));
}

fn shared(text: &str, name: &str) -> f64 {
    let words = |text: &str| {
        let mut spaced = String::new();
        for c in text.chars() {
            if c.is_uppercase() {
                spaced.push(' ');
            }
            spaced.push(if c.is_alphanumeric() { c.to_ascii_lowercase() } else { ' ' });
        }
        spaced.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    // A capitalised word of a sentence stays one word; only names are in camel case.
    let text: BTreeSet<String> =
        text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).filter(|word| !word.is_empty()).collect();
    let name = words(name);
    name.intersection(&text).count() as f64 / name.len().max(1) as f64
}

/// Whatever the linter finds is explained in `lint.toml`, and the card counts what is pushy on purpose.
#[test]
fn lint_finds_nothing_that_is_not_explained() {
    let linted = datasets::lint::lint(&super::folder(), None).expect("atlas can be looked at");
    let left: Vec<_> = linted.findings.iter().map(|finding| (finding.rule.id, &finding.subject)).collect();
    assert!(left.is_empty() && !linted.incomplete, "{left:?}");
    let pushy = linted.accepted.iter().filter(|accepted| accepted.finding.rule.id == "TG206").count();
    card_says(&format!("({pushy} descriptions tell the model what to do)"));
}
