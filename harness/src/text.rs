//! Small things about words.

use std::collections::BTreeSet;
use std::fmt::Write as _;

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_' || char == '-'
}

/// The name occurs as a whole word.
pub fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, found)| {
        !text[..at].chars().next_back().is_some_and(is_word)
            && !text[at + found.len()..].chars().next().is_some_and(is_word)
    })
}

/// Many names to look for at once: finds what [`mentions`] finds, in one pass over the text.
#[derive(Debug, Default)]
pub struct Names {
    words: BTreeSet<String>,
    /// Names that are no single word, such as `files/read`, are looked for one by one.
    others: Vec<String>,
}

impl<'n> FromIterator<&'n str> for Names {
    fn from_iter<I: IntoIterator<Item = &'n str>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            if !name.is_empty() && name.chars().all(is_word) {
                all.words.insert(name.to_owned());
            } else {
                all.others.push(name.to_owned());
            }
        }
        all
    }
}

impl Names {
    /// The names that the text mentions.
    pub fn found_in<'a>(&'a self, text: &str) -> BTreeSet<&'a str> {
        let words = text.split(|char| !is_word(char)).filter_map(|word| self.words.get(word));
        words.chain(self.others.iter().filter(|name| mentions(text, name))).map(String::as_str).collect()
    }
}

/// Text from outside, made harmless for a terminal or a log: line breaks become blanks, other control characters and those
/// that steer the direction of writing are shown by their code.
pub fn plain(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' | '\r' | '\t' => line.push(' '),
            char if char.is_control() || is_invisible(char) => line.extend(char.escape_unicode()),
            char => line.push(char),
        }
    }
    line
}

/// A JSON text without white space, made harmless for a terminal: it means the same, and what would steer stands as `\u001b`.
pub fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        // Only strings hold any of these, and all of them lie below U+10000.
        if char.is_control() || is_invisible(char) {
            let _ = write!(out, "\\u{:04x}", u32::from(char));
        } else {
            out.push(char);
        }
    }
    out
}

/// Zero-width characters, line separators and overrides of the writing direction: they hide text as well as a control
/// character does.
pub fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// 1,000.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and what is counted: `1 query`, `2 queries`. A verb that goes with the noun belongs to both words.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Names, grouped, mentions, plain, plural};

    #[test]
    fn one_is_no_plural_and_thousands_are_grouped() {
        assert_eq!([1, 999, 1_000, 1_234_567].map(grouped), ["1", "999", "1,000", "1,234,567"]);
        let queries = |count| plural(count, "query is", "queries are");
        assert_eq!([0, 1, 2_000].map(queries), ["0 queries are", "1 query is", "2,000 queries are"]);
    }

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(plain("a\nb\u{1b}[31m\u{202e}é"), r"a b\u{1b}[31m\u{202e}é");
    }

    #[test]
    fn names_are_found_as_whole_words() {
        assert!(mentions("use `mail_send`.", "mail_send"));
        assert!(!mentions("use mail_send_draft", "mail_send"));
        assert!(!mentions("gmail_send", "mail_send"));
    }

    proptest! {
        #[test]
        fn many_names_at_once_are_the_names_one_by_one(
            text in "[ab_é /.-]{0,30}",
            names in prop::collection::btree_set("[ab_é/-]{1,3}", 0..12),
        ) {
            let expected: Vec<&str> = names.iter().map(String::as_str).filter(|name| mentions(&text, name)).collect();
            let all: Names = names.iter().map(String::as_str).collect();
            prop_assert_eq!(all.found_in(&text).into_iter().collect::<Vec<_>>(), expected);
        }
    }
}
