//! Numbers of JSON texts that no value here holds: whole ones beyond 64 bits, and fractions with more digits than a double has.
//!
//! Holding every number as its text (`arbitrary_precision`) would keep them, and change what numbers are everywhere else.

use std::ops::Range;

/// Places of the numbers of a JSON text that reading it alters.
pub(super) fn inexact(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = after_text(bytes, at + 1),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                if !is_kept(&text[at..at + length]) {
                    found.push(at..at + length);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    found
}

/// Behind the quote that ends a text which begins at `at`.
fn after_text(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn is_kept(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    // By its own reader and writer: of two shortest forms of one double, others may write the other one.
    let Ok(read) = serde_json::from_str::<f64>(number) else { return true };
    serde_json::to_string(&read).is_ok_and(|written| digits(number) == digits(&written))
}

/// The digits of a number without zeros around them, and the power of ten of the last.
fn digits(number: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) =
        mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa.trim_start_matches('-'), ""));
    let all = format!("{whole}{fraction}");
    let written = all.trim_end_matches('0');
    let dropped = i64::try_from(all.len() - written.len()).ok()?;
    let digits = written.trim_start_matches('0');
    if digits.is_empty() {
        return Some((String::new(), 0));
    }
    let power = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
    Some((digits.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Vec<&str> {
        inexact(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn numbers_that_reading_alters_are_found() {
        let kept = r"[0, -1, 9007199254740993, 18446744073709551615, -9223372036854775808, 0.1, 1e3, 1.50, 1E-7, -0.0, 100e2, 1e300]";
        assert_eq!(shown(kept), [""; 0]);
        let text = r#"{"maximum": 18446744073709551616123, "0.12345678901234567890": "0.12345678901234567890 \\", "x\"": [0.12345678901234567890]}"#;
        assert_eq!(shown(text), ["18446744073709551616123", "0.12345678901234567890"]);
        assert_eq!(shown("[-163170361076754.12, 9.5e-300, 7.1e-10]"), [""; 0]);
        assert_eq!(shown("- 1e 1.e5e \"\\"), [""; 0], "what is no JSON is refused elsewhere");
    }

    proptest! {
        #[test]
        fn what_a_double_writes_is_kept(number in any::<f64>().prop_filter("JSON has no others", |number| number.is_finite())) {
            let text = serde_json::to_string(&number).unwrap();
            prop_assert_eq!(shown(&text), [""; 0], "{}", text);
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,40}") {
            inexact(&text);
        }
    }
}
