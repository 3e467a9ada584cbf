//! The summary for a terminal.

use comfy_table::{Cell, CellAlignment, Table as Grid, presets};

use crate::escape::visible;
use crate::format::plural;
use crate::summary::Summary;
use crate::tables::{Table, detail_tables, main_tables, mix};

/// How a terminal looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns. Below about 110 some columns are left out, never one with a warning in it; the report file has them.
    pub width: usize,
    /// ANSI colours.
    pub color: bool,
}

/// Longer labels are cut in a terminal.
const LABEL_CHARS: usize = 24;

/// Tables of every size, the details of the largest, and the closing sentence.
pub fn terminal(summary: &Summary, style: Style) -> String {
    let mut page = Page { style, out: String::new() };
    page.line(Ink::Bold, &format!("{} – {}", summary.run, summary.dataset));
    let settings: Vec<String> =
        summary.settings.iter().skip(1).map(|(name, value)| format!("{name} {value}")).collect();
    page.wrapped(Ink::Dim, "", &settings.join(", "));
    for warning in &summary.warnings {
        page.wrapped(Ink::Red, "! ", warning);
    }
    for size in &summary.sizes {
        page.out.push('\n');
        let reference =
            summary.reference.as_ref().map_or(String::new(), |reference| format!(", reference: {reference}"));
        let title = format!(
            "{}, {} ({}), as deployed{reference}",
            size.label(),
            plural(size.queries, "query", "queries"),
            mix(size)
        );
        page.wrapped(Ink::Bold, "", &title);
        for table in main_tables(summary, size) {
            page.table(&table);
        }
        for note in &size.notes {
            page.wrapped(Ink::Dim, "- ", note);
        }
    }
    if let Some(size) = summary.sizes.last() {
        for table in detail_tables(size) {
            page.out.push('\n');
            page.wrapped(Ink::Bold, "", &format!("{} ({})", table.title, size.label()));
            page.table(&table);
        }
    }
    page.out.push('\n');
    if let Some(ratio) = summary.estimate_ratio {
        page.wrapped(Ink::Dim, "", &format!("estimated / reported input tokens: {ratio:.2}"));
    }
    page.wrapped(Ink::Bold, "", &summary.closing);
    page.out
}

#[derive(Clone, Copy)]
enum Ink {
    Bold,
    Dim,
    Red,
    Green,
}

struct Page {
    style: Style,
    out: String,
}

impl Page {
    fn inked(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Bold => 1,
            Ink::Dim => 2,
            Ink::Red => 31,
            Ink::Green => 32,
        };
        if self.style.color && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// One line; the text is escaped here.
    fn line(&mut self, ink: Ink, text: &str) {
        let line = self.inked(ink, &visible(text));
        self.out.push_str(&line);
        self.out.push('\n');
    }

    /// Words wrapped to the width, a per cent sign with its number; later lines are indented below the bullet.
    fn wrapped(&mut self, ink: Ink, bullet: &str, text: &str) {
        let text = visible(text);
        let (mut line, mut lead) = (String::new(), bullet.to_owned());
        for word in text.replace(" %", "\u{a0}%").split(' ').map(|word| word.replace('\u{a0}', " ")) {
            if !line.is_empty() && lead.len() + line.chars().count() + 1 + word.chars().count() > self.style.width {
                self.line(ink, &format!("{lead}{line}"));
                line.clear();
                lead = " ".repeat(bullet.len());
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        self.line(ink, &format!("{lead}{line}"));
    }

    fn table(&mut self, table: &Table) {
        let mut shown: Vec<usize> = (0..table.columns.len()).collect();
        let mut grid = grid(table, &shown);
        while width(&grid) > self.style.width {
            // Of those that cost a reader least the last one.
            let when = |place: &usize| table.columns[shown[*place]].left_out;
            let places = (0..shown.len()).rev().filter(|place| when(place).is_some());
            let Some(place) = places.min_by_key(when) else { break };
            shown.remove(place);
            grid = self::grid(table, &shown);
        }
        for (index, line) in grid.trim_fmt().lines().enumerate() {
            let headings = table.columns.iter().map(|column| column.heading.lines().count()).max().unwrap_or(1);
            let line = if index < headings {
                self.inked(Ink::Dim, line)
            } else if let Some(start) = line.strip_suffix("better") {
                format!("{start}{}", self.inked(Ink::Green, "better"))
            } else if let Some(start) = line.strip_suffix("worse") {
                format!("{start}{}", self.inked(Ink::Red, "worse"))
            } else {
                line.to_owned()
            };
            self.out.push_str(&line);
            self.out.push('\n');
        }
    }
}

const GAP: u16 = 2;

fn grid(table: &Table, shown: &[usize]) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    let cells = |texts: Vec<String>| -> Vec<Cell> {
        let cell = |(text, &column): (String, &usize)| {
            let side = if table.columns[column].right { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(text).set_alignment(side)
        };
        texts.into_iter().zip(shown).map(cell).collect()
    };
    let deepest = table.columns.iter().map(|column| column.heading.lines().count()).max().unwrap_or(1);
    // Short headings stand right above their column.
    let heading = |column: &usize| {
        let heading = &table.columns[*column].heading;
        format!("{}{heading}", "\n".repeat(deepest - heading.lines().count()))
    };
    grid.set_header(cells(shown.iter().map(heading).collect()));
    for row in &table.rows {
        let text = |column: &usize| {
            let text = visible(&row[*column]);
            if *column == 0 { clipped(&text) } else { text.into_owned() }
        };
        grid.add_row(cells(shown.iter().map(text).collect()));
    }
    for column in grid.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    grid
}

fn clipped(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARS {
        return label.to_owned();
    }
    label.chars().take(LABEL_CHARS - 2).chain("..".chars()).collect()
}

fn width(grid: &Grid) -> usize {
    let widths = grid.column_max_content_widths();
    widths.iter().map(|&width| usize::from(width + GAP)).sum::<usize>().saturating_sub(usize::from(GAP))
}
