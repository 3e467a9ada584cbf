//! Cases from servers and endpoints in the wild, then properties over made-up schemas.

use serde_json::{Value, json};

use super::*;

fn with(rules: &Value) -> SchemaRules {
    serde_json::from_value(rules.clone()).unwrap()
}

/// The schema rewritten by these rules, which a second time change nothing.
fn rewritten(schema: &Value, rules: &Value) -> Value {
    let rules = with(rules);
    let (once, _) = rewrite(schema, &rules);
    assert_eq!(rewrite(&once, &rules).0, once, "twice is once");
    once
}

fn log(schema: &Value, rules: &Value) -> Vec<(String, &'static str)> {
    let (_, log) = rewrite(schema, &with(rules));
    log.into_iter().map(|rewrite| (rewrite.pointer, rewrite.rule.as_str())).collect()
}

/// Each of these must read as an argument's name and not as a keyword.
const KEYWORD_NAMES: [&str; 14] = [
    "type",
    "pattern",
    "enum",
    "$ref",
    "properties",
    "description",
    "format",
    "items",
    "anyOf",
    "oneOf",
    "not",
    "const",
    "maxLength",
    "title",
];

#[test]
fn without_rules_nothing_changes() {
    let schema = json!({"type": "array", "pattern": "(?=x)", "anyOf": [{"enum": [1]}]});
    assert_eq!(rewrite(&schema, &SchemaRules::default()), (schema, Vec::new()));
    assert!(with(&json!({})).is_off());
}

#[test]
fn arguments_named_like_keywords_are_arguments() {
    let named: serde_json::Map<String, Value> =
        KEYWORD_NAMES.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({
        "type": "object",
        "properties": named,
        "required": KEYWORD_NAMES,
        "$defs": {"pattern": {"type": "string"}, "type": {"type": "object", "properties": {}}},
        "patternProperties": {"^x$": {"type": "string"}},
    });
    let harsh = json!({
        "drop_patterns": "lookaround", "largest_repeat": 1, "array_items": true, "ensure_properties": true, "string_enums": true,
        "one_type": true, "root_combinators": "merge", "keep_formats": [],
        "drop_keywords": ["pattern", "enum", "$ref", "description", "format", "oneOf", "not", "const", "maxLength", "title"],
    });
    assert_eq!(rewritten(&schema, &harsh), schema);
    let mild = json!({"drop_patterns": "all", "drop_keywords": ["title", "description", "pattern", "format", "enum"]});
    let mut expected = schema.clone();
    expected.as_object_mut().unwrap().shift_remove("patternProperties");
    assert_eq!(rewritten(&schema, &mild), expected);
    for (name, value) in [("type", json!({"type": "string"})), ("$ref", json!({"type": "string"}))] {
        let schema = json!({"type": "object", "properties": {name: value}});
        assert_eq!(rewritten(&schema, &json!({"preset": "strict_types"})), schema, "{name}");
    }
}

#[test]
fn rules_that_contradict_each_other_are_refused() {
    for (rules, words) in [
        (
            json!({"one_type": true, "drop_keywords": ["title", "anyOf"]}),
            "leaves out `anyOf`, which `one_type` puts in",
        ),
        (
            json!({"preset": "plain_object", "drop_keywords": ["items"]}),
            "leaves out `items`, which `array_items` puts in",
        ),
    ] {
        let message = serde_json::from_value::<SchemaRules>(rules).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn data_is_never_taken_for_a_schema() {
    let data = json!({"type": "array", "pattern": "(?=x)", "$ref": "#/nowhere", "enum": [1], "title": "t"});
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {}, "default": data, "examples": [data], "x-own": data}},
    });
    let rules = json!({"preset": "strict_types", "drop_keywords": ["title"], "drop_patterns": "all"});
    assert_eq!(rewritten(&schema, &rules), schema);
    let listed = json!({"type": "object", "properties": {"a": {"const": data}, "b": {"enum": [data]}}});
    assert_eq!(
        rewritten(&listed, &json!({"drop_patterns": "all", "inline_refs": true, "drop_keywords": ["title"]})),
        listed
    );
}

// Row 3: one bad pattern kills every tool.

