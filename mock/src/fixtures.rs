//! Servers by name: each row of the project's table of how endpoints behave in the wild, and the faults of networks.

mod faults;
mod rows;

use harness::registry::{nearest, suggestion};

use crate::script::Script;

/// A server that is known to exist.
#[derive(Clone, Copy, Debug)]
pub struct Fixture {
    /// Number in the table of known behaviour; none for what any network may do.
    pub row: Option<u8>,
    pub name: &'static str,
    /// In a line.
    pub what: &'static str,
    /// The script.
    pub toml: &'static str,
}

/// No fixture has this name.
#[derive(Debug, thiserror::Error)]
#[error("there is no fixture {name:?}{}; see --list", suggestion(near.as_deref()))]
pub struct UnknownFixture {
    name: String,
    near: Option<String>,
}

impl Fixture {
    const fn row(row: u8, name: &'static str, what: &'static str, toml: &'static str) -> Self {
        Self { row: Some(row), name, what, toml }
    }

    const fn fault(name: &'static str, what: &'static str, toml: &'static str) -> Self {
        Self { row: None, name, what, toml }
    }

    pub fn script(&self) -> Script {
        Script::parse(self.toml, self.name).expect("a test reads every fixture")
    }
}

/// All of them, rows first.
pub fn all() -> impl Iterator<Item = &'static Fixture> {
    rows::ROWS.iter().chain(faults::FAULTS)
}

pub fn find(name: &str) -> Result<&'static Fixture, UnknownFixture> {
    let near = || nearest(name, all().map(|fixture| fixture.name));
    all().find(|fixture| fixture.name == name).ok_or_else(|| UnknownFixture { name: name.to_owned(), near: near() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fixture_is_a_script_and_every_row_has_one() {
        let mut names = BTreeSet::new();
        for fixture in all() {
            Script::parse(fixture.toml, fixture.name).unwrap();
            assert!(names.insert(fixture.name), "{} comes twice", fixture.name);
            assert!(!fixture.what.contains('\n') && fixture.what.len() <= 100, "{}", fixture.what);
        }
        let rows: BTreeSet<_> = all().filter_map(|fixture| fixture.row).collect();
        assert_eq!(rows, (1..=29).collect());
    }

    #[test]
    fn slips_are_met_with_the_nearest_name() {
        let message = find("to_many_tools").unwrap_err().to_string();
        assert_eq!(message, "there is no fixture \"to_many_tools\", did you mean \"too_many_tools\"?; see --list");
    }
}
