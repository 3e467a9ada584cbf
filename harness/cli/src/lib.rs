//! The `toolgauge` command. The only crate that sees all others, and the only one that prints.
//!
//! Standard output carries results, standard error everything else, both through `print.rs`. To add strategies of your own,
//! call [`run`] from a `main` of five lines with a longer registry.

#![allow(unreachable_pub, reason = "nothing but `run` leaves this crate, `pub` is the shorter word inside it")]

mod announce;
mod args;
mod cmd;
mod ending;
mod events;
mod exit;
mod experiment;
mod fit;
mod interrupt;
mod key;
mod log;
mod mcp;
mod observe;
mod oracle;
#[cfg(feature = "otel")]
mod otel;
mod outlook;
mod print;
mod progress;
mod setup;
mod subsets;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use harness::registry::Registry;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Expected};
use crate::print::{harmless, say};

/// Runs the command line with these strategies.
#[expect(clippy::needless_pass_by_value, reason = "so that a `main` is one line")]
pub fn run(registry: Registry, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    match dispatch(&registry, &cli.command) {
        Ok(exit) => exit.into(),
        Err(error) => report_error(&error).into(),
    }
}

fn dispatch(registry: &Registry, command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => cmd::run::run(registry, args),
        Command::Doctor(args) => cmd::doctor::doctor(registry, args),
        Command::Init(args) => cmd::init::init(registry, args),
        Command::Report(args) => cmd::report::report(args, cmd::report::Labels::AsRun),
        Command::Rescore(args) => cmd::report::report(args, cmd::report::Labels::AsTheyAreNow),
        Command::Show(args) => cmd::show::show(args),
        Command::Gate(args) => cmd::gate::gate(args),
        Command::List(args) => cmd::list::list(registry, args),
        Command::Import(args) => cmd::import::import(args),
        Command::Lint(args) => cmd::lint::lint(args),
    }
}

fn report_error(error: &anyhow::Error) -> Exit {
    if let Some(expected) = error.downcast_ref::<Expected>() {
        // Messages name files and values from outside.
        say!("toolgauge: {}", harmless(&expected.to_string()));
        expected.exit
    } else {
        say!("toolgauge: {error:#}\nThis is a bug in toolgauge; please report it with the command that led here.");
        Exit::Bug
    }
}
