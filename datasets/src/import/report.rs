//! What an import did, and what it could not map.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Extra;
use crate::problem::quote_up_to;

/// Examples kept per trouble.
const EXAMPLES: usize = 5;
/// Longest example, in characters.
const EXAMPLE: usize = 120;

/// Something of the source that the dataset does not hold as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    FileLeftOut,
    UnreadableFile,
    ServerLeftOut,
    DisabledServer,
    UnknownSetting,
    StrayOutput,
    UnreadableEntry,
    RepeatedKey,
    InexactNumber,
    UnfitToolName,
    EnormousTool,
    DuplicateTool,
    MovedTool,
    UnfitSchema,
    UnknownType,
    RepeatedArgument,
    IgnoredKey,
    ProtocolKey,
    MergedServers,
    RepeatedServer,
    EnormousServer,
    RenamedTool,
    RenamedArgument,
    RepairedSchema,
    UnresolvedReference,
    CutReference,
    CutSchema,
    OpenEndedList,
    UnfitSkill,
    DuplicateSkill,
    IgnoredSkillKey,
    UnknownAllowedTool,
    OutOfScope,
    UnfitQueryId,
    DuplicateQueryId,
    BlankQuery,
    DuplicateQuery,
    ConflictingGold,
    RepeatedGold,
    UnresolvedGold,
    AmbiguousName,
    UnresolvedCandidate,
    GoldNoCandidate,
    NoGold,
    DamagedQuery,
    NoCandidates,
    OrphanLabel,
    RepeatedLabel,
    UnfitRelevance,
    UnfitArgument,
    AnyOfNames,
    LabelCount,
    IgnoredText,
}

impl Trouble {
    /// What was found and what became of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileLeftOut => "file that has no place in the format or is missing; not imported",
            Self::UnreadableFile => "file that cannot be read; left out",
            Self::ServerLeftOut => "server that could not be listed; left out",
            Self::DisabledServer => "server that is disabled; left out",
            Self::UnknownSetting => "setting of a server that is not known here; not heeded",
            Self::StrayOutput => "server that writes to standard output what is no message; passed over",
            Self::UnreadableEntry => "entry that cannot be read; left out",
            Self::RepeatedKey => "JSON in which an object repeats a key; the last of them counts",
            Self::InexactNumber => "number that cannot be kept exactly; the nearest stands in",
            Self::UnfitToolName => "tool whose name is blank, too long or not printable; left out",
            Self::EnormousTool => "tool whose title, description or schema has more than 1 MiB; left out",
            Self::DuplicateTool => "tool of the same name on the same server; the first is kept",
            Self::MovedTool => "tool of the same name on the same server; it is put on a server of its own number",
            Self::UnfitSchema => "parameters that are no object schema or nest too deep; an empty one stands in",
            Self::UnknownType => "type that JSON Schema does not know; any value is accepted there",
            Self::RepeatedArgument => "argument that a tool lists again; the first is kept",
            Self::IgnoredKey => "key of a tool that has no place in the format; left out",
            Self::ProtocolKey => "key that the protocol has and the format has no place for; left out",
            Self::MergedServers => "namespace whose name as a file is taken by another; they share one server",
            Self::RepeatedServer => "server of a name that occurs before; its tools join those of the first",
            Self::EnormousServer => "server whose title or description has more than 1 MiB; that text is left out",
            Self::RenamedTool => "tool whose name is unfit or taken; named after where it stands",
            Self::RenamedArgument => {
                "argument whose name another part of the request has; its part is added to the name"
            }
            Self::RepairedSchema => "part of a schema that JSON Schema does not allow; read as meant or left out",
            Self::UnresolvedReference => {
                "`$ref` that leads to nothing in the document; anything is allowed in its place"
            }
            Self::CutReference => "`$ref` into itself; cut there",
            Self::CutSchema => "schema that is too deep or too large; cut there",
            Self::OpenEndedList => "list that says it goes on; what the source holds of it is imported",
            Self::UnfitSkill => "skill that does not fit the format; left out",
            Self::DuplicateSkill => "skill of a name that occurs before; the first is kept",
            Self::IgnoredSkillKey => "key of a skill that has no place in the format; left out",
            Self::UnknownAllowedTool => "tool that a skill allows and the source does not hold; left out of the skill",
            Self::OutOfScope => "task of several turns; not imported",
            Self::UnfitQueryId => "query whose id is blank, too long or not printable; left out",
            Self::DuplicateQueryId => "query id that occurs again; the first is kept",
            Self::BlankQuery => "query without words; left out",
            Self::DuplicateQuery => "query whose words and gold occur before; the first is kept",
            Self::ConflictingGold => "words that occur with different gold; all queries with them are left out",
            Self::RepeatedGold => "gold that names a tool again; it counts once",
            Self::UnresolvedGold => "gold that names no tool; the query is left out",
            Self::AmbiguousName => "name that fits tools of several servers; the query is left out",
            Self::UnresolvedCandidate => "candidate that names no tool; the query is left out",
            Self::GoldNoCandidate => "gold that is not among the candidates; the query is left out",
            Self::NoGold => "query whose gold the source does not say; left out",
            Self::DamagedQuery => "query of which a part cannot be read, so that its gold may be half; left out",
            Self::NoCandidates => "query that was judged against no tool at all; left out",
            Self::OrphanLabel => "label of a query that does not exist; left out",
            Self::RepeatedLabel => "answer to a query that has one already; the first is kept",
            Self::UnfitRelevance => "relevance outside the scale of the format; the nearest stands in",
            Self::UnfitArgument => "gold argument that the tool does not take or that accepts nothing; left out",
            Self::AnyOfNames => "gold name that fits tools of several servers; any of them counts",
            Self::LabelCount => "query whose source counts another number of tools than it lists; the list counts",
            Self::IgnoredText => "text beside the query that has no place in the format; left out",
        }
    }
}

