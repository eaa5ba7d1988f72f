//! Limits what a JSON patch may do to a document: copies, moves of list items, and nesting depth. Even a small patch
//! can do a lot of work.

use super::{JSON_PATCH_COPY_BYTES_MAX, JSON_PATCH_COPY_MEMORY_MAX, JSON_PATCH_STEPS_MAX, PatchError};
use crate::decode::{DEPTH_MAX, heap_bytes};
use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::{Map, Value};

/// The part of the limits that the operations of a patch have not used yet.
pub(super) struct Budget {
    /// Bytes of text that copies may still add.
    copy_bytes: usize,
    /// Bytes of memory that copies may still take.
    copy_memory: usize,
    steps: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            copy_bytes: JSON_PATCH_COPY_BYTES_MAX,
            copy_memory: JSON_PATCH_COPY_MEMORY_MAX,
            steps: JSON_PATCH_STEPS_MAX,
        }
    }

    /// Charges the pointers of an operation, before they are resolved. A pointer that is longer than a document may be
    /// deep cannot resolve.
    pub(super) fn charge_pointers(&mut self, operation: &Map<String, Value>) -> Result<(), PatchError> {
        for pointer in ["path", "from"].into_iter().filter_map(|member| operation.get(member)?.as_str()) {
            let tokens = pointer.matches('/').count();
            if tokens > DEPTH_MAX {
                return Err(too_deep());
            }
            self.charge_steps(tokens)?;
        }
        Ok(())
    }

    /// Charges an operation before it is applied.
    pub(super) fn charge_operation(
        &mut self,
        operation: &PatchOperation,
        document: &Value,
    ) -> Result<(), PatchError> {
        self.charge_list(operation.path(), document)?;
        let value = match operation {
            PatchOperation::Test(_) | PatchOperation::Remove(_) => return Ok(()),
            PatchOperation::Add(add) => &add.value,
            PatchOperation::Replace(replace) => &replace.value,
            PatchOperation::Move(moved) => {
                self.charge_list(&moved.from, document)?;
                value_at(&moved.from, document)?
            }
            PatchOperation::Copy(copy) => {
                let value = value_at(&copy.from, document)?;
                let too_large = || rejected("the copies are larger than allowed");
                self.copy_bytes =
                    self.copy_bytes.checked_sub(value.to_string().len()).ok_or_else(too_large)?;
                self.copy_memory = self.copy_memory.checked_sub(heap_bytes(value)).ok_or_else(too_large)?;
                value
            }
        };
        let depth_left = DEPTH_MAX.checked_sub(operation.path().count());
        depth_left.ok_or_else(too_deep).and_then(|depth_left| self.charge_value(value, depth_left))
    }

    /// Charges the items of the list that a pointer leads into: they move when one is inserted or removed.
    fn charge_list(&mut self, pointer: &Pointer, document: &Value) -> Result<(), PatchError> {
        let list =
            pointer.parent().and_then(|parent| document.pointer(parent.as_str())).and_then(Value::as_array);
        self.charge_steps(list.map_or(0, Vec::len))
    }

    /// Charges each part of a value. Fails if the value nests deeper than `depth_left`.
    fn charge_value(&mut self, value: &Value, depth_left: usize) -> Result<(), PatchError> {
        self.charge_steps(1)?;
        let below = || depth_left.checked_sub(1).ok_or_else(too_deep);
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.charge_value(item, below()?)),
            Value::Object(map) => map.values().try_for_each(|value| self.charge_value(value, below()?)),
            _ => Ok(()),
        }
    }

    fn charge_steps(&mut self, steps: usize) -> Result<(), PatchError> {
        self.steps = self.steps.checked_sub(steps).ok_or_else(|| {
            PatchError::TooLarge("the operations of the JSON patch move too many items".to_owned())
        })?;
        Ok(())
    }
}

fn value_at<'a>(from: &Pointer, document: &'a Value) -> Result<&'a Value, PatchError> {
    document.pointer(from.as_str()).ok_or_else(|| rejected("there is nothing at from"))
}

fn too_deep() -> PatchError {
    rejected(&format!("exceeded max depth of {DEPTH_MAX}"))
}

fn rejected(why: &str) -> PatchError {
    PatchError::Rejected(why.to_owned())
}
