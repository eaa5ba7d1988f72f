use super::PlatformSpec;
use crate::validation::{StoredNames, immutable, tenant_id, users};
use meta::field::{FieldErrors, Path};

/// Validates a new platform's spec.
pub fn platform(spec: &PlatformSpec) -> FieldErrors {
    let mut errors = tenant_id(&spec.tenant_id, &Path::new("spec").child("tenantID"));
    errors.extend(validate_administrators(&StoredNames::default(), spec));
    errors
}

fn validate_administrators(stored: &StoredNames<'_>, spec: &PlatformSpec) -> FieldErrors {
    users(stored, &spec.administrators, &Path::new("spec").child("administrators"))
}

/// Validates a platform's changed spec. Names of users that are stored already are not validated again. (The server
/// overwrites the tenant of a caller who has one, so only others can try to change it.)
pub fn platform_update(old: &PlatformSpec, new: &PlatformSpec) -> FieldErrors {
    let mut errors = immutable([("tenantID", &old.tenant_id, &new.tenant_id)], "field is immutable");
    if new != old {
        let stored = old.administrators.iter().map(String::as_str).collect();
        errors.extend(validate_administrators(&stored, new));
    }
    errors
}
