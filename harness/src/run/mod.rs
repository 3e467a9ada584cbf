//! A run: what was planned, what happened, where it is kept.

pub mod dir;
pub mod executor;
pub mod landing;
pub mod manifest;
pub mod plan;
