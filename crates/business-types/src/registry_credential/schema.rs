use super::RobotAccess;
use crate::validation::TENANT_ID_BYTES_MAX;
use meta::schema::{ListType, Schema};

/// The schema of a `RegistryCredential`.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.RegistryCredential",
        "A name and a password for the registry, of a person or of a robot. metadata.namespace is the project. It is made \
         without a password: a POST to the subresource token issues one, and ends the one before.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    Schema::object(
        "Whose the credential is and what it opens.",
        Some("io.tkestack.business.v1.RegistryCredentialSpec"),
        [
            (
                "tenantID",
                Schema::string("The tenant that owns it. Forced to the tenant of the caller; immutable.")
                    .at_most(TENANT_ID_BYTES_MAX)
                    .always(),
            ),
            (
                "user",
                Schema::string(
                    "The user of the tenant who acts by it, with the rights that he has when he comes: as a member of \
                     projects. Absent for a robot. Immutable.",
                )
                .optional(),
            ),
            (
                "hostUser",
                Schema::boolean(
                    "Whether the user is known by this name without a tenant in his credential. Set by the server after who \
                     makes the object.",
                )
                .optional(),
            ),
            (
                "access",
                Schema::one_of(
                    "What a robot may do: Pull, or Push, which is both. Absent for a person.",
                    &RobotAccess::NAMES,
                )
                .optional(),
            ),
            (
                "names",
                Schema::strings(
                    "Names of the image namespaces and chart groups of the project that a robot may do it in; none for \
                     all of them. At most 100.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "validDays",
                Schema::integer(
                    "How long a password is good for, in days from its issue. By default 90; at most what the server is \
                     set to, 365 if nothing else is said.",
                )
                .optional(),
            ),
        ],
    )
}

fn status() -> Schema {
    Schema::object(
        "What is known of the password. Written by the server.",
        Some("io.tkestack.business.v1.RegistryCredentialStatus"),
        [
            ("username", Schema::string("The name that goes with the password.").optional()),
            (
                "passwordHash",
                Schema::string("The password's SHA-256 in hexadecimal digits; absent as long as there is none.")
                    .optional(),
            ),
            ("issuedAt", Schema::time("When the password was issued, in UTC, whole seconds.").optional()),
            ("expiresAt", Schema::time("When it ends, in UTC, whole seconds.").optional()),
            (
                "projectUID",
                Schema::string(
                    "The project's uid when it was issued: it opens nothing of another project of the same name.",
                )
                .optional(),
            ),
            ("lastUsed", Schema::time("The day on which it was last used, in UTC.").optional()),
        ],
    )
}

/// The schema of the response when a password is issued. The password is returned only then.
pub fn token_schema() -> Schema {
    let status = Schema::object(
        "What was issued.",
        Some("io.tkestack.business.v1.RegistryTokenStatus"),
        [
            ("username", Schema::string("The name to log in with.").required()),
            (
                "password",
                Schema::string("The password. It is told once and kept nowhere; empty in a dry run.")
                    .required(),
            ),
            ("expirationTimestamp", Schema::time("When it ends, in UTC, whole seconds.").required()),
        ],
    );
    Schema::kind(
        "io.tkestack.business.v1.RegistryToken",
        "A name and a password for the registry, just issued.",
        [("status", status.optional())],
    )
}
