use super::{ProjectDefaults, TenantSpec, TenantStatus};
use crate::HardQuantity;
use crate::project::check_access;
use crate::registry::{self, REGISTRY_DOMAIN};
use crate::subject::{Subject, SubjectKind, check_subjects};
use crate::validation::{
    StoredNames, amounts, cluster_name, conditions, display_name, printable, template_name,
};
use meta::field::{FieldError, FieldErrors, Path};
use serde_json::json;
use std::collections::BTreeMap;

/// The maximum number of contacts of a tenant.
const CONTACTS_MAX: usize = 64;
/// The maximum number of bytes of a contact.
const CONTACT_BYTES_MAX: usize = 1024;
/// The maximum number of prefixes of a tenant.
const PREFIXES_MAX: usize = 64;
/// The maximum number of bytes of a prefix.
const PREFIX_BYTES_MAX: usize = 256;

/// Validates a new tenant's spec.
pub fn tenant(spec: &TenantSpec) -> FieldErrors {
    validate_tenant(&StoredNames::default(), spec)
}

/// Validates a tenant's changed spec. Names of subjects that are stored already are not validated again.
pub fn tenant_changed(before: &TenantSpec, spec: &TenantSpec) -> FieldErrors {
    if spec == before {
        return FieldErrors::new();
    }
    let listed = before.defaults.access.iter().map(|entry| &entry.subject);
    let stored = before.administrators.iter().chain(listed).flat_map(Subject::names).collect();
    validate_tenant(&stored, spec)
}

fn validate_tenant(stored: &StoredNames<'_>, spec: &TenantSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = FieldErrors::new();
    errors.extend(display_name(&spec.display_name, &path.child("displayName")));
    errors.extend(check_subjects(stored, &spec.administrators, &path.child("administrators")));
    errors.extend(quotas(&spec.clusters, &path.child("clusters")));
    errors.extend(contacts(&spec.contacts, &path.child("contacts")));
    errors.extend(template_name(&spec.template, &path.child("template")));
    errors.extend(prefixes(&spec.identity_prefixes, &path.child("identityPrefixes")));
    for (index, subject) in spec.administrators.iter().enumerate() {
        errors.extend(foreign_identity(spec, subject, &path.child("administrators").index(index)));
    }
    errors.extend(defaults(stored, spec, &path.child("defaults")));
    errors
}

fn quotas(clusters: &BTreeMap<String, HardQuantity>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (cluster, quota) in clusters {
        let at = path.key(cluster);
        if cluster == REGISTRY_DOMAIN {
            errors.extend(registry::limits(&quota.hard, &at.child("hard")));
            continue;
        }
        errors.extend(cluster_name(cluster, &at));
        errors.extend(amounts(&quota.hard, |resource| at.child("hard").key(resource)));
    }
    errors
}

fn prefixes(prefixes: &[String], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if prefixes.len() > PREFIXES_MAX {
        errors.push(FieldError::too_many(path, prefixes.len(), PREFIXES_MAX));
    }
    for (index, prefix) in prefixes.iter().enumerate() {
        let at = path.index(index);
        if prefix.is_empty() {
            errors.push(FieldError::required(&at, "every name begins with nothing"));
        }
        if prefix.len() > PREFIX_BYTES_MAX {
            errors.push(FieldError::too_long(&at, PREFIX_BYTES_MAX));
        }
        errors.extend(printable(prefix, &at));
    }
    errors
}

fn defaults(stored: &StoredNames<'_>, spec: &TenantSpec, path: &Path) -> FieldErrors {
    let ProjectDefaults { clusters, access } = &spec.defaults;
    let mut errors = quotas(clusters, &path.child("clusters"));
    errors.extend(check_access(stored, access, &path.child("access")));
    for (index, entry) in access.iter().enumerate() {
        errors.extend(foreign_identity(spec, &entry.subject, &path.child("access").index(index)));
    }
    errors
}

/// Validates the name of a subject in a tenant: that of a user or group must begin with one of the tenant's prefixes.
/// Service accounts belong to clusters, so they need no prefix.
pub fn foreign_identity(spec: &TenantSpec, subject: &Subject, path: &Path) -> Option<FieldError> {
    let prefixes = &spec.identity_prefixes;
    let is_foreign = subject.kind != SubjectKind::ServiceAccount
        && !prefixes.is_empty()
        && !prefixes.iter().any(|prefix| subject.name.starts_with(prefix.as_str()));
    let why = || format!("names of this tenant begin with {}", prefixes.join(" or "));
    is_foreign.then(|| FieldError::invalid(&path.child("name"), &json!(subject.name), &why()))
}

