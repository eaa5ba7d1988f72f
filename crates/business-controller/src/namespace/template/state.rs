//! What is known of what a template has put into a namespace.

use business_types::AppliedTemplate;

/// What is known of what a template has put into a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TemplateState {
    /// The namespace has no template, and nothing of one.
    #[default]
    None,
    /// What is there was not listed yet.
    Unknown,
    /// All of it is in place.
    Applied(AppliedTemplate),
    /// All of it but the pull secret, of which nothing is known yet.
    PullSecretUnknown(AppliedTemplate),
    /// Another state is in place until it is this namespace's turn.
    Waiting(String),
    /// It is named and does not exist.
    NotFound(String),
    /// Some of it is not in place.
    Failed { state: Option<AppliedTemplate>, failure: TemplateFailure },
    /// What the project says cannot be a label or annotation; all else is in place.
    Invalid { state: Option<AppliedTemplate>, message: String },
}

/// What is not in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFailure {
    /// Each object and why.
    pub message: String,
    /// Whether another try may help, without an event.
    pub retry: bool,
    /// Limits are among it: pods without requests are not admitted, or have no limits.
    pub limits: bool,
    /// Something else than the namespace's own quota keeps it from being there.
    pub has_other_causes: bool,
}

impl TemplateFailure {
    /// What a cluster does not take: what it is, the status of the answer, and what it says.
    pub fn refused(what: &str, code: u16, message: &str) -> Self {
        let has_other_causes = !is_by_quota(code, message);
        let message = format!("{what}: refused with {code}: {message}");
        Self { message, retry: true, limits: false, has_other_causes }
    }

    /// More of the same.
    pub fn add(&mut self, more: &Self) {
        if !self.message.is_empty() {
            self.message.push_str("; ");
        }
        self.message.push_str(&more.message);
        self.retry = true;
        self.limits |= more.limits;
        self.has_other_causes |= more.has_other_causes;
    }
}

/// Whether a `ResourceQuota` has refused it: Kubernetes says so in these words. Whoever else says them keeps nobody waiting.
fn is_by_quota(code: u16, message: &str) -> bool {
    code == 403 && message.contains("exceeded quota")
}

impl TemplateState {
    pub fn should_retry(&self) -> bool {
        matches!(self, Self::Failed { failure: TemplateFailure { retry: true, .. }, .. })
    }

    /// Whether a namespace that was never in use can be used now.
    pub fn allows_use(&self) -> bool {
        match self {
            Self::None
            | Self::Applied(_)
            | Self::PullSecretUnknown(_)
            | Self::Waiting(_)
            | Self::Invalid { .. } => true,
            Self::Unknown | Self::NotFound(_) => false,
            Self::Failed { failure, .. } => !failure.limits,
        }
    }
}

/// What became of taking away what is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    Done,
    /// It is not known yet what is there.
    NotListed,
    /// The cluster keeps something, and says why.
    Refused(String),
}
