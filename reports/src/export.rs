//! The scores as files: one wide CSV row per planned episode, and the same numbers long in Parquet.

use std::path::Path;

use harness::metric::rank::Measure;
use harness::metric::score::{Score, Waste};
use harness::run::plan::Job;
use polars::prelude::{Column, DataFrame, NamedFrom as _, PolarsError, Series};
use polars_io::parquet::write::{ParquetCompression, ParquetWriter};

use crate::cell::{Cell, cells};
use crate::escape::csv_cell;
use crate::{Input, ReportError};

const TEXTS: [&str; 9] =
    ["job", "strategy", "query", "intent", "kind", "language", "outcome", "token_source", "stages"];

/// Empty where nothing is known, as for an episode that never ran.
fn texts(cell: &Cell<'_>) -> [String; 9] {
    let Job { key, strategy, query, .. } = cell.job;
    let of = |text: &dyn Fn(&Score) -> String| cell.score.map(text).unwrap_or_default();
    [
        key.to_string(),
        strategy.clone(),
        query.to_string(),
        of(&|score| score.intent.to_string()),
        cell.kind().as_str().to_owned(),
        of(&|score| score.language.clone()),
        cell.score.map_or_else(|| "missing".to_owned(), |score| score.outcome.clone()),
        cell.score.filter(|score| score.turns() > 0).map(|score| word(&score.token_source)).unwrap_or_default(),
        of(&|score| score.stages.iter().map(word).collect::<Vec<_>>().join(" ")),
    ]
}

/// The columns of `scores.csv` that measure something, in their order, each with what it says of an episode.
pub fn metrics(measures: &[Measure]) -> Vec<(String, String)> {
    let fixed = FIXED.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let waste = Waste::ALL.map(|cause| {
        let name = cause.as_str().replace(' ', "_");
        (format!("waste_{name}"), format!("outer turns wasted, first cause: {}", cause.as_str()))
    });
    let retrieval = measures.iter().map(|measure| (measure.to_string(), about(&measure.to_string())));
    fixed.chain(waste).chain(retrieval).collect()
}

/// What does not depend on the measures of a run.
const FIXED: [(&str, &str); 28] = [
    ("missing", "1: planned and without a record"),
    ("infra_failure", "1: no usable answer came; never the model's fault"),
    ("not_runnable", "1: the endpoint cannot take the request"),
    ("unanswerable", "1: the actor's view holds no tool of a required group"),
    ("groups", "required groups of the query, 0 for a no-tool query"),
    ("success", "1: completed, every group covered, no wrong call"),
    ("coverage_success", "1: completed and every group covered, whatever else was called"),
    ("success_args", "1: success with arguments that the labels accept; empty without gold arguments"),
    ("covered", "groups covered by a valid call"),
    ("hinges_on_unjudged", "1: calls of tools that nobody judged decide it"),
    ("wrong_calls", "valid calls of tools judged 0 or not judged"),
    ("harmful_calls", "wrong calls of tools that do not only read"),
    ("substituted_core", "1: a core tool was called and a group stayed uncovered"),
    ("guesses", "calls of tools whose definition was not in sight"),
    ("own_calls", "calls of the strategy's own tools"),
    ("turns_outer", "generations in the agent's conversation"),
    ("turns_inner", "generations of the strategy itself"),
    ("cache_invalidating_turns", "outer turns with other definitions than the turn before"),
    ("turns_to_covered", "outer turns up to the last covering call"),
    ("defined_tools", "tools whose whole definition was shown"),
    ("input_tokens", "tokens of all prompts, reported or estimated as `token_source` says"),
    ("output_tokens", "tokens of all answers, likewise"),
    ("estimated_input_tokens", "our own estimate of the prompts"),
    ("attempts", "HTTP requests, repeated ones included"),
    ("leaks", "traces of tools outside the view in what the model read; must be 0"),
    ("truncation_suspected", "1: the endpoint seems to have cut a prompt silently"),
    ("retrieval_ms", "time of the strategy's searches"),
    ("endpoint_ms", "time of the endpoint; empty where an answer came from the store"),
];

