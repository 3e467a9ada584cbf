//! Where in its file a thing stands. The loader forgets lines once it is done; here they are looked up again by id, so that
//! runs do not carry them and a broken line does not shift the others.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use harness::dataset::Dataset;
use harness::ids::ToolId;
use serde::{Deserialize, Serialize};

use crate::load::{column, read_bytes};
use crate::problem::{Position, clean};
use crate::wire;

/// A place in a file of the dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Path below the dataset folder; a baseline from elsewhere is named as it was given.
    pub file: String,
    /// `None`: the file as a whole.
    pub position: Option<Position>,
}

/// The lines of all files by what they describe.
pub(super) struct Places(HashMap<String, File>);

/// A file, and its lines by id.
struct File {
    text: String,
    lines: HashMap<String, (usize, Range<usize>)>,
}

/// What names a line, whatever the file. A query also has an actor, so the order of the fields matters in [`Id::take`].
#[derive(Deserialize)]
struct Id {
    query: Option<String>,
    name: Option<String>,
    server: Option<String>,
    actor: Option<String>,
}

impl Id {
    fn take(self) -> Option<String> {
        self.query.or(self.name).or(self.server).or(self.actor)
    }
}

impl File {
    fn read(dir: &Path, name: &str) -> Option<Self> {
        let text = String::from_utf8_lossy(&read_bytes(&dir.join(name)).ok()?).into_owned();
        let mut lines = HashMap::new();
        let mut start = 0;
        for (index, line) in text.split('\n').enumerate() {
            let id = serde_json::from_str::<Id>(line).ok().and_then(Id::take);
            if let Some(id) = id {
                // Of two lines with one id the loader keeps the first.
                lines.entry(id).or_insert((index + 1, start..start + line.len()));
            }
            start += line.len() + 1;
        }
        Some(Self { text, lines })
    }
}

impl Places {
    pub(super) fn read(dir: &Path, dataset: &Dataset) -> Self {
        let mut names: Vec<_> =
            ["servers.jsonl", "skills.jsonl", "actors.jsonl", "queries.jsonl"].map(str::to_owned).into();
        // Not only those of servers.jsonl: a broken line there still leaves the tools.
        names.extend(dataset.catalogue.tools.iter().map(|tool| tools_file(&tool.id)));
        names.sort();
        names.dedup();
        Self(names.into_iter().filter_map(|name| File::read(dir, &name).map(|file| (name, file))).collect())
    }

    /// The place of a key in the line of a file that describes `id`.
    pub(super) fn of(&self, name: &str, id: &str, key: &str) -> Place {
        let found = self.0.get(name).and_then(|file| file.lines.get(id).map(|line| (&file.text, line)));
        match found {
            Some((text, (line, range))) => {
                let column = column(text.get(range.clone()).unwrap_or_default(), key);
                Place { file: clean(name), position: Some(Position { line: *line, column }) }
            }
            // The actor `all` needs no line, and then there may be no file.
            None if !self.0.contains_key(name) => Place { file: "dataset.toml".to_owned(), position: None },
            None => Place { file: clean(name), position: None },
        }
    }

    pub(super) fn tool(&self, id: &ToolId, key: &str) -> Place {
        self.of(&tools_file(id), id.name(), key)
    }

    /// Whether the server declares that its descriptions share text on purpose.
    pub(super) fn boilerplate(&self, server: &str) -> bool {
        let Some(file) = self.0.get("servers.jsonl") else { return false };
        let line = file.lines.get(server).and_then(|(_, range)| file.text.get(range.clone()));
        line.and_then(|line| serde_json::from_str::<wire::Server>(line).ok()).is_some_and(|server| server.boilerplate)
    }
}

fn tools_file(id: &ToolId) -> String {
    format!("tools/{}.jsonl", id.server())
}
