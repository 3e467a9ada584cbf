//! What an endpoint cannot read in a schema: the `[schema]` table of a profile.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rewrite;

/// What becomes of `allOf`, `anyOf`, `oneOf`, `not` and `enum` at the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootCombinators {
    #[default]
    Keep,
    /// They are left out.
    Drop,
    /// One object that has the properties of all alternatives and requires what each of them requires.
    Merge,
}

/// Which regular expressions are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropPatterns {
    #[default]
    None,
    /// Those that look ahead or behind.
    Lookaround,
    /// Those that a grammar of plain rules cannot say: look-around, shorthand classes like `\d`, no anchor at an end.
    Unportable,
    All,
}

/// Rules that often go together, by what such an endpoint wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// A plain object at the root, arrays that say what they hold, no look-around.
    PlainObject,
    /// One type per schema, strings in enumerations, no references, few keywords.
    StrictTypes,
    /// Schemas are compiled to a grammar that knows no regular expressions and no long repeats.
    Grammar,
}

/// How schemas of tools are rewritten for an endpoint. By default not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of the table that a person writes")]
pub struct SchemaRules {
    #[serde(skip_serializing_if = "is_default")]
    pub root_combinators: RootCombinators,
    /// Every object has `properties`, and the root is one.
    #[serde(skip_serializing_if = "is_default")]
    pub ensure_properties: bool,
    /// Every array has `items`, and they are one schema and no list of them.
    #[serde(skip_serializing_if = "is_default")]
    pub array_items: bool,
    /// Enumerations hold strings; others become a sentence of the description.
    #[serde(skip_serializing_if = "is_default")]
    pub string_enums: bool,
    /// Every schema says one type: lists of types become `anyOf`, a missing one is guessed.
    #[serde(skip_serializing_if = "is_default")]
    pub one_type: bool,
    /// `oneOf` becomes `anyOf`, `allOf` is merged into the schema that it stands in. Inlines references.
    #[serde(skip_serializing_if = "is_default")]
    pub any_of_only: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub drop_patterns: DropPatterns,
    /// Lengths, counts and repeats of a pattern above this are left out.
    #[serde(skip_serializing_if = "is_default")]
    pub largest_repeat: Option<u64>,
    /// What a `$ref` points at takes its place; what refers to itself becomes anything.
    #[serde(skip_serializing_if = "is_default")]
    pub inline_refs: bool,
    /// Formats that stay; all of them if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_formats: Option<Vec<String>>,
    /// Keywords that are left out. An argument of that name stays.
    #[serde(skip_serializing_if = "is_default")]
    pub drop_keywords: Vec<String>,
}

/// The table as a person writes it: a preset, and what differs from it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    preset: Option<Preset>,
    root_combinators: Option<RootCombinators>,
    ensure_properties: Option<bool>,
    array_items: Option<bool>,
    string_enums: Option<bool>,
    one_type: Option<bool>,
    any_of_only: Option<bool>,
    drop_patterns: Option<DropPatterns>,
    largest_repeat: Option<u64>,
    inline_refs: Option<bool>,
    keep_formats: Option<Vec<String>>,
    drop_keywords: Option<Vec<String>>,
}

