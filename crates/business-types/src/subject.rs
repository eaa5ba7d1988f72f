use crate::validation::{StoredNames, USERS_MAX, identity_name};
use meta::field::{FieldError, FieldErrors, Path};
use meta::schema::Schema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;

/// A user, group or service account, by its name in the host cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// The kind of the subject.
    pub kind: SubjectKind,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The namespace of a service account; empty for other kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl Subject {
    /// Its name and its namespace.
    pub(crate) fn names(&self) -> [&str; 2] {
        [&self.name, &self.namespace]
    }
}

/// The kind of a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A user.
    #[default]
    User,
    /// The members of a group.
    Group,
    /// A service account of the host cluster.
    ServiceAccount,
}

impl SubjectKind {
    /// The names of all kinds.
    pub const NAMES: [&'static str; 3] = ["User", "Group", "ServiceAccount"];
}

/// The schema of a subject.
pub(crate) fn schema() -> Schema {
    Schema::object(
        "Somebody, as the host cluster knows him.",
        Some("io.tkestack.business.v1.Subject"),
        fields(),
    )
}

/// The schemas of a subject's fields.
pub(crate) fn fields() -> [(&'static str, meta::schema::Field); 3] {
    [
        ("kind", Schema::one_of("User, Group or ServiceAccount.", &SubjectKind::NAMES).required()),
        ("name", Schema::string("The name of the user, group or service account.").required()),
        ("namespace", Schema::string("The namespace of a service account, and of nobody else.").optional()),
    ]
}

/// Validates a list of subjects.
pub(crate) fn check_subjects(stored: &StoredNames<'_>, subjects: &[Subject], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if subjects.len() > USERS_MAX {
        errors.push(FieldError::too_many(path, subjects.len(), USERS_MAX));
    }
    let mut seen = HashSet::new();
    for (index, subject) in subjects.iter().enumerate() {
        let at = path.index(index);
        errors.extend(check_subject(stored, subject, &at));
        if !seen.insert(subject) {
            errors.push(FieldError::duplicate(&at, &json!(subject.name)));
        }
    }
    errors
}

/// Validates a subject. Names with the prefix of Kubernetes are refused: they do not identify a person, and such a
/// group may contain nearly everybody.
pub(crate) fn check_subject(stored: &StoredNames<'_>, subject: &Subject, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Subject { kind, name, namespace } = subject;
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "somebody has a name"));
    }
    errors.extend(identity_name(stored, name, &path.child("name")));
    if *kind != SubjectKind::ServiceAccount && name.starts_with("system:") {
        let why = "names with the prefix \"system:\" are Kubernetes' own";
        errors.push(FieldError::invalid(&path.child("name"), &json!(name), why));
    }
    match (kind, namespace.is_empty()) {
        (SubjectKind::ServiceAccount, true) => {
            errors.push(FieldError::required(&path.child("namespace"), "a service account has a namespace"));
        }
        (SubjectKind::User | SubjectKind::Group, false) => {
            let why = "only a service account has a namespace";
            errors.push(FieldError::forbidden(&path.child("namespace"), why));
        }
        _ => errors.extend(identity_name(stored, namespace, &path.child("namespace"))),
    }
    errors
}
