//! Writing the format: what importers produce.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use serde::Serialize;

use crate::wire;

/// A dataset on its way to a folder. Without actors: no importer knows any.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) manifest: wire::Manifest,
    /// Each server with its tools.
    pub(crate) servers: Vec<(wire::Server, Vec<wire::Tool>)>,
    /// The file is left out if there are none.
    pub(crate) skills: Vec<wire::Skill>,
    pub(crate) queries: Vec<wire::Query>,
    pub(crate) qrels: Vec<wire::Qrel>,
}

impl Draft {
    /// Writes all files into a folder that exists.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let manifest = toml::to_string(&self.manifest).map_err(io::Error::other)?;
        fs::write(dir.join("dataset.toml"), manifest)?;
        lines(&dir.join("servers.jsonl"), self.servers.iter().map(|(server, _)| server))?;
        fs::create_dir(dir.join("tools"))?;
        for (server, tools) in &self.servers {
            lines(&dir.join("tools").join(format!("{}.jsonl", server.server)), tools)?;
        }
        if !self.skills.is_empty() {
            lines(&dir.join("skills.jsonl"), &self.skills)?;
        }
        lines(&dir.join("queries.jsonl"), &self.queries)?;
        lines(&dir.join("qrels.jsonl"), &self.qrels)
    }
}

fn lines<'a, T: Serialize + 'a>(path: &Path, items: impl IntoIterator<Item = &'a T>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for item in items {
        serde_json::to_writer(&mut file, item)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use harness::catalogue::Annotations;
    use proptest::collection::{btree_set, vec};
    use proptest::option;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::unique::Pairs;

    fn id() -> impl Strategy<Value = String> {
        "[a-zA-Z0-9東é][a-zA-Z0-9_ .:é東-]{0,8}[a-zA-Z0-9東é]"
    }

    fn tool(name: String) -> impl Strategy<Value = wire::Tool> {
        (".*", option::of(any::<bool>()), any::<bool>(), vec(".*", 0..2)).prop_map(
            move |(description, hint, core, tags)| wire::Tool {
                name: name.clone(),
                title: None,
                description,
                input_schema: json!({"type": "object", "properties": {"b": {}, "a": {}}}),
                annotations: hint.map(|hint| Annotations { read_only_hint: Some(hint), ..Annotations::default() }),
                core,
                tags,
            },
        )
    }

    fn draft() -> impl Strategy<Value = Draft> {
        let servers = btree_set("[a-z0-9][a-z0-9_-]{0,8}", 1..3);
        let tools = || btree_set(id(), 1..4).prop_flat_map(|names| names.into_iter().map(tool).collect::<Vec<_>>());
        let servers = servers.prop_flat_map(move |names| {
            let server = |name: String| wire::Server {
                title: name.clone(),
                server: name,
                description: String::new(),
                boilerplate: false,
                mcp: None,
            };
            names.into_iter().map(|name| (Just(server(name)), tools())).collect::<Vec<_>>()
        });
        let queries = btree_set(id(), 0..5).prop_flat_map(|ids| {
            let query =
                |id: String| (Just(id), "[^\\s]+.*", any::<bool>(), any::<prop::sample::Index>(), any::<bool>());
            ids.into_iter().map(query).collect::<Vec<_>>()
        });
        (servers, queries).prop_map(|(servers, drawn)| {
            let ids: Vec<_> = servers
                .iter()
                .flat_map(|(server, tools)| tools.iter().map(|tool| format!("{}/{}", server.server, tool.name)))
                .collect();
            let mut draft =
                Draft { manifest: manifest(), servers, skills: Vec::new(), queries: Vec::new(), qrels: Vec::new() };
            for (id, text, no_tool, index, restricted) in drawn {
                let gold = &ids[index.index(ids.len())];
                draft.queries.push(wire::Query {
                    query: id.clone(),
                    intent: gold.clone(),
                    text,
                    actor: wire::everybody(),
                    kind: if no_tool { "no_tool" } else { "direct" }.to_owned(),
                    language: wire::english(),
                    split: "test".to_owned(),
                    scaling: restricted,
                    sequential: no_tool,
                    candidates: restricted.then(|| vec![gold.clone()]),
                    results: Pairs(vec![(gold.clone(), "done".to_owned())]),
                    tags: Vec::new(),
                });
                draft.qrels.push(wire::Qrel {
                    query: id,
                    group: 0,
                    tool: gold.clone(),
                    relevance: if no_tool { 0 } else { 3 },
                    arguments: Some(Pairs(vec![("a".to_owned(), vec![Value::from(1)])])),
                });
            }
            draft
        })
    }

    fn manifest() -> wire::Manifest {
        wire::Manifest {
            format: wire::FORMAT,
            name: "drawn".to_owned(),
            revision: "\"'\n".to_owned(),
            licence: "MIT".to_owned(),
            description: "d".to_owned(),
            canary: None,
            sizes: Vec::new(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read(draft in draft()) {
            let dir = tempfile::tempdir().unwrap();
            draft.write(dir.path()).unwrap();
            let dataset = crate::load(dir.path()).unwrap();
            prop_assert_eq!(&dataset.revision, &draft.manifest.revision);
            let tools: Vec<_> = draft.servers.iter().flat_map(|(_, tools)| tools).collect();
            prop_assert_eq!(dataset.catalogue.tools.len(), tools.len());
            for (read, tool) in dataset.catalogue.tools.iter().zip(tools) {
                prop_assert_eq!(read.name(), &tool.name);
                prop_assert_eq!(&read.description, &tool.description);
                prop_assert_eq!(&read.input_schema, &tool.input_schema);
                prop_assert_eq!(&read.annotations, &tool.annotations.clone().unwrap_or_default());
                prop_assert_eq!((read.core, &read.tags), (tool.core, &tool.tags));
            }
            prop_assert_eq!(dataset.queries.len(), draft.queries.len());
            for ((read, query), qrel) in dataset.queries.iter().zip(&draft.queries).zip(&draft.qrels) {
                prop_assert_eq!(read.id.as_str(), &query.query);
                prop_assert_eq!((&read.text, read.kind.as_str()), (&query.text, query.kind.as_str()));
                prop_assert_eq!((read.scaling, read.sequential), (query.scaling, query.sequential));
                prop_assert_eq!(read.candidates.is_some(), query.candidates.is_some());
                prop_assert_eq!(read.results.len(), 1);
                let labels = dataset.qrels.of(&read.id).qrels();
                prop_assert_eq!(labels[0].tool.to_string(), qrel.tool.clone());
                prop_assert_eq!(i64::from(labels[0].relevance), qrel.relevance);
                let arguments = BTreeMap::from([("a".to_owned(), vec![Value::from(1)])]);
                prop_assert_eq!(labels[0].arguments.as_ref(), Some(&arguments));
            }
        }
    }
}
