//! For tests of this crate and of those above it: a PostgreSQL of one's own, and the store's rules in memory.

/// The rules of a write in memory, the oracle of the property tests.
pub mod model;
/// A PostgreSQL server with databases for tests.
pub mod postgres;

pub use postgres::{Database, Server, database};

/// Reads a continue token and writes it again.
pub fn continue_token(text: &str) -> Result<String, crate::Error> {
    crate::token::ContinueToken::decode(text).map(|token| token.encode())
}
