//! Prunes a JSON tree by a schema: removes unknown fields and nulls, checks types, and makes quantities, times and
//! bytes canonical.

use super::{DecodeError, STRICT_ERRORS_MAX};
use crate::field::{PATH_BYTES_MAX, shortened};
use crate::quantity::Quantity;
use crate::schema::{Field, Schema, StringFormat, Type};
use crate::time;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Prunes a document by its schema: removes nulls and unknown fields, and makes quantities, times and bytes canonical.
/// Returns an `unknown field "…"` for each unknown field; a wrong type is an error.
pub fn prune_and_check(value: &mut Value, schema: &Schema) -> Result<Vec<String>, DecodeError> {
    let mut unknown = Vec::new();
    PrunePath { above: None, step: PathStep::Root, owner: "" }.check(value, schema, &mut unknown)?;
    Ok(unknown)
}

/// The path of the value that is checked. It is formatted for error messages only.
#[derive(Clone, Copy)]
struct PrunePath<'a> {
    above: Option<&'a Self>,
    step: PathStep<'a>,
    /// The definition name of the innermost struct.
    owner: &'a str,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

impl PrunePath<'_> {
    fn below<'b>(&'b self, step: PathStep<'b>) -> PrunePath<'b> {
        PrunePath { above: Some(self), step, owner: self.owner }
    }

    /// `spec.clusters[0].name`, or without the indices.
    fn path(&self, with_index: bool) -> String {
        let above = self.above.map(|above| above.path(with_index)).unwrap_or_default();
        let mut path = shortened(&above, PATH_BYTES_MAX);
        match self.step {
            PathStep::Name(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&shortened(name, PATH_BYTES_MAX));
            }
            PathStep::Index(index) if with_index => path.extend(["[", &index.to_string(), "]"]),
            PathStep::Index(_) | PathStep::Root => {}
        }
        path
    }

    fn check(self, value: &mut Value, schema: &Schema, unknown: &mut Vec<String>) -> Result<(), DecodeError> {
        match (&schema.ty, &mut *value) {
            (Type::Any, _) | (Type::Boolean, Value::Bool(_)) => Ok(()),
            (Type::Struct { fields, definition, .. }, Value::Object(map)) => {
                PrunePath { owner: definition.unwrap_or(self.owner), ..self }
                    .check_fields(map, fields, unknown)
            }
            (Type::Map { values, .. }, Value::Object(map)) => {
                for (key, value) in map.iter_mut() {
                    replace_null(value, values);
                    self.below(PathStep::Name(key)).check(value, values, unknown)?;
                }
                Ok(())
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                for (index, value) in list.iter_mut().enumerate() {
                    replace_null(value, items);
                    self.below(PathStep::Index(index)).check(value, items, unknown)?;
                }
                Ok(())
            }
            (Type::String(format), Value::String(text)) => self.check_text(text, *format),
            (Type::Integer { narrow }, Value::Number(number)) => match number.as_i64() {
                Some(whole) if !narrow || i32::try_from(whole).is_ok() => Ok(()),
                _ => Err(self.wrong_type(value, schema)),
            },
            (Type::Quantity, Value::String(_) | Value::Number(_)) => {
                let quantity: Result<Quantity, _> = match &*value {
                    Value::String(text) => text.trim().parse(),
                    other => other.to_string().parse(),
                };
                let canonical = quantity.map_err(|error| self.bad_value(&error))?.to_string();
                if value.as_str() != Some(&canonical) {
                    *value = Value::String(canonical);
                }
                Ok(())
            }
            _ => Err(self.wrong_type(value, schema)),
        }
    }

    fn check_fields(
        self,
        map: &mut Map<String, Value>,
        fields: &BTreeMap<&'static str, Field>,
        unknown: &mut Vec<String>,
    ) -> Result<(), DecodeError> {
        map.retain(|key, value| {
            let known = fields.contains_key(key.as_str());
            if !known && unknown.len() < STRICT_ERRORS_MAX {
                unknown.push(format!("unknown field \"{}\"", self.below(PathStep::Name(key)).path(true)));
            }
            known && !value.is_null()
        });
        for (key, value) in map.iter_mut() {
            if let Some(field) = fields.get(key.as_str()) {
                self.below(PathStep::Name(key)).check(value, &field.schema, unknown)?;
            }
        }
        if self.owner.ends_with(".ObjectMeta") {
            map.retain(|key, value| !is_empty_metadata(key, value));
        }
        Ok(())
    }

    fn check_text(self, text: &mut String, format: StringFormat) -> Result<(), DecodeError> {
        match format {
            StringFormat::Plain | StringFormat::Enum(_) => {}
            StringFormat::Time => {
                let canonical = time::rfc3339(time::parse(text).map_err(|error| self.bad_value(&error))?);
                *text = canonical;
            }
            StringFormat::MicroTime => {
                let canonical =
                    time::rfc3339_micro(time::parse_micro(text).map_err(|error| self.bad_value(&error))?);
                *text = canonical;
            }
            StringFormat::Bytes => {
                // Go's decoder skips line breaks, and base64(1) writes them.
                text.retain(|c| !is_line_break(c));
                STANDARD.decode(text.as_bytes()).map_err(|error| self.bad_value(&error))?;
            }
        }
        Ok(())
    }

    fn bad_value(&self, error: &dyn ToString) -> DecodeError {
        DecodeError::Value { field: self.path(true), message: error.to_string() }
    }

    fn wrong_type(&self, value: &Value, schema: &Schema) -> DecodeError {
        let (owner, path) = (last_segment(self.owner), self.path(false));
        let dot = if owner.is_empty() { "" } else { "." };
        let field = if path.is_empty() { path } else { format!("{owner}{dot}{path}") };
        DecodeError::Type { found: json_type(value), field, wanted: go_type(schema) }
    }
}

