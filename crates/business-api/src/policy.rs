//! Who may do what without a role in Kubernetes, and what of the store he sees.

use crate::members::Members;
use crate::role_changes::RoleChanges;
use crate::roles::{CERTIFICATE, GRANT, KindRights, Role, Roles};
use apiserver::authz::{AuthzVerdict, Policy, Right};
use apiserver::request::ResourceRequest;
use apiserver::{Caller, RequestInfo, Verb};
use business_types::names::{GROUP, PROJECTS};
use meta::status::Status;
use std::sync::Arc;
use store::Visibility;
use tokio::sync::watch;

/// The members are known moments after the database is there.
const RETRY_AFTER_SECONDS: u32 = 1;
/// The cross-tenant right, a verb on projects.
pub const OPERATE: &str = "operate";

/// Deletes what lies in a core namespace that goes away. A project of the same name is none of its business.
const NAMESPACE_DELETERS: [&str; 2] =
    ["system:kube-controller-manager", "system:serviceaccount:kube-system:namespace-controller"];
/// Other parts of kube-controller-manager that look at every kind. None of them has the right to operate.
const KUBERNETES_OWN: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:resourcequota-controller",
    "system:serviceaccount:kube-system:ttl-after-finished-controller",
];

/// The rules of this program.
#[derive(Clone, Debug)]
pub struct BusinessPolicy {
    roles: Roles,
    kinds: Vec<KindRights>,
    members: Members,
    changes: RoleChanges,
}

impl BusinessPolicy {
    /// Rules over roles, what they may do with each kind, and memberships. `changes` is told of those of both.
    pub fn new(roles: Roles, kinds: Vec<KindRights>, members: Members, changes: RoleChanges) -> Self {
        Self { roles, kinds, members, changes }
    }

    /// Parts of Kubernetes see everything, and their roles name all resources: that must not let them into the clusters.
    fn decide_untenanted(caller: &Caller, request: &RequestInfo) -> AuthzVerdict {
        let asked = request.resource().filter(|asked| asked.group == GROUP);
        if is_kubernetes_own(caller) && asked.is_some_and(|asked| asked.subresource == CERTIFICATE) {
            return AuthzVerdict::Deny("certificates are for people".to_owned());
        }
        AuthzVerdict::NoOpinion
    }

    /// Of what a role does not have by itself, roles in Kubernetes may give verbs on objects, but neither subresources nor
    /// budget.
    fn decide_tenant(&self, role: Role, asked: &ResourceRequest) -> AuthzVerdict {
        let Some(kind) = self.kinds.iter().find(|kind| kind.resource == asked.resource) else {
            return AuthzVerdict::NoOpinion;
        };
        let (verb, subresource) = (asked.verb.as_str(), asked.subresource.as_str());
        if kind.has(role, verb, subresource) && (verb != GRANT || self.roles.tenant_grant) {
            return AuthzVerdict::Allow;
        }
        match (subresource, verb, role) {
            ("", GRANT, Role::Member) => {
                AuthzVerdict::Deny("members of a project cannot make budget".to_owned())
            }
            ("", ..) => AuthzVerdict::NoOpinion,
            _ => AuthzVerdict::Deny(format!("the subresource {subresource} is not for tenants")),
        }
    }
}

fn unsettled() -> Status {
    Status::unavailable("the administrators of the tenants are being read", RETRY_AFTER_SECONDS)
}

/// Names of Kubernetes' own parts, for which only kube-apiserver vouches; it gives them no tenant.
fn is_kubernetes_own(caller: &Caller) -> bool {
    let name = caller.name.as_str();
    caller.tenant.is_none() && (NAMESPACE_DELETERS.contains(&name) || KUBERNETES_OWN.contains(&name))
}

/// Whether all objects of one namespace are listed or deleted.
fn empties_a_namespace(asked: &ResourceRequest) -> bool {
    matches!(asked.verb, Verb::List | Verb::DeleteCollection)
        && !asked.namespace.is_empty()
        && asked.object_name().is_empty()
}

impl Policy for BusinessPolicy {
    fn decide(&self, caller: &Caller, request: &RequestInfo) -> AuthzVerdict {
        let Some(role) = self.roles.role(caller) else { return Self::decide_untenanted(caller, request) };
        match request.resource() {
            Some(asked) if asked.group == GROUP && self.roles.is_settled(caller) => {
                self.decide_tenant(role, asked)
            }
            Some(asked) if asked.group == GROUP => AuthzVerdict::Later(Box::new(unsettled())),
            _ => AuthzVerdict::NoOpinion,
        }
    }

