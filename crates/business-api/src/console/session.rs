use super::seal::{Purpose, SealingKeys};
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// A login that the browser keeps: no server stores it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    /// The name of the issuer in the console's settings.
    pub(super) issuer: String,
    /// The user that it belongs to, as the provider names him.
    pub(super) subject: String,
    /// The ID token, which is what the API is asked with.
    pub(super) token: String,
    /// The refresh token, for which the provider gives a new ID token.
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

    /// The session, if it is ours and has not ended.
    pub(super) fn open(keys: &SealingKeys, sealed: &str, now: i64) -> Option<Self> {
        let plain = keys.open(Purpose::Session, sealed)?;
        let session: Self = serde_json::from_slice(&plain).ok()?;
        (now < session.ends).then_some(session)
    }
}

/// A login between the way to the provider and the way back.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Login {
    /// The name of the issuer in the console's settings.
    pub(super) issuer: String,
    /// Comes back with the provider's redirect.
    pub(super) state: String,
    /// Comes back in the ID token.
    pub(super) nonce: String,
    /// Proves that the code is redeemed by the one who asked for it (PKCE).
    pub(super) verifier: String,
    /// Where the provider sends the browser back to.
    pub(super) redirect: String,
    /// The page that is shown then.
    pub(super) page: String,
    /// In Unix seconds.
    pub(super) ends: i64,
}

impl Login {
    pub(super) fn seal(&self, keys: &SealingKeys) -> Result<String> {
        keys.seal(Purpose::Login, &serde_json::to_vec(self)?)
    }

    /// The login, if it is ours and has not ended.
    pub(super) fn open(keys: &SealingKeys, sealed: &str, now: i64) -> Option<Self> {
        let plain = keys.open(Purpose::Login, sealed)?;
        let login: Self = serde_json::from_slice(&plain).ok()?;
        (now < login.ends).then_some(login)
    }
}
