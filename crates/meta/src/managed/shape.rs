//! How the merge algorithms walk a value: as one leaf, by its fields, or by its items (`schema.Atom`).

use super::path_element::PathElement;
use crate::schema::{Field, ListType, Schema, StringFormat, Type};
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;

/// How a value of a schema is walked.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    Scalar(Scalar),
    Map(Fields<'a>),
    /// A map that is owned as one value.
    AtomicMap(Fields<'a>),
    /// A list that is owned as one value, with the schema of its items if there is one.
    AtomicList(Option<&'a Schema>),
    List(Items<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Number,
    Boolean,
    /// Any scalar: quantities, times, and values without a schema.
    Untyped,
}

/// The fields of a map.
#[derive(Clone, Copy)]
pub(super) enum Fields<'a> {
    Declared(&'a BTreeMap<&'static str, Field>),
    Free(&'a Schema),
}

/// The items of an associative list.
#[derive(Clone, Copy)]
pub(super) struct Items<'a> {
    pub(super) schema: &'a Schema,
    list: ListType,
}

impl<'a> Fields<'a> {
    pub(super) fn get(self, name: &str) -> Option<&'a Schema> {
        match self {
            Self::Declared(fields) => fields.get(name).map(|field| &field.schema),
            Self::Free(values) => Some(values),
        }
    }

    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Self::Declared(fields) => fields.contains_key(name),
            Self::Free(_) => false,
        }
    }
}

impl<'a> Shape<'a> {
    /// The shape of a value. Without a schema ([`Type::Any`]) the value decides: a map is walked by its keys, a list is
    /// one leaf.
    pub(super) fn of(schema: &'a Schema, value: Option<&Value>) -> Self {
        match &schema.ty {
            Type::Struct { fields, atomic: true, .. } => Self::AtomicMap(Fields::Declared(fields)),
            Type::Struct { fields, atomic: false, .. } => Self::Map(Fields::Declared(fields)),
            Type::Map { values, atomic: true } => Self::AtomicMap(Fields::Free(values)),
            Type::Map { values, atomic: false } => Self::Map(Fields::Free(values)),
            Type::List { items, list: ListType::Atomic } => Self::AtomicList(Some(items)),
            Type::List { items, list } => Self::List(Items { schema: items, list: *list }),
            Type::String(StringFormat::Time | StringFormat::MicroTime) | Type::Quantity => {
                Self::Scalar(Scalar::Untyped)
            }
            Type::String(_) => Self::Scalar(Scalar::Text),
            Type::Integer { .. } => Self::Scalar(Scalar::Number),
            Type::Boolean => Self::Scalar(Scalar::Boolean),
            Type::Any => match value {
                None | Some(Value::Null | Value::Object(_)) => Self::Map(Fields::Free(schema)),
                Some(Value::Array(_)) => Self::AtomicList(None),
                Some(_) => Self::Scalar(Scalar::Untyped),
            },
        }
    }

    /// Whether two values of one schema are walked in the same way.
    pub(super) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Items<'_> {
    /// The path element that identifies an item.
    pub(super) fn element(self, item: &Value) -> Result<PathElement, String> {
        let ListType::Map(keys) = self.list else { return set_element(item) };
        let Value::Object(map) = item else {
            let what = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {what}"));
        };
        let mut found: Vec<(String, Value)> = Vec::with_capacity(keys.len());
        for key in keys {
            let default = || self.schema.field(key).and_then(|field| field.default.as_ref());
            if let Some(value) = map.get(*key).or_else(default) {
                found.push(((*key).to_owned(), value.clone()));
            }
        }
        if found.is_empty() {
            let names = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ");
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{names}] (and doesn't have \
                 default values for any key fields)"
            ));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(PathElement::Key(found))
    }

    /// The path elements of a list's items, in its order.
    pub(super) fn elements(self, list: &[Value]) -> Result<Vec<PathElement>, String> {
        list.iter()
            .enumerate()
            .map(|(index, item)| self.element(item).map_err(|error| format!("element {index}: {error}")))
            .collect()
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}

/// The map, if the value is one.
pub(super) fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The list, if the value is one.
pub(super) fn as_list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

/// The keys of two sorted maps in order, each with its value in either map.
pub(super) fn zip<'a>(
    left: Option<&'a Map<String, Value>>,
    right: Option<&'a Map<String, Value>>,
) -> Zip<'a> {
    let entries = |map: Option<&'a Map<String, Value>>| map.into_iter().flatten();
    Zip { left: entries(left).peekable(), right: entries(right).peekable() }
}

type Entries<'a> = std::iter::Flatten<std::option::IntoIter<&'a Map<String, Value>>>;

pub(super) struct Zip<'a> {
    left: Peekable<Entries<'a>>,
    right: Peekable<Entries<'a>>,
}

impl<'a> Iterator for Zip<'a> {
    type Item = (&'a str, Option<&'a Value>, Option<&'a Value>);

    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.left.peek(), self.right.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let left = if order == Ordering::Greater { None } else { self.left.next() };
        let right = if order == Ordering::Less { None } else { self.right.next() };
        let (key, _) = left.or(right)?;
        Some((key.as_str(), left.map(|(_, value)| value), right.map(|(_, value)| value)))
    }
}
