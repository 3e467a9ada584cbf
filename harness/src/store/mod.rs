//! What is kept: the log format, the response store built on it, and the run directory.

pub mod log;
pub mod nearest;
pub mod responses;
mod slim;
