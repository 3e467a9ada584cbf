//! Token estimates. They plan, split and guard; they are never shown as a measurement.

use serde::Serialize;

/// The tokenizer of every estimate: o200k, compiled in.
pub const TOKENIZER: &str = "o200k";

/// Tokens of a text under [`TOKENIZER`].
pub fn count(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

/// Tokens of the JSON text of a value.
pub fn count_json<T: Serialize>(value: &T) -> u64 {
    count(&serde_json::to_string(value).expect("plain data serialises"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_and_schemas_are_counted() {
        assert_eq!(super::count(""), 0);
        assert_eq!(super::count("search the files"), 3);
        assert!(super::count_json(&serde_json::json!({"type": "object"})) >= 4);
    }
}
