//! One file per command.

pub mod gate;
pub mod import;
pub mod lint;
pub mod list;
pub mod report;
pub mod run;
pub mod show;
