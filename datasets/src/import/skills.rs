//! Folders of Agent Skills: `SKILL.md` with YAML frontmatter and a body of instructions. Skills, but neither tools nor queries.
//!
//! The files beside a `SKILL.md` are read by the agent when the skill runs; the format has no place for them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::foreign::{Foreign, ForeignSkill};
use super::report::{Findings, Trouble};
use super::{ImportError, Importer, Read, files, walk, yaml};
use crate::problem::printable;

const READS: &str = "a folder with SKILL.md files below it, each with `name` and `description` in its YAML frontmatter, or one \
                     such file";

pub(super) const IMPORTER: Importer =
    Importer { name: "skills", reads: READS, server: "skills", licence: "NOASSERTION", read: Read::Source(read) };

const FILE: &str = "SKILL.md";

fn read(source: &Path, findings: &mut Findings) -> Result<Foreign, ImportError> {
    let mut foreign = Foreign::default();
    let found = if source.is_dir() { walk::files(source, READS, findings)? } else { vec![source.to_owned()] };
    let is_skill = |path: &PathBuf| !source.is_dir() || path.file_name().is_some_and(|name| name == FILE);
    let skills: Vec<_> = found.iter().filter(|path| is_skill(path)).collect();
    if skills.is_empty() {
        let near = found.iter().find(|path| is_other_case(path));
        let hint = near.map(|path| format!("; rename {} to that", walk::relative(source, path))).unwrap_or_default();
        let reason = format!("it holds no {FILE}{hint}");
        return Err(ImportError::Unreadable { path: printable(source), reason, expected: READS });
    }
    let folders: Vec<_> = skills.iter().filter_map(|path| path.parent()).collect();
    for path in &found {
        let place = walk::relative(source, path);
        if is_skill(path) {
            let text = match files::text(path, READS) {
                Ok(text) => text,
                Err(error) if source.is_dir() => {
                    files::passed_over(&place, &error, findings);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match skill(&text, &place, findings) {
                Ok(skill) => foreign.skills.push(skill),
                Err(reason) => findings.add(Trouble::UnreadableEntry, &format!("{place}: {reason}")),
            }
        } else if is_other_case(path) {
            findings.add(Trouble::FileLeftOut, &format!("{place} (rename it to {FILE})"));
        } else if folders.iter().any(|folder| path.starts_with(folder)) {
            findings.add(Trouble::FileLeftOut, &place);
        }
    }
    Ok(foreign)
}

/// On a system that tells cases apart it is no skill, and on another it is one.
fn is_other_case(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name != FILE && name.eq_ignore_ascii_case(FILE))
}

fn skill(text: &str, place: &str, findings: &mut Findings) -> Result<ForeignSkill, String> {
    let (frontmatter, body) = split(text).ok_or("it does not begin with frontmatter between two lines of `---`")?;
    let mut keys: Map<String, Value> = yaml::parse(frontmatter)?;
    let mut take = |key: &str| match keys.remove(key) {
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        Some(_) => Err(format!("`{key}` is no text")),
        None => Err(format!("its frontmatter lacks `{key}`")),
    };
    let (name, description) = (take("name")?, take("description")?);
    let allowed_tools = match keys.remove("allowed-tools") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => names(&text),
        Some(Value::Array(entries)) => {
            let texts: Option<Vec<_>> = entries.iter().map(|entry| entry.as_str().map(rule)).collect();
            texts.ok_or("`allowed-tools` holds something else than text")?
        }
        Some(_) => return Err("`allowed-tools` is neither text nor a list".to_owned()),
    };
    for key in keys.keys() {
        findings.add(Trouble::IgnoredSkillKey, &format!("{key} of {place}"));
    }
    Ok(ForeignSkill { name, description, allowed_tools, body: body.trim().to_owned() })
}

