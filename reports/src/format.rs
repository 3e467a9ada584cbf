//! Numbers as people read them.

pub(crate) use harness::text::{grouped, plural};

/// A fraction in percent, one decimal.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1}", fraction * 100.0)
}

/// A difference of fractions in points, with its sign.
pub(crate) fn points(fraction: f64) -> String {
    let text = format!("{:+.1}", fraction * 100.0);
    // Rounded to nothing it has no sign.
    if text.trim_start_matches(['+', '-']) == "0.0" { "0.0".to_owned() } else { text }
}

/// `–` for what does not apply.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// 950, 2.2k, 108k, 1.3M.
pub(crate) fn short(count: f64) -> String {
    match count {
        count if count < 999.5 => format!("{count:.0}"),
        count if count < 99_950.0 => format!("{:.1}k", count / 1e3),
        count if count < 999_500.0 => format!("{:.0}k", count / 1e3),
        count => format!("{:.1}M", count / 1e6),
    }
}

/// A p-value; below a thousandth the figure says nothing more.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_where_the_unit_changes() {
        let shown: Vec<_> = [0.0, 999.4, 999.6, 2_249.0, 99_949.0, 99_951.0, 999_600.0].map(short).to_vec();
        assert_eq!(shown, ["0", "999", "1.0k", "2.2k", "99.9k", "100k", "1.0M"]);
        assert_eq!([0.353, -0.0004, -0.012].map(points), ["+35.3", "0.0", "-1.2"]);
        assert_eq!([1.0, 0.001, 0.000_4].map(p_value), ["1.000", "0.001", "<0.001"]);
    }
}