#[test]
fn patterns_that_look_around_are_left_out_and_written_down() {
    let email =
        "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";
    let schema = json!({
        "type": "object",
        "properties": {
            "to": {"type": "array", "items": {"type": "string", "format": "email", "pattern": email}},
            "id": {"type": "string", "pattern": "^\\d+$"},
            "code": {"type": "string", "pattern": "^[a-z]{2,5}$"},
        },
    });
    let patterns = |which: &str| {
        let schema = rewritten(&schema, &json!({"drop_patterns": which}));
        let at = |pointer: &str| schema.pointer(pointer).and_then(|found| found.get("pattern")).is_some();
        [at("/properties/to/items"), at("/properties/id"), at("/properties/code")]
    };
    assert_eq!(patterns("none"), [true, true, true]);
    assert_eq!(patterns("lookaround"), [false, true, true]);
    assert_eq!(patterns("unportable"), [false, false, true]);
    assert_eq!(patterns("all"), [false, false, false]);
    let (_, log) = rewrite(&schema, &with(&json!({"drop_patterns": "lookaround"})));
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].pointer.as_str(), log[0].rule), ("/properties/to/items/pattern", Rule::DropPatterns));
    assert!(log[0].before.starts_with("\"^(?!") && log[0].after.is_empty(), "{log:?}");
}

#[test]
fn long_repeats_are_left_out() {
    let schema = json!({"type": "object", "properties": {
        "text": {"type": "string", "maxLength": 20000, "minLength": 1},
        "list": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{0,5000}$"}, "maxItems": 10},
    }});
    let expected = json!({"type": "object", "properties": {
        "text": {"type": "string", "minLength": 1},
        "list": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
    }});
    assert_eq!(rewritten(&schema, &json!({"largest_repeat": 1000})), expected);
}

#[test]
fn what_a_dropped_pattern_let_in_is_not_shut_out() {
    let schema =
        json!({"type": "object", "patternProperties": {"^(?!x)": {"type": "string"}}, "additionalProperties": false});
    assert_eq!(rewritten(&schema, &json!({"drop_patterns": "lookaround"})), json!({"type": "object"}));
}

// Row 10: combinators at the root, missing properties, arrays without items.

#[test]
fn alternatives_at_the_root_become_one_object() {
    let schema = json!({
        "type": "object",
        "properties": {"version": {"type": "string"}, "from": {"type": "string"}, "to": {"type": "string"}},
        "anyOf": [{"required": ["version"]}, {"required": ["from", "to"]}],
    });
    let plain = json!({"type": "object", "properties": schema["properties"]});
    for how in ["drop", "merge"] {
        assert_eq!(rewritten(&schema, &json!({"root_combinators": how})), plain, "{how}");
        assert_eq!(log(&schema, &json!({"root_combinators": how})), [("/anyOf".to_owned(), "root_combinators")]);
    }
    let union = json!({"oneOf": [
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": false},
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false},
    ]});
    assert_eq!(
        rewritten(&union, &json!({"preset": "plain_object"})),
        json!({"properties": {"id": {"type": "string"}, "path": {"type": "string"}}, "additionalProperties": false, "type": "object"})
    );
    // Below the root they are no trouble.
    let below = json!({"type": "object", "properties": {"a": union}});
    assert_eq!(rewritten(&below, &json!({"root_combinators": "merge"})), below);
}

#[test]
fn objects_get_properties_and_the_root_is_one() {
    let bare = json!({"type": "object", "properties": {}});
    for root in [json!({}), json!(true), json!(null), json!({"type": "object"}), json!({"type": ["object", "null"]})] {
        assert_eq!(rewritten(&root, &json!({"ensure_properties": true})), bare, "{root}");
    }
    let nested = json!({"type": "object", "properties": {"filter": {"type": "object", "additionalProperties": true}}});
    let filter = json!({"type": "object", "additionalProperties": true, "properties": {}});
    assert_eq!(rewritten(&nested, &json!({"ensure_properties": true}))["properties"]["filter"], filter);
}

