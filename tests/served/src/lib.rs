//! A business-api of a test's own: its certificates, its tokens, its replicas.

#![expect(missing_docs, reason = "tests of this workspace are its only users")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what does not work here fails the test that wanted it"
)]
#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it does not hold")]

/// Certificates.
mod authority;
/// Tokens.
mod signer;
/// The program in a thread.
mod replica;
/// The files that replicas share.
mod installation;

pub use authority::{Authority, Issued};
pub use installation::Installation;
pub use replica::{Replica, start};
pub use signer::{AUDIENCE, ISSUER, Signer, key_set};
