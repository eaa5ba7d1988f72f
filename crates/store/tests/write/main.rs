//! Writes against a real PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod kit;
/// Generated histories against the model.
mod history;
/// Objects, revisions and events.
mod levels;
mod objects;
/// Objects that go elsewhere.
mod moves;
/// Audit, repair, holds.
mod audit;
/// A database that goes away.
mod outage;
/// What PostgreSQL itself refuses.
mod drift;
mod failures;
/// Objects of another system.
mod import;
/// A backup that is restored.
mod restore;
/// Whether a server will do.
mod conformance;
/// A standby that takes over.
mod promotion;
/// A pool of transactions in between.
mod pgbouncer;
/// What one batch touches.
mod touched;
/// Two versions of the program on one database.
mod upgrade;
/// A connection that can be cut.
mod proxy;
/// What a tenant may have in the store.
mod room;
/// Scopes of several kinds.
mod scopes;
/// The quota rules, one sentence each.
mod rules;
