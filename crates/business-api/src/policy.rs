//! What callers may do without a role in Kubernetes, and what they see of the store.

use crate::freshness;
use crate::people;
use crate::rights::{CERTIFICATE, GRANT, KindRights, Role};
use crate::role_changes::RoleChanges;
use crate::roles::{Roles, Standing, is_whole};
use apiserver::authz::{AuthzVerdict, Policy, Right, Ruling};
use apiserver::request::ResourceRequest;
use apiserver::{Caller, RequestInfo, Verb};
use business_types::names::{GROUP, PROJECTS};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use meta::status::Status;
use std::time::Duration;
use store::{Store, Visibility};
use tokio::sync::watch;
use tokio::time::timeout;

/// The cross-tenant right, a verb on projects.
pub const OPERATE: &str = "operate";

/// How long a request that is about to be refused waits for what was written before it came, and an event of a watch for
/// what was written before it.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Delete the objects in a core namespace that is deleted. A project of the same name does not concern them.
const NAMESPACE_DELETERS: [&str; 2] =
    ["system:kube-controller-manager", "system:serviceaccount:kube-system:namespace-controller"];
/// Counts the objects in core namespaces, and shows the numbers in the quotas there. A project of the same name does not
/// concern it.
const QUOTA_COUNTER: &str = "system:serviceaccount:kube-system:resourcequota-controller";
/// Other parts of kube-controller-manager that read every kind. None of them may operate the platform.
const KUBERNETES_OWN: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    QUOTA_COUNTER,
    "system:serviceaccount:kube-system:ttl-after-finished-controller",
];

/// The rules of this program.
#[derive(Clone, Debug)]
pub struct BusinessPolicy {
    roles: Roles,
    kinds: Vec<KindRights>,
    changes: RoleChanges,
    store: Option<Store>,
}

impl BusinessPolicy {
    /// Rules over roles, and what they may do with each kind. `changes` is told when somebody is given another role.
    pub fn new(roles: Roles, kinds: Vec<KindRights>, changes: RoleChanges) -> Self {
        Self { roles, kinds, changes, store: None }
    }

    /// The same rules, which refuse a request only when they know what this store knew when it came.
    #[must_use]
    pub fn over(self, store: Store) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Whether a role that was given a moment ago could change a ruling: the caller is refused, or does not see the
    /// project that he names, or asks for everything that he sees. The body of a written project names another project.
    fn is_hasty(&self, caller: &Caller, asked: &ResourceRequest, ruling: &Ruling) -> bool {
        let Ok(sight) = &ruling.sight else { return false };
        if is_whole(sight) {
            return false;
        }
        let project = match (asked.namespace.as_str(), asked.object_name()) {
            ("", name) if asked.resource == PROJECTS && asked.verb != Verb::Create => name,
            (namespace, _) => namespace,
        };
        let is_unseen = || !project.is_empty() && self.roles.in_project(caller, sight, project).is_none();
        match ruling.verdict {
            AuthzVerdict::Deny(_) => true,
            AuthzVerdict::Allow => match asked.verb {
                Verb::List => true,
                Verb::Create | Verb::Update | Verb::Patch if asked.resource == PROJECTS => true,
                _ => is_unseen(),
            },
            AuthzVerdict::NoOpinion | AuthzVerdict::Later(_) => false,
        }
    }

    /// Refuses writes while a role may have been taken away long ago without being known here.
    fn knows(&self, asked: &ResourceRequest) -> Result<(), Status> {
        match (&self.store, &asked.verb) {
            (None, _) | (_, Verb::Get | Verb::List | Verb::Watch) => Ok(()),
            (Some(store), _) => freshness::known(store),
        }
    }

    /// The role that counts for a request; `None` for a caller without a role in any tenant. A project that a caller
    /// does not see does not exist for him, whatever role he would have there.
    fn role_for(&self, caller: &Caller, standing: &Standing, asked: &ResourceRequest) -> Option<Role> {
        let Standing { visibility, highest } = standing;
        let highest = (*highest)?;
        let is_project = asked.resource == PROJECTS;
        let role = match (&asked.verb, asked.object_name()) {
            (Verb::DeleteCollection, _) if asked.namespace.is_empty() && !is_whole(visibility) => {
                return Some(Role::View);
            }
            // The right to grant budget of a tenant does not depend on the name of the project.
            (Verb::Other(_), _) => Some(highest),
            _ if !is_project && !asked.namespace.is_empty() => {
                self.roles.in_project(caller, visibility, &asked.namespace)
            }
            // Its body says which project it is to lie below.
            (Verb::Create, _) if is_project && asked.subresource.is_empty() => Some(highest),
            (Verb::Delete, name) if is_project && !name.is_empty() => {
                self.roles.above_project(caller, visibility, name)
            }
            (_, name) if is_project && !name.is_empty() => self.roles.in_project(caller, visibility, name),
            _ => Some(highest),
        };
        Some(role.unwrap_or(Role::Administrator))
    }

    fn decide_role(&self, role: Role, asked: &ResourceRequest) -> AuthzVerdict {
        let Some(kind) = self.kinds.iter().find(|kind| kind.resource == asked.resource) else {
            return AuthzVerdict::NoOpinion;
        };
        let (verb, subresource) = (asked.verb.as_str(), asked.subresource.as_str());
        match kind.least(verb, subresource) {
            Some(least) if role >= least && (verb != GRANT || self.roles.tenant_grant) => AuthzVerdict::Allow,
            Some(least) if role < least => {
                let place = place(least, asked);
                AuthzVerdict::Deny(format!("this needs the role {}{place}", least.word()))
            }
            _ if subresource.is_empty() => AuthzVerdict::Deny("this is for operators".to_owned()),
            _ => AuthzVerdict::Deny(format!("the subresource {subresource} is not for tenants")),
        }
    }
}

