//! The types of `meta.k8s.io` that operations use.

use crate::schema::{ListType, Schema, Type};

pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const STATUS_DETAILS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails";
const STATUS_CAUSE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause";
const PRECONDITIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// The types of requests and responses other than the resources' own kinds, each with its kind.
pub(super) fn operation_schemas() -> [(Schema, &'static str); 3] {
    [(status(), "Status"), (delete_options(), "DeleteOptions"), (watch_event(), "WatchEvent")]
}

/// `metav1.ListMeta`
pub(super) fn list_meta_schema() -> Schema {
    let string = |description| Schema::string(description).optional();
    Schema::object(
        "What a list says about itself: the revision it shows and where its next page begins.",
        Some(LIST_META),
        [
            ("continue", string("Opaque token to ask for the next page with; empty on the last page.")),
            (
                "remainingItemCount",
                Schema::integer("Number of objects behind this page, if it is known.").optional(),
            ),
            (
                "resourceVersion",
                string("Opaque version of the state that the list shows; a watch can start here."),
            ),
            ("selfLink", string("No longer filled in.")),
        ],
    )
}

fn type_fields() -> [(&'static str, crate::schema::Field); 2] {
    [
        ("apiVersion", Schema::string("Group and version of this object's schema.").optional()),
        ("kind", Schema::string("Kind of this object, in camel case.").optional()),
    ]
}

fn status() -> Schema {
    let string = |description| Schema::string(description).optional();
    let cause = Schema::object(
        "One of the reasons of a failure.",
        Some(STATUS_CAUSE),
        [
            ("field", string("Path of the field that caused it, such as spec.clusters[0].name.")),
            ("message", string("What is wrong, for a person.")),
            ("reason", string("What is wrong, as one word for programs.")),
        ],
    );
    let details = Schema::object(
        "What a failure is about.",
        Some(STATUS_DETAILS),
        [
            ("causes", Schema::list("One entry for each reason.", ListType::Atomic, cause).optional()),
            ("group", string("API group of the resource.")),
            ("kind", string("Resource, or kind, that the request was about.")),
            ("name", string("Name of the object.")),
            ("retryAfterSeconds", Schema::int32("Seconds after which a retry makes sense.").optional()),
            ("uid", string("UID of the object, if there is one.")),
        ],
    );
    let fields = [
        ("code", Schema::int32("HTTP status code.").optional()),
        ("details", details.optional()),
        ("message", string("What happened, for a person.")),
        ("metadata", list_meta_schema().optional()),
        ("reason", string("What happened, as one word for programs. Empty if nothing more is known.")),
        ("status", string("Success or Failure.")),
    ];
    Schema::object(
        "The outcome of a call that has no object to show.",
        Some(STATUS),
        type_fields().into_iter().chain(fields),
    )
}

fn delete_options() -> Schema {
    let preconditions = Schema::object(
        "What must hold for an object to be deleted.",
        Some(PRECONDITIONS),
        [
            ("resourceVersion", Schema::string("The object must have this version.").optional()),
            ("uid", Schema::string("The object must have this UID.").optional()),
        ],
    );
    let fields = [
        (
            "dryRun",
            Schema::strings("All: do everything but the write.", ListType::Atomic).optional(),
        ),
        (
            "gracePeriodSeconds",
            Schema::integer("Seconds that a graceful deletion may take; 0 is at once. Kinds without graceful deletion ignore it.")
                .optional(),
        ),
        (
            "orphanDependents",
            Schema::boolean("Use propagationPolicy. If true, objects that this one owns are kept.").optional(),
        ),
        ("preconditions", preconditions.optional()),
        (
            "propagationPolicy",
            Schema::string(
                "What happens to the objects that this one owns: Orphan keeps them, Background deletes them afterwards, \
                 Foreground deletes them first.",
            )
            .optional(),
        ),
    ];
    Schema::object(
        "How an object is to be deleted.",
        Some(DELETE_OPTIONS),
        type_fields().into_iter().chain(fields),
    )
}

fn watch_event() -> Schema {
    Schema::object(
        "One event of a watch.",
        Some(WATCH_EVENT),
        [
            (
                "object",
                Schema::new(
                    "The object after the change; its last state if it was deleted; a Status if type is ERROR.",
                    Type::Any,
                )
                .required(),
            ),
            ("type", Schema::string("ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.").required()),
        ],
    )
}
