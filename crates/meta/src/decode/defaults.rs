//! Defaults for fields that a body leaves out.

use super::DecodeError;
use super::memory::{entry_bytes, heap_bytes};
use super::prune::zero_value;
use crate::object::Object;
use crate::schema::{Schema, Type};
use serde_json::{Map, Value};

/// Bytes of memory that the defaults of an object may take: those of 10,000 empty items of a list. A body of 3 MiB has
/// space for a million, each of which takes 700 bytes once its fields are there.
const DEFAULTS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Sets the schema's defaults, and the zero values of fields that are always written. An error if they take too much
/// memory.
pub fn apply_defaults(object: &mut Object, schema: &Schema) -> Result<(), DecodeError> {
    Defaults { memory_left: DEFAULTS_BYTES_MAX }.fill_fields(object.as_map_mut(), schema)
}

struct Defaults {
    /// Bytes of memory that they may still take.
    memory_left: usize,
}

impl Defaults {
    fn fill(&mut self, value: &mut Value, schema: &Schema) -> Result<(), DecodeError> {
        match (&schema.ty, value) {
            (Type::Struct { .. }, Value::Object(map)) => self.fill_fields(map, schema),
            (Type::Map { values, .. }, Value::Object(map)) => {
                map.values_mut().try_for_each(|value| self.fill(value, values))
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                list.iter_mut().try_for_each(|item| self.fill(item, items))
            }
            _ => Ok(()),
        }
    }

    fn fill_fields(&mut self, map: &mut Map<String, Value>, schema: &Schema) -> Result<(), DecodeError> {
        let Type::Struct { fields, .. } = &schema.ty else { return Ok(()) };
        for (name, field) in fields {
            if map.get(*name).is_none_or(Value::is_null) {
                let default = field
                    .schema
                    .default
                    .clone()
                    .or_else(|| zero_value(&field.schema).filter(|_| field.always));
                if let Some(value) = default {
                    self.charge(entry_bytes(map.len()).saturating_add(name.len()))?;
                    self.charge(heap_bytes(&value))?;
                    map.insert((*name).to_owned(), value);
                }
            }
            if let Some(value) = map.get_mut(*name) {
                self.fill(value, &field.schema)?;
            }
        }
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let left = self.memory_left.checked_sub(bytes);
        self.memory_left = left.ok_or_else(|| {
            DecodeError::Syntax("the document takes too much memory with its defaults".to_owned())
        })?;
        Ok(())
    }
}
