//! The server as its clients meet it, in one binary so that it links once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod binary;
mod client;
mod client_faults;
mod connection;
mod doctor;
mod faults;
mod log;
mod readme;
mod stream;
mod support;
mod wire;
mod wire_refusals;
