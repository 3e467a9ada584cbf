//! Texts without their escapes, and without the keys in them. A key is the same key in a URL, in JSON and in a log, however each
//! of them writes it.

use std::ops::Range;

/// How often escapes are taken off: JSON within JSON, a URL within it, and more of that than anybody writes.
const PASSES: usize = 8;
/// What stands where a key was.
pub const STARS: &str = "***";

/// A text as it is, without its escapes, without those of what is left, and so on. None of it alone is enough: what is no escape
/// where it stands may look like one when it meets its neighbour.
pub fn forms(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let forms = std::iter::successors(Some(text.as_bytes().to_vec()), |bytes| without_escapes(bytes, |_, _| {}));
    forms.take(PASSES + 1).map(with_blanks)
}

/// Whether these bytes occur in others.
pub fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    places(bytes, wanted).next().is_some()
}

fn places<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let windows = bytes.windows(wanted.len().max(1)).enumerate();
    // Nearly all of them differ in their first byte, which is cheaper to see than to compare the whole.
    windows.filter(move |(_, window)| window.first() == wanted.first() && *window == wanted).map(|(at, _)| at)
}

/// As forms on the web write a blank.
fn with_blanks(mut bytes: Vec<u8>) -> Vec<u8> {
    for byte in bytes.iter_mut().filter(|byte| **byte == b'+') {
        *byte = b' ';
    }
    bytes
}

/// The forms of a text, and which part of it each byte of them comes from.
pub struct Unescaped(Vec<Level>);

/// One form. A part never cuts a character.
struct Level {
    bytes: Vec<u8>,
    parts: Vec<Range<usize>>,
}

impl Unescaped {
    pub fn of(text: &str) -> Self {
        let parts = text.char_indices().flat_map(|(at, char)| {
            let length = char.len_utf8();
            std::iter::repeat_n(at..at + length, length)
        });
        let mut levels = vec![Level { bytes: text.bytes().collect(), parts: parts.collect() }];
        for _ in 0..PASSES {
            let Some(next) = levels.last().and_then(Level::next) else { break };
            levels.push(next);
        }
        let with_blanks = |Level { bytes, parts }| Level { bytes: with_blanks(bytes), parts };
        Self(levels.into_iter().map(with_blanks).collect())
    }

    /// Every part of the text that stands for these bytes.
    pub fn places<'a>(&'a self, wanted: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        let within = move |level: &'a Level| places(&level.bytes, wanted).map(move |at| level.part(at, wanted.len()));
        self.0.iter().flat_map(within)
    }

    /// Every part of the text that stands for the beginning of these bytes, at least so many of them and as many as there are.
    pub fn runs<'a>(&'a self, wanted: &'a [u8], least: usize) -> impl Iterator<Item = Range<usize>> + 'a {
        let within = move |level: &'a Level| {
            places(&level.bytes, &wanted[..least]).map(move |at| {
                let length = level.bytes[at..].iter().zip(wanted).take_while(|(is, wanted)| is == wanted).count();
                level.part(at, length)
            })
        };
        self.0.iter().flat_map(within)
    }

    /// The end of the text if these bytes begin there, at least so many of them, and are cut.
    pub fn begun(&self, wanted: &[u8], least: usize) -> Option<Range<usize>> {
        self.0.iter().find_map(|level| {
            let most = wanted.len().saturating_sub(1).min(level.bytes.len());
            let length = (least..=most).rev().find(|&length| level.bytes.ends_with(&wanted[..length]))?;
            Some(level.part(level.bytes.len() - length, length))
        })
    }
}

impl Level {
    fn next(&self) -> Option<Self> {
        let mut parts = Vec::new();
        let bytes = without_escapes(&self.bytes, |taken, count| {
            parts.extend(std::iter::repeat_n(self.part(taken.start, taken.len()), count));
        })?;
        Some(Self { bytes, parts })
    }

    fn part(&self, at: usize, length: usize) -> Range<usize> {
        self.parts[at].start..self.parts[at + length - 1].end
    }
}

/// The text with stars in these places.
pub fn starred(text: &str, mut places: Vec<Range<usize>>) -> String {
    places.sort_by_key(|place| place.start);
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    let mut places = places.into_iter().peekable();
    while let Some(mut place) = places.next() {
        while let Some(next) = places.next_if(|next| next.start <= place.end) {
            place.end = place.end.max(next.end);
        }
        shown.push_str(&text[at..place.start]);
        shown.push_str(STARS);
        at = place.end;
    }
    shown + &text[at..]
}

