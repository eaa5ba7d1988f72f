use super::PlatformSpec;
use crate::validation::{StoredNames, immutable, printable, users};
use meta::field::{FieldErrors, Path};

/// Validates a new platform's spec.
pub fn platform(spec: &PlatformSpec) -> FieldErrors {
    validate_platform(&StoredNames::default(), spec)
}

fn validate_platform(stored: &StoredNames<'_>, spec: &PlatformSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = printable(&spec.tenant_id, &path.child("tenantID"));
    errors.extend(users(stored, &spec.administrators, &path.child("administrators")));
    errors
}

/// Validates a platform's changed spec. Names of users that are stored already are not validated again. (The server
/// overwrites the tenant of a caller who has one, so only others can try to change it.)
pub fn platform_update(old: &PlatformSpec, new: &PlatformSpec) -> FieldErrors {
    let mut errors = immutable([("tenantID", &old.tenant_id, &new.tenant_id)], "field is immutable");
    if new != old {
        let stored = old.administrators.iter().map(String::as_str).collect();
        errors.extend(validate_platform(&stored, new));
    }
    errors
}