impl TryFrom<Written> for SchemaRules {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let base = written.preset.map_or_else(Self::default, Preset::rules);
        let rules = Self {
            root_combinators: written.root_combinators.unwrap_or(base.root_combinators),
            ensure_properties: written.ensure_properties.unwrap_or(base.ensure_properties),
            array_items: written.array_items.unwrap_or(base.array_items),
            string_enums: written.string_enums.unwrap_or(base.string_enums),
            one_type: written.one_type.unwrap_or(base.one_type),
            any_of_only: written.any_of_only.unwrap_or(base.any_of_only),
            drop_patterns: written.drop_patterns.unwrap_or(base.drop_patterns),
            largest_repeat: written.largest_repeat.or(base.largest_repeat),
            inline_refs: written.inline_refs.unwrap_or(base.inline_refs),
            keep_formats: written.keep_formats.or(base.keep_formats),
            drop_keywords: written.drop_keywords.unwrap_or(base.drop_keywords),
        };
        match rules.contradiction() {
            Some((rule, keyword)) => {
                Err(format!("`drop_keywords` leaves out `{keyword}`, which `{rule}` puts in; take one of the two away"))
            }
            None => Ok(rules),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The longest repeat that a compiled grammar is known to take.
const GRAMMAR_REPEAT: u64 = 1_000;

/// Keywords outside the `OpenAPI` subset that endpoints with one type per schema read.
const BEYOND_OPENAPI: [&str; 27] = [
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "if",
    "then",
    "else",
    "not",
    "contains",
    "uniqueItems",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "examples",
    "deprecated",
    "readOnly",
];

impl Preset {
    pub fn rules(self) -> SchemaRules {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let plain_object = SchemaRules {
            root_combinators: RootCombinators::Merge,
            ensure_properties: true,
            array_items: true,
            drop_patterns: DropPatterns::Lookaround,
            ..SchemaRules::default()
        };
        match self {
            Self::PlainObject => plain_object,
            Self::StrictTypes => SchemaRules {
                string_enums: true,
                one_type: true,
                any_of_only: true,
                inline_refs: true,
                keep_formats: Some(words(&["date-time", "enum", "int32", "int64", "float", "double"])),
                drop_keywords: words(&BEYOND_OPENAPI),
                ..plain_object
            },
            Self::Grammar => SchemaRules {
                drop_patterns: DropPatterns::All,
                largest_repeat: Some(GRAMMAR_REPEAT),
                ..SchemaRules::default()
            },
        }
    }
}

impl SchemaRules {
    /// Schemas are sent as they are.
    pub fn is_off(&self) -> bool {
        is_default(self)
    }

    /// A rule that is on, and a keyword that it needs and another rule leaves out.
    fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let needs: [(bool, &str, &[&str]); 4] = [
            (self.ensure_properties, "ensure_properties", &["type", "properties"]),
            (self.array_items, "array_items", &["items"]),
            (self.one_type, "one_type", &["type", "anyOf"]),
            (self.any_of_only, "any_of_only", &["anyOf"]),
        ];
        let dropped = |keyword: &&&str| self.drop_keywords.iter().any(|dropped| dropped == **keyword);
        needs
            .iter()
            .filter(|(on, ..)| *on)
            .find_map(|(_, rule, keywords)| Some((*rule, *keywords.iter().find(dropped)?)))
    }

    /// Lines of the `[schema]` table that would change this schema: what to try where an endpoint refuses it.
    pub fn advice(schema: &Value) -> Vec<&'static str> {
        let rules = SchemaRules::default;
        let lines = [
            ("root_combinators = \"merge\"", Self { root_combinators: RootCombinators::Merge, ..rules() }),
            ("ensure_properties = true", Self { ensure_properties: true, ..rules() }),
            ("array_items = true", Self { array_items: true, ..rules() }),
            ("drop_patterns = \"lookaround\"", Self { drop_patterns: DropPatterns::Lookaround, ..rules() }),
            ("drop_patterns = \"all\"", Self { drop_patterns: DropPatterns::All, ..rules() }),
            ("largest_repeat = 1000", Self { largest_repeat: Some(GRAMMAR_REPEAT), ..rules() }),
            ("string_enums = true", Self { string_enums: true, ..rules() }),
            ("one_type = true", Self { one_type: true, ..rules() }),
            ("inline_refs = true", Self { inline_refs: true, ..rules() }),
            ("any_of_only = true", Self { any_of_only: true, ..rules() }),
        ];
        let mut advice: Vec<_> =
            lines.iter().filter(|(_, rules)| !rewrite(schema, rules).1.is_empty()).map(|(line, _)| *line).collect();
        // A table cannot set one key twice; look-around is the more common culprit and loses less.
        if advice.contains(&lines[3].0) {
            advice.retain(|line| *line != lines[4].0);
        }
        advice
    }
}

/// The rule behind a rewrite, by the name of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    RootCombinators,
    EnsureProperties,
    ArrayItems,
    StringEnums,
    OneType,
    AnyOfOnly,
    DropPatterns,
    LargestRepeat,
    InlineRefs,
    KeepFormats,
    DropKeywords,
    /// A place where a looser part would make the whole tighter: below `not`, `if`, `oneOf`, beside `unevaluated…`.
    Consequence,
    /// Below the depth to which schemas are read.
    Depth,
}

impl Rule {
    /// As in stored files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RootCombinators => "root_combinators",
            Self::EnsureProperties => "ensure_properties",
            Self::ArrayItems => "array_items",
            Self::StringEnums => "string_enums",
            Self::OneType => "one_type",
            Self::AnyOfOnly => "any_of_only",
            Self::DropPatterns => "drop_patterns",
            Self::LargestRepeat => "largest_repeat",
            Self::InlineRefs => "inline_refs",
            Self::KeepFormats => "keep_formats",
            Self::DropKeywords => "drop_keywords",
            Self::Consequence => "consequence",
            Self::Depth => "depth",
        }
    }
}
