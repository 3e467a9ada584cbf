//! Plots against catalogue size; with one size, dots by strategy.

mod canvas;
mod dots;
mod lines;
mod looks;
mod mix;
mod scale;

use harness::run::manifest::Axis;

use crate::escape::visible;
use crate::format::{grouped, percent, short};
use crate::summary::{Row, SizeSummary, Summary, TokenSource};
use crate::tally::RECALL;
use looks::looks;
use scale::Scale;

/// The plots of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plot {
    Recall,
    /// Recall against the share of paraphrased queries.
    Mix,
    Success,
    Tokens,
}

/// What is drawn, before it is known how.
struct Chart {
    title: String,
    subtitle: String,
    value_axis: &'static str,
    size_axis: String,
    scale: Scale,
    series: Vec<Series>,
    /// Ascending, each with what is written below its tick.
    sizes: Vec<(u32, String)>,
    limit: Option<(f64, String)>,
    /// Sizes that ask other queries than the one before them.
    breaks: Vec<u32>,
    /// An open marker stands for the same quantity as the others, so lines may lead to it.
    open_is_measured: bool,
    captions: Vec<String>,
}

/// One strategy.
struct Series {
    label: String,
    /// Decides colour and marker.
    look: usize,
    points: Vec<Point>,
}

struct Point {
    size: u32,
    value: f64,
    interval: Option<(f64, f64)>,
    /// Nothing was runnable here.
    open: bool,
    text: String,
}

impl Chart {
    /// The same queries are asked at both, and at all sizes between: a line says what the size changes.
    fn is_joined(&self, from: &Point, to: &Point) -> bool {
        !self.breaks.iter().any(|size| from.size < *size && *size <= to.size)
    }
}

