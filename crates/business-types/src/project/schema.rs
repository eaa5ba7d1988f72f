use super::ProjectPhase;
use crate::access::AccessRole;
use crate::audit::OrphanState;
use crate::subject;
use crate::validation::TENANT_ID_BYTES_MAX;
use meta::schema::{ListType, Schema};
use serde_json::json;

/// The schema of a Project.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.Project",
        "A project of a tenant: a budget of hard quota by member cluster, from which child projects and namespaces \
         are carved out. Projects form a tree.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    Schema::object(
        "What the project is meant to be.",
        Some("io.tkestack.business.v1.ProjectSpec"),
        [
            (
                "finalizers",
                Schema::strings(
                    "Tokens of those who still have to clean up before the project can go. Set to [project] on create; \
                     changed only through the subresource finalize.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "tenantID",
                Schema::string(
                    "The tenant that owns the project: at most 253 bytes. Forced to the caller's own tenant when he has \
                     one; immutable.",
                )
                .at_most(TENANT_ID_BYTES_MAX)
                .always(),
            ),
            ("displayName", Schema::string("Name for people. Required.").required()),
            (
                "members",
                Schema::strings(
                    "User names with the role edit: as an entry of access for each.",
                    ListType::Set,
                )
                .with_default(json!([]))
                .always(),
            ),
            (
                "access",
                Schema::list(
                    "Who may do what in the project, in its namespaces, and in the projects below. Changed by \
                     administrators of the tenant and by those with the role admin.",
                    ListType::Atomic,
                    access_entry(),
                )
                .optional(),
            ),
            (
                "parentProjectName",
                Schema::string(
                    "Name of the project of the same tenant whose quota this one is carved out of. Empty for a root, \
                     whose quota is carved out of its tenant's ceilings; on a cluster without one, making a root, raising \
                     one, and detaching a child into one need the verb grant.",
                )
                .optional(),
            ),
            ("template", template().optional()),
            (
                "clusters",
                Schema::map(
                    "Hard quota by name of the member cluster. A cluster that is not listed cannot be used. At least \
                     what status.clusters says is given away. The name registry is not a cluster: it limits \
                     imagenamespaces and chartgroups (counts) and requests.storage (bytes) in the registry, which can \
                     be used without being listed.",
                    hard_quantity(),
                )
                .optional(),
            ),
        ],
    )
}

fn template() -> Schema {
    Schema::string(
        "Name of the NamespaceTemplate of the project's namespaces, and of those of the projects below that name none. \
         Empty: that of the project above, else the tenant's, else the default. Changed by whoever may change clusters.",
    )
}

pub(crate) fn access_entry() -> Schema {
    let [kind, name, namespace] = subject::fields();
    let cluster = Schema::string(
        "The member cluster of a service account that is not the host cluster's. It gets its role in that cluster alone.",
    );
    let role = Schema::one_of(
        "admin (access, projects below, namespaces, and admin in the clusters), edit (namespaces, and edit in the clusters) \
         or view (to look at all of it).",
        &AccessRole::WORDS,
    );
    Schema::object(
        "Somebody, and what he may do in a project and in those below it.",
        Some("io.tkestack.business.v1.AccessEntry"),
        [kind, name, namespace, ("cluster", cluster.optional()), ("role", role.required())],
    )
}

pub(crate) fn hard_quantity() -> Schema {
    Schema::object(
        "The hard quota on one member cluster.",
        Some("io.tkestack.business.v1.HardQuantity"),
        [(
            "hard",
            Schema::resource_list(
                "Hard limits by resource name, such as requests.cpu (in cores), requests.memory (in bytes) or pods (a \
                 count), each as a quantity: 500m, 4, 16Gi. A resource that is not listed is unlimited; one that is \
                 listed must be listed by every child that uses the cluster.",
            )
            .optional(),
        )],
    )
}

pub(crate) fn used_quantity() -> Schema {
    Schema::object(
        "What is given away on one member cluster.",
        Some("io.tkestack.business.v1.UsedQuantity"),
        [(
            "used",
            Schema::resource_list(
                "Amounts by resource name, in the units of spec.clusters: the sum of the charges of all direct child \
                 projects and namespaces. It is what was allocated, not what is consumed.",
            )
            .optional(),
        )],
    )
}

