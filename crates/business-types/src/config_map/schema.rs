use meta::schema::{Schema, StringFormat, Type};

/// The schema of a ConfigMap.
pub fn schema() -> Schema {
    let bytes = Schema::new("", Type::String(StringFormat::Bytes));
    Schema::kind(
        "io.tkestack.business.v1.ConfigMap",
        "Texts and bytes under names, at cluster scope: the platform's own, or, with the label \
         business.tkestack.io/tenant, a tenant's.",
        [
            (
                "data",
                Schema::map(
                    "Texts by key. A key has letters, digits, '-', '_' and '.'. All values together, with those of \
                     binaryData, have at most 1 MiB.",
                    Schema::string(""),
                )
                .optional(),
            ),
            (
                "binaryData",
                Schema::map("Bytes by key, in base64. A key is here or in data, not in both.", bytes).optional(),
            ),
        ],
    )
}
