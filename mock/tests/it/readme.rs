//! What README.md shows works, and it tells of every key.

use std::path::Path;

use mock::{Script, fixtures};

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

fn blocks(text: &str) -> Vec<&str> {
    text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn scripts_in_the_readme_are_scripts() {
    let readme = readme();
    let scripts: Vec<_> = blocks(&readme).into_iter().map(|text| Script::parse(text, "README.md").unwrap()).collect();
    assert!(!scripts.is_empty());
    assert!(scripts.iter().any(|script| script.faults.len() > 2 && script.dialect.max_tools.is_some()));
}

/// Words in back quotes that serde lists when it meets one it does not know.
fn known_words(toml: &str) -> Vec<String> {
    let message = Script::parse(toml, "x.toml").unwrap_err().to_string();
    message.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_key_and_every_value_is_in_the_readme() {
    let readme = readme();
    let fault = "version = 1\n[[fault]]\nname = \"a\"\n";
    let mut scripts =
        vec!["zzz = 1".to_owned(), format!("{fault}zzz = 1"), "version = 1\n[dialect]\nzzz = 1".to_owned()];
    for table in ["when", "shape", "damage"] {
        scripts.push(format!("{fault}[fault.{table}]\nzzz = 1"));
    }
    for value in ["errors", "tool_names", "overflow"] {
        scripts.push(format!("version = 1\ndialect.{value} = \"zzz\""));
    }
    for list in ["refuses", "refuses_schemas", "wants_back"] {
        scripts.push(format!("version = 1\ndialect.{list} = [\"zzz\"]"));
    }
    for value in ["choices", "usage", "calls", "arguments", "ids", "content", "stream_calls", "stream_names"] {
        scripts.push(format!("{fault}shape.{value} = \"zzz\""));
    }
    for value in ["when.path", "damage.how", "instead.error.kind"] {
        scripts.push(format!("{fault}{value} = \"zzz\""));
    }
    for table in ["instead", "retry_after", "instead.error", "instead.raw"] {
        scripts.push(format!("{fault}{table} = {{ zzz = 1 }}"));
    }
    for script in scripts {
        let words = known_words(&script);
        assert!(words.len() > 1, "{script} tells of nothing: {words:?}");
        for word in words {
            assert!(readme.contains(&format!("`{word}`")), "README.md does not tell of `{word}`");
        }
    }
}

#[test]
fn fixtures_in_the_readme_exist() {
    for line in readme().lines().filter(|line| line.contains("--fixture ")) {
        let name = line.split("--fixture ").nth(1).unwrap().split_whitespace().next().unwrap();
        fixtures::find(name).unwrap();
    }
}
