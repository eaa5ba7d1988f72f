//! Writes against a real PostgreSQL.

mod kit;
/// Objects, revisions and events.
mod objects;
/// Audit, repair, holds.
mod audit;
/// The quota rules, one sentence each.
mod rules;