fn contacts(contacts: &[String], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if contacts.len() > CONTACTS_MAX {
        errors.push(FieldError::too_many(path, contacts.len(), CONTACTS_MAX));
    }
    for (index, contact) in contacts.iter().enumerate() {
        if contact.len() > CONTACT_BYTES_MAX {
            errors.push(FieldError::too_long(&path.index(index), CONTACT_BYTES_MAX));
        }
        errors.extend(printable(contact, &path.index(index)));
    }
    errors
}

/// Validates a new status. Amounts are not compared with the spec, because a status is only a report.
pub fn tenant_status(status: &TenantStatus) -> FieldErrors {
    conditions(&status.conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(spec: serde_json::Value) -> Vec<String> {
        let spec: TenantSpec = serde_json::from_value(spec).unwrap();
        tenant(&spec).into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_tenants_people_have_names_of_their_own() {
        let administrators = |all: serde_json::Value| fields(json!({ "administrators": all }));
        let good = json!([
            {"kind": "User", "name": "ann"}, {"kind": "Group", "name": "ops"},
            {"kind": "ServiceAccount", "name": "argocd", "namespace": "gitops"},
        ]);
        assert_eq!(administrators(good), [""; 0]);
        assert_eq!(administrators(json!([{"kind": "User", "name": ""}])), ["spec.administrators[0].name"]);
        let everybody = json!([{"kind": "Group", "name": "system:authenticated"}]);
        assert_eq!(administrators(everybody), ["spec.administrators[0].name"]);
        assert_eq!(
            administrators(json!([{"kind": "User", "name": "ann "}])),
            ["spec.administrators[0].name"]
        );
        let nowhere = json!([{"kind": "ServiceAccount", "name": "a"}]);
        assert_eq!(administrators(nowhere), ["spec.administrators[0].namespace"]);
        let twice = json!([{"kind": "User", "name": "a"}, {"kind": "User", "name": "a"}]);
        assert_eq!(administrators(twice), ["spec.administrators[1]"]);
    }

    #[test]
    fn whom_a_tenant_names_has_a_name_of_its_own() {
        let named = |name: &str| json!([{"kind": "User", "name": name}, {"kind": "ServiceAccount", "name": "a", "namespace": "n"}]);
        let of = |name: &str| {
            let access = json!([{"kind": "Group", "name": name, "role": "edit"}]);
            fields(json!({
                "identityPrefixes": ["acme:", "partner:"], "administrators": named(name), "defaults": {"access": access},
            }))
        };
        assert_eq!(of("acme:ann"), [""; 0]);
        assert_eq!(of("partner:ann"), [""; 0]);
        assert_eq!(of("globex:ann"), ["spec.administrators[0].name", "spec.defaults.access[0].name"]);
        assert_eq!(
            fields(json!({"identityPrefixes": ["", "a\nb"]})),
            ["spec.identityPrefixes[0]", "spec.identityPrefixes[1]"]
        );
    }

    #[test]
    fn defaults_are_amounts_and_people() {
        let defaults = |all: serde_json::Value| fields(json!({ "defaults": all }));
        assert_eq!(defaults(json!({"clusters": {"c1": {"hard": {"pods": "5"}}}})), [""; 0]);
        assert_eq!(defaults(json!({"clusters": {"c 1": {}}})), ["spec.defaults.clusters[c 1]"]);
        let nobody = json!({"access": [{"kind": "User", "name": "", "role": "view"}]});
        assert_eq!(defaults(nobody), ["spec.defaults.access[0].name"]);
    }

    #[test]
    fn wrong_limits_in_the_registry_are_named_where_they_are() {
        let clusters = json!({"registry": {"hard": {"pods": "1"}}});
        assert_eq!(fields(json!({"clusters": clusters})), ["spec.clusters[registry].hard[pods]"]);
        assert_eq!(
            fields(json!({"defaults": {"clusters": clusters}})),
            ["spec.defaults.clusters[registry].hard[pods]"]
        );
    }

    #[test]
    fn ceilings_are_amounts_of_clusters_or_the_registry() {
        let clusters = |all: serde_json::Value| fields(json!({ "clusters": all }));
        assert_eq!(
            clusters(
                json!({"c1": {"hard": {"pods": "5"}}, "registry": {"hard": {"requests.storage": "1Gi"}}})
            ),
            [""; 0]
        );
        assert_eq!(clusters(json!({"c1": {"hard": {"nonsense": "5"}}})).len(), 2);
        assert_eq!(clusters(json!({"c 1": {}})), ["spec.clusters[c 1]"]);
    }
}
