use super::ProjectSpec;
use crate::access::AccessRole;
use crate::subject::{Subject, SubjectKind};
use std::collections::BTreeMap;

/// The maximum number of projects that give roles in a namespace: its own project and the nearest ones above it. Access
/// of projects further up is ignored. These projects are scopes above the namespace, so it is not created with more of
/// them.
pub const LEVELS_MAX: usize = quota::ANCESTORS_MAX;

/// A subject that has a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessHolder<'a> {
    /// The kind of the subject.
    pub kind: SubjectKind,
    /// Its name.
    pub name: &'a str,
    /// The namespace of a service account; empty for other subjects.
    pub namespace: &'a str,
    /// The member cluster of a service account; empty for one of the host cluster, and for other subjects.
    pub cluster: &'a str,
    /// Whether only a user is meant whose credential names the tenant.
    pub of_tenant: bool,
}

impl<'a> AccessHolder<'a> {
    /// A user, whatever tenant his credential names.
    pub fn user(name: &'a str) -> Self {
        Self { kind: SubjectKind::User, name, namespace: "", cluster: "", of_tenant: false }
    }

    /// A user whose credential names the tenant.
    pub fn member(name: &'a str) -> Self {
        Self { of_tenant: true, ..Self::user(name) }
    }

    /// A subject. `cluster` is the member cluster of a service account; empty for the host cluster.
    pub fn of(subject: &'a Subject, cluster: &'a str) -> Self {
        let Subject { kind, name, namespace } = subject;
        Self { kind: *kind, name, namespace, cluster, of_tenant: false }
    }

    /// A group.
    pub fn group(name: &'a str) -> Self {
        Self { kind: SubjectKind::Group, ..Self::user(name) }
    }
}

/// The roles of subjects in a project that result from its own access and that of its ancestors. Each subject has the
/// highest role that any of them gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveAccess<'a>(BTreeMap<AccessHolder<'a>, AccessRole>);

impl<'a> EffectiveAccess<'a> {
    /// The access by a project and its ancestors, in any order.
    pub fn of(projects: impl IntoIterator<Item = &'a ProjectSpec>) -> Self {
        let mut access = Self::default();
        for spec in projects {
            access.add(spec);
        }
        access
    }

    /// Adds the access of another project of the line.
    pub fn add(&mut self, spec: &'a ProjectSpec) {
        for member in &spec.members {
            self.raise(AccessHolder::member(member), AccessRole::Edit);
        }
        for entry in &spec.access {
            self.raise(AccessHolder::of(&entry.subject, &entry.cluster), entry.role);
        }
    }

    fn raise(&mut self, holder: AccessHolder<'a>, role: AccessRole) {
        let held = self.0.entry(holder).or_insert(role);
        *held = role.max(*held);
    }

    /// The role of a subject, without those of its groups.
    pub fn role(&self, holder: AccessHolder<'_>) -> Option<AccessRole> {
        self.0.get(&holder).copied()
    }

    /// All subjects with their roles.
    pub fn holders(&self) -> impl Iterator<Item = (AccessHolder<'a>, AccessRole)> {
        self.0.iter().map(|(holder, role)| (*holder, *role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(members: &[&str], access: &serde_json::Value) -> ProjectSpec {
        serde_json::from_value(json!({ "members": members, "access": access })).unwrap()
    }

    #[test]
    fn everybody_has_the_highest_role_of_the_line() {
        let child = spec(
            &["ann", "bob"],
            &json!([
                {"kind": "User", "name": "ann", "role": "view"},
                {"kind": "Group", "name": "ann", "role": "view"},
            ]),
        );
        let root = spec(
            &[],
            &json!([
                {"kind": "User", "name": "bob", "role": "admin"},
                {"kind": "User", "name": "eve", "role": "view"},
                {"kind": "ServiceAccount", "name": "ann", "namespace": "n", "cluster": "c", "role": "admin"},
            ]),
        );
        for order in [[&child, &root], [&root, &child]] {
            let access = EffectiveAccess::of(order);
            let role = |name| access.role(AccessHolder::user(name));
            assert_eq!(access.role(AccessHolder::member("ann")), Some(AccessRole::Edit));
            assert_eq!(role("ann"), Some(AccessRole::View), "somebody else of the same name is no member");
            assert_eq!(role("bob"), Some(AccessRole::Admin));
            assert_eq!(role("eve"), Some(AccessRole::View));
            assert_eq!(role("nobody"), None);
            assert_eq!(access.role(AccessHolder::group("ann")), Some(AccessRole::View));
            assert_eq!(access.holders().count(), 7);
        }
    }
}
