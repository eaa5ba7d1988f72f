use super::{TenantSpec, TenantStatus};
use crate::registry::{self, REGISTRY_DOMAIN};
use crate::subject::check_subjects;
use crate::validation::{
    DISPLAY_NAME_BYTES_MAX, amounts, cluster_name, conditions, printable, template_name,
};
use meta::field::{FieldError, FieldErrors, Path};

/// Contacts that a tenant may have.
const CONTACTS_MAX: usize = 64;
/// Bytes of one.
const CONTACT_BYTES_MAX: usize = 1024;

/// What is wrong with a tenant's spec.
pub fn tenant(spec: &TenantSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = FieldErrors::new();
    if spec.display_name.len() > DISPLAY_NAME_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("displayName"), DISPLAY_NAME_BYTES_MAX));
    }
    errors.extend(check_subjects(&spec.administrators, &path.child("administrators")));
    for (cluster, quota) in &spec.clusters {
        let at = path.child("clusters").key(cluster);
        if cluster == REGISTRY_DOMAIN {
            errors.extend(registry::limits(&quota.hard));
            continue;
        }
        errors.extend(cluster_name(cluster, &at));
        errors.extend(amounts(&quota.hard, |resource| at.child("hard").key(resource)));
    }
    errors.extend(contacts(&spec.contacts, &path.child("contacts")));
    errors.extend(template_name(&spec.template, &path.child("template")));
    errors
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

/// What is wrong with a written status. Amounts are not held against the spec: a status is a report.
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
        let nowhere = json!([{"kind": "ServiceAccount", "name": "a"}]);
        assert_eq!(administrators(nowhere), ["spec.administrators[0].namespace"]);
        let twice = json!([{"kind": "User", "name": "a"}, {"kind": "User", "name": "a"}]);
        assert_eq!(administrators(twice), ["spec.administrators[1]"]);
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
