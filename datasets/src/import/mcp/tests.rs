use std::path::PathBuf;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::load;
use crate::testing::{folder, lines};

fn variable(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("sk-secret-1".to_owned()),
        "DIR" => Some("/srv/data".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn servers(text: impl AsRef<[u8]>) -> Result<Vec<Server>, ImportError> {
    let dir = folder(&[("servers.json", text)]);
    read(&dir.path().join("servers.json"), &variable)
}

fn stdio(command: &str) -> Server {
    let (command, args, env) = (command.to_owned(), Vec::new(), Vec::new());
    Server::new("a", Reach::Stdio { command, args, env, cwd: None })
}

#[test]
fn files_of_desktop_clients_are_read() {
    let servers = servers(
        r#"{"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "pkg", "${DIR}/x", 7], "env": {"KEY": "${TOKEN}", "PORT": 80}, "autoApprove": []},
        "near": {"type": "stdio", "command": "${MISSING:-python3}", "args": null, "cwd": "sub"},
        "far": {"type": "http", "url": "https://host/mcp?key=${env:TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    }, "theme": "dark"}"#,
    )
    .unwrap();
    let Ok(Reach::Stdio { command, args, env, cwd: None }) = &servers[0].reach else { panic!("{servers:?}") };
    assert_eq!((command.as_str(), args.join(" ")), ("npx", "-y pkg /srv/data/x 7".to_owned()));
    let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(*env, [owned("KEY", "sk-secret-1"), owned("PORT", "80")]);
    let Ok(Reach::Stdio { command, cwd: Some(cwd), .. }) = &servers[1].reach else { panic!("{servers:?}") };
    assert_eq!(command, "python3");
    assert!(cwd.is_absolute() && cwd.ends_with("sub"), "beside the file, whatever the working folder: {cwd:?}");
    let Ok(Reach::Http { url, headers }) = &servers[2].reach else { panic!("{servers:?}") };
    assert_eq!(url, "https://host/mcp?key=sk-secret-1");
    assert_eq!(*headers, [owned("Authorization", "Bearer sk-secret-1")]);
    for server in &servers {
        assert!(server.troubles.is_empty(), "{server:?}");
        assert!(!format!("{server:?}").contains("sk-"), "{server:?}");
    }
    assert_eq!(servers[0].secrets.redact("at /srv/data/x with sk-secret-1"), "at ***/x with ***");
    assert_eq!(servers[2].secrets.redact("sk-secret-1"), "***");
    assert!(super::config::read(&PathBuf::from("/nowhere"), &variable).is_err());
}

#[test]
fn a_server_that_cannot_be_reached_says_why_and_does_not_stop_the_others() {
    let servers = servers(
        r#"{"servers": {
        "unset": {"command": "x", "env": {"KEY": "${GONE}"}},
        "blank": {"command": "x", "env": {"KEY": "${EMPTY}"}},
        "open": {"command": "${DIR"},
        "odd": {"command": "${input:key}"},
        "both": {"command": "x", "url": "y"},
        "none": {},
        "text": "npx",
        "off": {"command": "x", "disabled": true},
        "old": {"type": "sse", "url": "https://x"},
        "kind": {"type": "\u001b[2J", "command": "x"},
        "args": {"command": "x", "args": "-y"},
        "deep": {"command": "x", "args": [[]]},
        "name": {"command": "x", "env": {"A=B": "1"}},
        "ftp": {"url": "ftp://x"},
        "slip": {"command": "x", "arg": ["-y"]}
    }}"#,
    )
    .unwrap();
    let said = servers.iter().map(|server| match &server.reach {
        Ok(_) => format!("{}: {:?}", server.name, server.troubles),
        Err(reason) => format!("{}: {reason}", server.name),
    });
    assert_snapshot!(lines(said));
}

#[test]
fn a_file_without_servers_is_an_error_that_shows_no_value() {
    let faults = [
        r#"{"mcpServers": {"a": {"env": {"KEY": "sk-secret-1"}}"#,
        r#"{"mcpServers": ["sk-secret-1"]}"#,
        r#"{"mcpServers": {}}"#,
        r#"{"mcpServers": {"a": {}, "a": {}}}"#,
        r#""sk-secret-1""#,
        "sk-secret-1",
    ];
    let said: Vec<_> = faults.map(|text| servers(text).unwrap_err().to_string()).into_iter().collect();
    assert!(!said.concat().contains("secret"), "{said:?}");
    let after =
        |text: &String| text.split_once("cannot be read: ").unwrap().1.split("; expected").next().unwrap().to_owned();
    assert_snapshot!(lines(said.iter().map(after)));
}

fn write(
    captured: Vec<Captured>,
    options: &ImportOptions,
) -> Result<(ImportReport, PathBuf, tempfile::TempDir), ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    Snapshot::new(&target, options)?.write(captured).map(|report| (report, target, dir))
}

fn captured(name: &str, outcome: Result<Listing, String>) -> Captured {
    captured_with(name, outcome, Vec::new())
}

