use super::{
    ManifestName, REGISTRY_KEYS, RegistryBackend, RegistryPhase, RegistryProvenance, RegistrySpec,
    RegistryStatus, STORAGE, UNTAGGED_MAX,
};
use crate::resources;
use crate::validation::{amounts, conditions, display_name, immutable, phase};
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::quantity::{Quantity, ResourceList};
use serde_json::json;

/// The maximum number of bytes of a tenant's ID as the first part of a repository's name. Registries accept names of
/// 255 bytes.
pub(super) const TENANT_BYTES_MAX: usize = 128;

/// Validates a new image namespace or chart group, independent of other objects.
pub fn object(spec: &RegistrySpec) -> FieldErrors {
    let mut errors = tenant(&spec.tenant_id, &Path::new("spec").child("tenantID"));
    errors.extend(mutable_fields(spec));
    errors
}

/// Validates a changed image namespace or chart group. `name` is its `metadata.name`.
pub fn object_update(name: &str, old: &RegistrySpec, new: &RegistrySpec) -> FieldErrors {
    let tenants = [("tenantID", &old.tenant_id, &new.tenant_id)];
    let mut errors = immutable(tenants, "disallowed change the tenant");
    if new.name != old.name && new.name != name {
        errors.extend(immutable([("name", &old.name, &new.name)], "field is immutable"));
    }
    errors.extend(mutable_fields(new));
    errors
}

fn mutable_fields(spec: &RegistrySpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = FieldErrors::new();
    errors.extend(display_name(&spec.display_name, &path.child("displayName")));
    for (key, amount) in &spec.hard {
        let at = path.child("hard").key(key);
        if key == STORAGE {
            errors.extend(check_whole(*amount, &at));
        } else {
            errors.push(FieldError::not_supported(&at, &json!(key), &[STORAGE]));
        }
    }
    errors
}

/// Validates the limits in the registry that lie at this path, of a project or a tenant.
pub fn limits(hard: &ResourceList, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, amount) in hard {
        let at = path.key(key);
        if REGISTRY_KEYS.contains(&key.as_str()) {
            errors.extend(check_whole(*amount, &at));
        } else {
            errors.push(FieldError::not_supported(&at, &json!(key), &REGISTRY_KEYS));
        }
    }
    errors
}

/// Checks that an amount of bytes or a count is a whole number.
fn check_whole(amount: Quantity, path: &Path) -> FieldErrors {
    let mut errors = resources::check_amount(STORAGE, amount, path);
    if !amount.is_integer() {
        errors.push(FieldError::invalid(path, &json!(amount.to_string()), "must be an integer"));
    }
    errors
}

/// Validates a tenant's ID, which is the first part of its repositories' names.
fn tenant(tenant: &str, path: &Path) -> FieldErrors {
    if tenant.is_empty() {
        return vec![FieldError::required(
            path,
            "repositories are named TENANT/NAME: it belongs to a tenant",
        )];
    }
    if tenant.len() > TENANT_BYTES_MAX || !is_repository_component(tenant) {
        let wrong = "a tenant with repositories has an ID of at most 128 lower case letters and digits, in parts that '.', \
                     '_', '__' or any number of '-' separate";
        return vec![FieldError::invalid(path, &json!(tenant), wrong)];
    }
    FieldErrors::new()
}

/// Whether a text matches `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`, as the OCI distribution specification requires.
pub fn is_repository_component(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = text.split(is_letter).filter(|separator| !separator.is_empty());
    let fits = |separator: &str| matches!(separator, "." | "_" | "__") || separator.chars().all(|c| c == '-');
    text.starts_with(is_letter) && text.ends_with(is_letter) && separators.into_iter().all(fits)
}

/// Validates a new status. Amounts are not compared with the spec, because a status is only a report.
pub fn object_status(object: &Object) -> FieldErrors {
    let path = Path::new("status");
    let mut errors = phase(object, &RegistryPhase::NAMES);
    let Ok(status) = RegistryStatus::of(object) else {
        let record = path.child("registry");
        let words = [("backend", RegistryBackend::NAMES), ("provenance", RegistryProvenance::NAMES)];
        for (field, known) in words {
            let value = object.text(&["status", "registry", field]);
            if !known.contains(&value) {
                errors.push(FieldError::not_supported(&record.child(field), &json!(value), &known));
            }
        }
        return errors;
    };
    errors.extend(amounts(&status.used, |resource| path.child("used").key(resource)));
    errors.extend(untagged(&status.untagged, &path.child("untagged")));
    errors.extend(conditions(&status.conditions));
    errors
}