/// A retrieval measure in words, by its name.
fn about(measure: &str) -> String {
    let (name, depth) = measure.split_once('@').map_or((measure, None), |(name, depth)| (name, Some(depth)));
    let among = depth.map_or_else(|| "of the list".to_owned(), |depth| format!("among the first {depth}"));
    match name {
        "recall" => format!("share of the groups covered {among}"),
        "complete" => format!("1: every group covered {among}"),
        "hit" => format!("1: some group covered {among}"),
        "precision" => format!("share of helpful tools {among}"),
        "ndcg" => format!("discounted gain by relevance {among}, out of the best possible"),
        "rr" => format!("1 / rank of the first covering tool {among}, else 0"),
        "ap" => "mean over groups of the precision where each is first covered".to_owned(),
        "judged" => format!("share of tools with a label {among}"),
        _ => "a retrieval measure, see METHODOLOGY.md".to_owned(),
    }
}

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Every number of an episode by name; a yes is 1, `None` = not measured. The names are the same for every episode.
fn values(cell: &Cell<'_>, input: &Input<'_>) -> Vec<(String, Option<f64>)> {
    let score = cell.score;
    let info = input.manifest.strategies.iter().find(|info| info.label == cell.job.strategy);
    let (drives_model, ranks) = info.map_or((false, false), |info| (info.meta.drives_model, info.meta.ranks));
    let yes = |value: Option<bool>| value.map(f64::from);
    let number = |value: fn(&Score) -> u32| score.map(|score| f64::from(value(score)));
    let large = |value: fn(&Score) -> u64| score.map(|score| value(score) as f64);
    let flag = |value: fn(&Score) -> bool| yes(score.map(value));
    let mut values: Vec<(String, Option<f64>)> = [
        ("missing", Some(f64::from(score.is_none()))),
        ("infra_failure", flag(|score| score.infra_failure)),
        ("not_runnable", flag(|score| score.not_runnable)),
        ("unanswerable", flag(|score| score.unanswerable)),
        ("groups", number(|score| score.groups)),
        // As deployed, like the tables: an episode that is missing or failed has the worst value and not none.
        ("success", yes(cell.success().filter(|_| drives_model))),
        ("coverage_success", yes(cell.coverage_success().filter(|_| drives_model))),
        ("success_args", yes(score.and_then(|score| score.success_args))),
        ("covered", number(|score| score.covered)),
        ("hinges_on_unjudged", flag(|score| score.hinges_on_unjudged)),
        ("wrong_calls", number(|score| score.wrong_calls)),
        ("harmful_calls", number(|score| score.harmful_calls)),
        ("substituted_core", flag(|score| score.substituted_core)),
        ("guesses", number(|score| score.guesses)),
        ("own_calls", number(|score| score.own_calls)),
        ("turns_outer", number(|score| score.turns_outer)),
        ("turns_inner", number(|score| score.turns_inner)),
        ("cache_invalidating_turns", number(|score| score.cache_invalidating_turns)),
        ("turns_to_covered", score.and_then(|score| score.turns_to_covered).map(f64::from)),
        ("defined_tools", number(|score| score.defined_tools)),
        ("input_tokens", large(|score| score.input_tokens)),
        ("output_tokens", large(|score| score.output_tokens)),
        ("estimated_input_tokens", large(|score| score.estimated_input_tokens)),
        ("attempts", number(|score| score.attempts)),
        ("leaks", number(|score| score.leaks)),
        ("truncation_suspected", flag(|score| score.truncation_suspected)),
        ("retrieval_ms", score.map(|score| score.retrieval_ms)),
        ("endpoint_ms", score.and_then(|score| score.endpoint_ms)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    values.extend(Waste::ALL.map(|cause| {
        let turns = score.map(|score| f64::from(score.waste.get(&cause).copied().unwrap_or(0)));
        (format!("waste_{}", cause.as_str().replace(' ', "_")), turns)
    }));
    values.extend(input.measures.iter().map(|measure| {
        let name = measure.to_string();
        let value = cell.retrieval(&name).filter(|_| ranks);
        (name, value)
    }));
    values
}

/// The cells in the order size, strategy, plan.
fn each<'a>(input: &Input<'a>) -> Vec<Cell<'a>> {
    cells(input).into_values().flatten().flatten().collect()
}

/// `scores.csv`. Texts that a spreadsheet could take for a formula start with an apostrophe.
pub(crate) fn csv(input: &Input<'_>) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (index, cell) in each(input).iter().enumerate() {
        let values = values(cell, input);
        if index == 0 {
            let names = values.iter().map(|(name, _)| name.as_str());
            writer.write_record(TEXTS.into_iter().chain(["size", "repeat"]).chain(names))?;
        }
        let texts = texts(cell).map(|text| csv_cell(&text).into_owned());
        let keys = [cell.job.size, cell.job.repeat].map(|key| key.to_string());
        let numbers = values.iter().map(|(_, value)| value.map_or(String::new(), |value| value.to_string()));
        writer.write_record(texts.into_iter().chain(keys).chain(numbers))?;
    }
    Ok(writer.into_inner().expect("a vector takes every byte"))
}

/// `scores.parquet`: job, strategy, size, query, kind, repeat, metric, value. Numbers that were not measured have no row.
pub(crate) fn parquet(input: &Input<'_>, path: &Path) -> Result<(), ReportError> {
    let failed = |source: PolarsError| ReportError::Parquet { path: path.to_owned(), message: source.to_string() };
    let mut frame = long(input).map_err(failed)?;
    let file = std::fs::File::create(path).map_err(|source| ReportError::Io { path: path.to_owned(), source })?;
    // One thread and one row group: the bytes must not depend on the machine.
    let writer = ParquetWriter::new(file).with_compression(ParquetCompression::Zstd(None)).set_parallel(false);
    writer.with_row_group_size(Some(usize::MAX)).finish(&mut frame).map_err(failed)?;
    Ok(())
}

fn long(input: &Input<'_>) -> Result<DataFrame, PolarsError> {
    let mut texts: [Vec<String>; 5] = Default::default();
    let (mut sizes, mut repeats, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for cell in each(input) {
        for (metric, value) in values(&cell, input) {
            let Some(value) = value else { continue };
            let Job { key, strategy, query, size, repeat, .. } = cell.job;
            let row = [key.as_str(), strategy, query.as_str(), cell.kind().as_str(), &metric];
            for (column, text) in texts.iter_mut().zip(row) {
                column.push(text.to_owned());
            }
            sizes.push(*size);
            repeats.push(*repeat);
            numbers.push(value);
        }
    }
    let [jobs, strategies, queries, kinds, metrics] = texts;
    let text = |name: &str, values: Vec<String>| Column::from(Series::new(name.into(), values));
    DataFrame::new(
        numbers.len(),
        vec![
            text("job", jobs),
            text("strategy", strategies),
            Series::new("size".into(), sizes).into(),
            text("query", queries),
            text("kind", kinds),
            Series::new("repeat".into(), repeats).into(),
            text("metric", metrics),
            Series::new("value".into(), numbers).into(),
        ],
    )
}
