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
        // A Go server reads it so.
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
    // Each goes when it is done: all of them may be much.
    for (index, operation) in operations.into_iter().enumerate() {
        let Value::Object(mut operation) = operation else {
            return Err(PatchError::Malformed(format!("operation {index} of the JSON patch is no object")));
        };
        let rejected =
            |error: &dyn ToString| PatchError::Rejected(format!("operation {index}: {}", error.to_string()));
        let unpaid = |error: PatchError| match error {
            PatchError::Rejected(why) => rejected(&why),
            other => other,
        };
        budget.read(&operation).map_err(unpaid)?;
        revisions.extend(revision(&operation));
        from_the_end(&mut operation, &document);
        if tests_for_nothing(&operation, &document) {
            continue;
        }
        add_instead(&mut operation, &document);
        let operation =
            PatchOperation::deserialize(Value::Object(operation)).map_err(|error| rejected(&error))?;
        budget.spend(&operation, &document).map_err(unpaid)?;
        json_patch::patch(&mut document, std::slice::from_ref(&operation))
            .map_err(|error| rejected(&error))?;
    }
    let strict_errors = strict_errors.into_iter().map(|error| format!("json patch {error}")).collect();
    Ok(Patched { document, strict_errors, revisions })
}

/// The revision that an operation tests or writes.
fn revision(operation: &Map<String, Value>) -> Option<String> {
    let is_it = operation.get("path").and_then(Value::as_str) == Some("/metadata/resourceVersion");
    operation.get("value").and_then(Value::as_str).filter(|_text| is_it).map(str::to_owned)
}

/// Whether a pointer ends at an object that has no such member. Go's library takes the member for null: it can be
/// tested, replaced and copied.
fn lacks_member(operation: &Map<String, Value>, pointer: &str, document: &Value) -> bool {
    let path = operation.get(pointer).and_then(Value::as_str).unwrap_or_default();
    let parent = path.rsplit_once('/').and_then(|(parent, _)| document.pointer(parent));
    parent.is_some_and(Value::is_object) && document.pointer(path).is_none()
}

fn is(operation: &Map<String, Value>, name: &str) -> bool {
    operation.get("op").and_then(Value::as_str) == Some(name)
}

fn tests_for_nothing(operation: &Map<String, Value>, document: &Value) -> bool {
    is(operation, "test")
        && operation.get("value").is_some_and(Value::is_null)
        && lacks_member(operation, "path", document)
}

/// Replacing a member that is absent becomes adding it, and copying one becomes adding null.
fn add_instead(operation: &mut Map<String, Value>, document: &Value) {
    let copies = is(operation, "copy") && lacks_member(operation, "from", document);
    if copies {
        operation.insert("value".to_owned(), Value::Null);
    }
    if copies || (is(operation, "replace") && lacks_member(operation, "path", document)) {
        operation.insert("op".to_owned(), Value::from("add"));
    }
}

/// Replaces indices such as `/-1`, which Go's library counts from the list's end.
fn from_the_end(operation: &mut Map<String, Value>, document: &Value) {
    let adds = matches!(operation.get("op").and_then(Value::as_str), Some("add" | "copy" | "move"));
    for (member, room) in [("path", usize::from(adds)), ("from", 0)] {
        if let Some(Value::String(path)) = operation.get_mut(member)
            && path.contains("/-")
        {
            *path = plain_pointer(path, document, room);
        }
    }
}

/// A pointer without negative indices. `room` is the place behind the last one, which can be added to.
fn plain_pointer(path: &str, document: &Value, room: usize) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut reached = Some(document);
    let mut tokens = path.split('/').skip(1).peekable();
    while let Some(token) = tokens.next() {
        let list = reached.and_then(Value::as_array);
        let room = if tokens.peek().is_none() { room } else { 0 };
        let index = list.zip(token.strip_prefix('-').and_then(|digits| digits.parse::<usize>().ok()));
        let index = index.and_then(|(list, back)| list.len().saturating_add(room).checked_sub(back));
        let step = match index {
            Some(index) => format!("/{index}"),
            None => format!("/{token}"),
        };
        reached = reached.and_then(|value| value.pointer(&step));
        plain.push_str(&step);
    }
    plain
}
