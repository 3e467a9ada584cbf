//! How a run ends: why, in whose words, and with which code.

use std::path::Path;

use harness::episode_loop::Unfinished;
use harness::gateway::AskError;
use harness::run::dir::RunDirError;
use harness::run::executor::RunError;
use harness::strategy::StrategyError;
use harness::text::{plain, plural};

use crate::exit::{Exit, expected};
use crate::print::say;

pub fn resume_with(path: &Path) -> String {
    format!("resume with: toolgauge run --resume {}", path.display())
}

/// Says how to go on, and which code that means.
pub fn conclude(how: &Ending, path: &Path, failures: usize, allowed: usize) -> Exit {
    let resume = resume_with(path);
    match how {
        Ending::Capped(why) => {
            say!(
                "toolgauge: {why}; episodes that are missing from queries in the table count as failures. A resumed run has no cap \
                 unless it is given one, a higher one than before; {resume}"
            );
            Exit::Capped
        }
        Ending::NotRecorded(why) => {
            say!("toolgauge: {why}; a resumed run asks the endpoint unless it is --offline too; {resume}");
            Exit::Capped
        }
        Ending::Interrupted => {
            say!("toolgauge: interrupted; {resume}");
            Exit::Interrupted
        }
        Ending::Endpoint(why) => {
            say!("toolgauge: the endpoint cannot be used: {}\n{resume}", plain(why));
            Exit::Endpoint
        }
        Ending::Complete if failures > allowed => {
            let failures = plural(failures as u64, "episode", "episodes");
            say!("toolgauge: {failures} failed for want of an answer ({allowed} allowed). {resume}");
            Exit::Failures
        }
        Ending::Complete => Exit::Ok,
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Ending {
    Complete,
    Capped(String),
    NotRecorded(String),
    Interrupted,
    Endpoint(String),
}

impl Ending {
    /// Why the run did not come to its end.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Complete => None,
            Self::Interrupted => Some("interrupted"),
            Self::Capped(why) | Self::NotRecorded(why) | Self::Endpoint(why) => Some(why),
        }
    }
}

/// Why the observer stops a run.
#[derive(Debug, thiserror::Error)]
pub enum Halt {
    #[error(transparent)]
    Write(#[from] RunDirError),
    /// Standard output, where events go.
    #[error("{0}")]
    Output(anyhow::Error),
    #[error("{0}")]
    Down(String),
    #[error("{0}")]
    Bug(String),
}

pub fn ending(result: Result<(), RunError<Halt>>, drained: bool, left: usize) -> anyhow::Result<Ending> {
    match result {
        Ok(()) if drained && left > 0 => Ok(Ending::Interrupted),
        Ok(()) => Ok(Ending::Complete),
        Err(RunError::Unfinished(Unfinished::Ask(AskError::Stopping))) => Ok(Ending::Interrupted),
        Err(RunError::Unfinished(Unfinished::Ask(error @ AskError::Capped(_)))) => {
            Ok(Ending::Capped(error.to_string()))
        }
        Err(RunError::Unfinished(Unfinished::Ask(error @ AskError::NotRecorded { .. }))) => {
            Ok(Ending::NotRecorded(error.to_string()))
        }
        Err(RunError::Unfinished(Unfinished::Ask(AskError::Endpoint(failure)))) => {
            Ok(Ending::Endpoint(failure.to_string()))
        }
        Err(RunError::Unfinished(Unfinished::Ask(error @ AskError::Down { .. }))) => {
            Ok(Ending::Endpoint(format!("{error}; what has no answer is unfinished and has not failed")))
        }
        Err(RunError::Observer(Halt::Down(why))) => Ok(Ending::Endpoint(why)),
        Err(RunError::Unfinished(Unfinished::Ask(AskError::Store(error)))) => Err(expected(Exit::Usage, error)),
        Err(RunError::Observer(Halt::Write(error))) => Err(expected(Exit::Usage, error)),
        Err(RunError::Observer(Halt::Output(error))) => Err(error),
        Err(
            error @ (RunError::Prepare { error: StrategyError::Unavailable(_), .. }
            | RunError::Unfinished(Unfinished::Unavailable { .. })),
        ) => Err(expected(Exit::Usage, error)),
        Err(error) => Err(anyhow::anyhow!(error.to_string())),
    }
}
