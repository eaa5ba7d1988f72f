use meta::schema::{ListType, Schema};
use serde_json::json;

/// The shape of a `MemberCluster`, as `kubectl explain` shows it.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.MemberCluster",
        "A member cluster: who may use it, and how much of it may be granted. The controller registers each cluster that \
         it knows.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    Schema::object(
        "What the cluster is meant to be to the tenants. Written by operators.",
        Some("io.tkestack.business.v1.MemberClusterSpec"),
        [
            ("displayName", Schema::string("Name for people.").optional()),
            ("type", Schema::string("Its type, such as Imported.").optional()),
            (
                "tenants",
                Schema::strings("IDs of the tenants that may use it; * is every one.", ListType::Set)
                    .with_default(json!([]))
                    .always(),
            ),
            (
                "hard",
                Schema::resource_list(
                    "What may be granted of it to tenants in all, by resource, such as requests.cpu (in cores). A \
                     resource that is not listed is unlimited; one that is listed is named by every tenant with a \
                     ceiling there.",
                )
                .optional(),
            ),
            (
                "cordoned",
                Schema::boolean(
                    "True if it takes nothing new and nothing there may grow. Less, and deletion, go on.",
                )
                .optional(),
            ),
        ],
    )
}

fn status() -> Schema {
    Schema::object(
        "What is seen of the cluster. Written by the controller.",
        Some("io.tkestack.business.v1.MemberClusterStatus"),
        [
            ("version", Schema::string("Its Kubernetes version, such as v1.36.0.").optional()),
            ("uid", Schema::string("The uid of its namespace kube-system: which cluster it is.").optional()),
            ("granted", Schema::resource_list("What tenants are granted of it in all, by resource.").optional()),
            ("namespaces", Schema::integer("Business namespaces there, as a count.").optional()),
            (
                "observedGeneration",
                Schema::integer("metadata.generation that the status was computed from, as a count.").optional(),
            ),
            (
                "conditions",
                Schema::conditions(
                    "Aspects of its state: Ready, Registered, Reachable, and Bounded (whether every tenant with root \
                     projects there has a ceiling there; the message names those who have none).",
                )
                .optional(),
            ),
        ],
    )
}