    fn visibility(
        &self,
        caller: &Caller,
        request: &RequestInfo,
        operator: bool,
    ) -> Result<Visibility, Status> {
        // Only kube-apiserver vouches for the names of Kubernetes' own parts; it gives them no tenant.
        let own = |names: &[&str]| caller.tenant.is_none() && names.contains(&caller.name.as_str());
        if own(&NAMESPACE_DELETERS) {
            let empties = request.resource().is_some_and(empties_a_namespace);
            return Ok(if empties { Visibility::Nothing } else { Visibility::Everything });
        }
        if operator || own(&KUBERNETES_OWN) {
            return Ok(Visibility::Everything);
        }
        match &caller.tenant {
            None => Ok(Visibility::Nothing),
            Some(_) if !self.roles.is_settled(caller) => Err(unsettled()),
            Some(tenant) if self.roles.is_tenant_admin(caller) => {
                Ok(Visibility::Tenant(Arc::from(tenant.as_str())))
            }
            Some(_) if !self.members.is_complete() => {
                Err(Status::unavailable("the members of the projects are being read", RETRY_AFTER_SECONDS))
            }
            Some(tenant) => Ok(Visibility::Member {
                tenant: Arc::from(tenant.as_str()),
                user: Arc::from(caller.name.as_str()),
                namespaces: self.members.of(tenant, &caller.name),
            }),
        }
    }

    fn operator_right(&self) -> Right {
        Right { verb: OPERATE, group: GROUP, resource: PROJECTS }
    }

