use super::body::PROJECT;
use crate::{Outcome, ensure, outcome, shape};
use meta::decode::{Media, decode_value, prune_and_check};
use meta::gvk::GroupVersionKind;
use meta::managed::{FieldManager, FieldSet, Writer};
use meta::object::Object;
use meta::patch::{PatchError, Patched, json_patch, merge_patch, strategic_merge_patch};
use serde_json::{Value, json};
use std::sync::LazyLock;

const NOW: &str = "2026-01-01T00:00:00Z";
const MAIN: &[&[&str]] = &[&["status"], &["spec", "finalizers"]];

static KIND: LazyLock<GroupVersionKind> = LazyLock::new(business_types::project::gvk);
/// An object with something of everything, its fields owned by two managers.
static LIVE: LazyLock<Object> = LazyLock::new(|| {
    let object = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Project",
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}, "finalizers": ["a", "b"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"},
                {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "v"}]},
        "spec": {"displayName": "P", "tenantID": "t", "members": ["a", "b"], "finalizers": ["project"],
            "clusters": {"c1": {"hard": {"pods": "10", "cpu": "1"}}}},
        "status": {"phase": "Active", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let object = Object::new(object).unwrap_or_default();
    let write = Writer { manager: "first", subresource: "", now: NOW };
    let object = tracker().update(None, object, write);
    let applied = json!({"apiVersion": KIND.api_version(), "kind": "Project", "metadata": {"name": "p"},
        "spec": {"members": ["a", "c"], "clusters": {"c1": {"hard": {"pods": "10"}}, "c2": {}}}});
    let write = Writer { manager: "second", ..write };
    tracker().apply(Some(&object), &applied, true, write).unwrap_or(object)
});

fn tracker() -> FieldManager<'static> {
    FieldManager { schema: &PROJECT, kind: &KIND, reset: MAIN }
}

fn told(result: &Result<Patched, PatchError>) -> Outcome {
    match result {
        Ok(patched) => {
            let mut document = patched.document.clone();
            let pruned = prune_and_check(&mut document, &PROJECT);
            let seen =
                pruned.map_or_else(|error| shape(&error.to_string()), |unknown| unknown.len().min(3) as u64);
            outcome((seen, patched.strict_errors.len().min(2)))
        }
        Err(error) => shape(&format!("{error:?}")),
    }
}

fn live() -> Value {
    LIVE.clone().into_value()
}

pub(super) fn json(input: &[u8]) -> Result<Outcome, String> {
    Ok(told(&json_patch(live(), input)))
}

/// A merge patch applied twice is a merge patch applied once.
pub(super) fn merge(input: &[u8]) -> Result<Outcome, String> {
    let once = merge_patch(live(), input);
    if let Ok(once) = &once {
        let twice =
            merge_patch(once.document.clone(), input).map_err(|error| format!("the second time: {error}"))?;
        ensure(twice.document == once.document, || "the second time changes something".to_owned())?;
    }
    Ok(told(&once))
}

pub(super) fn strategic(input: &[u8]) -> Result<Outcome, String> {
    let once = strategic_merge_patch(live(), input, &PROJECT);
    // The result is a document like any other.
    if let Ok(once) = &once {
        drop(strategic_merge_patch(once.document.clone(), input, &PROJECT));
    }
    Ok(told(&once))
}

/// An apply that is repeated changes nothing, owners included.
pub(super) fn apply(input: &[u8]) -> Result<Outcome, String> {
    let Ok((applied, _)) = decode_value(input, Media::Yaml) else { return Ok(0) };
    let write = Writer {
        manager: if input.len().is_multiple_of(2) { "second" } else { "third" },
        subresource: "",
        now: NOW,
    };
    let mut outcomes = Vec::new();
    for (live, force) in [(None, false), (Some(&*LIVE), false), (Some(&*LIVE), true)] {
        outcomes.push(match tracker().apply(live, &applied, force, write) {
            Err(error) => shape(&error.to_string()),
            Ok(once) => {
                let twice = tracker().apply(Some(&once), &applied, false, write);
                let twice = twice.map_err(|error| format!("the second time: {error}"))?;
                ensure(twice == once, || format!("the second time changes {}", once.into_value()))?;
                outcome((twice.as_map().len(), twice.get(&["metadata", "managedFields"]).is_some()))
            }
        });
    }
    Ok(outcome(outcomes))
}

/// A set that is read, written and read again is the same.
pub(super) fn field_set(input: &[u8]) -> Result<Outcome, String> {
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return Ok(0) };
    match FieldSet::from_value(&value) {
        Ok(set) => {
            let again =
                FieldSet::from_value(&set.to_value()).map_err(|error| format!("not read back: {error}"))?;
            ensure(again == set, || format!("{} is another set", set.to_value()))?;
            ensure(set.union(&set) == set && set.intersection(&set) == set, || {
                "not itself with itself".to_owned()
            })?;
            ensure(set.difference(&set).is_empty(), || "something is left without itself".to_owned())?;
            Ok(outcome(set.len().min(12)))
        }
        Err(error) => Ok(shape(&error)),
    }
}

/// An object whose owners are anybody's invention.
pub(super) fn managed_fields(input: &[u8]) -> Result<Outcome, String> {
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return Ok(0) };
    let entries = match value {
        Value::Array(entries) => Value::Array(entries),
        fields => {
            json!([{"manager": "x", "operation": "Update", "apiVersion": KIND.api_version(), "time": NOW,
            "fieldsType": "FieldsV1", "fieldsV1": fields}])
        }
    };
    let mut object = LIVE.clone();
    object.set(&["metadata", "managedFields"], entries);
    let mut changed = object.clone();
    changed.set(&["spec", "displayName"], json!("Q"));
    let write = Writer { manager: "y", subresource: "", now: NOW };
    let updated = tracker().update(Some(&object), changed.clone(), write);
    let untouched = tracker().update(Some(&LIVE), changed, write);
    let applied = json!({"apiVersion": KIND.api_version(), "kind": "Project", "metadata": {"name": "p"},
        "spec": {"displayName": "R"}});
    let merged = tracker().apply(Some(&object), &applied, true, write);
    let entries = |object: &Object| {
        object.get(&["metadata", "managedFields"]).and_then(Value::as_array).map_or(0, Vec::len)
    };
    let merged = merged.map_or_else(|error| shape(&error.to_string()), |object| entries(&object) as u64);
    Ok(outcome((entries(&updated), entries(&untouched), merged)))
}