#[test]
fn arrays_say_what_they_hold() {
    let items = |array: Value| {
        let schema = json!({"type": "object", "properties": {"a": array}});
        rewritten(&schema, &json!({"array_items": true}))["properties"]["a"]["items"].clone()
    };
    assert_eq!(items(json!({"type": "array"})), json!({}));
    assert_eq!(items(json!({"type": ["array", "null"]})), json!({}));
    assert_eq!(items(json!({"type": "array", "items": {"type": "string"}})), json!({"type": "string"}));
    let pair = json!([{"type": "number"}, {"type": "number"}]);
    assert_eq!(items(json!({"type": "array", "items": pair, "maxItems": 2})), json!({"type": "number"}));
    assert_eq!(items(json!({"type": "array", "prefixItems": pair, "items": false})), json!({"type": "number"}));
    // Whatever may follow the listed places may stand anywhere now.
    assert_eq!(items(json!({"type": "array", "items": pair})), json!({}));
    let mixed = json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": {"type": "null"}});
    assert_eq!(items(mixed), json!({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}));
}

// Row 11: strings in enumerations, one type everywhere.

#[test]
fn enumerations_of_other_values_become_words() {
    let enums = |schema: Value| {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        rewritten(&schema, &json!({"string_enums": true}))["properties"]["a"].clone()
    };
    let texts = json!({"type": "string", "enum": ["a", "b"]});
    assert_eq!(enums(texts.clone()), texts);
    assert_eq!(
        enums(json!({"description": "Priority.", "enum": [1, 2, 3]})),
        json!({"description": "Priority. Allowed values: 1, 2, 3.", "type": "integer"})
    );
    assert_eq!(
        enums(json!({"enum": ["a", "", null]})),
        json!({"type": ["null", "string"], "description": "Allowed values: \"a\", \"\", null."})
    );
    assert_eq!(enums(json!({"const": "a"})), json!({"enum": ["a"]}));
    assert_eq!(enums(json!({"const": true})), json!({"type": "boolean", "description": "Always true."}));
}

#[test]
fn every_schema_says_one_type() {
    let typed = |schema: Value| {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        rewritten(&schema, &json!({"one_type": true}))["properties"]["a"].clone()
    };
    assert_eq!(typed(json!({"type": ["string"]})), json!({"type": "string"}));
    assert_eq!(
        typed(json!({"type": ["string", "null"], "minLength": 1, "default": null, "description": "d"})),
        json!({"default": null, "description": "d", "anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]})
    );
    assert_eq!(
        typed(json!({"type": ["array", "integer"], "items": {"type": "string"}, "maximum": 3, "enum": [1, 2, ["a"]]})),
        json!({"anyOf": [
            {"type": "array", "enum": [["a"]], "items": {"type": "string"}},
            {"type": "integer", "enum": [1, 2], "maximum": 3},
        ]})
    );
    assert_eq!(typed(json!({"enum": ["a", "b"]})), json!({"enum": ["a", "b"], "type": "string"}));
    assert_eq!(typed(json!({"properties": {"b": {"type": "null"}}}))["type"], "object");
    // The alternatives themselves are where endpoints miss it.
    assert_eq!(
        typed(json!({"anyOf": [{"type": "string"}, {"enum": ["a"]}, {"maximum": 3}]})),
        json!({"anyOf": [{"type": "string"}, {"enum": ["a"], "type": "string"}, {"maximum": 3, "type": "number"}]})
    );
    for open in [json!({}), json!(true)] {
        let kinds: Vec<Value> =
            typed(open)["anyOf"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
        assert_eq!(kinds, ["string", "number", "boolean", "object", "array"]);
    }
}

#[test]
fn the_strict_preset_leaves_little() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "who": {"allOf": [{"$ref": "#/definitions/user"}], "description": "Whom."},
            "level": {"oneOf": [{"const": 1}, {"const": 2}]},
            "when": {"type": ["string", "null"], "format": "date-time", "default": null},
            "host": {"type": "string", "format": "cidrv4"},
        },
        "additionalProperties": false,
        "definitions": {"user": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
    });
    assert_eq!(
        rewritten(&schema, &json!({"preset": "strict_types"})),
        json!({
            "type": "object",
            "properties": {
                "who": {"description": "Whom.", "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
                "level": {"anyOf": [
                    {"type": "integer", "description": "Always 1."},
                    {"type": "integer", "description": "Always 2."},
                ]},
                "when": {"default": null, "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
                "host": {"type": "string"},
            },
        })
    );
}

// References.

#[test]
fn references_are_put_in_their_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
            "b": {"$ref": "#/properties/a/anyOf/0", "description": "Like a."},
            "c": {"type": "array", "items": {"$ref": "#/$defs/x~1y"}},
        },
        "$defs": {"x/y": {"$ref": "#/$defs/z"}, "z": {"type": "integer"}, "unused": {"type": "string"}},
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
            "b": {"description": "Like a.", "type": "string", "maxLength": 5},
            "c": {"type": "array", "items": {"type": "integer"}},
        },
    });
    assert_eq!(rewritten(&schema, &json!({"inline_refs": true})), expected);
}