/// The text between the first two lines of `---`, and what follows.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next()?;
    if first.trim_end() != "---" || !first.ends_with('\n') {
        return None;
    }
    let mut at = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            // From the end of the first line on, so that places in errors are those of the file.
            return Some((&text[first.len() - 1..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// Tools of a list in one text: separated by blanks or commas, each perhaps with a rule in brackets, `Bash(git add:*)`.
fn names(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let separated = text.split(|character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (character == ',' || character.is_whitespace())
    });
    let mut names: Vec<String> = separated.map(rule).filter(|name| !name.is_empty()).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// The tool that a rule is about.
fn rule(text: &str) -> String {
    text.split('(').next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::tests::{import, mangled, survives};
    use super::*;

    pub(crate) const FILES: [(&str, &str); 8] = [
        (
            "skills/potter/SKILL.md",
            "---\nname: potter\ndescription: >\n  Throws pots.\n  Use for clay.\nallowed-tools: Read Bash(kiln:*, cool) Read\nlicense: MIT\nmetadata:\n  version: 1\n---\n\n# Pots\n\n---\nTurn the wheel.\n",
        ),
        ("skills/potter/scripts/turn.py", "print()"),
        (
            "skills/weaver/SKILL.md",
            "\u{feff}---\r\nname: weaver\r\ndescription: Weaves.\r\nallowed-tools: [Loom, 'Grep(x)']\r\n---\r\nWarp.",
        ),
        ("skills/deep/er/SKILL.md", "---\nname: weaver\ndescription: Another.\n---\n"),
        ("skills/loud/SKILL.md", "---\nname: Loud\ndescription: Shouts.\n---\n"),
        ("skills/plain/SKILL.md", "# No frontmatter\n"),
        ("skills/broken/SKILL.md", "---\nname: [broken\n---\n"),
        ("skills/README.md", "beside no skill"),
    ];

    #[test]
    fn every_skill_md_is_a_skill() {
        let (report, dataset) = import("skills", &FILES, "skills");
        assert_snapshot!(report, @r#"
        servers 0, tools 0, queries 0 (no-tool 0), labels 0, skills 2
          1 × file that has no place in the format or is missing; not imported: "potter/scripts/turn.py"
          2 × entry that cannot be read; left out: "broken/SKILL.md: unclosed bracket '[' at line 2, column 7", "plain/SKILL.md: it does not begin with frontmatter between two lines of `---`"
          1 × skill that does not fit the format; left out: "Loud: its name is not 1 to 64 lower-case letters, digits and single inner hyphens"
          1 × skill of a name that occurs before; the first is kept: "weaver"
          2 × key of a skill that has no place in the format; left out: "metadata of potter/SKILL.md", "license of potter/SKILL.md"
          2 × tool that a skill allows and the source does not hold; left out of the skill: "Read of potter", "Bash of potter"
        "#);
        let skills: Vec<_> = dataset.catalogue.skills.iter().map(|skill| (&*skill.name, &*skill.description)).collect();
        assert_eq!(skills, [("weaver", "Another."), ("potter", "Throws pots. Use for clay.")]);
        assert_eq!(dataset.catalogue.skills[1].body, "# Pots\n\n---\nTurn the wheel.");
        let (one, _) = import("skills", &FILES, "skills/weaver/SKILL.md");
        assert_eq!(one.skills, 1);
    }

    #[test]
    fn one_bad_file_costs_no_other_and_another_case_is_named() {
        let dir = crate::testing::folder(&[
            ("s/a/SKILL.md", &b"---\nname: a\ndescription: b\n---\n"[..]),
            ("s/b/SKILL.md", b"\xff"),
            ("s/c/skill.md", b"---\nname: c\ndescription: d\n---\n"),
            ("t/skill.md", b""),
        ]);
        let run = |source: &str, strict: bool| {
            let options = super::super::ImportOptions { strict, ..Default::default() };
            super::super::find("skills").unwrap().import(&dir.path().join(source), &dir.path().join("out"), &options)
        };
        assert!(run("s", true).is_err());
        assert!(run("s/b/SKILL.md", false).unwrap_err().to_string().contains("UTF-8"), "the one file that was named");
        let error = run("t", false).unwrap_err().to_string();
        assert!(error.contains("it holds no SKILL.md; rename skill.md to that"), "{error}");
        assert_snapshot!(run("s", false).unwrap(), @r#"
        servers 0, tools 0, queries 0 (no-tool 0), labels 0, skills 1
          1 × file that has no place in the format or is missing; not imported: "c/skill.md (rename it to SKILL.md)"
          1 × file that cannot be read; left out: "b/SKILL.md: it is not UTF-8 at 1:1"
        "#);
    }

    #[test]
    fn lists_of_tools_come_in_several_forms() {
        assert_eq!(names("Read, Bash(git add:*) Bash(git commit:*),  Edit"), ["Read", "Bash", "Edit"]);
        assert_eq!(names(" "), Vec::<String>::new());
        assert_eq!(names("a)) b((c d"), ["a))", "b"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn arbitrary_bytes_never_panic(change in mangled(&FILES)) {
            survives("skills", &FILES, "skills", change);
        }
    }
}
