//! JSON patch (RFC 6902).

use super::{JSON_PATCH_COPY_BYTES_MAX, JSON_PATCH_OPERATIONS_MAX, PatchError, Patched, read};
use json_patch::PatchOperation;
use serde::Deserialize;
use serde_json::Value;

/// Applies a JSON patch (RFC 6902).
pub fn json_patch(document: &Value, patch: &[u8]) -> Result<Patched, PatchError> {
    let (patch, strict_errors) = read(patch)?;
    let Value::Array(operations) = patch else {
        return Err(PatchError::Malformed("a JSON patch must be a list of operations".to_owned()));
    };
    if operations.len() > JSON_PATCH_OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {JSON_PATCH_OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut document = document.clone();
    let mut copied = 0_usize;
    for (index, operation) in operations.iter().enumerate() {
        if !operation.is_object() {
            return Err(PatchError::Malformed(format!("operation {index} of the JSON patch is no object")));
        }
        let rejected =
            |error: &dyn ToString| PatchError::Rejected(format!("operation {index}: {}", error.to_string()));
        let operation = PatchOperation::deserialize(operation).map_err(|error| rejected(&error))?;
        if let PatchOperation::Copy(copy) = &operation {
            let source = copy.from.resolve(&document).map_err(|error| rejected(&error))?;
            copied = copied.saturating_add(source.to_string().len());
            if copied > JSON_PATCH_COPY_BYTES_MAX {
                return Err(rejected(&"the copies are larger than allowed"));
            }
        }
        json_patch::patch(&mut document, std::slice::from_ref(&operation))
            .map_err(|error| rejected(&error))?;
    }
    let strict_errors = strict_errors.into_iter().map(|error| format!("json patch {error}")).collect();
    Ok(Patched { document, strict_errors })
}
