//! A mock of an OpenAI-compatible server that misbehaves as it is told.
//!
//! Good answers come from [`harness::endpoint::Scripted`], a deterministic model. Around it stand a [`Dialect`], the rules by
//! which a server takes and refuses requests and dresses its answers, and [`Fault`]s, which strike single requests. Both are one
//! [`Script`], a TOML file or Rust values. What is drawn depends on the seed, on the request and on how often it came, never on a
//! clock or on the order of arrival. [`fixtures`] names the servers that are known to exist.

mod answer;
mod asked;
mod blocking;
mod dialect;
mod fault;
pub mod fixtures;
mod flow;
mod line;
mod log;
mod mock;
mod refusal;
mod rules;
mod schemas;
mod script;
mod server;
mod shape;
mod stream;
mod truncate;
mod words;

pub use asked::ApiPath;
pub use blocking::BlockingMock;
pub use dialect::{Dialect, Errors, Overflow, Refuses, SchemaFault, ToolNames, WantsBack};
pub use fault::{Damage, ErrorName, Fault, How, Instead, NamedError, Raw, RetryAfter, When};
pub use log::{End, Entry};
pub use mock::{Mock, Settings};
pub use script::{Script, ScriptError};
pub use shape::{
    ArgumentStyle, CallStyle, Choices, ContentStyle, IdStyle, Shape, StreamCalls, StreamNames, UsageStyle,
};
