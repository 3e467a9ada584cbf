//! What the probes have found so far, typed: later probes and the profile rest on it.

use serde_json::{Value, json};

use crate::chat::{ChatReply, Message};
use crate::endpoint::{NameRule, OutputLimit};
use crate::tokens;

/// Room that a model which thinks before it answers gets for that.
const THINKING_TOKENS: u32 = 1_024;

/// Whether a thing works; `None` where nothing is known.
pub(super) type Known = Option<bool>;

/// What came of offering one tool natively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Native {
    #[default]
    Untested,
    /// It was called.
    Calls,
    /// The request was taken, and no tool was called.
    Silent,
    Refused,
}

/// A question, the call it led to, and the tool behind it.
#[derive(Clone, Debug)]
pub(super) struct ToolTurn {
    /// The request without limits.
    pub(super) messages: Vec<Message>,
    pub(super) call_id: String,
}

/// A figure of the context and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContextLimit {
    pub(super) tokens: u64,
    pub(super) how: String,
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) model: String,
    /// What the server calls the model that answers.
    pub(super) served: Option<String>,
    pub(super) output_limit: OutputLimit,
    pub(super) omit_temperature: bool,
    /// The model writes before it answers.
    pub(super) thinks: bool,
    pub(super) native: Native,
    pub(super) call: Option<ToolTurn>,
    pub(super) echo: Known,
    /// A schema was accepted, and it bound the answer.
    pub(super) schema_binds: Known,
    pub(super) text_choice: Known,
    /// The most tools that one request was seen to offer.
    pub(super) tools_accepted: usize,
    /// The fewest tools that were refused for their number.
    pub(super) tools_refused: Option<usize>,
    pub(super) name_rule: Option<NameRule>,
    /// Completions of two prompts and of a longer answer.
    pub(super) small: Option<Sample>,
    pub(super) large: Option<Sample>,
    pub(super) written: Option<Sample>,
    /// The words of the longer answer, the first of three to compare.
    pub(super) sentence: Option<String>,
    /// The request of `large`, and the largest that was accepted: to be sent again.
    pub(super) large_request: Option<Value>,
    pub(super) longest: Option<(Value, Sample)>,
    pub(super) stated_context: Option<ContextLimit>,
    pub(super) context_limit: Option<ContextLimit>,
    /// The largest prompt that was seen to be read whole.
    pub(super) context_tested: Option<u64>,
    pub(super) truncates: bool,
    /// Time of two requests at once over that of one.
    pub(super) two_at_once: Option<f64>,
    pub(super) stream_usage: Known,
    pub(super) embeds: Known,
}

impl Facts {
    /// A request as the endpoint takes it, as far as is known, with room for an answer of so many tokens.
    pub(super) fn request(&self, messages: &Value, answer_tokens: u32) -> Value {
        let mut body = json!({"model": self.model, "messages": messages});
        if !self.omit_temperature {
            body["temperature"] = json!(0.0);
        }
        let thinking = if self.thinks { THINKING_TOKENS } else { 0 };
        body[self.output_limit.as_str()] = json!(answer_tokens + thinking);
        body
    }

    /// Tokens by the server's count for one of our estimate; measured between two prompts, so that the template cancels out.
    pub(super) fn ratio(&self) -> Option<f64> {
        let (small, large) = (self.small?, self.large?);
        if !small.reported || !large.reported || large.estimated <= small.estimated {
            return None;
        }
        let ratio = large.input.saturating_sub(small.input) as f64 / (large.estimated - small.estimated) as f64;
        (ratio > 0.0).then_some(ratio)
    }

    /// What our estimate of a prompt would be by the server's count.
    pub(super) fn by_server(&self, estimated: u64) -> f64 {
        estimated as f64 * self.ratio().unwrap_or(1.0)
    }
}

/// One user message.
pub(super) fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

/// Time and tokens of one completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// By the server's count, else our estimate.
    pub(super) input: u64,
    pub(super) output: u64,
    /// Our estimate of the prompt.
    pub(super) estimated: u64,
    pub(super) seconds: f64,
    pub(super) reported: bool,
}

