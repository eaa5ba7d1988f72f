use super::ClusterIdentity;
use meta::schema::Schema;

/// The shape of a `MemberCluster`, as `kubectl explain` shows it.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.MemberCluster",
        "How much of a member cluster may be granted to tenants. Its name is the cluster's.",
        [("spec", spec().optional())],
    )
}

fn spec() -> Schema {
    Schema::object(
        "What tenants may have of the cluster. Written by operators.",
        Some("io.tkestack.business.v1.MemberClusterSpec"),
        [
            ("displayName", Schema::string("Name for people.").optional()),
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
                "identity",
                Schema::one_of(
                    "By which names the cluster's API server knows people: Certificates (those of the certificates that \
                     are issued here) or Shared (also those of the host cluster, whose issuers it trusts). Bindings there \
                     name people accordingly.",
                    &ClusterIdentity::NAMES,
                )
                .optional(),
            ),
        ],
    )
}
