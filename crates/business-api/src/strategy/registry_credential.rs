//! Credentials for the registry. Those of robots need the role admin in the project. Those of a person are created by
//! the person or by an administrator of the tenant.

/// The subresource that issues passwords.
pub mod token;

pub use token::TokenHandler;

use super::{
    TENANT, decode_field_error, ensure_tenant, inherit_tenant, internal_decode_error,
    is_tenant_administrator, keeps_spec_while_deleting, project_key, read_both, set_tenant, text_or_dash,
};
use crate::kind_ids::REGISTRY_CREDENTIAL;
use crate::rights::Role;
use crate::roles::Roles;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{Caller, ObjectEndpoint, View};
use business_types::account::{self, UnchargedTenantObject};
use business_types::names::{API_VERSION, PROJECT_KIND};
use business_types::registry_credential::{
    group_resource, gvk, registry_credential, registry_credential_update,
};
use business_types::{
    CredentialHolder, RegistryCredentialSpec, RegistryCredentialStatus, RobotAccess, project,
};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::quota::{Account, Violation};
use store::{Entry, Key};

/// The most credentials of a project.
const CREDENTIALS_MAX: usize = 500;
/// The most credentials of one user in a project: everybody who sees a project may create his own.
const PER_USER_MAX: usize = 20;
/// The most credentials of robots in a project: room is left for people.
const ROBOTS_MAX: usize = 400;
const OWNER_REFERENCES: &[&str] = &["metadata", "ownerReferences"];

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Holder", "The user who acts by it, or what a robot may do.", 0),
    Column::string("Username", "The name that goes with the password.", 0),
    Column::string("Expires", "When the password ends.", 0),
    Column::string("Last Used", "The day on which it was last used.", 0),
    Column::string("Tenant", "The tenant that owns it.", 1),
];

/// Credentials. The ledger charges nothing for them; each write checks their holder.
#[derive(Clone, Debug)]
pub struct RegistryCredentialStrategy {
    roles: Roles,
    days_max: i64,
}

const USER: &[&str] = &["spec", "user"];
const HOST_USER: &[&str] = &["spec", "hostUser"];

impl RegistryCredentialStrategy {
    /// `days_max`: for how many days a password may be valid.
    pub fn new(roles: Roles, days_max: i64) -> Self {
        Self { roles, days_max }
    }

    fn check_holder(
        &self,
        cx: &WriteContext<'_>,
        project: &str,
        spec: &RegistryCredentialSpec,
    ) -> Option<FieldError> {
        let why = holder_refusal(cx, &self.roles, project, spec)?;
        Some(FieldError::forbidden(&Path::new("spec").child("user"), why))
    }
}

/// Why the caller may not write this credential or get a password for it. A person's password carries all rights of the
/// person, so a role in the project is not enough. Nor is administering the tenant, if the person is known beyond the
/// tenant.
pub(crate) fn holder_refusal(
    cx: &WriteContext<'_>,
    roles: &Roles,
    project: &str,
    spec: &RegistryCredentialSpec,
) -> Option<&'static str> {
    if spec.user.is_empty() {
        let why = "a robot's credential needs the role admin in the project";
        return (!is_admin(cx, roles, project)).then_some(why);
    }
    let for_his_user = !spec.host_user && is_tenant_administrator(cx, &spec.tenant_id);
    let why = "a person's credential is his own; whoever rules the tenant has those of its users, too";
    (!is_holder(cx, spec) && !for_his_user).then_some(why)
}

fn is_holder(cx: &WriteContext<'_>, spec: &RegistryCredentialSpec) -> bool {
    let in_same_tenant = match &cx.caller.tenant {
        None => spec.host_user,
        Some(tenant) => !spec.host_user && *tenant == spec.tenant_id,
    };
    in_same_tenant && spec.user == cx.caller.name
}

/// The warning for a person's credential if the person's name has no role in the project. Clients of the registry send
/// a password and no groups, so roles of groups do not count there.
fn no_role_warning(roles: &Roles, project: &str, spec: &RegistryCredentialSpec) -> Option<String> {
    let RegistryCredentialSpec { user, tenant_id, host_user, .. } = spec;
    let tenant = (!host_user).then(|| tenant_id.clone());
    let by_name = Caller { name: user.clone(), tenant, ..Caller::default() };
    // No warning while the roles are not known yet.
    let standing = roles.of_caller(&by_name).ok()?;
    roles.in_project(&by_name, &standing.visibility, project).is_none().then(|| {
        format!(
            "user {user:?} has no role in project {project:?} by name, and the registry does not know the roles of groups: \
             there this credential opens nothing; use a token, a robot's credential, or have the name added to the project"
        )
    })
}