impl Sample {
    pub(super) fn new(reply: &ChatReply, estimated: u64, seconds: f64) -> Self {
        let (input, output) = reply
            .usage
            .map_or_else(|| (estimated, tokens::count(&reply.text)), |usage| (usage.input_tokens, usage.output_tokens));
        Self { input, output, estimated, seconds, reported: reply.usage.is_some() }
    }
}

/// Tokens per second, as far as they could be told from the time that every request takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) prompt_per_s: Option<f64>,
    pub(super) output_per_s: Option<f64>,
}

impl Rates {
    /// Differences in time below this are noise.
    const NOISE_S: f64 = 0.03;

    /// From a short prompt with a short answer, a longer answer, and a longer prompt.
    pub(super) fn measured(small: Sample, written: Option<Sample>, large: Option<Sample>) -> Self {
        let output_per_s =
            written.and_then(|written| rate(written.output, small.output, written.seconds - small.seconds));
        let prompt_per_s = large.and_then(|large| {
            let writing = output_per_s.map_or(0.0, |rate| (large.output as f64 - small.output as f64) / rate);
            rate(large.input, small.input, large.seconds - small.seconds - writing)
        });
        Self { prompt_per_s, output_per_s }
    }

    /// The most that a request takes; `None` if nothing was measured.
    pub(super) fn seconds(&self, input: u64, output: u64) -> Option<f64> {
        let reading = self.prompt_per_s.map(|rate| input as f64 / rate);
        let writing = self.output_per_s.map(|rate| output as f64 / rate);
        match (reading, writing) {
            (None, None) => None,
            (reading, writing) => Some(reading.unwrap_or(0.0) + writing.unwrap_or(0.0)),
        }
    }
}

/// Tokens per second of what one answer had more than another; `None` if that drowns in noise.
fn rate(more: u64, fewer: u64, seconds: f64) -> Option<f64> {
    (more > fewer && seconds > Rates::NOISE_S).then(|| (more - fewer) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(input: u64, output: u64, seconds: f64) -> Sample {
        Sample { input, output, estimated: input, seconds, reported: true }
    }

    #[test]
    fn rates_come_from_differences() {
        // 0.5 s for every request, 40 prompt tokens and 10 output tokens a second.
        let small = sample(20, 2, 0.5 + 0.5 + 0.2);
        let written = sample(24, 22, 0.5 + 0.6 + 2.2);
        let large = sample(140, 2, 0.5 + 3.5 + 0.2);
        let rates = Rates::measured(small, Some(written), Some(large));
        assert!((rates.prompt_per_s.unwrap() - 40.0).abs() < 1e-9);
        // The two prompts differ by four tokens, which is neglected.
        assert!((rates.output_per_s.unwrap() - 20.0 / 2.1).abs() < 1e-9);
        assert!((rates.seconds(400, 0).unwrap() - 10.0).abs() < 1e-9);
        let quick = Rates::measured(sample(20, 2, 0.5), Some(sample(20, 22, 0.51)), Some(sample(140, 2, 0.4)));
        assert_eq!((quick, quick.seconds(1_000, 1_000)), (Rates::default(), None), "noise is no speed");
    }

    #[test]
    fn the_ratio_is_known_only_from_reported_counts() {
        let mut facts = Facts { small: Some(sample(30, 1, 1.0)), ..Facts::default() };
        assert_eq!(facts.ratio(), None);
        facts.large = Some(Sample { input: 270, estimated: 230, ..sample(0, 1, 1.0) });
        assert!((facts.ratio().unwrap() - 1.2).abs() < 1e-9);
        facts.large = Some(Sample { reported: false, ..facts.large.unwrap() });
        assert_eq!(facts.ratio(), None);
    }

    #[test]
    fn requests_follow_what_is_known() {
        let mut facts = Facts { model: "m".to_owned(), ..Facts::default() };
        let body = facts.request(&user("hi"), 8);
        assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.0), &json!(8)));
        facts.omit_temperature = true;
        facts.thinks = true;
        facts.output_limit = OutputLimit::MaxCompletionTokens;
        let body = facts.request(&user("hi"), 8);
        assert_eq!(body.get("temperature"), None);
        assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(1_032)));
    }
}
