//! Dialects: routes whose clients do not use the protocol of Kubernetes. They authenticate with a name and a password,
//! and expect errors in their own form.

use crate::caller::Caller;
use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Response};
use meta::status::Status;

/// Longer headers are refused.
const HEADER_BYTES_MAX: usize = 32 * 1024;

/// How the clients of a route authenticate, and how they are refused.
pub trait Dialect: Send + Sync + 'static {
    /// Checks a name and a password.
    fn judge<'a>(&'a self, basic: &'a BasicCredentials) -> BoxFuture<'a, Judgement>;

    /// The answer to a request that does not reach the route's handler.
    fn refusal(&self, status: &Status) -> Response<Body>;
}

/// The result of checking a name and a password.
#[derive(Clone, Debug)]
pub enum Judgement {
    /// They are those of this caller, who is authenticated by [`crate::caller::Via::Password`].
    Known(Box<Caller>),
    /// They are wrong. The text is for the log.
    Wrong(&'static str),
    /// The password may be a bearer token, whatever the name is.
    Token,
}

/// A name and a password, from the header `Authorization: Basic`.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    /// The name, which contains no colon.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BasicCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl BasicCredentials {
    /// The name and password of a header; `None` if it has another scheme.
    pub(crate) fn read(header: &HeaderValue) -> Option<Result<Self, &'static str>> {
        let text = header.to_str().ok()?.trim();
        let (scheme, encoded) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then(|| Self::decode(encoded.trim()))
    }

    fn decode(encoded: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "name and password cannot be read";
        if encoded.len() > HEADER_BYTES_MAX {
            return Err("name and password are too long");
        }
        let bytes = BASE64_STANDARD.decode(encoded).map_err(|_not_base64| WRONG)?;
        let text = String::from_utf8(bytes).map_err(|_not_utf8| WRONG)?;
        let (user, password) = text.split_once(':').ok_or(WRONG)?;
        Ok(Self { user: user.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_password_are_read_and_never_shown() {
        let read = |header: &'static str| BasicCredentials::read(&HeaderValue::from_static(header));
        let basic = read("basic  d2ViL2NpOmE6Yg==").unwrap().unwrap();
        assert_eq!((basic.user.as_str(), basic.password.as_str()), ("web/ci", "a:b"));
        assert_eq!(format!("{basic:?}"), r#"BasicCredentials { user: "web/ci", .. }"#);
        assert_eq!(read("Bearer d2ViOmE="), None);
        for wrong in ["Basic d2Vi", "Basic %%%", "Basic /w==", "Basic"] {
            assert!(!matches!(read(wrong), Some(Ok(_))), "{wrong}");
        }
    }
}
