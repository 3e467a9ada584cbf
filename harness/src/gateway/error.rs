//! Why a request got no usable answer.

use crate::endpoint::EndpointError;
use crate::episode::{LimitKind, NotRunnable};
use crate::ids::Digest;
use crate::schedule::Halt;
use crate::store::log::LogError;
use crate::store::nearest::Nearest;

/// A request got no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Endpoint(EndpointFailure),
    /// Decided from the profile before anything was sent.
    #[error("not runnable ({}): {detail}", why.as_str())]
    NotRunnable { why: NotRunnable, detail: String },
    /// The run may spend no more. The episode is left unfinished.
    #[error("stopped at --max-{}", unit(*.0))]
    Capped(LimitKind),
    /// The endpoint answered nobody for as long as the run waits. The episode is left unfinished.
    #[error("{}: {error}", downtime(*.seconds))]
    Down { seconds: u64, error: String },
    /// The run is being stopped. The episode is left unfinished.
    #[error("interrupted")]
    Stopping,
    #[error(
        "request {} is not in the recording and no endpoint may be asked{}",
        key.short(),
        nearest.as_ref().map_or_else(|| "; nothing like it was recorded".to_owned(), |nearest| format!("; {nearest}"))
    )]
    NotRecorded { key: Digest, nearest: Option<Box<Nearest>> },
    #[error(transparent)]
    Store(#[from] LogError),
}

/// What a cap is counted in, by the name of its flag.
fn unit(cap: LimitKind) -> &'static str {
    if cap == LimitKind::Time { "minutes" } else { cap.as_str() }
}

fn downtime(seconds: u64) -> String {
    match seconds {
        0 => "it asks for a longer wait than --max-downtime allows".to_owned(),
        _ => format!("no answer for {seconds} s"),
    }
}

impl From<Halt> for AskError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Cap(which) => Self::Capped(which),
            Halt::Down { seconds, error } => Self::Down { seconds, error },
        }
    }
}

/// An endpoint error and the attempts that led to it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct EndpointFailure {
    pub error: EndpointError,
    pub attempts: u32,
}