/// Where a role is needed.
fn place(least: Role, asked: &ResourceRequest) -> String {
    let is_project = asked.resource == PROJECTS && asked.namespace.is_empty();
    match (asked.namespace.as_str(), asked.object_name()) {
        _ if least == Role::Administrator => String::new(),
        ("", name) if is_project && !name.is_empty() && asked.verb == Verb::Delete => {
            format!(" above project {name:?}")
        }
        ("", name) if is_project && !name.is_empty() => format!(" in project {name:?}"),
        ("", _) => String::new(),
        (project, _) => format!(" in project {project:?}"),
    }
}

/// Names of Kubernetes' own parts, for which only kube-apiserver vouches; it gives them no tenant.
fn is_kubernetes_own(caller: &Caller) -> bool {
    let name = caller.name.as_str();
    caller.tenant.is_none() && (NAMESPACE_DELETERS.contains(&name) || KUBERNETES_OWN.contains(&name))
}

/// Parts of Kubernetes see everything, and their roles name all resources. That must not let them into the clusters,
/// and a project with the name of a core namespace must not be emptied with it, nor counted in its quota.
/// kube-controller-manager reads under its own name what its parts share, such as quota and garbage collection: so
/// quotas must not even name what they must not count (business-types, `resources.rs`).
fn judge_kubernetes(caller: &Caller, asked: Option<&ResourceRequest>) -> Ruling {
    let is_for_people = asked.is_some_and(|asked| asked.group == GROUP && asked.subresource == CERTIFICATE);
    let verdict = if is_for_people {
        AuthzVerdict::Deny("certificates are for people".to_owned())
    } else {
        AuthzVerdict::NoOpinion
    };
    let deletes = NAMESPACE_DELETERS.contains(&caller.name.as_str());
    let empties = deletes && asked.is_some_and(empties_a_namespace);
    let counts = caller.name == QUOTA_COUNTER;
    let sight = if empties || counts { Visibility::Nothing } else { Visibility::Everything };
    Ruling { verdict, sight: Ok(sight) }
}

/// Whether all objects of one namespace are listed or deleted.
fn empties_a_namespace(asked: &ResourceRequest) -> bool {
    matches!(asked.verb, Verb::List | Verb::DeleteCollection)
        && !asked.namespace.is_empty()
        && asked.object_name().is_empty()
}

impl Policy for BusinessPolicy {
    fn judge(&self, caller: &Caller, request: &RequestInfo, operator: bool) -> Ruling {
        let asked = request.resource();
        if is_kubernetes_own(caller) {
            return judge_kubernetes(caller, asked);
        }
        let standing = self.roles.standing(caller);
        let verdict = match (asked.filter(|asked| asked.group == GROUP), &standing) {
            (None, _) => AuthzVerdict::NoOpinion,
            // For an operator only the roles in Kubernetes count.
            (Some(_), Err(_unsettled)) if operator => AuthzVerdict::NoOpinion,
            (Some(_), Err(unsettled)) => AuthzVerdict::Later(Box::new(unsettled.clone())),
            (Some(asked), Ok(standing)) => {
                match (self.role_for(caller, standing, asked), self.knows(asked)) {
                    (_, Err(aged)) if !operator => AuthzVerdict::Later(Box::new(aged)),
                    (None, _) => AuthzVerdict::NoOpinion,
                    (Some(role), _) => match self.decide_role(role, asked) {
                        AuthzVerdict::Deny(_) if operator => AuthzVerdict::NoOpinion,
                        verdict => verdict,
                    },
                }
            }
        };
        let sight = match standing {
            _ if operator => Ok(Visibility::Everything),
            standing => standing.map(|standing| standing.visibility).map_err(Box::new),
        };
        Ruling { verdict, sight }
    }

    /// If the database does not answer, the ruling stands on what is known.
    fn catch_up<'a>(
        &'a self,
        caller: &Caller,
        request: &RequestInfo,
        ruling: &Ruling,
    ) -> Option<BoxFuture<'a, ()>> {
        let asked = request.resource().filter(|asked| asked.group == GROUP)?;
        let store = self.store.as_ref().filter(|_| self.is_hasty(caller, asked, ruling))?;
        let caught_up = async {
            if let Ok(revision) = store.current_revision().await {
                self.roles.reach(revision).await;
            }
        };
        Some(timeout(CATCH_UP, caught_up).map(drop).boxed())
    }

    /// The roles are kept from the store's own watch, beside the watches of people. If they do not come in time, the event
    /// is shown to whom it was for as far as is known.
    fn settle(&self) -> Option<BoxFuture<'_, ()>> {
        self.roles.are_behind().then(|| timeout(CATCH_UP, self.roles.catch_up()).map(drop).boxed())
    }

    fn operator_right(&self) -> Right {
        Right { verb: OPERATE, group: GROUP, resource: PROJECTS }
    }

    /// Only callers who have their roles by being named are told of changes. A caller in the group of administrators
    /// has his role from his credential.
    fn changes(&self, caller: &Caller) -> Option<watch::Receiver<u64>> {
        let by_group = self.roles.tenant_by_group(caller).is_some();
        (!by_group && !is_kubernetes_own(caller)).then(|| self.changes.subscribe(people::names(caller)))
    }
}

#[cfg(test)]
mod tests;
