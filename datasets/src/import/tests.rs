use std::fs;
use std::path::Path;

use harness::dataset::Kind;
use harness::ids::QueryId;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::load;
use crate::testing::{folder, lines, put};

const OPENAI: &str = r#"[
 {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "strict": true,
  "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}},
 {"type": "function", "function": {"name": "now"}}
]"#;

/// A folder of `MetaTool` as its repository has it, with one trouble of each kind.
const UPSTREAM: [(&str, &str); 6] = [
    ("dataset/plugin_des.json", r#"{"news": "News.", "stocks": "Stocks.", "maps": "Maps.", "maps": "More maps."}"#),
    ("dataset/big_tool_des.json", r#"{"stocks": "Stocks."}"#),
    (
        "dataset/data/all_clean_data.csv",
        "Query,Tool\nwhat happened?,news\n\"how, then?\",maps\nwhat happened?,news\nprice?,stocks\nprice?,news\nwho?,nobody\n,news\nx\n",
    ),
    ("dataset/data/multi_tool_query_golden.json", r#"[{"query": "both", "tool": ["stocks", "news"]}, {"query": 1}]"#),
    (
        "dataset/tmp_dataset/Task2-Subtask3.json",
        r#"[{"query": "what happened?", "tool": "news", "action_prompt": "[List of Tools with Names and Descriptions Start]\n1. tool name: maps, tool description: a\n2. tool name: stocks, tool description: b\nof two lines\n\n[List of Tools with Names and Descriptions End]\n3. tool name: news, tool description: c"},
 {"query": "where?", "tool": "maps", "action_prompt": "none"}]"#,
    ),
    ("dataset/tmp_dataset/Task2-Subtask4.json", "[]"),
];

const NORMALISED: [(&str, &str); 4] = [
    (
        "tools.jsonl",
        r#"{"name": "news", "namespace": null, "description": "News.", "parameters": null, "merged_tool": true}
{"name": "find", "namespace": "Big Shop", "description": null, "parameters": {"type": "object"}}
{"name": "find", "namespace": "big_shop", "description": "again", "parameters": null}
{"name": "find", "namespace": "..", "description": "elsewhere", "parameters": {"type": "string"}}
"#,
    ),
    (
        "queries.jsonl",
        r#"{"id": "a", "query": "what happened?", "relevant": ["news"], "split": "single"}
{"id": "b", "query": "find it", "relevant": ["find"]}
{"id": "b", "query": "news twice", "relevant": ["news", "news"]}
{"id": "b", "query": "again", "relevant": ["news"]}
"#,
    ),
    (
        "queries_no_tool.jsonl",
        r#"{"id": "c", "query": "what happened?", "relevant": [], "candidates": ["news"], "removed_gold": "news"}
{"id": "d", "query": "other", "relevant": [], "candidates": ["gone"]}
{"id": "\u0007", "query": "unfit", "relevant": []}
{"id": "e", "query": "free", "relevant": []}
{"id": "f", "query": "not in", "relevant": ["news"], "candidates": []}
"#,
    ),
    ("queries_conflicting.jsonl", ""),
];

pub(super) fn import(
    importer: &str,
    files: &[(&str, &str)],
    source: &str,
) -> (ImportReport, harness::dataset::Dataset) {
    let dir = folder(files);
    let target = dir.path().join("new/target");
    let report = find(importer).unwrap().import(&dir.path().join(source), &target, &ImportOptions::default()).unwrap();
    (report, load(&target).unwrap())
}

#[test]
fn tools_of_a_request_become_a_catalogue() {
    let wrapped = format!(r#"{{"model": "m", "tools": {OPENAI}}}"#);
    for text in [OPENAI, &wrapped, &format!("\u{feff}{OPENAI}")] {
        let (report, dataset) = import("openai-tools", &[("tools.json", text)], "tools.json");
        assert_eq!(report.to_string(), "servers 1, tools 2, queries 0 (no-tool 0), labels 0");
        let tools = &dataset.catalogue.tools;
        assert_eq!(tools[0].id.to_string(), "tools/get_weather");
        assert!(tools[0].input_schema["properties"].get("place").is_some());
        assert_eq!(tools[1].input_schema, serde_json::json!({"type": "object"}));
    }
}

#[test]
fn what_is_no_tool_of_a_request_is_listed() {
    let text = r#"[1, {"type": "web_search"}, {"function": {}}, {"function": {"name": "a", "description": 1}},
        {"type": "function", "id": 3, "function": {"name": "a", "parameters": [], "returns": {}}},
        {"function": {"name": "a"}}, {"function": {"name": "\u001b[31m"}}]"#;
    let (report, _) = import("openai-tools", &[("t.json", text)], "t.json");
    assert_snapshot!(report, @r#"
    servers 1, tools 1, queries 0 (no-tool 0), labels 0
      4 × entry that cannot be read; left out: "t.json:entry 0: no object", "t.json:entry 1: its type is not function", "t.json:entry 2: no text `function.name`", "t.json:entry 3: `function.description` is no text"
      1 × tool whose name is blank, too long or not printable; left out: "\u{1b}[31m"
      1 × tool of the same name on the same server; the first is kept: "a"
      1 × parameters that are no object schema or nest too deep; an empty one stands in: "a"
      2 × key of a tool that has no place in the format; left out: "id of a", "returns of a"
    "#);
}

#[test]
fn the_repository_of_metatool_is_read() {
    let (report, dataset) = import("metatool", &UPSTREAM, "dataset");
    assert_eq!(import("metatool", &UPSTREAM, "").0, report, "the folder above does as well");
    assert_snapshot!(report, @r#"
    servers 1, tools 3, queries 4 (no-tool 1), labels 4
      own candidates: 1 of 4 queries, asked of those and not of the whole catalogue
      1 × file that has no place in the format or is missing; not imported: "tmp_dataset/Task2-Subtask4.json"
      3 × entry that cannot be read; left out: "all_clean_data.csv:record 8: expected two cells", "multi_tool_query_golden.json:1:59: invalid type: integer `1`, expected a string", "Task2-Subtask3.json:entry 1: its prompt lists no tool"
      1 × tool of the same name on the same server; the first is kept: "maps"
      1 × query without words; left out: "single-7"
      1 × query whose words and gold occur before; the first is kept: "what happened?"
      1 × words that occur with different gold; all queries with them are left out: "price?"
      1 × gold that names no tool; the query is left out: "nobody"
    "#);
    let queries: Vec<_> =
        dataset.queries.iter().map(|q| format!("{} {} {}", q.id, q.kind.as_str(), q.intent)).collect();
    assert_snapshot!(lines(queries), @r#"
    single-1 unspecified metatool/news
    single-2 unspecified metatool/maps
    multi-0 multi metatool/news + metatool/stocks
    no-tool-0 no_tool metatool/news
    "#);
    assert_eq!(dataset.catalogue.tools[1].tags, ["merged"]);
    let no_tool = dataset.query(&QueryId::new("no-tool-0")).unwrap();
    let candidates: Vec<_> = no_tool.candidates.iter().flatten().map(ToString::to_string).collect();
    assert_eq!((no_tool.kind, candidates.join(" ")), (Kind::NoTool, "metatool/maps metatool/stocks".to_owned()));
    assert_eq!(dataset.qrels.of(&QueryId::new("multi-0")).groups().len(), 2);
}

#[test]
fn the_normalised_metatool_is_read() {
    let (report, dataset) = import("metatool", &NORMALISED, "");
    assert_snapshot!(report, @r#"
    servers 2, tools 3, queries 4 (no-tool 2), labels 2
      own candidates: 1 of 4 queries, asked of those and not of the whole catalogue
      1 × file that has no place in the format or is missing; not imported: "queries_conflicting.jsonl"
      1 × tool of the same name on the same server; the first is kept: "find"
      1 × parameters that are no object schema or nest too deep; an empty one stands in: "find"
      2 × namespace whose name as a file is taken by another; they share one server: "big_shop", ".."
      1 × query whose id is blank, too long or not printable; left out: "\u{7}"
      2 × query id that occurs again; the first is kept: "b", "b"
      1 × name that fits tools of several servers; the query is left out: "find"
      1 × candidate that names no tool; the query is left out: "gone"
    "#);
    let ids: Vec<_> = dataset.catalogue.tools.iter().map(|tool| tool.id.to_string()).collect();
    assert_eq!(ids, ["metatool/news", "metatool/find", "big_shop/find"]);
    assert_eq!(dataset.catalogue.servers[1].title, "Big Shop");
}

#[test]
fn strict_imports_write_nothing_when_something_is_lost() {
    let dir = folder(&UPSTREAM);
    let target = dir.path().join("target");
    let strict = ImportOptions { strict: true, ..ImportOptions::default() };
    let error = find("metatool").unwrap().import(dir.path(), &target, &strict).unwrap_err();
    assert!(matches!(&error, ImportError::Strict { findings } if !findings.is_empty()), "{error}");
    assert!(!target.exists());
}

#[test]
fn only_datasets_are_replaced_and_only_if_allowed() {
    let dir = folder(&[("tools.json", OPENAI), ("bad.json", "{}"), ("other/file", "precious")]);
    let importer = find("openai-tools").unwrap();
    let source = dir.path().join("tools.json");
    let overwrite = ImportOptions { overwrite: true, ..ImportOptions::default() };
    let other = dir.path().join("other");
    let error = importer.import(&source, &other, &overwrite).unwrap_err();
    assert!(matches!(error, ImportError::TargetForeign { .. }), "{error}");
    assert!(other.join("file").exists());

    let target = dir.path().join("target");
    fs::create_dir(&target).unwrap();
    importer.import(&source, &target, &ImportOptions::default()).unwrap();
    let error = importer.import(&source, &target, &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, ImportError::TargetExists { .. }), "{error}");
    let error = importer.import(&dir.path().join("bad.json"), &target, &overwrite).unwrap_err();
    assert!(matches!(error, ImportError::Unreadable { .. }), "{error}");
    assert!(target.join("dataset.toml").exists(), "a failed import leaves the old dataset");
    importer.import(&source, &target, &overwrite).unwrap();
    let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["bad.json", "other", "target", "tools.json"], "no temporary folder stays");
}

#[test]
fn nothing_of_a_person_s_work_is_overwritten() {
    let dir = folder(&[("tools.json", OPENAI)]);
    let (source, target) = (dir.path().join("tools.json"), dir.path().join("target"));
    let importer = find("openai-tools").unwrap();
    let overwrite = ImportOptions { overwrite: true, ..ImportOptions::default() };
    importer.import(&source, &target, &overwrite).unwrap();
    let manifest = fs::read_to_string(target.join("dataset.toml")).unwrap();
    for (name, content) in [
        ("queries.jsonl", "{\"query\": \"q1\"}\n"),
        ("qrels.jsonl", "{\"query\": \"q1\"}\n"),
        ("skills.jsonl", "{\"name\": \"s\"}\n"),
        ("actors.jsonl", "{\"actor\": \"all\"}\n"),
        ("lint.toml", "version = 1\n"),
        ("notes.md", "mine"),
        (".git/HEAD", "ref"),
        ("tools/notes.md", "mine"),
        ("tools/mine.jsonl/notes.md", "mine"),
    ] {
        put(&target, name, content);
        let error = importer.import(&source, &target, &overwrite).unwrap_err();
        assert!(matches!(error, ImportError::TargetEdited { .. }), "{name}: {error}");
        let shown = name.split('/').find(|part| *part == ".git").unwrap_or(name);
        let shown = shown.strip_suffix("/notes.md").filter(|folder| folder.contains("jsonl")).unwrap_or(shown);
        assert!(error.to_string().contains(&format!("holds \"{shown}\", which")), "{error}");
        assert_eq!(fs::read_to_string(target.join(name)).unwrap(), content);
        fs::remove_file(target.join(name)).unwrap();
        let _ = fs::remove_dir(target.join(".git"));
        let _ = fs::remove_dir(target.join("tools/mine.jsonl"));
    }
    fs::rename(target.join("servers.jsonl"), dir.path().join("aside")).unwrap();
    put(&target, "servers.jsonl/notes.md", "mine");
    let error = importer.import(&source, &target, &overwrite).unwrap_err();
    assert!(error.to_string().contains("holds \"servers.jsonl\", which"), "{error}");
    fs::remove_dir_all(target.join("servers.jsonl")).unwrap();
    fs::rename(dir.path().join("aside"), target.join("servers.jsonl")).unwrap();
    for (edited, named) in [
        (manifest.clone() + "sizes = [1]\n", "`sizes` in \"dataset.toml\""),
        (manifest.replace("licence = \"", "licence = \"MIT AND "), "`licence` in \"dataset.toml\""),
        (manifest.clone() + "# not to be published\n", "comments in \"dataset.toml\""),
        ("broken".to_owned(), "\"dataset.toml\""),
    ] {
        put(&target, "dataset.toml", edited);
        let error = importer.import(&source, &target, &overwrite).unwrap_err();
        assert!(error.to_string().contains(&format!("holds {named}, which")), "{error}");
    }
    put(&target, "dataset.toml", manifest.replace("revision = \"", "revision = \"0"));
    // What it wrote itself, and tools, it does write anew.
    put(&target, "queries.jsonl", "\n");
    put(&target, "tools/gone.jsonl", "");
    importer.import(&source, &target, &overwrite).unwrap();
    assert!(load(&target).is_ok() && !target.join("tools/gone.jsonl").exists());
}

#[cfg(unix)]
#[test]
fn behind_a_link_the_dataset_itself_is_replaced() {
    let other = OPENAI.replace("now", "then");
    let dir = folder(&[("tools.json", OPENAI), ("other.json", &other)]);
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    let importer = find("openai-tools").unwrap();
    importer.import(&dir.path().join("tools.json"), &target, &ImportOptions::default()).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let overwrite = ImportOptions { overwrite: true, ..ImportOptions::default() };
    importer.import(&dir.path().join("other.json"), &link, &overwrite).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(load(&target).unwrap().catalogue.tools[1].id.to_string(), "other/then");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
    let error = importer.import(&dir.path().join("tools.json"), &dir.path().join("dangling"), &overwrite).unwrap_err();
    assert!(matches!(error, ImportError::TargetForeign { .. }), "{error}");
}

#[test]
fn queries_of_an_import_are_overwritten_by_the_same_alone() {
    let dir = folder(&UPSTREAM);
    let target = dir.path().join("target");
    let run = |importer: &str, source: &Path| {
        let overwrite = ImportOptions { overwrite: true, ..ImportOptions::default() };
        find(importer).unwrap().import(source, &target, &overwrite)
    };
    run("metatool", dir.path()).unwrap();
    run("metatool", dir.path()).unwrap();
    put(dir.path(), "tools.json", OPENAI);
    let error = run("openai-tools", &dir.path().join("tools.json")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("holds \"qrels.jsonl\", \"queries.jsonl\", `licence` in \"dataset.toml\", `name` in"),
        "{error}"
    );
    assert!(fs::metadata(target.join("queries.jsonl")).unwrap().len() > 0);
}

#[test]
fn options_are_checked_and_used() {
    let dir = folder(&[("tools.json", OPENAI)]);
    let importer = find("openai-tools").unwrap();
    let run = |options: &ImportOptions| importer.import(&dir.path().join("tools.json"), &dir.path().join("t"), options);
    let text = |text: &str| Some(text.to_owned());
    let error = run(&ImportOptions { server: text("../x"), ..ImportOptions::default() }).unwrap_err();
    assert_snapshot!(error, @r#"option server: "../x" is unfit; expected lower-case letters, digits, `_` and `-`"#);
    let error = run(&ImportOptions { name: text("My Set"), ..ImportOptions::default() }).unwrap_err();
    assert_snapshot!(error, @r#"option name: "My Set" is unfit; expected lower-case letters, digits and `-`"#);
    assert_snapshot!(find("metatol").unwrap_err(), @r#"importer "metatol" does not exist (did you mean "metatool"?); expected one of api-bank, apibench, arcade, beir, bfcl, docker-mcp-registry, livemcpbench, mcp-tools-list, mcp-zero, metatool, openai-tools, openapi, restbench, seal-tools, skills, synth, toolret, mcp"#);
    let chosen =
        ImportOptions { server: text("shop"), name: text("my-set"), licence: text("MIT"), ..Default::default() };
    run(&chosen).unwrap();
    let dataset = load(&dir.path().join("t")).unwrap();
    assert_eq!((dataset.name.as_str(), dataset.licence.as_str()), ("my-set", "MIT"));
    assert_eq!(dataset.catalogue.tools[0].id.server(), "shop");
}

#[test]
fn servers_are_named_by_file_or_title_and_an_unused_name_is_refused() {
    let server = |importer: &str, name: &str, text: &str| {
        let (_, dataset) = import(importer, &[(name, text)], name);
        dataset.catalogue.tools[0].id.server().to_owned()
    };
    assert_eq!(server("openai-tools", "Shop Floor.json", OPENAI), "shop_floor");
    assert_eq!(server("openai-tools", "request.json", OPENAI), "tools");
    let document = r#"{"openapi": "3.1.0", "info": {"title": "Kiln API"}, "paths": {"/a": {"get": {}}}}"#;
    assert_eq!(server("openapi", "any.json", document), "kiln_api");
    assert_eq!(server("openapi", "any.json", &document.replace("Kiln API", "")), "openapi");
    let dir = folder(&[("lists/lamp.json", r#"[{"name": "dim"}]"#), ("tools.json", OPENAI)]);
    let named = ImportOptions { server: Some("mine".to_owned()), ..ImportOptions::default() };
    let lists = find("mcp-tools-list").unwrap();
    let error = lists.import(&dir.path().join("lists"), &dir.path().join("t"), &named).unwrap_err();
    assert_snapshot!(error, @r#"option server: every tool of the source has a server of its own, so "mine" would be used for none; leave it out"#);
    lists.import(&dir.path().join("lists/lamp.json"), &dir.path().join("t"), &named).unwrap();
    assert_eq!(load(&dir.path().join("t")).unwrap().catalogue.tools[0].id.to_string(), "mine/dim");
}

#[test]
fn lists_of_a_server_are_recognised_in_place_of_a_request() {
    let text = r#"[{"name": "a", "inputSchema": {}}, {"function": {"name": "b"}}]"#;
    let (report, _) = import("openai-tools", &[("t.json", text)], "t.json");
    let examples = &report.findings.get(Trouble::UnreadableEntry).unwrap().examples;
    assert_eq!(examples, &["\"t.json:entry 0: no object `function`; it looks like mcp-tools-list\""]);
}

#[test]
fn revisions_follow_the_content() {
    let revision = |text: &str| import("openai-tools", &[("t.json", text)], "t.json").1.revision;
    assert_eq!(revision(OPENAI), revision(OPENAI));
    assert_ne!(revision(OPENAI), revision(r#"[{"type": "function", "function": {"name": "other"}}]"#));
}

#[test]
fn a_source_without_tools_is_an_error() {
    let dir = folder(&[("t.json", "[]")]);
    let target = dir.path().join("target");
    let importer = find("openai-tools").unwrap();
    let error = importer.import(&dir.path().join("t.json"), &target, &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, ImportError::NoTools { .. }), "{error}");
    assert!(!target.exists());
}

pub(super) fn mangled<'a>(files: &'a [(&'a str, &'a str)]) -> impl Strategy<Value = (&'a str, Vec<u8>)> {
    let parts =
        (0..files.len(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..60), any::<bool>());
    parts.prop_map(|(file, cut, bytes, keep)| {
        let (name, content) = files[file];
        let mut content = content.as_bytes().to_vec();
        let tail = content.split_off(cut.index(content.len() + 1));
        content.extend(bytes);
        if keep {
            content.extend(tail);
        }
        (name, content)
    })
}

/// Imports with options of the one importer.
pub(super) fn import_with(
    importer: &str,
    files: &[(&str, &str)],
    extras: &[Extra],
) -> (ImportReport, harness::dataset::Dataset) {
    let dir = folder(files);
    let target = dir.path().join("target");
    let options = ImportOptions { extras: extras.iter().copied().collect(), ..ImportOptions::default() };
    let report = find(importer).unwrap().import(dir.path(), &target, &options).unwrap();
    (report, load(&target).unwrap())
}

/// The report and everything that was imported, for people to check.
pub(super) fn shown((report, dataset): (ImportReport, harness::dataset::Dataset)) -> String {
    let servers = dataset.catalogue.servers.iter();
    let servers = servers.map(|server| format!("{}: {} | {}", server.name, server.title, server.description));
    let tools = dataset.catalogue.tools.iter();
    let tools = tools.map(|tool| format!("{} | {} | {}", tool.id, tool.description.escape_debug(), tool.input_schema));
    let queries = dataset.queries.iter().flat_map(|query| {
        let candidates = query.candidates.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let labels = dataset.qrels.of(&query.id).qrels().iter().map(|label| {
            let arguments = label.arguments.as_ref().map(|map| serde_json::json!(map).to_string()).unwrap_or_default();
            format!("   {} {} {} {arguments}", label.group, label.tool, label.relevance)
        });
        let line = format!(
            "{} | {} | {} | {}{}{candidates}",
            query.id,
            query.text.escape_debug(),
            query.kind.as_str(),
            if query.sequential { "sequential " } else { "" },
            if candidates.is_empty() { "" } else { "among " },
        );
        [line].into_iter().chain(labels).collect::<Vec<_>>()
    });
    let parts = [servers.collect::<Vec<_>>(), tools.collect(), queries.collect()];
    format!("{report}\n\n{}", parts.iter().map(lines).collect::<Vec<_>>().join("\n"))
}

/// Importing never panics, and what it writes loads.
pub(super) fn survives(importer: &str, files: &[(&str, &str)], source: &str, (name, content): (&str, Vec<u8>)) {
    let dir = folder(files);
    put(dir.path(), name, content);
    let target = dir.path().join("target");
    match find(importer).unwrap().import(&dir.path().join(source), &target, &ImportOptions::default()) {
        Ok(_) => assert!(load(&target).is_ok()),
        Err(ImportError::Invalid(error)) => panic!("an import that does not load: {error}"),
        Err(_) => assert!(!Path::new(&target).exists()),
    }
}

#[test]
fn options_of_another_importer_are_refused() {
    let dir = folder(&[("tools.json", OPENAI)]);
    let run = |importer: &str, extra: Extra| {
        let options = ImportOptions { extras: [extra].into(), ..ImportOptions::default() };
        let source = dir.path().join("tools.json");
        find(importer).unwrap().import(&source, &dir.path().join("t"), &options).unwrap_err()
    };
    assert_snapshot!(run("openai-tools", Extra::Raw), @"option raw does not apply to importer openai-tools; it belongs to toolret, openai-tools has no option of its own");
    assert_snapshot!(run("toolret", Extra::Pooled), @"option pooled does not apply to importer toolret; it belongs to bfcl, toolret has raw and with-instruction");
    assert!(!dir.path().join("t").exists());
    assert!(Extra::ALL.iter().all(|extra| find(extra.importer()).is_ok()));
}

/// Lines and entries of 50 MB are listed and left out, whatever stands in them.
#[test]
fn endless_entries_are_listed() {
    let long = format!(r#"{{"name": "a", "description": "{}"}}"#, "x".repeat(50_000_000));
    let tools = format!("{long}\n{}\n{{\"name\": \"b\"}}\n", "y".repeat(50_000_000));
    let (report, _) = import("metatool", &[("tools.jsonl", &tools), ("queries.jsonl", "")], "");
    assert_snapshot!(report, @r#"
    servers 1, tools 1, queries 0 (no-tool 0), labels 0
      2 × entry that cannot be read; left out: "tools.jsonl:1:1: it has 50000032 bytes, more than 33554432", "tools.jsonl:2:1: it has 50000000 bytes, more than 33554432"
    "#);
    let servers =
        format!(r#"[{{"server_name": "s", "tools": [{long}]}}, {{"server_name": "s", "tools": [{{"name": "b"}}]}}]"#);
    let (report, _) = import("mcp-zero", &[("mcp_tools_with_embedding.json", &servers)], "");
    assert_snapshot!(report, @r#"
    servers 1, tools 1, queries 0 (no-tool 0), labels 0
      1 × entry that cannot be read; left out: "mcp_tools_with_embedding.json:1:2: it has 50000065 bytes, more than 33554432"
    "#);
}

#[test]
fn servers_of_one_name_are_listed_and_names_in_other_letters_keep_apart() {
    let servers = r#"[{"server_name": "天气", "tools": [{"name": "get"}]}, {"server_name": "新闻", "tools": [{"name": "get"}]},
        {"server_name": "天气 api", "tools": [{"name": "get"}]}, {"server_name": "新闻 api", "tools": [{"name": "get"}]},
        {"server_name": "天气", "tools": [{"name": "set"}]}]"#;
    let (report, dataset) = import("mcp-zero", &[("mcp_tools_with_embedding.json", servers)], "");
    assert_eq!((report.servers, report.tools), (4, 5), "{report}");
    assert_eq!(report.findings.get(Trouble::RepeatedServer).unwrap().examples, ["\"天气\""]);
    assert!(report.findings.get(Trouble::MergedServers).is_none());
    let names: Vec<_> = dataset.catalogue.servers.iter().map(|server| server.name.as_str()).collect();
    assert!(
        names.contains(&"api") && names.iter().filter(|name| name.starts_with("server-")).count() == 2,
        "{names:?}"
    );
}

#[test]
fn titles_are_bounded_like_descriptions() {
    let text = format!(r#"[{{"name": "a", "title": "{}"}}, {{"name": "b"}}]"#, "x".repeat(2 << 20));
    let (report, _) = import("mcp-tools-list", &[("t.json", &text)], "t.json");
    assert_eq!((report.tools, report.findings.get(Trouble::EnormousTool).unwrap().count), (1, 1));
}

#[test]
fn numbers_and_keys_of_schemas_are_looked_at() {
    let text = r#"[{"name": "a", "inputSchema": {"type": "object", "type": "object", "maxProperties": 98765432109876543210}}]"#;
    for importer in ["mcp-tools-list", "openai-tools"] {
        let wrapped = text
            .replace("\"name\"", "\"function\": {\"name\"")
            .replace("inputSchema", "parameters")
            .replace("}}]", "}}}]");
        let text = if importer == "openai-tools" { wrapped.as_str() } else { text };
        let (report, _) = import(importer, &[("t.json", text)], "t.json");
        assert_eq!(report.findings.get(Trouble::InexactNumber).unwrap().count, 1, "{importer}: {report}");
        assert_eq!(report.findings.get(Trouble::RepeatedKey).unwrap().count, 1, "{importer}: {report}");
    }
}

#[test]
fn bytes_that_are_no_text_are_placed() {
    let dir = folder(&[("tools.json", b"[\n \xC3\xA9\xFF]")]);
    let source = dir.path().join("tools.json");
    let error = find("openai-tools").unwrap().import(&source, &dir.path().join("t"), &ImportOptions::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("tools.json cannot be read: it is not UTF-8 at 2:3; expected a JSON file"), "{error}");
}

#[test]
fn bad_entries_are_placed() {
    let text = "[{\"query\": \"é\", \"tool\": [\"news\"]},\n {\"query\": 1},  {\"query\": \"a\",\n  \"tool\": {}}]";
    let files = [("plugin_des.json", r#"{"news": "News."}"#), ("data/multi_tool_query_golden.json", text)];
    let (report, _) = import("metatool", &files, "");
    let examples = &report.findings.get(Trouble::UnreadableEntry).unwrap().examples;
    assert_snapshot!(examples.join("\n"), @r#"
    "multi_tool_query_golden.json:2:12: invalid type: integer `1`, expected a string"
    "multi_tool_query_golden.json:3:10: invalid type: map, expected a sequence"
    "#);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn arbitrary_bytes_never_panic_openai_tools(change in mangled(&[("tools.json", OPENAI)])) {
        survives("openai-tools", &[("tools.json", OPENAI)], "tools.json", change);
    }

    #[test]
    fn arbitrary_bytes_never_panic_metatool(change in mangled(&UPSTREAM)) {
        survives("metatool", &UPSTREAM, "", change);
    }

    #[test]
    fn arbitrary_bytes_never_panic_normalised_metatool(change in mangled(&NORMALISED)) {
        survives("metatool", &NORMALISED, "", change);
    }

    /// Names of any characters either fit or are listed.
    #[test]
    fn arbitrary_names_import(names in prop::collection::vec((any::<String>(), any::<Option<String>>(), any::<String>()), 1..5)) {
        let tools = names.iter().map(|(name, namespace, _)| serde_json::json!({"name": name, "namespace": namespace}));
        // A source without any tool that fits is an error.
        let tools = tools.chain([serde_json::json!({"name": "fit", "namespace": "a server of its own"})]);
        let queries = names.iter().map(|(name, _, text)| serde_json::json!({"id": text, "query": text, "relevant": [name]}));
        let files = [("tools.jsonl", lines(tools)), ("queries.jsonl", lines(queries))];
        let files = files.each_ref().map(|(name, content)| (*name, content.as_str()));
        let (report, _) = import("metatool", &files, "");
        let listed: usize = [Trouble::UnfitToolName, Trouble::DuplicateTool]
            .into_iter()
            .filter_map(|trouble| report.findings.get(trouble))
            .map(|finding| finding.count)
            .sum();
        prop_assert_eq!(report.tools + listed, names.len() + 1);
    }
}
