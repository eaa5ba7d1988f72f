use super::{LimitRangeItem, ROLLOUT_BATCH, network};
use crate::subject;
use meta::schema::{ListType, Schema};
use serde_json::json;

/// The schema of a `NamespaceTemplate`.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.NamespaceTemplate",
        "What is put into namespaces of member clusters beside their quota. A namespace has the template that its project \
         names, else the nearest project above it, else its tenant, else the default.",
        [("spec", spec().optional()), ("status", status().optional())],
    )
}

fn spec() -> Schema {
    let value = || Schema::string("The value.");
    let path = || {
        Schema::string(
            "metadata.name, spec.displayName, spec.tenantID, metadata.labels['KEY'] or metadata.annotations['KEY'].",
        )
    };
    Schema::object(
        "What namespaces are given. Written by operators.",
        Some("io.tkestack.business.v1.NamespaceTemplateSpec"),
        [
            (
                "finalizers",
                Schema::strings(
                    "Tokens of those who still have to clean up before the template can go. Set to [namespacetemplate] on \
                     create: it stays while a namespace has it, or a project or tenant names it.",
                    ListType::Set,
                )
                .optional(),
            ),
            ("displayName", Schema::string("Name for people.").optional()),
            (
                "default",
                Schema::boolean("True for the one template of namespaces for which nobody names one.").optional(),
            ),
            (
                "labels",
                Schema::map("Labels of the namespace, such as pod-security.kubernetes.io/enforce.", value()).optional(),
            ),
            (
                "labelsFromProject",
                Schema::map("Labels whose values are fields of the project. Without a value there is no label.", path())
                    .optional(),
            ),
            ("annotations", Schema::map("Annotations of the namespace.", value()).optional()),
            (
                "annotationsFromProject",
                Schema::map("Annotations whose values are fields of the project.", path()).optional(),
            ),
            ("limitRange", limit_range().optional()),
            (
                "networkPolicies",
                Schema::list("NetworkPolicies of the namespace.", ListType::Map(&["name"]), network_policy()).optional(),
            ),
            (
                "roleBindings",
                Schema::list(
                    "RoleBindings of the namespace, beside those of the project's people.",
                    ListType::Map(&["name"]),
                    role_binding(),
                )
                .optional(),
            ),
            ("pullSecret", pull_secret().optional()),
            ("rollout", rollout().optional()),
        ],
    )
}

fn pull_secret() -> Schema {
    Schema::object(
        "A Secret of the namespace, business-registry, by which its pods pull from the platform's registry. Each namespace \
         has a credential of its own, which can pull and nothing else, is replaced while it is good, and ends with the \
         namespace.",
        Some("io.tkestack.business.v1.PullSecretTemplate"),
        [
            (
                "serviceAccounts",
                Schema::strings(
                    "Names of service accounts of the namespace, such as default: the Secret is put among their \
                     imagePullSecrets, as soon as they are there. At most 32.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "names",
                Schema::strings(
                    "Names of the image namespaces and chart groups that it opens, of the namespace's project and of those \
                     below it; none for all of these. At most 100.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "validDays",
                Schema::integer(
                    "How long a password is good for, in days from its issue; it is replaced after half of that or a little \
                     more. By default 30; at most 365, and what the server is set to.",
                )
                .optional(),
            ),
        ],
    )
}

fn limit_range() -> Schema {
    let amounts = |description: &'static str| Schema::resource_list(description).optional();
    let item = Schema::object(
        "Limits of one type.",
        Some("io.tkestack.business.v1.LimitRangeTemplateItem"),
        [
            (
                "type",
                Schema::one_of("Container, Pod or PersistentVolumeClaim.", &LimitRangeItem::TYPES).required(),
            ),
            ("max", amounts("The most of each resource, as quantities.")),
            ("min", amounts("The least of each resource, as quantities.")),
            ("default", amounts("The limits of a container that says none, as quantities.")),
            ("defaultRequest", amounts("The requests of a container that says none, as quantities.")),
            (
                "maxLimitRequestRatio",
                amounts("How often a request fits into its limit at most, as a number."),
            ),
        ],
    );
    Schema::object(
        "The spec of the namespace's LimitRange, as core/v1 has it. It is named business-template.",
        Some("io.tkestack.business.v1.LimitRangeTemplate"),
        [("limits", Schema::list("Limits, one for each type.", ListType::Atomic, item).required())],
    )
}

fn network_policy() -> Schema {
    Schema::object(
        "A NetworkPolicy.",
        Some("io.tkestack.business.v1.NetworkPolicyTemplate"),
        [
            (
                "name",
                Schema::string("What it is called; in the namespace it is business-template-NAME.")
                    .required(),
            ),
            ("spec", network::schema().required()),
        ],
    )
}

fn role_binding() -> Schema {
    let [kind, name, namespace] = subject::fields();
    let subject = Schema::object(
        "Somebody, as the member cluster knows him; a service account is one of the member cluster.",
        Some("io.tkestack.business.v1.TemplateSubject"),
        [kind, name, namespace],
    );
    Schema::object(
        "A RoleBinding.",
        Some("io.tkestack.business.v1.RoleBindingTemplate"),
        [
            ("name", Schema::string("What it is called; in the namespace it is business:template:NAME.").required()),
            (
                "role",
                Schema::string(
                    "The ClusterRole that it gives: one that the member cluster offers, whose name begins with \
                     business:offered:",
                )
                .required(),
            ),
            ("subjects", Schema::list("To whom.", ListType::Atomic, subject).required()),
        ],
    )
}

fn rollout() -> Schema {
    Schema::object(
        "How a change goes through the namespaces: in waves, each when the one before is done. What fails or is not done in \
         the namespaces of one tenant holds up his others alone; in those of two, everybody. New namespaces are given the \
         newest at once.",
        Some("io.tkestack.business.v1.Rollout"),
        [
            (
                "batch",
                Schema::integer("Namespaces in a wave, as a count.")
                    .with_default(json!(ROLLOUT_BATCH))
                    .optional(),
            ),
            ("paused", Schema::boolean("True if no wave is to begin.").optional()),
        ],
    )
}

fn status() -> Schema {
    Schema::object(
        "How far the template is. Written by the controller.",
        Some("io.tkestack.business.v1.NamespaceTemplateStatus"),
        [
            ("namespaces", Schema::integer("Namespaces whose template it is, as a count.").optional()),
            ("updated", Schema::integer("Those in which its newest state is in place, as a count.").optional()),
            ("failed", Schema::integer("Those that have not taken its newest state, as a count.").optional()),
            ("clusters", Schema::integer("Member clusters that those lie in, as a count.").optional()),
            (
                "wave",
                Schema::object(
                    "Whose turn it is to get a state of it.",
                    Some("io.tkestack.business.v1.TemplateWave"),
                    [
                        ("digest", Schema::string("The digest of the state.").optional()),
                        (
                            "namespaces",
                            Schema::list("Whose turn it is.", ListType::Atomic, Schema::string("The uid of one."))
                                .optional(),
                        ),
                    ],
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
                    "Aspects of its state: Ready, and RolledOut (the message says how far it is and how many have failed).",
                )
                .optional(),
            ),
        ],
    )
}
