//! One walk over a schema: references, then the rules for each place, then what stands below it.

use serde_json::{Map, Value};

use super::combine::{MOST_NESTED, conjoin, fold};
use super::place::{Place, is_annotation, place, step};
use super::refs::Refs;
use super::rules::{RootCombinators, Rule, SchemaRules};
use super::{DEEPEST, Rewrite};

/// What must not stand at the root beside `type: object`, references first.
const AT_ROOT: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "not", "enum"];
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Texts of a rewrite are cut to this.
const SHORT_CHARS: usize = 120;

/// The schema as the rules want it, what was changed, and whether other values may fit it now.
pub(super) fn rewritten(schema: &Value, rules: &SchemaRules, inlines: bool) -> (Value, Vec<Rewrite>, bool) {
    let refs = Refs::new(schema);
    let mut walk = Walk { rules, inlines, refs, at: String::new(), log: Vec::new(), changed: 0 };
    let mut schema = schema.clone();
    walk.root(&mut schema);
    (schema, walk.log, walk.changed > 0)
}

pub(super) struct Walk<'r> {
    pub(super) rules: &'r SchemaRules,
    inlines: bool,
    refs: Refs<'r>,
    /// JSON pointer of the place that is looked at.
    at: String,
    log: Vec<Rewrite>,
    /// Rewrites after which other values may fit.
    pub(super) changed: usize,
}

