//! The command as its users meet it: the real binary, real files, a server on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod architecture;
mod docs;
mod errors;
mod import;
mod kill;
mod lint;
mod mcp;
mod mcp_http;
mod mock_server;
mod public_data;
mod run;
mod server;
mod support;
mod synth;
