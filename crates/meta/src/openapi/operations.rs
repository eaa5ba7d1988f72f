//! Paths and operations.

use super::schemas::{OpenApiVersion, definition_of};
use super::{OpenApiParameter, OpenApiResource, OpenApiSubresource, OpenApiType, meta_types, parameters};
use crate::gvk::GroupVersionKind;
use crate::schema::{Schema, Type};
use serde_json::{Map, Value, json};

const MEDIA_TYPES: [&str; 2] = ["application/json", "application/yaml"];
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// The paths of a document.
pub(super) struct Paths<'a> {
    openapi_version: OpenApiVersion,
    patch_types: &'a [&'a str],
    by_path: Map<String, Value>,
}

/// One operation, independent of the OpenAPI version.
struct Operation<'a> {
    resource: &'a OpenApiResource<'a>,
    /// The kind that is read or written.
    kind: &'a GroupVersionKind,
    /// `x-kubernetes-action`
    action: &'static str,
    /// Prefix of the `operationId`.
    verb: &'static str,
    /// Suffix of the `operationId`, such as `Status`.
    suffix: String,
    description: String,
    body: Option<String>,
    answer: String,
    /// Its own query parameters.
    parameters: &'a [OpenApiParameter],
    codes: &'static [(&'static str, &'static str)],
}

const COLLECTION_VERBS: [&str; 3] = ["list", "create", "deletecollection"];
const ITEM_VERBS: [&str; 4] = ["get", "update", "patch", "delete"];
const SUBRESOURCE_VERBS: [&str; 4] = ["get", "create", "update", "patch"];
const OK: &[(&str, &str)] = &[("200", "OK")];
const OK_CREATED: &[(&str, &str)] = &[("200", "OK"), ("201", "Created")];
const OK_CREATED_ACCEPTED: &[(&str, &str)] = &[("200", "OK"), ("201", "Created"), ("202", "Accepted")];
const OK_ACCEPTED: &[(&str, &str)] = &[("200", "OK"), ("202", "Accepted")];

