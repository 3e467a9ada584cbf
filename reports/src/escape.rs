//! Names and labels come from datasets, models and settings of other people. Here they are made harmless, per medium.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Makes characters visible that steer a terminal, reverse the direction of text, or cannot be seen: `\u{202e}`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(hidden) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::new(), |mut out, c| {
        if hidden(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
        out
    }))
}

fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Text inside a Markdown paragraph or table cell: no markup, no HTML, no link, no mention of anybody. Escapes no more than it
/// must, because the page is read as it is, too.
pub(crate) fn markdown(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        let word_before = text[..at].ends_with(char::is_alphanumeric);
        let rest = &text[at + c.len_utf8()..];
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A whole address would become a link by itself, and a name behind an @ would be called.
            ':' if rest.starts_with("//") => out.push_str("&#58;"),
            '.' if text[..at].to_ascii_lowercase().ends_with("www") => out.push_str("&#46;"),
            '@' if !word_before => out.push_str("&#64;&#8203;"),
            '_' if word_before && rest.starts_with(char::is_alphanumeric) => out.push(c),
            ']' if rest.starts_with(['(', '[', ':']) => out.push_str("\\]"),
            '|' | '`' | '*' | '_' | '~' | '\\' | '#' | '$' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// A text cell of a CSV file that a spreadsheet will not take for a formula. Quoting is the writer's work.
pub(crate) fn csv_cell(text: &str) -> Cow<'_, str> {
    let text = visible(text);
    if text.trim_start().starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']) {
        return Cow::Owned(format!("'{text}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_become_visible() {
        assert_eq!(visible("a\u{1b}[31m\u{202e}b\n\u{200b}"), "a\\u{1b}[31m\\u{202e}b\\u{a}\\u{200b}");
        assert_eq!(visible("tag\u{e0041}\u{9b}1m"), "tag\\u{e0041}\\u{9b}1m");
        assert!(matches!(visible("plain – ≥ 文"), Cow::Borrowed(_)));
    }

    #[test]
    fn markdown_stays_text() {
        assert_eq!(markdown("a|b`c`<img src=x>&"), "a\\|b\\`c\\`&lt;img src=x&gt;&amp;");
        assert_eq!(markdown("![x](http://e.org) @you"), "![x\\](http&#58;//e.org) &#64;&#8203;you");
        assert_eq!(markdown("&#47; www.e.org"), "&amp;\\#47; www&#46;e.org");
        assert_eq!(markdown("_a_ **b** ~1 ~2"), "\\_a\\_ \\*\\*b\\*\\* \\~1 \\~2");
        assert_eq!(markdown("# no heading\n[a]: b"), "\\# no heading\\\\u{a}[a\\]: b");
        assert_eq!(markdown("recall@5 of no_tool [95 % CI]"), "recall@5 of no_tool [95 % CI]");
    }

    #[test]
    fn spreadsheets_get_no_formula() {
        for formula in ["=1+1", "+1", "-1", "@sum", " =1"] {
            assert_eq!(csv_cell(formula), format!("'{formula}"));
        }
        assert_eq!(csv_cell("\t=1"), "\\u{9}=1", "the tab is visible, so nothing starts a formula");
        assert_eq!(csv_cell("bm25-llm"), "bm25-llm");
    }
}
