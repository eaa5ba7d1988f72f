//! JSON patch, merge patch, strategic merge patch.

mod budget;
mod json;
mod strategic;

use crate::decode::{self, DecodeError, Media};
use crate::status::Status;
use serde_json::{Map, Value};

pub use json::json_patch;
pub use strategic::strategic_merge_patch;

/// The maximum number of operations of a JSON patch.
pub const JSON_PATCH_OPERATIONS_MAX: usize = 10_000;
/// The maximum number of bytes of text that all copy operations of a JSON patch together may add to a document.
pub const JSON_PATCH_COPY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The maximum number of bytes of memory that these copies may take.
pub const JSON_PATCH_COPY_MEMORY_MAX: usize = 32 * 1024 * 1024;
/// The maximum number of steps of all operations of a JSON patch together: list items that are moved, and parts of
/// values that are put into the document.
pub const JSON_PATCH_STEPS_MAX: usize = 20_000_000;

/// A patched document.
#[derive(Clone, Debug, PartialEq)]
pub struct Patched {
    /// The document. The caller has to prune it (see [`crate::decode::prune_and_check`]).
    pub document: Value,
    /// A `duplicate field "…"` for each repeated key of the patch.
    pub strict_errors: Vec<String>,
    /// The values that the patch tests or sets as `metadata.resourceVersion`.
    pub revisions: Vec<String>,
}

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch itself cannot be read.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// 413: a limit is exceeded.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// 422: the patch does not fit the document. The reason is for logs; clients get Go's general text.
    #[error("the server rejected our request due to an error in our request")]
    Rejected(String),
}

impl PatchError {
    /// The answer to the client.
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed(_) => Status::bad_request(self.to_string()),
            Self::TooLarge(_) => Status::too_large(self.to_string()),
            Self::Rejected(_) => Status::failure(422, "Invalid", self.to_string()).with_causes(Vec::new()),
        }
    }
}

/// Applies a merge patch (RFC 7386).
pub fn merge_patch(mut document: Value, patch: &[u8]) -> Result<Patched, PatchError> {
    let (patch, strict_errors) = read(patch)?;
    if !patch.is_object() {
        return Err(PatchError::Malformed("a merge patch must be an object".to_owned()));
    }
    let revisions = revision(&patch).into_iter().collect();
    merge(&mut document, patch);
    Ok(Patched { document, strict_errors, revisions })
}

/// The `metadata.resourceVersion` of a patch that is merged into an object.
fn revision(patch: &Value) -> Option<String> {
    patch.get("metadata")?.get("resourceVersion")?.as_str().map(str::to_owned)
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = without_nulls(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(&key);
        } else {
            merge(map.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// A value without the nulls in its objects: a Go server removes them, although RFC 7386 would keep them in a list.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        other => other,
    }
}

fn read(patch: &[u8]) -> Result<(Value, Vec<String>), PatchError> {
    decode::decode_value(patch, Media::Json)
        .map_err(|error: DecodeError| PatchError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests;
