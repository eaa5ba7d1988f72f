//! Writes against a real PostgreSQL.

mod kit;
/// Generated histories against the model.
mod history;
/// Objects, revisions and events.
mod objects;
/// Audit, repair, holds.
mod audit;
/// A database that goes away.
mod outage;
/// A connection that can be cut.
mod proxy;
/// The quota rules, one sentence each.
mod rules;