impl Walk<'_> {
    fn root(&mut self, schema: &mut Value) {
        // Arguments are an object, whatever the root says or leaves unsaid.
        if self.rules.ensure_properties && !schema.is_object() {
            self.note(Rule::EnsureProperties, None, short(schema), "{}");
            *schema = Value::Object(Map::new());
        }
        self.schema(schema, 0);
    }

    fn schema(&mut self, schema: &mut Value, depth: usize) {
        if self.rules.one_type && *schema == Value::Bool(true) {
            *schema = Value::Object(Map::new());
        }
        let Value::Object(map) = schema else { return };
        if depth > DEEPEST {
            if !map.is_empty() {
                self.note(Rule::Depth, None, "a schema", "{}");
                self.changed += 1;
                map.clear();
            }
            return;
        }
        let before = self.changed;
        let mut entered = 0;
        if self.inlines {
            entered += self.inline(map);
        }
        if depth == 0 {
            self.root_combinators(map);
            // Also one that came up from an alternative: it says what an enumeration would, and has no better place at the root.
            if self.rules.root_combinators != RootCombinators::Keep {
                self.leave_out(Rule::RootCombinators, map, "const");
            }
        }
        if self.rules.any_of_only {
            entered += self.merge_all_of(map);
            self.one_of_as_any_of(map, Rule::AnyOfOnly);
        }
        self.keywords(map, depth == 0);
        self.children(map, depth);
        if self.changed > before {
            for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
                self.leave_out(Rule::Consequence, map, keyword);
            }
        }
        self.refs.leave(entered);
    }

    fn children(&mut self, map: &mut Map<String, Value>, depth: usize) {
        let mut looser = Vec::new();
        let base = self.at.len();
        for (keyword, value) in map.iter_mut() {
            let before = self.changed;
            step(&mut self.at, keyword);
            let inner = self.at.len();
            match (place(keyword, value), value) {
                (Place::One, schema) => self.schema(schema, depth + 1),
                (Place::List, Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter_mut().enumerate() {
                        step(&mut self.at, &index.to_string());
                        self.schema(schema, depth + 1);
                        self.at.truncate(inner);
                    }
                }
                (Place::Named, Value::Object(schemas)) => {
                    for (name, schema) in schemas.iter_mut() {
                        step(&mut self.at, name);
                        self.schema(schema, depth + 1);
                        self.at.truncate(inner);
                    }
                }
                _ => {}
            }
            self.at.truncate(base);
            if self.changed > before {
                looser.push(keyword.clone());
            }
        }
        for keyword in looser {
            self.mend(map, &keyword);
        }
    }

    /// A part became looser; where that would make the whole tighter, the whole is made looser too.
    fn mend(&mut self, map: &mut Map<String, Value>, keyword: &str) {
        let gone: &[&str] = match keyword {
            "not" => &["not"],
            "if" => &["if", "then", "else"],
            "contains" => &["maxContains"],
            "oneOf" => return self.one_of_as_any_of(map, Rule::Consequence),
            _ => &[],
        };
        for keyword in gone {
            self.leave_out(Rule::Consequence, map, keyword);
        }
    }

    /// Puts what references point at in their place. Returns how many references that were.
    fn inline(&mut self, map: &mut Map<String, Value>) -> usize {
        let mut entered = 0;
        self.leave_out_definitions(map);
        while let Some(Value::String(reference)) = map.get("$ref").cloned() {
            map.shift_remove("$ref");
            if self.refs.alone {
                map.retain(|keyword, _| is_annotation(keyword));
            }
            match self.refs.enter(&reference) {
                Ok(target) => {
                    self.note(Rule::InlineRefs, Some("$ref"), reference, short(target));
                    entered += 1;
                    let looser = match target {
                        Value::Object(target) => conjoin(map, target),
                        other => *other == Value::Bool(false),
                    };
                    self.changed += usize::from(looser);
                    self.leave_out_definitions(map);
                }
                Err(why) => {
                    self.note(Rule::InlineRefs, Some("$ref"), reference, format!("anything: {why}"));
                    self.changed += 1;
                }
            }
        }
        entered
    }

    fn leave_out_definitions(&mut self, map: &mut Map<String, Value>) {
        if !self.refs.keeps_definitions {
            for keyword in DEFINITIONS {
                self.leave_out(Rule::InlineRefs, map, keyword);
            }
        }
    }

    fn root_combinators(&mut self, map: &mut Map<String, Value>) {
        let merge = self.rules.root_combinators == RootCombinators::Merge;
        let before: Vec<_> = AT_ROOT.iter().filter_map(|&keyword| Some((keyword, short(map.get(keyword)?)))).collect();
        if self.rules.root_combinators == RootCombinators::Keep || before.is_empty() {
            return;
        }
        // From the deepest level on only references are followed.
        fold(&mut self.refs, map, if merge { 0 } else { MOST_NESTED });
        for keyword in &AT_ROOT[1..] {
            map.shift_remove(*keyword);
        }
        for (keyword, before) in before {
            let merged = keyword == "$ref" || merge && !["not", "enum"].contains(&keyword);
            self.note(Rule::RootCombinators, Some(keyword), before, if merged { "merged into the root" } else { "" });
        }
        self.changed += 1;
    }

    fn merge_all_of(&mut self, map: &mut Map<String, Value>) -> usize {
        let mut entered = 0;
        for _ in 0..MOST_NESTED {
            let Some(Value::Array(members)) = map.get("allOf").cloned() else { return entered };
            let all = map.shift_remove("allOf").unwrap_or_default();
            self.note(Rule::AnyOfOnly, Some("allOf"), short(&all), "merged");
            for member in members {
                let looser = match member {
                    Value::Object(mut member) => {
                        entered += self.inline(&mut member);
                        conjoin(map, &member)
                    }
                    other => other == Value::Bool(false),
                };
                self.changed += usize::from(looser);
            }
        }
        self.leave_out(Rule::AnyOfOnly, map, "allOf");
        entered
    }

    fn one_of_as_any_of(&mut self, map: &mut Map<String, Value>, rule: Rule) {
        let unwanted = self.rules.drop_keywords.iter().any(|keyword| keyword == "anyOf");
        if unwanted || map.contains_key("anyOf") {
            self.leave_out(rule, map, "oneOf");
        } else if map.contains_key("oneOf") {
            self.note(rule, Some("oneOf"), "oneOf", "anyOf");
            self.changed += 1;
            let renamed = std::mem::take(map).into_iter();
            *map = renamed.map(|(key, value)| (if key == "oneOf" { "anyOf".to_owned() } else { key }, value)).collect();
        }
    }

    /// Leaves a keyword out and says whether it was there.
    pub(super) fn leave_out(&mut self, rule: Rule, map: &mut Map<String, Value>, keyword: &str) -> bool {
        let Some(value) = map.shift_remove(keyword) else { return false };
        self.note(rule, Some(keyword), short(&value), "");
        self.changed += usize::from(!is_annotation(keyword) && !DEFINITIONS.contains(&keyword));
        true
    }

    /// Writes a rewrite down: of a keyword, or of the whole place.
    pub(super) fn note(
        &mut self,
        rule: Rule,
        keyword: Option<&str>,
        before: impl Into<String>,
        after: impl Into<String>,
    ) {
        let mut pointer = self.at.clone();
        if let Some(keyword) = keyword {
            step(&mut pointer, keyword);
        }
        self.log.push(Rewrite { pointer, rule, before: before.into(), after: after.into() });
    }
}

/// The beginning of the JSON text.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHORT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
