//! Findings and weight for people: a line per finding, then what they come to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Accepted, Finding, Level, Linted, Rule, Weight, plural};
use crate::problem::Position;

/// The report. `all` also shows what the baseline accepts.
pub fn text(linted: &Linted, all: bool) -> String {
    let mut out = String::new();
    for found in &linted.findings {
        let _ = writeln!(out, "{}; {}", finding(found), found.rule.fix);
    }
    for Accepted { finding: found, why } in linted.accepted.iter().filter(|_| all) {
        let _ = writeln!(out, "{}; accepted: {why}", finding(found));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    summary(linted, &mut out);
    weight(&linted.weight, &mut out);
    out
}

fn finding(finding: &Finding) -> String {
    let Finding { rule, subject, place, message } = finding;
    let Rule { id, name, level, .. } = rule;
    let mut line = place.file.clone();
    if let Some(Position { line: row, column }) = place.position {
        let _ = write!(line, ":{row}:{column}");
    }
    let _ = write!(line, ": {level} {id} {name}: ");
    if *subject != place.file {
        let _ = write!(line, "{subject}: ");
    }
    line + message
}

fn summary(linted: &Linted, out: &mut String) {
    let counts: Vec<_> = Level::ALL.iter().map(|&level| plural(linted.count(level), level.as_str())).collect();
    let _ = write!(out, "{}", counts.join(", "));
    if let Some(baseline) = &linted.baseline {
        let _ = write!(out, "; {} accepted in {baseline}", linted.accepted.len());
    }
    out.push('\n');
    let mut rules: BTreeMap<&str, (&Rule, usize, usize)> = BTreeMap::new();
    for found in &linted.findings {
        rules.entry(found.rule.id).or_insert((found.rule, 0, 0)).1 += 1;
    }
    for Accepted { finding: found, .. } in &linted.accepted {
        rules.entry(found.rule.id).or_insert((found.rule, 0, 0)).2 += 1;
    }
    for (Rule { id, name, level, .. }, found, accepted) in rules.into_values() {
        let _ = write!(out, "  {id} {name:<20} {:<8} {found:>6}", level.as_str());
        if accepted > 0 {
            let _ = write!(out, "  and {accepted} accepted");
        }
        out.push('\n');
    }
    if linted.incomplete {
        out.push_str("the dataset does not load as it is: rules about skills, actors and queries were left out\n");
    }
}

fn weight(weight: &Weight, out: &mut String) {
    let Weight { tokenizer, tools, tokens, heaviest, seed, sizes, cap, views } = weight;
    let _ = writeln!(out, "\nweight of definitions, about ({tokenizer} tokens)");
    let _ = writeln!(out, "  {:>9}  all {}", grouped(*tokens), plural(*tools, "tool"));
    for size in sizes {
        let _ = writeln!(out, "  {:>9}  size {} (seed {seed})", grouped(size.tokens), grouped(size.tools as u64));
    }
    for view in views {
        let over = if view.tools > *cap { format!(", over the cap of {cap}") } else { String::new() };
        let _ = writeln!(
            out,
            "  {:>9}  actor {}: {}{over}",
            grouped(view.tokens),
            crate::problem::clean(&view.actor),
            plural(view.tools, "tool")
        );
    }
    if !heaviest.is_empty() {
        let _ = writeln!(out, "heaviest");
    }
    for heavy in heaviest {
        let _ = writeln!(out, "  {:>9}  {}", grouped(heavy.tokens), crate::problem::clean(&heavy.tool));
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_grouped() {
        let numbers = [0, 999, 1000, 12_345, 1_234_567];
        assert_eq!(numbers.map(super::grouped), ["0", "999", "1,000", "12,345", "1,234,567"]);
    }
}
