//! The one place that prints: results to standard output, everything else to standard error.
//!
//! `print!` and `eprint!` panic where a reader has closed the pipe, as `head` does, and would end a run that has hours to go.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};

use harness::text::plain;

use crate::exit::{Exit, expected};

/// Writes a result to standard output, in one go. A reader who has seen enough is no error, a full disk is.
pub fn print_out(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| expected(Exit::Usage, format!("standard output: {error}"))),
    }
}

/// Words of others, made harmless line by line.
pub fn harmless(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// Writes a line to standard error, in one go; see [`say!`].
pub fn line(words: fmt::Arguments<'_>) {
    // Nobody may be there to read it, and nobody is left to tell.
    let _ = io::stderr().write_all(format!("{words}\n").as_bytes());
}

/// Says something on standard error, with the words of `format!`. Whether anybody reads it decides nothing.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::print::line(format_args!($($words)*))
    };
}
pub(crate) use say;