#[test]
fn circles_and_bombs_end_in_anything() {
    let tree = json!({
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "string"}}}},
    });
    let node = |next: Value| json!({"type": "object", "properties": {"next": next, "v": {"type": "string"}}});
    let inlined = rewritten(&tree, &json!({"inline_refs": true}));
    assert_eq!(inlined, json!({"type": "object", "properties": {"root": node(json!({}))}}));
    for circle in [json!({"$ref": "#"}), json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})] {
        assert_eq!(rewritten(&circle, &json!({"inline_refs": true})), json!({}));
    }
    let lost = json!({"type": "object", "properties": {"a": {"$ref": "https://example.invalid/s.json", "title": "A"}}});
    assert_eq!(rewritten(&lost, &json!({"inline_refs": true}))["properties"]["a"], json!({"title": "A"}));
    // Each level holds the one below ten times.
    let level = |n: usize| {
        let below = json!({"$ref": format!("#/$defs/l{}", n + 1)});
        let ten: serde_json::Map<_, _> = (0..10).map(|k| (format!("p{k}"), below.clone())).collect();
        (format!("l{n}"), json!({"type": "object", "properties": ten}))
    };
    let mut levels: serde_json::Map<_, _> = (0..12).map(level).collect();
    levels.insert("l12".to_owned(), json!({"type": "string"}));
    let bomb = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels});
    let inlined = rewritten(&bomb, &json!({"inline_refs": true}));
    assert!(inlined.to_string().len() < 2_000_000);
    assert!(!inlined.to_string().contains("$ref"));
}

#[test]
fn references_that_a_rewrite_would_break_are_inlined() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": ["array", "null"], "items": {"type": "string"}},
            "b": {"$ref": "#/properties/a/items"},
        },
    });
    let typed = rewritten(&schema, &json!({"one_type": true}));
    assert_eq!(typed["properties"]["b"], json!({"type": "string"}));
    // Where nothing moves they stay.
    assert_eq!(rewritten(&schema, &json!({"array_items": true})), schema);
    let dropped =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}});
    assert_eq!(
        rewritten(&dropped, &json!({"drop_keywords": ["$defs"]})),
        json!({"type": "object", "properties": {"a": {"type": "string"}}})
    );
}

#[test]
fn a_looser_part_does_not_make_the_whole_tighter() {
    let loose = json!({"drop_patterns": "all"});
    let bad = json!({"type": "string", "pattern": "^a"});
    let inside = |schema: Value| {
        rewritten(&json!({"type": "object", "properties": {"a": schema}}), &loose)["properties"]["a"].clone()
    };
    assert_eq!(inside(json!({"not": bad})), json!({}));
    assert_eq!(inside(json!({"if": bad, "then": {"maxLength": 2}, "else": false})), json!({}));
    assert_eq!(
        inside(json!({"oneOf": [bad, {"type": "string"}]})),
        json!({"anyOf": [{"type": "string"}, {"type": "string"}]})
    );
    assert_eq!(inside(json!({"contains": bad, "maxContains": 1})), json!({"contains": {"type": "string"}}));
    // The same where the part is only referred to.
    let schema =
        json!({"type": "object", "properties": {"a": {"not": {"$ref": "#/$defs/bad"}}}, "$defs": {"bad": bad}});
    assert_eq!(rewritten(&schema, &loose), json!({"type": "object", "properties": {"a": {}}}));
}

