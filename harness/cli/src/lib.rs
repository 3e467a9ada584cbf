//! The toolgauge command.
