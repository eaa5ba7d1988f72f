//! Objects, revisions, events and the quota ledger in PostgreSQL, and the watch cache fed from them.
//!
//! The store knows revisions, tenants and amounts; it knows no HTTP and none of the kinds it keeps.
//!
//! ```text
//!            ┌ write ─▶ writer ─▶ apply_batch() ─▶ objects, events, ledger, claims   (one transaction per batch)
//!  Access ─▶ ┤                                          │ LISTEN only makes the next poll come sooner
//!            └ get, list, watch ◀── cache ◀── tail ◀────┘
//! ```

/// Proof of an authorization, and the part of the store that a caller may see.
pub mod access;
/// Keys, revisions, entries, attributes and writes.
pub mod model;
/// Queries and their results.
pub mod read;
/// Errors.
pub mod error;
/// The watch cache: all objects in memory.
pub mod cache;
/// Lists.
mod list;
/// Continue tokens.
mod token;
/// Watches.
pub mod watch;
/// The one task that follows the table of events.
mod tail;
/// Events that are older than the cache's ring, for watches.
mod history;
/// Divergence of history: the database does not have the history that was followed.
pub mod divergence;
/// The declaration that the database was restored.
mod restored;
/// The identity of the server and tables that hold the history.
mod identity;
/// Compaction of old events.
mod compact;

/// The public interface of the store.
pub mod store;
/// Connections, and what PostgreSQL's errors mean.
pub mod connect;
/// The kinds whose objects stand for scopes.
mod scopes;
/// The kinds of this store, by number.
mod kinds;
/// The SQL functions, and their installation.
mod functions;
/// Rows of PostgreSQL as structs.
mod row;
/// Migrations of the schema.
mod migrate;
/// Changes that somebody has made to the schema by hand.
pub mod drift;
/// The number and bytes of a tenant's objects.
mod footprint;
/// The limit of a tenant's objects and bytes.
mod tenant_limit;
/// A write that waits for its batch.
mod pending;
/// The one task that writes to the database.
mod writer;
/// A batch as the array arguments of the SQL function.
mod batch;

/// The rows of the ledger: computed from accounts, and read from the database.
pub mod ledger;
/// Compares the ledger with the objects.
pub mod audit;
/// Repairs the ledger from the objects.
pub mod repair;
/// Import of objects from another system.
pub mod import;
/// Holds on growth, and holds of amounts.
pub mod hold;

/// Checks whether a server does what the store relies on.
pub mod conformance;

/// For tests: a PostgreSQL server of the test's own, and the quota rules in memory.
#[cfg(feature = "testing")]
pub mod testing;

pub use access::{Access, Authorizer, Sight, TenantSight, Visibility, authorize};
pub use error::Error;
pub use footprint::Footprint;
pub use model::{Attributes, Entry, Key, Kind, KindId, Revision, ScopeRole};
pub use quota;
pub use store::{Config, Store};
pub use watch::Watch;
