//! Role bindings of a member cluster, trimmed to the fields that the controller uses.

use super::marks::Marks;
use super::watch_store::Versioned;
use super::weight;
use crate::digest;
use business_types::access::AccessRole;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use serde::Serialize;
use std::collections::BTreeSet;

/// The API group of roles and of those whom they are given to.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// A `RoleBinding` in a member cluster that is named like one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterBinding {
    /// The role that its name stands for.
    pub role: AccessRole,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    pub marks: Marks,
    /// Whether its `roleRef`, which is immutable, is that role.
    pub binds_its_role: bool,
    pub named: GranteeDigest,
    /// It is being deleted.
    pub deleting: bool,
}

/// The subjects of a binding as a digest: there may be thousands in each namespace of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GranteeDigest {
    count: usize,
    digest: String,
}

impl GranteeDigest {
    pub fn of(grantees: &BTreeSet<Grantee>) -> Self {
        Self { count: grantees.len(), digest: digest::of(grantees) }
    }

    /// Whether these are exactly the subjects.
    pub fn matches(&self, grantees: &BTreeSet<Grantee>) -> bool {
        self.count == grantees.len() && *self == Self::of(grantees)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Grantee {
    User(String),
    Group(String),
    ServiceAccount {
        namespace: String,
        name: String,
    },
    /// A subject of a form that we never write.
    Other,
}

impl From<Subject> for Grantee {
    fn from(subject: Subject) -> Self {
        let Subject { api_group, kind, name, namespace } = subject;
        match (kind.as_str(), api_group.as_deref(), namespace) {
            ("User", Some(RBAC), None) => Self::User(name),
            ("Group", Some(RBAC), None) => Self::Group(name),
            ("ServiceAccount", None | Some(""), Some(namespace)) => Self::ServiceAccount { namespace, name },
            _ => Self::Other,
        }
    }
}

/// The subjects of a binding.
pub fn grantees(subjects: Option<Vec<Subject>>) -> BTreeSet<Grantee> {
    subjects.unwrap_or_default().into_iter().map(Grantee::from).collect()
}

impl ClusterBinding {
    /// `None` for a binding that is not named like ours.
    pub fn of(binding: RoleBinding) -> Option<Self> {
        let RoleBinding { metadata, role_ref, subjects } = binding;
        let role = AccessRole::of_name(metadata.name.as_deref()?)?;
        let RoleRef { api_group, kind, name } = role_ref;
        Some(Self {
            role,
            marks: Marks::of(&metadata),
            binds_its_role: api_group.as_deref() == Some(RBAC)
                && kind == "ClusterRole"
                && name == role.name(),
            named: GranteeDigest::of(&grantees(subjects)),
            deleting: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        })
    }
}

impl Versioned for ClusterBinding {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        weight::of(self)
            .saturating_add(weight::texts([&self.uid, &self.resource_version, &self.named.digest]))
            .saturating_add(self.marks.weight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_binding_takes_little_however_many_it_names() {
        let naming = |count: usize| {
            let subject =
                |number: usize| json!({ "kind": "User", "apiGroup": RBAC, "name": format!("u{number}") });
            let binding = json!({
                "metadata": { "name": AccessRole::Edit.name(), "namespace": "n" },
                "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": AccessRole::Edit.name() },
                "subjects": (0..count).map(subject).collect::<Vec<_>>(),
            });
            ClusterBinding::of(serde_json::from_value(binding).unwrap()).unwrap()
        };
        let of = |count: usize| -> BTreeSet<Grantee> {
            (0..count).map(|number| Grantee::User(format!("u{number}"))).collect()
        };
        let (many, one) = (naming(5_000), naming(1));
        assert_eq!(many.weight(), one.weight());
        assert!(
            many.named.matches(&of(5_000))
                && !many.named.matches(&of(4_999))
                && !one.named.matches(&of(5_000))
        );
        assert!(naming(0).named.is_empty() && !one.named.is_empty());
    }
}
