//! The dataset atlas: what its card says, what its catalogue is like, how well its two labellings agree.

mod agreement;
mod card;
mod messy;
mod shape;

use std::path::PathBuf;

use harness::dataset::Dataset;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/atlas")
}

fn dataset() -> Dataset {
    datasets::load(&folder()).expect("atlas loads")
}

/// A Markdown table.
fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let align: Vec<&str> = std::iter::once("---").chain(heading.iter().skip(1).map(|_| "--:")).collect();
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(heading) + &line(&align);
    for row in rows {
        text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

/// The card holds the text as it is here. To renew a card, take the text from the message.
fn card_says(text: &str) {
    let card = std::fs::read_to_string(folder().join("README.md")).expect("atlas has a card");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (said, wanted) = if text.contains('|') { (card, text.to_owned()) } else { (flat(&card), flat(text)) };
    assert!(said.contains(&wanted), "the card does not say:\n{text}");
}
