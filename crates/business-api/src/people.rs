//! The names under which objects give roles to people, and under which a caller has them.

use apiserver::Caller;
use business_types::{Subject, SubjectKind};

/// No user's name begins with this: it tells groups from users …
const GROUP: char = '\u{1}';
/// … and users whose name counts in the tenant that their credential names, and nowhere else.
const OF_TENANT: char = '\u{2}';

/// A subject.
pub fn subject(subject: &Subject) -> Box<str> {
    let Subject { kind, name, namespace } = subject;
    match kind {
        SubjectKind::User => name.as_str().into(),
        SubjectKind::Group => marked(GROUP, name).into(),
        SubjectKind::ServiceAccount => format!("system:serviceaccount:{namespace}:{name}").into(),
    }
}

/// A user of a tenant, as TKE's kinds name him: a user of this name without a tenant is somebody else.
pub fn user_of_tenant(name: &str) -> Box<str> {
    marked(OF_TENANT, name).into()
}

/// All names of a caller. Groups of Kubernetes' own cannot be given a role.
pub fn names(caller: &Caller) -> Vec<Box<str>> {
    let mut names = Vec::with_capacity(caller.groups.len().saturating_add(2));
    if !caller.name.starts_with([GROUP, OF_TENANT]) {
        names.push(Box::from(caller.name.as_str()));
    }
    if caller.tenant.is_some() {
        names.push(user_of_tenant(&caller.name));
    }
    let groups = caller.groups.iter().filter(|group| !group.starts_with("system:"));
    names.extend(groups.map(|group| Box::from(marked(GROUP, group))));
    names
}

fn marked(mark: char, name: &str) -> String {
    format!("{mark}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str, tenant: Option<&str>, groups: &[&str]) -> Vec<Box<str>> {
        names(&Caller {
            name: name.to_owned(),
            tenant: tenant.map(str::to_owned),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Caller::default()
        })
    }

    fn named(kind: SubjectKind, name: &str, namespace: &str) -> Box<str> {
        subject(&Subject { kind, name: name.to_owned(), namespace: namespace.to_owned() })
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
        assert!(caller("root", Some("t"), &[]).contains(&user_of_tenant("root")));
        assert!(!caller("root", None, &[]).contains(&user_of_tenant("root")));
        assert!(!caller("\u{2}root", None, &[]).contains(&user_of_tenant("root")));
    }
}
