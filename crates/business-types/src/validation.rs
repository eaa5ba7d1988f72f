use crate::condition::{self, Condition};
use crate::names;
use crate::namespace::{NamespacePhase, NamespaceSpec, NamespaceStatus, Provenance};
use crate::project::{ProjectPhase, ProjectSpec, ProjectStatus, check_access};
use crate::registry::{self, REGISTRY_DOMAIN};
use crate::resources;
use crate::text::by_rule;
use meta::field::{FieldError, FieldErrors, Path};
use meta::name;
use meta::object::Object;
use meta::quantity::ResourceList;
use serde_json::json;
use std::collections::HashSet;

/// The maximum number of bytes of `spec.displayName`.
const DISPLAY_NAME_BYTES_MAX: usize = 1024;
/// The maximum number of bytes of a member cluster's name.
pub const CLUSTER_NAME_BYTES_MAX: usize = 253;
/// The maximum number of bytes of a tenant's ID: as for the name of a Tenant. It is also the name of a scope, which is
/// a part of the ledger's primary key.
pub const TENANT_ID_BYTES_MAX: usize = 253;
/// The maximum number of users in `spec.members` and in `spec.administrators`.
pub const USERS_MAX: usize = 10_000;
/// The maximum number of image namespaces and chart groups in a credential for the registry.
pub const REGISTRY_NAMES_MAX: usize = 100;

/// The names of users and groups in the stored object. They are not validated again: a name that an older version has
/// accepted must not block other changes.
#[derive(Debug, Default)]
pub(crate) struct StoredNames<'a>(HashSet<&'a str>);

impl<'a> FromIterator<&'a str> for StoredNames<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

/// Validates a new project's spec, independent of other objects.
pub fn project(name: &str, spec: &ProjectSpec) -> FieldErrors {
    let mut errors = tenant_id(&spec.tenant_id, &Path::new("spec").child("tenantID"));
    errors.extend(validate_project(&StoredNames::default(), name, spec));
    errors
}

/// Validates a project's changed spec. Names of subjects that are stored already are not validated again, nor is the
/// tenant, which does not change.
pub fn project_changed(before: &ProjectSpec, name: &str, spec: &ProjectSpec) -> FieldErrors {
    if spec == before {
        return FieldErrors::new();
    }
    let listed = before.access.iter().flat_map(|entry| entry.subject.names());
    let stored = before.members.iter().map(String::as_str).chain(listed).collect();
    validate_project(&stored, name, spec)
}

fn validate_project(stored: &StoredNames<'_>, name: &str, spec: &ProjectSpec) -> FieldErrors {
    let (path, mut errors) = (Path::new("spec"), FieldErrors::new());
    if spec.display_name.is_empty() {
        errors.push(FieldError::required(&path.child("displayName"), "must specify the name for people"));
    }
    errors.extend(display_name(&spec.display_name, &path.child("displayName")));
    errors.extend(users(stored, &spec.members, &path.child("members")));
    errors.extend(check_access(stored, &spec.access, &path.child("access")));
    errors.extend(template_name(&spec.template, &path.child("template")));
    for (cluster, quota) in &spec.clusters {
        if cluster == REGISTRY_DOMAIN {
            errors.extend(registry::limits(&quota.hard, &path.child("clusters").key(cluster).child("hard")));
            continue;
        }
        errors.extend(cluster_name(cluster, &path.child("clusters").key(cluster)));
        errors.extend(amounts(&quota.hard, |resource| {
            path.child("clusters").key(&format!("{cluster}{resource}"))
        }));
    }
    if !spec.parent_project_name.is_empty() {
        errors.extend(parent(name, &spec.parent_project_name, &path.child("parentProjectName")));
    }
    errors
}

