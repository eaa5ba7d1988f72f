use super::PlatformSpec;
use crate::validation::{immutable, printable, users};
use meta::field::{FieldErrors, Path};

/// What is wrong with a platform's spec.
pub fn platform(spec: &PlatformSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = printable(&spec.tenant_id, &path.child("tenantID"));
    errors.extend(users(&spec.administrators, &path.child("administrators")));
    errors
}

/// What may not change in a platform's spec. Only a caller without tenant can try to change the tenant.
pub fn platform_update(old: &PlatformSpec, new: &PlatformSpec) -> FieldErrors {
    immutable([("tenantID", &old.tenant_id, &new.tenant_id)], "field is immutable")
}
