//! From stored episodes to the summary.

use std::collections::BTreeMap;

use harness::dataset::Kind;
use harness::ids::QueryId;
use harness::usage::UsageSource;

use crate::Input;
use crate::cell::{Cell, cells};
use crate::compare::compare;
use crate::notes::{closing, notes, warnings};
use crate::sample::{Asked, Sample};
use crate::settings;
use crate::summary::{Row, SizeSummary, Summary};
use crate::tally::row;

/// Counts and compares everything. A pure function: the same input gives the same summary.
pub fn summarise(input: &Input<'_>) -> Summary {
    let manifest = input.manifest;
    let asked = Asked::of(input);
    let sizes: Vec<SizeSummary> =
        cells(input).iter().map(|(size, cells)| self::size(input, &asked, *size, cells)).collect();
    let endpoint = manifest.endpoint.as_ref();
    let subset = Sample::of(input).subset;
    Summary {
        run: manifest.name.clone(),
        settings: settings::settings(input, &asked, subset.as_ref()),
        provenance: settings::provenance(manifest),
        strategies: settings::strategies(manifest),
        reference: manifest.reference.clone(),
        model: endpoint.map(|endpoint| endpoint.profile.model.clone()),
        dataset: settings::subject(manifest),
        context_tokens: endpoint.and_then(|endpoint| endpoint.profile.context_tokens),
        estimate_ratio: estimate_ratio(input),
        warnings: warnings(input, &sizes, subset.as_ref()),
        rewrites: manifest.rewrites.clone(),
        closing: closing(input, &sizes),
        rescored: settings::revisions(input),
        subset,
        sizes,
    }
}

fn size(input: &Input<'_>, asked: &Asked<'_>, size: u32, cells: &[Vec<Cell<'_>>]) -> SizeSummary {
    let view = input.manifest.views.iter().find(|view| view.size == size);
    let definition_tokens = view.map(|view| view.definition_tokens);
    let strategies = input.manifest.strategies.iter().zip(cells).filter(|(_, cells)| !cells.is_empty());
    let (mut rows, planned): (Vec<Row>, Vec<&Vec<Cell<'_>>>) =
        strategies.map(|(info, cells)| (row(input, info, definition_tokens, cells), cells)).unzip();
    compare(input, &mut rows, &planned);
    let queries: BTreeMap<&QueryId, Kind> = cells.iter().flatten().map(|cell| (&cell.job.query, cell.kind())).collect();
    let mut summary = SizeSummary {
        axis: input.manifest.axis,
        size,
        other_queries: asked.changed_at(size),
        definition_tokens,
        queries: queries.len() as u64,
        mix: queries.into_values().fold(BTreeMap::new(), |mut mix, kind| {
            *mix.entry(kind).or_insert(0) += 1;
            mix
        }),
        rows,
        notes: Vec::new(),
    };
    summary.notes = notes(input, asked, &summary);
    summary
}

/// Our estimate of a prompt against what the endpoint says it was, over all that it reported.
fn estimate_ratio(input: &Input<'_>) -> Option<f64> {
    let reported = input.scores.iter().filter(|score| score.turns() > 0 && score.token_source == UsageSource::Reported);
    let (estimated, reported) = reported.fold((0, 0), |(estimated, reported), score| {
        (estimated + score.estimated_input_tokens, reported + score.input_tokens)
    });
    (reported > 0).then(|| estimated as f64 / reported as f64)
}