/// The bytes without their escapes, if there are any. `each` is told which of them became how many.
fn without_escapes(bytes: &[u8], mut each: impl FnMut(Range<usize>, usize)) -> Option<Vec<u8>> {
    if !bytes.iter().any(|byte| b"%\\".contains(byte)) {
        return None;
    }
    let (mut next, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let (unescaped, taken) = escape(&bytes[at..]).unwrap_or_else(|| (vec![bytes[at]], 1));
        each(at..at + taken, unescaped.len());
        next.extend(unescaped);
        at += taken;
    }
    Some(next).filter(|next| next.len() < bytes.len())
}

/// What the escape at the start of `bytes` stands for, and its length.
fn escape(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    match bytes {
        [b'%', digits @ ..] => Some((vec![hex(digits, 2)? as u8], 3)),
        [b'\\', b'x', digits @ ..] => Some((vec![hex(digits, 2)? as u8], 4)),
        [b'\\', b'u', b'{', rest @ ..] => {
            let length = rest.iter().take(7).position(|&byte| byte == b'}')?;
            Some((utf8(hex(rest, length)?), length + 4))
        }
        [b'\\', b'u', digits @ ..] => {
            let high = hex(digits, 4)?;
            let low = match digits.get(4..) {
                Some([b'\\', b'u', rest @ ..]) if (0xd800..0xdc00).contains(&high) => hex(rest, 4),
                _ => None,
            };
            match low.filter(|low| (0xdc00..0xe000).contains(low)) {
                Some(low) => Some((utf8(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), 12)),
                None => Some((utf8(high), 6)),
            }
        }
        [b'\\', b'n', ..] => Some((vec![b'\n'], 2)),
        [b'\\', b'r', ..] => Some((vec![b'\r'], 2)),
        [b'\\', b't', ..] => Some((vec![b'\t'], 2)),
        [b'\\', itself @ (b'\\' | b'/' | b'"' | b'\''), ..] => Some((vec![*itself], 2)),
        _ => None,
    }
}

/// The number in the first `length` digits.
fn hex(digits: &[u8], length: usize) -> Option<u32> {
    let digits = digits.get(..length).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn utf8(code: u32) -> Vec<u8> {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text without any escape.
    fn bare(text: &str) -> Vec<u8> {
        forms(text).last().unwrap()
    }

    #[test]
    fn every_way_of_writing_a_text_is_the_same_text() {
        for written in [
            "a/b é\"",
            "a%2fb%20%C3%A9%22",
            "a%2Fb+%c3%a9\\\"",
            r"a\/b \u00e9\u0022",
            r"a/b \u{e9}\x22",
            "a%252Fb%20%25C3%25A9%2522",
            r#"a\\\/b \\u00e9\\\""#,
        ] {
            assert_eq!(String::from_utf8_lossy(&bare(written)), "a/b é\"", "{written}");
        }
        assert_eq!(bare(r"\ud83d\ude00"), "😀".as_bytes());
        for text in ["100%", "%zz", r"\q", r"\u12", r"\u{}x", "\\", "%é"] {
            assert_eq!(forms(text).collect::<Vec<_>>(), [text.as_bytes()]);
        }
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "é%41%42c AB";
        let unescaped = Unescaped::of(text);
        let places: Vec<_> = unescaped.places(b"AB").map(|place| &text[place]).collect();
        assert_eq!(places, ["AB", "%41%42", "AB"]);
        assert_eq!(unescaped.begun(b"ABCD", 2).map(|place| &text[place]), Some("AB"));
        assert_eq!(unescaped.begun(b"ABCD", 3), None);
        assert_eq!(
            (unescaped.places(b"ABC").count(), unescaped.places("é".as_bytes()).count()),
            (0, 2),
            "in both forms"
        );
        assert!(contains(b"abc", b"bc") && !contains(b"abc", b"bd") && !contains(b"abc", b""));
        let runs: Vec<_> = unescaped.runs(b"ABcd", 2).map(|place| &text[place]).collect();
        assert_eq!(runs, ["AB", "%41%42c", "AB"], "as far as they go");
        assert_eq!(starred(text, unescaped.runs(b"ABcd", 2).collect()), "é*** ***");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_never_cut_a_character(text in r#"([a\\/"%u0-9dé😀{}]|\\u[0-9a-f]{4}|%[0-9a-f]{2}){0,12}"#) {
            let unescaped = Unescaped::of(&text);
            for level in &unescaped.0 {
                prop_assert!(level.parts.iter().all(|part| text.get(part.clone()).is_some()));
                prop_assert_eq!(level.bytes.len(), level.parts.len());
            }
        }
    }
}
