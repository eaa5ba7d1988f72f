use super::validation::TENANT_BYTES_MAX;
use super::{RegistryBackend, RegistryPhase, RegistryProvenance};
use meta::schema::{ListType, Schema};
use serde_json::json;

/// The schema of the spec of a registry kind. `definition` is its name in `OpenAPI`.
pub fn spec_schema(definition: &'static str) -> Schema {
    Schema::object(
        "What is meant to be in the registry.",
        Some(definition),
        [
            (
                "finalizers",
                Schema::strings(
                    "Tokens of those who still have to clean up before it can go. Set to the kind's own on create; \
                     changed only through the subresource finalize.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "name",
                Schema::string(
                    "Its name in the registry, which becomes metadata.name; its repositories are TENANT/NAME/... \
                     Immutable. No two objects of a tenant share one.",
                )
                .always(),
            ),
            (
                "tenantID",
                Schema::string(
                    "The tenant that owns it: at most 128 bytes. Forced to the tenant of the caller; immutable.",
                )
                .at_most(TENANT_BYTES_MAX)
                .always(),
            ),
            ("displayName", Schema::string("Name for people.").optional()),
            (
                "hard",
                Schema::resource_list(
                    "What it may keep: requests.storage, in bytes, as a quantity: 500Mi, 20Gi. Needed where the project \
                     limits it in spec.clusters[registry]. When as much is kept, nothing more can be pushed.",
                )
                .optional(),
            ),
        ],
    )
}

/// The schema of the status of a registry kind. `definition` is its name in `OpenAPI`.
pub fn status_schema(definition: &'static str) -> Schema {
    Schema::object(
        "Where it is. Written by the controller.",
        Some(definition),
        [
            (
                "phase",
                Schema::one_of(
                    "Where in its life it is: Pending, Available, Locked (it can be read), Failed or Terminating. \
                     Failed is retried.",
                    &RegistryPhase::NAMES,
                )
                .with_default(json!("Pending"))
                .optional(),
            ),
            (
                "locked",
                Schema::boolean("True if an operator has locked it: nothing is pushed or deleted below it.").optional(),
            ),
            ("lastTransitionTime", Schema::time("When phase last changed, in UTC, whole seconds.").optional()),
            ("reason", Schema::string("Why it is in its phase, as one word in camel case.").optional()),
            ("message", Schema::string("Details of the phase for a person.").optional()),
            ("registry", record().optional()),
            (
                "used",
                Schema::resource_list(
                    "What is kept in the registry, as last measured: requests.storage in bytes, each blob counted once.",
                )
                .optional(),
            ),
            (
                "untagged",
                Schema::strings(
                    "Manifests that count, as REPOSITORY@DIGEST, as last measured: those without a tag, then others, at most 256.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "measuredChange",
                Schema::string("The mark of a change in the registry that the last measurement followed.").optional(),
            ),
            (
                "observedGeneration",
                Schema::integer("metadata.generation that the status was computed from, as a count.").optional(),
            ),
            (
                "conditions",
                Schema::conditions(
                    "Aspects of its state: Ready, Provisioned, RegistryReachable, WithinQuota, Terminating (the message \
                     says what remains).",
                )
                .optional(),
            ),
        ],
    )
}

fn record() -> Schema {
    Schema::object(
        "What of the registry is this object's, and is deleted with it. Kept by the server, written through the \
         subresource status only.",
        Some("io.tkestack.business.v1.RegistryRecord"),
        [
            (
                "backend",
                Schema::one_of("The sort of registry: TKE or OCI.", &RegistryBackend::NAMES).required(),
            ),
            (
                "provenance",
                Schema::one_of(
                    "How it came to be there: Made for this object, or Adopted with consent.",
                    &RegistryProvenance::NAMES,
                )
                .required(),
            ),
            ("uid", Schema::string("The uid of its object in TKE's registry.").optional()),
        ],
    )
}