fn is_admin(cx: &WriteContext<'_>, roles: &Roles, project: &str) -> bool {
    roles.in_project(cx.caller, cx.visibility, project).is_some_and(|role| role >= Role::Admin)
}

async fn check_count(view: View<'_>, object: &Object) -> Result<(), Status> {
    let others = view.unfiltered().list(REGISTRY_CREDENTIAL, Some(object.namespace())).await?;
    let read = others.iter().map(|entry| Object::from_stored(&entry.body, entry.revision.0));
    let others: Vec<Object> = read.collect::<Result<_, _>>().map_err(internal_decode_error)?;
    match limit_refusal(&others, object) {
        Some(why) => Err(Status::forbidden(&group_resource(), object.name(), &why)),
        None => Ok(()),
    }
}

/// Why a project with these other credentials can have no more of this holder.
fn limit_refusal(others: &[Object], object: &Object) -> Option<String> {
    if others.len() >= CREDENTIALS_MAX {
        return Some(format!("a project has at most {CREDENTIALS_MAX} credentials"));
    }
    let (most, whose) = match object.text(USER) {
        "" => (ROBOTS_MAX, "robots have"),
        _user => (PER_USER_MAX, "a user has"),
    };
    let with_same_holder = others.iter().filter(|other| have_same_holder(other, object)).count();
    (with_same_holder >= most).then(|| format!("{whose} at most {most} credentials in a project"))
}

/// Whether two credentials belong to the same user, or both to robots.
fn have_same_holder(one: &Object, other: &Object) -> bool {
    let user = one.text(USER);
    user == other.text(USER) && (user.is_empty() || one.get(HOST_USER) == other.get(HOST_USER))
}

/// Adds an owner reference to the project, so that Kubernetes' garbage collection deletes the credential with it.
fn set_owner_reference(project: &Entry, object: &mut Object) {
    let mut owners = object.get(OWNER_REFERENCES).and_then(Value::as_array).cloned().unwrap_or_default();
    let uid = project.uid.to_string();
    if !owners.iter().any(|owner| owner.get("uid") == Some(&json!(uid))) {
        let name = &*project.key.name;
        owners.push(json!({"apiVersion": API_VERSION, "kind": PROJECT_KIND, "name": name, "uid": uid}));
        object.set(OWNER_REFERENCES, json!(owners));
    }
}

/// Refuses a tenant other than the project's. Whoever rules it would get passwords for the project. The ledger, which
/// checks the tenants of other kinds, charges nothing here.
fn check_tenant(project: &Entry, object: &Object) -> Result<(), Status> {
    let tenant = object.text(TENANT);
    if tenant == project.attributes.tenant.as_deref().unwrap_or_default() {
        return Ok(());
    }
    let why = format!("is not the tenant of project {}", project.key.name);
    let error = FieldError::invalid(&Path::new("spec").child("tenantID"), &json!(tenant), &why);
    Err(Status::invalid(&gvk(), object.name(), &vec![error]))
}

