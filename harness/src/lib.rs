//! Vocabulary, episode loop, endpoint, response store and metrics of toolgauge.
//!
//! Everything here speaks in types and events; only the command prints.

pub mod catalogue;
pub mod chat;
pub mod dataset;
pub mod ids;
pub mod store;
pub mod tokens;
pub mod usage;
