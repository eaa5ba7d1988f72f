//! The rules in memory.
