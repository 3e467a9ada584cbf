//! Names of tools, as they go over the wire.

use std::collections::BTreeMap;

use harness::catalogue::Tool;
use harness::endpoint::NameRule;

use super::rules::{NAME_COLLISION, NAME_REFUSED, NAME_SHARED};
use super::{Linter, plural, some};
use crate::problem::quote;

/// Longest name that endpoints accept; sanitising cuts there.
const LONGEST: usize = 64;

pub(super) fn check(linter: &mut Linter) {
    let tools = &linter.dataset.catalogue.tools;
    let mut by_name: BTreeMap<&str, Vec<&Tool>> = BTreeMap::new();
    // Per folded name one tool for each spelling of it, in file order.
    let mut spellings: BTreeMap<String, Vec<&Tool>> = BTreeMap::new();
    for tool in tools {
        if !NameRule::Openai.accepts(tool.name()) {
            let length = tool.name().chars().count();
            let message = if length > LONGEST {
                format!("the name has {}", plural(length, "character"))
            } else {
                let refused = tool.name().chars().filter(|&character| !is_plain(character));
                let refused: std::collections::BTreeSet<_> = refused.collect();
                format!("the name holds {}", quote(&refused.into_iter().collect::<String>()))
            };
            linter.tool(&NAME_REFUSED, tool, "name", &message);
        }
        let owners = by_name.entry(tool.name()).or_default();
        if owners.is_empty() {
            spellings.entry(fold(tool.name())).or_default().push(tool);
        }
        owners.push(tool);
    }
    for spelt in spellings.values() {
        let Some((first, others)) = spelt.split_first() else { continue };
        for other in others {
            let place = linter.places.tool(&other.id, "name");
            let message = format!("{} and {} differ in what gets lost", quote(first.name()), quote(other.name()));
            linter.add(&NAME_COLLISION, &format!("{} ~ {}", first.id, other.id), place, &message);
        }
    }
    for (name, owners) in by_name.iter().filter(|(_, owners)| owners.len() > 1) {
        let servers = owners.iter().map(|tool| tool.id.server().to_owned());
        let place = linter.places.tool(&owners[0].id, "name");
        let message = format!("{} servers have it: {}", owners.len(), some(servers));
        linter.add(&NAME_SHARED, &format!("*/{name}"), place, &message);
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// What is left of a name once everything is folded that endpoints or models lose.
fn fold(name: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' }
    };
    name.chars().take(LONGEST).map(plain).collect()
}
