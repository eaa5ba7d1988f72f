use super::{NamespacePhase, Provenance, pull_credential};
use crate::validation::TENANT_ID_BYTES_MAX;
use meta::schema::{ListType, Schema, StringFormat, Type};
use serde_json::json;

/// The schema of a Namespace.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.Namespace",
        "A namespace of a project: part of the project's quota, carved out for one namespace of one member cluster. It \
         becomes a core namespace with a ResourceQuota there. metadata.namespace is the project.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    Schema::object(
        "What the namespace is meant to be.",
        Some("io.tkestack.business.v1.NamespaceSpec"),
        [
            (
                "finalizers",
                Schema::strings(
                    "Tokens of those who still have to clean up before the namespace can go. Set to [namespace] on \
                     create; changed only through the subresource finalize.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "tenantID",
                Schema::string(
                    "The tenant that owns the namespace: at most 253 bytes. Forced to the tenant of the caller; \
                     immutable.",
                )
                .at_most(TENANT_ID_BYTES_MAX)
                .always(),
            ),
            (
                "clusterName",
                Schema::string("Name of the member cluster that the namespace lives in. Required; immutable.")
                    .required_always(),
            ),
            ("clusterType", Schema::string("Type of that cluster. Kept by the server.").always()),
            (
                "clusterVersion",
                Schema::string("Kubernetes version of that cluster. Kept by the server.").always(),
            ),
            (
                "clusterDisplayName",
                Schema::string("Name of that cluster for people. Kept by the server.").always(),
            ),
            (
                "namespace",
                Schema::string(
                    "Name of the core namespace in the member cluster. Required; immutable. No two objects share one.",
                )
                .required_always(),
            ),
            (
                "hard",
                Schema::resource_list(
                    "What the namespace may use, by resource name, such as requests.cpu (in cores), requests.memory \
                     (in bytes) or pods (a count), each as a quantity: 500m, 4, 16Gi. Every resource that the project \
                     limits on this cluster must be listed. Copied to the ResourceQuota in the cluster.",
                )
                .optional(),
            ),
        ],
    )
}

fn status() -> Schema {
    Schema::object(
        "Where the namespace is. Written by the controller.",
        Some("io.tkestack.business.v1.NamespaceStatus"),
        [
            (
                "phase",
                Schema::one_of(
                    "Where in its life the namespace is: Pending, Available, Locked, Failed or Terminating. Failed is \
                     retried.",
                    &NamespacePhase::NAMES,
                )
                .with_default(json!("Pending"))
                .always(),
            ),
            ("lastTransitionTime", Schema::time("When phase last changed, in UTC, whole seconds.").optional()),
            ("reason", Schema::string("Why the namespace is in its phase, as one word in camel case.").optional()),
            ("message", Schema::string("Details of the phase for a person.").optional()),
            (
                "resourceQuotaName",
                Schema::string("Name of the ResourceQuota in the member cluster that enforces spec.hard.").optional(),
            ),
            ("clusterNamespace", cluster_namespace().optional()),
            ("template", template().optional()),
            ("pullCredential", pull_credential::status_schema().optional()),
            (
                "used",
                Schema::resource_list(
                    "What is consumed in the member cluster, by resource name in the units of spec.hard: a copy of \
                     the ResourceQuota's status.used.",
                )
                .optional(),
            ),
            (
                "cachedSpecHard",
                Schema::resource_list(
                    "What is charged to the project, by resource name in the units of spec.hard: the highest that was \
                     granted since the cluster last confirmed less. Kept by the server; lowered only by a confirmation.",
                )
                .optional(),
            ),
            (
                "observedGeneration",
                Schema::integer("metadata.generation that the status was computed from, as a count.").optional(),
            ),
            (
                "conditions",
                Schema::conditions(
                    "Aspects of the namespace's state: Ready, Provisioned, QuotaEnforced, ClusterReachable, \
                     AccessReady, OtherAccess, TemplateApplied, Terminating (the message says what remains), Replaced, Transferred (False while the \
                     marks in the cluster may still be those of the project before).",
                )
                .optional(),
            ),
            ("certificate", certificate().optional()),
        ],
    )
}

fn certificate() -> Schema {
    Schema::object(
        "A certificate for the caller, and where it is good. Only in answers of the subresource certificate; never stored.",
        Some("io.tkestack.business.v1.NamespaceCert"),
        [
            ("certPem", bytes("The certificate, PEM.").optional()),
            ("keyPem", bytes("Its private key, PKCS #8 as PEM.").optional()),
            ("caCertPem", bytes("The authorities that vouch for the cluster's API server, PEM.").optional()),
            ("apiServer", Schema::string("The URL of the cluster's API server.").optional()),
        ],
    )
}

fn bytes(description: &'static str) -> Schema {
    Schema::new(description, Type::String(StringFormat::Bytes))
}

fn template() -> Schema {
    Schema::object(
        "The template whose state was last put into the namespace; the condition TemplateApplied says how that went.",
        Some("io.tkestack.business.v1.AppliedTemplate"),
        [
            ("name", Schema::string("The template's metadata.name.").required()),
            ("digest", Schema::string("What the template put into namespaces then, as a digest.").required()),
        ],
    )
}

fn cluster_namespace() -> Schema {
    Schema::object(
        "The namespace of the member cluster that this object was provided with, or that stands in its way. Kept by the \
         server, written through the subresource status only.",
        Some("io.tkestack.business.v1.ClusterNamespaceRecord"),
        [
            (
                "uid",
                Schema::string("The namespace's metadata.uid in the member cluster; empty while provenance is Imported.")
                    .required(),
            ),
            (
                "provenance",
                Schema::one_of(
                    "How it came to be there: Made for this object, Adopted with consent, Released at the object's end, \
                     Foreign: it is somebody else's, or Imported: the object was imported, and the namespace that bears its \
                     labels is taken over at the first sight. Only an import writes Imported.",
                    &Provenance::NAMES,
                )
                .required(),
            ),
        ],
    )
}
