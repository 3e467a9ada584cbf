//! The pooled recall as a function of the mix: how it would move if more, or fewer, of the queries were paraphrased.
//!
//! A pooled figure is a statement about the mix as much as about the strategy, so the mix is drawn. Each line is straight: the mean
//! over paraphrased queries at its right end, the mean over all other kinds, in the proportions of the run, at its left end.

use harness::dataset::Kind;

use super::canvas::{AXIS, Canvas, Failed, GRID, HEIGHT, INK, SOFT, Side, WIDTH, color, fitted, text_width};
use super::lines::{EDGE, HEAD, LABEL, SMALL};
use super::looks::looks;
use super::scale::{Scale, spread};
use crate::escape::visible;
use crate::format::percent;
use crate::summary::{SizeSummary, Summary};

/// One strategy at the ends of the axis.
struct Line {
    label: String,
    look: usize,
    others: f64,
    paraphrased: f64,
}

/// The largest size, if some of its queries are paraphrased and some are not.
pub(super) fn drawable(summary: &Summary) -> Option<&SizeSummary> {
    summary.sizes.last().filter(|size| !lines(summary, size).is_empty())
}

fn lines(summary: &Summary, size: &SizeSummary) -> Vec<Line> {
    let line = |(look, strategy): (usize, &crate::summary::StrategySettings)| {
        let row = size.rows.iter().find(|row| row.strategy == strategy.label)?;
        let paraphrased = row.recall_by_kind.get(&Kind::Paraphrased)?;
        let others: Vec<_> = row.recall_by_kind.iter().filter(|(kind, _)| **kind != Kind::Paraphrased).collect();
        let n: u64 = others.iter().map(|(_, mean)| mean.n).sum();
        let sum: f64 = others.iter().map(|(_, mean)| mean.mean * mean.n as f64).sum();
        let label = visible(&strategy.label).into_owned();
        (n > 0).then(|| Line { label, look, others: sum / n as f64, paraphrased: paraphrased.mean })
    };
    looks(&summary.strategies).into_iter().zip(&summary.strategies).filter_map(line).collect()
}

/// Share of paraphrased queries among those that need a tool.
fn share(size: &SizeSummary) -> f64 {
    let needing: u64 = size.mix.iter().filter(|(kind, _)| **kind != Kind::NoTool).map(|(_, n)| n).sum();
    size.mix.get(&Kind::Paraphrased).map_or(0.0, |n| *n as f64 / needing.max(1) as f64)
}

pub(super) fn draw(summary: &Summary, size: &SizeSummary) -> Result<String, Failed> {
    let lines = lines(summary, size);
    let mut svg = String::new();
    let canvas = Canvas::new(&mut svg, HEIGHT)?;
    canvas.bold("Recall@5 against the mix of queries", (EDGE, 26.0), 17.0)?;
    let subtitle = format!("{}, {}", visible(&summary.dataset), size.label());
    canvas.text(&fitted(&subtitle, LABEL, WIDTH - 2.0 * EDGE), (EDGE, 48.0), Side::Left, LABEL, SOFT)?;
    canvas.text("% of the required tools among the first five", (EDGE, HEAD + 8.0), Side::Left, SMALL, SOFT)?;
    let text = |line: &Line| format!("{} {}", fitted(&line.label, LABEL, 180.0), percent(line.paraphrased));
    let width = lines.iter().map(|line| text_width(&text(line), LABEL)).fold(0.0, f64::max).min(230.0);
    let (left, right) = (62.0, WIDTH - EDGE - 34.0 - width);
    let (top, bottom) = (HEAD + 28.0, HEIGHT - 84.0);
    let x = |share: f64| left + share * (right - left);
    let y = |value: f64| bottom - Scale::Share.position(value) * (bottom - top);
    for (value, label) in Scale::Share.ticks() {
        canvas.line(&[(left, y(value)), (right, y(value))], GRID, 1)?;
        canvas.text(&label, (left - 8.0, y(value)), Side::Right, SMALL, SOFT)?;
    }
    canvas.line(&[(left, bottom), (right, bottom)], AXIS, 1)?;
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        canvas.line(&[(x(share), bottom), (x(share), bottom + 4.0)], AXIS, 1)?;
        canvas.text(&format!("{:.0}", share * 100.0), (x(share), bottom + 14.0), Side::Middle, LABEL, INK)?;
    }
    let middle = (f64::midpoint(left, right), bottom + 32.0);
    canvas.text(
        "% of queries paraphrased, the other kinds in the run's proportions",
        middle,
        Side::Middle,
        SMALL,
        SOFT,
    )?;
    let here = x(share(size));
    canvas.dashed((here, top), (here, bottom), SOFT)?;
    canvas.text("this run", (here + 5.0, top + 6.0), Side::Left, SMALL, SOFT)?;
    let ends: Vec<f64> = lines.iter().map(|line| y(line.paraphrased)).collect();
    for (line, label_y) in lines.iter().zip(spread(&ends, 16.0, top, bottom)) {
        canvas.line(&[(x(0.0), y(line.others)), (x(1.0), y(line.paraphrased))], color(line.look), 2)?;
        canvas.marker((x(0.0), y(line.others)), line.look, false)?;
        canvas.marker((right + 14.0, label_y), line.look, false)?;
        canvas.text(&text(line), (right + 24.0, label_y), Side::Left, LABEL, INK)?;
    }
    canvas.finish()?;
    Ok(svg)
}
