use super::ProjectSpec;
use crate::access::AccessRole;
use crate::subject::{Subject, SubjectKind};
use std::collections::BTreeMap;

/// How many projects, one above the other, are looked at for access: people who are named further up have no role.
pub const LEVELS_MAX: usize = 100;

/// Somebody who has a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessHolder<'a> {
    /// What he is.
    pub kind: SubjectKind,
    /// His name.
    pub name: &'a str,
    /// The namespace of a service account.
    pub namespace: &'a str,
    /// The member cluster of a service account that is not the host cluster's.
    pub cluster: &'a str,
    /// Of a user: whether only one whose credential names the tenant is meant.
    pub of_tenant: bool,
}

impl<'a> AccessHolder<'a> {
    /// A user, whatever his credential names.
    pub fn user(name: &'a str) -> Self {
        Self { kind: SubjectKind::User, name, namespace: "", cluster: "", of_tenant: false }
    }

    /// A user whose credential names the tenant.
    pub fn member(name: &'a str) -> Self {
        Self { of_tenant: true, ..Self::user(name) }
    }

    /// A subject; one of the host cluster's where no member cluster is named.
    pub fn of(subject: &'a Subject, cluster: &'a str) -> Self {
        let Subject { kind, name, namespace } = subject;
        Self { kind: *kind, name, namespace, cluster, of_tenant: false }
    }

    /// A group.
    pub fn group(name: &'a str) -> Self {
        Self { kind: SubjectKind::Group, ..Self::user(name) }
    }
}

/// Who may do what in a project, by what it says itself and what those above it say. Everybody has the highest role
/// that he is given in any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveAccess<'a>(BTreeMap<AccessHolder<'a>, AccessRole>);

impl<'a> EffectiveAccess<'a> {
    /// Reads a project and those above it, in any order.
    pub fn of(projects: impl IntoIterator<Item = &'a ProjectSpec>) -> Self {
        let mut access = Self::default();
        for spec in projects {
            access.add(spec);
        }
        access
    }

    /// Adds what another project of the line says.
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

    /// The role of somebody by his own name.
    pub fn role(&self, holder: AccessHolder<'_>) -> Option<AccessRole> {
        self.0.get(&holder).copied()
    }

    /// Everybody with his role.
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
