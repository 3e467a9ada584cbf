//! Exit codes, and the errors that lead to them.

use std::fmt;
use std::process::ExitCode;

/// Documented exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    /// A bug in toolgauge.
    Bug = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// Dataset or catalogue invalid.
    Dataset = 3,
    /// Endpoint unreachable or unusable.
    Endpoint = 4,
    /// Finished, with more failed episodes than allowed.
    Failures = 5,
    GateFailed = 6,
    /// The gate cannot decide: another dataset, another strategy version, too little data.
    GateInconclusive = 7,
    /// Stopped at a cap; resumable.
    Capped = 8,
    /// Interrupted; resumable.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An expected error: its words and the code it ends with.
#[derive(Debug)]
pub struct Expected {
    pub exit: Exit,
    pub message: String,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Expected {}

/// An expected error as an [`anyhow::Error`].
pub fn expected(exit: Exit, message: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(Expected { exit, message: message.to_string() })
}

/// Turns any error into an expected one with this code.
pub trait OrExit<T> {
    fn or_exit(self, exit: Exit) -> anyhow::Result<T>;
}

impl<T, E: fmt::Display> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> anyhow::Result<T> {
        self.map_err(|error| expected(exit, error))
    }
}
