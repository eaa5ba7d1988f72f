//! Errors, sorted by what to do about them.

use kube::core::Status;
use kube::runtime::watcher;
use meta::field::shortened;
use std::error::Error as _;
use std::time::Duration;

/// The reason that the client gives an error that is no Kubernetes `Status`, such as that of a proxy.
const UNREADABLE: &str = "Failed to parse error data";
/// Bytes of such an answer that are shown: it may be a whole page.
const UNREADABLE_MAX: usize = 200;
/// What Kubernetes says, with 500, if an admission webhook with `failurePolicy: Fail` does not answer. Admission comes
/// before the storage, so nothing was written.
const DEAD_WEBHOOK: &str = "failed calling webhook";
/// Bytes of any other error that are shown. Whoever controls a member cluster chooses its messages, and we store and
/// show them.
const TEXT_MAX: usize = 1024;
/// The category of calls without an answer.
pub(crate) const UNAVAILABLE: &str = "unavailable";

/// A failed call, sorted by what it means for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// There is no such object.
    #[error("not found")]
    NotFound,
    /// There is one of that name already.
    #[error("already exists")]
    Exists,
    /// The object is another one than was read, or has changed since.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The server has refused the call; repeating it does not help.
    #[error("refused with {code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// What the server said.
        message: String,
    },
    /// No answer, or one that says nothing about the call. Whether a write was executed is unknown.
    #[error("no answer: {0}")]
    Unavailable(String),
}

impl CallFailure {
    fn of_status(status: &Status) -> Self {
        let short = |text: &str| shortened(text, TEXT_MAX);
        let message = || short(&status.message);
        if status.reason == UNREADABLE {
            let page = shortened(&status.message, UNREADABLE_MAX);
            return Self::Unavailable(format!("{}, and not from Kubernetes: {page}", status.code));
        }
        match status.code {
            404 if status.reason == "NotFound" => Self::NotFound,
            404 => Self::Unavailable(short(&format!("404 {}: {}", status.reason, status.message))),
            409 if status.reason == "AlreadyExists" => Self::Exists,
            409 => Self::Conflict(message()),
            408 | 429 => Self::Unavailable(message()),
            // It says something about the caller, not about the call.
            401 => Self::Unavailable(format!("the credentials are refused: 401 {}", message())),
            400..=499 => Self::Refused { code: status.code, message: message() },
            500 if status.reason == "InternalError" && status.message.contains(DEAD_WEBHOOK) => {
                Self::Refused { code: status.code, message: message() }
            }
            _ => Self::Unavailable(format!("{} {}", status.code, message())),
        }
    }

    /// A call that did not end in time.
    pub fn deadline(after: Duration) -> Self {
        Self::Unavailable(format!("no answer within {} s", after.as_secs()))
    }

    /// Label for metrics: a closed set.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::Conflict(_) => "conflict",
            Self::Refused { .. } => "refused",
            Self::Unavailable(_) => UNAVAILABLE,
        }
    }
}

/// An answer exceeds the limits of `dial/response_limits.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of the cluster may be {mib} MiB at most, and more came")]
pub struct TooLarge {
    pub what: &'static str,
    pub mib: usize,
}

/// Whether a call has failed because the answer was too large.
pub fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<TooLarge>() {
            return true;
        }
        // The inner error of an I/O error is not its `source`.
        let made_of = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inner = made_of.map(|inner| -> &(dyn std::error::Error + 'static) { inner });
        next = inner.or_else(|| error.source());
    }
    false
}

/// Whether Kubernetes itself has answered 401.
pub fn is_unauthorized(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401 && status.reason != UNREADABLE)
}

/// A call of the client with a deadline.
pub async fn bounded<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallFailure> {
    match tokio::time::timeout(deadline, call).await {
        Ok(result) => result.map_err(CallFailure::from),
        Err(_elapsed) => Err(CallFailure::deadline(deadline)),
    }
}

/// `None` if Kubernetes says that the object does not exist. The client's `get_opt` would believe any 404.
pub fn not_found_as_none<T>(read: Result<T, CallFailure>) -> Result<Option<T>, CallFailure> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(CallFailure::NotFound) => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl From<kube::Error> for CallFailure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(&status),
            other => Self::Unavailable(chain(&other)),
        }
    }
}

/// Why something cannot be listed or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFailure {
    /// In one line.
    pub text: String,
    /// We have no right to list or watch it.
    pub is_forbidden: bool,
}

impl From<&watcher::Error> for ListFailure {
    fn from(error: &watcher::Error) -> Self {
        let is_forbidden = |status: &Status| status.code == 403 && status.reason != UNREADABLE;
        Self { text: watch_error_text(error), is_forbidden: status_of(error).is_some_and(is_forbidden) }
    }
}

/// The error of a watch in one line.
pub fn watch_error_text(error: &watcher::Error) -> String {
    if let Some(status) = status_of(error) {
        return format!("{} {}", status.code, shortened(&status.message, TEXT_MAX));
    }
    match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => chain(cause),
        other => shortened(&other.to_string(), TEXT_MAX),
    }
}

fn status_of(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

/// An error with its causes in one line, cut if it is long.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    shortened(&runtime::error_chain(error), TEXT_MAX)
}

