//! What callers may do by their roles in tenants, and what they see of the store.

use crate::freshness;
use crate::rights::{CERTIFICATE, GRANT, KindRights, Role};
use crate::role_changes::RoleChanges;
use crate::roles::{CallerRoles, Roles, sees_whole_tenants};
use crate::subjects;
use apiserver::authz::{AuthzVerdict, Policy, Right, Ruling};
use apiserver::request::ResourceRequest;
use apiserver::{Caller, RequestInfo, Verb};
use business_types::names::{GROUP, NAMESPACES, NS_EMIGRATIONS, PROJECTS, TRANSFER};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use meta::status::Status;
use std::time::Duration;
use store::{Store, Visibility};
use tokio::sync::watch;
use tokio::time::timeout;

/// The verb on projects that makes a caller an operator, who sees all tenants.
pub const OPERATE: &str = "operate";

/// How long a request, or an event of a watch, waits until the roles include what was written before it.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The users of the namespace controller. It deletes the objects in a core namespace that is being deleted, and must
/// not touch a project of the same name.
const NAMESPACE_CONTROLLERS: [&str; 2] =
    ["system:kube-controller-manager", "system:serviceaccount:kube-system:namespace-controller"];
/// The user of the quota controller. It counts the objects in core namespaces for their quotas, and must not
/// count those of a project of the same name.
const QUOTA_CONTROLLER: &str = "system:serviceaccount:kube-system:resourcequota-controller";
/// Further users of kube-controller-manager that read every kind. None of them may operate the platform.
const OTHER_CONTROLLERS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    QUOTA_CONTROLLER,
    "system:serviceaccount:kube-system:ttl-after-finished-controller",
];

/// Authorizes callers by their roles in tenants.
#[derive(Clone, Debug)]
pub struct BusinessPolicy {
    roles: Roles,
    kinds: Vec<KindRights>,
    changes: RoleChanges,
    store: Option<Store>,
}

impl BusinessPolicy {
    /// A policy over the roles of callers and the rights of roles. `changes` notifies open watches of changed roles.
    pub fn new(roles: Roles, kinds: Vec<KindRights>, changes: RoleChanges) -> Self {
        Self { roles, kinds, changes, store: None }
    }

    /// The same policy, which waits for this store before it refuses a request because of roles that may be stale.
    #[must_use]
    pub fn with_store(self, store: Store) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Whether a role that was given a moment ago could change a ruling: the caller is refused, or does not see the
    /// project that the request names, or lists everything that they see, or sends a body that may name another
    /// project.
    fn may_be_stale(&self, caller: &Caller, request: &ResourceRequest, ruling: &Ruling) -> bool {
        let Ok(sight) = &ruling.visibility else { return false };
        if sees_whole_tenants(sight) {
            return false;
        }
        let project = match (request.namespace.as_str(), request.object_name()) {
            ("", name) if request.resource == PROJECTS && request.verb != Verb::Create => name,
            (namespace, _) => namespace,
        };
        let is_unseen = || !project.is_empty() && self.roles.in_project(caller, sight, project).is_none();
        match ruling.verdict {
            AuthzVerdict::Deny(_) => true,
            AuthzVerdict::Allow => match request.verb {
                Verb::List => true,
                _ => may_name_another_project(request) || is_unseen(),
            },
            AuthzVerdict::NoOpinion | AuthzVerdict::NotReady(_) => false,
        }
    }

    /// Refuses a write (503) if the roles are too old: one of them may have been revoked meanwhile.
    fn check_freshness(&self, request: &ResourceRequest) -> Result<(), Status> {
        match (&self.store, &request.verb) {
            (None, _) | (_, Verb::Get | Verb::List | Verb::Watch) => Ok(()),
            (Some(store), _) => freshness::check_roles(store),
        }
    }

