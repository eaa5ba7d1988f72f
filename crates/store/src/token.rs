//! Continue tokens: where a paged list goes on, and at which revision.

use crate::error::Error;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const VERSION: &str = "meta.k8s.io/v1";
/// The revision of a token that goes on at the newest state.
const LATEST: i64 = -1;
/// Longest token that is accepted: two names of 253 bytes, with room for escapes.
const LENGTH_MAX: usize = 4096;

/// A decoded continue token. It has the fields of a Kubernetes token and also the epoch of its revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContinueToken {
    v: String,
    rv: i64,
    /// The first path that the next page may have: the last one sent and a zero byte.
    start: String,
    #[serde(default)]
    epoch: Uuid,
    /// The number of objects from `start` on, so that no page has to count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
}

impl ContinueToken {
    /// A token that goes on after `path`, at `revision` or, if that is `None`, at the newest state.
    pub(crate) fn after(path: &str, revision: Option<u64>, epoch: Uuid) -> Self {
        Self { v: VERSION.to_owned(), rv: as_rv(revision), start: format!("{path}\0"), epoch, left: None }
    }

    /// The same token with the number of objects from its start on.
    pub(crate) fn with_remaining(self, left: Option<u64>) -> Self {
        Self { left, ..self }
    }

    /// The same token for the newest state.
    pub(crate) fn at_latest(&self) -> Self {
        Self { rv: LATEST, left: None, ..self.clone() }
    }

    /// The number of objects from [`Self::start`] on, if it is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        self.left
    }

    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    pub(crate) fn epoch(&self) -> Uuid {
        self.epoch
    }

    /// The revision to go on at; `None` is the newest.
    pub(crate) fn revision(&self) -> Option<u64> {
        u64::try_from(self.rv).ok()
    }

    pub(crate) fn encode(&self) -> String {
        // A struct of texts and numbers always has a JSON form.
        URL_SAFE_NO_PAD.encode(serde_json::to_string(self).unwrap_or_default())
    }

    pub(crate) fn decode(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadContinue(why.to_owned());
        if text.len() > LENGTH_MAX {
            return Err(bad("it is too long"));
        }
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| bad(&error.to_string()))?;
        let token: Self = serde_json::from_slice(&json).map_err(|error| bad(&error.to_string()))?;
        if token.v != VERSION {
            return Err(bad("server does not recognize this encoded version"));
        }
        if token.rv == 0 || token.rv < LATEST {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        let key = token.start.strip_suffix('\0').unwrap_or(&token.start);
        if key.is_empty() || key.starts_with('/') || key.contains('\0') || key.split('/').count() > 2 {
            return Err(bad("continue key is not valid"));
        }
        Ok(token)
    }
}

fn as_rv(revision: Option<u64>) -> i64 {
    revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(LATEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_kubernetes_own_is_with_an_epoch() {
        let token = ContinueToken::after("ns/name", Some(7), Uuid::nil());
        let json = URL_SAFE_NO_PAD.decode(token.encode()).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"v":"meta.k8s.io/v1","rv":7,"start":"ns/name\u0000","epoch":"00000000-0000-0000-0000-000000000000"}"#
        );
        assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        assert_eq!(token.at_latest().revision(), None);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let encode = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for text in [
            "%".to_owned(),
            encode("[]"),
            encode(r#"{"v":"v2","rv":7,"start":"a\u0000"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":-2,"start":"a\u0000"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":7,"start":""}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"/../a"}"#),
            "a".repeat(LENGTH_MAX + 1),
        ] {
            assert!(matches!(ContinueToken::decode(&text), Err(Error::BadContinue(_))), "{text}");
        }
    }
}
