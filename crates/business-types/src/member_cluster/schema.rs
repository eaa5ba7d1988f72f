use super::ClusterIdentity;
use meta::schema::{Field, ListType, Schema};

/// The schema of a `MemberCluster`.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.MemberCluster",
        "A member cluster: who may use it, how much of it may be granted, and what is seen of it. Its name is the \
         cluster's. The controller makes one for each cluster that its directory lists.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    let mut fields = description();
    fields.extend(limits());
    Schema::object(
        "What the cluster is to its tenants. Written by operators; what they do not change follows the directory.",
        Some("io.tkestack.business.v1.MemberClusterSpec"),
        fields,
    )
}

fn description() -> Vec<(&'static str, Field)> {
    vec![
        ("displayName", Schema::string("Name for people.").optional()),
        ("type", Schema::string("Its type, such as Imported.").optional()),
        (
            "tenants",
            Schema::strings(
                "The tenants that may use it, by ID; * is every tenant. Where it is empty operators alone may.",
                ListType::Atomic,
            )
            .optional(),
        ),
        (
            "endpoint",
            Schema::object(
                "Where people reach the cluster. Every certificate and kubeconfig that is handed out names it; \
                 without it, what the controller is told with its credentials, and else none is handed out.",
                None,
                [
                    ("server", Schema::string("A URL, such as https://acme.example:6443.").required()),
                    (
                        "caBundle",
                        Schema::string(
                            "The authorities that vouch for it, certificates in PEM. Without them those of the \
                             system do.",
                        )
                        .optional(),
                    ),
                ],
            )
            .optional(),
        ),
        (
            "credentials",
            Schema::object(
                "Where the controller has the cluster's credentials from.",
                None,
                [("secretName", Schema::string("A Secret in the namespace of member clusters' Secrets.").required())],
            )
            .optional(),
        ),
    ]
}

fn limits() -> Vec<(&'static str, Field)> {
    vec![
        (
            "hard",
            Schema::resource_list(
                "What may be granted of it to tenants in all, by resource, such as requests.cpu (in cores). A \
                 resource that is not listed is unlimited; one that is listed is named by every tenant with a \
                 ceiling there.",
            )
            .optional(),
        ),
        ("derived", derived().optional()),
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
        (
            "cordoned",
            Schema::boolean(
                "Whether nothing new comes to the cluster and nothing in it grows. Shrinking and deleting go on.",
            )
            .optional(),
        ),
        (
            "finalizers",
            Schema::strings("Who waits for its end. The controller takes out its own.", ListType::Atomic).optional(),
        ),
    ]
}

fn derived() -> Schema {
    let amount = Schema::object(
        "How one amount is derived: what ready, schedulable nodes have of the resource, less what pods outside the \
         platform's namespaces request of it there, times the factor, at most max, rounded down.",
        None,
        [
            ("resource", Schema::string("A resource of nodes, such as cpu, memory or pods.").required()),
            (
                "factor",
                Schema::quantity(
                    "How much is granted of one unit, as a number: 1.5 grants half more. Default 1.",
                )
                .optional(),
            ),
            (
                "max",
                Schema::quantity("The most that may be granted, in the quota resource's unit.").optional(),
            ),
        ],
    );
    Schema::object(
        "What may be granted of it to tenants in all, as far as that follows from its nodes. The controller keeps \
         status.capacity so. Until it has, nothing new is granted of these resources. An amount that falls below what \
         is granted takes nothing away: nothing grows until it fits again.",
        None,
        [(
            "resources",
            Schema::map("By resource, such as requests.cpu. One that is here is not in hard.", amount)
                .optional(),
        )],
    )
}

fn status() -> Schema {
    Schema::object(
        "What is seen of the cluster. Written by the controller.",
        Some("io.tkestack.business.v1.MemberClusterStatus"),
        [
            (
                "uid",
                Schema::string(
                    "The cluster that the name stands for: the uid of its namespace kube-system. Once it is known it \
                     stays; another cluster behind the name counts as no answer.",
                )
                .optional(),
            ),
            ("version", Schema::string("Its Kubernetes version.").optional()),
            (
                "allocatable",
                Schema::resource_list(
                    "What its ready, schedulable nodes have for pods, by resource of nodes; only where something is \
                     derived from it.",
                )
                .optional(),
            ),
            (
                "capacity",
                Schema::resource_list(
                    "What may be granted as derived from its nodes, by resource. Written through the subresource \
                     capacity.",
                )
                .optional(),
            ),
            (
                "granted",
                Schema::resource_list(
                    "What tenants hold of it: their ceilings, or what their root projects have where there is none \
                     or more.",
                )
                .optional(),
            ),
            ("consumed", Schema::resource_list("What namespaces use in it.").optional()),
            ("namespaces", Schema::integer("The namespaces that live in it, as a count.").optional()),
            (
                "lease",
                Schema::string(
                    "The Lease, in the namespace of the platform, whose holder works on it: a replica of the controller.",
                )
                .optional(),
            ),
            ("comparison", comparison().optional()),
            ("credential", credential().optional()),
            (
                "observedGeneration",
                Schema::integer("metadata.generation that the status was computed from, as a count.").optional(),
            ),
            (
                "conditions",
                Schema::conditions(
                    "Aspects of its state: Registered, Reachable, Ready (both of them), Bounded (every tenant with root \
                     projects there has a ceiling there), CapacityDerived (what is derived follows its nodes), CredentialsValid (the \
                     newest credentials are in use, and do not end soon) and, while it is being deleted, Terminating.",
                )
                .optional(),
            ),
        ],
    )
}

fn credential() -> Schema {
    Schema::object(
        "The credential that the controller uses there, where it is a token of a service account or a certificate.",
        None,
        [
            (
                "fingerprint",
                Schema::string("sha256: and the digest of the token, or of the certificate.").optional(),
            ),
            ("expires", Schema::string("When it ends, RFC 3339; absent where it does not.").optional()),
            ("since", Schema::string("Since when it is used, RFC 3339.").optional()),
        ],
    )
}

fn comparison() -> Schema {
    let stranger = Schema::object(
        "A namespace of the cluster with our marks and without our seal.",
        None,
        [
            ("clusterName", Schema::string("The cluster.").optional()),
            ("namespace", Schema::string("The namespace's name there.").optional()),
            ("uid", Schema::string("The namespace's uid there.").optional()),
            ("project", Schema::string("The project that its label names.").optional()),
            ("hard", Schema::resource_list("What it may take, as far as a quota there says.").optional()),
        ],
    );
    Schema::object(
        "How far the cluster was compared with the objects.",
        None,
        [
            (
                "revision",
                Schema::integer(
                    "The revision of the objects that it was last compared with; 0 if it was not.",
                )
                .optional(),
            ),
            ("missing", Schema::string("Why it was not compared the last time.").optional()),
            ("time", Schema::string("When that was found, RFC 3339.").optional()),
            (
                "unreported",
                Schema::integer(
                    "Namespaces without an object that stand in no project's status, as a count.",
                )
                .optional(),
            ),
            ("homeless", Schema::integer("Of these, the ones whose project does not exist.").optional()),
            (
                "strange",
                Schema::integer("Namespaces with our marks and without our seal, as a count.").optional(),
            ),
            ("strangers", Schema::list("Some of them.", ListType::Atomic, stranger).optional()),
            (
                "activeKey",
                Schema::string("The id of the key that seals in it were made with from then on.").optional(),
            ),
            (
                "keys",
                Schema::list(
                    "Ids of the keys that its seals bore.",
                    ListType::Atomic,
                    Schema::string("An id."),
                )
                .optional(),
            ),
        ],
    )
}
