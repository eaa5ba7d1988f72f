//! JSON patch (RFC 6902).

use super::budget::Budget;
use super::{JSON_PATCH_OPERATIONS_MAX, PatchError, Patched, read};
use json_patch::PatchOperation;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Applies a JSON patch (RFC 6902).
pub fn json_patch(mut document: Value, patch: &[u8]) -> Result<Patched, PatchError> {
    let (patch, strict_errors) = read(patch)?;
    let operations = match patch {
        Value::Array(operations) => operations,
        // A Go server takes null for an empty list.
        Value::Null => Vec::new(),
        _ => return Err(PatchError::Malformed("a JSON patch must be a list of operations".to_owned())),
    };
    if operations.len() > JSON_PATCH_OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {JSON_PATCH_OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let (mut budget, mut revisions) = (Budget::new(), Vec::new());
    // Each operation is dropped after it was applied: together they may take much memory.
    for (index, operation) in operations.into_iter().enumerate() {
        let Value::Object(mut operation) = operation else {
            return Err(PatchError::Malformed(format!("operation {index} of the JSON patch is no object")));
        };
        let rejected =
            |error: &dyn ToString| PatchError::Rejected(format!("operation {index}: {}", error.to_string()));
        let over_budget = |error: PatchError| match error {
            PatchError::Rejected(why) => rejected(&why),
            other => other,
        };
        budget.charge_pointers(&operation).map_err(over_budget)?;
        revisions.extend(revision(&operation));
        resolve_negative_indices(&mut operation, &document);
        if tests_absent_member_for_null(&operation, &document) {
            continue;
        }
        replace_with_add(&mut operation, &document);
        let operation =
            PatchOperation::deserialize(Value::Object(operation)).map_err(|error| rejected(&error))?;
        budget.charge_operation(&operation, &document).map_err(over_budget)?;
        json_patch::patch(&mut document, std::slice::from_ref(&operation))
            .map_err(|error| rejected(&error))?;
    }
    let strict_errors = strict_errors.into_iter().map(|error| format!("json patch {error}")).collect();
    Ok(Patched { document, strict_errors, revisions })
}

/// The `metadata.resourceVersion` that an operation tests or sets.
fn revision(operation: &Map<String, Value>) -> Option<String> {
    let is_resource_version =
        operation.get("path").and_then(Value::as_str) == Some("/metadata/resourceVersion");
    operation.get("value").and_then(Value::as_str).filter(|_text| is_resource_version).map(str::to_owned)
}

/// Whether a pointer's last token names an absent member of an object. Go's library treats such a member as null: it
/// can be tested, replaced and copied.
fn lacks_member(operation: &Map<String, Value>, pointer: &str, document: &Value) -> bool {
    let path = operation.get(pointer).and_then(Value::as_str).unwrap_or_default();
    let parent = path.rsplit_once('/').and_then(|(parent, _)| document.pointer(parent));
    parent.is_some_and(Value::is_object) && document.pointer(path).is_none()
}

fn has_op(operation: &Map<String, Value>, name: &str) -> bool {
    operation.get("op").and_then(Value::as_str) == Some(name)
}

fn tests_absent_member_for_null(operation: &Map<String, Value>, document: &Value) -> bool {
    has_op(operation, "test")
        && operation.get("value").is_some_and(Value::is_null)
        && lacks_member(operation, "path", document)
}

/// Turns the replacement of an absent member into its addition, and the copy of one into the addition of null.
fn replace_with_add(operation: &mut Map<String, Value>, document: &Value) {
    let copies = has_op(operation, "copy") && lacks_member(operation, "from", document);
    if copies {
        operation.insert("value".to_owned(), Value::Null);
    }
    if copies || (has_op(operation, "replace") && lacks_member(operation, "path", document)) {
        operation.insert("op".to_owned(), Value::from("add"));
    }
}

/// Replaces negative indices such as `/-1`, which Go's library counts from the end of a list.
fn resolve_negative_indices(operation: &mut Map<String, Value>, document: &Value) {
    let adds = matches!(operation.get("op").and_then(Value::as_str), Some("add" | "copy" | "move"));
    for (member, end) in [("path", usize::from(adds)), ("from", 0)] {
        if let Some(Value::String(path)) = operation.get_mut(member)
            && path.contains("/-")
        {
            *path = without_negative_indices(path, document, end);
        }
    }
}

/// A pointer without negative indices. `end` is 1 if the index after the last item is valid, as it is for an addition.
fn without_negative_indices(path: &str, document: &Value, end: usize) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut reached = Some(document);
    let mut tokens = path.split('/').skip(1).peekable();
    while let Some(token) = tokens.next() {
        let list = reached.and_then(Value::as_array);
        let end = if tokens.peek().is_none() { end } else { 0 };
        let index = list.zip(token.strip_prefix('-').and_then(|digits| digits.parse::<usize>().ok()));
        let index = index.and_then(|(list, back)| list.len().saturating_add(end).checked_sub(back));
        let step = match index {
            Some(index) => format!("/{index}"),
            None => format!("/{token}"),
        };
        reached = reached.and_then(|value| value.pointer(&step));
        plain.push_str(&step);
    }
    plain
}
