use std::fmt::Display;
use std::path::PathBuf;

/// Why the server cannot start or cannot use new credentials. The errors of requests are a [`meta::status::Status`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that the settings name cannot be read.
    #[error("read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate, key or CA bundle is invalid.
    #[error("{what}: {why}")]
    Credentials {
        /// Which one.
        what: String,
        /// Why.
        why: String,
    },
    /// A setting that cannot work.
    #[error("{0}")]
    Settings(String),
    /// The file of the issuers is invalid for Kubernetes or for this server.
    #[error("{}: invalid AuthenticationConfiguration: {why}", path.display())]
    AuthenticationConfiguration {
        /// Which file.
        path: PathBuf,
        /// Why: field paths and what is wrong there.
        why: String,
    },
    /// The key set of a token issuer could not be read.
    #[error("key set of {issuer}: {why}")]
    KeySet {
        /// The issuer.
        issuer: String,
        /// Why.
        why: String,
    },
    /// The server of a token issuer gave no usable answer.
    #[error("{url}: {why}")]
    Issuer {
        /// The URL of the request.
        url: String,
        /// Why.
        why: String,
    },
    /// The listening socket failed.
    #[error("listen: {0}")]
    Listen(#[source] std::io::Error),
}

impl Error {
    pub(crate) fn credentials(what: impl Into<String>, why: impl Display) -> Self {
        Self::Credentials { what: what.into(), why: why.to_string() }
    }

    pub(crate) fn key_set(issuer: &str, why: impl Display) -> Self {
        Self::KeySet { issuer: issuer.to_owned(), why: why.to_string() }
    }
}
