//! What is compared of an answer.

use super::certificate;
use crate::support::Answer;
use serde_json::{Map, Value, json};

/// Of metadata; the rest differs each time, or is nobody's to say.
const METADATA: [&str; 7] =
    ["name", "namespace", "generateName", "labels", "annotations", "finalizers", "ownerReferences"];
/// What a status has here beside what it had.
const STATUS_HERE: [&str; 6] = [
    "clusterNamespace",
    "conditions",
    "lastTransitionTime",
    "namespaceUID",
    "observedGeneration",
    "registry",
];
/// Lists of a status in the order of accounting, which varied.
const UNORDERED: [&str; 2] = ["calculatedChildProjects", "calculatedNamespaces"];

/// How an answer was recorded.
pub(super) struct Shown<'a> {
    pub(super) recorded: Option<&'a Value>,
    pub(super) take: Option<&'a Value>,
}

impl Shown<'_> {
    pub(super) fn theirs(&self) -> Value {
        let recorded = self.recorded.cloned().unwrap_or_default();
        sorted(if self.take.is_some() { recorded } else { whole(recorded) })
    }

    /// In the form of the recorded one.
    pub(super) fn ours(&self, answer: &Answer) -> Value {
        let body = &answer.body;
        if answer.code >= 400 {
            return self.refusal(body);
        }
        match (self.take, self.recorded) {
            (Some(Value::String(pointer)), _) => body.pointer(pointer).cloned().unwrap_or_default(),
            (Some(pointers), _) => pointers
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, pointer)| {
                    let pointer = pointer.as_str().unwrap();
                    (name.clone(), body.pointer(pointer).cloned().unwrap_or_default())
                })
                .collect(),
            (None, Some(Value::Array(recorded))) => like_list(body, recorded),
            (None, Some(Value::Object(recorded))) => like_object(body, recorded),
            (None, Some(_)) => whole(body.clone()),
            (None, None) => Value::Null,
        }
    }

    /// What was recorded of a refusal.
    fn refusal(&self, status: &Value) -> Value {
        let mut shown = refusal(status);
        if let Some(recorded) = self.recorded.filter(|recorded| recorded["reason"].is_string()) {
            shown.retain(|field, _| !recorded[field].is_null());
        }
        shown.into()
    }
}

/// What was recorded as a list: names, types and names of a watch, or discovery.
fn like_list(body: &Value, recorded: &[Value]) -> Value {
    if recorded.iter().any(Value::is_array) && body["resources"].is_array() {
        resources(body)
    } else if body.is_string() || recorded.first().is_some_and(Value::is_array) {
        events(body)
    } else {
        names(body, recorded)
    }
}

/// What was recorded as an object: a page, a certificate, a list by its names, or the whole answer.
fn like_object(body: &Value, recorded: &Map<String, Value>) -> Value {
    let only = |here: Value| recorded.keys().map(|key| (key.clone(), here[key].clone())).collect();
    if recorded.contains_key("has continue") {
        only(json!({
            "has continue": body["metadata"]["continue"].is_string(),
            "items": body["items"].as_array().map_or(0, Vec::len),
            "remaining": body["metadata"]["remainingItemCount"],
        }))
    } else if recorded.contains_key("CN") {
        only(certificate::shown(body))
    } else if body["items"].is_array() && !["items", "reason"].iter().any(|key| recorded.contains_key(*key)) {
        by_name(body, recorded)
    } else {
        whole(body.clone())
    }
}

/// What is left of a refusal.
fn refusal(status: &Value) -> Map<String, Value> {
    let mut shown = Map::new();
    for field in ["reason", "message"] {
        shown.insert(field.to_owned(), status[field].clone());
    }
    let details = &status["details"];
    let causes = details["causes"].as_array().cloned().unwrap_or_default();
    let mut causes: Vec<Value> =
        causes.into_iter().map(|cause| json!([cause["reason"], cause["field"]])).collect();
    causes.sort_by_key(ToString::to_string);
    if !causes.is_empty() {
        shown.insert("causes".to_owned(), causes.into());
    }
    let about = ["group", "kind", "name"].into_iter().filter(|field| details[field].is_string());
    let about: Map<String, Value> = about.map(|field| (field.to_owned(), details[field].clone())).collect();
    if !about.is_empty() {
        shown.insert("details".to_owned(), about.into());
    }
    shown
}

/// An object or a list without what differs each time.
pub(super) fn whole(mut body: Value) -> Value {
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            *item = whole(item.take());
        }
        body["metadata"] = json!({});
        return body;
    }
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| METADATA.contains(&field.as_str()));
    }
    if let Some(status) = body.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, value| !STATUS_HERE.contains(&field.as_str()) && !value.is_null());
        for field in UNORDERED {
            if let Some(list) = status.get_mut(field) {
                *list = sorted(list.take());
            }
        }
    }
    if let Some(details) = body.get_mut("details").and_then(Value::as_object_mut) {
        details.retain(|field, _| field != "uid");
    }
    body
}

/// Names of a list, as they were recorded: with their project, or without.
fn names(body: &Value, recorded: &[Value]) -> Value {
    let with_project = recorded.iter().any(|name| name.as_str().is_some_and(|name| name.contains('/')));
    let items = body["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| name(item, with_project)).collect()
}

fn name(item: &Value, with_project: bool) -> String {
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    match item["metadata"]["namespace"].as_str().filter(|_| with_project) {
        Some(project) => format!("{project}/{name}"),
        None => name.to_owned(),
    }
}

/// Objects of a list by their names, with the parts that were recorded of each.
fn by_name(body: &Value, recorded: &Map<String, Value>) -> Value {
    let form = recorded.values().next().cloned().unwrap_or_default();
    let with_project = recorded.keys().any(|name| name.contains('/'));
    let items = body["items"].as_array().cloned().unwrap_or_default();
    let parts = |item: Value| {
        let item = whole(item);
        let Value::Object(parts) = &form else { return item["status"]["phase"].clone() };
        let of = |part: &str| match part {
            "labels" | "annotations" => item["metadata"][part].clone(),
            "spec" | "status" => item[part].clone(),
            _ => item["status"][part].clone(),
        };
        parts.keys().map(|part| (part.clone(), of(part))).collect()
    };
    items.into_iter().map(|item| (name(&item, with_project), parts(item))).collect()
}

/// Types and names of a watch.
fn events(body: &Value) -> Value {
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_default());
    events.map(|event| json!([event["type"], event["object"]["metadata"]["name"]])).collect()
}

/// What discovery says of each resource.
fn resources(body: &Value) -> Value {
    let of = |entry: &Value| {
        let list = |field: &str| entry[field].as_array().cloned().unwrap_or_default();
        json!([
            entry["name"],
            entry["kind"],
            entry["singularName"],
            entry["namespaced"],
            list("verbs"),
            list("shortNames"),
            list("categories"),
            entry["storageVersionHash"].is_string(),
        ])
    };
    body["resources"].as_array().unwrap().iter().map(of).collect()
}

/// The order of a list of names or of causes says nothing.
pub(super) fn sorted(value: Value) -> Value {
    match value {
        Value::Array(mut list) if list.iter().all(|item| item.is_string() || item.is_array()) => {
            list.sort_by_key(ToString::to_string);
            list.into()
        }
        other => other,
    }
}
