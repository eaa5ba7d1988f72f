//! The read side against a real PostgreSQL: lists, watches, history, compaction, divergence.

mod fixture;
mod lists;
mod watches;
