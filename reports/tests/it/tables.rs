//! What people read.

use harness::run::manifest::{Manifest, RefusedSchema, RefusedSchemas};
use reports::{Style, markdown, summarise, terminal};

use crate::fixture::{Run, rewrites, run};

const WIDE: Style = Style { width: 110, color: false };

fn shown(run: &Run) -> String {
    terminal(&summarise(&run.input()), WIDE)
}

#[test]
fn the_terminal_shows_every_size() {
    let text = shown(&run());
    assert!(text.lines().all(|line| line.chars().count() <= 110), "within the width");
    assert!(text.is_ascii() || text.chars().all(|c| c.is_ascii() || "–±≥".contains(c)), "only plain characters");
    insta::assert_snapshot!(text);
}

#[test]
fn markdown_holds_everything() {
    insta::assert_snapshot!(markdown(&summarise(&run().input())));
}

#[test]
fn rewritten_schemas_are_counted_and_listed() {
    let mut run = run();
    assert!(!shown(&run).contains("rewritten") && !markdown(&summarise(&run.input())).contains("rewritten"));
    run.manifest.rewrites = Some(rewrites("\"^(?!x)\""));
    let text = shown(&run).replace('\n', " ");
    assert!(
        text.contains("schemas rewritten for this endpoint 2 of 1,000 tools (drop_patterns 2, array_items 1)"),
        "{text}"
    );
    let page = markdown(&summarise(&run.input()));
    let (_, listed) = page.split_once("## Schemas rewritten for this endpoint").unwrap();
    assert_eq!(listed.lines().filter(|line| line.starts_with("| desk/")).count(), 4, "{listed}");
    assert!(listed.contains("| desk/b | /properties/b/items | array_items | \"^(?!x)\" | – |"), "{listed}");
    let json = serde_json::to_value(summarise(&run.input())).unwrap();
    assert_eq!(json["rewrites"]["tools"][1]["rewrites"][0]["rule"], "array_items");
}

#[test]
fn tools_whose_arguments_are_checked_in_part_are_named() {
    let mut run = run();
    run.manifest.checked_in_part = vec!["desk/a".parse().unwrap()];
    let words = "arguments of desk/a are checked in part: its schema expands to more than 100,000 checks";
    assert_eq!(summarise(&run.input()).warnings.iter().filter(|warning| *warning == words).count(), 1);
}

#[test]
fn a_narrow_terminal_leaves_columns_out_but_no_warning() {
    let text = terminal(&summarise(&run().input()), Style { width: 96, color: false });
    assert!(text.lines().all(|line| line.chars().count() <= 96), "{text}");
    assert!(text.contains("1 missing, at the worst value"), "{text}");
    let at = |size: &str| text.split("\n\n").find(|part| part.starts_with(size)).unwrap();
    // Two failed at every size, one is missing at the largest.
    assert!(at("150 tools").contains("failed  ") && !at("150 tools").contains("missing  "), "{text}");
    assert!(at("1,000 tools").contains("failed  ") && at("1,000 tools").contains("missing  "), "{text}");
    assert!(!at("1,000 tools").contains("(Holm)  verdict"), "{text}");
}

#[test]
fn colours_only_where_wanted() {
    let summary = summarise(&run().input());
    let coloured = terminal(&summary, Style { color: true, ..WIDE });
    assert!(coloured.contains("\u{1b}[32mbetter\u{1b}[0m"));
    let mut plain = coloured;
    for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, terminal(&summary, WIDE), "nothing but colour is added");
}

#[test]
fn a_run_without_a_model_is_ranked_by_recall() {
    let mut run = run().rename("bm25-llm", "bm25-stemmed").only(&["bm25", "bm25-stemmed"], &[150, 1_000]);
    run.manifest.endpoint = None;
    run.manifest.reference = Some("bm25".to_owned());
    run.manifest.strategies[1].meta.drives_model = false;
    for score in &mut run.scores {
        (score.success, score.coverage_success) = (None, None);
        (score.turns_outer, score.input_tokens, score.output_tokens) = (0, 0, 0);
    }
    insta::assert_snapshot!(shown(&run));
}

#[test]
fn hostile_names_stay_text() {
    const EVIL: &str = "\u{1b}[2J|`<img src=x onerror=alert(1)>\u{202e}[a](http://e.org)";
    let mut run = run().rename("bridge", EVIL);
    let spoil = |manifest: &mut Manifest| {
        manifest.name = EVIL.to_owned();
        manifest.dataset.name = EVIL.to_owned();
        manifest.dataset.licence = EVIL.to_owned();
        manifest.host = EVIL.to_owned();
        if let Some(endpoint) = &mut manifest.endpoint {
            endpoint.profile.model = EVIL.to_owned();
        }
        manifest.rewrites = Some(rewrites(EVIL));
        let refused = RefusedSchema { tool: EVIL.to_owned(), words: EVIL.to_owned(), advice: Vec::new() };
        if let Some(finish) = &mut manifest.finish {
            finish.schemas = Some(RefusedSchemas { refused: vec![refused], unexplained: false, probes: 1 });
        }
    };
    spoil(&mut run.manifest);
    let summary = summarise(&run.input());
    let text = terminal(&summary, WIDE);
    assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.contains("\\u{1b}[2J"), "{text}");
    let page = markdown(&summary);
    assert!(!page.contains(['\u{1b}', '\u{202e}', '<']) && !page.contains("[a](") && !page.contains("://"), "{page}");
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let in_table = |pair: &&[&str]| page.contains(&pair.join("\n"));
    assert!(rows.windows(2).filter(in_table).all(|pair| cells(pair[0]) == cells(pair[1])), "{page}");
}
