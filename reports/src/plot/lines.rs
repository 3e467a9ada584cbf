//! Lines against catalogue size, labelled at their ends.

use super::canvas::{AXIS, Canvas, Failed, GRID, HEIGHT, INK, SOFT, Side, WIDTH, color, fitted, text_width, wrapped};
use super::scale::spread;
use super::{Chart, Point, Series};
use crate::format::grouped;

pub(super) const SMALL: f64 = 11.0;
pub(super) const LABEL: f64 = 12.0;
pub(super) const EDGE: f64 = 20.0;

/// Where things lie.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Positions of the sizes.
    columns: Vec<f64>,
}

/// Height of the captions, and of the space above them.
pub(super) fn foot_height(chart: &Chart) -> f64 {
    let lines = captions(chart).len() as f64;
    if lines == 0.0 { 0.0 } else { 15.0 * lines + 9.0 }
}

fn captions(chart: &Chart) -> Vec<String> {
    chart.captions.iter().flat_map(|caption| wrapped(caption, SMALL, WIDTH - 2.0 * EDGE)).take(6).collect()
}

/// Title, subtitle, and the captions at the foot of the page.
pub(super) fn head_and_foot(canvas: &Canvas<'_>, chart: &Chart, height: f64) -> Result<(), Failed> {
    canvas.bold(&fitted(&chart.title, 17.0, WIDTH - 2.0 * EDGE), (EDGE, 26.0), 17.0)?;
    canvas.text(&fitted(&chart.subtitle, LABEL, WIDTH - 2.0 * EDGE), (EDGE, 48.0), Side::Left, LABEL, SOFT)?;
    for (line, caption) in captions(chart).iter().rev().enumerate() {
        canvas.text(caption, (EDGE, height - 14.0 - 15.0 * line as f64), Side::Left, SMALL, SOFT)?;
    }
    Ok(())
}

/// Where the head ends.
pub(super) const HEAD: f64 = 66.0;

pub(super) fn draw(chart: &Chart) -> Result<String, Failed> {
    let mut svg = String::new();
    let canvas = Canvas::new(&mut svg, HEIGHT)?;
    head_and_foot(&canvas, chart, HEIGHT)?;
    canvas.text(chart.value_axis, (EDGE, HEAD + 8.0), Side::Left, SMALL, SOFT)?;
    let label_width = chart.series.iter().map(|series| text_width(&end_label(series), LABEL)).fold(0.0, f64::max);
    let mut frame = Frame {
        left: 62.0,
        right: WIDTH - EDGE - 34.0 - label_width.min(230.0),
        top: HEAD + 28.0,
        bottom: HEIGHT - foot_height(chart) - 60.0,
        columns: Vec::new(),
    };
    frame.columns = columns(chart, &frame);
    axes(&canvas, chart, &frame)?;
    limit(&canvas, chart, &frame)?;
    let offsets = offsets(chart, &frame);
    // Leaders of labels first: nothing may lie on a marker.
    labels(&canvas, chart, &frame, &offsets)?;
    for (series, offset) in chart.series.iter().zip(&offsets) {
        line(&canvas, chart, &frame, series, *offset)?;
    }
    canvas.finish()?;
    Ok(svg)
}

impl Frame {
    fn y(&self, chart: &Chart, value: f64) -> f64 {
        self.bottom - chart.scale.position(value) * (self.bottom - self.top)
    }

    fn x(&self, chart: &Chart, size: u32) -> f64 {
        let column = chart.sizes.iter().position(|(known, _)| *known == size);
        column.map_or(self.left, |column| self.columns[column])
    }
}

/// Sizes on a logarithmic axis, kept far enough apart for their labels.
fn columns(chart: &Chart, frame: &Frame) -> Vec<f64> {
    let inset = 34.0;
    let (start, end) = (frame.left + inset, frame.right - inset);
    let log = |size: u32| f64::from(size.max(1)).ln();
    let (least, most) = (log(chart.sizes[0].0), log(chart.sizes[chart.sizes.len() - 1].0));
    let wanted: Vec<f64> = chart
        .sizes
        .iter()
        .map(|(size, _)| start + (log(*size) - least) / (most - least).max(1e-9) * (end - start))
        .collect();
    spread(&wanted, 72.0, start, end)
}

fn axes(canvas: &Canvas<'_>, chart: &Chart, frame: &Frame) -> Result<(), Failed> {
    for (value, label) in chart.scale.ticks() {
        let y = frame.y(chart, value);
        canvas.line(&[(frame.left, y), (frame.right, y)], GRID, 1)?;
        canvas.text(&label, (frame.left - 8.0, y), Side::Right, SMALL, SOFT)?;
    }
    canvas.line(&[(frame.left, frame.bottom), (frame.right, frame.bottom)], AXIS, 1)?;
    for ((size, below), x) in chart.sizes.iter().zip(&frame.columns) {
        canvas.line(&[(*x, frame.bottom), (*x, frame.bottom + 4.0)], AXIS, 1)?;
        canvas.text(&grouped(u64::from(*size)), (*x, frame.bottom + 14.0), Side::Middle, LABEL, INK)?;
        canvas.text(below, (*x, frame.bottom + 30.0), Side::Middle, SMALL, SOFT)?;
    }
    let middle = f64::midpoint(frame.left, frame.right);
    canvas.text(&chart.size_axis, (middle, frame.bottom + 48.0), Side::Middle, SMALL, SOFT)
}

