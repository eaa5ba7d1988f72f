//! Values with their schema (`typed.TypedValue`): validation, field sets, and removal of fields.

use super::field_set::{FieldSet, Membership};
use super::path_element::PathElement;
use super::shape::{Fields, Items, Scalar, Shape};
use crate::decode::is_line_break;
use crate::field::{FIELD_ERRORS_MAX, PATH_BYTES_MAX, shortened};
use crate::quantity::Quantity;
use crate::schema::{Schema, StringFormat, Type};
use crate::time;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// Validates a configuration against the schema; repeated items are an error. The texts are upstream's: tools match on
/// them. There are at most [`FIELD_ERRORS_MAX`] errors, and long paths and values are cut.
pub(super) fn validate(config: &Map<String, Value>, schema: &Schema) -> Result<(), String> {
    let mut errors = Vec::new();
    if let Shape::Map(fields) | Shape::AtomicMap(fields) = Shape::of(schema, None) {
        TypedPath::Root.check_fields(config, fields, &mut errors);
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

/// The path of the value that is validated. It is formatted for error messages only.
#[derive(Clone, Copy)]
enum TypedPath<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, &'a PathElement),
}

impl fmt::Display for TypedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, element) => write!(f, "{above}{element}"),
        }
    }
}

impl TypedPath<'_> {
    /// Adds an error of this value, unless there are enough of them.
    fn report(self, errors: &mut Vec<String>, error: impl FnOnce() -> String) {
        if errors.len() < FIELD_ERRORS_MAX {
            errors.push(format!("{}: {}", shortened(&self.to_string(), PATH_BYTES_MAX), error()));
        }
    }

    fn check_fields(self, map: &Map<String, Value>, fields: Fields<'_>, errors: &mut Vec<String>) {
        for (key, value) in map {
            let path = TypedPath::Field(&self, key);
            match fields.get(key) {
                Some(schema) => path.check(value, schema, errors),
                None => path.report(errors, || "field not declared in schema".to_owned()),
            }
        }
    }

    fn check(self, value: &Value, schema: &Schema, errors: &mut Vec<String>) {
        let mut wrong = |what: &str| {
            self.report(errors, || {
                format!("expected {what}, got {}", shortened(&value.to_string(), PATH_BYTES_MAX))
            });
        };
        match (Shape::of(schema, Some(value)), value) {
            (_, Value::Null) | (Shape::AtomicList(None), Value::Array(_)) => {}
            (Shape::Scalar(scalar), value) => match (scalar, value) {
                (Scalar::Text, Value::String(_))
                | (Scalar::Number, Value::Number(_))
                | (Scalar::Boolean, Value::Bool(_))
                | (Scalar::Untyped, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {}
                (Scalar::Text, _) => wrong("string"),
                (Scalar::Number, _) => wrong("numeric (int or float)"),
                (Scalar::Boolean, _) => wrong("boolean"),
                (Scalar::Untyped, _) => wrong("any scalar"),
            },
            (Shape::Map(fields) | Shape::AtomicMap(fields), Value::Object(map)) => {
                self.check_fields(map, fields, errors);
            }
            (Shape::AtomicList(Some(items)), Value::Array(list)) => {
                for (index, item) in list.iter().enumerate() {
                    let element = PathElement::Index(i64::try_from(index).unwrap_or_default());
                    TypedPath::Item(&self, &element).check(item, items, errors);
                }
            }
            (Shape::List(items), Value::Array(list)) => self.check_items(list, items, errors),
            (Shape::Map(_) | Shape::AtomicMap(_), _) => wrong("map"),
            (Shape::List(_) | Shape::AtomicList(_), _) => wrong("list"),
        }
    }

    fn check_items(self, list: &[Value], items: Items<'_>, errors: &mut Vec<String>) {
        let mut seen = BTreeSet::new();
        for (index, item) in list.iter().enumerate() {
            let element = match items.element(item) {
                Ok(element) => element,
                Err(error) => {
                    self.report(errors, || format!("element {index}: {error}"));
                    return;
                }
            };
            TypedPath::Item(&self, &element).check(item, items.schema, errors);
            if seen.contains(&element) {
                self.report(errors, || {
                    let element = shortened(&element.to_string(), PATH_BYTES_MAX);
                    format!("duplicate entries for key {element}")
                });
            }
            seen.insert(element);
        }
    }
}

