//! The keys of subjects: by them objects give roles, and by them the roles of a caller are found.

use apiserver::Caller;
use business_types::{Subject, SubjectKind};

/// Begins the key of a group. No user's name begins with it.
const GROUP: char = '\u{1}';
/// Begins the key of a user whose name counts only together with the tenant of the credential. No user's name begins
/// with it.
const TENANT_USER: char = '\u{2}';

/// The key of a subject.
pub fn key(subject: &Subject) -> Box<str> {
    let Subject { kind, name, namespace } = subject;
    match kind {
        SubjectKind::User => name.as_str().into(),
        SubjectKind::Group => prefixed(GROUP, name),
        SubjectKind::ServiceAccount => format!("system:serviceaccount:{namespace}:{name}").into(),
    }
}

/// The key of a user whose credential names a tenant, as TKE's kinds list users. A user of the same name without a
/// tenant is another subject.
pub fn tenant_user(name: &str) -> Box<str> {
    prefixed(TENANT_USER, name)
}

/// The keys of all subjects that a caller is. Groups `system:…` are left out: they cannot be given a role.
pub fn of_caller(caller: &Caller) -> Vec<Box<str>> {
    let mut keys = Vec::with_capacity(caller.groups.len().saturating_add(2));
    if !caller.name.starts_with([GROUP, TENANT_USER]) {
        keys.push(Box::from(caller.name.as_str()));
    }
    if caller.tenant.is_some() {
        keys.push(tenant_user(&caller.name));
    }
    let groups = caller.groups.iter().filter(|group| !group.starts_with("system:"));
    keys.extend(groups.map(|group| prefixed(GROUP, group)));
    keys
}

fn prefixed(prefix: char, name: &str) -> Box<str> {
    format!("{prefix}{name}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str, tenant: Option<&str>, groups: &[&str]) -> Vec<Box<str>> {
        of_caller(&Caller {
            name: name.to_owned(),
            tenant: tenant.map(str::to_owned),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Caller::default()
        })
    }

    fn named(kind: SubjectKind, name: &str, namespace: &str) -> Box<str> {
        key(&Subject { kind, name: name.to_owned(), namespace: namespace.to_owned() })
    }

    #[test]
    fn users_groups_and_service_accounts_are_never_taken_for_one_another() {
        let alice = caller("alice", None, &["devs", "system:authenticated"]);
        assert!(alice.contains(&named(SubjectKind::User, "alice", "")));
        assert!(alice.contains(&named(SubjectKind::Group, "devs", "")));
        assert!(!alice.contains(&named(SubjectKind::User, "devs", "")));
        assert!(!alice.contains(&named(SubjectKind::Group, "alice", "")));
        assert_eq!(alice.len(), 2, "nothing is given to everybody");
        let argo = caller("system:serviceaccount:gitops:argocd", None, &[]);
        assert!(argo.contains(&named(SubjectKind::ServiceAccount, "argocd", "gitops")));
        assert!(caller("\u{1}devs", None, &[]).is_empty(), "a name that looks like a group");
    }

    #[test]
    fn a_bare_name_counts_in_the_tenant_of_the_credential_alone() {
        assert!(caller("root", Some("t"), &[]).contains(&tenant_user("root")));
        assert!(!caller("root", None, &[]).contains(&tenant_user("root")));
        assert!(!caller("\u{2}root", None, &[]).contains(&tenant_user("root")));
    }
}
