//! The command as its users meet it: the real binary, real files, a server on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod architecture;
mod docs;
mod doctor;
mod durability;
mod errors;
mod gate;
mod import;
mod kill;
mod lint;
mod mcp;
mod mcp_http;
mod mcp_keys;
mod mock_server;
mod observe;
mod process;
mod public_data;
mod run;
mod schemas;
mod secrets;
mod server;
mod show;
mod support;
mod synth;
mod usage;
mod weights;
