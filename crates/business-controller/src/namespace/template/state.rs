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
    ButPullSecret(AppliedTemplate),
    /// Another state is in place until it is this namespace's turn.
    Waiting(String),
    /// It is named and does not exist.
    Missing(String),
    /// Some of it is not in place.
    Undone { state: Option<AppliedTemplate>, undone: Undone },
    /// What the project says cannot be a label or annotation; all else is in place.
    Invalid { state: Option<AppliedTemplate>, message: String },
}

/// What is not in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Each object and why.
    pub message: String,
    /// Whether another try may help, without an event.
    pub retry: bool,
    /// Limits are among it: pods without requests are not admitted, or have no limits.
    pub limits: bool,
    /// Something else than the namespace's own quota keeps it from being there.
    pub others: bool,
}

impl Undone {
    /// What a cluster does not take: what it is, the status of the answer, and what it says.
    pub fn refused(what: &str, code: u16, message: &str) -> Self {
        let others = !is_by_quota(code, message);
        let message = format!("{what}: refused with {code}: {message}");
        Self { message, retry: true, limits: false, others }
    }

    /// More of the same.
    pub fn add(&mut self, more: &Self) {
        if !self.message.is_empty() {
            self.message.push_str("; ");
        }
        self.message.push_str(&more.message);
        self.retry = true;
        self.limits |= more.limits;
        self.others |= more.others;
    }
}

/// Whether a `ResourceQuota` has refused it: Kubernetes says so in these words. Whoever else says them keeps nobody waiting.
fn is_by_quota(code: u16, message: &str) -> bool {
    code == 403 && message.contains("exceeded quota")
}

impl TemplateState {
    pub fn is_to_be_retried(&self) -> bool {
        matches!(self, Self::Undone { undone: Undone { retry: true, .. }, .. })
    }

    /// Whether a namespace that was never in use can be used now.
    pub fn lets_begin(&self) -> bool {
        match self {
            Self::None
            | Self::Applied(_)
            | Self::ButPullSecret(_)
            | Self::Waiting(_)
            | Self::Invalid { .. } => true,
            Self::Unknown | Self::Missing(_) => false,
            Self::Undone { undone, .. } => !undone.limits,
        }
    }
}

/// What became of taking away what is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    Done,
    /// It is not known yet what is there.
    Unseen,
    /// The cluster keeps something, and says why.
    Refused(String),
}
