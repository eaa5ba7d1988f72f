//! Schemas that kinds share: `ObjectMeta`, conditions, resource lists, and the common top-level fields.

use super::{Field, ListType, Schema, StringFormat, Type};

macro_rules! meta_definition {
    ($name:literal) => {
        concat!("io.k8s.apimachinery.pkg.apis.meta.v1.", $name)
    };
}

impl Schema {
    /// The schema of a kind: `apiVersion`, `kind`, `metadata` and its own fields. `definition` is the name of its
    /// OpenAPI definition, such as `io.tkestack.business.v1.Project`.
    pub fn kind(
        definition: &'static str,
        description: &'static str,
        fields: impl IntoIterator<Item = (&'static str, Field)>,
    ) -> Self {
        let type_and_metadata = [
            ("apiVersion", Self::string(API_VERSION).optional()),
            ("kind", Self::string(KIND).optional()),
            ("metadata", Self::object_meta().optional()),
        ];
        Self::object(description, Some(definition), type_and_metadata.into_iter().chain(fields))
    }

    /// `metav1.ObjectMeta`.
    pub fn object_meta() -> Self {
        let string_map = |description| Self::map(description, Self::string("")).optional();
        let fields = [
            ("annotations", string_map(ANNOTATIONS)),
            ("creationTimestamp", Self::time(CREATION_TIMESTAMP).optional()),
            ("deletionGracePeriodSeconds", Self::integer(DELETION_GRACE_PERIOD).optional()),
            ("deletionTimestamp", Self::time(DELETION_TIMESTAMP).optional()),
            ("finalizers", Self::list(FINALIZERS, ListType::Set, Self::string("")).optional()),
            ("generateName", Self::string(GENERATE_NAME).optional()),
            ("generation", Self::integer(GENERATION).optional()),
            ("labels", string_map(LABELS)),
            (
                "managedFields",
                Self::list(MANAGED_FIELDS, ListType::Atomic, managed_fields_entry()).optional(),
            ),
            ("name", Self::string(NAME).optional()),
            ("namespace", Self::string(NAMESPACE).optional()),
            (
                "ownerReferences",
                Self::list(OWNER_REFERENCES, ListType::Map(&["uid"]), owner_reference()).optional(),
            ),
            ("resourceVersion", Self::string(RESOURCE_VERSION).optional()),
            ("selfLink", Self::string(SELF_LINK).optional()),
            ("uid", Self::string(UID).optional()),
        ];
        Self::object(OBJECT_META, Some(meta_definition!("ObjectMeta")), fields)
    }

    /// A list of `metav1.Condition`, merged by `type`.
    pub fn conditions(description: &'static str) -> Self {
        let status = Type::String(StringFormat::Enum(&["True", "False", "Unknown"]));
        let condition = Self::object(
            CONDITION,
            Some(meta_definition!("Condition")),
            [
                ("lastTransitionTime", Self::time(CONDITION_TRANSITION).required_always()),
                ("message", Self::string(CONDITION_MESSAGE).required_always()),
                ("observedGeneration", Self::integer(CONDITION_GENERATION).optional()),
                ("reason", Self::string(CONDITION_REASON).required_always()),
                ("status", Self::new(CONDITION_STATUS, status).required_always()),
                ("type", Self::string(CONDITION_TYPE).required_always()),
            ],
        );
        Self::list(description, ListType::Map(&["type"]), condition)
    }

    /// Quantities by resource name, such as `cpu: 500m`.
    pub fn resource_list(description: &'static str) -> Self {
        Self::map(description, Self::quantity(""))
    }
}

fn owner_reference() -> Schema {
    Schema::object(
        OWNER_REFERENCE,
        Some(meta_definition!("OwnerReference")),
        [
            ("apiVersion", Schema::string("API version of the owner, as group/version.").required_always()),
            ("blockOwnerDeletion", Schema::boolean(BLOCK_OWNER_DELETION).optional()),
            (
                "controller",
                Schema::boolean("True if the owner is the controller that manages this object.").optional(),
            ),
            ("kind", Schema::string("Kind of the owner.").required_always()),
            ("name", Schema::string("Name of the owner.").required_always()),
            (
                "uid",
                Schema::string("UID of the owner: another object of the same name is not the owner.")
                    .required_always(),
            ),
        ],
    )
    .into_atomic()
}

fn managed_fields_entry() -> Schema {
    Schema::object(
        "One manager's record of the fields that it owns.",
        Some(meta_definition!("ManagedFieldsEntry")),
        [
            (
                "apiVersion",
                Schema::string("Version of the kind that the field paths are written in.").optional(),
            ),
            ("fieldsType", Schema::string("Format of the field set; only FieldsV1 exists.").optional()),
            ("fieldsV1", Schema::any(FIELDS_V1).optional()),
            ("manager", Schema::string("Name of the program that set the fields.").optional()),
            ("operation", Schema::one_of(MANAGED_OPERATION, &["Apply", "Update"]).optional()),
            ("subresource", Schema::string(MANAGED_SUBRESOURCE).optional()),
            ("time", Schema::time("When this record last changed, in UTC.").optional()),
        ],
    )
}

const API_VERSION: &str =
    "Group and version of this object's schema. Servers convert what they know and refuse the rest.";
const KIND: &str = "Kind of this object, in camel case. Known from the endpoint; it cannot be changed.";
const OBJECT_META: &str =
    "What every stored object has: its identity, its labels, its owners and its life cycle.";
const ANNOTATIONS: &str = "Free values by key, for tools: they cannot be selected by. At most 256 KiB together. Keys are qualified names.";
const CREATION_TIMESTAMP: &str = "When the object was created, in UTC, whole seconds. Set by the server.";
const DELETION_GRACE_PERIOD: &str = "Seconds that a graceful deletion may take. Set together with deletionTimestamp by the server; may only shrink.";
const DELETION_TIMESTAMP: &str = "When deletion was asked for, in UTC, whole seconds. Set by the server; the object goes away once its \
     finalizers are gone. It cannot be unset.";
const FINALIZERS: &str = "Names of agents that must do something before the object may disappear. Each agent removes its own; no new \
     ones are taken once the object is being deleted.";
const GENERATE_NAME: &str =
    "Prefix of a name that the server makes unique with five random characters, used when name is empty.";
const GENERATION: &str =
    "Number of the desired state: it rises with every change of the spec. Set by the server.";
const LABELS: &str = "Values by key to select and group objects by. Keys are qualified names, values have at most 63 characters.";
const MANAGED_FIELDS: &str = "Which manager owns which fields. Kept by the server, mostly for server-side apply; rarely of use to people.";
const NAME: &str =
    "Name, unique within the namespace (or the cluster, for kinds without one). It cannot be changed.";
const NAMESPACE: &str =
    "Namespace within which the name is unique; empty for kinds without one. It cannot be changed.";
const OWNER_REFERENCES: &str = "Objects that this one depends on. When all of them are gone, it is garbage-collected. At most one has \
     controller set to true.";
const RESOURCE_VERSION: &str = "Opaque version of the stored object, for optimistic locking and watches. Send it back unchanged. Set by the server.";
const SELF_LINK: &str = "No longer filled in.";
const UID: &str = "Identity that no other object ever has, of the same name or another. Set by the server.";
const OWNER_REFERENCE: &str =
    "An object that this one depends on. It must be in the same namespace, or have no namespace.";
const BLOCK_OWNER_DELETION: &str =
    "If true, an owner deleted in the foreground stays until this reference is gone. False by default.";
const FIELDS_V1: &str = "A set of fields as a tree: f:name is a field, k:{...} an item of a list by its keys, v:value an item of a set, \
     i:n an item by its index; a dot stands for the element itself.";
const MANAGED_OPERATION: &str =
    "How the fields were set: by server-side apply (Apply) or by any other write (Update).";
const MANAGED_SUBRESOURCE: &str = "Subresource through which the fields were set; empty for the object itself. Part of the manager's identity.";
const CONDITION: &str = "One aspect of an object's current state.";
const CONDITION_TRANSITION: &str = "When status last changed, in UTC, whole seconds.";
const CONDITION_MESSAGE: &str = "Details of the transition for a person. May be empty.";
const CONDITION_GENERATION: &str = "metadata.generation that this condition was computed from; lower than the object's if it is out of date.";
const CONDITION_REASON: &str = "Why status last changed, as one word in camel case.";
const CONDITION_STATUS: &str = "Whether the condition holds: True, False or Unknown.";
const CONDITION_TYPE: &str = "Name of the condition, in camel case or with a domain prefix.";
