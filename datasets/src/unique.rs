//! JSON objects whose repeated keys are not lost: a map type keeps the last of them and says nothing.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The entries of an object in their order, repeated keys included.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pairs<V>(pub(crate) Vec<(String, V)>);

impl<V> Default for Pairs<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Pairs<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for Pairs<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Pairs(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Any JSON in which no object repeats a key, at any depth. For `#[serde(deserialize_with)]`.
pub(crate) fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    UniqueValue::deserialize(deserializer).map(|UniqueValue(value)| value)
}

/// [`from_str`] of bytes.
pub(crate) fn from_slice(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).map(|UniqueValue(value)| value)
}

/// A text of one JSON value in which no object repeats a key.
pub(crate) fn from_str(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|UniqueValue(value)| value)
}

struct UniqueValue(Value);

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
                Ok(flag.into())
            }

            fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
                Ok(number.into())
            }

            fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
                Ok(number.into())
            }

            fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
                Ok(number.into())
            }

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(text.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut values = Vec::new();
                while let Some(UniqueValue(value)) = seq.next_element()? {
                    values.push(value);
                }
                Ok(Value::Array(values))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut object = Map::new();
                while let Some(key) = map.next_key::<String>()? {
                    if object.contains_key(&key) {
                        return Err(de::Error::custom(format_args!("duplicate field `{key}`")));
                    }
                    let UniqueValue(value) = map.next_value()?;
                    object.insert(key, value);
                }
                Ok(Value::Object(object))
            }
        }

        deserializer.deserialize_any(Any).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repeated_keys_are_kept_or_refused() {
        let Pairs(entries) = serde_json::from_str::<Pairs<u8>>(r#"{"b": 1, "a": 2, "b": 3}"#).unwrap();
        assert_eq!(entries, [("b".to_owned(), 1), ("a".to_owned(), 2), ("b".to_owned(), 3)]);
        let error = serde_json::from_str::<UniqueValue>(r#"[{"x": {"a": 1, "a": 1}}]"#).err().unwrap();
        assert!(error.to_string().starts_with("duplicate field `a`"), "{error}");
        assert!(
            from_str(r#"{"a": {"b": 1, "b": 1}}"#).is_err() && from_str("{} {}").is_err() && from_str("[{}]").is_ok()
        );
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_ordinary_value(value in json()) {
            let text = serde_json::to_string(&value).unwrap();
            let UniqueValue(read) = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}
