//! The built-in tool-selection strategies of toolgauge.
