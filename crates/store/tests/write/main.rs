//! Writes against a real PostgreSQL.

mod kit;
/// Objects, revisions and events.
mod objects;
/// The quota rules, one sentence each.
mod rules;
