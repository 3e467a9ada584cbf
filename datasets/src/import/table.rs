//! Tables as CSV. A stray quote makes one cell of all lines up to the next one, without an error of the reader: such cells are
//! told by a quote that does not end where a cell does.

use std::path::Path;

use csv::StringRecord;

use super::files;
use super::report::{Findings, Trouble};

/// One record and the lines it takes, both counted from 1.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) record: StringRecord,
    first: usize,
    last: usize,
    /// A quote in it does not end where a cell does.
    stray: bool,
}

impl Row {
    /// Lists the record as unreadable, with every line that is lost with it.
    pub(super) fn unreadable(&self, path: &Path, place: &str, reason: &str, findings: &mut Findings) {
        let Self { first, last, .. } = *self;
        let lines = if first == last { String::new() } else { format!(" (lines {first} to {last})") };
        let example = format!("{}:{place}{lines}: {reason}", files::name(path));
        findings.add_many(Trouble::UnreadableEntry, last - first + 1, &example);
    }

    /// Whether it can be read; lists it if not.
    pub(super) fn is_whole(&self, path: &Path, place: &str, findings: &mut Findings) -> bool {
        if self.stray {
            self.unreadable(path, place, "a quote does not end where a cell does", findings);
        }
        !self.stray
    }
}

/// All records of a table, its head among them.
pub(super) fn rows(text: &str) -> Vec<Row> {
    let mut strays = strays(text).into_iter().peekable();
    let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(text.as_bytes());
    let mut rows: Vec<Row> = Vec::new();
    // Text is UTF-8 and records may have any length, so that none is refused.
    for record in reader.records().map_while(Result::ok) {
        let first = record.position().map_or(1, |position| usize::try_from(position.line()).unwrap_or(usize::MAX));
        rows.push(Row { record, first, last: first, stray: false });
    }
    let lines = text.lines().count();
    let ends: Vec<usize> = rows.iter().skip(1).map(|next| next.first.saturating_sub(1)).chain([lines]).collect();
    for (row, end) in rows.iter_mut().zip(ends) {
        row.last = end.max(row.first);
        while strays.next_if(|line| *line <= row.last).is_some() {
            row.stray = true;
        }
    }
    rows
}

/// Lines in which a cell in quotes begins that does not end as one.
fn strays(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line, mut begins) = (0, 1, true);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' if begins => {
                let opened = line;
                loop {
                    match (bytes.get(at), bytes.get(at + 1)) {
                        (Some(b'"'), Some(b'"')) => at += 2,
                        (Some(b'"'), None | Some(b',' | b'\n' | b'\r')) => {
                            at += 1;
                            break;
                        }
                        (Some(b'"'), Some(_)) => {
                            at += 1;
                            found.push(opened);
                            break;
                        }
                        (Some(byte), _) => {
                            line += usize::from(*byte == b'\n');
                            at += 1;
                        }
                        (None, _) => {
                            found.push(opened);
                            break;
                        }
                    }
                }
                begins = false;
            }
            b'\n' => (line, begins) = (line + 1, true),
            b',' => begins = true,
            _ => begins = false,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_that_a_stray_quote_swallows_are_counted() {
        let text =
            "Query,Tool\n\"one, two\",a\n\"three\nfour\",b\nsay \"five\",c\n\"six,d\nseven,e\neight,\"f\"\nnine,g\n";
        let rows = rows(text);
        let shown: Vec<_> = rows.iter().map(|row| (row.first, row.last, row.stray)).collect();
        assert_eq!(shown, [(1, 1, false), (2, 2, false), (3, 4, false), (5, 5, false), (6, 8, true), (9, 9, false)]);
        let mut findings = Findings::default();
        assert!(!rows[4].is_whole(Path::new("x/t.csv"), "record 4", &mut findings));
        let listed = findings.get(Trouble::UnreadableEntry).unwrap();
        assert_eq!(
            (listed.count, &*listed.examples[0]),
            (3, "\"t.csv:record 4 (lines 6 to 8): a quote does not end where a cell does\"")
        );
        assert_eq!(strays("a,\"b\nc\nd"), [1], "it never ends");
        assert!(self::rows("").is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[a,\"\n\r é]{0,40}") {
            let rows = rows(&text);
            prop_assert!(rows.is_sorted_by(|one, next| one.first <= next.first));
        }
    }
}
