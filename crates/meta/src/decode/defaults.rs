//! Defaults for fields that a body leaves out.

use super::prune::zero_value;
use crate::object::Object;
use crate::schema::{Schema, Type};
use serde_json::{Map, Value};

/// Sets the schema's defaults, and the zero values of fields that are always written.
pub fn apply_defaults(object: &mut Object, schema: &Schema) {
    fill_fields(object.as_map_mut(), schema);
}

fn fill(value: &mut Value, schema: &Schema) {
    match (&schema.ty, value) {
        (Type::Struct { .. }, Value::Object(map)) => fill_fields(map, schema),
        (Type::Map { values, .. }, Value::Object(map)) => {
            for value in map.values_mut() {
                fill(value, values);
            }
        }
        (Type::List { items, .. }, Value::Array(list)) => {
            for item in list {
                fill(item, items);
            }
        }
        _ => {}
    }
}

fn fill_fields(map: &mut Map<String, Value>, schema: &Schema) {
    let Type::Struct { fields, .. } = &schema.ty else { return };
    for (name, field) in fields {
        if map.get(*name).is_none_or(Value::is_null) {
            let default =
                field.schema.default.clone().or_else(|| zero_value(&field.schema).filter(|_| field.always));
            if let Some(value) = default {
                map.insert((*name).to_owned(), value);
            }
        }
        if let Some(value) = map.get_mut(*name) {
            fill(value, &field.schema);
        }
    }
}
