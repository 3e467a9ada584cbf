//! The standing rules of a server.

use harness::tokens;
use serde::Deserialize;

use crate::shape::Shape;

/// What a server takes, what it refuses, and in whose words. The default takes everything.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dialect {
    /// Whose error bodies.
    pub errors: Errors,
    /// What `GET /v1/models` lists.
    pub models: Vec<String>,
    /// The key that every request must bring; none is asked for if absent.
    pub key: Option<String>,
    pub refuses: Vec<Refuses>,
    /// Faults of a schema that make the server refuse the request with all its tools.
    pub refuses_schemas: Vec<SchemaFault>,
    pub max_tools: Option<usize>,
    /// Largest JSON text of all tools together.
    pub max_tool_bytes: Option<usize>,
    pub tool_names: ToolNames,
    /// Tokens of prompt and output together, counted by the harness's tokenizer.
    pub context_tokens: Option<u64>,
    pub overflow: Overflow,
    /// What must come back with an assistant's message that called tools.
    pub wants_back: Vec<WantsBack>,
    /// Words that the content filter refuses, in any message.
    pub filtered_words: Vec<String>,
    /// Share of answers that are other ones although the request is the same.
    pub unstable: f64,
    pub shape: Shape,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            errors: Errors::default(),
            models: vec!["mock".to_owned()],
            key: None,
            refuses: Vec::new(),
            refuses_schemas: Vec::new(),
            max_tools: None,
            max_tool_bytes: None,
            tool_names: ToolNames::default(),
            context_tokens: None,
            overflow: Overflow::default(),
            wants_back: Vec::new(),
            filtered_words: Vec::new(),
            unstable: 0.0,
            shape: Shape::default(),
        }
    }
}

impl Dialect {
    pub(crate) fn refuses(&self, what: Refuses) -> bool {
        self.refuses.contains(&what)
    }

    pub(crate) fn wants_back(&self, what: WantsBack) -> bool {
        self.wants_back.contains(&what)
    }
}

/// Whose error bodies: their form, and their words where these are known to differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Errors {
    #[default]
    Openai,
    Azure,
    Deepseek,
    Gemini,
    Groq,
    /// The code is a number.
    LlamaCpp,
    /// The error is a text.
    LmStudio,
    Ollama,
    Openrouter,
    /// The code is a number.
    Vllm,
}

/// What a server refuses besides what has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refuses {
    MaxTokens,
    MaxCompletionTokens,
    /// Any other than 1.
    Temperature,
    StreamOptions,
    /// An assistant's message with `content: null`, or without.
    NullContent,
    /// Two tools of one name.
    DuplicateNames,
    /// A model that is not listed.
    UnknownModels,
    /// What the model itself wrote: a call of a tool that was not offered, or with arguments that fit no schema.
    WrongCalls,
}

/// What an assistant's message holds beyond the API, and must hold when it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WantsBack {
    /// A text beside the content; any text is taken.
    ReasoningContent,
    /// `extra_content.google.thought_signature` of the first call; nothing but the one that was given.
    ThoughtSignature,
}

/// Which names of tools are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolNames {
    #[default]
    Any,
    /// `^[a-zA-Z0-9_-]{1,64}$`
    Plain64,
    /// `^[a-zA-Z0-9_-]{1,128}$`
    Plain128,
    /// `^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`
    LetterFirst64,
}

impl ToolNames {
    pub(crate) fn longest(self) -> usize {
        match self {
            Self::Any => usize::MAX,
            Self::Plain64 | Self::LetterFirst64 => 64,
            Self::Plain128 => 128,
        }
    }

    pub(crate) fn accepts(self, name: &str) -> bool {
        let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
        let rest = |char: char| plain(char) || matches!(char, '.' | ':');
        let characters = match self {
            Self::Any => return true,
            Self::Plain64 | Self::Plain128 => name.chars().all(plain),
            Self::LetterFirst64 => {
                name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && name.chars().all(rest)
            }
        };
        characters && (1..=self.longest()).contains(&name.len())
    }
}

/// What happens to a request that does not fit the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    #[default]
    Refuse,
    /// The oldest messages are left out, then the first tools; nobody is told, and `usage` reports a full context.
    Truncate,
}

/// What is wrong with a schema in the eyes of some server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaFault {
    /// A pattern that looks ahead or behind.
    LookAround,
    /// A pattern with `\d`, `\w`, `\s` or their opposites.
    ClassEscape,
    /// A pattern that does not go from `^` to `$`.
    UnanchoredPattern,
    /// A pattern that repeats something over 2,000 times.
    BigRepeat,
    /// `oneOf`, `anyOf`, `allOf`, `enum` or `not` at the top.
    RootUnion,
    /// An object without `properties`.
    MissingProperties,
    /// An array without `items`.
    MissingItems,
    /// An option that is no text.
    OtherEnum,
    /// A branch of `anyOf` without a `type`.
    UntypedBranch,
}

/// Tokens of a request as this server counts them.
pub(crate) fn prompt_tokens(body: &serde_json::Value) -> u64 {
    tokens::count_json(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_rules_accept_what_they_say() {
        let (long, longer) = ("n".repeat(65), "n".repeat(129));
        let cases = [
            ("find_it-2", [true, true, true]),
            ("2_find", [true, true, false]),
            ("-find", [true, true, false]),
            ("find.it", [false, false, true]),
            ("find it", [false, false, false]),
            ("find/it", [false, false, false]),
            ("größe", [false, false, false]),
            ("", [false, false, false]),
            (&long, [false, true, false]),
            (&longer, [false, false, false]),
        ];
        for (name, expected) in cases {
            let rules = [ToolNames::Plain64, ToolNames::Plain128, ToolNames::LetterFirst64];
            assert_eq!(rules.map(|rule| rule.accepts(name)), expected, "{name}");
            assert!(ToolNames::Any.accepts(name));
        }
    }
}
