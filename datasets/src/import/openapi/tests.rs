use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::report::Findings;
use super::super::tests::{import, mangled, survives};
use super::*;
use crate::testing::{folder, lines};

/// A document of version 3.0, with one trouble of each kind.
const OLD: &str = r#"
openapi: 3.0.3
info: {title: Kiln API, version: 1.0.0, description: "Fires pots. "}
servers: [{url: "https://example.invalid"}]
paths:
  x-note: nothing
  /batches/{id}:
    summary: One batch
    parameters:
      - {name: id, in: path, required: true, description: Which batch, schema: {type: string, x-internal: 1}}
      - {name: verbose, in: query, schema: {type: boolean}}
    get:
      operationId: getBatch
      summary: Get a batch
      description: Get a batch of pots.
      parameters:
        - $ref: '#/components/parameters/Limit'
        - {name: verbose, in: query, deprecated: true, schema: {type: boolean, default: false}}
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: filter, in: query, content: {application/json: {schema: {$ref: '#/components/schemas/Cone'}}}}
      responses: {'200': {description: ok}}
    put:
      operationId: getBatch
      summary: Replace a batch
      requestBody:
        required: true
        content:
          text/plain: {schema: {type: string}}
          application/json: {schema: {$ref: '#/components/schemas/Batch'}}
    delete: {deprecated: true}
  /batches:
    post:
      operationId: ' '
      requestBody:
        description: The batch
        content: {application/vnd.kiln+json: {schema: {oneOf: [{$ref: '#/components/schemas/Batch'}, {type: string, nullable: true}]}}}
    get:
      parameters:
        - $ref: '#/components/parameters/Gone'
        - $ref: 'other.yaml#/Limit'
        - {name: broken}
        - 7
  /batches/{id}/image:
    put:
      requestBody: {content: {image/png: {}}}
  /batches_:
    get: 3
    head: {}
  /batches-:
    head: {}
