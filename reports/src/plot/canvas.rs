//! A few shapes on a white page. Sizes are pixels; the origin is the upper left corner.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::element::{Circle, EmptyElement, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontStyle, IntoFont as _, RGBColor, ShapeStyle, TextStyle, WHITE};

pub(super) const WIDTH: f64 = 800.0;
/// Of a line chart.
pub(super) const HEIGHT: f64 = 480.0;

pub(super) type Failed = DrawingAreaErrorKind<std::io::Error>;

pub(super) const INK: RGBColor = RGBColor(34, 34, 34);
pub(super) const SOFT: RGBColor = RGBColor(96, 96, 96);
pub(super) const GRID: RGBColor = RGBColor(229, 229, 229);
pub(super) const AXIS: RGBColor = RGBColor(150, 150, 150);

/// Okabe and Ito (2008), without the yellow, which is too faint on white. Strong ones first.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

pub(super) const COLORS: usize = PALETTE.len();
/// Markers of each colour: a disc, a square, a triangle.
pub(super) const SHAPES: usize = 3;

/// The colour of a look. Looks count through the palette, then through it again with another marker.
pub(super) fn color(look: usize) -> RGBColor {
    PALETTE[look % COLORS]
}

/// Which side of a text the position is.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Left,
    Middle,
    Right,
}

pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(svg: &'a mut String, height: f64) -> Result<Self, Failed> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a page of pixels")]
        let area = SVGBackend::with_string(svg, (WIDTH as u32, height as u32)).into_drawing_area();
        area.fill(&WHITE)?;
        Ok(Self { area })
    }

    /// Closes the page; what it was drawn on is whole then.
    pub(super) fn finish(self) -> Result<(), Failed> {
        self.area.present()
    }

    pub(super) fn line(&self, points: &[(f64, f64)], color: RGBColor, width: u32) -> Result<(), Failed> {
        let points: Vec<_> = points.iter().copied().map(pixel).collect();
        self.area.draw(&PathElement::new(points, color.stroke_width(width)))
    }

    /// A dashed line, upright or level: in between, whole pixels would make the dashes dance.
    pub(super) fn dashed(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> Result<(), Failed> {
        const DASH: f64 = 5.0;
        const GAP: f64 = 4.0;
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |distance: f64| {
            let share = (distance / length).min(1.0);
            (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
        };
        let mut distance = 0.0;
        while distance < length {
            self.line(&[at(distance), at(distance + DASH)], color, 1)?;
            distance += DASH + GAP;
        }
        Ok(())
    }

    /// The marker of a look: each round through the palette has its own shape. Open = white inside.
    pub(super) fn marker(&self, at: (f64, f64), look: usize, open: bool) -> Result<(), Failed> {
        const RADIUS: f64 = 4.0;
        let color = color(look);
        let corners: &[(f64, f64)] = match look / COLORS {
            0 => &[],
            1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
            _ => &[(0.0, -1.3), (1.2, 0.9), (-1.2, 0.9)],
        };
        let inside =
            ShapeStyle { color: if open { WHITE.to_rgba() } else { color.to_rgba() }, filled: true, stroke_width: 0 };
        let outline = color.stroke_width(2);
        if corners.is_empty() {
            #[expect(clippy::cast_possible_truncation, reason = "a small constant")]
            let radius = RADIUS as i32;
            let (x, y) = pixel(at);
            let shape =
                EmptyElement::at((x, y)) + Circle::new((0, 0), radius, inside) + Circle::new((0, 0), radius, outline);
            return self.area.draw(&shape);
        }
        let mut shape: Vec<_> = corners.iter().map(|(x, y)| pixel((at.0 + x * RADIUS, at.1 + y * RADIUS))).collect();
        self.area.draw(&Polygon::new(shape.clone(), inside))?;
        shape.push(shape[0]);
        self.area.draw(&PathElement::new(shape, outline))
    }

    /// Text, vertically centred on the position.
    pub(super) fn text(&self, text: &str, at: (f64, f64), side: Side, px: f64, color: RGBColor) -> Result<(), Failed> {
        self.styled(text, at, side, px, color, FontStyle::Normal)
    }

    pub(super) fn bold(&self, text: &str, at: (f64, f64), px: f64) -> Result<(), Failed> {
        self.styled(text, at, Side::Left, px, INK, FontStyle::Bold)
    }

    fn styled(
        &self,
        text: &str,
        at: (f64, f64),
        side: Side,
        px: f64,
        color: RGBColor,
        style: FontStyle,
    ) -> Result<(), Failed> {
        let side = match side {
            Side::Left => HPos::Left,
            Side::Middle => HPos::Center,
            Side::Right => HPos::Right,
        };
        // The backend divides the size by this before it writes it down.
        let font = ("sans-serif", px * 1.24).into_font().style(style);
        let style = TextStyle::from(font).color(&color).pos(Pos::new(side, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), pixel(at), style))
    }
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    #[expect(clippy::cast_possible_truncation, reason = "within the page")]
    let rounded = (x.round() as i32, y.round() as i32);
    rounded
}

/// Width of a text in a usual sans-serif face; rather too much than too little.
pub(super) fn text_width(text: &str, px: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | '\'' | '|' | ' ' => 0.35,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        c if c.is_ascii_uppercase() => 0.72,
        c if c.is_ascii() || c == '–' => 0.62,
        _ => 1.05,
    };
    text.chars().map(em).sum::<f64>() * px
}

/// The text, cut to a width.
pub(super) fn fitted(text: &str, px: f64, width: f64) -> String {
    if text_width(text, px) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if text_width(&kept, px) + text_width("..", px) > width {
            kept.pop();
            break;
        }
    }
    kept + ".."
}

/// Words on as many lines as the width asks for.
pub(super) fn wrapped(text: &str, px: f64, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if line.is_empty() || text_width(&longer, px) <= width {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.iter().map(|line| fitted(line, px, width)).collect()
}
