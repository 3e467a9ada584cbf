//! YAML of strangers: bounded, without repeated keys, YAML 1.2 in what counts as a boolean.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::report::Findings;
use super::{ImportError, files};
use crate::problem::{clean, printable};

/// What one text holds, or where it goes wrong.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! {
        // The largest published API descriptions have a million nodes. Depth and aliases keep their strict limits.
        budget: serde_saphyr::budget! { max_events: 20_000_000, max_nodes: 10_000_000 },
        // `no` and `on` are words.
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| clean(&error.to_string()))
}

/// A file that holds one JSON or YAML document, told apart by how it begins.
pub(super) fn document(path: &Path, expected: &'static str, findings: &mut Findings) -> Result<Value, ImportError> {
    let text = files::text(path, expected)?;
    let read = if text.trim_start().starts_with(['{', '[']) {
        files::value(path, &text, findings).map_err(|error| error.to_string())
    } else {
        parse(&text)
    };
    read.map_err(|reason| ImportError::Unreadable { path: printable(path), reason: clean(&reason), expected })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_yaml_1_2() {
        let text = "a: no\nb: [1, -2.5, ~, true, '1']\n200: ok\nc: |\n  two\n  lines\nd: 2024-01-01\n";
        let expected =
            json!({"a": "no", "b": [1, -2.5, null, true, "1"], "200": "ok", "c": "two\nlines\n", "d": "2024-01-01"});
        assert_eq!(parse::<Value>(text).unwrap(), expected);
        let anchors = "x: &x {a: 1}\ny: *x\nz: {<<: *x, b: 2}\n";
        assert_eq!(parse::<Value>(anchors).unwrap(), json!({"x": {"a": 1}, "y": {"a": 1}, "z": {"a": 1, "b": 2}}));
    }

    #[test]
    fn errors_name_the_place_and_bombs_are_refused() {
        let error = parse::<Value>("a: 1\nb: [\n").unwrap_err();
        assert!(error.ends_with("at line 2, column 4"), "{error}");
        let error = parse::<Value>("a: 1\na: 2\n").unwrap_err();
        assert!(error.contains("duplicate"), "{error}");
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let references = vec![format!("*a{}", level - 1); 10].join(", ");
            let _ = writeln!(bomb, "a{level}: &a{level} [{references}]");
        }
        assert!(parse::<Value>(&bomb).is_err());
        assert!(parse::<Value>(&"[".repeat(100_000)).is_err());
        assert!(parse::<Value>(&"- ".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[ \\t\\n:\\-?,\\[\\]{}#&*!|>'\"%@`a0~<.]{0,80}|.{0,40}") {
            let _ = parse::<Value>(&text);
        }
    }
}
