//! One file per command.

pub mod doctor;
pub mod gate;
pub mod import;
pub mod init;
pub mod lint;
pub mod list;
pub mod report;
pub mod run;
pub mod show;
