//! The rules, in one table. Ids are stable: baselines and other people's tools hold on to them. `LINT.md` explains each.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Something will be refused or counted wrong.
    Error,
    /// Something will probably mislead a model, a strategy or a reader of figures.
    Warning,
    /// Worth knowing; often on purpose.
    Note,
}

impl Level {
    pub const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Note];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is looked for.
#[derive(Debug, Serialize)]
pub struct Rule {
    pub id: &'static str,
    pub name: &'static str,
    pub level: Level,
    /// What a finding means.
    pub what: &'static str,
    /// What to do about it.
    pub fix: &'static str,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

macro_rules! rules {
    ($($constant:ident $id:literal $name:literal $level:ident: $what:literal, $fix:literal;)*) => {
        $(pub(super) static $constant: Rule =
            Rule { id: $id, name: $name, level: Level::$level, what: $what, fix: $fix };)*

        /// Every rule, by id.
        pub static RULES: &[&Rule] = &[$(&$constant),*];
    };
}

rules! {
    LOAD "TG001" "load" Error:
        "the format does not allow it, so the dataset does not load",
        "mend it; FORMAT.md says what each file holds";
    STALE_ACCEPTANCE "TG002" "stale-acceptance" Warning:
        "an entry of the baseline accepts nothing",
        "delete the entry, or correct its rule and subject";

    NAME_REFUSED "TG101" "name-refused" Warning:
        "endpoints refuse the name: they take 1 to 64 letters, digits, `_` and `-` of ASCII",
        "rename the tool, or live with the made-up name it gets on the wire";
    NAME_COLLISION "TG102" "name-collision" Warning:
        "two names are the same once refused characters, case, `-` and `_` are folded",
        "rename one of them so that they differ in a letter or digit";
    NAME_SHARED "TG103" "name-shared" Note:
        "several servers have a tool of this name, so on the wire it gets the server's name in front",
        "put the vendor into the name, or let the harness prefix it";

    DESCRIPTION_EMPTY "TG201" "description-empty" Warning:
        "the tool has no description, so only its name can be searched and understood",
        "say what the tool does, on what, and when to use it";
    DESCRIPTION_SHORT "TG202" "description-short" Note:
        "the description has fewer than 20 characters",
        "say on what it works and when to use it";
    DESCRIPTION_LONG "TG203" "description-long" Note:
        "the description has more than 1,024 characters; some endpoints refuse or cut it",
        "move details into the arguments' descriptions or a skill";
    ALIKE "TG204" "alike" Warning:
        "two descriptions are so alike that neither a model nor a retriever can tell the tools apart",
        "say in each what the other does not do, or declare the server `boilerplate`";
    INVISIBLE "TG205" "invisible" Error:
        "text that a model reads holds characters that a person does not see",
        "delete them; if they come from the source, report them there: they can carry orders";
    ADDRESSES_MODEL "TG206" "addresses-model" Warning:
        "the text gives the model orders instead of describing the tool, which skews every comparison",
        "describe what the tool does; leave the choice to the model";

    REF_UNRESOLVED "TG301" "ref-unresolved" Error:
        "a `$ref` of the schema leads nowhere inside it, and nothing is ever fetched",
        "put the definition under `$defs` and refer to it as `#/$defs/name`";
    ROOT_COMBINATOR "TG302" "root-combinator" Error:
        "endpoints want a plain object at the root of the schema, without combinators beside it",
        "make the root `\"type\": \"object\"` and move the alternatives into a property";
    ARRAY_WITHOUT_ITEMS "TG303" "array-without-items" Warning:
        "an array does not say what it holds; some endpoints refuse the schema",
        "add `items`; `{}` if anything goes";
    SCHEMA_INVALID "TG304" "schema-invalid" Error:
        "the schema is no valid JSON Schema, so arguments cannot be checked against it",
        "correct it as the message says";
    DEEP "TG305" "deep" Note:
        "arguments are nested more than 5 levels deep; models fill such arguments badly",
        "flatten the arguments or split the tool";
    EXPANDS "TG306" "expands" Warning:
        "references multiply the schema to more than 100,000 checks, so arguments are checked without some of them",
        "refer to each definition once per place, or write out fewer alternatives";

    ORPHANS "TG402" "orphans" Note:
        "some tools of the server are in no skill, so a strategy that works by skills cannot reach them",
        "add them to a skill, unless they are left out on purpose";
    TOO_MANY_SKILLS "TG403" "too-many-skills" Warning:
        "an actor sees more than 150 skills, more than a prompt should list",
        "give skills a narrower tier, or merge some";
    TIER_OF_NOBODY "TG404" "tier-of-nobody" Note:
        "skills are for a role that no actor has, so only `all` sees them",
        "correct the tier, or give an actor the role";
    SKILL_EMPTY "TG405" "skill-loads-nothing" Note:
        "the skill loads no tool, or only core tools, which are always there",
        "name the tools that it needs, or drop it";

    HEAVY "TG501" "heavy" Note:
        "the definition weighs more than 1,000 tokens",
        "shorten the schema's descriptions, or split the tool";
    TOOL_CAP "TG502" "tool-cap" Note:
        "an actor sees more than 128 tools, the most that several endpoints take in one request",
        "expect `eager` to fail there; measure strategies that defer tools";

    NAME_IN_QUERY "TG601" "name-in-query" Warning:
        "the query holds the name of a right tool, so matching words is enough to find it",
        "say it as a person would who has never seen the tool's name";
    CONTRADICTION "TG602" "contradiction" Error:
        "the same words of the same actor have different right tools",
        "delete one of the queries, or give both the union of their labels";
    REPEATED_QUERY "TG603" "repeated-query" Warning:
        "the same words of the same actor occur again with the same right tools, so they count twice",
        "delete one of the queries";
    INTENT_IN_SPLITS "TG604" "intent-in-splits" Error:
        "queries of one intent are in two splits, so what is tuned on one is measured on the other",
        "move all queries of the intent into one split";
    ACTOR_WITHOUT_GRANT "TG605" "actor-without-grant" Warning:
        "an actor may call no tool but core, or one of its grants lets it call nothing",
        "correct the grants; with `read_only` only tools annotated `readOnlyHint` are left";
    GOLD_IN_SPLITS "TG606" "gold-in-splits" Note:
        "a tool is right in `dev` and in `test`",
        "give each tool to one split, where figures are about tools never seen before";
    UNANSWERABLE "TG607" "unanswerable" Note:
        "the actor may call no tool that does a required part of the query",
        "if that is not on purpose, name another actor or widen the grants";
    GOLD_ARGUMENT "TG608" "gold-argument-unfit" Warning:
        "a label accepts a value that the tool's schema does not, so no valid call can have it",
        "give the value as the schema wants it; a list is `[[\"a\", \"b\"]]`";
    GOLD_OMITTED "TG609" "gold-may-be-omitted" Note:
        "a label lets a call leave out an argument that the schema requires, so no valid call does",
        "drop the `\"\"`";
}

/// The rule of that id.
pub(super) fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../LINT.md");

    #[test]
    fn ids_rise_and_names_are_unique() {
        assert!(RULES.is_sorted_by(|left, right| left.id < right.id));
        let names: std::collections::BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
    }

    #[test]
    fn the_document_explains_every_rule_and_no_other() {
        let headings: Vec<_> = DOCUMENT.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let rules: Vec<_> = RULES.iter().map(|rule| format!("{} {} · {}", rule.id, rule.name, rule.level)).collect();
        assert_eq!(headings, rules);
        for section in DOCUMENT.split("\n### ").skip(1) {
            assert!(section.contains("\n**Fix.** "), "no fix: {section}");
            assert!(section.contains("\n**Example.** "), "no example: {section}");
        }
    }
}