/// A configuration with quantities, times and bytes in their stored form: another notation of the same value must not
/// count as a change.
pub(super) fn normalised<'v>(config: &'v Map<String, Value>, schema: &Schema) -> Cow<'v, Map<String, Value>> {
    let normal =
        config.iter().all(|(key, value)| schema.field(key).is_none_or(|field| is_normal(value, field)));
    if normal {
        return Cow::Borrowed(config);
    }
    let mut copy = config.clone();
    normalise(&mut copy, schema);
    Cow::Owned(copy)
}

fn is_normal(value: &Value, schema: &Schema) -> bool {
    match (&schema.ty, value) {
        (Type::Struct { .. } | Type::Map { .. }, Value::Object(map)) => {
            map.iter().all(|(key, value)| schema.field(key).is_none_or(|field| is_normal(value, field)))
        }
        (Type::List { items, .. }, Value::Array(list)) => list.iter().all(|item| is_normal(item, items)),
        _ => normal_form(value, schema).is_none(),
    }
}

fn normalise(map: &mut Map<String, Value>, schema: &Schema) {
    for (key, value) in map.iter_mut() {
        if let Some(field) = schema.field(key) {
            normalise_value(value, field);
        }
    }
}

fn normalise_value(value: &mut Value, schema: &Schema) {
    match (&schema.ty, &mut *value) {
        (Type::Struct { .. } | Type::Map { .. }, Value::Object(map)) => normalise(map, schema),
        (Type::List { items, .. }, Value::Array(list)) => {
            for item in list {
                normalise_value(item, items);
            }
        }
        _ => {
            if let Some(text) = normal_form(value, schema) {
                *value = Value::String(text);
            }
        }
    }
}

/// The stored form of a quantity, a time or bytes, if it differs from the given one.
fn normal_form(value: &Value, schema: &Schema) -> Option<String> {
    let text = match (&schema.ty, value) {
        (Type::Quantity, Value::String(text)) => text.trim().parse::<Quantity>().ok()?.to_string(),
        (Type::Quantity, Value::Number(number)) => number.to_string().parse::<Quantity>().ok()?.to_string(),
        (Type::String(StringFormat::Time), Value::String(text)) => time::rfc3339(time::parse(text).ok()?),
        (Type::String(StringFormat::Bytes), Value::String(text)) => text.replace(is_line_break, ""),
        _ => return None,
    };
    (value.as_str() != Some(&text)).then_some(text)
}

/// How many fields of an object can have owners.
pub(super) fn count_fields(object: &Map<String, Value>, schema: &Schema) -> usize {
    match Shape::of(schema, None) {
        Shape::Map(fields) => count_in_map(object, fields),
        _ => 0,
    }
}

fn count_in_map(map: &Map<String, Value>, fields: Fields<'_>) -> usize {
    map.iter().map(|(key, value)| fields.get(key).map_or(1, |schema| count_in_value(value, schema))).sum()
}

fn count_in_value(value: &Value, schema: &Schema) -> usize {
    let below = match (Shape::of(schema, Some(value)), value) {
        (Shape::Map(fields), Value::Object(map)) => count_in_map(map, fields),
        (Shape::List(items), Value::Array(list)) => {
            list.iter().map(|item| count_in_value(item, items.schema)).sum()
        }
        _ => 0,
    };
    below.saturating_add(1)
}

/// The set of an object's fields (`ToFieldSet`).
pub(super) fn fields_of(object: &Map<String, Value>, schema: &Schema) -> Result<FieldSet, String> {
    match Shape::of(schema, None) {
        Shape::Map(fields) => fields_of_map(object, fields),
        _ => Ok(FieldSet::default()),
    }
}

