//! Credentials for the registry. The role admin in a project is needed to make them for robots. A person makes his own,
//! or an administrator of the tenant does.

/// The subresource that issues passwords.
pub mod token;

pub use token::Issuing;

use super::{
    cannot_be_read, dash, only_lets_go, project_key, read_both, rules, set_tenant, take_tenant, unreadable,
};
use crate::kind_ids::REGISTRY_CREDENTIAL;
use crate::rights::Role;
use crate::roles::Roles;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{Caller, Part, View};
use business_types::account::{self, FreeOfTenant};
use business_types::names::{API_VERSION, PROJECT_KIND};
use business_types::registry_credential::{changed_spec, group_resource, new_spec};
use business_types::{CredentialHolder, RegistryCredentialSpec, RegistryCredentialStatus, RobotAccess};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::Key;
use store::quota::{Account, Violation};

/// Credentials that a project may have.
const CREDENTIALS_MAX: usize = 500;
/// The most of them that one user may have: everybody who sees a project may make his own.
const OF_A_USER_MAX: usize = 20;
/// The most of them that robots may have: room is left for people.
const OF_ROBOTS_MAX: usize = 400;
const OWNERS: &[&str] = &["metadata", "ownerReferences"];

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Holder", "The user who acts by it, or what a robot may do.", 0),
    Column::string("Username", "The name that goes with the password.", 0),
    Column::string("Expires", "When the password ends.", 0),
    Column::string("Last Used", "The day on which it was last used.", 0),
    Column::string("Tenant", "The tenant that owns it.", 1),
];

/// Credentials. They mean nothing to the ledger; each write checks whose they are.
#[derive(Clone, Debug)]
pub struct RegistryCredentialStrategy {
    roles: Roles,
    days_max: i64,
}

const USER: &[&str] = &["spec", "user"];
const HOST_USER: &[&str] = &["spec", "hostUser"];

impl RegistryCredentialStrategy {
    /// `days_max`: how long a password may be good for.
    pub fn new(roles: Roles, days_max: i64) -> Self {
        Self { roles, days_max }
    }

    fn check_holder(
        &self,
        cx: &WriteContext<'_>,
        project: &str,
        spec: &RegistryCredentialSpec,
    ) -> Option<FieldError> {
        let why = not_his(cx, &self.roles, project, spec)?;
        Some(FieldError::forbidden(&Path::new("spec").child("user"), why))
    }
}

/// Why the caller gets no password for it. A person's password carries all his rights, so a role in a project is not
/// enough to get it. Nor is a role in a tenant enough, if the person is known beyond the tenant.
pub(crate) fn not_his(
    cx: &WriteContext<'_>,
    roles: &Roles,
    project: &str,
    spec: &RegistryCredentialSpec,
) -> Option<&'static str> {
    if spec.user.is_empty() {
        let why = "a robot's credential needs the role admin in the project";
        return (!is_admin(cx, roles, project)).then_some(why);
    }
    let for_his_user = !spec.host_user && rules(cx, &spec.tenant_id);
    let why = "a person's credential is his own; whoever rules the tenant has those of its users, too";
    (!is_he(cx, spec) && !for_his_user).then_some(why)
}

fn is_he(cx: &WriteContext<'_>, spec: &RegistryCredentialSpec) -> bool {
    let in_same_tenant = match &cx.caller.tenant {
        None => spec.host_user,
        Some(tenant) => !spec.host_user && *tenant == spec.tenant_id,
    };
    in_same_tenant && spec.user == cx.caller.name
}

