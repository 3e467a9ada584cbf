//! The tables, as rows of text that each renderer escapes and lays out.

use std::collections::BTreeMap;

use harness::dataset::Kind;
use harness::metric::score::{Stage, Waste};

use crate::format::{grouped, or_dash, p_value, percent, points, short};
use crate::summary::{Comparison, Row, Share, SizeSummary, Summary, TokenSource};
use crate::tally::RECALL;

pub(crate) struct Column {
    /// Lines of the heading.
    pub(crate) heading: String,
    pub(crate) right: bool,
    /// When a terminal that is too narrow does without it, the least first; `None` = never.
    pub(crate) left_out: Option<LeftOut>,
}

/// How much a reader loses with a column, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    /// A warning that has nothing to say.
    Silent,
    /// A measure that few runs have.
    Special,
    /// What other columns of the table say in another way.
    Repeated,
}

pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), columns: vec![column("strategy").left()], rows: Vec::new() }
    }

    /// Adds a column whose cells come from the rows already there.
    fn with(mut self, column: Column, rows: &[&Row], cell: impl Fn(&Row) -> String) -> Self {
        self.columns.push(column);
        if self.rows.is_empty() {
            self.rows = rows.iter().map(|row| vec![row.strategy.clone()]).collect();
        }
        for (cells, row) in self.rows.iter_mut().zip(rows) {
            cells.push(cell(row));
        }
        self
    }
}

fn column(heading: &str) -> Column {
    Column { heading: heading.to_owned(), right: true, left_out: None }
}

impl Column {
    fn left(self) -> Self {
        Self { right: false, ..self }
    }

    fn left_out(self, when: LeftOut) -> Self {
        Self { left_out: Some(when), ..self }
    }

    /// A count that should be 0: a narrow terminal shows it where it is not.
    fn warning(self, rows: &[&Row], count: fn(&Row) -> u64) -> Self {
        if rows.iter().all(|row| count(row) == 0) { self.left_out(LeftOut::Silent) } else { self }
    }
}

/// The tables of one size, those that have rows: results, path and cost.
pub(crate) fn main_tables(summary: &Summary, size: &SizeSummary) -> Vec<Table> {
    [results(summary, size), path(size)].into_iter().flatten().collect()
}

/// Tables that explain the main ones: kinds, waterfall, waste.
pub(crate) fn detail_tables(size: &SizeSummary) -> Vec<Table> {
    let of = |row: &Row, kind| row.success_by_kind.get(&kind).and_then(|share| Some((share.rate()?, share.of)));
    let success = by_kind("success by kind, %", size, of, |row| row.success.map(|success| success.rate));
    let of = |row: &Row, kind| row.recall_by_kind.get(&kind).map(|mean| (mean.mean, mean.n));
    let recall = by_kind("recall@5 by kind, %", size, of, |row| row.retrieved(RECALL));
    [success, recall, waterfall(size), waste(size)].into_iter().flatten().collect()
}

fn rate(share: Option<Share>) -> String {
    or_dash(share.and_then(|share| share.rate()).map(percent))
}

/// Success against the reference; without a model, recall against it.
fn results(summary: &Summary, size: &SizeSummary) -> Option<Table> {
    let by_success = size.rows.iter().any(|row| row.success.is_some());
    let rows: Vec<&Row> = size.rows.iter().filter(|row| !by_success || row.drives_model).collect();
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new("").with(column("n"), &rows, |row| grouped(row.planned));
    table = table
        .with(column("runnable\n%"), &rows, |row| {
            percent((row.planned - row.not_runnable) as f64 / row.planned.max(1) as f64)
        })
        .with(column("failed").warning(&rows, |row| row.failed), &rows, |row| grouped(row.failed))
        .with(column("missing").warning(&rows, |row| row.missing), &rows, |row| grouped(row.missing));
    if by_success {
        table = table
            .with(column("success %\n[95 % CI]"), &rows, |row| {
                or_dash(row.success.map(|success| {
                    let interval = success.interval;
                    let bounds = format!("[{}, {}]", percent(interval.lower), percent(interval.upper));
                    format!("{} {bounds}", percent(success.rate))
                }))
            })
            .with(column("coverage\n%").left_out(LeftOut::Repeated), &rows, |row| rate(row.coverage_success));
        if rows.iter().any(|row| row.success_args.is_some()) {
            table = table.with(column("arguments\n%").left_out(LeftOut::Special), &rows, |row| rate(row.success_args));
        }
    } else {
        table = measures(table, &rows);
    }
    if let Some(measure) = rows.iter().find_map(|row| row.comparison.as_ref()).map(|comparison| comparison.measure) {
        let against = |row: &Row, cell: &dyn Fn(&Comparison) -> String| or_dash(row.comparison.as_ref().map(cell));
        let heading = format!("{measure} vs reference,\npoints [95 % CI]");
        table = table
            .with(column(&heading), &rows, |row| {
                if summary.reference.as_ref() == Some(&row.strategy) {
                    return "reference".to_owned();
                }
                against(row, &|comparison| {
                    let interval = comparison.interval;
                    let bounds = format!("[{}, {}]", points(interval.lower), points(interval.upper));
                    format!("{} {bounds}", points(comparison.difference))
                })
            })
            .with(column("p\n(Holm)").left_out(LeftOut::Repeated), &rows, |row| {
                against(row, &|comparison| p_value(comparison.p_adjusted))
            })
            .with(column("verdict").left(), &rows, |row| {
                against(row, &|comparison| comparison.verdict.as_str().to_owned())
            });
    }
    Some(table)
}

