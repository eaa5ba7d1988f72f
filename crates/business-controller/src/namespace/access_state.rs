//! The state of a namespace's RoleBindings, and the grants that they should name.

use crate::member::binding::Grantee;
use crate::project::ancestors::ChainEnd;
use business_types::access::AccessRole;
use business_types::condition::reason;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The state of a namespace's `RoleBindings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessState {
    /// Nothing is known: the namespace is not there, or its bindings were not listed yet.
    Unknown,
    /// People without a role were removed, and nobody is added: no quota limits the namespace yet, or it is being
    /// deleted.
    Pending,
    /// The bindings are right.
    Granted(OmittedSubjects),
    /// The bindings are not right, and why.
    Failed(AccessFailure),
}

/// How many people have a role and are not named by the bindings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OmittedSubjects {
    /// Their names cannot be used in a cluster.
    pub unnameable: usize,
    /// They do not fit into the objects of the cluster.
    pub surplus: usize,
}

impl OmittedSubjects {
    /// The message of the condition; `None` if everybody is named.
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

/// Why the bindings are not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFailure {
    pub reason: &'static str,
    pub message: String,
    /// Whether to retry without an event.
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

/// Whom the bindings should name, by role. A role without grantees has no binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grants {
    pub roles: BTreeMap<AccessRole, BTreeSet<Grantee>>,
    pub omitted: OmittedSubjects,
    /// Where the chain of projects ended.
    pub chain_end: ChainEnd,
}

impl Grants {
    /// A hash of the grants, valid within this process.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The access state when the bindings name exactly these grants.
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