/// Validates the name of a cluster. It is also the key of a `ConfigMap` that lists the clusters.
pub(crate) fn cluster_name(name: &str, path: &Path) -> Option<FieldError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_key = (1..=CLUSTER_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(fits)
        && name != "."
        && !name.starts_with("..");
    let wrong =
        "a cluster's name has 1 to 253 letters, digits, '-', '_' and '.', and does not begin with '..'";
    if name == REGISTRY_DOMAIN {
        return Some(FieldError::invalid(path, &json!(name), "it is the registry, and no cluster"));
    }
    (!is_key).then(|| FieldError::invalid(path, &json!(name), wrong))
}

/// Validates the length of a name for people.
pub(crate) fn display_name(name: &str, path: &Path) -> Option<FieldError> {
    (name.len() > DISPLAY_NAME_BYTES_MAX).then(|| FieldError::too_long(path, DISPLAY_NAME_BYTES_MAX))
}

/// Validates that a name, which another system defines, has no control characters.
pub(crate) fn printable(name: &str, path: &Path) -> FieldErrors {
    if name.chars().any(char::is_control) {
        return vec![FieldError::invalid(path, &json!(name), "must not contain control characters")];
    }
    FieldErrors::new()
}

/// Validates the ID of a new object's tenant, which an identity provider may define.
pub(crate) fn tenant_id(tenant: &str, path: &Path) -> FieldErrors {
    if tenant.len() > TENANT_ID_BYTES_MAX {
        return vec![FieldError::too_long(path, TENANT_ID_BYTES_MAX)];
    }
    printable(tenant, path)
}

/// Validates the name of a user or group of an identity provider. White space around a name is a typing error. A name
/// with characters that change the direction of text can look like another name.
pub(crate) fn identity_name(stored: &StoredNames<'_>, name: &str, path: &Path) -> FieldErrors {
    let mut errors = printable(name, path);
    if stored.0.contains(name) {
        return errors;
    }
    if errors.is_empty() && name.trim() != name {
        errors.push(FieldError::invalid(path, &json!(name), "must not begin or end with white space"));
    }
    if name.chars().any(changes_text_direction) {
        let wrong = "must not contain characters that change the direction of the letters after them";
        errors.push(FieldError::invalid(path, &json!(name), wrong));
    }
    errors
}

/// Whether a new object may list a user of this name.
pub fn is_user_name(name: &str) -> bool {
    !name.is_empty() && identity_name(&StoredNames::default(), name, &Path::new("user")).is_empty()
}

/// Whether a character changes the direction of the text after it.
fn changes_text_direction(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Validates the name of a template, which may be empty. It is also the value of a label.
pub(crate) fn template_name(name: &str, path: &Path) -> FieldErrors {
    if name.is_empty() {
        return FieldErrors::new();
    }
    by_rule(name, name::dns1123_label, path)
}

/// Validates a list of names of users.
pub(crate) fn users(stored: &StoredNames<'_>, users: &[String], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if users.len() > USERS_MAX {
        errors.push(FieldError::too_many(path, users.len(), USERS_MAX));
    }
    for (index, user) in users.iter().enumerate() {
        if user.is_empty() {
            errors.push(FieldError::required(&path.index(index), "a user has a name"));
        }
        errors.extend(identity_name(stored, user, &path.index(index)));
    }
    errors
}

/// Validates a list of names of image namespaces and chart groups.
pub(crate) fn registry_names(names: &[String], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if names.len() > REGISTRY_NAMES_MAX {
        errors.push(FieldError::too_many(path, names.len(), REGISTRY_NAMES_MAX));
    }
    for (index, named) in names.iter().enumerate() {
        errors.extend(by_rule(named, name::dns1123_subdomain, &path.index(index)));
    }
    errors
}

/// Validates the validity of a password for the registry.
pub(crate) fn valid_days(days: Option<i64>, days_max: i64, path: &Path) -> Option<FieldError> {
    let why = format!("a password is good for 1 to {days_max} days");
    let wrong = days.filter(|days| !(1..=days_max).contains(days));
    wrong.map(|days| FieldError::invalid(path, &json!(days), &why))
}

