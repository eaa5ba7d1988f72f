use crate::caller::Caller;
use std::sync::Arc;

/// The answer of one authenticator. After an error the next one is still asked; but if none knows the caller, he is
/// not anonymous either.
pub(crate) enum Opinion {
    /// The caller.
    Known(Arc<Caller>),
    /// No credentials of this kind.
    None,
    /// Credentials that do not hold.
    Error(Unauthenticated),
}

impl From<Result<Arc<Caller>, String>> for Opinion {
    fn from(outcome: Result<Arc<Caller>, String>) -> Self {
        outcome.map_or_else(Self::invalid, Self::Known)
    }
}

impl Opinion {
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::Error(Unauthenticated::Invalid(why.into()))
    }
}

/// Why no caller is known. The texts are for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unauthenticated {
    /// The credentials do not hold.
    #[error("unauthorized: {0}")]
    Invalid(String),
    /// Nobody could say whether they hold.
    #[error("not reviewed: {0}")]
    Unanswered(String),
    /// Too many tokens that nobody knows are being reviewed.
    #[error("too many unknown tokens are being reviewed")]
    Busy,
    /// Which certificates to believe is not known yet.
    #[error("the trusted CAs have not been read yet")]
    Starting,
}

impl Unauthenticated {
    /// The answer of several authenticators.
    pub(super) fn of(errors: &[Self]) -> Self {
        if errors.iter().any(|error| matches!(error, Self::Busy)) {
            return Self::Busy;
        }
        let unanswered = errors.iter().any(|error| matches!(error, Self::Unanswered(_)));
        let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if unanswered { Self::Unanswered(text) } else { Self::Invalid(text) }
    }
}
