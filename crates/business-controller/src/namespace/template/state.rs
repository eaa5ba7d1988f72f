//! The state of a template in a namespace.

use business_types::AppliedTemplate;

/// The state of a template in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TemplateState {
    /// The namespace has no template, and no objects of one.
    #[default]
    None,
    /// The objects in the cluster were not listed yet.
    Unknown,
    /// Everything is in place.
    Applied(AppliedTemplate),
    /// Everything is in place, but the pull secret was not listed yet.
    PullSecretUnknown(AppliedTemplate),
    /// The namespace waits for a wave with its former state.
    Waiting(String),
    /// The named template does not exist.
    NotFound(String),
    /// Some of it is not in place.
    Failed { state: Option<AppliedTemplate>, failure: TemplateFailure },
    /// Some values of the project cannot be labels or annotations; everything else is in place.
    Invalid { state: Option<AppliedTemplate>, message: String },
}

/// Why something of a template is not in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFailure {
    /// Each object, and why it is not in place.
    pub message: String,
    /// Whether to retry without an event.
    pub retry: bool,
    /// Whether limits are missing. Without them, pods without requests are not admitted, or have no limits.
    pub lacks_limits: bool,
    /// Whether there is a cause beside the namespace's own quota.
    pub has_other_causes: bool,
}

impl TemplateFailure {
    /// A refusal by the cluster: the object, the status code and the message.
    pub fn refused(what: &str, code: u16, message: &str) -> Self {
        let has_other_causes = !is_by_quota(code, message);
        let message = format!("{what}: refused with {code}: {message}");
        Self { message, retry: true, lacks_limits: false, has_other_causes }
    }

    /// Adds another failure.
    pub fn add(&mut self, more: &Self) {
        if !self.message.is_empty() {
            self.message.push_str("; ");
        }
        self.message.push_str(&more.message);
        self.retry = true;
        self.lacks_limits |= more.lacks_limits;
        self.has_other_causes |= more.has_other_causes;
    }
}

/// Whether a `ResourceQuota` has refused it, by Kubernetes' own words. If somebody else uses them, that delays nobody.
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
            Self::Failed { failure, .. } => !failure.lacks_limits,
        }
    }
}

/// The outcome of removing what is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    Done,
    /// The objects in the cluster were not listed yet. If the list has failed, why.
    NotListed(Option<String>),
    /// The cluster refuses the removal of something, and why.
    Refused(String),
}
