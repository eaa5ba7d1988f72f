//! Strategic merge patch.
//!
//! The schema says how a list is merged: `ListType::Map` by its first key, `ListType::Set` as a union,
//! `ListType::Atomic` not at all. Directives in the patch take precedence.

use super::{PatchError, Patched, read, revision};
use crate::schema::{ListType, Schema, Type};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";

/// Applies a strategic merge patch: lists are merged as the schema says, unless a `$` directive of the patch says
/// otherwise.
pub fn strategic_merge_patch(document: Value, patch: &[u8], schema: &Schema) -> Result<Patched, PatchError> {
    let (patch, strict_errors) = read(patch)?;
    let revisions = revision(&patch).into_iter().collect();
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a strategic merge patch must be an object".to_owned()));
    };
    let mut map = if let Value::Object(map) = document { map } else { Map::new() };
    merge_map(&mut map, patch, Some(schema))?;
    Ok(Patched { document: Value::Object(map), strict_errors, revisions })
}

/// The patch strategy of a list field.
#[derive(Clone, Copy)]
enum Strategy<'a> {
    Replace,
    Union,
    ByKey(&'static str, &'a Schema),
}

fn strategy(schema: Option<&Schema>) -> Strategy<'_> {
    match schema.map(|schema| &schema.ty) {
        Some(Type::List { list: ListType::Set, .. }) => Strategy::Union,
        Some(Type::List { list: ListType::Map(keys), items }) => {
            keys.first().map_or(Strategy::Replace, |key| Strategy::ByKey(key, items))
        }
        _ => Strategy::Replace,
    }
}

fn malformed<T>(message: impl Into<String>) -> Result<T, PatchError> {
    Err(PatchError::Malformed(message.into()))
}

fn merge_map(
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Option<&Schema>,
) -> Result<(), PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                *original = patch;
                Ok(())
            }
            Some("delete") => {
                original.clear();
                Ok(())
            }
            _ => malformed(format!("unknown patch type: {directive}")),
        };
    }
    retain_keys(original, &mut patch)?;
    apply_set_element_orders(original, &mut patch, schema)?;
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM_LIST) {
            delete_from_list(original, list, value)?;
            continue;
        }
        let field = schema.and_then(|schema| schema.field(&key));
        match (original.get_mut(&key), value) {
            (_, Value::Null) => {
                original.remove(&key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => merge_map(old, new, field)?,
            (Some(Value::Array(old)), Value::Array(new)) => {
                let merged = merge_list(std::mem::take(old), new, strategy(field))?;
                *old = merged;
            }
            (_, new) => match without_directives(new, field)? {
                Some(value) => {
                    original.insert(key, value);
                }
                None => {
                    original.remove(&key);
                }
            },
        }
    }
    Ok(())
}

/// A new value without its directives; `None` if they ask for its deletion.
fn without_directives(value: Value, schema: Option<&Schema>) -> Result<Option<Value>, PatchError> {
    match value {
        Value::Object(map) if is_directive(&map, "delete") => Ok(None),
        Value::Object(patch) => {
            let mut map = Map::new();
            merge_map(&mut map, patch, schema)?;
            Ok(Some(Value::Object(map)))
        }
        Value::Array(list) => {
            let items = schema.and_then(Schema::items);
            let kept = list.into_iter().filter_map(|item| match item {
                Value::Object(map) if map.contains_key(DIRECTIVE) => None,
                other => without_directives(other, items).transpose(),
            });
            Ok(Some(Value::Array(kept.collect::<Result<_, _>>()?)))
        }
        other => Ok(Some(other)),
    }
}

fn is_directive(map: &Map<String, Value>, directive: &str) -> bool {
    map.get(DIRECTIVE).and_then(Value::as_str) == Some(directive)
}

/// `$retainKeys` lists the keys to keep; all others are removed.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let error = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::Array(retained) = retained else { return Err(error()) };
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_stray = |(key, value): (&String, &Value)| {
        !(value.is_null()
            || key.starts_with(DELETE_FROM_LIST)
            || key.starts_with(SET_ELEMENT_ORDER)
            || retained.contains(key.as_str()))
    };
    if patch.iter().any(is_stray) {
        return Err(error());
    }
    original.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

fn delete_from_list(original: &mut Map<String, Value>, list: &str, deleted: Value) -> Result<(), PatchError> {
    let Value::Array(deleted) = deleted else { return malformed("invalid patch format of primitive list") };
    if let Some(Value::Array(items)) = original.get_mut(list) {
        let deleted: BTreeSet<String> = deleted.iter().map(Value::to_string).collect();
        items.retain(|item| !deleted.contains(&item.to_string()));
    }
    Ok(())
}

