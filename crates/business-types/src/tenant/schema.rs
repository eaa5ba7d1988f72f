use crate::project::{access_entry, hard_quantity, used_quantity};
use crate::subject;
use meta::schema::{ListType, Schema};

/// The schema of a Tenant.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.Tenant",
        "A tenant: who rules it, and how much of each member cluster its root projects may be granted in all. Its name \
         is the tenant's ID. Tenants are there without such an object, too, and then without ceilings.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    Schema::object(
        "What the tenant is meant to be. Written by operators.",
        Some("io.tkestack.business.v1.TenantSpec"),
        [
            ("displayName", Schema::string("Name for people.").optional()),
            (
                "administrators",
                Schema::list("Who rules the tenant.", ListType::Atomic, subject::schema()).optional(),
            ),
            (
                "clusters",
                Schema::map(
                    "Ceilings by name of the member cluster: what the tenant's root projects may be granted there in all. \
                     Below a ceiling the tenant's administrators make and raise root projects by themselves; on a \
                     cluster without one that needs the verb grant. A resource with a ceiling is named by every root \
                     project that uses the cluster. What exists above a new ceiling stays, and does not grow. The name \
                     registry limits the registry in the same way.",
                    hard_quantity(),
                )
                .optional(),
            ),
            (
                "contacts",
                Schema::strings("Whom to ask about the tenant: addresses, or whatever people use.", ListType::Atomic)
                    .optional(),
            ),
            (
                "template",
                Schema::string(
                    "Name of the NamespaceTemplate of the tenant's namespaces for which no project names one. Empty: the \
                     default.",
                )
                .optional(),
            ),
            (
                "identityPrefixes",
                Schema::strings(
                    "What the names of its users and groups begin with, such as \"acme:\": no others are made its \
                     administrators, or named in the access of its projects. Who is named already stays until he is \
                     taken away. Empty: whatever.",
                    ListType::Set,
                )
                .optional(),
            ),
            ("defaults", defaults().optional()),
        ],
    )
}

fn defaults() -> Schema {
    Schema::object(
        "What new root projects of the tenant begin with that do not say it themselves.",
        Some("io.tkestack.business.v1.ProjectDefaults"),
        [
            (
                "clusters",
                Schema::map(
                    "Their quota by name of the member cluster, where they name none.",
                    hard_quantity(),
                )
                .optional(),
            ),
            (
                "access",
                Schema::list("Their people, where they name none.", ListType::Atomic, access_entry())
                    .optional(),
            ),
        ],
    )
}

fn status() -> Schema {
    Schema::object(
        "Where the tenant is. Written by the controller.",
        Some("io.tkestack.business.v1.TenantStatus"),
        [
            (
                "clusters",
                Schema::map("What its root projects are granted, by member cluster.", used_quantity()).optional(),
            ),
            ("projects", Schema::integer("Its projects, at whatever depth, as a count.").optional()),
            ("namespaces", Schema::integer("The namespaces of its projects, as a count.").optional()),
            (
                "observedGeneration",
                Schema::integer("metadata.generation that the status was computed from, as a count.").optional(),
            ),
            (
                "conditions",
                Schema::conditions(
                    "Aspects of its state: Ready, and WithinCeilings (the message says what lies above a ceiling).",
                )
                .optional(),
            ),
        ],
    )
}