/// What the maker of a person's credential is told if the person's name has no role in the project. The registry's clients send
/// a password and no groups, so the roles of groups are not known there.
fn opens_nothing(roles: &Roles, project: &str, spec: &RegistryCredentialSpec) -> Option<String> {
    let RegistryCredentialSpec { user, tenant_id, host_user, .. } = spec;
    let tenant = (!host_user).then(|| tenant_id.clone());
    let by_name = Caller { name: user.clone(), tenant, ..Caller::default() };
    // Roles that are not known yet are nothing to warn of.
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

async fn check_number(view: View<'_>, object: &Object) -> Result<(), Status> {
    let others = view.unfiltered().list(REGISTRY_CREDENTIAL, Some(object.namespace())).await?;
    let read = others.iter().map(|entry| Object::from_stored(&entry.body, entry.revision.0));
    let others: Vec<Object> = read.collect::<Result<_, _>>().map_err(unreadable)?;
    match too_many(&others, object) {
        Some(why) => Err(Status::forbidden(&group_resource(), object.name(), &why)),
        None => Ok(()),
    }
}

/// Why a project with these others has no room for it.
fn too_many(others: &[Object], object: &Object) -> Option<String> {
    if others.len() >= CREDENTIALS_MAX {
        return Some(format!("a project has at most {CREDENTIALS_MAX} credentials"));
    }
    let (most, whose) = match object.text(USER) {
        "" => (OF_ROBOTS_MAX, "robots have"),
        _user => (OF_A_USER_MAX, "a user has"),
    };
    let of_same = others.iter().filter(|other| are_of_same(other, object)).count();
    (of_same >= most).then(|| format!("{whose} at most {most} credentials in a project"))
}

/// Whether two are the same user's, or both robots'.
fn are_of_same(one: &Object, other: &Object) -> bool {
    let user = one.text(USER);
    user == other.text(USER) && (user.is_empty() || one.get(HOST_USER) == other.get(HOST_USER))
}

/// The project owns it: where Kubernetes collects garbage, it goes with the project.
async fn own_by(view: View<'_>, project: &Key, object: &mut Object) -> Result<(), Status> {
    let Some(entry) = view.unfiltered().get(project).await? else { return Ok(()) };
    let mut owners = object.get(OWNERS).and_then(Value::as_array).cloned().unwrap_or_default();
    let uid = entry.uid.to_string();
    if !owners.iter().any(|owner| owner.get("uid") == Some(&json!(uid))) {
        let name = &*project.name;
        owners.push(json!({"apiVersion": API_VERSION, "kind": PROJECT_KIND, "name": name, "uid": uid}));
        object.set(OWNERS, json!(owners));
    }
    Ok(())
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
        if cx.part == Part::Main {
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
        if old.is_some_and(|old| cx.part != Part::Main || old.is_deleting()) {
            return take_tenant(view, Some(project), object);
        }
        Some(Box::pin(async move {
            if old.is_none() {
                check_number(view, object).await?;
            }
            // Updates, too: what is applied or put from a file does not name the owner.
            own_by(view, &project, object).await?;
            match take_tenant(view, Some(project), object) {
                Some(taken) => taken.await,
                None => Ok(()),
            }
        }))
    }

    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let spec = match RegistryCredentialSpec::of(object) {
            Ok(spec) => spec,
            Err(error) => return cannot_be_read(object, "spec", &error),
        };
        let mut errors = new_spec(&spec, self.days_max);
        errors.extend(self.check_holder(cx, object.namespace(), &spec));
        // An operator's rights do not come from roles in projects.
        let is_known = spec.user.is_empty() || spec.host_user && cx.sees_everything();
        if !is_known {
            cx.warnings.extend(opens_nothing(&self.roles, object.namespace(), &spec));
        }
        errors
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        if cx.part != Part::Main {
            return FieldErrors::new();
        }
        let (before, after) = match read_both(old, object, "spec", RegistryCredentialSpec::of) {
            Ok(specs) => specs,
            Err(_stored) if only_lets_go(old, object) && is_admin(cx, &self.roles, old.namespace()) => {
                return FieldErrors::new();
            }
            Err(errors) => return errors,
        };
        let mut errors = changed_spec(&before, &after, self.days_max);
        errors.extend(self.check_holder(cx, old.namespace(), &before));
        errors
    }

    fn check_delete(&self, cx: &WriteContext<'_>, object: &Object) -> Result<(), Status> {
        // An administrator also deletes what does not read: an earlier release may have stored it.
        let is_his = RegistryCredentialSpec::of(object).is_ok_and(|spec| is_he(cx, &spec));
        if is_his || is_admin(cx, &self.roles, object.namespace()) {
            return Ok(());
        }
        let why = "everybody has credentials of his own; others need the role admin in the project";
        Err(Status::forbidden(&group_resource(), object.name(), why))
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<FreeOfTenant>(object).map_err(unreadable)
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
            dash(&holder),
            dash(&status.username),
            dash(status.expires_at.as_deref().unwrap_or_default()),
            dash(status.last_used.as_deref().unwrap_or_default()),
            dash(&spec.tenant_id),
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
        let full = others(OF_ROBOTS_MAX, OF_A_USER_MAX);
        assert_eq!(
            too_many(&full, &robot).as_deref(),
            Some("robots have at most 400 credentials in a project")
        );
        assert_eq!(
            too_many(&full, &alice).as_deref(),
            Some("a user has at most 20 credentials in a project")
        );
        assert_eq!(too_many(&full, &host_alice), None, "another one of this name");
        assert_eq!(too_many(&full, &of(json!({"user": "bob"}))), None);
        let less = others(OF_ROBOTS_MAX - 1, OF_A_USER_MAX - 1);
        assert_eq!((too_many(&less, &robot), too_many(&less, &alice)), (None, None));
        assert!(too_many(&others(CREDENTIALS_MAX, 0), &alice).is_some());
    }
}
