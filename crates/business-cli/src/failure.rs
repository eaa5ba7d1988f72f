//! Errors of commands, and exit codes.

use meta::status::{Status, StatusCause};
use std::path::PathBuf;
use std::time::Duration;

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, or the answer is yes.
    Done,
    /// The answer is no: something does not fit, or the audit found something.
    No,
}

/// Everything worked.
pub(crate) const EXIT_DONE: u8 = 0;
/// Something failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line is wrong.
pub(crate) const EXIT_USAGE: u8 = 2;
/// The answer is no.
pub(crate) const EXIT_NO: u8 = 3;
/// The wait ended without success.
pub(crate) const EXIT_TIMED_OUT: u8 = 4;

/// The user that a server takes a caller without credentials for.
const ANONYMOUS: &str = "system:anonymous";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    #[error("{server} cannot be reached: {why}")]
    Unreachable { server: String, why: String },
    #[error("{server} did not answer within {}", seconds(*.after))]
    NoAnswer { server: String, after: Duration },
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// A failure with the command's own advice in place of the general one.
    #[error("{failure}")]
    Advised { failure: Box<Self>, next: &'static str },
    #[error("{what}: not within {}; the last that was seen: {last}", seconds(*.after))]
    TimedOut { what: String, after: Duration, last: String },
    /// Nothing was done because of these obstacles.
    #[error("{}", obstacle_texts(.0))]
    Blocked(Vec<Obstacle>),
    #[error("{0} is not what this program understands: {1}")]
    Unreadable(String, serde_json::Error),
    #[error("{}: {why}", .path.display())]
    File { path: PathBuf, why: String },
    #[error("{0}")]
    Other(String),
}

/// A reason why a command cannot go on, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) what: String,
    pub(crate) next: String,
}

impl Obstacle {
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }
}

impl From<Obstacle> for Failure {
    fn from(obstacle: Obstacle) -> Self {
        Self::Blocked(vec![obstacle])
    }
}

impl Failure {
    /// The exit code, for scripts.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Refused(status) if is_unauthenticated(status) => EXIT_FAILED,
            Self::Refused(status) if matches!(status.code, 403 | 409 | 422) => EXIT_NO,
            Self::Blocked(_) => EXIT_NO,
            Self::Advised { failure, .. } => failure.exit_code(),
            Self::TimedOut { .. } => EXIT_TIMED_OUT,
            _ => EXIT_FAILED,
        }
    }

    /// Adds advice if the server has refused with this code, unless the caller is not authenticated: he has to log in
    /// first.
    pub(crate) fn with_advice_on(self, code: u16, next: &'static str) -> Self {
        match self {
            Self::Refused(status) if status.code == code && !is_unauthenticated(&status) => {
                Self::Refused(status).with_advice(next)
            }
            other => other,
        }
    }

    /// Adds advice if waiting has timed out.
    pub(crate) fn with_advice_on_timeout(self, next: &'static str) -> Self {
        if matches!(self, Self::TimedOut { .. }) { self.with_advice(next) } else { self }
    }

    /// Adds advice on what to do next.
    pub(crate) fn with_advice(self, next: &'static str) -> Self {
        Self::Advised { failure: Box::new(self), next }
    }

    /// The Status of a refusal.
    fn refusal(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            Self::Advised { failure, .. } => failure.refusal(),
            _ => None,
        }
    }

    /// Whether the server has answered 404.
    pub(crate) fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(|status| status.code == 404)
    }

    /// Whether the server has answered 403.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.refusal().is_some_and(|status| status.code == 403)
    }

    /// Whether the caller has shown no valid credentials.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.refusal().is_some_and(is_unauthenticated)
    }

    /// Whether a cause of the refusal names this field.
    pub(crate) fn names_field(&self, field: &str) -> bool {
        self.causes().iter().any(|cause| cause.field == field)
    }

    /// Whether the refusal lists causes.
    pub(crate) fn has_causes(&self) -> bool {
        !self.causes().is_empty()
    }

    fn causes(&self) -> &[StatusCause] {
        let details = self.refusal().and_then(|status| status.details.as_ref());
        details.map(|details| details.causes.as_slice()).unwrap_or_default()
    }

    /// Whether the same request may succeed in a moment.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NoAnswer { .. } => true,
            Self::Refused(status) => matches!(status.code, 429 | 502..=504),
            _ => false,
        }
    }

    /// The delay after which the server asks to retry. The server does not ask for it if a write may have been made.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Refused(status) = self else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        let asks = seconds > 0 && matches!(status.code, 429 | 500..=599);
        asks.then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether the server has answered 409.
    pub(crate) fn is_conflict(&self) -> bool {
        self.refusal().is_some_and(|status| status.code == 409)
    }
}

fn obstacle_texts(obstacles: &[Obstacle]) -> String {
    let texts: Vec<&str> = obstacles.iter().map(|obstacle| obstacle.what.as_str()).collect();
    texts.join("; ")
}

/// Whether the refused caller had no valid credentials.
pub(crate) fn is_unauthenticated(status: &Status) -> bool {
    status.code == 401 || status.message.contains(ANONYMOUS)
}

/// `30s`, `1500ms`.
pub(crate) fn seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

/// An error with all of its sources.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_repeated_where_the_server_asks_for_it() {
        let retry_after = |status: Status| Failure::Refused(Box::new(status)).retry_after();
        assert_eq!(retry_after(Status::unavailable("starting", 2)), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(Status::too_many_requests(1)), Some(Duration::from_secs(1)));
        assert_eq!(retry_after(Status::timeout("nobody knows whether it was written", 0)), None);
        assert_eq!(retry_after(Status::failure(503, "Service Unavailable", "service unavailable")), None);
        assert_eq!(retry_after(Status::failure(403, "Forbidden", "no").retry_after(1)), None);
    }

    #[test]
    fn a_no_is_told_from_what_went_wrong() {
        let code = |code, message: &str| {
            let refused = Failure::Refused(Box::new(Status::failure(code, "R", message)));
            [refused.exit_code(), refused.with_advice("do").exit_code()]
        };
        assert_eq!(code(403, "no"), [EXIT_NO; 2]);
        assert_eq!(code(401, "Unauthorized"), [EXIT_FAILED; 2]);
        assert_eq!(code(403, "User \"system:anonymous\" cannot get it"), [EXIT_FAILED; 2], "no login");
        assert_eq!(Failure::from(Obstacle::new("it is old", "renew it")).exit_code(), EXIT_NO);
        let late = Failure::TimedOut { what: "w".into(), after: Duration::ZERO, last: "l".into() };
        assert_eq!(late.with_advice_on_timeout("do").exit_code(), EXIT_TIMED_OUT);
    }

    #[test]
    fn what_was_refused_is_known_with_advice_too() {
        let missing = Failure::Refused(Box::new(Status::failure(404, "NotFound", "no"))).with_advice("do");
        assert!(missing.is_not_found() && !missing.is_forbidden() && !missing.is_unauthenticated());
    }
}
