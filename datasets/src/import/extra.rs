//! Options that belong to one importer.

use super::foreign::Foreign;

/// An option that only one importer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extra {
    /// Each tool's whole documentation, as its source has it, is its description; its schema is empty.
    Raw,
    /// The instruction follows the query.
    WithInstruction,
    /// Labelled queries are asked of the whole catalogue.
    Pooled,
}

impl Extra {
    pub const ALL: [Self; 3] = [Self::Raw, Self::WithInstruction, Self::Pooled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::WithInstruction => "with-instruction",
            Self::Pooled => "pooled",
        }
    }

    /// Name of the importer that it belongs to.
    pub fn importer(self) -> &'static str {
        match self {
            Self::Raw | Self::WithInstruction => super::toolret::IMPORTER.name,
            Self::Pooled => super::bfcl::IMPORTER.name,
        }
    }

    /// What it does, for help texts.
    pub fn about(self) -> &'static str {
        match self {
            Self::Raw => "keep each tool's raw documentation as its description, with an empty schema",
            Self::WithInstruction => "append the instruction to the query, although it gives the answer away",
            Self::Pooled => "drop the candidates of labelled queries, so that they are asked of all tools",
        }
    }

    /// Done here and not while reading, so that what is read does not depend on it.
    pub(super) fn apply(self, foreign: &mut Foreign) {
        match self {
            Self::Raw => {
                for tool in &mut foreign.tools {
                    if let Some(raw) = tool.raw.take() {
                        tool.description = raw;
                        tool.schema = None;
                    }
                }
            }
            Self::WithInstruction => {
                for query in &mut foreign.queries {
                    if let Some(instruction) = query.instruction.take().filter(|_| !query.text.trim().is_empty()) {
                        query.text = format!("{}\n{instruction}", query.text);
                    }
                }
            }
            Self::Pooled => {
                // Without gold nothing but the candidates was looked at.
                for query in foreign.queries.iter_mut().filter(|query| query.labels().next().is_some()) {
                    query.candidates = None;
                }
            }
        }
    }
}
