//! Merges a configuration into an object, field by field.

use super::path_element::PathElement;
use super::shape::{Fields, Items, Shape};
use crate::schema::Schema;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Merges a configuration into a copy of an object. The copy has no `managedFields`.
pub(super) fn merge(
    live: &Map<String, Value>,
    config: &Map<String, Value>,
    schema: &Schema,
) -> Result<Map<String, Value>, String> {
    let mut merged = Map::new();
    for (key, value) in live {
        let value = match value {
            Value::Object(metadata) if key == "metadata" => {
                let kept = metadata.iter().filter(|(key, _)| *key != "managedFields");
                Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            other => other.clone(),
        };
        merged.insert(key.clone(), value);
    }
    if let Shape::Map(fields) = Shape::of(schema, None) {
        merge_fields(&mut merged, config, fields)?;
    }
    Ok(merged)
}

fn merge_fields(
    live: &mut Map<String, Value>,
    config: &Map<String, Value>,
    fields: Fields<'_>,
) -> Result<(), String> {
    for (key, new) in config {
        match (live.get_mut(key), fields.get(key)) {
            (Some(old), Some(schema)) => merge_value(old, new, schema)?,
            (Some(old), None) => old.clone_from(new),
            (None, _) => {
                live.insert(key.clone(), new.clone());
            }
        }
    }
    Ok(())
}

fn merge_value(live: &mut Value, config: &Value, schema: &Schema) -> Result<(), String> {
    if live == config {
        return Ok(());
    }
    // A null is ignored where the live value is a map or list that is not empty; anywhere else it is a value.
    let is_ignored = config.is_null() && !is_empty(live);
    match (Shape::of(schema, Some(config)), &mut *live, config) {
        (Shape::Map(fields), Value::Object(old), Value::Object(new)) => merge_fields(old, new, fields)?,
        (Shape::List(items), Value::Array(old), Value::Array(new)) if !old.is_empty() || !new.is_empty() => {
            *old = merge_lists(old, new, items)?;
        }
        (Shape::Map(_), Value::Object(_), _) | (Shape::List(_), Value::Array(_), _) if is_ignored => {}
        _ => live.clone_from(config),
    }
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    }
}

/// The positions of a list's items by their path element; `None` for a repeated element.
type Positions<'a> = BTreeMap<&'a PathElement, Option<usize>>;

struct ListMerge<'a> {
    live: &'a [Value],
    config: &'a [Value],
    live_positions: Positions<'a>,
    config_positions: Positions<'a>,
    items: Items<'a>,
}

impl ListMerge<'_> {
    /// The merged item of both lists. A repeated live item is replaced by the configuration's item.
    fn merged_item(&self, element: &PathElement) -> Result<Option<Value>, String> {
        let at = |list: &'_ [Value], positions: &Positions<'_>| -> Option<Value> {
            positions.get(element).copied().flatten().and_then(|position| list.get(position)).cloned()
        };
        let (live, config) = (at(self.live, &self.live_positions), at(self.config, &self.config_positions));
        match (live, config) {
            (Some(mut merged), Some(config)) => {
                merge_value(&mut merged, &config, self.items.schema)?;
                Ok(Some(merged))
            }
            (live, config) => Ok(config.or(live)),
        }
    }
}

/// Merges two associative lists. The configuration's items keep their order. The other items keep their place between
/// them.
fn merge_lists(live: &[Value], config: &[Value], items: Items<'_>) -> Result<Vec<Value>, String> {
    let (live_elements, config_elements) = (items.elements(live)?, items.elements(config)?);
    let lists = ListMerge {
        live,
        config,
        live_positions: positions(&live_elements),
        config_positions: positions(&config_elements),
        items,
    };
    if let Some(element) =
        config_elements.iter().find(|element| lists.config_positions.get(element) == Some(&None))
    {
        return Err(format!("duplicate entries for key {element}"));
    }
    let mut shared = config_elements.iter().filter(|element| lists.live_positions.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let (mut at_live, mut at_config) = (0_usize, 0_usize);
    loop {
        let (left, right) = (live_elements.get(at_live), config_elements.get(at_config));
        if let (Some(left), Some(right)) = (left, right) {
            if left == right {
                done.insert(right);
                merged.extend(lists.merged_item(right)?);
                at_live += 1;
                at_config += 1;
                next_shared = shared.next();
                continue;
            }
            if lists.config_positions.contains_key(left) && next_shared.is_some_and(|next| next != left) {
                // The configuration has the item at a later position.
                at_live += 1;
                continue;
            }
        }
        if let Some(left) = left {
            if !lists.config_positions.contains_key(left) {
                merged.extend(live.get(at_live).cloned());
                at_live += 1;
                continue;
            }
            if done.contains(left) {
                at_live += 1;
            }
        }
        match right {
            Some(right) => {
                done.insert(right);
                merged.extend(lists.merged_item(right)?);
                at_config += 1;
                if next_shared == Some(right) {
                    next_shared = shared.next();
                }
            }
            None if left.is_none() => return Ok(merged),
            None => {}
        }
    }
}

fn positions(elements: &[PathElement]) -> Positions<'_> {
    let mut positions = Positions::new();
    for (index, element) in elements.iter().enumerate() {
        positions.entry(element).and_modify(|position| *position = None).or_insert(Some(index));
    }
    positions
}
