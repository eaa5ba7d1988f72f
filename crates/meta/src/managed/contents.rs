//! What a configuration holds: whether it fits the schema, and the set of its fields.

use super::element::Element;
use super::fieldset::{FieldSet, Mark};
use super::shape::{Fields, Items, Scalar, Shape};
use crate::decode::is_line_break;
use crate::quantity::Quantity;
use crate::schema::{Schema, StringFormat, Type};
use crate::time;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// Checks a configuration; repeated items are an error. The text is upstream's: tools match on it.
pub(super) fn check(config: &Map<String, Value>, schema: &Schema) -> Result<(), String> {
    let mut errors = Vec::new();
    if let Shape::Map(fields) | Shape::AtomicMap(fields) = Shape::of(schema, None) {
        ContentsPath::Root.check_fields(config, fields, &mut errors);
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

/// Where a check is; printed only when something is wrong.
#[derive(Clone, Copy)]
enum ContentsPath<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, &'a Element),
}

impl fmt::Display for ContentsPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, element) => write!(f, "{above}{element}"),
        }
    }
}

impl ContentsPath<'_> {
    fn check_fields(self, map: &Map<String, Value>, fields: Fields<'_>, errors: &mut Vec<String>) {
        for (key, value) in map {
            let place = ContentsPath::Field(&self, key);
            match fields.get(key) {
                Some(schema) => place.check(value, schema, errors),
                None => errors.push(format!("{place}: field not declared in schema")),
            }
        }
    }

    fn check(self, value: &Value, schema: &Schema, errors: &mut Vec<String>) {
        let mut wrong = |what: &str| errors.push(format!("{self}: expected {what}, got {value}"));
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
                    let element = Element::Index(i64::try_from(index).unwrap_or_default());
                    ContentsPath::Item(&self, &element).check(item, items, errors);
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
                    errors.push(format!("{self}: element {index}: {error}"));
                    return;
                }
            };
            ContentsPath::Item(&self, &element).check(item, items.schema, errors);
            if seen.contains(&element) {
                errors.push(format!("{self}: duplicate entries for key {element}"));
            }
            seen.insert(element);
        }
    }
}

/// A configuration with quantities, times and bytes as they are stored: the same value written in another way must
/// not count as another value.
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

/// The stored text of a quantity, a time or bytes, if it differs from the given one.
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

/// The set of the fields of an object.
pub(super) fn fields_of(object: &Map<String, Value>, schema: &Schema) -> Result<FieldSet, String> {
    match Shape::of(schema, None) {
        Shape::Map(fields) => fields_of_map(object, fields),
        _ => Ok(FieldSet::default()),
    }
}

fn fields_of_map(map: &Map<String, Value>, fields: Fields<'_>) -> Result<FieldSet, String> {
    let mut set = FieldSet::default();
    for (key, value) in map {
        let mut mark = match fields.get(key) {
            Some(schema) => fields_of_value(value, schema)?,
            None => Mark::MEMBER,
        };
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        mark.member |= empty || !fields.declares(key);
        set.push_field(key, mark);
    }
    Ok(set)
}

fn fields_of_value(value: &Value, schema: &Schema) -> Result<Mark, String> {
    let below = match (Shape::of(schema, Some(value)), value) {
        (Shape::Scalar(_) | Shape::AtomicMap(_) | Shape::AtomicList(_), _) => return Ok(Mark::MEMBER),
        (Shape::Map(fields), Value::Object(map)) => fields_of_map(map, fields)?,
        (Shape::List(items), Value::Array(list)) => fields_of_items(list, items)?,
        _ => FieldSet::default(),
    };
    Ok(Mark { member: false, below })
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
        set.push(element, Mark::MEMBER);
    }
    for (element, item) in elements.iter().zip(list).filter(|(element, _)| !repeated.contains(element)) {
        let mark = fields_of_value(item, items.schema)?;
        set.push(element, Mark { member: true, ..mark });
    }
    set.sort();
    Ok(set)
}

/// An object without the fields of a set.
pub(super) fn without(
    object: &Map<String, Value>,
    schema: &Schema,
    doomed: &FieldSet,
) -> Result<Map<String, Value>, String> {
    Ok(match map_without(object, Shape::of(schema, None), doomed)? {
        Value::Object(map) => map,
        _ => Map::new(),
    })
}

fn value_without(value: &Value, schema: Option<&Schema>, doomed: &FieldSet) -> Result<Value, String> {
    let Some(schema) = schema else { return Ok(value.clone()) };
    match (Shape::of(schema, Some(value)), value) {
        (Shape::Scalar(_), _) => Ok(value.clone()),
        (shape @ (Shape::Map(_) | Shape::AtomicMap(_)), Value::Object(map)) => {
            map_without(map, shape, doomed)
        }
        (Shape::List(items), Value::Array(list)) => items_without(list, items, doomed),
        _ => Ok(Value::Null),
    }
}

fn map_without(map: &Map<String, Value>, shape: Shape<'_>, doomed: &FieldSet) -> Result<Value, String> {
    let Shape::Map(fields) = shape else { return Ok(Value::Null) };
    let mut left = Map::new();
    for (key, value) in map {
        let value = match doomed.get_field(key) {
            None => value.clone(),
            Some(node) if node.member => continue,
            Some(node) if node.below.is_empty() => value.clone(),
            Some(node) => value_without(value, fields.get(key), &node.below)?,
        };
        left.insert(key.clone(), value);
    }
    Ok(if left.is_empty() { Value::Null } else { Value::Object(left) })
}

fn items_without(list: &[Value], items: Items<'_>, doomed: &FieldSet) -> Result<Value, String> {
    let mut left = Vec::new();
    for item in list {
        let element: Element = items.element(item)?;
        match doomed.get(&element) {
            None => left.push(item.clone()),
            Some(node) if node.member => {}
            Some(node) if node.below.is_empty() => left.push(item.clone()),
            Some(node) => left.push(value_without(item, Some(items.schema), &node.below)?),
        }
    }
    Ok(if left.is_empty() { Value::Null } else { Value::Array(left) })
}
