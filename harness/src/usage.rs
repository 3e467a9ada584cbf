//! Tokens and money.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tokens of one generation, or a sum of them. `None` = not reported, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All prompt tokens, cached ones included.
    pub input_tokens: u64,
    /// All generated tokens, reasoning included.
    pub output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// More than this is no count of one generation; sums of what is below cannot overflow.
const MOST_TOKENS: u64 = 1_000_000_000;

impl Usage {
    pub fn total(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }

    /// Reads a `usage` object. Missing, null, without any prompt tokens (some servers send zeros) or beyond any context is
    /// `None`: not reported.
    pub fn parse(usage: &Value) -> Option<Self> {
        let tokens = |value: &Value| value.as_u64().filter(|&tokens| tokens <= MOST_TOKENS);
        let input_tokens = tokens(&usage["prompt_tokens"]).filter(|&tokens| tokens > 0)?;
        Some(Self {
            input_tokens,
            output_tokens: tokens(&usage["completion_tokens"])?,
            cache_read_tokens: usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
            cache_write_tokens: usage["prompt_tokens_details"]["cache_write_tokens"].as_u64(),
            reasoning_tokens: usage["completion_tokens_details"]["reasoning_tokens"].as_u64(),
        })
    }
}

impl Add for Usage {
    type Output = Self;

    /// A part that one side did not report is unknown in the sum.
    fn add(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Self {
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cache_read_tokens: both(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: both(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens: both(self.reasoning_tokens, other.reasoning_tokens),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(mut iter: I) -> Self {
        let first = iter.next().unwrap_or_default();
        iter.fold(first, |sum, usage| sum + usage)
    }
}

/// Where token counts come from. The two are never added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The endpoint's own `usage`.
    Reported,
    /// Our tokenizer, see [`crate::tokens`].
    Estimated,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Price of a cached prompt token; without it cached tokens cost as much as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
}

impl Price {
    /// Cost in US dollars with the discount for cached tokens where it is known.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let cached = usage.cache_read_tokens.unwrap_or(0).min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        (fresh as f64 * self.input
            + cached as f64 * self.cache_read.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output)
            / 1e6
    }
}

/// A dated table of prices by model name. A model that is not in it has an unknown price, never a price of zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// The day on which the prices were read, `YYYY-MM-DD`.
    pub date: String,
    #[serde(default)]
    pub models: BTreeMap<String, Price>,
}

impl PriceTable {
    pub fn get(&self, model: &str) -> Option<Price> {
        self.models.get(model).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_usage_is_not_zero() {
        let absurd = json!({"prompt_tokens": u64::MAX, "completion_tokens": 1});
        for body in [json!(null), json!({}), json!({"prompt_tokens": 0, "completion_tokens": 0}), absurd] {
            assert_eq!(Usage::parse(&body), None, "{body}");
        }
        let usage = Usage::parse(&json!({"prompt_tokens": 7, "completion_tokens": 0})).unwrap();
        assert_eq!((usage.input_tokens, usage.cache_read_tokens), (7, None));
    }

    #[test]
    fn unknown_parts_stay_unknown_in_a_sum() {
        let known = Usage { input_tokens: 1, output_tokens: 2, cache_read_tokens: Some(1), ..Usage::default() };
        let unknown = Usage { cache_read_tokens: None, ..known };
        assert_eq!([known, known].into_iter().sum::<Usage>().cache_read_tokens, Some(2));
        assert_eq!([known, unknown].into_iter().sum::<Usage>().cache_read_tokens, None);
    }

    #[test]
    fn cached_tokens_are_cheaper_only_where_a_price_says_so() {
        let usage =
            Usage { input_tokens: 1_000_000, output_tokens: 0, cache_read_tokens: Some(500_000), ..Usage::default() };
        let price = Price { input: 2.0, output: 8.0, cache_read: None };
        assert!((price.cost(&usage) - 2.0).abs() < 1e-12);
        let price = Price { cache_read: Some(0.5), ..price };
        assert!((price.cost(&usage) - 1.25).abs() < 1e-12);
    }
}