impl Strategy for RegistryCredentialStrategy {
    fn parent(&self, object: &Object) -> Option<Key> {
        project_key(object.namespace())
    }

    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        set_tenant(cx, None, object);
        let user = object.text(USER);
        let is_host_user = user == cx.caller.name && cx.caller.tenant.is_none();
        if user.is_empty() || !cx.sees_everything() {
            object.remove(HOST_USER);
        }
        if is_host_user && !cx.sees_everything() {
            object.set(HOST_USER, json!(true));
        }
        Ok(())
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        if cx.endpoint == ObjectEndpoint::Main {
            set_tenant(cx, Some(old), object);
            object.copy_from(old, HOST_USER);
        }
        Ok(())
    }

    fn admit<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        let project = self.parent(object)?;
        if old.is_some_and(|old| cx.endpoint != ObjectEndpoint::Main || old.is_deleting()) {
            return inherit_tenant(view, Some(project), object);
        }
        Some(Box::pin(async move {
            let found = view.unfiltered().get(&project).await?;
            match &found {
                // Also on updates: a file that a client applies or puts does not name the owner.
                Some(found) => set_owner_reference(found, object),
                None if old.is_none() => {
                    return Err(Status::not_found(&project::group_resource(), &project.name));
                }
                None => {}
            }
            ensure_tenant(view, Some(project), object).await?;
            if let (None, Some(found)) = (old, &found) {
                check_tenant(found, object)?;
                check_count(view, object).await?;
            }
            Ok(())
        }))
    }

    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let spec = match RegistryCredentialSpec::of(object) {
            Ok(spec) => spec,
            Err(error) => return decode_field_error(object, "spec", &error),
        };
        let mut errors = registry_credential(&spec, self.days_max);
        errors.extend(self.check_holder(cx, object.namespace(), &spec));
        // An operator's rights do not come from roles in projects.
        let needs_no_role = spec.user.is_empty() || spec.host_user && cx.sees_everything();
        if !needs_no_role {
            cx.warnings.extend(no_role_warning(&self.roles, object.namespace(), &spec));
        }
        errors
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        if cx.endpoint != ObjectEndpoint::Main {
            return FieldErrors::new();
        }
        let (before, after) = match read_both(old, object, "spec", RegistryCredentialSpec::of) {
            Ok(specs) => specs,
            Err(_stored)
                if keeps_spec_while_deleting(old, object) && is_admin(cx, &self.roles, old.namespace()) =>
            {
                return FieldErrors::new();
            }
            Err(errors) => return errors,
        };
        // Whoever changes metadata alone, such as the garbage collector, gets nothing of the holder's.
        if before == after {
            return FieldErrors::new();
        }
        let mut errors = registry_credential_update(&before, &after, self.days_max);
        errors.extend(self.check_holder(cx, old.namespace(), &before));
        errors
    }

    fn check_delete(&self, cx: &WriteContext<'_>, object: &Object) -> Result<(), Status> {
        // The role admin also deletes an object that does not decode: an earlier release may have stored it.
        let is_his = RegistryCredentialSpec::of(object).is_ok_and(|spec| is_holder(cx, &spec));
        if is_his || is_admin(cx, &self.roles, object.namespace()) {
            return Ok(());
        }
        let why = "everybody has credentials of his own; others need the role admin in the project";
        Err(Status::forbidden(&group_resource(), object.name(), why))
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<UnchargedTenantObject>(object).map_err(internal_decode_error)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        tracing::error!(?violations, "the ledger refuses what means nothing to it");
        Status::forbidden(&group_resource(), object.name(), "the quota ledger refuses it")
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) =
            (RegistryCredentialSpec::of(object), RegistryCredentialStatus::of(object))
        else {
            return vec![json!("-"); COLUMNS.len()];
        };
        let holder = match spec.holder() {
            Some(CredentialHolder::Person(user)) => user,
            Some(CredentialHolder::Robot(robot)) => match robot.access {
                RobotAccess::Pull => "robot, Pull".to_owned(),
                RobotAccess::Push => "robot, Push".to_owned(),
            },
            None => String::new(),
        };
        vec![
            text_or_dash(&holder),
            text_or_dash(&status.username),
            text_or_dash(status.expires_at.as_deref().unwrap_or_default()),
            text_or_dash(status.last_used.as_deref().unwrap_or_default()),
            text_or_dash(&spec.tenant_id),
        ]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_robots_leave_room_for_one_another() {
        let of = |spec: Value| Object::new(json!({ "spec": spec })).unwrap();
        let (robot, alice) = (of(json!({"access": "Pull"})), of(json!({"user": "alice"})));
        let host_alice = of(json!({"user": "alice", "hostUser": true}));
        let others = |robots: usize, hers: usize| {
            let mut others = vec![robot.clone(); robots];
            others.extend(vec![alice.clone(); hers]);
            others
        };
        let full = others(ROBOTS_MAX, PER_USER_MAX);
        assert_eq!(
            limit_refusal(&full, &robot).as_deref(),
            Some("robots have at most 400 credentials in a project")
        );
        assert_eq!(
            limit_refusal(&full, &alice).as_deref(),
            Some("a user has at most 20 credentials in a project")
        );
        assert_eq!(limit_refusal(&full, &host_alice), None, "another one of this name");
        assert_eq!(limit_refusal(&full, &of(json!({"user": "bob"}))), None);
        let less = others(ROBOTS_MAX - 1, PER_USER_MAX - 1);
        assert_eq!((limit_refusal(&less, &robot), limit_refusal(&less, &alice)), (None, None));
        assert!(limit_refusal(&others(CREDENTIALS_MAX, 0), &alice).is_some());
    }
}
