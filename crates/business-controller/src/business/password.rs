//! Passwords for pulling images.

use serde::Deserialize;

/// A user name and a password that were just issued.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct IssuedPassword {
    pub username: String,
    pub password: String,
}

impl std::fmt::Debug for IssuedPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedPassword").field("username", &self.username).finish_non_exhaustive()
    }
}
