//! The scores as files: one wide CSV row per planned episode, and the same numbers long in Parquet.

use std::path::Path;

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