components:
  parameters:
    Limit: {name: limit, in: query, required: "true", schema: {type: integer, minimum: "0", exclusiveMinimum: true, maximum: 100, example: 5}}
  schemas:
    Batch:
      type: object
      required: [id, cone, pots]
      properties:
        id: {type: string, description: The body's own id}
        made: {type: string, readOnly: true}
        cone: {$ref: '#/components/schemas/Cone', description: How hot}
        pots: {type: array, items: {$ref: '#/components/schemas/Pot'}}
        properties: {type: object, additionalProperties: "true"}
        glaze: {type: Glaze, nullable: true, enum: red}
    Pot:
      type: object
      properties:
        name: {type: string, nullable: true, enum: [cup, jug]}
        inside: {$ref: '#/components/schemas/Pot'}
        both: {nullable: true, allOf: [{$ref: '#/components/schemas/Cone'}]}
    Cone: {type: integer, format: int32, description: A cone}
"#;

/// A document of version 3.1.
const NEW: &str = r##"{
 "openapi": "3.1.0", "info": {"title": "Loom"}, "webhooks": {"torn": {"post": {}}},
 "paths": {
  "/cloth/{id}": {"$ref": "#/components/pathItems/cloth"},
  "/cloth": {"post": {"operationId": "weave", "requestBody": {"required": true, "content": {"application/json": {"schema":
    {"allOf": [{"$ref": "#/components/schemas/Named"}, {"type": "object", "properties": {"width": {"type": ["integer", "null"], "exclusiveMinimum": 0}}, "required": ["width"]}]}}}}}}
 },
 "components": {
  "pathItems": {"cloth": {"get": {"operationId": "cloth", "description": "One cloth.",
    "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"$ref": "#/components/schemas/a~1b%20c"}}]}}},
  "schemas": {
   "a/b c": {"type": "string", "const": "x", "$comment": "note", "examples": ["x"]},
   "Named": {"type": "object", "properties": {"name": {"$ref": "#/components/schemas/a~1b%20c", "pattern": "^x"}, "ref": {"$ref": "#/components/schemas/Gone", "title": "Gone"}}, "required": ["name"], "$defs": {"unused": {}}}
  }
 }
}"##;

pub(crate) const FILES: [(&str, &str); 2] = [("old.yaml", OLD), ("new.json", NEW)];

fn tools(source: &str) -> (String, Vec<String>) {
    let (report, dataset) = import("openapi", &FILES, source);
    let tools = dataset.catalogue.tools.iter().map(|tool| {
        let hints = &tool.annotations;
        let flags = format!("{:?} {:?} {:?}", hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint);
        format!("{} {:?} {:?} {flags}\n  {}", tool.id, tool.description, tool.tags, tool.input_schema)
    });
    (report.to_string(), tools.collect())
}

#[test]
fn operations_of_version_3_0_become_tools() {
    let (report, tools) = tools("old.yaml");
    assert_snapshot!(report, @r##"
    servers 1, tools 8, queries 0 (no-tool 0), labels 0
      1 × entry that cannot be read; left out: "GET /batches_: no object"
      2 × type that JSON Schema does not know; any value is accepted there: "type Glaze in PUT /batches/{id}", "type Glaze in POST /batches"
      3 × tool whose name is unfit or taken; named after where it stands: "getBatch of put /batches/{id}", "  of post /batches", "head_batches_2"
      1 × argument whose name another part of the request has; its part is added to the name: "id (body) in PUT /batches/{id}"
      7 × part of a schema that JSON Schema does not allow; read as meant or left out: "required as text in GET /batches/{id}", "additionalProperties: "true" in PUT /batches/{id}", "enum of the wrong type in PUT /batches/{id}", "parameter without a name or a place in GET /batches", "parameter without a name or a place in GET /batches", …
      2 × `$ref` that leads to nothing in the document; anything is allowed in its place: "#/components/parameters/Gone in GET /batches", "other.yaml#/Limit in GET /batches"
      2 × `$ref` into itself; cut there: "#/components/schemas/Pot in PUT /batches/{id}", "#/components/schemas/Pot in POST /batches"
    "##);
    assert_snapshot!(lines(tools), @r#"
    kiln_api/getBatch "Get a batch of pots." [] Some(true) None None
      {"type":"object","properties":{"id":{"type":"string","description":"Which batch"},"verbose":{"type":"boolean","default":false,"deprecated":true},"limit":{"type":"integer","exclusiveMinimum":0,"maximum":100},"filter":{"type":"integer","format":"int32","description":"A cone"}},"required":["id","limit"]}
    kiln_api/put_batches_id "Replace a batch" [] Some(false) None Some(true)
      {"type":"object","properties":{"id":{"type":"string","description":"Which batch"},"verbose":{"type":"boolean"},"id_body":{"type":"string","description":"The body's own id"},"cone":{"type":"integer","format":"int32","description":"How hot"},"pots":{"type":"array","items":{"type":"object","properties":{"name":{"type":["string","null"],"enum":["cup","jug",null]},"inside":{"type":"object"},"both":{"anyOf":[{"allOf":[{"type":"integer","format":"int32","description":"A cone"}]},{"type":"null"}]}}}},"properties":{"type":"object","additionalProperties":true},"glaze":{}},"required":["id","id_body","cone","pots"]}
    kiln_api/delete_batches_id "One batch" ["deprecated"] Some(false) Some(true) Some(true)
      {"type":"object","properties":{"id":{"type":"string","description":"Which batch"},"verbose":{"type":"boolean"}},"required":["id"]}
    kiln_api/get_batches "" [] Some(true) None None
      {"type":"object"}
    kiln_api/post_batches "" [] Some(false) None None
      {"type":"object","properties":{"body":{"oneOf":[{"type":"object","required":["id","cone","pots"],"properties":{"id":{"type":"string","description":"The body's own id"},"cone":{"type":"integer","format":"int32","description":"How hot"},"pots":{"type":"array","items":{"type":"object","properties":{"name":{"type":["string","null"],"enum":["cup","jug",null]},"inside":{"type":"object"},"both":{"anyOf":[{"allOf":[{"type":"integer","format":"int32","description":"A cone"}]},{"type":"null"}]}}}},"properties":{"type":"object","additionalProperties":true},"glaze":{}}},{"type":["string","null"]}],"description":"The batch"}}}
    kiln_api/put_batches_id_image "" [] Some(false) None Some(true)
      {"type":"object","properties":{"body":{"type":"string"}}}
    kiln_api/head_batches "" [] Some(true) None None
      {"type":"object"}
    kiln_api/head_batches_2 "" [] Some(true) None None
      {"type":"object"}
    "#);
    let (_, dataset) = import("openapi", &FILES, "old.yaml");
    let server = &dataset.catalogue.servers[0];
    assert_eq!((&*server.name, &*server.title, &*server.description), ("kiln_api", "Kiln API", "Fires pots."));
}

#[test]
fn operations_of_version_3_1_become_tools() {
    let (report, tools) = tools("new.json");
    assert_snapshot!(report, @r##"
    servers 1, tools 2, queries 0 (no-tool 0), labels 0
      1 × `$ref` that leads to nothing in the document; anything is allowed in its place: "#/components/schemas/Gone in POST /cloth"
    "##);
    assert_snapshot!(lines(tools), @r#"
    loom/cloth "One cloth." [] Some(true) None None
      {"type":"object","properties":{"id":{"type":"string","const":"x","examples":["x"]}},"required":["id"]}
    loom/weave "" [] Some(false) None None
      {"type":"object","properties":{"name":{"type":"string","const":"x","examples":["x"],"pattern":"^x"},"ref":{"title":"Gone"},"width":{"type":["integer","null"],"exclusiveMinimum":0}},"required":["name","width"]}
    "#);
}

fn refused(text: &str) -> String {
    let dir = folder(&[("api", text)]);
    let error = document(&dir.path().join("api"), &mut Findings::default()).unwrap_err().to_string();
    error.replace(&dir.path().display().to_string(), "")
}

#[test]
fn other_documents_are_refused() {
    assert_snapshot!(refused("swagger: '2.0'"), @"/api cannot be read: it is a Swagger 2.0 document; convert it to OpenAPI 3 first; expected an OpenAPI 3.0 or 3.1 document, JSON or YAML");
    assert_snapshot!(refused("{\"openapi\": \"4.0.0\", \"paths\": {}}"), @r#"/api cannot be read: it is of OpenAPI version "4.0.0"; expected an OpenAPI 3.0 or 3.1 document, JSON or YAML"#);
    assert_snapshot!(refused("openapi: 3.1.0\npaths: []"), @"/api cannot be read: it has no object `paths`; expected an OpenAPI 3.0 or 3.1 document, JSON or YAML");
    assert_snapshot!(refused("openapi: [3.1.0\n"), @"/api cannot be read: unclosed bracket '[' at line 1, column 10; expected an OpenAPI 3.0 or 3.1 document, JSON or YAML");
    assert_snapshot!(refused("{\"openapi\": \"3.1.0\""), @"/api cannot be read: EOF while parsing an object at line 1 column 19; expected an OpenAPI 3.0 or 3.1 document, JSON or YAML");
    assert_snapshot!(refused(""), @"/api cannot be read: it has no text `openapi`; expected an OpenAPI 3.0 or 3.1 document, JSON or YAML");
}

/// The schema that a body of `Root` gets, and what was found.
fn expanded(schemas: &Value) -> (Value, Findings) {
    let root = json!({"openapi": "3.1.0", "components": {"schemas": schemas}, "paths": {"/": {"post": {
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Root"}}}}}}}});
    let dir = folder(&[("api", root.to_string())]);
    let mut findings = Findings::default();
    let document = document(&dir.path().join("api"), &mut findings).unwrap();
    (document.operations[0].tool.schema.clone().unwrap_or_default(), findings)
}

#[test]
fn references_that_multiply_or_nest_are_cut() {
    let mut wide = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
        wide.insert(format!("L{level}"), json!({"properties": {"a": next.clone(), "b": next.clone(), "c": next}}));
    }
    wide.insert("Root".to_owned(), json!({"$ref": "#/components/schemas/L0"}));
    let (schema, findings) = expanded(&wide.into());
    assert!(schema.to_string().len() < 2_000_000);
    assert_eq!(findings.get(Trouble::CutSchema).unwrap().count, 1, "{findings}");

    let mut deep = serde_json::Map::new();
    for level in 0..200 {
        deep.insert(format!("L{level}"), json!({"items": {"$ref": format!("#/components/schemas/L{}", level + 1)}}));
    }
    deep.insert("Root".to_owned(), json!({"properties": {"a": {"$ref": "#/components/schemas/L0"}}}));
    let (_, findings) = expanded(&deep.into());
    assert!(findings.get(Trouble::CutSchema).is_some(), "{findings}");

    let values: Vec<_> = (0..5_000).collect();
    let many: serde_json::Map<_, _> =
        (0..500).map(|at| (format!("p{at}"), json!({"$ref": "#/components/schemas/Big"}))).collect();
    let (schema, findings) = expanded(&json!({"Root": {"properties": many}, "Big": {"enum": values}}));
    assert!(schema.to_string().len() < 500_000);
    assert!(findings.get(Trouble::CutSchema).is_some(), "{findings}");

    let (_, findings) = expanded(&json!({"Root": {"$ref": "#/components/schemas/Root"}}));
    assert_eq!(findings.get(Trouble::CutReference).unwrap().count, 1);
}

/// Two hundred operations with the same arguments of about ten thousand nodes.
#[test]
fn all_operations_together_have_a_budget() {
    let leaf: serde_json::Map<_, _> = (0..100).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let root: serde_json::Map<_, _> =
        (0..99).map(|at| (format!("q{at}"), json!({"$ref": "#/components/schemas/Leaf"}))).collect();
    let paths: serde_json::Map<_, _> = (0..300)
        .map(|at| (format!("/p{at}"), json!({"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Root"}}}}}})))
        .collect();
    let root = json!({"openapi": "3.1.0", "paths": paths, "components": {"schemas": {"Leaf": {"properties": leaf}, "Root": {"properties": root}}}});
    let dir = folder(&[("api", root.to_string())]);
    let mut findings = Findings::default();
    let document = document(&dir.path().join("api"), &mut findings).unwrap();
    assert_eq!(document.operations.len(), 300);
    let size: usize = document
        .operations
        .iter()
        .map(|operation| operation.tool.schema.as_ref().map_or(0, |schema| schema.to_string().len()))
        .sum();
    assert!(size < 100_000_000, "{size}");
    let cut = findings.get(Trouble::CutSchema).unwrap();
    assert!(cut.count > 50 && cut.examples[0].contains("document's budget"), "{findings}");
}

#[test]
fn enormous_operations_are_left_out_before_the_next_is_made() {
    let long = "x".repeat(2 << 20);
    let text =
        json!({"openapi": "3.1.0", "paths": {"/a": {"get": {"description": long}}, "/b": {"get": {}}}}).to_string();
    let dir = folder(&[("api", text)]);
    let mut findings = Findings::default();
    let document = document(&dir.path().join("api"), &mut findings).unwrap();
    assert_eq!(document.operations.len(), 1);
    assert_eq!(findings.get(Trouble::EnormousTool).unwrap().count, 1);
}

#[test]
fn paths_and_methods_that_are_none_are_listed() {
    let text = r#"{"openapi": "3.1.0", "paths": {"batches": {"get": {}}, "/a": {"GET": {}, "fetch": {}, "get": {}, "summary": "A", "x-y": 1}, "x-z": 2}}"#;
    let (report, dataset) = import("openapi", &[("api", text)], "api");
    assert_eq!(dataset.catalogue.tools.len(), 1);
    let listed = &report.findings.get(Trouble::UnreadableEntry).unwrap().examples;
    assert_eq!(
        listed.join(" "),
        r#""path batches: it does not begin with `/`" "GET /a: no method, which are in lower case" "fetch /a: no method, which are in lower case""#
    );
}

#[test]
fn what_only_answers_hold_is_left_out_behind_a_reference_too() {
    let (schema, _) = expanded(&json!({
        "Root": {"type": "object", "required": ["id", "name"], "properties": {
            "id": {"$ref": "#/components/schemas/Id"}, "old": {"$ref": "#/components/schemas/Same"}, "name": {"type": "string"},
            "mine": {"$ref": "#/components/schemas/Id", "readOnly": false}}},
        "Same": {"$ref": "#/components/schemas/Id"},
        "Id": {"type": "string", "readOnly": true},
    }));
    let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["name", "mine"]);
}

#[test]
fn repeated_keys_and_inexact_numbers_are_listed() {
    let text = r#"{"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": [{"name": "n", "in": "query",
 "schema": {"type": "integer", "type": "number", "maximum": 123456789012345678901234567890}}]}}}}"#;
    let (report, _) = import("openapi", &[("api", text)], "api");
    let example = |trouble| report.findings.get(trouble).unwrap().examples.concat();
    assert!(example(Trouble::RepeatedKey).contains("api: duplicate field `type` at line 2"), "{report}");
    assert!(example(Trouble::InexactNumber).contains("api:2:61: 123456789012345678901234567890"), "{report}");
}