impl<'p> Paths<'p> {
    pub(super) fn new(openapi_version: OpenApiVersion, patch_types: &'p [&'p str]) -> Self {
        Self { openapi_version, patch_types, by_path: Map::new() }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.by_path)
    }

    /// Adds a resource's collection, items and subresources.
    pub(super) fn add_resource(&mut self, resource: &OpenApiResource<'_>) {
        let kind = &resource.kind;
        let base = match kind.group.as_str() {
            "" => format!("/api/{}", kind.version),
            group => format!("/apis/{group}/{}", kind.version),
        };
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{base}{scope}/{}", resource.plural);
        let item = format!("{collection}/{{name}}");
        let served = |here: &[&'static str], served: &[&str]| -> Vec<&'static str> {
            here.iter().copied().filter(|verb| served.contains(verb)).collect()
        };
        self.add(&collection, resource, &served(&COLLECTION_VERBS, resource.verbs), None);
        self.add(&item, resource, &served(&ITEM_VERBS, resource.verbs), None);
        for sub in resource.subresources {
            let path = format!("{item}/{}", sub.name);
            self.add(&path, resource, &served(&SUBRESOURCE_VERBS, sub.verbs), Some(sub));
        }
        if resource.namespaced && resource.verbs.contains(&"list") {
            let operation = operation(resource, "list", None).map(|operation| {
                let written = self.operation_json(&Operation { suffix: "ForAllNamespaces".to_owned(), ..operation });
                json!({"get": written, "parameters": parameters::path(self.openapi_version, &kind.kind, false, false)})
            });
            self.by_path.extend(operation.map(|item| (format!("{base}/{}", resource.plural), item)));
        }
    }

    fn add(
        &mut self,
        path: &str,
        resource: &OpenApiResource<'_>,
        verbs: &[&'static str],
        subresource: Option<&OpenApiSubresource<'_>>,
    ) {
        let mut item = Map::new();
        for verb in verbs {
            if let Some(operation) = operation(resource, verb, subresource) {
                item.insert(method(verb).to_owned(), self.operation_json(&operation));
            }
        }
        if item.is_empty() {
            return;
        }
        let named = path.contains("{name}");
        let parameters =
            parameters::path(self.openapi_version, &resource.kind.kind, resource.namespaced, named);
        item.insert("parameters".to_owned(), Value::Array(parameters));
        self.by_path.insert(path.to_owned(), Value::Object(item));
    }

    /// The content types of patches of a resource. Clients compute a strategic merge patch from the fields in the
    /// document, and the keys of a map are not fields. So for a kind with a map of structs kubectl would warn, and fall
    /// back to a merge patch, as soon as a value in the map has changed.
    fn patch_types_of(&self, resource: &OpenApiResource<'_>) -> Vec<&'p str> {
        let can_compute_strategic = !has_map_of_structs(resource.schema);
        let types = self.patch_types.iter().copied();
        types.filter(|media| can_compute_strategic || *media != STRATEGIC_MERGE).collect()
    }

    fn operation_json(&self, operation: &Operation<'_>) -> Value {
        let kind = &operation.resource.kind;
        let (group, version) = (camel(&kind.group), camel(&kind.version));
        let namespaced = operation.resource.namespaced && operation.suffix != "ForAllNamespaces";
        let scope = if namespaced { "Namespaced" } else { "" };
        let id = format!("{}{group}{version}{scope}{}{}", operation.verb, kind.kind, operation.suffix);
        let mut parameters = parameters::query(self.openapi_version, operation.action, operation.parameters);
        let answer = self.openapi_version.reference(&operation.answer);
        let mut written = json!({
            "description": operation.description,
            "operationId": id,
            "tags": [format!("{}_{}", lower_first(&group), kind.version)],
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": {
                "group": operation.kind.group, "version": operation.kind.version, "kind": operation.kind.kind,
            },
        });
        let Value::Object(map) = &mut written else { return written };
        let body = operation.body.as_deref().map(|name| self.openapi_version.reference(name));
        let required = operation.action != "delete" && operation.action != "deletecollection";
        let consumed =
            if operation.action == "patch" { self.patch_types_of(operation.resource) } else { vec!["*/*"] };
        let mut responses = Map::new();
        match self.openapi_version {
            OpenApiVersion::V2 => {
                if let Some(schema) = body {
                    let mut parameter = json!({"in": "body", "name": "body", "schema": schema});
                    if let (true, Value::Object(parameter)) = (required, &mut parameter) {
                        parameter.insert("required".to_owned(), Value::Bool(true));
                    }
                    parameters.push(parameter);
                }
                map.insert("consumes".to_owned(), json!(consumed));
                map.insert("produces".to_owned(), json!(MEDIA_TYPES));
                map.insert("schemes".to_owned(), json!(["https"]));
                for (code, text) in operation.codes {
                    responses.insert((*code).to_owned(), json!({"description": text, "schema": answer}));
                }
            }
            OpenApiVersion::V3 => {
                if let Some(schema) = body {
                    let content: Map<String, Value> = consumed
                        .iter()
                        .map(|media| ((*media).to_owned(), json!({"schema": schema})))
                        .collect();
                    let mut body = json!({"content": content});
                    if let (true, Value::Object(body)) = (required, &mut body) {
                        body.insert("required".to_owned(), Value::Bool(true));
                    }
                    map.insert("requestBody".to_owned(), body);
                }
                let content: Map<String, Value> = MEDIA_TYPES
                    .iter()
                    .map(|media| ((*media).to_owned(), json!({"schema": answer})))
                    .collect();
                for (code, text) in operation.codes {
                    responses.insert((*code).to_owned(), json!({"description": text, "content": content}));
                }
            }
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        map.insert("responses".to_owned(), Value::Object(responses));
        if !parameters.is_empty() {
            map.insert("parameters".to_owned(), Value::Array(parameters));
        }
        written
    }
}

/// Whether the schema has a map whose values are not scalars.
fn has_map_of_structs(schema: &Schema) -> bool {
    match &schema.ty {
        Type::Struct { fields, .. } => fields.values().any(|field| has_map_of_structs(&field.schema)),
        Type::Map { values, .. } => {
            matches!(values.ty, Type::Struct { .. } | Type::Map { .. } | Type::List { .. } | Type::Any)
        }
        Type::List { items, .. } => has_map_of_structs(items),
        Type::String(_) | Type::Integer { .. } | Type::Boolean | Type::Quantity | Type::Any => false,
    }
}

fn method(verb: &str) -> &'static str {
    match verb {
        "create" => "post",
        "update" => "put",
        "patch" => "patch",
        "delete" | "deletecollection" => "delete",
        _ => "get",
    }
}

fn operation<'a>(
    resource: &'a OpenApiResource<'a>,
    verb: &str,
    subresource: Option<&OpenApiSubresource<'a>>,
) -> Option<Operation<'a>> {
    let suffix = subresource.map_or("", |sub| sub.name);
    let shown = match suffix {
        "" => resource.kind.kind.clone(),
        sub => format!("{sub} of {}", resource.kind.kind),
    };
    let whole = resource.type_of_object();
    let own_bodies = subresource.and_then(|sub| sub.own);
    let (body, answer): (Option<OpenApiType<'a>>, OpenApiType<'a>) = match own_bodies {
        None => (Some(whole), whole),
        Some(own) => (own.body, own.answer),
    };
    let name = definition_of(answer).to_owned();
    let with = |action, verb, text: &str, body, answer_name, codes| Operation {
        resource,
        kind: answer.kind,
        action,
        verb,
        suffix: upper_first(suffix),
        description: text.replace("{}", &shown),
        body,
        answer: answer_name,
        parameters: own_bodies.map_or(&[], |own| own.parameters),
        codes,
    };
    let own = || body.map(|body| definition_of(body).to_owned());
    let options = || Some(meta_types::DELETE_OPTIONS.to_owned());
    let status = || meta_types::STATUS.to_owned();
    Some(match verb {
        "list" if resource.singleton => with("get", "read", "Read the caller's {}.", None, name, OK),
        "list" => with("list", "list", "List or watch objects of kind {}.", None, format!("{name}List"), OK),
        "create" => with("post", "create", "Create the {}.", own(), name, OK_CREATED_ACCEPTED),
        "deletecollection" => with(
            "deletecollection",
            "deleteCollection",
            "Delete all {} objects that are selected.",
            options(),
            status(),
            OK,
        ),
        "get" => with("get", "read", "Read the {}.", None, name, OK),
        "update" => with("put", "replace", "Replace the {}.", own(), name, OK_CREATED),
        "patch" => {
            let patch = Some(meta_types::PATCH.to_owned());
            with("patch", "patch", "Change parts of the {}.", patch, name, OK_CREATED)
        }
        "delete" => with("delete", "delete", "Delete the {}.", options(), status(), OK_ACCEPTED),
        _ => return None,
    })
}

/// `business.tkestack.io` as `BusinessTkestackIo`.
fn camel(text: &str) -> String {
    text.split(|character: char| !character.is_ascii_alphanumeric()).map(upper_first).collect()
}

fn upper_first(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_ascii_uppercase().to_string() + characters.as_str())
        .unwrap_or_default()
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_ascii_lowercase().to_string() + characters.as_str())
        .unwrap_or_default()
}