fn measures(table: Table, rows: &[&Row]) -> Table {
    let cell = |measure: &'static str| move |row: &Row| or_dash(row.retrieved(measure).map(percent));
    table
        .with(column("recall\n@5 %"), rows, cell("recall@5"))
        .with(column("complete\n@5 %"), rows, cell("complete@5"))
        .with(column("ndcg\n@10 %"), rows, cell("ndcg@10"))
}

/// Where the tool was lost and what it took. Only where a model takes part.
fn path(size: &SizeSummary) -> Option<Table> {
    if size.rows.iter().all(|row| row.success.is_none() && row.effort.is_none()) {
        return None;
    }
    let rows: Vec<&Row> = size.rows.iter().collect();
    let table =
        measures(Table::new(""), &rows)
            .with(column("exposed\n%"), &rows, |row| rate(row.exposed))
            .with(column("turns\n(outer+inner)"), &rows, |row| {
                or_dash(row.effort.map(|effort| {
                    format!("{:.1} ({:.1}+{:.1})", effort.turns(), effort.outer_turns, effort.inner_turns)
                }))
            })
            .with(column("wasted\nturns"), &rows, |row| {
                or_dash(row.effort.map(|effort| format!("{:.2}", effort.wasted_turns)))
            })
            .with(column("tokens\n/query"), &rows, |row| {
                or_dash(row.tokens.map(|tokens| token_cell(tokens.source, tokens.per_query)))
            })
            .with(column("tokens\n/success"), &rows, tokens_per_success);
    Some(table)
}

fn token_cell(source: TokenSource, tokens: Option<f64>) -> String {
    match (source, tokens) {
        (TokenSource::Mixed, _) => "mixed".to_owned(),
        (TokenSource::Estimated, Some(tokens)) => format!("~{}", short(tokens)),
        (_, tokens) => or_dash(tokens.map(short)),
    }
}

/// Without a success there is no price of one: `– (0/24)`.
fn tokens_per_success(row: &Row) -> String {
    match (row.success, row.tokens) {
        (Some(success), _) if success.share.hits == 0 => format!("– (0/{})", grouped(success.share.of)),
        (_, Some(tokens)) => token_cell(tokens.source, tokens.per_success),
        _ => or_dash(None),
    }
}

/// Cheapest success first; strategies without a success come last.
pub(crate) fn by_cost(size: &SizeSummary) -> Option<String> {
    let mut rows: Vec<&Row> = size.rows.iter().filter(|row| row.success.is_some()).collect();
    let cost = |row: &Row| row.tokens.and_then(|tokens| tokens.per_success).unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let cells: Vec<String> = rows.iter().map(|row| format!("{} {}", row.strategy, tokens_per_success(row))).collect();
    (rows.len() > 1).then(|| format!("tokens per success, cheapest first: {}", cells.join(", ")))
}

/// The mix of kinds behind the pooled figures.
pub(crate) fn mix(size: &SizeSummary) -> String {
    let kinds: Vec<_> = size.mix.iter().map(|(kind, n)| format!("{} {}", kind.as_str(), grouped(*n))).collect();
    kinds.join(", ")
}

fn by_kind(
    title: &str,
    size: &SizeSummary,
    of: impl Fn(&Row, Kind) -> Option<(f64, u64)>,
    pooled: impl Fn(&Row) -> Option<f64>,
) -> Option<Table> {
    let rows: Vec<&Row> = size.rows.iter().filter(|row| pooled(row).is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let kinds: BTreeMap<Kind, u64> = rows
        .iter()
        .flat_map(|row| Kind::ALL.map(|kind| (kind, of(row, kind))))
        .filter_map(|(kind, value)| Some((kind, value?.1)))
        .collect();
    let mut table = Table::new(title);
    for (kind, n) in &kinds {
        let heading = format!("{}\nn = {}", kind.as_str(), grouped(*n));
        table = table.with(column(&heading), &rows, |row| or_dash(of(row, *kind).map(|(rate, _)| percent(rate))));
    }
    let heading = format!("pooled\nn = {}", grouped(kinds.values().sum()));
    Some(table.with(column(&heading), &rows, |row| or_dash(pooled(row).map(percent))))
}

fn waterfall(size: &SizeSummary) -> Option<Table> {
    let rows: Vec<&Row> = size.rows.iter().filter(|row| row.waterfall.is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let stages = [
        (Stage::Named, "named"),
        (Stage::Retrieved, "retrieved"),
        (Stage::Defined, "defined"),
        (Stage::Called, "called"),
        (Stage::Valid, "valid"),
    ];
    let groups = |row: &Row| row.waterfall.as_ref().map_or(0, |waterfall| waterfall.groups);
    let mut table = Table::new("where gold tools were lost: groups that got at least this far, %").with(
        column("groups"),
        &rows,
        |row| grouped(groups(row)),
    );
    for (stage, name) in stages {
        table = table.with(column(name), &rows, |row| {
            let reached = row.waterfall.as_ref().and_then(|waterfall| waterfall.reached.get(&stage));
            or_dash(reached.filter(|_| groups(row) > 0).map(|reached| percent(*reached as f64 / groups(row) as f64)))
        });
    }
    Some(table)
}

fn waste(size: &SizeSummary) -> Option<Table> {
    let rows: Vec<&Row> = size.rows.iter().filter(|row| row.effort.is_some()).collect();
    if rows.iter().all(|row| row.waste.is_empty()) {
        return None;
    }
    let mut table = Table::new("wasted turns by cause");
    for cause in Waste::ALL.into_iter().filter(|cause| rows.iter().any(|row| row.waste.contains_key(cause))) {
        let heading = cause.as_str().replace(' ', "\n");
        table = table.with(column(&heading), &rows, |row| grouped(row.waste.get(&cause).copied().unwrap_or(0)));
    }
    Some(table)
}
