//! What is known of the bindings of a namespace, and what they are to be.

use crate::member::observed::Grantee;
use business_types::access::AccessRole;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of who may use a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it is not there yet, or its bindings were not listed yet.
    Unknown,
    /// The bindings are right; so many members cannot be named in a cluster.
    Granted { unnameable: usize },
    /// They are not, and why.
    Failed(Denied),
}

/// Why bindings are not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub reason: &'static str,
    pub message: String,
    /// Whether another try may help, without an event.
    pub retry: bool,
}

impl Access {
    pub fn is_to_be_retried(&self) -> bool {
        matches!(self, Self::Failed(Denied { retry: true, .. }))
    }

    pub fn failed(reason: &'static str, message: String) -> Self {
        Self::Failed(Denied { reason, message, retry: true })
    }
}

/// Who is to be named, by role. A role without anybody has no binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    pub roles: BTreeMap<AccessRole, BTreeSet<Grantee>>,
    /// Members that cannot be named in a cluster.
    pub unnameable: usize,
}
