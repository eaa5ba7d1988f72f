use crate::validation::TENANT_ID_BYTES_MAX;
use meta::schema::{ListType, Schema};

/// The schema of a Platform.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.Platform",
        "The administrators of a tenant.",
        [("spec", spec().always())],
    )
}

fn spec() -> Schema {
    // The list is atomic: a new list replaces the old one, so that users who are left out are removed.
    let administrators = Schema::strings(
        "User names that rule the tenant: they see all that is its, make its projects and say who their members are. \
         Changed by administrators of the tenant.",
        ListType::Atomic,
    );
    Schema::object(
        "Whose administrators they are, and who.",
        Some("io.tkestack.business.v1.PlatformSpec"),
        [
            (
                "tenantID",
                Schema::string(
                    "The tenant: at most 253 bytes. Immutable; a tenant has one platform beside platform-default.",
                )
                .at_most(TENANT_ID_BYTES_MAX)
                .always(),
            ),
            ("administrators", administrators.always()),
        ],
    )
}
