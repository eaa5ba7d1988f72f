use super::EmigrationPhase;
use crate::validation::TENANT_ID_BYTES_MAX;
use meta::schema::Schema;
use serde_json::json;

/// The schema of an `NsEmigration`.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.NsEmigration",
        "Moves a namespace to another project of the same tenant, as the subresource namespaces/transfer does. \
         metadata.namespace is the project that it leaves.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    Schema::object(
        "What shall go where. Immutable.",
        Some("io.tkestack.business.v1.NsEmigrationSpec"),
        [
            (
                "tenantID",
                Schema::string("The tenant that owns both projects. Forced to the tenant of the caller.")
                    .at_most(TENANT_ID_BYTES_MAX)
                    .always(),
            ),
            (
                "namespace",
                Schema::string("Name of the Namespace that shall go. It names the emigration, too.")
                    .required_always(),
            ),
            ("nsShowName", Schema::string("Its name for people.").always()),
            ("destination", Schema::string("Name of the project that it goes to.").required_always()),
        ],
    )
}

fn status() -> Schema {
    Schema::object(
        "How far it is. Written by the controller.",
        Some("io.tkestack.business.v1.NsEmigrationStatus"),
        [
            (
                "phase",
                Schema::one_of(
                    "Pending, OldOneLocked, OldOneDetached, NewOneCreated, OldOneTerminating, Finished, or Failed. The \
                     namespace moves in one write, after OldOneDetached; a failed emigration has changed nothing.",
                    &EmigrationPhase::NAMES,
                )
                .with_default(json!("Pending"))
                .optional(),
            ),
            ("lastTransitionTime", Schema::time("When phase last changed, in UTC, whole seconds.").optional()),
            ("reason", Schema::string("Why it is in its phase, as one word in camel case.").optional()),
            ("message", Schema::string("Details of the phase for a person.").optional()),
            (
                "namespaceUID",
                Schema::string("metadata.uid of the Namespace that is meant. Kept by the server.").optional(),
            ),
            (
                "observedGeneration",
                Schema::integer("metadata.generation that the status was computed from, as a count.").optional(),
            ),
            (
                "conditions",
                Schema::conditions(
                    "Ready: True when it is Finished; before, and when it has Failed, its reason and message say why \
                     not.",
                )
                .optional(),
            ),
        ],
    )
}
