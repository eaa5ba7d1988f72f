//! Query and path parameters. They are always inlined: clients do not resolve references to parameters.

use super::OpenApiParameter;
use super::schemas::OpenApiVersion;
use serde_json::{Value, json};

struct Parameter {
    name: &'static str,
    ty: &'static str,
    description: &'static str,
}

const fn parameter(name: &'static str, ty: &'static str, description: &'static str) -> Parameter {
    Parameter { name, ty, description }
}

const PRETTY: Parameter = parameter("pretty", "string", "If true, the answer is indented.");
const DRY_RUN: Parameter = parameter(
    "dryRun",
    "string",
    "All: the request goes through every check and default, but nothing is stored.",
);
const LIMIT: Parameter = parameter(
    "limit",
    "integer",
    "Objects in one answer at most; metadata.continue of the answer then asks for the next page.",
);

const SELECT: [Parameter; 5] = [
    parameter(
        "continue",
        "string",
        "Token out of a page's metadata.continue: asks for the next page of the same list.",
    ),
    parameter("fieldSelector", "string", "Selects by fields, such as metadata.name=a,status.phase!=Failed."),
    parameter("labelSelector", "string", "Selects by labels, such as app=a,tier in (x,y),!canary."),
    LIMIT,
    parameter("timeoutSeconds", "integer", "Seconds after which a list is given up or a watch is ended."),
];

const VERSION: [Parameter; 2] = [
    parameter(
        "resourceVersion",
        "string",
        "Version of the state to read. Empty: the latest; 0: any; else as resourceVersionMatch says.",
    ),
    parameter(
        "resourceVersionMatch",
        "string",
        "How resourceVersion is meant: NotOlderThan, or Exact. May only be set together with resourceVersion.",
    ),
];

const WATCH: [Parameter; 3] = [
    parameter(
        "allowWatchBookmarks",
        "boolean",
        "If true, the watch may send BOOKMARK events, which tell its progress.",
    ),
    parameter(
        "sendInitialEvents",
        "boolean",
        "If true, the watch begins with ADDED events for all objects, and a bookmark tells when these are complete.",
    ),
    parameter("watch", "boolean", "If true, changes are streamed instead of a list being answered."),
];

const WRITE: [Parameter; 3] = [
    DRY_RUN,
    parameter(
        "fieldManager",
        "string",
        "Name of the program or person that makes the change, for metadata.managedFields. At most 128 characters.",
    ),
    parameter(
        "fieldValidation",
        "string",
        "What happens to unknown or repeated fields: Ignore drops them, Warn also sends warnings, Strict refuses the request.",
    ),
];

const FORCE: Parameter = parameter(
    "force",
    "boolean",
    "Only for server-side apply: take over fields that belong to other managers instead of answering 409.",
);

const DELETE: [Parameter; 3] = [
    parameter("gracePeriodSeconds", "integer", "Seconds that a graceful deletion may take; 0 is at once."),
    parameter("orphanDependents", "boolean", "Use propagationPolicy. If true, owned objects are kept."),
    parameter(
        "propagationPolicy",
        "string",
        "What happens to owned objects: Orphan keeps them, Background deletes them afterwards, Foreground deletes them first.",
    ),
];

/// The query parameters of an action, and the operation's own ones.
pub(super) fn query(version: OpenApiVersion, action: &str, own: &[OpenApiParameter]) -> Vec<Value> {
    let parts: Vec<&Parameter> = match action {
        "list" => SELECT.iter().chain(&VERSION).chain(&WATCH).collect(),
        "deletecollection" => SELECT.iter().chain(&VERSION).chain(&DELETE).chain([&DRY_RUN]).collect(),
        "delete" => DELETE.iter().chain([&DRY_RUN]).collect(),
        "post" | "put" => WRITE.iter().collect(),
        "patch" => WRITE.iter().chain([&FORCE]).collect(),
        _ => Vec::new(),
    };
    let mut parts: Vec<Value> =
        parts.into_iter().map(|parameter| parameter_json(version, "query", parameter, false)).collect();
    parts.extend(
        own.iter().map(|own| {
            parameter_json(version, "query", &parameter(own.name, "string", own.description), false)
        }),
    );
    parts.sort_by_key(|parameter| parameter.get("name").map(Value::to_string));
    parts
}

/// The parameters in a path's template, and those of every operation.
pub(super) fn path(version: OpenApiVersion, kind: &str, namespaced: bool, has_name: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    if has_name {
        let mut name = parameter_json(version, "path", &parameter("name", "string", ""), true);
        if let Value::Object(map) = &mut name {
            map.insert("description".to_owned(), json!(format!("Name of the {kind}.")));
        }
        parts.push(name);
    }
    if namespaced {
        let namespace = parameter("namespace", "string", "Namespace of the objects.");
        parts.push(parameter_json(version, "path", &namespace, true));
    }
    parts.push(parameter_json(version, "query", &PRETTY, false));
    parts
}

fn parameter_json(version: OpenApiVersion, location: &str, parameter: &Parameter, required: bool) -> Value {
    let mut value = json!({
        "name": parameter.name,
        "in": location,
        "description": parameter.description,
    });
    let Value::Object(map) = &mut value else { return value };
    if required {
        map.insert("required".to_owned(), Value::Bool(true));
    }
    match version {
        OpenApiVersion::V2 => {
            map.insert("type".to_owned(), json!(parameter.ty));
            map.insert("uniqueItems".to_owned(), Value::Bool(true));
        }
        OpenApiVersion::V3 => {
            map.insert("schema".to_owned(), json!({"type": parameter.ty, "uniqueItems": true}));
        }
    }
    value
}
