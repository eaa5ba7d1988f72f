//! The token server of the OCI registry: it decides who may do what there. The registry itself asks nobody. It accepts
//! tokens that are signed here and are valid for a minute.
//!
//! ```text
//! route ─▶ scope ─▶ prefix index ─▶ grant ─▶ keys
//!  who      what     which object    rights   signature
//! ```

/// The scopes that a client requests.
pub mod scope;
/// Finds the object that owns a prefix of repositories.
pub mod prefix_index;
/// What a role may do with a repository.
pub mod grant;
/// Names and passwords of the controller and the registry.
pub mod accounts;
/// The keys that tokens are signed with.
pub mod keys;
/// Names and passwords of people, robots and pods.
pub mod credentials;
/// Records when a credential was last used.
pub mod last_used;
/// Marks at objects whose content in the registry has changed.
pub mod change_marks;

use subtle::ConstantTimeEq as _;

/// Compares two secrets in constant time.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}
