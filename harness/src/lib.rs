//! Vocabulary, episode loop, endpoint, response store and metrics of toolgauge.
//!
//! Everything here speaks in types and events; only the command prints.

pub mod arguments;
pub mod catalogue;
pub mod chat;
pub mod clock;
pub mod context;
pub mod conversation;
pub mod dataset;
pub mod doctor;
pub mod endpoint;
pub mod episode;
pub mod episode_loop;
pub mod escapes;
pub mod file;
pub mod gateway;
pub mod handle;
pub mod ids;
pub mod metric;
pub mod registry;
pub mod run;
pub mod schedule;
mod spans;
pub mod store;
pub mod strategy;
pub mod text;
pub mod tokens;
pub mod toolbox;
mod turn;
pub mod usage;
