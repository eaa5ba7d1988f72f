//! `kubectl.kubernetes.io/last-applied-configuration`: how kubectl goes from client-side to server-side apply.

use super::compare;
use super::field_set::FieldSet;
use super::typed;
use crate::schema::Schema;
use crate::validation::ANNOTATIONS_BYTES_MAX;
use serde_json::{Map, Value};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager for which the annotation is read and written.
pub(super) const KUBECTL: &str = "kubectl";

fn annotations(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn last_applied(object: &Map<String, Value>) -> Option<&str> {
    annotations(object)?.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())
}

/// The fields that client-side apply has set and that still have its values. Server-side apply takes them over.
pub(super) fn still_applied(
    live: &Map<String, Value>,
    schema: &Schema,
    api_version: &str,
) -> Option<FieldSet> {
    let applied: Map<String, Value> = serde_json::from_str(last_applied(live)?).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    typed::validate(&applied, schema).ok()?;
    let applied = typed::normalised(&applied, schema);
    let fields = typed::fields_of(&applied, schema).ok()?;
    let change = compare::compare(&applied, live, schema).ok()?;
    Some(fields.difference(&change.modified).difference(&change.added).difference(&change.removed))
}

/// Updates the annotation, if the object has one, to the configuration of a server-side apply.
pub(super) fn refresh(object: &mut Map<String, Value>, config: &Map<String, Value>) {
    if last_applied(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) =
        config.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
    {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{}\n", Value::Object(config));
    let Some(Value::Object(annotations)) =
        object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
    else {
        return;
    };
    annotations.insert(LAST_APPLIED.to_owned(), Value::String(text));
    let bytes =
        |(key, value): (&String, &Value)| key.len().saturating_add(value.as_str().map_or(0, str::len));
    if annotations.iter().map(bytes).fold(0, usize::saturating_add) > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}