fn captured_with(name: &str, outcome: Result<Listing, String>, troubles: Vec<(Trouble, String)>) -> Captured {
    let mut server = stdio("x");
    name.clone_into(&mut server.name);
    server.secrets.add_environment("TOKEN", "sk-secret-1");
    Captured::new(server, outcome, troubles)
}

#[test]
fn what_servers_list_becomes_a_dataset() {
    let listing = Listing {
        name: "files-server".to_owned(),
        version: "1.2.3".to_owned(),
        protocol: "2025-06-18".to_owned(),
        title: Some("Files".to_owned()),
        description: Some("Knows files.".to_owned()),
        instructions: true,
        tools: vec![
            json!({"name": "read", "title": "Read", "description": "Reads.", "inputSchema": {"type": "object", "properties": {"z": {}, "a": {}}},
                "annotations": {"readOnlyHint": true, "destructiveHint": null, "openWorldHint": "no", "extra": 1}, "outputSchema": {}, "_meta": {}}),
            json!({"name": "write", "inputSchema": {"properties": {"to": {"default": "***"}}}, "outputSchema": {}, "execution": {}}),
            json!({"name": "read", "description": "again"}),
            json!({"name": "list", "inputSchema": {"type": "array"}, "annotations": [], "title": 1}),
            json!({"description": "nameless"}),
            json!(3),
        ],
    };
    let other = Listing { tools: vec![json!({"name": "read"})], ..Listing::default() };
    let strays = vec![(Trouble::StrayOutput, "gone: 3 lines, first: sk-secret-1".to_owned())];
    let gone = captured_with("gone", Err("it ended with sk-secret-1".to_owned()), strays);
    let all = vec![
        captured("My Files", Ok(listing)),
        gone,
        captured("other", Ok(other)),
        captured("empty", Ok(Listing::default())),
    ];
    let (report, target, _dir) = write(all, &ImportOptions::default()).unwrap();
    assert_snapshot!(report);
    let text = |name: &str| std::fs::read_to_string(target.join(name)).unwrap();
    let all = text("servers.jsonl") + &text("tools/my_files.jsonl") + &text("tools/other.jsonl");
    assert!(!all.contains("secret") && !report.to_string().contains("secret"), "{all}{report}");
    assert_snapshot!(all);
    assert_eq!(load(&target).unwrap().catalogue.tools.len(), 4);
}

#[test]
fn a_server_whose_listing_holds_a_key_is_refused_and_nothing_is_altered() {
    let about = |version: &str| Listing { version: version.to_owned(), ..Listing::default() };
    let with = |tool: Value| Listing { tools: vec![json!({"name": "read"}), tool], ..Listing::default() };
    for (listing, place) in [
        (about("1 sk-secret-1"), "what it says of itself at `/version`"),
        (with(json!({"name": "sk-secret-1"})), "tool 1 \"***\" at `/name`"),
        (with(json!({"name": "a", "description": "Uses sk%2Dsecret-1"})), "tool 1 \"a\" at `/description`"),
        (with(json!({"name": "a", "inputSchema": {"sk-secret-1": {}}})), "tool 1 \"a\" at `/inputSchema/***`"),
        (with(json!({"name": "a", "_meta": ["\u{1b}", "sk-secret-1"]})), "tool 1 \"a\" at `/_meta/1`"),
    ] {
        let refused = captured("a", Ok(listing));
        let reason = refused.outcome().unwrap_err();
        assert_eq!(
            reason,
            format!(
                "the value of `TOKEN` occurs in {place}, and no key is stored; give it another value for the import, or, if it is no \
                 secret, add `--not-secret TOKEN`"
            )
        );
    }
    // A word that is somebody's password stays a word.
    let mut server = stdio("x");
    server.secrets.add_variable("DB_PASSWORD", "postgres");
    server.secrets.forget("DB_PASSWORD");
    let tools = vec![json!({"name": "query", "description": "Asks postgres."})];
    let kept = Captured::new(server, Ok(Listing { tools, ..Listing::default() }), Vec::new());
    let (_, target, _dir) = write(vec![kept], &ImportOptions::default()).unwrap();
    assert!(std::fs::read_to_string(target.join("tools/a.jsonl")).unwrap().contains("Asks postgres."));
}

#[test]
fn keys_in_the_wrong_place_of_a_file_are_not_told() {
    let key = "sk-misplaced-123";
    let servers = servers(
        r#"{"mcpServers": {
        "reference": {"command": "x", "env": {"KEY": "${sk-misplaced-123}"}},
        "variable": {"command": "x", "env": {"KEY": "${ghp_misplaced123}"}},
        "pair": {"command": "x", "env": {"API_KEY=sk-misplaced-123": "1"}},
        "header": {"url": "https://x", "headers": {"Authorization: Bearer sk-misplaced-123": []}},
        "type": {"type": "sk-misplaced-123", "command": "x"},
        "setting": {"command": "x", "sk-misplaced-123": 1}
    }}"#,
    )
    .unwrap();
    for server in &servers {
        let said = format!("{:?} {:?}", server.reach.as_ref().map(|_| ()), server.troubles);
        assert!(said.contains("***") && !said.contains(key) && !said.contains("ghp_"), "{said}");
    }
}

