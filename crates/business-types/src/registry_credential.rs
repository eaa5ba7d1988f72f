//! Credentials for the registry: a username and a password for clients such as docker and helm, which have no ID
//! tokens. Each belongs to a project.

use crate::validation;
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use serde::{Deserialize, Serialize};
use serde_json::json;

mod schema;

pub use schema::{schema, token_schema};

/// The default validity of a password in days.
pub const VALID_DAYS_DEFAULT: i64 = 90;
const USER_BYTES_MAX: usize = 1024;

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::REGISTRY_CREDENTIAL_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::REGISTRY_CREDENTIALS)
}

/// The spec of a credential. `metadata.namespace` is its project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryCredentialSpec {
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// The user that the credential authenticates, with his own rights; empty for a robot.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Whether `user` is the user of this name without a tenant in his credential; else he is the one whose credential
    /// names this tenant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_user: bool,
    /// The access of a robot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<RobotAccess>,
    /// The image namespaces and chart groups to which a robot has access; empty for all of the project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The validity of a password in days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_days: Option<i64>,
}

/// The access of a robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RobotAccess {
    /// Pull.
    Pull,
    /// Pull and push.
    Push,
}

impl RobotAccess {
    /// The names of all variants.
    pub const NAMES: [&'static str; 2] = ["Pull", "Push"];
}

/// Whom a credential authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialHolder {
    /// A user of the tenant, with the rights that he has at the time of use.
    Person(String),
    /// A program.
    Robot(Robot),
}

/// A program with a credential of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Robot {
    /// Its access.
    pub access: RobotAccess,
    /// The image namespaces and chart groups to which it has access; empty for all of the project.
    pub names: Vec<String>,
}

impl Robot {
    /// Whether it has access to an image namespace or chart group of its project.
    pub fn is_for(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|own| own == name)
    }
}

/// The status of a credential: data about its password. Written by the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryCredentialStatus {
    /// The username.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// The SHA-256 of the password, in hexadecimal digits; empty if there is no password.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub password_hash: String,
    /// When the password was issued, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<String>,
    /// When the password expires, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The project's uid when it was issued. It gives no access to another project of the same name.
    #[serde(rename = "projectUID", skip_serializing_if = "String::is_empty")]
    pub project_uid: String,
    /// The day of its last use, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used: Option<String>,
}

impl RegistryCredentialSpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }

    /// Whom it authenticates; `None` for an invalid spec.
    pub fn holder(&self) -> Option<CredentialHolder> {
        match (self.user.as_str(), self.access) {
            ("", Some(access)) => Some(CredentialHolder::Robot(Robot { access, names: self.names.clone() })),
            ("", None) | (_, Some(_)) => None,
            (user, None) => Some(CredentialHolder::Person(user.to_owned())),
        }
    }
}

impl RegistryCredentialStatus {
    /// Decodes the status of an object. An absent status is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}

/// The username of a credential.
pub fn username(project: &str, name: &str) -> String {
    format!("{project}/{name}")
}

/// Validates a new credential. `days_max` is the maximum validity of a password in days.
pub fn registry_credential(spec: &RegistryCredentialSpec, days_max: i64) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(valid_days(spec, days_max));
    errors.extend(holder_and_names(spec));
    errors
}

fn valid_days(spec: &RegistryCredentialSpec, days_max: i64) -> Option<FieldError> {
    validation::valid_days(spec.valid_days, days_max, &Path::new("spec").child("validDays"))
}

fn holder_and_names(spec: &RegistryCredentialSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = validation::registry_names(&spec.names, &path.child("names"));
    match (spec.user.is_empty(), spec.access) {
        (true, None) => {
            let why = "a credential is a person's, or says what a robot may do: give either user or access";
            errors.push(FieldError::required(&path.child("user"), why));
        }
        (false, Some(_)) => {
            let why = "a person acts with his own rights: give either user or access";
            errors.push(FieldError::forbidden(&path.child("access"), why));
        }
        (true, Some(_)) | (false, None) => {}
    }
    if !spec.user.is_empty() && !spec.names.is_empty() {
        errors.push(FieldError::forbidden(&path.child("names"), "a person acts with his own rights"));
    }
    if spec.user.len() > USER_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("user"), USER_BYTES_MAX));
    }
    if spec.user.starts_with("system:") || spec.user.chars().any(char::is_control) {
        errors.push(FieldError::invalid(&path.child("user"), &json!(spec.user), "is no user of a tenant"));
    }
    errors
}

