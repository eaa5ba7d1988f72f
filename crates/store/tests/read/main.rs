//! The read side against a real PostgreSQL: lists, watches, history, compaction, divergence.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod chaos;
mod divergence;
mod fixture;
mod lists;
mod outages;
mod past;
mod pooler;
mod proxy;
mod standby;
mod tls;
mod watches;
