use crate::validation::{KnownNames, USERS_MAX, somebody};
use meta::field::{FieldError, FieldErrors, Path};
use meta::schema::Schema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;

/// Somebody, as the host cluster knows him.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// What he is.
    pub kind: SubjectKind,
    /// His name.
    #[serde(default)]
    pub name: String,
    /// The namespace of a service account; empty for everybody else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl Subject {
    /// His name, and the namespace of a service account.
    pub(crate) fn names(&self) -> [&str; 2] {
        [&self.name, &self.namespace]
    }
}

/// What somebody is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A user, by his name.
    #[default]
    User,
    /// The members of a group.
    Group,
    /// A service account of the host cluster.
    ServiceAccount,
}

impl SubjectKind {
    /// All of them, as they are written.
    pub const NAMES: [&'static str; 3] = ["User", "Group", "ServiceAccount"];
}

/// The shape of a subject.
pub(crate) fn schema() -> Schema {
    Schema::object(
        "Somebody, as the host cluster knows him.",
        Some("io.tkestack.business.v1.Subject"),
        fields(),
    )
}

/// The fields of a subject.
pub(crate) fn fields() -> [(&'static str, meta::schema::Field); 3] {
    [
        ("kind", Schema::one_of("User, Group or ServiceAccount.", &SubjectKind::NAMES).required()),
        ("name", Schema::string("The name of the user, group or service account.").required()),
        ("namespace", Schema::string("The namespace of a service account, and of nobody else.").optional()),
    ]
}

/// What is wrong with a list of subjects.
pub(crate) fn check_subjects(known: &KnownNames<'_>, subjects: &[Subject], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if subjects.len() > USERS_MAX {
        errors.push(FieldError::too_many(path, subjects.len(), USERS_MAX));
    }
    let mut seen = HashSet::new();
    for (index, subject) in subjects.iter().enumerate() {
        let at = path.index(index);
        errors.extend(check_subject(known, subject, &at));
        if !seen.insert(subject) {
            errors.push(FieldError::duplicate(&at, &json!(subject.name)));
        }
    }
    errors
}

/// What is wrong with a subject. Names that only Kubernetes gives do not tell who somebody is; a group of such a name
/// is nearly everybody.
pub(crate) fn check_subject(known: &KnownNames<'_>, subject: &Subject, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Subject { kind, name, namespace } = subject;
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "somebody has a name"));
    }
    errors.extend(somebody(known, name, &path.child("name")));
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
        _ => errors.extend(somebody(known, namespace, &path.child("namespace"))),
    }
    errors
}
