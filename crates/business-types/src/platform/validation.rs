use super::PlatformSpec;
use crate::validation::{KnownNames, immutable, printable, users};
use meta::field::{FieldErrors, Path};

/// What is wrong with a platform's spec.
pub fn platform(spec: &PlatformSpec) -> FieldErrors {
    platform_beside(&KnownNames::default(), spec)
}

fn platform_beside(known: &KnownNames<'_>, spec: &PlatformSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = printable(&spec.tenant_id, &path.child("tenantID"));
    errors.extend(users(known, &spec.administrators, &path.child("administrators")));
    errors
}

/// What is wrong with a platform's changed spec. What is stored already is not judged again. Only a caller without tenant
/// can try to change the tenant.
pub fn platform_update(old: &PlatformSpec, new: &PlatformSpec) -> FieldErrors {
    let mut errors = immutable([("tenantID", &old.tenant_id, &new.tenant_id)], "field is immutable");
    if new != old {
        let known = old.administrators.iter().map(String::as_str).collect();
        errors.extend(platform_beside(&known, new));
    }
    errors
}