fn parent(name: &str, parent: &str, path: &Path) -> FieldErrors {
    if parent == name {
        return vec![FieldError::invalid(path, &json!(parent), "ancestor projects formed a circle")];
    }
    by_rule(parent, name::dns1123_label, path)
}

/// Validates that immutable fields of a project's spec are not changed. (The server overwrites the tenant of a caller
/// who has one, so only others can try to change it.)
pub fn project_immutable_fields(old: &ProjectSpec, new: &ProjectSpec) -> FieldErrors {
    immutable([("tenantID", &old.tenant_id, &new.tenant_id)], "disallowed change the tenant")
}

/// Validates a new namespace, independent of other objects. `forbidden` are the names that no namespace may claim.
pub fn namespace(spec: &NamespaceSpec, forbidden: &[String]) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = tenant_id(&spec.tenant_id, &path.child("tenantID"));
    let at = path.child("clusterName");
    if spec.cluster_name.is_empty() {
        errors.push(FieldError::required(&at, "must specify a cluster"));
    } else {
        errors.extend(cluster_name(&spec.cluster_name, &at));
    }
    errors.extend(hard(None, spec));
    let at = path.child("namespace");
    if spec.namespace.is_empty() {
        errors.push(FieldError::required(&at, "must specify the name of the namespace in the cluster"));
    } else if names::is_forbidden(&spec.namespace, forbidden) {
        errors.push(FieldError::invalid(&at, &json!(spec.namespace), "the namespace is forbidden to use"));
    } else {
        errors.extend(by_rule(&spec.namespace, name::dns1123_label, &at));
    }
    errors
}

/// Validates a changed namespace. Its names are immutable, so they are not checked against the forbidden names again.
pub fn namespace_update(old: &NamespaceSpec, new: &NamespaceSpec) -> FieldErrors {
    let fields = [
        ("clusterName", &old.cluster_name, &new.cluster_name),
        ("namespace", &old.namespace, &new.namespace),
        ("tenantID", &old.tenant_id, &new.tenant_id),
    ];
    let mut errors = immutable(fields, "field is immutable");
    errors.extend(hard(Some(old), new));
    errors
}

/// Validates the amounts, which are written to the cluster unchanged. An amount that clusters do not accept is not
/// refused if it is stored already, so that it does not block other changes.
fn hard(old: Option<&NamespaceSpec>, new: &NamespaceSpec) -> FieldErrors {
    let path = Path::new("spec").child("hard");
    let at = |resource: &str| path.key(resource);
    let mut errors = amounts(&new.hard, at);
    for (resource, amount) in new.hard.iter().take(RESOURCES_MAX) {
        let before = old.and_then(|old| old.hard.get(resource));
        let is_stored = before.is_some_and(|before| before == amount && before.format() == amount.format());
        if !is_stored {
            errors.extend(resources::check_thousandths(resource, *amount, &at(resource)));
        }
    }
    errors
}

pub(crate) fn immutable<const N: usize>(fields: [(&str, &String, &String); N], detail: &str) -> FieldErrors {
    fields
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(name, _, new)| FieldError::invalid(&Path::new("spec").child(name), &json!(new), detail))
        .collect()
}

/// Validates a new status of a project. Amounts are not compared with the spec, because a status is only a report. It
/// may have as many resources as all children have together.
pub fn project_status(object: &Object, status: &ProjectStatus) -> FieldErrors {
    let path = Path::new("status");
    let mut errors = phase(object, &ProjectPhase::NAMES);
    for (cluster, used) in status.clusters.iter().filter(|(cluster, _)| *cluster != REGISTRY_DOMAIN) {
        let at = |resource: &str| path.child("used").key(&format!("{cluster}.{resource}"));
        errors.extend(each_amount(&used.used, at));
    }
    errors.extend(conditions(&status.conditions));
    errors
}

