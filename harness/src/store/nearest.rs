//! Why a recording does not know a request: where it differs from the recorded one that is nearest.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::ids::Digest;
use crate::text::plain;

/// Differences that are told; more are counted.
const TOLD: usize = 4;
/// Characters of a value that are told.
const SHOWN: usize = 60;

/// The recorded request that is nearest to one that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    pub key: Digest,
    pub differences: Vec<Difference>,
}

/// A place where two requests differ. A value is one harmless line; `None` = there is none on that side.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// JSON pointer into the request.
    pub pointer: String,
    pub recorded: Option<String>,
    pub asked: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, recorded, asked } = self;
        match (recorded, asked) {
            (Some(recorded), Some(asked)) => write!(f, "{pointer} was {recorded}, is {asked}"),
            (Some(recorded), None) => write!(f, "{pointer} was {recorded}, is gone"),
            (None, Some(asked)) => write!(f, "{pointer} is new: {asked}"),
            (None, None) => write!(f, "{pointer}"),
        }
    }
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<_> = self.differences.iter().take(TOLD).map(ToString::to_string).collect();
        let places = if self.differences.len() == 1 { "place" } else { "places" };
        write!(f, "the nearest recorded one, {}, differs in {} {places}: ", self.key.short(), self.differences.len())?;
        f.write_str(&told.join("; "))?;
        match self.differences.len() - told.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// How many leaves differ, at least; counting ends above `most`.
pub(super) fn distance(a: &Value, b: &Value, most: usize) -> usize {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut sum = 0;
            for (_, a, b) in pairs(a, b) {
                sum += a.zip(b).map_or(1, |(a, b)| distance(a, b, most));
                if sum > most {
                    break;
                }
            }
            sum
        }
        (Value::Array(a), Value::Array(b)) => {
            let mut sum = a.len().abs_diff(b.len());
            for (a, b) in a.iter().zip(b) {
                if sum > most {
                    break;
                }
                sum += distance(a, b, most);
            }
            sum
        }
        _ => usize::from(a != b),
    }
}

/// Every difference, in the order of the recorded request.
pub(super) fn differences(recorded: &Value, asked: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(recorded), Some(asked), &mut found);
    found
}

fn compare(pointer: &str, recorded: Option<&Value>, asked: Option<&Value>, found: &mut Vec<Difference>) {
    match (recorded, asked) {
        (a, b) if a == b => {}
        (Some(Value::Object(recorded)), Some(Value::Object(asked))) => {
            for (key, a, b) in pairs(recorded, asked) {
                let key = key.replace('~', "~0").replace('/', "~1");
                compare(&format!("{pointer}/{}", plain(&key)), a, b, found);
            }
        }
        (Some(recorded @ Value::Array(a)), Some(asked @ Value::Array(b))) => match (names(recorded), names(asked)) {
            // Tools that moved would differ one by one.
            (Some(a), Some(b)) if a != b => found.push(tools(pointer, &a, &b)),
            _ => (0..a.len().max(b.len())).for_each(|place| {
                compare(&format!("{pointer}/{place}"), a.get(place), b.get(place), found);
            }),
        },
        (Some(Value::String(a)), Some(Value::String(b))) => {
            let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
            found.push(Difference {
                pointer: pointer.to_owned(),
                recorded: Some(shown(a, same)),
                asked: Some(shown(b, same)),
            });
        }
        (a, b) => {
            let text = |value: &Value| shown(&value.to_string(), 0).trim_matches('"').to_owned();
            found.push(Difference { pointer: pointer.to_owned(), recorded: a.map(text), asked: b.map(text) });
        }
    }
}

/// Keys of either object with both values.
fn pairs<'v>(
    a: &'v Map<String, Value>,
    b: &'v Map<String, Value>,
) -> impl Iterator<Item = (&'v str, Option<&'v Value>, Option<&'v Value>)> {
    let new = b.iter().filter(|(key, _)| !a.contains_key(*key)).map(|(key, value)| (key.as_str(), None, Some(value)));
    a.iter().map(|(key, value)| (key.as_str(), Some(value), b.get(key))).chain(new)
}

/// Names of a list of tools.
fn names(list: &Value) -> Option<Vec<&str>> {
    list.as_array()?.iter().map(|tool| tool["function"]["name"].as_str()).collect()
}

fn tools(pointer: &str, recorded: &[&str], asked: &[&str]) -> Difference {
    let only = |of: &[&str], other: &[&str]| {
        let other: BTreeSet<_> = other.iter().collect();
        let only: Vec<_> = of.iter().filter(|name| !other.contains(name)).copied().collect();
        let names = if only.is_empty() { String::new() } else { format!(", {}", shown(&only.join(" "), 0)) };
        Some(format!("{} tools, {} of them only here{names}", of.len(), only.len()))
    };
    Difference { pointer: pointer.to_owned(), recorded: only(recorded, asked), asked: only(asked, recorded) }
}

/// A stretch of a text from shortly before the character where it starts to differ.
fn shown(text: &str, from: usize) -> String {
    let start = if from > SHOWN / 2 { from - SHOWN / 4 } else { 0 };
    let stretch: String = text.chars().skip(start).take(SHOWN).collect();
    let cut = text.chars().nth(start + SHOWN).is_some();
    format!("\"{}{}{}\"", if start > 0 { "…" } else { "" }, plain(&stretch), if cut { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn told(recorded: &Value, asked: &Value) -> String {
        Nearest { key: Digest::of(b""), differences: differences(recorded, asked) }.to_string()
    }

    #[test]
    fn differences_are_placed_and_short() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        let long = "same words ".repeat(30);
        let recorded = json!({
            "endpoint": "e", "body": {"temperature": 0.0, "seed": 1, "a/b": [1, 2],
            "messages": [{"content": format!("{long}and then cats")}], "tools": [tool("x"), tool("y")]},
        });
        let asked = json!({
            "endpoint": "e", "body": {"temperature": 0.7, "top_p": 1, "a/b": [1, 3],
            "messages": [{"content": format!("{long}and then \u{1b}dogs")}], "tools": [tool("y"), tool("z"), tool("w")]},
        });
        let text = told(&recorded, &asked);
        insta::assert_snapshot!(text, @r#"the nearest recorded one, af1349b9f5f9, differs in 6 places: /body/temperature was 0.0, is 0.7; /body/seed was 1, is gone; /body/a~1b/1 was 2, is 3; /body/messages/0/content was "…words and then cats", is "…words and then \u{1b}dogs"; and 2 more"#);
        assert!(!text.contains('\u{1b}'));
        let all = differences(&recorded, &asked);
        insta::assert_snapshot!(all.last().unwrap().to_string(), @"/body/top_p is new: 1");
        assert_eq!(told(&json!({"a": 1}), &json!({"a": 2})).matches("differs in 1 place:").count(), 1);
    }

    #[test]
    fn the_same_tools_in_another_order_are_one_difference() {
        let tool = |name: &str| json!({"function": {"name": name}});
        let found = differences(&json!([tool("a"), tool("b")]), &json!([tool("b"), tool("a")]));
        assert_eq!(found.len(), 1);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<u8>().prop_map(Value::from),
            "[ab]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn equal_values_and_only_they_do_not_differ(a in value(), b in value()) {
            prop_assert_eq!(differences(&a, &b).is_empty(), a == b);
            prop_assert_eq!(distance(&a, &b, usize::MAX) == 0, a == b);
            prop_assert_eq!(distance(&a, &b, usize::MAX), distance(&b, &a, usize::MAX));
        }
    }
}