fn status() -> Schema {
    Schema::object(
        "Where the project is. Written by the controller.",
        Some("io.tkestack.business.v1.ProjectStatus"),
        [
            (
                "locked",
                Schema::boolean("True if an operator has locked the project: it takes no new child and no growth.")
                    .optional(),
            ),
            (
                "phase",
                Schema::one_of(
                    "Where in its life the project is: Pending, Active, Terminating or Failed. Failed is retried.",
                    &ProjectPhase::NAMES,
                )
                .with_default(json!("Pending"))
                .optional(),
            ),
            (
                "clusters",
                Schema::map("What is given away, by name of the member cluster.", used_quantity()).optional(),
            ),
            (
                "calculatedChildProjects",
                Schema::strings("Names of the direct child projects counted in clusters, sorted.", ListType::Atomic)
                    .optional(),
            ),
            (
                "calculatedNamespaces",
                Schema::strings("Names of the namespaces counted in clusters, sorted.", ListType::Atomic).optional(),
            ),
            (
                "cachedSpecClusters",
                Schema::map("The hard quota that the controller last acted on, by member cluster.", hard_quantity())
                    .optional(),
            ),
            ("cachedParent", Schema::string("Name of the parent that the controller last acted on.").optional()),
            ("lastTransitionTime", Schema::time("When phase last changed, in UTC, whole seconds.").optional()),
            ("reason", Schema::string("Why the project is in its phase, as one word in camel case.").optional()),
            ("message", Schema::string("Details of the phase for a person.").optional()),
            (
                "observedGeneration",
                Schema::integer("metadata.generation that the status was computed from, as a count.").optional(),
            ),
            (
                "conditions",
                Schema::conditions(
                    "Aspects of the project's state: Ready, Terminating (the message says what remains), \
                     QuotaConsistent.",
                )
                .optional(),
            ),
            (
                "orphans",
                Schema::list(
                    "Namespaces of member clusters that are marked as the project's and belong to no object, as the \
                     controller's last audit found them. What they may take is held against the project.",
                    ListType::Atomic,
                    orphan(),
                )
                .optional(),
            ),
            ("ledger", ledger().optional()),
        ],
    )
}

fn orphan() -> Schema {
    Schema::object(
        "A namespace of a member cluster that belongs to no object.",
        Some("io.tkestack.business.v1.Orphan"),
        [
            ("clusterName", Schema::string("Name of the member cluster.").always()),
            ("namespace", Schema::string("Name of the namespace in the cluster.").always()),
            ("uid", Schema::string("The namespace's uid in the cluster.").always()),
            (
                "state",
                Schema::one_of(
                    "Lost if it belongs to no object, Ahead if its object is charged less than it may take, Released if \
                     its object has released it and it is still in use, Unused if it is not in use any more.",
                    &OrphanState::NAMES,
                )
                .with_default(json!("Lost"))
                .always(),
            ),
            (
                "hard",
                Schema::resource_list("What it may take beyond what is charged for it, by resource.").optional(),
            ),
        ],
    )
}

fn ledger() -> Schema {
    Schema::object(
        "What the API server's audit of the quota ledger says. Absent when there is nothing to say.",
        Some("io.tkestack.business.v1.LedgerStatus"),
        [
            (
                "differences",
                Schema::strings(
                    "Differences between the ledger and the objects, one a line. business-api audit --repair sets \
                     them right.",
                    ListType::Atomic,
                )
                .optional(),
            ),
            (
                "held",
                Schema::list(
                    "Amounts that count against the project although no object stands for them.",
                    ListType::Atomic,
                    held(),
                )
                .optional(),
            ),
            (
                "writtenOff",
                Schema::strings(
                    "Uids of released namespaces of member clusters that nothing is held for any more.",
                    ListType::Atomic,
                )
                .optional(),
            ),
        ],
    )
}

fn held() -> Schema {
    Schema::object(
        "An amount that counts without an object until its namespace is gone or an operator writes it off.",
        Some("io.tkestack.business.v1.Held"),
        [
            ("uid", Schema::string("What names it for business-api audit --write-off.").always()),
            (
                "state",
                Schema::string(
                    "orphaned if the audit found it, abandoned if an operator gave its object up, released if its \
                     object went and its namespace, which was adopted, stays.",
                )
                .always(),
            ),
            ("clusterName", Schema::string("Name of the member cluster.").optional()),
            ("namespace", Schema::string("Name of the namespace in the cluster.").optional()),
            ("hard", Schema::resource_list("What counts, by resource.").optional()),
            ("reason", Schema::string("Why it counts.").always()),
        ],
    )
}
