//! What is known of the bindings of a namespace, and what they are to be.

use crate::member::binding::Grantee;
use crate::project::ancestors::ChainEnd;
use business_types::access::AccessRole;
use business_types::condition::reason;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// What is known of who may use a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessState {
    /// Nothing: it is not there yet, or its bindings were not listed yet.
    Unknown,
    /// Whoever has no role any more is out, and nobody is added: no quota limits the namespace yet, or it is being deleted.
    Pending,
    /// The bindings are right.
    Granted(OmittedSubjects),
    /// They are not, and why.
    Failed(AccessFailure),
}

/// How many people the bindings do not name although they have a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OmittedSubjects {
    /// They cannot be named in a cluster.
    pub unnameable: usize,
    /// There are too many of them for the cluster's objects.
    pub surplus: usize,
}

impl OmittedSubjects {
    /// What to say of it; nothing where everybody is named.
    pub fn message(self) -> Option<String> {
        let Self { unnameable, surplus } = self;
        let parts = [
            (unnameable, "cannot be named in a cluster"),
            (surplus, "are not named: a namespace takes no more"),
        ];
        let told: Vec<String> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} of those with a role {what}"))
            .collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// Why bindings are not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFailure {
    pub reason: &'static str,
    pub message: String,
    /// Whether another try may help, without an event.
    pub retry: bool,
}

impl AccessState {
    pub fn should_retry(&self) -> bool {
        matches!(self, Self::Failed(AccessFailure { retry: true, .. }))
    }

    pub fn failed(reason: &'static str, message: String) -> Self {
        Self::Failed(AccessFailure { reason, message, retry: true })
    }
}

/// Who is to be named, by role. A role without anybody has no binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grants {
    pub roles: BTreeMap<AccessRole, BTreeSet<Grantee>>,
    pub omitted: OmittedSubjects,
    /// Where the way up to those who say it has ended.
    pub chain_end: ChainEnd,
}

impl Grants {
    /// The same for the same grants, as long as the process lives.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// What the bindings come to when they name exactly these.
    pub fn access_state(&self, tenant: &str) -> AccessState {
        let denied =
            |message: String, retry| AccessFailure { reason: reason::PARENT_UNKNOWN, message, retry };
        match &self.chain_end {
            _ if !self.roles.contains_key(&AccessRole::Admin) => {
                let message = format!("tenant {tenant:?} cannot be named in a cluster");
                AccessState::Failed(AccessFailure { reason: reason::UNNAMEABLE, message, retry: false })
            }
            ChainEnd::Root => AccessState::Granted(self.omitted),
            ChainEnd::Missing(parent) => {
                let message = format!("project {parent:?} above is not there: nobody has a role by it");
                AccessState::Failed(denied(message, true))
            }
            ChainEnd::Cycle(parent) => {
                let message = format!("the projects above form a circle, in which {parent:?} lies");
                AccessState::Failed(denied(message, false))
            }
            ChainEnd::TooDeep => {
                let message = "too many projects lie above: nobody has a role by the uppermost".to_owned();
                AccessState::Failed(denied(message, false))
            }
        }
    }
}
