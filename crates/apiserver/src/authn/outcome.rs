use crate::caller::Caller;
use std::sync::Arc;

/// The result of one authenticator. After a failure the next authenticator is asked. If none succeeds and one has
/// failed, the request is refused and not treated as anonymous.
pub(crate) enum AuthnOutcome {
    /// The credentials are valid: this is the caller.
    Authenticated(Arc<Caller>),
    /// The request has no credentials of this kind.
    NoCredentials,
    /// The credentials are invalid, or could not be checked.
    Failed(AuthnError),
}

impl From<Result<Arc<Caller>, String>> for AuthnOutcome {
    fn from(outcome: Result<Arc<Caller>, String>) -> Self {
        outcome.map_or_else(Self::invalid, Self::Authenticated)
    }
}

impl AuthnOutcome {
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::Failed(AuthnError::Invalid(why.into()))
    }
}

/// Why authentication failed. The texts are for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthnError {
    /// The credentials are invalid.
    #[error("unauthorized: {0}")]
    Invalid(String),
    /// They could not be checked, because a server or its keys were not available.
    #[error("not reviewed: {0}")]
    Unavailable(String),
    /// Too many reviews of unknown tokens are in flight.
    #[error("too many unknown tokens are being reviewed")]
    TooManyReviews,
    /// The trusted CAs have not been loaded yet.
    #[error("the trusted CAs have not been read yet")]
    TrustNotLoaded,
}

impl AuthnError {
    /// Combines the errors of several authenticators.
    pub(super) fn of(errors: &[Self]) -> Self {
        if errors.iter().any(|error| matches!(error, Self::TooManyReviews)) {
            return Self::TooManyReviews;
        }
        let is_unavailable = errors.iter().any(|error| matches!(error, Self::Unavailable(_)));
        let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if is_unavailable { Self::Unavailable(text) } else { Self::Invalid(text) }
    }
}
