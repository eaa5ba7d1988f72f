use crate::access::AccessRole;
use crate::subject::{Subject, SubjectKind, check_subject};
use crate::validation::{StoredNames, USERS_MAX, cluster_name};
use meta::field::{FieldError, FieldErrors, Path};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;

/// The role of a subject in a project and its descendants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessEntry {
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// The member cluster of a service account; empty for one of the host cluster. An account of a member cluster gets
    /// its role in that cluster only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The role.
    pub role: AccessRole,
}

/// Validates a list of entries.
pub(crate) fn check_access(stored: &StoredNames<'_>, entries: &[AccessEntry], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if entries.len() > USERS_MAX {
        errors.push(FieldError::too_many(path, entries.len(), USERS_MAX));
    }
    let mut seen = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let at = path.index(index);
        let AccessEntry { subject, cluster, role: _ } = entry;
        errors.extend(check_subject(stored, subject, &at));
        if !cluster.is_empty() {
            errors.extend(cluster_name(cluster, &at.child("cluster")));
            if subject.kind != SubjectKind::ServiceAccount {
                let why = "only a service account lives in a member cluster";
                errors.push(FieldError::forbidden(&at.child("cluster"), why));
            }
        }
        if !seen.insert((subject, cluster)) {
            errors.push(FieldError::duplicate(&at, &json!(subject.name)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(entries: serde_json::Value) -> Vec<String> {
        let entries: Vec<AccessEntry> = serde_json::from_value(entries).unwrap();
        check_access(&StoredNames::default(), &entries, &Path::new("spec").child("access"))
            .into_iter()
            .map(|error| error.field)
            .collect()
    }

    #[test]
    fn everybody_has_one_role_and_a_member_cluster_has_service_accounts_alone() {
        let good = json!([
            {"kind": "User", "name": "ann", "role": "admin"}, {"kind": "Group", "name": "devs", "role": "edit"},
            {"kind": "ServiceAccount", "name": "argocd", "namespace": "gitops", "role": "edit"},
            {"kind": "ServiceAccount", "name": "argocd", "namespace": "gitops", "cluster": "c1", "role": "view"},
        ]);
        assert_eq!(fields(good), [""; 0]);
        let twice = json!([{"kind": "User", "name": "a", "role": "edit"}, {"kind": "User", "name": "a", "role": "view"}]);
        assert_eq!(fields(twice), ["spec.access[1]"]);
        let nowhere = json!([{"kind": "User", "name": "a", "cluster": "c1", "role": "edit"}]);
        assert_eq!(fields(nowhere), ["spec.access[0].cluster"]);
    }

    #[test]
    fn nobody_is_named_with_white_space_around() {
        let named = |kind: &str, name: &str| fields(json!([{"kind": kind, "name": name, "role": "view"}]));
        assert_eq!(named("User", "Carol of Acme"), [""; 0]);
        for kind in ["User", "Group"] {
            for name in [" carol", "carol ", "\u{a0}carol", " "] {
                assert_eq!(named(kind, name), ["spec.access[0].name"], "{kind} {name:?}");
            }
        }
        let account =
            json!([{"kind": "ServiceAccount", "name": " argocd", "namespace": "gitops ", "role": "view"}]);
        assert_eq!(fields(account), ["spec.access[0].name", "spec.access[0].namespace"]);
    }

    #[test]
    fn nobody_is_named_so_that_he_looks_like_somebody_else() {
        let named = |kind: &str, name: &str| fields(json!([{"kind": kind, "name": name, "role": "view"}]));
        assert_eq!(named("User", "\u{5d0}\u{5d1}"), [""; 0], "letters that go from right to left");
        for turns in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'] {
            assert_eq!(named("User", &format!("ca{turns}rol")), ["spec.access[0].name"], "{turns:?}");
        }
    }

    #[test]
    fn a_member_of_old_goes_through_json_and_back() {
        let text = r#"{"kind":"User","name":"ann","role":"admin"}"#;
        let entry: AccessEntry = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
    }
}