    /// The role that counts for a request; `None` for a caller without a role in any tenant. For a project that the
    /// caller does not see it is [`Role::Administrator`]: the request passes, and the store answers that nothing is
    /// there.
    fn role_for(&self, caller: &Caller, roles: &CallerRoles, request: &ResourceRequest) -> Option<Role> {
        let CallerRoles { visibility, highest } = roles;
        let highest = (*highest)?;
        let is_project = request.resource == PROJECTS;
        let role = match (&request.verb, request.object_name()) {
            (Verb::DeleteCollection, _)
                if request.namespace.is_empty() && !sees_whole_tenants(visibility) =>
            {
                return Some(Role::View);
            }
            // The verb `grant` is for a tenant, whatever project is named.
            (Verb::Other(_), _) => Some(highest),
            _ if !is_project && !request.namespace.is_empty() => {
                self.roles.in_project(caller, visibility, &request.namespace)
            }
            // The body names the parent; the strategy checks the role there.
            (Verb::Create, _) if is_project && request.subresource.is_empty() => Some(highest),
            (Verb::Delete, name) if is_project && !name.is_empty() => {
                self.roles.above_project(caller, visibility, name)
            }
            (_, name) if is_project && !name.is_empty() => self.roles.in_project(caller, visibility, name),
            _ => Some(highest),
        };
        Some(role.unwrap_or(Role::Administrator))
    }

    fn verdict(&self, role: Role, request: &ResourceRequest) -> AuthzVerdict {
        let Some(kind) = self.kinds.iter().find(|kind| kind.resource == request.resource) else {
            return AuthzVerdict::NoOpinion;
        };
        let (verb, subresource) = (request.verb.as_str(), request.subresource.as_str());
        match kind.least_role(verb, subresource) {
            Some(least) if role >= least && (verb != GRANT || self.roles.tenant_grant) => AuthzVerdict::Allow,
            Some(least) if role < least => {
                let place = where_needed(least, request);
                AuthzVerdict::Deny(format!("this needs the role {}{place}", least.label()))
            }
            _ if subresource.is_empty() => AuthzVerdict::Deny("this is for operators".to_owned()),
            _ => AuthzVerdict::Deny(format!("the subresource {subresource} is not for tenants")),
        }
    }
}

/// Whether the body of a request may name another project, in which its caller then needs a role, too.
fn may_name_another_project(request: &ResourceRequest) -> bool {
    match (request.resource.as_str(), request.verb) {
        (PROJECTS, Verb::Create | Verb::Update | Verb::Patch) | (NS_EMIGRATIONS, Verb::Create) => true,
        (NAMESPACES, Verb::Create) => request.subresource == TRANSFER,
        _ => false,
    }
}

/// Says in a message where a role is needed.
fn where_needed(least: Role, request: &ResourceRequest) -> String {
    let is_project = request.resource == PROJECTS && request.namespace.is_empty();
    match (request.namespace.as_str(), request.object_name()) {
        _ if least == Role::Administrator => String::new(),
        ("", name) if is_project && !name.is_empty() && request.verb == Verb::Delete => {
            format!(" above project {name:?}")
        }
        ("", name) if is_project && !name.is_empty() => format!(" in project {name:?}"),
        ("", _) => String::new(),
        (project, _) => format!(" in project {project:?}"),
    }
}

/// Whether the caller is a controller of Kubernetes. Only kube-apiserver authenticates these users, and gives them no
/// tenant.
fn is_kubernetes_controller(caller: &Caller) -> bool {
    let name = caller.name.as_str();
    caller.tenant.is_none() && (NAMESPACE_CONTROLLERS.contains(&name) || OTHER_CONTROLLERS.contains(&name))
}