/// `$setElementOrder/LIST` gives the order of the merged list. This also merges the patch of that list.
fn apply_set_element_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Option<&Schema>,
) -> Result<(), PatchError> {
    let orders: Vec<String> =
        patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in orders {
        let wrong = || PatchError::Malformed("invalid patch format of setElementOrder list".to_owned());
        let Some(Value::Array(order)) = patch.remove(&directive) else { return Err(wrong()) };
        let name = directive.strip_prefix(SET_ELEMENT_ORDER).unwrap_or_default();
        let field = schema.and_then(|schema| schema.field(name));
        let strategy = strategy(field);
        let key = match strategy {
            Strategy::ByKey(key, _) => Some(key),
            _ => None,
        };
        let patched = match patch.remove(name) {
            None => None,
            Some(Value::Array(list)) => Some(list),
            Some(_) => return Err(wrong()),
        };
        if let Some(list) = &patched {
            check_order(list, &order, key)?;
        }
        let server = match original.get(name) {
            None => None,
            Some(Value::Array(list)) => Some(list.clone()),
            Some(_) => return Err(wrong()),
        };
        let server_positions = Positions::of(server.as_deref().unwrap_or_default(), key);
        let merged = match (server, patched) {
            (None, None) => continue,
            (Some(list), None) => list,
            (None, Some(list)) => match without_directives(Value::Array(list), field)? {
                Some(Value::Array(list)) => list,
                _ => continue,
            },
            (Some(old), Some(new)) => merge_list(old, new, strategy)?,
        };
        original.insert(
            name.to_owned(),
            Value::Array(in_order(merged, &Positions::of(&order, key), &server_positions, key)),
        );
    }
    Ok(())
}

/// Checks that a patch lists its items in the order of its own `$setElementOrder`.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut left = order.iter();
    for item in patch {
        if item.as_object().is_some_and(|map| map.contains_key(DIRECTIVE)) {
            continue;
        }
        let wanted = item_key(item, key);
        if wanted.is_none() || !left.any(|other| item_key(other, key) == wanted) {
            return malformed("the order in the patch list does not match the $setElementOrder list");
        }
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    strategy: Strategy<'_>,
) -> Result<Vec<Value>, PatchError> {
    match strategy {
        Strategy::Replace => Ok(patch),
        Strategy::Union => {
            let (wanted, server) = (Positions::of(&patch, None), Positions::of(&original, None));
            let mut seen = BTreeSet::new();
            let all =
                original.into_iter().chain(patch).filter(|item| seen.insert(item.to_string())).collect();
            Ok(in_order(all, &wanted, &server, None))
        }
        Strategy::ByKey(key, items) => merge_by_key(original, patch, key, items),
    }
}

fn merge_by_key(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &'static str,
    items: &Schema,
) -> Result<Vec<Value>, PatchError> {
    let no_key = |map: &Map<String, Value>| {
        let shown = Value::Object(map.clone());
        PatchError::Malformed(format!("map: {shown} does not contain declared merge key: {key}"))
    };
    let (mut changes, mut deleted, mut replace) = (Vec::new(), BTreeSet::new(), false);
    for item in patch {
        let Value::Object(map) = item else {
            return malformed("expected a map in a list that is merged by key");
        };
        let own = map.get(key).map(Value::to_string);
        match map.get(DIRECTIVE).map(Value::as_str) {
            Some(Some("delete")) => {
                deleted.insert(own.ok_or_else(|| no_key(&map))?);
            }
            Some(Some("replace")) => replace = true,
            Some(_) => return malformed(format!("unknown patch type in a list that is merged by {key}")),
            None => changes.push((own.ok_or_else(|| no_key(&map))?, map)),
        }
    }
    if replace {
        return Ok(changes.into_iter().map(|(_, map)| Value::Object(map)).collect());
    }
    original.retain(|item| item_key(item, Some(key)).is_none_or(|own| !deleted.contains(&own)));
    let server = Positions::of(&original, Some(key));
    let mut positions = server.0.clone();
    let mut wanted = BTreeMap::new();
    for (own, map) in changes {
        let count = wanted.len();
        wanted.entry(own.clone()).or_insert(count);
        let known =
            positions.get(&own).and_then(|index| original.get_mut(*index)).and_then(Value::as_object_mut);
        if let Some(old) = known {
            merge_map(old, map, Some(items))?;
        } else {
            let mut new = Map::new();
            merge_map(&mut new, map, Some(items))?;
            positions.insert(own, original.len());
            original.push(Value::Object(new));
        }
    }
    Ok(in_order(original, &Positions(wanted), &server, Some(key)))
}

/// Orders a merged list: the items of the patch in the patch's order, the others in the server's order. Each of the
/// others goes before the first item of the patch that was behind it on the server.
fn in_order(list: Vec<Value>, wanted: &Positions, server: &Positions, key: Option<&str>) -> Vec<Value> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in list {
        let own = item_key(&item, key).unwrap_or_default();
        let at_server = server.0.get(&own).copied();
        match wanted.0.get(&own) {
            Some(position) => named.push((*position, at_server, item)),
            None => others.push((at_server, item)),
        }
    }
    named.sort_by_key(|(position, _, _)| *position);
    others.sort_by_key(|(at_server, _)| *at_server);
    let mut result = Vec::with_capacity(named.len().saturating_add(others.len()));
    let mut others = others.into_iter().peekable();
    for (_, at_server, item) in named {
        let stood_before =
            |other: &(Option<usize>, Value)| other.0.zip(at_server).is_some_and(|(a, b)| a < b);
        while let Some((_, other)) = others.next_if(stood_before) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others.map(|(_, other)| other));
    result
}

/// The positions of a list's items, by their key.
struct Positions(BTreeMap<String, usize>);

impl Positions {
    fn of(list: &[Value], key: Option<&str>) -> Self {
        let mut positions = BTreeMap::new();
        for (index, item) in list.iter().enumerate() {
            if let Some(own) = item_key(item, key) {
                positions.entry(own).or_insert(index);
            }
        }
        Self(positions)
    }
}

/// The text by which an item is identified: the value of its merge key, or the item itself.
fn item_key(item: &Value, key: Option<&str>) -> Option<String> {
    match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}
