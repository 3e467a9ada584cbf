//! Where in its file a thing stands. The loader forgets lines once it is done; here they are looked up again by id, so that
//! runs do not carry them and a broken line neither shifts the others nor stands for one of them.

use std::collections::HashMap;
use std::path::Path;

use harness::dataset::Dataset;
use harness::ids::ToolId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::load::{column, parse_line, read_bytes};
use crate::problem::{Position, clean};
use crate::wire;

const SERVERS: &str = "servers.jsonl";

/// A place in a file of the dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Path below the dataset folder; a baseline from elsewhere is named as it was given.
    pub file: String,
    /// `None`: the file as a whole.
    pub position: Option<Position>,
}

/// The lines of all files.
pub(super) struct Places(HashMap<String, Lines>);

/// The lines of a file by the id of what they describe, each with its number.
type Lines = HashMap<String, (usize, String)>;

/// The lines of a file that the loader can read; `None`: it cannot read any.
fn lines<T: DeserializeOwned>(dir: &Path, name: &str, id: fn(T) -> String) -> Option<Lines> {
    let bytes = read_bytes(&dir.join(name)).ok()?;
    let mut lines = Lines::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if let Some(id) = parse_line(line).map(id) {
            // Of two lines with one id the loader keeps the first.
            lines.entry(id).or_insert_with(|| (index + 1, line.to_owned()));
        }
    }
    Some(lines)
}

impl Places {
    pub(super) fn read(dir: &Path, dataset: &Dataset) -> Self {
        let mut files = HashMap::new();
        let mut add = |name: &str, lines: Option<Lines>| files.extend(lines.map(|lines| (name.to_owned(), lines)));
        add(SERVERS, lines(dir, SERVERS, |line: wire::Server| line.server));
        add("skills.jsonl", lines(dir, "skills.jsonl", |line: wire::Skill| line.name));
        add("actors.jsonl", lines(dir, "actors.jsonl", |line: wire::Actor| line.actor));
        add("queries.jsonl", lines(dir, "queries.jsonl", |line: wire::Query| line.query));
        let id = |line: wire::Qrel| qrel_id(&line.query, line.group, &line.tool);
        add("qrels.jsonl", lines(dir, "qrels.jsonl", id));
        // Not only those of servers.jsonl: a broken line there still leaves the tools.
        let mut names: Vec<_> = dataset.catalogue.tools.iter().map(|tool| tools_file(&tool.id)).collect();
        names.sort();
        names.dedup();
        for name in names {
            add(&name, lines(dir, &name, |line: wire::Tool| line.name));
        }
        Self(files)
    }

    /// The place that a path leads to in the line of a file that describes `id` (see [`column`]).
    pub(super) fn of(&self, name: &str, id: &str, path: &[&str]) -> Place {
        self.first(name, id, &[path])
    }

    /// The place of a key of a tool.
    pub(super) fn tool(&self, id: &ToolId, key: &str) -> Place {
        // The title may stand among the annotations instead.
        self.first(&tools_file(id), id.name(), &[&[key], &["annotations", key]])
    }

    /// The place that the first of the paths that leads anywhere leads to.
    fn first(&self, name: &str, id: &str, paths: &[&[&str]]) -> Place {
        let Some(lines) = self.0.get(name) else {
            // The actor `all` needs no line, and then there may be no file.
            return Place { file: "dataset.toml".to_owned(), position: None };
        };
        let position = lines.get(id).map(|(line, text)| {
            let column = paths.iter().find_map(|path| column(text, path)).unwrap_or(1);
            Position { line: *line, column }
        });
        Place { file: clean(name), position }
    }

    /// Whether the server declares that its descriptions share text on purpose.
    pub(super) fn boilerplate(&self, server: &str) -> bool {
        let line = self.0.get(SERVERS).and_then(|lines| lines.get(server));
        line.and_then(|(_, line)| parse_line::<wire::Server>(line)).is_some_and(|server| server.boilerplate)
    }
}

/// What tells the lines of `qrels.jsonl` apart.
pub(super) fn qrel_id(query: &str, group: i64, tool: &str) -> String {
    format!("{query}\n{group}\n{tool}")
}

fn tools_file(id: &ToolId) -> String {
    format!("tools/{}.jsonl", id.server())
}