impl Trouble {
    /// What everybody expects to be left out: nothing of the catalogue is lost by it.
    fn is_expected(self) -> bool {
        matches!(self, Self::DisabledServer | Self::ProtocolKey)
    }
}

/// How often one trouble was met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub count: usize,
    /// The first few, safe to print.
    pub examples: Vec<String>,
}

/// Troubles met so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Findings(BTreeMap<Trouble, Finding>);

impl Findings {
    pub(super) fn add(&mut self, trouble: Trouble, example: &str) {
        self.add_many(trouble, 1, example);
    }

    /// Several of a kind that one example stands for.
    pub(super) fn add_many(&mut self, trouble: Trouble, count: usize, example: &str) {
        let finding = self.0.entry(trouble).or_default();
        finding.count += count;
        if finding.examples.len() < EXAMPLES {
            finding.examples.push(quote_up_to(EXAMPLE, example));
        }
    }

    pub fn get(&self, trouble: Trouble) -> Option<&Finding> {
        self.0.get(&trouble)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Something could not be mapped that somebody may want.
    pub(super) fn lose_something(&self) -> bool {
        self.0.keys().any(|trouble| !trouble.is_expected())
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (trouble, Finding { count, examples }) in &self.0 {
            let more = if *count > examples.len() { ", …" } else { "" };
            write!(f, "\n  {count} × {}: {}{more}", trouble.as_str(), examples.join(", "))?;
        }
        Ok(())
    }
}

/// What an import wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    pub servers: usize,
    pub tools: usize,
    /// All queries, those without a right tool included.
    pub queries: usize,
    pub no_tool_queries: usize,
    pub labels: usize,
    pub skills: usize,
    /// Queries that are asked of candidates of their own.
    pub own_candidates: usize,
    /// An option of the importer asks labelled queries of all tools instead.
    pub can_pool: bool,
    pub findings: Findings,
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, tools, queries, no_tool_queries, labels, skills, own_candidates, can_pool, findings } =
            self;
        write!(f, "servers {servers}, tools {tools}, queries {queries} (no-tool {no_tool_queries}), labels {labels}")?;
        if *skills > 0 {
            write!(f, ", skills {skills}")?;
        }
        if *own_candidates > 0 {
            write!(
                f,
                "\n  own candidates: {own_candidates} of {queries} queries, asked of those and not of the whole catalogue"
            )?;
            if *can_pool {
                write!(f, "; `--{}` asks the labelled ones of all tools", Extra::Pooled.as_str())?;
            }
        }
        fmt::Display::fmt(findings, f)
    }
}
