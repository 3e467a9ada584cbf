//! Made-up skills over the made-up tools.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use rand::Rng as _;

use super::words::{FACTS, NOUNS, OBJECTS, VERBS};
use super::{Maker, capitalised, plural};
use crate::import::foreign::{ForeignSkill, ForeignTool};

/// Tools that a skill names, most of them of one server.
const TOOLS: std::ops::RangeInclusive<usize> = 3..=10;

impl Maker {
    /// `count` skills; tools may stand in several of them or in none.
    pub(super) fn skills(&mut self, count: usize, tools: &[ForeignTool]) -> Vec<ForeignSkill> {
        let mut names = HashSet::new();
        (0..count).map(|_| self.skill(&mut names, tools)).collect()
    }

    fn skill(&mut self, names: &mut HashSet<String>, tools: &[ForeignTool]) -> ForeignSkill {
        let (verb, noun, object) = (self.pick(VERBS), self.pick(NOUNS), self.pick(OBJECTS));
        let base = format!("{}-{}-{}", verb.plain, noun, object).replace(['_', ' '], "-");
        let mut name = base.clone();
        let mut number = 1;
        while !names.insert(name.clone()) {
            number += 1;
            name = format!("{base}-{number}");
        }
        let many = plural(noun);
        let description = match self.random.random_range(0..4) {
            0 => format!(
                "{} {many} by their {object}. Use when somebody asks for the {object} of a {noun}.",
                capitalised(verb.third)
            ),
            1 => format!(
                "How {many} are handled here: {object} first, then the rest. For requests to {} a {noun}.",
                verb.plain
            ),
            2 => format!("Use for {many}, especially where the {object} is wrong or missing."),
            _ => format!("{} one {noun} or many, checks the {object} and tells the owner.", capitalised(verb.third)),
        };
        let allowed = self.some_of(tools);
        let mut body = format!("# {}\n\n", capitalised(&format!("{} {many}", verb.plain)));
        for (step, tool) in allowed.iter().enumerate() {
            let fact = self.pick(FACTS).replace("{noun}", noun).replace("{many}", &many).replace("{object}", object);
            let fact = capitalised(&fact.replace("{argument}", object));
            let _ = writeln!(body, "{}. Call `{}`. {fact}", step + 1, tool.name);
        }
        let allowed_tools = allowed.iter().filter_map(|tool| tool.key.clone()).collect();
        ForeignSkill { name, description, allowed_tools, body }
    }

    /// A stretch of the list, where tools of one server stand together, and now and then one from elsewhere.
    fn some_of<'t>(&mut self, tools: &'t [ForeignTool]) -> Vec<&'t ForeignTool> {
        let count = self.random.random_range(TOOLS).min(tools.len());
        let start = self.random.random_range(0..=tools.len() - count);
        let mut places: BTreeSet<usize> = (start..start + count).collect();
        if self.chance(30) {
            places.insert(self.random.random_range(0..tools.len()));
        }
        places.into_iter().map(|place| &tools[place]).collect()
    }
}
