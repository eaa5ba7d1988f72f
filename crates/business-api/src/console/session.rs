use super::seal::{Purpose, SealingKeys};
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// A session. Only the browser stores it, sealed in cookies.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    /// The name of the issuer in the console's settings.
    pub(super) issuer: String,
    /// The user, by the provider's name for him (`sub`).
    pub(super) subject: String,
    /// The ID token: the bearer token for the API.
    pub(super) token: String,
    /// The refresh token, with which the provider issues a new ID token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    /// The absolute end, in Unix seconds.
    pub(super) ends: i64,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn seal(&self, keys: &SealingKeys) -> Result<String> {
        keys.seal(Purpose::Session, &serde_json::to_vec(self)?)
    }

    /// Opens a sealed session; `None` if it is not ours or has ended.
    pub(super) fn open(keys: &SealingKeys, sealed: &str, now: i64) -> Option<Self> {
        let plain = keys.open(Purpose::Session, sealed)?;
        let session: Self = serde_json::from_slice(&plain).ok()?;
        (now < session.ends).then_some(session)
    }
}

/// A login between the redirect to the provider and its callback.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingLogin {
    /// The name of the issuer in the console's settings.
    pub(super) issuer: String,
    /// Returns with the provider's redirect.
    pub(super) state: String,
    /// Returns in the ID token.
    pub(super) nonce: String,
    /// Proves that the code is redeemed by whoever requested it (PKCE).
    pub(super) verifier: String,
    /// Where the provider sends the browser back to.
    pub(super) redirect: String,
    /// The page that is shown afterwards.
    pub(super) page: String,
    /// In Unix seconds.
    pub(super) ends: i64,
}

impl PendingLogin {
    pub(super) fn seal(&self, keys: &SealingKeys) -> Result<String> {
        keys.seal(Purpose::Login, &serde_json::to_vec(self)?)
    }

    /// Opens a sealed login; `None` if it is not ours or has ended.
    pub(super) fn open(keys: &SealingKeys, sealed: &str, now: i64) -> Option<Self> {
        let plain = keys.open(Purpose::Login, sealed)?;
        let login: Self = serde_json::from_slice(&plain).ok()?;
        (now < login.ends).then_some(login)
    }
}
