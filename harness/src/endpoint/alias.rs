//! Names of tools on the wire. Endpoints refuse many names that catalogues hold, and two servers may use one name;
//! scores and logs always use the real [`ToolId`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::profile::NameRule;
use crate::ids::ToolId;

impl NameRule {
    /// Longest name, in characters.
    const LONGEST: usize = 64;

    pub fn accepts(self, name: &str) -> bool {
        match self {
            Self::Openai => (1..=Self::LONGEST).contains(&name.len()) && name.chars().all(Self::is_plain),
            Self::Identifier => Self::Openai.accepts(name) && name.starts_with(Self::begins),
            Self::Any => !name.is_empty(),
        }
    }

    fn begins(char: char) -> bool {
        char.is_ascii_alphabetic() || char == '_'
    }

    fn is_plain(char: char) -> bool {
        char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
    }

    /// The nearest accepted name: refused characters become `_`, the end is cut off.
    fn fit(self, name: &str) -> Cow<'_, str> {
        match self {
            _ if name.is_empty() => Cow::Borrowed("_"),
            Self::Openai | Self::Identifier if !self.accepts(name) => {
                let plain = |char| if Self::is_plain(char) { char } else { '_' };
                let mut fitted: String = name.chars().map(plain).collect();
                if self == Self::Identifier && !fitted.starts_with(Self::begins) {
                    fitted.insert(0, '_');
                }
                fitted.truncate(Self::LONGEST);
                Cow::Owned(fitted)
            }
            _ => Cow::Borrowed(name),
        }
    }

    /// `name` with `suffix` behind it, cut before it to stay accepted.
    fn join(self, name: &str, suffix: &str) -> String {
        let room = match self {
            Self::Openai | Self::Identifier => Self::LONGEST - suffix.len(),
            Self::Any => usize::MAX,
        };
        name.chars().take(room).chain(suffix.chars()).collect()
    }
}

/// A reversible map between tools and their names on the wire.
///
/// A name that is accepted and unique stays as it is. Any other is made to fit; if the result is taken, it becomes
/// `<server>__<name>`, and if that is taken too, a number follows. The map depends on the set of tools only, not on
/// their order.
#[derive(Clone, Debug)]
pub struct Aliases {
    by_tool: BTreeMap<ToolId, String>,
    by_alias: BTreeMap<String, ToolId>,
}

impl Aliases {
    /// `reserved` are names of tools that a strategy owns; no alias equals one of them.
    pub fn new<'a>(ids: impl IntoIterator<Item = &'a ToolId>, rule: NameRule, reserved: &[&str]) -> Self {
        let ids: BTreeSet<&ToolId> = ids.into_iter().collect();
        let mut aliases = Self { by_tool: BTreeMap::new(), by_alias: BTreeMap::new() };

        let names = count(ids.iter().map(|id| Cow::Borrowed(id.name())));
        let (kept, rest): (Vec<_>, Vec<_>) = ids
            .into_iter()
            .partition(|id| rule.accepts(id.name()) && names[id.name()] == 1 && !reserved.contains(&id.name()));
        for id in kept {
            aliases.insert(id, id.name().to_owned());
        }

        let fitted = count(rest.iter().map(|id| rule.fit(id.name())));
        let (unique, colliding): (Vec<_>, Vec<_>) = rest.into_iter().partition(|id| {
            let name = rule.fit(id.name());
            fitted[&name] == 1 && !reserved.contains(&name.as_ref()) && aliases.tool(&name).is_none()
        });
        for id in unique {
            aliases.insert(id, rule.fit(id.name()).into_owned());
        }

        for id in colliding {
            // Half of the room for each, so that neither a long server nor a long name hides the other.
            let server: String = id.server().chars().take(NameRule::LONGEST / 2 - 2).collect();
            let long = format!("{server}__{}", id.name());
            let base = rule.fit(&long);
            let taken = |name: &str| reserved.contains(&name) || aliases.by_alias.contains_key(name);
            let mut alias = base.clone().into_owned();
            let mut number = 2;
            while taken(&alias) {
                alias = rule.join(&base, &format!("_{number}"));
                number += 1;
            }
            aliases.insert(id, alias);
        }
        aliases
    }

    fn insert(&mut self, id: &ToolId, alias: String) {
        self.by_tool.insert(id.clone(), alias.clone());
        self.by_alias.insert(alias, id.clone());
    }

    /// The name of a tool on the wire.
    ///
    /// # Panics
    /// If the tool was not among those the map was made of.
    pub fn alias(&self, id: &ToolId) -> &str {
        self.by_tool.get(id).unwrap_or_else(|| panic!("{id} has no alias: it is not in the view"))
    }

    /// The tool behind a name that a model wrote; exact, `None` if there is none.
    pub fn tool(&self, alias: &str) -> Option<&ToolId> {
        self.by_alias.get(alias)
    }
}

