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
/// Generated histories against the model, with scopes of several kinds.
mod levels;
/// Objects, revisions and events.
mod objects;
/// Objects that move to another key.
mod moves;
/// Audit, repair and holds.
mod audit;
/// A database that goes away.
mod outage;
/// Changes of the schema by hand.
mod drift;
/// What PostgreSQL itself refuses.
mod failures;
/// Objects of another system.
mod import;
/// A backup that is restored.
mod restore;
/// The checks of a server.
mod conformance;
/// A standby that becomes the primary.
mod promotion;
/// A real pgbouncer that pools transactions.
mod pgbouncer;
/// How much one batch reads.
mod touched;
/// Two versions of the program on one database.
mod upgrade;
/// A proxy that can cut connections.
mod proxy;
/// The limit of what a tenant may have in the store.
mod room;
/// Scopes of several kinds.
mod scopes;
/// The quota rules, one test each.
mod rules;