/// Validates a new status of a namespace. Amounts are not compared with the spec, because a status is only a report.
pub fn namespace_status(object: &Object, old: &NamespaceStatus, status: &NamespaceStatus) -> FieldErrors {
    use NamespacePhase::{Available, Locked};
    let path = Path::new("status");
    let mut errors = phase(object, &NamespacePhase::NAMES);
    if status.phase == Locked && !matches!(old.phase, Available | Locked) {
        errors.push(FieldError::invalid(
            &path.child("phase"),
            &json!(status.phase.as_str()),
            "only an Available namespace can be locked",
        ));
    }
    errors.extend(record(old, status, &path.child("clusterNamespace")));
    errors.extend(amounts(&status.used, |resource| path.child("used").key(resource)));
    errors.extend(conditions(&status.conditions));
    errors
}

fn record(old: &NamespaceStatus, status: &NamespaceStatus, path: &Path) -> Option<FieldError> {
    if status.is_imported() {
        let why = "only an import writes \"Imported\"";
        return (old.cluster_namespace != status.cluster_namespace)
            .then(|| FieldError::forbidden(&path.child("provenance"), why));
    }
    let record = status.cluster_namespace.as_ref()?;
    record.uid.is_empty().then(|| FieldError::required(&path.child("uid"), ""))
}

/// Validates a status of a namespace that cannot be decoded.
pub fn unreadable_namespace_status(object: &Object) -> FieldErrors {
    let mut errors = phase(object, &NamespacePhase::NAMES);
    let record = ["status", "clusterNamespace", "provenance"];
    let provenance = object.text(&record);
    if object.get(&record).is_some() && !Provenance::NAMES.contains(&provenance) {
        let path = Path::new("status").child("clusterNamespace").child("provenance");
        errors.push(FieldError::not_supported(&path, &json!(provenance), &Provenance::NAMES));
    }
    errors
}

/// Validates the phase in the raw object, before the status is decoded.
pub fn phase(object: &Object, names: &[&str]) -> FieldErrors {
    let path = Path::new("status").child("phase");
    match object.text(&["status", "phase"]) {
        "" => vec![FieldError::required(&path, "must specify a phase")],
        known if names.contains(&known) => FieldErrors::new(),
        other => vec![FieldError::not_supported(&path, &json!(other), names)],
    }
}

pub(crate) fn conditions(conditions: &[Condition]) -> FieldErrors {
    let path = Path::new("status").child("conditions");
    let mut errors = FieldErrors::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        if condition.type_.is_empty() {
            errors.push(FieldError::required(&at.child("type"), ""));
        }
        if conditions.iter().take(index).any(|other| other.type_ == condition.type_) {
            errors.push(FieldError::duplicate(&at.child("type"), &json!(condition.type_)));
        }
        let values = [condition::TRUE, condition::FALSE, condition::UNKNOWN];
        if !values.contains(&condition.status.as_str()) {
            errors.push(FieldError::not_supported(&at.child("status"), &json!(condition.status), &values));
        }
    }
    errors
}

/// The maximum number of resources of a list. Each is a row of the ledger, and of each batch in which it is written.
pub const RESOURCES_MAX: usize = 256;

pub(crate) fn amounts(list: &ResourceList, path: impl Fn(&str) -> Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(resource) = list.keys().nth(RESOURCES_MAX) {
        errors.push(FieldError::too_many(&path(resource), list.len(), RESOURCES_MAX));
        return errors;
    }
    errors.extend(each_amount(list, path));
    errors
}

/// Validates each amount of a list, whatever their number.
fn each_amount(list: &ResourceList, path: impl Fn(&str) -> Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (resource, amount) in list {
        let at = path(resource);
        errors.extend(resources::check_name(resource, &at));
        errors.extend(resources::check_amount(resource, *amount, &at));
    }
    errors
}

#[cfg(test)]
mod tests;
