//! How a good answer is dressed: what servers do differently without calling it an error.

use serde::Deserialize;

/// The dress of an answer. What is absent is as in the reference implementation of the API. The dialect has one for all
/// answers, a fault one for those it applies to, which wins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shape {
    pub choices: Option<Choices>,
    pub usage: Option<UsageStyle>,
    /// `usage.prompt_tokens_details.cached_tokens` is reported: nothing for a new body, most of the prompt for one that came
    /// before.
    pub cached_tokens: Option<bool>,
    pub calls: Option<CallStyle>,
    pub arguments: Option<ArgumentStyle>,
    pub ids: Option<IdStyle>,
    /// `tool_calls: []` stands in answers without a call.
    pub empty_calls: Option<bool>,
    pub content: Option<ContentStyle>,
    /// The `finish_reason` of every answer, whatever it holds.
    pub finish_reason: Option<String>,
    /// `false`: a `response_format` is accepted and passed over.
    pub follows_schema: Option<bool>,
    pub stream_calls: Option<StreamCalls>,
    pub stream_names: Option<StreamNames>,
    /// `false`: pieces of a call say not which call they belong to.
    pub stream_index: Option<bool>,
    /// `false`: the stream ends without `data: [DONE]`.
    pub stream_done: Option<bool>,
    /// The chunks of an asynchronous content filter: the first without choices and ids, one at the end without a `delta`.
    pub filter_chunks: Option<bool>,
}

/// What becomes of `choices`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choices {
    #[default]
    Given,
    Missing,
    Null,
    Empty,
}

/// How tokens are reported. What a server reports that has cut the prompt is the count of what was left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageStyle {
    #[default]
    Counted,
    Missing,
    Null,
    Zero,
}

/// How a call of a tool is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStyle {
    #[default]
    Native,
    /// In the words of the answer, between `<tool_call>` tags.
    Text,
    /// Of a tool that was not offered: `no_such_tool`.
    Invented,
}

/// How the arguments of a call are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentStyle {
    /// A string with JSON in it.
    #[default]
    Text,
    /// The JSON object itself.
    Object,
    /// A string of no length if there are none, as it is with tools without parameters.
    Blank,
    /// A string with half of the JSON in it.
    Broken,
    /// JSON that fits no schema which says what it wants.
    Unfit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdStyle {
    #[default]
    Unique,
    Blank,
    Missing,
}

/// What `content` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentStyle {
    /// A string, or null beside calls.
    #[default]
    Plain,
    /// A list of parts, or null beside calls.
    Parts,
    /// A string, or a list without parts beside calls.
    EmptyList,
    /// A string, of no length beside calls.
    Blank,
    /// A string, or absent beside calls.
    Missing,
}

/// How calls are streamed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamCalls {
    /// The name first, then the arguments piece by piece.
    #[default]
    Pieces,
    /// All calls whole, in one chunk.
    Whole,
}

/// The name of a call in the pieces after the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamNames {
    #[default]
    Once,
    Blank,
    Repeated,
}

impl Shape {
    /// This shape, except where `over` says something.
    #[must_use]
    pub fn overlaid(self, over: &Self) -> Self {
        Self {
            choices: over.choices.or(self.choices),
            usage: over.usage.or(self.usage),
            cached_tokens: over.cached_tokens.or(self.cached_tokens),
            calls: over.calls.or(self.calls),
            arguments: over.arguments.or(self.arguments),
            ids: over.ids.or(self.ids),
            empty_calls: over.empty_calls.or(self.empty_calls),
            content: over.content.or(self.content),
            finish_reason: over.finish_reason.clone().or(self.finish_reason),
            follows_schema: over.follows_schema.or(self.follows_schema),
            stream_calls: over.stream_calls.or(self.stream_calls),
            stream_names: over.stream_names.or(self.stream_names),
            stream_index: over.stream_index.or(self.stream_index),
            stream_done: over.stream_done.or(self.stream_done),
            filter_chunks: over.filter_chunks.or(self.filter_chunks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_above_wins_and_what_it_leaves_open_stays() {
        let below = Shape { usage: Some(UsageStyle::Null), ids: Some(IdStyle::Blank), ..Shape::default() };
        let above = Shape { usage: Some(UsageStyle::Zero), stream_done: Some(false), ..Shape::default() };
        let shape = below.overlaid(&above);
        assert_eq!(
            shape,
            Shape {
                usage: Some(UsageStyle::Zero),
                ids: Some(IdStyle::Blank),
                stream_done: Some(false),
                ..Shape::default()
            }
        );
    }
}
