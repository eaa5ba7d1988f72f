//! Why a command did not do what it was asked.

use meta::status::{Status, StatusCause};
use std::path::PathBuf;
use std::time::Duration;

/// How a command ends when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done, or it is so.
    Done,
    /// The answer is no: it does not fit, something was found.
    No,
}

/// Everything worked.
pub(crate) const EXIT_DONE: u8 = 0;
/// Something did not.
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
    /// A refusal for which the command knows better than the server what to do next.
    #[error("{failure}")]
    Advised { failure: Box<Self>, next: &'static str },
    #[error("{what}: not within {}; the last that was seen: {last}", seconds(*.after))]
    TimedOut { what: String, after: Duration, last: String },
    /// Nothing was done, since all of this stands in the way.
    #[error("{}", whats(.0))]
    Blocked(Vec<Obstacle>),
    #[error("{0} is not what this program understands: {1}")]
    Unreadable(String, serde_json::Error),
    #[error("{}: {why}", .path.display())]
    File { path: PathBuf, why: String },
    #[error("{0}")]
    Stopped(String),
}

/// Something that stands in the way, and what to do about it.
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
            Self::Refused(status) if is_about_nobody(status) => EXIT_FAILED,
            Self::Refused(status) if matches!(status.code, 403 | 409 | 422) => EXIT_NO,
            Self::Blocked(_) => EXIT_NO,
            Self::Advised { failure, .. } => failure.exit_code(),
            Self::TimedOut { .. } => EXIT_TIMED_OUT,
            _ => EXIT_FAILED,
        }
    }

    /// Adds what to do next, if the server has refused with this code. A caller without credentials has to log in
    /// first.
    pub(crate) fn advised(self, code: u16, next: &'static str) -> Self {
        match self {
            Self::Refused(status) if status.code == code && !is_about_nobody(&status) => {
                Self::Refused(status).with_next(next)
            }
            other => other,
        }
    }

    /// The same for something that did not come in time and will not come by itself later.
    pub(crate) fn advised_late(self, next: &'static str) -> Self {
        if matches!(self, Self::TimedOut { .. }) { self.with_next(next) } else { self }
    }

    /// With what to do next.
    pub(crate) fn with_next(self, next: &'static str) -> Self {
        Self::Advised { failure: Box::new(self), next }
    }

    /// The status with which the server has refused.
    fn refusal(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            Self::Advised { failure, .. } => failure.refusal(),
            _ => None,
        }
    }

    /// Whether the server has said that there is no such object for the caller.
    pub(crate) fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(|status| status.code == 404)
    }

    /// Whether the caller may not do or see it.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.refusal().is_some_and(|status| status.code == 403)
    }

    /// Whether the caller has shown no valid credentials.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.refusal().is_some_and(is_about_nobody)
    }

    /// Whether the server has named this field as a cause.
    pub(crate) fn names_field(&self, field: &str) -> bool {
        self.causes().iter().any(|cause| cause.field == field)
    }

    /// Whether the server has said more than a code and a text.
    pub(crate) fn has_causes(&self) -> bool {
        !self.causes().is_empty()
    }

    fn causes(&self) -> &[StatusCause] {
        let details = self.refusal().and_then(|status| status.details.as_ref());
        details.map(|details| details.causes.as_slice()).unwrap_or_default()
    }

    /// Whether the same call may be answered in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NoAnswer { .. } => true,
            Self::Refused(status) => matches!(status.code, 429 | 502..=504),
            _ => false,
        }
    }

    /// How long the server asks to wait before the same call is repeated. It does not ask for that if a write may have
    /// been done.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let Self::Refused(status) = self else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        let asks = seconds > 0 && matches!(status.code, 429 | 500..=599);
        asks.then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether somebody else has written meanwhile.
    pub(crate) fn is_conflict(&self) -> bool {
        self.refusal().is_some_and(|status| status.code == 409)
    }
}

fn whats(obstacles: &[Obstacle]) -> String {
    let whats: Vec<&str> = obstacles.iter().map(|obstacle| obstacle.what.as_str()).collect();
    whats.join("; ")
}

/// Whether the refused caller had no valid credentials.
pub(crate) fn is_about_nobody(status: &Status) -> bool {
    status.code == 401 || status.message.contains(ANONYMOUS)
}

/// `30s`, `1.5s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

/// An error with what has caused it.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
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
        let patience = |status: Status| Failure::Refused(Box::new(status)).patience();
        assert_eq!(patience(Status::unavailable("starting", 2)), Some(Duration::from_secs(2)));
        assert_eq!(patience(Status::too_many_requests(1)), Some(Duration::from_secs(1)));
        assert_eq!(patience(Status::timeout("nobody knows whether it was written", 0)), None);
        assert_eq!(patience(Status::failure(503, "Service Unavailable", "service unavailable")), None);
        assert_eq!(patience(Status::failure(403, "Forbidden", "no").retry_after(1)), None);
    }

    #[test]
    fn a_no_is_told_from_what_went_wrong() {
        let code = |code, message: &str| {
            let refused = Failure::Refused(Box::new(Status::failure(code, "R", message)));
            [refused.exit_code(), refused.with_next("do").exit_code()]
        };
        assert_eq!(code(403, "no"), [EXIT_NO; 2]);
        assert_eq!(code(401, "Unauthorized"), [EXIT_FAILED; 2]);
        assert_eq!(code(403, "User \"system:anonymous\" cannot get it"), [EXIT_FAILED; 2], "no login");
        assert_eq!(Failure::from(Obstacle::new("it is old", "renew it")).exit_code(), EXIT_NO);
        let late = Failure::TimedOut { what: "w".into(), after: Duration::ZERO, last: "l".into() };
        assert_eq!(late.advised_late("do").exit_code(), EXIT_TIMED_OUT);
    }

    #[test]
    fn what_was_refused_is_known_with_advice_too() {
        let missing = Failure::Refused(Box::new(Status::failure(404, "NotFound", "no"))).with_next("do");
        assert!(missing.is_not_found() && !missing.is_forbidden() && !missing.is_anonymous());
    }
}