impl Plot {
    /// Those that the summary has data for.
    pub(crate) fn of(summary: &Summary) -> Vec<Self> {
        let any = |test: fn(&Row) -> bool| summary.sizes.iter().flat_map(|size| &size.rows).any(test);
        let mut plots = Vec::new();
        if any(|row| row.retrieved(RECALL).is_some()) {
            plots.push(Self::Recall);
        }
        if mix::drawable(summary).is_some() {
            plots.push(Self::Mix);
        }
        if any(|row| row.success.is_some()) {
            plots.push(Self::Success);
        }
        if any(|row| row.tokens.is_some_and(|tokens| tokens.per_query.is_some())) {
            plots.push(Self::Tokens);
        }
        plots
    }

    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Recall => "recall.svg",
            Self::Mix => "mix.svg",
            Self::Success => "success.svg",
            Self::Tokens => "tokens.svg",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Recall => "Recall@5",
            Self::Mix => "Recall@5 against the mix of queries",
            Self::Success => "Success as deployed",
            Self::Tokens => "Tokens per query",
        }
    }

    /// The SVG text. The error is the drawing library's.
    pub(crate) fn draw(self, summary: &Summary) -> Result<String, String> {
        let drawn = if let (Self::Mix, Some(size)) = (self, mix::drawable(summary)) {
            mix::draw(summary, size)
        } else {
            let chart = self.chart(summary);
            if summary.sizes.len() > 1 { lines::draw(&chart) } else { dots::draw(&chart) }
        };
        drawn.map_err(|error| error.to_string())
    }

    fn chart(self, summary: &Summary) -> Chart {
        let series: Vec<Series> = summary
            .strategies
            .iter()
            .zip(looks(&summary.strategies))
            .map(|(strategy, look)| {
                let point = |size: &SizeSummary| {
                    let row = size.rows.iter().find(|row| row.strategy == strategy.label)?;
                    self.point(size.size, row)
                };
                let points = summary.sizes.iter().filter_map(point).collect();
                Series { label: visible(&strategy.label).into_owned(), look, points }
            })
            .filter(|series: &Series| !series.points.is_empty())
            .collect();
        let limit = summary
            .context_tokens
            .filter(|_| self == Self::Tokens)
            .map(|limit| (limit as f64, format!("one request holds {} tokens", grouped(limit))));
        let values = series.iter().flat_map(|series| &series.points).map(|point| point.value);
        let scale = match self {
            Self::Recall | Self::Mix | Self::Success => Scale::Share,
            Self::Tokens => Scale::log(values.chain(limit.iter().map(|(limit, _)| *limit))),
        };
        Chart {
            title: match summary.sizes.as_slice() {
                [only] => format!("{}, {}", self.title(), only.label()),
                [SizeSummary { axis: Axis::Skills { .. }, .. }, ..] => {
                    format!("{} against the number of skills", self.title())
                }
                _ => format!("{} against catalogue size", self.title()),
            },
            subtitle: self.subtitle(summary),
            value_axis: match self {
                Self::Recall | Self::Mix => "% of the required tools among the first five",
                Self::Success => "% of episodes",
                Self::Tokens => "tokens, log scale",
            },
            scale,
            size_axis: match summary.sizes.first().map(|size| size.axis) {
                Some(Axis::Skills { tools }) => {
                    format!("skills over a catalogue of {} tools, log scale", grouped(u64::from(tools)))
                }
                _ => "tools in the catalogue, log scale".to_owned(),
            },
            sizes: summary.sizes.iter().map(|size| (size.size, self.counts(size))).collect(),
            limit,
            breaks: summary.sizes.iter().filter(|size| size.other_queries).map(|size| size.size).collect(),
            open_is_measured: self != Self::Tokens,
            captions: self.captions(summary, &series),
            series,
        }
    }

    fn point(self, size: u32, row: &Row) -> Option<Point> {
        let open = row.never_ran();
        let point = |value: f64, text: String| Point { size, value, interval: None, open, text };
        match self {
            Self::Recall | Self::Mix => row.retrieved(RECALL).map(|recall| point(recall, percent(recall))),
            Self::Success => row.success.map(|success| Point {
                interval: (!open).then_some((success.interval.lower, success.interval.upper)),
                ..point(success.rate, percent(success.rate))
            }),
            Self::Tokens => match (row.tokens, row.prompt_estimate.filter(|_| open)) {
                (Some(tokens), _) => tokens.per_query.map(|per_query| {
                    let about = if tokens.source == TokenSource::Estimated { "~" } else { "" };
                    point(per_query, format!("{about}{}", short(per_query)))
                }),
                (None, Some(estimate)) => Some(point(estimate as f64, format!("~{}", short(estimate as f64)))),
                (None, None) => None,
            },
        }
    }

    /// `n = 48`, or the range where strategies differ.
    fn counts(self, size: &SizeSummary) -> String {
        let n = |row: &Row| match self {
            Self::Recall | Self::Mix => row.retrieval.as_ref().map(|retrieval| retrieval.n),
            Self::Success => row.success.map(|success| success.share.of),
            Self::Tokens => row.effort.map(|effort| effort.episodes),
        };
        let counts: Vec<u64> = size.rows.iter().filter_map(n).collect();
        match (counts.iter().min(), counts.iter().max()) {
            (Some(least), Some(most)) if least == most => format!("n = {}", grouped(*most)),
            (Some(least), Some(most)) => format!("n = {}–{}", grouped(*least), grouped(*most)),
            _ => String::new(),
        }
    }

    fn subtitle(self, summary: &Summary) -> String {
        let mut parts = vec![summary.dataset.clone()];
        parts.extend(summary.model.clone().filter(|_| self != Self::Recall));
        if let [only] = summary.sizes.as_slice() {
            parts.push(self.counts(only));
        }
        if self == Self::Recall {
            parts.push("intervals: of differences, in the table".to_owned());
        }
        if self == Self::Success {
            parts.push("bars: 95 % intervals".to_owned());
        }
        visible(&parts.join(", ")).into_owned()
    }

    fn captions(self, summary: &Summary, series: &[Series]) -> Vec<String> {
        let mut captions = Vec::new();
        if summary.sizes.iter().any(|size| size.other_queries) {
            captions.push("no line leads to a size that asks other queries than the one before it".to_owned());
        }
        let open = series.iter().flat_map(|series| &series.points).any(|point| point.open);
        if self == Self::Success && open {
            captions.push("open marker: nothing was runnable, which counts as no success".to_owned());
        }
        if self == Self::Tokens {
            if open {
                captions.push("open marker: not runnable, drawn at the estimated size of one prompt".to_owned());
            }
            captions
                .push("all requests of an episode added up, over the episodes in which the model answered".to_owned());
            captions.extend(undrawn(summary));
        }
        captions
    }
}

/// Strategies and sizes that have no place in the token plot, and why.
fn undrawn(summary: &Summary) -> Option<String> {
    let mut missing = Vec::new();
    for size in &summary.sizes {
        for row in size.rows.iter().filter(|row| row.drives_model && Plot::Tokens.point(size.size, row).is_none()) {
            let why = match row.tokens {
                Some(_) => "reported and estimated counts are mixed",
                None if row.never_ran() => "not runnable",
                None => "the model never answered",
            };
            missing.push(format!("{} at {} ({why})", row.strategy, size.label()));
        }
    }
    (!missing.is_empty()).then(|| visible(&format!("not drawn: {}", missing.join(", "))).into_owned())
}
