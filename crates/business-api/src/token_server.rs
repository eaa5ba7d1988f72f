//! Who may do what in the OCI registry. The registry itself asks nobody: it takes tokens that are signed here and live
//! for a minute.
//!
//! ```text
//! page ─▶ scope ─▶ prefixes ─▶ grant ─▶ keys
//!  who     what     whose       may he   signed
//! ```

/// What a client asks for.
pub mod scope;
/// Which object has which prefix of repositories.
pub mod prefixes;
/// What is granted of what is asked for.
pub mod grant;
/// Names and passwords of the platform's own parts.
pub mod accounts;
/// The keys that tokens are signed with.
pub mod keys;
/// Names and passwords.
pub mod credentials;
/// Records when a credential was last used.
pub mod uses;
/// What the registry tells of changes.
pub mod heard;

use subtle::ConstantTimeEq as _;

/// Whether two secrets are the same, in the same time whatever differs.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}