fn fields_of_map(map: &Map<String, Value>, fields: Fields<'_>) -> Result<FieldSet, String> {
    let mut set = FieldSet::default();
    for (key, value) in map {
        let mut membership = match fields.get(key) {
            Some(schema) => fields_of_value(value, schema)?,
            None => Membership::MEMBER,
        };
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        membership.member |= empty || !fields.declares(key);
        set.push_field(key, membership);
    }
    Ok(set)
}

fn fields_of_value(value: &Value, schema: &Schema) -> Result<Membership, String> {
    let children = match (Shape::of(schema, Some(value)), value) {
        (Shape::Scalar(_) | Shape::AtomicMap(_) | Shape::AtomicList(_), _) => return Ok(Membership::MEMBER),
        (Shape::Map(fields), Value::Object(map)) => fields_of_map(map, fields)?,
        (Shape::List(items), Value::Array(list)) => fields_of_items(list, items)?,
        _ => FieldSet::default(),
    };
    Ok(Membership { member: false, children })
}

fn fields_of_items(list: &[Value], items: Items<'_>) -> Result<FieldSet, String> {
    let elements = items.elements(list)?;
    let (mut seen, mut repeated) = (BTreeSet::new(), BTreeSet::new());
    for element in &elements {
        if !seen.insert(element) {
            repeated.insert(element);
        }
    }
    let mut set = FieldSet::default();
    for element in &repeated {
        set.push(element, Membership::MEMBER);
    }
    for (element, item) in elements.iter().zip(list).filter(|(element, _)| !repeated.contains(element)) {
        let membership = fields_of_value(item, items.schema)?;
        set.push(element, Membership { member: true, ..membership });
    }
    set.sort();
    Ok(set)
}

/// An object without the fields of a set (`RemoveItems`).
pub(super) fn remove_items(
    object: &Map<String, Value>,
    schema: &Schema,
    removed: &FieldSet,
) -> Result<Map<String, Value>, String> {
    Ok(match map_without(object, Shape::of(schema, None), removed)? {
        Value::Object(map) => map,
        _ => Map::new(),
    })
}

fn value_without(value: &Value, schema: Option<&Schema>, removed: &FieldSet) -> Result<Value, String> {
    let Some(schema) = schema else { return Ok(value.clone()) };
    match (Shape::of(schema, Some(value)), value) {
        (Shape::Scalar(_), _) => Ok(value.clone()),
        (shape @ (Shape::Map(_) | Shape::AtomicMap(_)), Value::Object(map)) => {
            map_without(map, shape, removed)
        }
        (Shape::List(items), Value::Array(list)) => items_without(list, items, removed),
        _ => Ok(Value::Null),
    }
}

fn map_without(map: &Map<String, Value>, shape: Shape<'_>, removed: &FieldSet) -> Result<Value, String> {
    let Shape::Map(fields) = shape else { return Ok(Value::Null) };
    let mut left = Map::new();
    for (key, value) in map {
        let value = match removed.get_field(key) {
            None => value.clone(),
            Some(node) if node.member => continue,
            Some(node) if node.children.is_empty() => value.clone(),
            Some(node) => value_without(value, fields.get(key), &node.children)?,
        };
        left.insert(key.clone(), value);
    }
    Ok(if left.is_empty() { Value::Null } else { Value::Object(left) })
}

fn items_without(list: &[Value], items: Items<'_>, removed: &FieldSet) -> Result<Value, String> {
    let mut left = Vec::new();
    for item in list {
        let element: PathElement = items.element(item)?;
        match removed.get(&element) {
            None => left.push(item.clone()),
            Some(node) if node.member => {}
            Some(node) if node.children.is_empty() => left.push(item.clone()),
            Some(node) => left.push(value_without(item, Some(items.schema), &node.children)?),
        }
    }
    Ok(if left.is_empty() { Value::Null } else { Value::Array(left) })
}
