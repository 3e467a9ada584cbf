//! The summary as a Markdown page.

use std::fmt::Write as _;

use crate::escape::markdown as escaped;
use crate::format::plural;
use crate::plot::Plot;
use crate::settings::rewritten;
use crate::summary::Summary;
use crate::tables::{Table, by_cost, detail_tables, main_tables, mix};

/// The whole report. Plots are linked by the names that [`crate::write_all`] gives them.
pub fn markdown(summary: &Summary) -> String {
    let mut out = format!("# {}\n\n**{}**\n", escaped(&summary.run), escaped(&sentence(&summary.closing)));
    for warning in &summary.warnings {
        let _ = write!(out, "\n> **Warning:** {}\n", escaped(warning));
    }
    for plot in Plot::of(summary) {
        let _ = write!(out, "\n![{}]({})\n", escaped(plot.title()), plot.file());
    }
    for size in &summary.sizes {
        let queries = plural(size.queries, "query", "queries");
        let _ = write!(out, "\n## {}\n\n{queries}: {}. ", size.label(), escaped(&mix(size)));
        out.push_str("All figures are as deployed: what failed, hit a limit, could not run or is missing scores the worst value.");
        if let Some(reference) = &summary.reference {
            let _ = write!(out, " Reference: {}.", escaped(reference));
        }
        out.push('\n');
        for table in main_tables(summary, size) {
            self::table(&mut out, &table);
        }
        out.push('\n');
        for note in size.notes.iter().cloned().chain(by_cost(size)) {
            let _ = writeln!(out, "- {}", escaped(&note));
        }
        for table in detail_tables(size) {
            let _ = write!(out, "\n### {}\n", escaped(&sentence(&table.title)));
            self::table(&mut out, &table);
        }
    }
    out.push_str("\n## Settings\n\n| setting | value |\n| :-- | :-- |\n");
    for (name, value) in summary.settings.iter().chain(&summary.provenance) {
        let _ = writeln!(out, "| {name} | {} |", escaped(value));
    }
    if let Some(ratio) = summary.estimate_ratio {
        let _ = writeln!(out, "| estimated / reported input tokens | {ratio:.3} |");
    }
    out.push_str("\n| strategy | kind | version | parameters |\n| :-- | :-- | --: | :-- |\n");
    for strategy in &summary.strategies {
        let (label, kind, params) = (escaped(&strategy.label), escaped(&strategy.kind), escaped(&strategy.params));
        let _ = writeln!(out, "| {label} | {kind} | {} | {params} |", strategy.version);
    }
    rewrites(&mut out, summary);
    out
}

/// Changes of schemas that the page lists; `summary.json` has all of them.
const MOST_REWRITES: usize = 200;

fn rewrites(out: &mut String, summary: &Summary) {
    let Some(done) = &summary.rewrites else { return };
    let _ = write!(
        out,
        "\n## Schemas rewritten for this endpoint\n\n{}. Arguments were checked against the schemas as the servers wrote them.\n",
        escaped(&sentence(&rewritten(done)))
    );
    let all: Vec<_> =
        done.tools.iter().flat_map(|tool| tool.rewrites.iter().map(move |one| (&tool.tool, one))).collect();
    if all.is_empty() {
        return;
    }
    out.push_str("\n| tool | place | rule | before | after |\n| :-- | :-- | :-- | :-- | :-- |\n");
    for (tool, rewrite) in all.iter().take(MOST_REWRITES) {
        let tool = tool.to_string();
        let cells: [&str; 5] = [&tool, &rewrite.pointer, rewrite.rule.as_str(), &rewrite.before, &rewrite.after];
        let cells = cells.map(|cell| if cell.is_empty() { "–".to_owned() } else { escaped(cell) });
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if all.len() > MOST_REWRITES {
        let more = plural((all.len() - MOST_REWRITES) as u64, "more is", "more are");
        let _ = writeln!(out, "\n{more} in summary.json.");
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn table(out: &mut String, table: &Table) {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push('\n');
    let headings = table.columns.iter().map(|column| escaped(&column.heading.replace('\n', " ").replace(" @", "@")));
    out.push_str(&row(headings.collect()));
    out.push_str(&row(table
        .columns
        .iter()
        .map(|column| if column.right { "--:" } else { ":--" }.to_owned())
        .collect()));
    for cells in &table.rows {
        out.push_str(&row(cells.iter().map(|cell| escaped(cell)).collect()));
    }
}