/// Documents whose parts are in the right places but of any kind.
fn odd() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        "object|string|true|#/components/schemas/[AB]|query|path|GET|[a-z%~/]{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("$ref"),
        Just("type"),
        Just("properties"),
        Just("required"),
        Just("items"),
        Just("allOf"),
        Just("nullable"),
        Just("schema"),
        Just("content"),
        Just("application/json"),
        Just("name"),
        Just("in"),
        Just("parameters"),
        Just("enum"),
        Just("requestBody"),
        Just("additionalProperties"),
        Just("exclusiveMinimum"),
        Just("minimum"),
        Just("readOnly"),
        Just("description"),
        Just("summary"),
        Just("operationId"),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|entries| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn arbitrary_bytes_never_panic(change in mangled(&FILES)) {
        survives("openapi", &FILES, change.0, change);
    }
}

proptest! {
    #[test]
    fn odd_documents_never_panic(item in odd(), operation in odd(), a in odd(), b in odd(), old in any::<bool>()) {
        let mut item = item;
        if let Some(item) = item.as_object_mut() {
            item.insert("post".to_owned(), operation);
        }
        let version = if old { "3.0.0" } else { "3.1.0" };
        let root = json!({"openapi": version, "paths": {"/a/{b}": item}, "components": {"schemas": {"A": a, "B": b}}});
        survives("openapi", &[("api.json", "")], "api.json", ("api.json", root.to_string().into_bytes()));
    }
}
