//! One size: a dot per strategy, as high a page as that takes.

use super::Chart;
use super::canvas::{AXIS, Canvas, Failed, GRID, INK, SOFT, Side, WIDTH, color, fitted, text_width};
use super::lines::{HEAD, foot_height, head_and_foot};

const SMALL: f64 = 11.0;
const LABEL: f64 = 12.0;
const EDGE: f64 = 20.0;

/// Height of a strategy.
const ROW: f64 = 34.0;

pub(super) fn draw(chart: &Chart) -> Result<String, Failed> {
    let mut svg = String::new();
    let first = HEAD + if chart.limit.is_some() { 26.0 } else { 6.0 };
    let bottom = first + ROW * chart.series.len() as f64;
    let height = (bottom + 50.0 + foot_height(chart)).round();
    let canvas = Canvas::new(&mut svg, height)?;
    head_and_foot(&canvas, chart, height)?;
    let names: Vec<String> = chart.series.iter().map(|series| fitted(&series.label, LABEL, 220.0)).collect();
    let left = EDGE + names.iter().map(|name| text_width(name, LABEL)).fold(0.0, f64::max);
    let right = WIDTH - 80.0;
    let x = |value: f64| left + 10.0 + chart.scale.position(value) * (right - left - 10.0);
    for (value, label) in chart.scale.ticks() {
        canvas.line(&[(x(value), first), (x(value), bottom)], GRID, 1)?;
        canvas.text(&label, (x(value), bottom + 13.0), Side::Middle, SMALL, SOFT)?;
    }
    canvas.line(&[(left + 10.0, bottom), (right, bottom)], AXIS, 1)?;
    canvas.text(chart.value_axis, (f64::midpoint(left, right), bottom + 32.0), Side::Middle, SMALL, SOFT)?;
    if let Some((limit, text)) = &chart.limit {
        canvas.dashed((x(*limit), first - 4.0), (x(*limit), bottom), SOFT)?;
        // The text stands on the side that has room.
        let side = if x(*limit) > f64::midpoint(left, right) { Side::Right } else { Side::Left };
        canvas.text(text, (x(*limit), first - 12.0), side, SMALL, SOFT)?;
    }
    for (index, (series, name)) in chart.series.iter().zip(&names).enumerate() {
        let y = first + ROW * (index as f64 + 0.5);
        canvas.text(name, (left, y), Side::Right, LABEL, INK)?;
        for point in &series.points {
            if let Some((lower, upper)) = point.interval {
                canvas.line(&[(x(lower), y), (x(upper), y)], color(series.look), 1)?;
                for bound in [lower, upper] {
                    canvas.line(&[(x(bound), y - 3.0), (x(bound), y + 3.0)], color(series.look), 1)?;
                }
            }
            canvas.marker((x(point.value), y), series.look, point.open)?;
            canvas.text(&point.text, (WIDTH - EDGE, y), Side::Right, LABEL, INK)?;
        }
    }
    canvas.finish()?;
    Ok(svg)
}