fn count<'a>(names: impl Iterator<Item = Cow<'a, str>>) -> BTreeMap<Cow<'a, str>, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn aliases(ids: &[(&str, &str)], reserved: &[&str]) -> Vec<String> {
        let ids: Vec<_> = ids.iter().map(|(server, name)| ToolId::new(server, name)).collect();
        let aliases = Aliases::new(&ids, NameRule::Openai, reserved);
        ids.iter().map(|id| aliases.alias(id).to_owned()).collect()
    }

    #[test]
    fn good_names_stay_and_others_are_made_to_fit() {
        let long = "n".repeat(70);
        assert_eq!(
            aliases(&[("a", "find-it"), ("a", "read/page"), ("b", "größe"), ("b", &long)], &[]),
            ["find-it", "read_page", "gr__e", &long[..64]]
        );
    }

    #[test]
    fn collisions_get_the_server_then_a_number() {
        assert_eq!(aliases(&[("a", "find"), ("b", "find")], &[]), ["a__find", "b__find"]);
        assert_eq!(aliases(&[("m", "solve.x"), ("m", "solve_x")], &[]), ["m__solve_x", "solve_x"]);
        assert_eq!(aliases(&[("m", "s.x"), ("m", "s/x")], &[]), ["m__s_x", "m__s_x_2"]);
        assert_eq!(aliases(&[("a", "search_tools")], &["search_tools", "a__search_tools"]), ["a__search_tools_2"]);
        assert_eq!(aliases(&[("a", "x.y"), ("b", "x.y"), ("c", "a__x_y")], &[]), ["a__x_y_2", "b__x_y", "a__x_y"]);
    }

    #[test]
    fn under_the_open_rule_only_collisions_change_names() {
        let ids = [ToolId::new("a", "läs sida"), ToolId::new("a", "find"), ToolId::new("b", "find")];
        let aliases = Aliases::new(&ids, NameRule::Any, &[]);
        assert_eq!(ids.each_ref().map(|id| aliases.alias(id)), ["läs sida", "a__find", "b__find"]);
        assert_eq!(aliases.tool("find"), None);
    }

    #[test]
    fn where_a_letter_must_come_first_others_get_a_line_before_them() {
        let long = "1".repeat(64);
        let names = ["1st", "-x", ".x", "x1", long.as_str()];
        let ids = names.map(|name| ToolId::new("a", name));
        let aliases = Aliases::new(&ids, NameRule::Identifier, &[]);
        let cut = format!("_{}", &long[..63]);
        assert_eq!(ids.each_ref().map(|id| aliases.alias(id)), ["_1st", "_-x", "_x", "x1", cut.as_str()]);
    }

    fn ids() -> impl Strategy<Value = Vec<ToolId>> {
        // Few distinct short names for collisions, arbitrary ones for everything else.
        let name = prop_oneof!["[ab._]{1,3}", "[a-z_]{60,70}", ".{0,80}"];
        let server = prop_oneof!["[ab]", ".{0,70}"];
        prop::collection::vec((server, name).prop_map(|(server, name)| ToolId::new(&server, &name)), 0..40)
    }

    fn rule() -> impl Strategy<Value = NameRule> {
        prop_oneof![Just(NameRule::Openai), Just(NameRule::Identifier), Just(NameRule::Any)]
    }

    proptest! {
        #[test]
        fn aliases_are_reversible_fit_and_ignore_the_order(ids in ids(), rule in rule(), turn in 0_usize..40) {
            let reserved = ["a", "a_b", "a__b"];
            let aliases = Aliases::new(&ids, rule, &reserved);
            for id in &ids {
                let alias = aliases.alias(id);
                prop_assert_eq!(aliases.tool(alias), Some(id));
                prop_assert!(rule.accepts(alias), "{:?}", alias);
                prop_assert!(!reserved.contains(&alias));
            }
            let mut turned = ids.clone();
            turned.rotate_left(turn.min(ids.len()));
            turned.reverse();
            prop_assert_eq!(Aliases::new(&turned, rule, &reserved).by_tool, aliases.by_tool);
        }
    }
}