fn untagged(names: &[String], path: &Path) -> FieldErrors {
    if names.len() > UNTAGGED_MAX {
        return vec![FieldError::too_many(path, names.len(), UNTAGGED_MAX)];
    }
    let wrong = |(at, name): (usize, &String)| {
        let expected = "a manifest is named REPOSITORY@DIGEST";
        name.parse::<ManifestName>()
            .is_err()
            .then(|| FieldError::invalid(&path.index(at), &json!(name), expected))
    };
    names.iter().enumerate().filter_map(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::REGISTRY_DOMAIN;

    fn spec(tenant: &str, hard: &[(&str, &str)]) -> RegistrySpec {
        let hard = hard.iter().map(|(key, text)| ((*key).to_owned(), text.parse().unwrap())).collect();
        RegistrySpec { tenant_id: tenant.to_owned(), hard, ..RegistrySpec::default() }
    }

    fn fields(errors: &FieldErrors) -> Vec<&str> {
        errors.iter().map(|error| error.field.as_str()).collect()
    }

    #[test]
    fn a_tenants_name_begins_its_repositories_names() {
        for good in ["acme", "t", "a-b", "a--b", "a.b", "a_b", "a__b", "7"] {
            assert_eq!(object(&spec(good, &[])), [], "{good}");
        }
        for bad in ["", "Acme", "a b", "-a", "a-", "a..b", "a___b", "a/b", "a._b", &"a".repeat(129)] {
            assert_eq!(fields(&object(&spec(bad, &[]))), ["spec.tenantID"], "{bad}");
        }
    }

    #[test]
    fn only_storage_is_limited_in_an_object_and_the_counts_in_a_project() {
        assert_eq!(object(&spec("t", &[("requests.storage", "5Gi")])), []);
        for (key, amount) in [("requests.storage", "-1"), ("requests.storage", "0.5"), ("pods", "1")] {
            assert_eq!(
                fields(&object(&spec("t", &[(key, amount)]))),
                [format!("spec.hard[{key}]")],
                "{amount}"
            );
        }
        let all = [("requests.storage", "5Gi"), ("imagenamespaces", "3"), ("chartgroups", "0")];
        let path = Path::new("spec").child("clusters").key(REGISTRY_DOMAIN).child("hard");
        assert_eq!(limits(&spec("", &all).hard, &path), []);
        for (key, amount) in [("imagenamespaces", "1.5"), ("chartgroups", "-1"), ("pods", "1")] {
            let errors = limits(&spec("", &[(key, amount)]).hard, &path);
            assert_eq!(fields(&errors), [format!("spec.clusters[registry].hard[{key}]")], "{amount}");
        }
    }

    #[test]
    fn the_name_in_the_registry_and_the_tenant_stay() {
        let named = |name: &str| RegistrySpec { name: name.to_owned(), ..spec("t", &[]) };
        assert_eq!(object_update("web", &named(""), &named("web")), [], "it is the name that it has");
        assert_eq!(fields(&object_update("web", &named("web"), &named("shop"))), ["spec.name"]);
        assert_eq!(fields(&object_update("web", &named("web"), &named(""))), ["spec.name"]);
        assert_eq!(
            fields(&object_update(
                "web",
                &named("web"),
                &RegistrySpec { name: "web".into(), ..spec("u", &[]) }
            )),
            ["spec.tenantID"]
        );
    }

    #[test]
    fn a_status_is_one_that_its_readers_know() {
        let wrong = |status: serde_json::Value| {
            let object = Object::new(json!({"status": status})).unwrap();
            object_status(&object).iter().map(|error| error.field.clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            wrong(json!({"phase": "Available", "registry": {"backend": "OCI", "provenance": "Made"}})),
            [""; 0]
        );
        assert_eq!(wrong(json!({"phase": "Sleeping"}))[0], "status.phase");
        assert_eq!(
            wrong(json!({"phase": "Locked", "registry": {"backend": "S3", "provenance": "Made"}})),
            ["status.registry.backend"]
        );
    }
}
