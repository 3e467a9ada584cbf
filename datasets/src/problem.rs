//! What is wrong with a file, said so that it can be mended.
//!
//! Files come from anywhere, so what is quoted from them is bounded, and control characters, terminal escapes and
//! invisible or direction-changing characters are written as `\u{…}`.

use std::fmt::{self, Write as _};
use std::path::Path;

use serde::Serialize;

/// How many problems a listing shows before it counts the rest.
const SHOWN: usize = 20;
/// Longest excerpt of a file in a message, in characters.
const EXCERPT: usize = 60;
/// Longest message, in characters; what parsers say may quote a whole value.
const MESSAGE: usize = 400;
/// Similarity (1 − Damerau–Levenshtein distance / length) from which a known name is worth suggesting.
const NEAR: f64 = 0.6;
/// Suggestions per unknown name.
const SUGGESTED: usize = 3;

/// Whether a problem stops loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A place in a file: line and column count from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The position of the byte at `offset` of `bytes`.
    pub(crate) fn of_byte(bytes: &[u8], offset: usize) -> Self {
        let before = &bytes[..offset.min(bytes.len())];
        let lines = before.split(|&byte| byte == b'\n');
        let (line, last) = lines.enumerate().last().expect("splitting yields a part");
        Self { line: line + 1, column: characters(last) + 1 }
    }
}

/// Characters of UTF-8 bytes; a last one that is cut short counts.
pub(crate) fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0b1100_0000 != 0b1000_0000).count()
}

/// One problem. All texts are safe to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Path below the dataset folder.
    pub file: String,
    /// `None`: the file as a whole.
    pub position: Option<Position>,
    pub severity: Severity,
    pub message: String,
    /// What would have been accepted, or what to do.
    pub accepted: Option<String>,
    /// The rule of `lint` that knows this problem by name.
    #[serde(skip)]
    pub(crate) rule: Option<&'static str>,
}

impl Problem {
    pub fn error(file: &str, message: &str) -> Self {
        Self {
            file: clean(file),
            position: None,
            severity: Severity::Error,
            message: clean(message),
            accepted: None,
            rule: None,
        }
    }

    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    #[must_use]
    pub(crate) fn rule(mut self, id: &'static str) -> Self {
        self.rule = Some(id);
        self
    }

    #[must_use]
    pub fn expected(mut self, accepted: &str) -> Self {
        self.accepted = Some(clean(accepted));
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}: {}", self.severity, self.message)?;
        match &self.accepted {
            Some(accepted) => write!(f, "; expected {accepted}"),
            None => Ok(()),
        }
    }
}

/// Every problem of a dataset, in the order of its files and lines. Never empty.
#[derive(Debug, thiserror::Error)]
pub struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    /// The first twenty, one a line, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} problem{}", self.0.len(), if self.0.len() == 1 { "" } else { "s" })?;
        for problem in self.0.iter().take(SHOWN) {
            write!(f, "\n  {problem}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  … and {more} more"),
        }
    }
}

/// Characters that move the cursor, change the direction of text or do not show at all.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// At most `limit` characters of `text`, with everything hidden made visible.
fn visible(text: &str, limit: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(limit));
    for (index, character) in text.chars().enumerate() {
        if index == limit {
            shown.push('…');
            break;
        }
        if is_hidden(character) {
            let _ = write!(shown, "{}", character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A bounded, printable excerpt in double quotes.
pub(crate) fn quote(text: &str) -> String {
    quote_up_to(EXCERPT, text)
}

/// An excerpt like that of [`quote`] with a length of its own, in characters.
pub(crate) fn quote_up_to(limit: usize, text: &str) -> String {
    format!("\"{}\"", visible(text, limit))
}

/// A printable message.
pub(crate) fn clean(text: &str) -> String {
    clean_up_to(MESSAGE, text)
}

/// A printable text with a bound of its own, in characters.
pub(crate) fn clean_up_to(limit: usize, text: &str) -> String {
    visible(text, limit)
}

/// A printable path.
pub(crate) fn printable(path: &Path) -> String {
    clean(&path.to_string_lossy())
}

/// Whether an identifier may not be used because parts of it do not show.
pub(crate) fn has_hidden(text: &str) -> bool {
    text.chars().any(is_hidden)
}

/// ` (did you mean "a" or "b"?)` with the known names nearest to `name`, or nothing.
pub(crate) fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    // The comparison is quadratic in the length, and nobody's typo is that long.
    if name.len() > 4 * EXCERPT {
        return String::new();
    }
    let mut near: Vec<_> = known
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|&(similarity, _)| similarity >= NEAR)
        .collect();
    near.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cmp(right.1)));
    did_you_mean(near.into_iter().map(|(_, candidate)| candidate))
}

/// ` (did you mean "a" or "b"?)` with the first of the names, or nothing.
pub(crate) fn did_you_mean<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.take(SUGGESTED).map(quote).collect();
    if names.is_empty() { String::new() } else { format!(" (did you mean {}?)", names.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped_and_bounded() {
        let evil = "\u{1b}[2Jok\r\n\u{202e}evil\u{200b}\u{e0041}\u{feff}";
        let problem = Problem::error(evil, &format!("unknown {}", quote(evil))).expected(evil);
        let text = problem.to_string();
        assert!(!text.chars().any(is_hidden), "{text:?}");
        assert!(text.contains(r"\u{1b}[2Jok\u{d}\u{a}\u{202e}evil\u{200b}\u{e0041}\u{feff}"), "{text}");
        assert_eq!(quote(&"é".repeat(1000)).chars().count(), EXCERPT + 3);
        assert!(Problem::error("f", &"x".repeat(1_000_000)).to_string().len() < 500);
    }

    #[test]
    fn writing_of_the_world_is_left_alone() {
        assert_eq!(quote("naïve 東京 नमस्ते ok"), "\"naïve 東京 नमस्ते ok\"");
    }

    #[test]
    fn a_listing_stops_at_twenty_and_counts_the_rest() {
        let one = Problem::error("a.jsonl", "bad").at(Position { line: 3, column: 7 }).expected("good");
        let text = Problems(vec![one; 23]).to_string();
        assert!(text.starts_with("23 problems\n  a.jsonl:3:7: error: bad; expected good\n"), "{text}");
        assert!(text.ends_with("\n  … and 3 more"), "{text}");
        assert_eq!(text.lines().count(), 22);
        assert_eq!(Problems(vec![Problem::error("a", "bad")]).to_string(), "1 problem\n  a: error: bad");
    }

    #[test]
    fn suggestions_are_near_ordered_and_few() {
        let known = ["description", "descriptor", "name", "descriptions", "describe"];
        assert_eq!(
            suggestion("descripton", known.into_iter()),
            " (did you mean \"description\" or \"descriptor\" or \"descriptions\"?)"
        );
        assert_eq!(suggestion("zzz", known.into_iter()), "");
    }

    #[test]
    fn columns_count_characters() {
        let bytes = "a\né東x".as_bytes();
        assert_eq!(Position::of_byte(bytes, bytes.len() - 1), Position { line: 2, column: 3 });
        assert_eq!(Position::of_byte(bytes, 999), Position { line: 2, column: 4 });
        assert_eq!(Position::of_byte(b"", 0), Position { line: 1, column: 1 });
    }
}
