//! For tests of this crate and of others: a PostgreSQL server of their own, and the quota rules in memory.

/// The rules of a write in memory, the oracle of the property tests.
pub mod model;
/// A PostgreSQL server with databases for tests.
pub mod postgres;

pub use postgres::{Database, Server, database};

/// Decodes a continue token and encodes it again.
pub fn continue_token(text: &str) -> Result<String, crate::Error> {
    crate::token::ContinueToken::decode(text).map(|token| token.encode())
}