#[test]
fn keys_of_a_command_line_and_of_the_environment_are_known() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let reach = Reach::Stdio {
        command: "npx".to_owned(),
        args: words(
            "remote https://u:hunter2@host/x --header X-Token:abcdef --word correct-horse --other battery-staple",
        ),
        env: Vec::new(),
        cwd: None,
    };
    let mut server = Server::new("a", reach);
    let variables = [("MY_SECRET", "correct-horse"), ("PATH", "battery-staple"), ("OTHER_KEY", "not-in-the-line")];
    server.recognise(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(
        server.secrets.redact("hunter2 abcdef correct-horse battery-staple not-in-the-line"),
        "*** *** *** battery-staple not-in-the-line"
    );
    let mut server =
        Server::new("a", Reach::Http { url: "https://h/mcp/correct-horse".to_owned(), headers: Vec::new() });
    server.recognise([("MY_SECRET".to_owned(), "correct-horse".to_owned())]);
    let listing = Listing { name: "correct-horse".to_owned(), ..Listing::default() };
    let refused = Captured::new(server, Ok(listing), Vec::new());
    assert!(refused.outcome().unwrap_err().contains("the value of `MY_SECRET` occurs"), "{refused:?}");
}

#[test]
fn a_schema_too_deep_to_be_read_again_does_not_spoil_the_rest() {
    let deep = (0..110).fold(json!({}), |inner, _| json!({"a": inner}));
    let tools = vec![json!({"name": "deep", "inputSchema": deep}), json!({"name": "fine"})];
    let (report, target, _dir) =
        write(vec![captured("a", Ok(Listing { tools, ..Listing::default() }))], &ImportOptions::default()).unwrap();
    assert_eq!(report.findings.get(Trouble::UnfitSchema).unwrap().count, 1);
    assert_eq!(load(&target).unwrap().catalogue.tools.len(), 2);
}

#[test]
fn nothing_is_written_if_no_server_answers_or_strictness_asks_for_more() {
    let failed = || captured("gone", Err("it ended".to_owned()));
    let error = write(vec![failed()], &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, ImportError::NoServer { .. }) && error.to_string().contains("gone: it ended"), "{error}");
    let listing = Listing { tools: vec![json!({"name": "read"})], ..Listing::default() };
    let strict = ImportOptions { strict: true, ..ImportOptions::default() };
    assert!(write(vec![captured("a", Ok(listing.clone()))], &strict).is_ok());
    // What everybody leaves out is no loss.
    let usual = Listing {
        tools: vec![json!({"name": "read", "outputSchema": {}, "icons": [], "_meta": {}, "execution": {}})],
        instructions: true,
        ..Listing::default()
    };
    let disabled = captured("off", Err("it is disabled".to_owned()));
    let (report, ..) = write(vec![captured("a", Ok(usual)), disabled], &strict).unwrap();
    assert_eq!(report.findings.get(Trouble::DisabledServer).unwrap().examples, ["\"off\""]);
    let odd = Listing { tools: vec![json!({"name": "read", "colour": "red"})], ..Listing::default() };
    assert!(matches!(write(vec![captured("a", Ok(odd))], &strict).unwrap_err(), ImportError::Strict { .. }));
    let error = write(vec![captured("a", Ok(listing)), failed()], &strict).unwrap_err();
    assert!(matches!(error, ImportError::Strict { .. }), "{error}");
}

/// Any JSON, small.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = prop_oneof![
            Just("name".to_owned()),
            Just("inputSchema".to_owned()),
            Just("annotations".to_owned()),
            Just("type".to_owned()),
            ".{0,3}"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_never_panic_the_reader(cut in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let whole = r#"{"mcpServers": {"a": {"command": "${TOKEN}", "args": ["${DIR:-x}"], "env": {"K": "v"}}, "b": {"url": "https://u:p@h/?k=v"}}}"#;
        let mut content = whole.as_bytes().to_vec();
        let tail = content.split_off(cut.index(content.len() + 1));
        content.extend(bytes);
        content.extend(tail);
        let _ = servers(content);
    }

    /// Whatever a server lists, the dataset loads, and every entry is a tool or is listed.
    #[test]
    fn arbitrary_listings_import(tools in prop::collection::vec(value(), 1..6), said in ".{0,8}") {
        let count = tools.len();
        let listing = Listing { name: said.clone(), version: said.clone(), protocol: said.clone(), title: Some(said), tools, ..Listing::default() };
        let lost = |findings: &Findings| -> usize {
            let troubles = [Trouble::UnreadableEntry, Trouble::UnfitToolName, Trouble::DuplicateTool];
            troubles.iter().filter_map(|trouble| findings.get(*trouble)).map(|finding| finding.count).sum()
        };
        match write(vec![captured("a", Ok(listing))], &ImportOptions::default()) {
            Ok((report, target, _dir)) => {
                prop_assert!(load(&target).is_ok());
                prop_assert_eq!(report.tools + lost(&report.findings), count);
            }
            Err(ImportError::NoTools { findings }) => prop_assert_eq!(lost(&findings), count),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
