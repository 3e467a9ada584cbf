//! `toolgauge import`.

use crate::args::ImportArgs;
use crate::exit::{Exit, expected};

pub fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let _ = args;
    Err(expected(Exit::Usage, "not wired yet"))
}
