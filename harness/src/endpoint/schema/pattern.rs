//! What a regular expression asks of the engine that reads it. A scan, not a parser: where it is unsure it says yes, so that a
//! pattern is left out rather than refused.

use super::rules::DropPatterns;

/// The pattern is one of those that are to be left out.
pub(super) fn offends(pattern: &str, which: DropPatterns) -> bool {
    match which {
        DropPatterns::None => false,
        DropPatterns::Lookaround => Scan::of(pattern).lookaround,
        DropPatterns::Unportable => {
            let scan = Scan::of(pattern);
            scan.lookaround || scan.special || !(pattern.starts_with('^') && scan.anchored_end)
        }
        DropPatterns::All => true,
    }
}

/// The highest number of a `{n,m}`.
pub(super) fn largest_repeat(pattern: &str) -> u64 {
    Scan::of(pattern).repeat
}

#[derive(Default)]
struct Scan {
    lookaround: bool,
    /// A shorthand class, a back reference, a named group, a flag: more than literals, classes, groups and repeats.
    special: bool,
    anchored_end: bool,
    repeat: u64,
}

impl Scan {
    fn of(pattern: &str) -> Self {
        let mut scan = Self::default();
        let mut in_class = false;
        let mut rest = pattern;
        while let Some(char) = rest.chars().next() {
            let tail = &rest[char.len_utf8()..];
            rest = tail;
            match char {
                '\\' => {
                    let Some(escaped) = tail.chars().next() else { break };
                    scan.special |= escaped.is_alphanumeric() && !matches!(escaped, 'n' | 'r' | 't');
                    rest = &tail[escaped.len_utf8()..];
                }
                '[' => in_class = true,
                ']' => in_class = false,
                '(' if !in_class => {
                    scan.lookaround |= ["?=", "?!", "?<=", "?<!"].iter().any(|mark| tail.starts_with(mark));
                    scan.special |= tail.starts_with('?') && !tail.starts_with("?:");
                }
                '{' if !in_class => scan.repeat = scan.repeat.max(numbers(tail)),
                '$' if tail.is_empty() => scan.anchored_end = true,
                _ => {}
            }
        }
        scan
    }
}

/// The highest number before a closing brace; one that overflows is as high as can be.
fn numbers(tail: &str) -> u64 {
    let Some((inside, _)) = tail.split_once('}') else { return 0 };
    let numbers = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
    let digits = |part: &str| part.chars().all(|char| char.is_ascii_digit());
    numbers.filter(|part| digits(part)).map(|part| part.parse().unwrap_or(u64::MAX)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_around_is_found_and_nothing_like_it() {
        for pattern in ["^(?!\\.)(?!.*\\.\\.)[a-z]+$", "(?=x)", "a(?<=b)", "(?<!b)c"] {
            assert!(offends(pattern, DropPatterns::Lookaround), "{pattern}");
        }
        for pattern in ["^(?:a|b)$", "(?<year>[0-9]+)", "\\(?!x", "[(?=]", "a?=b", ""] {
            assert!(!offends(pattern, DropPatterns::Lookaround), "{pattern}");
        }
    }

    #[test]
    fn portable_patterns_are_anchored_and_plain() {
        for pattern in ["^[a-z0-9_-]{1,64}$", "^(?:a|b)+$", "^\\[\\.$", "^größe$"] {
            assert!(!offends(pattern, DropPatterns::Unportable), "{pattern}");
        }
        for pattern in ["\\S", "^\\d+$", "^[\\w-]+$", "^a", "a$", "^a\\$", "^(a)\\1$", "^(?i)a$", "^(?<n>a)$", "^a\\"] {
            assert!(offends(pattern, DropPatterns::Unportable), "{pattern}");
        }
    }

    #[test]
    fn repeats_are_counted_outside_classes() {
        let cases = [("a{2,1500}b{3}", 1_500), ("a{7,}", 7), ("[{9}]", 0), ("a{x}", 0), ("\\{9}", 0), ("{", 0)];
        for (pattern, expected) in cases {
            assert_eq!(largest_repeat(pattern), expected, "{pattern}");
        }
        assert_eq!(largest_repeat("a{99999999999999999999999}"), u64::MAX);
    }
}