/// The ruling for a controller of Kubernetes. These see everything, and their roles name all resources. Three limits:
/// none gets a certificate for a member cluster; a project with the name of a core namespace is not emptied together
/// with that; its objects are not counted in the quota there. kube-controller-manager reads under one user what several
/// of its controllers share, such as quota and garbage collection. So quotas must not even name what must not be
/// counted (business-types, `resources.rs`).
fn judge_kubernetes_controller(caller: &Caller, request: Option<&ResourceRequest>) -> Ruling {
    let is_certificate =
        request.is_some_and(|request| request.group == GROUP && request.subresource == CERTIFICATE);
    let verdict = if is_certificate {
        AuthzVerdict::Deny("certificates are for people".to_owned())
    } else {
        AuthzVerdict::NoOpinion
    };
    let is_namespace_controller = NAMESPACE_CONTROLLERS.contains(&caller.name.as_str());
    let empties = is_namespace_controller && request.is_some_and(is_whole_namespace);
    let counts = caller.name == QUOTA_CONTROLLER;
    let sight = if empties || counts { Visibility::Nothing } else { Visibility::Everything };
    Ruling { verdict, visibility: Ok(sight) }
}

/// Whether a request lists or deletes all objects of one namespace.
fn is_whole_namespace(request: &ResourceRequest) -> bool {
    matches!(request.verb, Verb::List | Verb::DeleteCollection)
        && !request.namespace.is_empty()
        && request.object_name().is_empty()
}

impl Policy for BusinessPolicy {
    fn judge(&self, caller: &Caller, request: &RequestInfo, operator: bool) -> Ruling {
        let asked = request.resource();
        if is_kubernetes_controller(caller) {
            return judge_kubernetes_controller(caller, asked);
        }
        let roles = self.roles.of_caller(caller);
        // For an operator only the roles in Kubernetes count. Roles in tenants are bounded by what their holder sees,
        // and he sees everything.
        let verdict = match (asked.filter(|asked| asked.group == GROUP && !operator), &roles) {
            (None, _) => AuthzVerdict::NoOpinion,
            (Some(_), Err(not_synced)) => AuthzVerdict::NotReady(Box::new(not_synced.clone())),
            (Some(asked), Ok(roles)) => {
                match (self.role_for(caller, roles, asked), self.check_freshness(asked)) {
                    (_, Err(stale)) => AuthzVerdict::NotReady(Box::new(stale)),
                    (None, _) => AuthzVerdict::NoOpinion,
                    (Some(role), _) => self.verdict(role, asked),
                }
            }
        };
        let sight = match roles {
            _ if operator => Ok(Visibility::Everything),
            roles => roles.map(|roles| roles.visibility).map_err(Box::new),
        };
        Ruling { verdict, visibility: sight }
    }

    /// If the database does not answer, the ruling stays as it is.
    fn catch_up<'a>(
        &'a self,
        caller: &Caller,
        request: &RequestInfo,
        ruling: &Ruling,
    ) -> Option<BoxFuture<'a, ()>> {
        let asked = request.resource().filter(|asked| asked.group == GROUP)?;
        let store = self.store.as_ref().filter(|_| self.may_be_stale(caller, asked, ruling))?;
        let caught_up = async {
            if let Ok(revision) = store.current_revision().await {
                self.roles.wait_for(revision).await;
            }
        };
        Some(timeout(CATCH_UP, caught_up).map(drop).boxed())
    }

    /// The roles come by watches of their own, beside the watches of callers. If they are still behind when the time is
    /// over, the event goes to those who may see it by the present roles.
    fn settle(&self) -> Option<BoxFuture<'_, ()>> {
        self.roles.are_behind().then(|| timeout(CATCH_UP, self.roles.catch_up()).map(drop).boxed())
    }

    fn operator_right(&self) -> Right {
        Right { verb: OPERATE, group: GROUP, resource: PROJECTS }
    }

    /// Only callers whom objects give their roles are notified. A caller in the group of administrators has the role by
    /// the credential.
    fn changes(&self, caller: &Caller) -> Option<watch::Receiver<u64>> {
        let by_group = self.roles.tenant_by_group(caller).is_some();
        (!by_group && !is_kubernetes_controller(caller))
            .then(|| self.changes.subscribe(subjects::of_caller(caller)))
    }
}

#[cfg(test)]
mod tests;
