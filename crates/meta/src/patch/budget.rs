//! Bounds on what a JSON patch does to a document: copies, reaches into long lists, and depth. A patch of few bytes
//! can do much.

use super::{JSON_PATCH_COPY_BYTES_MAX, JSON_PATCH_COPY_WEIGHT_MAX, JSON_PATCH_WORK_MAX, PatchError};
use crate::decode::{DEPTH_MAX, weight};
use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::{Map, Value};

/// What the operations of a patch may still do.
pub(super) struct Budget {
    copied: usize,
    /// Memory that copies may still take.
    weight: usize,
    work: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            copied: JSON_PATCH_COPY_BYTES_MAX,
            weight: JSON_PATCH_COPY_WEIGHT_MAX,
            work: JSON_PATCH_WORK_MAX,
        }
    }

    /// Pays for the pointers of an operation, before they are followed. No pointer that leads anywhere is longer than
    /// a document is deep.
    pub(super) fn read(&mut self, operation: &Map<String, Value>) -> Result<(), PatchError> {
        for pointer in ["path", "from"].into_iter().filter_map(|member| operation.get(member)?.as_str()) {
            let tokens = pointer.matches('/').count();
            if tokens > DEPTH_MAX {
                return Err(too_deep());
            }
            self.work(tokens)?;
        }
        Ok(())
    }

    /// Pays for an operation before it is done.
    pub(super) fn spend(&mut self, operation: &PatchOperation, document: &Value) -> Result<(), PatchError> {
        self.reach(operation.path(), document)?;
        let value = match operation {
            PatchOperation::Test(_) | PatchOperation::Remove(_) => return Ok(()),
            PatchOperation::Add(add) => &add.value,
            PatchOperation::Replace(replace) => &replace.value,
            PatchOperation::Move(moved) => {
                self.reach(&moved.from, document)?;
                source(&moved.from, document)?
            }
            PatchOperation::Copy(copy) => {
                let value = source(&copy.from, document)?;
                let too_large = || rejected("the copies are larger than allowed");
                self.copied = self.copied.checked_sub(value.to_string().len()).ok_or_else(too_large)?;
                self.weight = self.weight.checked_sub(weight(value)).ok_or_else(too_large)?;
                value
            }
        };
        let room = DEPTH_MAX.checked_sub(operation.path().count());
        room.ok_or_else(too_deep).and_then(|room| self.fit(value, room))
    }

    /// Items of a list move when one comes or goes.
    fn reach(&mut self, pointer: &Pointer, document: &Value) -> Result<(), PatchError> {
        let list =
            pointer.parent().and_then(|parent| document.pointer(parent.as_str())).and_then(Value::as_array);
        self.work(list.map_or(0, Vec::len))
    }

    /// Whether a value nests no deeper than there is room; each of its parts is looked at.
    fn fit(&mut self, value: &Value, room: usize) -> Result<(), PatchError> {
        self.work(1)?;
        let below = || room.checked_sub(1).ok_or_else(too_deep);
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.fit(item, below()?)),
            Value::Object(map) => map.values().try_for_each(|value| self.fit(value, below()?)),
            _ => Ok(()),
        }
    }

    fn work(&mut self, steps: usize) -> Result<(), PatchError> {
        self.work = self.work.checked_sub(steps).ok_or_else(|| {
            PatchError::TooLarge("the operations of the JSON patch move too many items".to_owned())
        })?;
        Ok(())
    }
}

fn source<'a>(from: &Pointer, document: &'a Value) -> Result<&'a Value, PatchError> {
    document.pointer(from.as_str()).ok_or_else(|| rejected("there is nothing at from"))
}

fn too_deep() -> PatchError {
    rejected(&format!("exceeded max depth of {DEPTH_MAX}"))
}

fn rejected(why: &str) -> PatchError {
    PatchError::Rejected(why.to_owned())
}