/// Why a pass over one object ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This replica may not write: its Lease is about to expire.
    #[error("the lease is not held for long enough")]
    NotLeading,
    /// The Lease of a share was lost: another replica has it, or it could not be renewed. Writes may still be in
    /// flight.
    #[error("the lease of share {0} is lost")]
    ShareLost(String),
    /// A call to the API failed.
    #[error("call the API")]
    Api(#[from] CallFailure),
    /// A call to a member cluster failed.
    #[error("call the member cluster")]
    Member(#[source] CallFailure),
    /// A call to the registry failed.
    #[error("call the registry")]
    Registry(#[source] CallFailure),
    /// The member cluster changed during each try.
    #[error("the member cluster changes faster than it can be followed")]
    Unsettled,
    /// The content takes so much memory to measure that it is measured alone, and other content is at present.
    #[error("other content is being measured that takes as much memory")]
    MeasurementBusy,
    /// Our objects have changed, and the watches have not delivered that yet.
    #[error("the watches of our objects are behind")]
    Behind,
    /// The configuration is wrong.
    #[error("configuration: {0}")]
    Config(String),
    /// A kubeconfig cannot be used.
    #[error("use a kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// A client cannot be built.
    #[error("build a client")]
    Client(#[from] kube::Error),
    /// A file cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// Label for metrics: a closed set.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotLeading | Self::ShareLost(_) => "not_leading",
            Self::Api(failure) | Self::Member(failure) | Self::Registry(failure) => failure.category(),
            Self::Unsettled => "unsettled",
            Self::Behind => "behind",
            Self::MeasurementBusy => "busy",
            Self::Config(_) | Self::Kubeconfig(_) | Self::Client(_) | Self::Read { .. } => "configuration",
        }
    }

    /// Whether the next try will probably succeed: somebody else has changed the object.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(CallFailure::Conflict(_)))
    }

    /// The error with its causes, in one line.
    pub fn text(&self) -> String {
        match self.source() {
            Some(source) => format!("{self}: {}", chain(source)),
            None => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: u16, reason: &str) -> CallFailure {
        kube::Error::Api(Status::failure("why", reason).with_code(code).boxed()).into()
    }

    #[test]
    fn only_kubernetes_says_that_something_is_not_there() {
        assert_eq!(failed(404, "NotFound"), CallFailure::NotFound);
        for reason in ["", UNREADABLE, "Gone"] {
            assert!(matches!(failed(404, reason), CallFailure::Unavailable(_)), "{reason}");
        }
    }

    #[test]
    fn only_kubernetes_says_that_credentials_are_refused() {
        let refused = |code, reason| {
            is_unauthorized(&kube::Error::Api(Status::failure("why", reason).with_code(code).boxed()))
        };
        assert!(refused(401, "Unauthorized"));
        assert!(!refused(401, UNREADABLE) && !refused(403, "Forbidden") && !refused(500, "InternalError"));
    }

    #[test]
    fn what_is_no_answer_of_kubernetes_says_nothing_of_the_call() {
        for code in [400, 403, 404, 409, 410, 500] {
            assert!(matches!(failed(code, UNREADABLE), CallFailure::Unavailable(_)), "{code}");
        }
        assert_eq!(failed(409, "AlreadyExists"), CallFailure::Exists);
        assert_eq!(failed(409, "Conflict"), CallFailure::Conflict("why".into()));
        // What a webhook declines need not have a reason.
        assert_eq!(failed(403, ""), CallFailure::Refused { code: 403, message: "why".into() });
    }

    #[test]
    fn a_webhook_that_does_not_answer_refuses() {
        let failed = |code, reason: &str, message: &str| {
            CallFailure::from(kube::Error::Api(Status::failure(message, reason).with_code(code).boxed()))
        };
        let said = "Internal error occurred: failed calling webhook \"policy.example.com\": EOF";
        let refused = CallFailure::Refused { code: 500, message: said.to_owned() };
        assert_eq!(failed(500, "InternalError", said), refused);
        for (code, reason, message) in [
            (500, "InternalError", "Internal error occurred: etcdserver: request timed out"),
            (500, UNREADABLE, said),
            (504, "Timeout", said),
        ] {
            let failure = failed(code, reason, message);
            assert!(matches!(failure, CallFailure::Unavailable(_)), "{failure}");
        }
    }

    #[test]
    fn of_what_a_server_says_the_beginning_is_told() {
        let long = "é".repeat(TEXT_MAX);
        let said =
            |code, reason: &str| kube::Error::Api(Status::failure(&long, reason).with_code(code).boxed());
        for code in [400, 401, 403, 404, 408, 409, 422, 429, 500] {
            for reason in ["", UNREADABLE, &*long] {
                let text = CallFailure::from(said(code, reason)).to_string();
                assert!(text.len() < TEXT_MAX + 100, "{code}: {} bytes", text.len());
                let text = watch_error_text(&watcher::Error::WatchFailed(said(code, reason)));
                assert!(text.len() < TEXT_MAX + 100, "{code}: {} bytes", text.len());
            }
        }
        assert!(chain(&std::io::Error::other(long.clone())).len() < TEXT_MAX + 100);
    }
}
