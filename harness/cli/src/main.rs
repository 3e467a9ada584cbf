//! The `toolgauge` binary: the command with the built-in strategies.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolgauge_cli::run(strategies::builtin(), std::env::args_os())
}