#[test]
fn hostile_depth_ends() {
    let mut deep = json!({"type": "string", "pattern": "(?=x)"});
    for _ in 0..100 {
        deep = json!({"type": "array", "items": deep});
    }
    let schema = json!({"type": "object", "properties": {"a": deep}});
    let text = rewritten(&schema, &json!({"drop_patterns": "all"})).to_string();
    assert!(!text.contains("(?=x)") && text.contains("\"items\":{}"), "{text}");
}

#[test]
fn advice_names_the_rules_that_would_help() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "string"}}, "b": {"type": "string", "pattern": "^(?!x)"}}});
    assert_eq!(SchemaRules::advice(&schema), ["drop_patterns = \"lookaround\""]);
    assert!(SchemaRules::advice(&json!({"type": "object", "properties": {}})).is_empty());
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Names of arguments, keywords among them.
    fn name() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["a", "b", "type", "pattern", "properties", "$ref", "enum"])
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop::sample::select(vec![
            json!(null),
            json!(true),
            json!(0),
            json!(1),
            json!(2.5),
            json!(""),
            json!("a"),
            json!("ab"),
            json!("1"),
        ]);
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec((name(), inner), 0..4).prop_map(object),
            ]
        })
    }

    fn object(fields: Vec<(&'static str, Value)>) -> Value {
        Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn arguments() -> impl Strategy<Value = Value> {
        prop::collection::vec((name(), value()), 0..5).prop_map(object)
    }

    fn leaf() -> impl Strategy<Value = Value> {
        prop::sample::select(vec![
            json!(true),
            json!(false),
            json!({}),
            json!({"type": "string"}),
            json!({"type": "integer"}),
            json!({"type": "null"}),
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({"type": ["string", "null"]}),
            json!({"type": ["array", "object", "number"]}),
            json!({"type": "string", "pattern": "^a"}),
            json!({"pattern": "^\\d+$"}),
            json!({"minLength": 2}),
            json!({"maxItems": 1}),
            json!({"maximum": 1}),
            json!({"enum": ["a", "b"]}),
            json!({"enum": [1, "a", null]}),
            json!({"const": "a"}),
            json!({"const": 1}),
            json!({"type": "string", "format": "email", "title": "t"}),
            json!({"required": ["a"]}),
            json!({"type": "object", "additionalProperties": false}),
        ])
    }

    /// Schemas in which references stand only where they lead deeper into the value, so that checking ends.
    fn schema() -> impl Strategy<Value = Value> {
        leaf().prop_recursive(4, 40, 4, |inner| {
            let refs = prop::sample::select(vec![
                json!({"$ref": "#/$defs/d"}), json!({"$ref": "#/$defs/e", "description": "x"}), json!({"$ref": "#"}),
                json!({"$ref": "#/$defs/d", "maxLength": 1}), json!({"$ref": "#/$defs/d/anyOf/0"}),
            ]);
            let below = prop_oneof![3 => inner.clone(), 1 => refs].boxed();
            let named = prop::collection::vec((name(), below.clone()), 0..4).prop_map(object).boxed();
            let list = prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from).boxed();
            let word = prop::sample::select(vec!["anyOf", "oneOf", "allOf"]);
            prop_oneof![
                (named.clone(), prop::collection::vec(name(), 0..2), prop::option::of(below.clone())).prop_map(
                    |(properties, required, additional)| {
                        let mut schema = json!({"type": "object", "properties": properties, "required": required});
                        if let Some(additional) = additional {
                            schema["additionalProperties"] = additional;
                        }
                        schema
                    }
                ),
                (named, below.clone()).prop_map(|(properties, rest)| {
                    json!({"properties": properties, "patternProperties": {"^[a-c]": rest}, "additionalProperties": false})
                }),
                (word, list.clone(), prop::option::of(leaf())).prop_map(|(word, members, beside)| {
                    let mut schema = beside.filter(Value::is_object).unwrap_or_else(|| json!({}));
                    schema[word] = members;
                    schema
                }),
                (inner.clone(), prop::bool::ANY).prop_map(|(not, closed)| {
                    if closed { json!({"not": not, "unevaluatedProperties": false}) } else { json!({"not": not}) }
                }),
                (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
                below.clone().prop_map(|items| json!({"type": "array", "items": items})),
                (list, below.clone()).prop_map(|(places, rest)| json!({"type": "array", "prefixItems": places, "items": rest})),
                (inner.clone(), 0..3_u64).prop_map(|(held, most)| json!({"contains": held, "maxContains": most})),
                below.prop_map(|names| json!({"type": "object", "additionalProperties": names})),
            ]
        })
    }

    fn document() -> impl Strategy<Value = Value> {
        (schema(), schema(), schema()).prop_map(|(mut root, first, second)| {
            if !root.is_object() {
                root = json!({});
            }
            root["$defs"] = json!({"d": {"anyOf": [first, {"type": "null"}]}, "e": {"type": "object", "properties": {"b": second}}});
            root
        })
    }

    /// Rules that only loosen.
    fn loosening() -> impl Strategy<Value = Value> {
        let on = any::<[bool; 7]>();
        let patterns = prop::sample::select(vec!["none", "lookaround", "unportable", "all"]);
        let dropped = prop::sample::subsequence(
            vec![
                "properties",
                "additionalProperties",
                "type",
                "title",
                "prefixItems",
                "enum",
                "anyOf",
                "not",
                "$defs",
                "items",
            ],
            0..4,
        );
        (on, patterns, dropped).prop_map(|(on, patterns, dropped)| {
            json!({
                "root_combinators": if on[0] { "drop" } else { "keep" },
                "ensure_properties": on[1],
                "array_items": on[2],
                "string_enums": on[3],
                "any_of_only": on[4],
                "inline_refs": on[5],
                "drop_patterns": patterns,
                "largest_repeat": 1,
                "keep_formats": if on[6] { json!(["email"]) } else { json!([]) },
                "drop_keywords": dropped,
            })
        })
    }

    fn any_rules() -> impl Strategy<Value = Value> {
        (loosening(), any::<bool>(), any::<bool>()).prop_map(|(mut rules, merge, one_type)| {
            if merge {
                rules["root_combinators"] = json!("merge");
            }
            rules["one_type"] = json!(one_type);
            rules
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn twice_is_once(schema in document(), rules in any_rules()) {
            let Ok(rules) = serde_json::from_value(rules) else { return Ok(()) };
            let (once, _) = rewrite(&schema, &rules);
            prop_assert_eq!(&rewrite(&once, &rules).0, &once);
        }

        #[test]
        fn what_was_valid_stays_valid(
            schema in document(),
            rules in loosening(),
            instances in prop::collection::vec(arguments(), 12),
        ) {
            let Ok(rules) = serde_json::from_value(rules) else { return Ok(()) };
            let (loose, _) = rewrite(&schema, &rules);
            let Ok(before) = jsonschema::validator_for(&schema) else { return Ok(()) };
            let after = jsonschema::validator_for(&loose);
            prop_assert!(after.is_ok(), "{schema}\nis a schema, and this is none:\n{loose}");
            let after = after.unwrap();
            for instance in &instances {
                prop_assert!(!before.is_valid(instance) || after.is_valid(instance), "{instance} fits\n{schema}\nnot\n{loose}");
            }
        }

        #[test]
        fn what_only_says_more_changes_nothing(
            schema in document(),
            instances in prop::collection::vec(arguments(), 12),
        ) {
            // A reference to the root is inlined, which ends somewhere; a root that is no object becomes one.
            prop_assume!(!schema.to_string().contains("\"#\""));
            prop_assume!(schema["type"].is_null() || schema["type"] == "object");
            let (said, _) = rewrite(&schema, &with(&json!({"ensure_properties": true})));
            let Ok(before) = jsonschema::validator_for(&schema) else { return Ok(()) };
            let after = jsonschema::validator_for(&said).unwrap();
            for instance in &instances {
                prop_assert_eq!(before.is_valid(instance), after.is_valid(instance), "{} {}", schema, said);
            }
        }
    }
}