    /// Of a member with his projects, and of an administrator with the platforms that name him; all others see what their
    /// rights alone say.
    fn changes(&self, caller: &Caller) -> Option<watch::Receiver<u64>> {
        let tenant = caller.tenant.as_deref()?;
        let by_group = caller.in_group(&self.roles.tenant_admin_group);
        (!by_group).then(|| self.changes.subscribe(tenant, &caller.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;
    use crate::roles::RULE;
    use business_types::names::NAMESPACES;
    use std::fmt::Write as _;

    fn policy(tenant_grant: bool) -> BusinessPolicy {
        let administrators = vec![Members::nobody()];
        let roles = Roles { tenant_admin_group: "tenant-admins".to_owned(), administrators, tenant_grant };
        BusinessPolicy::new(roles, KINDS.rights(), Members::nobody(), RoleChanges::default())
    }

    fn caller(name: &str, tenant: Option<&str>, groups: &[&str]) -> Caller {
        Caller {
            name: name.to_owned(),
            tenant: tenant.map(str::to_owned),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..Caller::default()
        }
    }

    fn of(verb: &'static str, resource: &str, subresource: &str, namespace: &str) -> ResourceRequest {
        ResourceRequest {
            verb: verb.into(),
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            ..ResourceRequest::default()
        }
    }

    fn ask(verb: &'static str, resource: &str, subresource: &str, namespace: &str) -> RequestInfo {
        of(verb, resource, subresource, namespace).into()
    }

    #[test]
    fn administrators_rule_their_tenant_but_not_its_accounts() {
        let (admin, member) =
            (caller("root", Some("t"), &["tenant-admins"]), caller("alice", Some("t"), &[]));
        for verb in RULE.iter().copied() {
            for resource in [PROJECTS, NAMESPACES] {
                let decide =
                    |who, subresource| policy(true).decide(who, &ask(verb, resource, subresource, ""));
                assert_eq!(decide(&admin, ""), AuthzVerdict::Allow);
                let finalizes = matches!(verb, "get" | "patch" | "update");
                assert_eq!(
                    decide(&admin, "finalize") == AuthzVerdict::Allow,
                    finalizes,
                    "{verb} {resource}/finalize"
                );
                for (who, subresource) in [(&admin, "status"), (&member, "status"), (&member, "finalize")] {
                    let verdict = decide(who, subresource);
                    assert!(matches!(verdict, AuthzVerdict::Deny(_)), "{verb} {resource}/{subresource}");
                }
            }
        }
        let other_group = ResourceRequest { group: "apps".to_owned(), ..of("get", PROJECTS, "", "") };
        assert_eq!(policy(true).decide(&admin, &other_group.into()), AuthzVerdict::NoOpinion);
    }

    /// A change of the recorded file is a change of what the roles of tenants may do.
    #[test]
    fn the_rights_of_roles_are_as_recorded() {
        let mut table = format!("{:<31}{:<18}{:<37}member\n", "", "verb", "administrator");
        let objects = RULE.iter().copied().chain([GRANT, OPERATE, "else"]).map(|verb| ("", verb));
        let subresources = [
            "status",
            "finalize",
            "certificate",
            "finalizers",
            "token",
            "transfer",
            "lock",
            "unlock",
            "abandon",
            "else",
        ]
        .into_iter()
        .flat_map(|subresource| ["create", "get", "patch", "update"].map(|verb| (subresource, verb)));
        let asked: Vec<(&str, &'static str)> = objects.chain(subresources).collect();
        for kind in KINDS.rights() {
            for (subresource, verb) in &asked {
                let request = ask(verb, kind.resource, subresource, "");
                let said = |groups: &[&str], tenant_grant| match policy(tenant_grant)
                    .decide(&caller("u", Some("t"), groups), &request)
                {
                    AuthzVerdict::Allow => "yes",
                    AuthzVerdict::Deny(_) => "no",
                    AuthzVerdict::NoOpinion => "by a role",
                    AuthzVerdict::Later(_) => "later",
                };
                let cell = |groups: &[&str]| match (said(groups, false), said(groups, true)) {
                    (off, on) if off == on => off.to_owned(),
                    (off, on) => format!("{off}, {on} with --tenant-grant"),
                };
                let what = format!("{}/{subresource}", kind.resource);
                let (admin, member) = (cell(&["tenant-admins"]), cell(&[]));
                writeln!(table, "{:<31}{verb:<18}{admin:<37}{member}", what.trim_end_matches('/')).unwrap();
            }
        }
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/output/rights.txt");
        if std::env::var_os("UPDATE_OUTPUT").is_some() {
            std::fs::write(file, &table).unwrap();
        }
        let recorded = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            table == recorded,
            "the table changed; look at it, then record it with UPDATE_OUTPUT=1:\n{table}"
        );
    }

    #[test]
    fn budget_is_made_by_administrators_and_only_where_it_is_switched_on() {
        let admin = caller("root", Some("t"), &["tenant-admins"]);
        let member = caller("alice", Some("t"), &[]);
        let grant = ask(GRANT, PROJECTS, "", "");
        assert_eq!(policy(true).decide(&admin, &grant), AuthzVerdict::Allow);
        assert_eq!(policy(false).decide(&admin, &grant), AuthzVerdict::NoOpinion);
        assert!(matches!(policy(true).decide(&member, &grant), AuthzVerdict::Deny(_)));
        assert_eq!(policy(true).decide(&caller("op", None, &[]), &grant), AuthzVerdict::NoOpinion);
    }

    #[test]
    fn members_see_their_projects_and_add_namespaces() {
        let member = caller("alice", Some("t"), &[]);
        let decide = |verb, resource| policy(true).decide(&member, &ask(verb, resource, "", "p"));
        assert_eq!(decide("list", PROJECTS), AuthzVerdict::Allow);
        assert_eq!(decide("create", NAMESPACES), AuthzVerdict::Allow);
        for (verb, resource) in
            [("create", PROJECTS), ("update", PROJECTS), ("delete", NAMESPACES), ("patch", NAMESPACES)]
        {
            assert_eq!(decide(verb, resource), AuthzVerdict::NoOpinion, "{verb} {resource}");
        }
        let seen = policy(true).visibility(&member, &ask("list", PROJECTS, "", ""), false);
        assert!(matches!(seen, Ok(Visibility::Member { .. })));
    }

    #[test]
    fn members_wait_until_it_is_known_who_they_are() {
        let members = Members::new(RoleChanges::default());
        let unread = BusinessPolicy { members, ..policy(true) };
        let sees = |name: &str, groups: &[&str]| {
            let seen =
                unread.visibility(&caller(name, Some("t"), groups), &ask("list", PROJECTS, "", ""), false);
            seen.map_err(|status| {
                (status.code, status.details.map_or(0, |details| details.retry_after_seconds))
            })
        };
        assert_eq!(sees("alice", &[]), Err((503, 1)), "not an empty list");
        assert_eq!(sees("root", &["tenant-admins"]), Ok(Visibility::Tenant("t".into())));
    }

    #[test]
    fn whom_a_platform_names_rules_its_tenant_and_no_other() {
        let policy = policy(true);
        policy.roles.administrators[0].set("plf", "t", &["root"]);
        let create = ask("create", PROJECTS, "", "");
        let of = |tenant| caller("root", Some(tenant), &[]);
        assert_eq!(policy.decide(&of("t"), &create), AuthzVerdict::Allow);
        assert_eq!(policy.visibility(&of("t"), &create, false), Ok(Visibility::Tenant("t".into())));
        assert_eq!(policy.decide(&of("u"), &create), AuthzVerdict::NoOpinion);
        let namesake = caller("root", None, &[]);
        assert_eq!(policy.decide(&namesake, &create), AuthzVerdict::NoOpinion, "without a tenant");
        policy.roles.administrators[0].set("plf", "t", &["alice"]);
        assert_eq!(policy.decide(&of("t"), &create), AuthzVerdict::NoOpinion);
    }

    #[test]
    fn nobody_is_refused_before_the_administrators_are_known() {
        let roles =
            Roles { administrators: vec![Members::new(RoleChanges::default())], ..policy(true).roles };
        let unread = BusinessPolicy { roles, ..policy(true) };
        let create = ask("create", PROJECTS, "", "");
        let decide = |who: &Caller| unread.decide(who, &create);
        let AuthzVerdict::Later(status) = decide(&caller("root", Some("t"), &[])) else { panic!("decided") };
        assert_eq!(status.code, 503);
        assert!(unread.visibility(&caller("root", Some("t"), &[]), &create, false).is_err());
        assert_eq!(decide(&caller("ann", Some("t"), &["tenant-admins"])), AuthzVerdict::Allow);
        assert_eq!(decide(&caller("operator", None, &[])), AuthzVerdict::NoOpinion);
    }

    #[test]
    fn a_caller_with_neither_tenant_nor_right_sees_nothing() {
        let stranger = caller("eve", None, &["tenant-admins"]);
        let list = ask("list", PROJECTS, "", "");
        assert_eq!(policy(true).visibility(&stranger, &list, false), Ok(Visibility::Nothing));
        assert_eq!(policy(true).visibility(&stranger, &list, true), Ok(Visibility::Everything));
        assert_eq!(policy(true).decide(&stranger, &list), AuthzVerdict::NoOpinion);
    }

    #[test]
    fn a_tenants_user_gains_nothing_by_a_name_of_kubernetes() {
        for name in NAMESPACE_DELETERS.into_iter().chain(KUBERNETES_OWN) {
            let seen = policy(true).visibility(
                &caller(name, Some("t"), &[]),
                &ask("watch", PROJECTS, "", ""),
                false,
            );
            assert!(matches!(seen, Ok(Visibility::Member { .. })), "{name}");
        }
    }

    #[test]
    fn no_part_of_kubernetes_gets_a_certificate() {
        let certificate = ask("get", NAMESPACES, "certificate", "p");
        for name in NAMESPACE_DELETERS.into_iter().chain(KUBERNETES_OWN) {
            let verdict = policy(true).decide(&caller(name, None, &[]), &certificate);
            assert!(matches!(verdict, AuthzVerdict::Deny(_)), "{name}");
        }
        let operator = policy(true).decide(&caller("op", None, &[]), &certificate);
        assert_eq!(operator, AuthzVerdict::NoOpinion, "Kubernetes is asked");
    }

    #[test]
    fn the_namespace_controller_empties_nothing_of_ours() {
        for name in NAMESPACE_DELETERS {
            let kcm = caller(name, None, &[]);
            let sees = |verb, namespace: &str, object: &str| {
                let request =
                    ResourceRequest { name: object.to_owned(), ..of(verb, NAMESPACES, "", namespace) };
                policy(true).visibility(&kcm, &request.into(), true)
            };
            assert_eq!(sees("list", "p", ""), Ok(Visibility::Nothing));
            assert_eq!(sees("deletecollection", "p", ""), Ok(Visibility::Nothing));
            assert_eq!(sees("list", "", ""), Ok(Visibility::Everything));
            assert_eq!(sees("watch", "p", ""), Ok(Visibility::Everything));
            assert_eq!(sees("get", "p", "a"), Ok(Visibility::Everything));
            assert_eq!(sees("delete", "p", "a"), Ok(Visibility::Everything));
        }
    }
}