/// Whether a character is a line break, which base64 text may have anywhere.
pub(crate) fn is_line_break(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// Replaces a null item with its type's zero value, as Go does.
fn replace_null(value: &mut Value, schema: &Schema) {
    if value.is_null() {
        *value = zero_value(schema).unwrap_or_default();
    }
}

/// Go's zero value of this type; `None` if it has no JSON form.
pub(super) fn zero_value(schema: &Schema) -> Option<Value> {
    match &schema.ty {
        Type::Struct { .. } | Type::Map { .. } => Some(Value::Object(Map::new())),
        Type::List { .. } => Some(Value::Array(Vec::new())),
        Type::String(StringFormat::Plain | StringFormat::Enum(_) | StringFormat::Bytes) => {
            Some(Value::from(""))
        }
        Type::Integer { .. } => Some(Value::from(0)),
        Type::Boolean => Some(Value::Bool(false)),
        Type::Quantity => Some(Value::from("0")),
        Type::String(_) | Type::Any => None,
    }
}

/// Whether a Go server, which decodes metadata into `ObjectMeta`, would leave this field out when it encodes it again.
fn is_empty_metadata(key: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty() && key != "managedFields",
        Value::Object(map) => map.is_empty(),
        Value::Number(_) => key == "generation" && value.as_i64() == Some(0),
        _ => false,
    }
}

fn json_type(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn go_type(schema: &Schema) -> String {
    match &schema.ty {
        Type::Struct { definition: Some(name), .. } => {
            let mut parts = name.rsplit('.');
            match (parts.next(), parts.next()) {
                (Some(kind), Some(version)) => format!("{version}.{kind}"),
                _ => (*name).to_owned(),
            }
        }
        Type::Struct { .. } => "struct".to_owned(),
        Type::Map { values, .. } => format!("map[string]{}", go_type(values)),
        Type::List { items, .. } => format!("[]{}", go_type(items)),
        Type::String(StringFormat::Time) => "v1.Time".to_owned(),
        Type::String(StringFormat::MicroTime) => "v1.MicroTime".to_owned(),
        Type::String(StringFormat::Bytes) => "[]uint8".to_owned(),
        Type::String(_) => "string".to_owned(),
        Type::Integer { narrow: true } => "int32".to_owned(),
        Type::Integer { narrow: false } => "int64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::Any => "interface {}".to_owned(),
    }
}

fn last_segment(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}
