//! Where a part of a JSON line stands. The line is parsed for it: a key of the same name further in, as the arguments of a tool
//! have them, is another part.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::problem::characters;

/// The column, in characters from 1, of what a path leads to: first a key of the line, then perhaps a key or an item of what it
/// holds, or the text that it is. A path that leads further than the line goes ends there; `None`: not even its first key exists.
pub(crate) fn column(line: &str, path: &[&str]) -> Option<usize> {
    // A slice of the line, so that its address says where it starts.
    let part = find(line, path)?;
    let before = part.as_ptr().addr() - line.as_ptr().addr();
    Some(characters(&line.as_bytes()[..before]) + 1)
}

/// The text value of a key of a line, which may be broken after it.
pub(super) fn text_of(line: &str, key: &str) -> Option<String> {
    let (_, value) = entries(line).into_iter().find(|(name, _)| is(name, key))?;
    serde_json::from_str(value.get()).ok()
}

fn find<'l>(json: &'l str, path: &[&str]) -> Option<&'l str> {
    let (step, rest) = path.split_first()?;
    if json.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        return items.into_iter().find(|item| is(item, step)).map(RawValue::get);
    }
    if json.starts_with('"') {
        return is(serde_json::from_str(json).ok()?, step).then_some(json);
    }
    let (key, value) = entries(json).into_iter().find(|(key, _)| is(key, step))?;
    Some(find(value.get(), rest).unwrap_or(key.get()))
}

/// Whether a part is this text, however it is escaped.
fn is(part: &RawValue, text: &str) -> bool {
    serde_json::from_str::<String>(part.get()).is_ok_and(|part| part == text)
}

/// The entries of an object as they are written, up to where it is broken.
fn entries(json: &str) -> Vec<(&RawValue, &RawValue)> {
    struct Collect<'c, 'l>(&'c mut Vec<(&'l RawValue, &'l RawValue)>);

    impl<'l> Visitor<'l> for Collect<'_, 'l> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(entry) = map.next_entry()? {
                self.0.push(entry);
            }
            Ok(())
        }
    }

    let mut entries = Vec::new();
    // What was read before an error counts; the loader has reported the error.
    let _ = serde_json::Deserializer::from_str(json).deserialize_map(Collect(&mut entries));
    entries
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn keys_count_where_the_path_says() {
        let line =
            r#"{"inputSchema": {"properties": {"name": {"description": "d"}}}, "description": "é", "n\u0061me": "x"}"#;
        assert_eq!(column(line, &["description"]), Some(65));
        assert_eq!(column(line, &["name"]), Some(85), "escaped");
        assert_eq!(column(line, &["inputSchema", "properties"]), Some(18));
        assert_eq!(column(line, &["inputSchema", "items"]), Some(2), "as far as it leads");
        assert_eq!(column(line, &["properties"]), None);
        assert_eq!(column("no object", &["a"]), None);
    }

    #[test]
    fn texts_count_where_the_path_says() {
        let line = r#" {"grants": "b/*", "actor": "a", "list": [["a"], "b", "a"], "texts": {"b": "a"}}"#;
        assert_eq!(column(line, &["actor", "a"]), Some(29));
        assert_eq!(column(line, &["list", "a"]), Some(55));
        assert_eq!(column(line, &["texts", "b"]), Some(71));
        assert_eq!(column(line, &["grants", "a"]), Some(3), "another text");
    }

    #[test]
    fn broken_lines_are_read_up_to_where_they_break() {
        assert_eq!(text_of(r#"{"name": "a", "list": [1"#, "name").as_deref(), Some("a"));
        assert_eq!(text_of(r#"{"mcp": {"name": "b"}, "name": "a" "#, "name").as_deref(), Some("a"));
        assert_eq!(text_of(r#"{"list": [1, "name": "a"}"#, "name"), None);
        assert_eq!(text_of(r#"{"name": 3}"#, "name"), None);
    }

    const KEYS: [&str; 6] = ["name", "description", "inputSchema", "title", "\"é\\", ""];

    /// Values in which every key occurs at any depth, as a key and as a text.
    fn decoy() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            prop::sample::select(KEYS.to_vec()).prop_map(Value::from),
            Just(json!(null)),
            Just(json!(-1.5e3))
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((prop::sample::select(KEYS.to_vec()), inner), 0..4).prop_map(|entries| {
                    Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn columns_are_those_of_the_line_s_own_keys(
            keys in Just(KEYS.to_vec()).prop_shuffle(),
            values in prop::collection::vec(decoy(), KEYS.len()),
            blanks in prop::collection::vec("[ \t]{0,2}", 4),
        ) {
            let [first, second, third, fourth] = &blanks[..] else { unreachable!() };
            let mut line = format!("{first}{{");
            let mut columns = Vec::new();
            for (key, value) in keys.iter().zip(&values) {
                line += if columns.is_empty() { second } else { "," };
                line += third;
                columns.push(line.chars().count() + 1);
                line.push_str(&[&json!(key).to_string(), fourth, ":", second, &value.to_string(), third].concat());
            }
            line += "}";
            for (key, expected) in keys.iter().zip(columns) {
                prop_assert_eq!(column(&line, &[key]), Some(expected), "{} in {}", key, line);
            }
        }

        #[test]
        fn arbitrary_text_never_panics(line in "[\\[\\]{}\":,a\u{e9}\\\\ ]{0,40}", step in "[a\u{e9}\"]{0,2}") {
            column(&line, &[&step, &step, "a"]);
            text_of(&line, &step);
        }
    }
}