/// The limit and its name, which goes where no line runs.
fn limit(canvas: &Canvas<'_>, chart: &Chart, frame: &Frame) -> Result<(), Failed> {
    let Some((limit, text)) = &chart.limit else { return Ok(()) };
    let y = frame.y(chart, *limit);
    canvas.dashed((frame.left, y), (frame.right, y), SOFT)?;
    let width = text_width(text, SMALL);
    let steps =
        (0..=12).map(|step| frame.left + 4.0 + (frame.right - frame.left - width - 8.0) * f64::from(step) / 12.0);
    let spots: Vec<(f64, f64)> =
        [-9.0, 10.0].into_iter().flat_map(|side| steps.clone().map(move |x| (x, y + side))).collect();
    let free =
        |&&(x, y): &&(f64, f64)| chart.series.iter().all(|series| !runs_through(chart, frame, series, (x, y), width));
    let (x, y) = *spots.iter().find(free).unwrap_or(&spots[0]);
    canvas.text(text, (x, y), Side::Left, SMALL, SOFT)
}

/// The line or a marker of a series comes near the text that starts at a position.
fn runs_through(chart: &Chart, frame: &Frame, series: &Series, (x, y): (f64, f64), width: f64) -> bool {
    let points: Vec<(f64, f64)> =
        series.points.iter().map(|point| (frame.x(chart, point.size), frame.y(chart, point.value))).collect();
    // Offsets of crowded points are smaller than this margin.
    let (left, right) = (x - 40.0, x + width + 40.0);
    (0..=24).map(|step| left + (right - left) * f64::from(step) / 24.0).any(|x| {
        points.windows(2).zip(series.points.windows(2)).any(|(pair, ends)| {
            let (from, to) = (pair[0], pair[1]);
            let along = (x - from.0) / (to.0 - from.0).max(1e-9);
            chart.is_joined(&ends[0], &ends[1])
                && (0.0..=1.0).contains(&along)
                && (from.1 + (to.1 - from.1) * along - y).abs() < 12.0
        }) || points.iter().any(|point| (left..=right).contains(&point.0) && (point.1 - y).abs() < 14.0)
    })
}

/// A step to the side for each series, if markers or bars would lie on each other otherwise.
fn offsets(chart: &Chart, frame: &Frame) -> Vec<f64> {
    let series = &chart.series;
    let touches = |a: &Point, b: &Point| {
        let apart = (frame.y(chart, a.value) - frame.y(chart, b.value)).abs();
        a.size == b.size && (apart < 9.0 || a.interval.is_some() && b.interval.is_some())
    };
    let crowded = series.iter().enumerate().any(|(index, one)| {
        series[index + 1..].iter().any(|other| one.points.iter().any(|a| other.points.iter().any(|b| touches(a, b))))
    });
    let step = if crowded { 10.0_f64.min(56.0 / series.len() as f64) } else { 0.0 };
    (0..series.len()).map(|index| (index as f64 - (series.len() - 1) as f64 / 2.0) * step).collect()
}

fn line(canvas: &Canvas<'_>, chart: &Chart, frame: &Frame, series: &Series, offset: f64) -> Result<(), Failed> {
    let at = |point: &Point| (frame.x(chart, point.size) + offset, frame.y(chart, point.value));
    for pair in series.points.windows(2) {
        let measured = chart.open_is_measured || !pair.iter().any(|point| point.open);
        if measured && chart.is_joined(&pair[0], &pair[1]) {
            canvas.line(&[at(&pair[0]), at(&pair[1])], color(series.look), 2)?;
        }
    }
    for point in &series.points {
        let (x, _) = at(point);
        if let Some((lower, upper)) = point.interval {
            let (lower, upper) = (frame.y(chart, lower), frame.y(chart, upper));
            canvas.line(&[(x, lower), (x, upper)], color(series.look), 1)?;
            for end in [lower, upper] {
                canvas.line(&[(x - 3.0, end), (x + 3.0, end)], color(series.look), 1)?;
            }
        }
        canvas.marker(at(point), series.look, point.open)?;
    }
    Ok(())
}

/// Label and last value.
fn end_label(series: &Series) -> String {
    let last = series.points.last().map_or("", |point| point.text.as_str());
    format!("{} {last}", fitted(&series.label, LABEL, 180.0))
}

fn labels(canvas: &Canvas<'_>, chart: &Chart, frame: &Frame, offsets: &[f64]) -> Result<(), Failed> {
    let ends: Vec<(f64, f64)> = chart
        .series
        .iter()
        .zip(offsets)
        .filter_map(|(series, offset)| {
            let last = series.points.last()?;
            Some((frame.x(chart, last.size) + offset, frame.y(chart, last.value)))
        })
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, y)| *y).collect();
    let placed = spread(&wanted, 16.0, frame.top, frame.bottom);
    for ((series, end), y) in chart.series.iter().zip(&ends).zip(placed) {
        let x = frame.right + 10.0;
        canvas.line(&[(end.0 + 7.0, end.1), (frame.right - 8.0, end.1), (x - 4.0, y)], GRID_LEADER, 1)?;
        canvas.marker((x + 4.0, y), series.look, series.points.last().is_some_and(|point| point.open))?;
        canvas.text(&end_label(series), (x + 14.0, y), Side::Left, LABEL, INK)?;
    }
    Ok(())
}

/// Leaders are seen only by those who look for them.
const GRID_LEADER: plotters::style::RGBColor = plotters::style::RGBColor(196, 196, 196);