/// Validates a changed credential. A bound that was lowered since it was created does not block other changes: the
/// passwords that are issued keep to the bound.
pub fn registry_credential_update(
    old: &RegistryCredentialSpec,
    new: &RegistryCredentialSpec,
    days_max: i64,
) -> FieldErrors {
    let mut errors = holder_and_names(new);
    if new.valid_days != old.valid_days {
        errors.extend(valid_days(new, days_max));
    }
    let fields = [("tenantID", &old.tenant_id, &new.tenant_id), ("user", &old.user, &new.user)];
    errors.extend(validation::immutable(fields, "field is immutable"));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(value: serde_json::Value) -> RegistryCredentialSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_credential_is_a_persons_or_a_robots() {
        let wrong = |value| {
            let errors = registry_credential(&spec(value), 365);
            errors
                .iter()
                .map(|error| error.to_string().split(':').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(wrong(json!({"user": "alice"})), [""; 0]);
        assert_eq!(wrong(json!({"access": "Pull", "names": ["shop"], "validDays": 365})), [""; 0]);
        assert_eq!(wrong(json!({})), ["spec.user"]);
        assert_eq!(wrong(json!({"user": "alice", "access": "Push"})), ["spec.access"]);
        assert_eq!(wrong(json!({"user": "alice", "names": ["shop"]})), ["spec.names"]);
        assert_eq!(wrong(json!({"user": "system:admin"})), ["spec.user"]);
        assert_eq!(wrong(json!({"access": "Pull", "validDays": 366})), ["spec.validDays"]);
        assert_eq!(wrong(json!({"access": "Pull", "validDays": 0})), ["spec.validDays"]);
        assert_eq!(wrong(json!({"access": "Pull", "names": ["a/b"]})), ["spec.names[0]"]);
    }

    #[test]
    fn whose_it_is_never_changes() {
        let (alice, bob) = (spec(json!({"user": "alice"})), spec(json!({"user": "bob"})));
        assert_eq!(registry_credential_update(&alice, &bob, 365).len(), 1);
        assert_eq!(registry_credential_update(&alice, &alice, 365), []);
        let pull = spec(json!({"access": "Pull"}));
        assert_eq!(
            registry_credential_update(&pull, &spec(json!({"access": "Push", "names": ["a"]})), 365),
            []
        );
        assert_eq!(registry_credential_update(&pull, &alice, 365).len(), 1);
    }

    #[test]
    fn days_of_before_the_bound_was_lowered_block_no_other_change() {
        let year = spec(json!({"access": "Pull", "validDays": 365}));
        let push = spec(json!({"access": "Push", "validDays": 365}));
        assert_eq!(registry_credential_update(&year, &push, 30), []);
        for days in [0, 31, 364] {
            let other = spec(json!({"access": "Pull", "validDays": days}));
            assert_eq!(registry_credential_update(&year, &other, 30).len(), 1, "{days}");
        }
        let fewer = spec(json!({"access": "Pull", "validDays": 30}));
        assert_eq!(registry_credential_update(&year, &fewer, 30), []);
    }

    #[test]
    fn a_robot_acts_in_what_is_named() {
        let holder = |value| spec(value).holder();
        let Some(CredentialHolder::Robot(robot)) = holder(json!({"access": "Pull", "names": ["a"]})) else {
            panic!()
        };
        assert!(robot.is_for("a") && !robot.is_for("b"));
        let Some(CredentialHolder::Robot(robot)) = holder(json!({"access": "Push"})) else { panic!() };
        assert!(robot.is_for("b"));
        assert_eq!(holder(json!({"user": "alice"})), Some(CredentialHolder::Person("alice".to_owned())));
        assert_eq!(holder(json!({"user": "alice", "access": "Pull"})), None);
        assert_eq!(holder(json!({})), None);
    }
}
