//! Objects, revisions, events and the quota ledger in PostgreSQL, and the watch cache fed from them.
//!
//! The store knows revisions, tenants and amounts; it knows no HTTP and none of the kinds it keeps.
//!
//! ```text
//!            ┌ write ─▶ writer ─▶ apply_batch() ─▶ objects, events, ledger, claims   (one transaction a batch)
//!  Access ─▶ ┤                                          │ LISTEN is a hint, a poll is the truth
//!            └ get, list, watch ◀── cache ◀── tail ◀────┘
//! ```

/// Proof that somebody was allowed to ask, and the part of the store that he may see.
pub mod access;
/// Keys, revisions, entries, attributes: the words of the store.
pub mod model;
/// Queries, pages and watch items.
pub mod read;
/// Every way the store can fail.
pub mod error;
/// All objects in memory, following the database.
pub mod cache;
/// Lists.
mod list;
/// Continue tokens.
mod token;
/// Watches.
pub mod watch;
/// The one task that follows the table of events.
mod tail;
/// Watches from a past that only the table of events knows.
mod history;
/// A database whose history is not the one that was followed.
pub mod divergence;
/// A database that was restored.
mod restored;
/// The server that the history is on.
mod identity;
/// Forgetting old events.
mod compact;

/// The store as its users see it.
pub mod store;
/// Connections, and what PostgreSQL's errors mean.
pub mod connect;
/// Which kinds stand for scopes.
mod scopes;
/// The kinds of this store, by number.
mod kinds;
/// The functions of the database.
mod functions;
/// Rows as structs.
mod row;
/// The schema.
mod migrate;
/// Changes that somebody has made to the schema by hand.
pub mod drift;
/// How much a tenant's objects take.
mod footprint;
/// The limit of what they may take.
mod tenant_limit;
/// A write on its way to its batch.
mod pending;
/// The one task that writes.
mod writer;
/// A batch as the arrays of one call.
mod batch;

/// The ledger's rows, added up and read.
pub mod ledger;
/// Compares the ledger with the objects.
pub mod audit;
/// Brings the ledger back to what the objects say.
pub mod repair;
/// Objects that come from another system.
pub mod import;
/// Amounts that count without an object, and growth that is held.
pub mod hold;

/// Whether the store can rely on a server.
pub mod conformance;

/// For tests: a PostgreSQL of one's own, the rules in memory.
#[cfg(feature = "testing")]
pub mod testing;

pub use access::{Access, Authorizer, Sight, TenantSight, Visibility, authorize};
pub use error::Error;
pub use footprint::Footprint;
pub use model::{Attributes, Entry, Key, Kind, KindId, Revision, ScopeRole};
pub use quota;
pub use store::{Config, Store};
pub use watch::Watch;
