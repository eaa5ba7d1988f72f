//! A configuration merged into an object, field by field.

use super::element::Element;
use super::shape::{Fields, Items, Shape, as_list, as_map, zip};
use crate::schema::Schema;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Merges a configuration into an object.
pub(super) fn merge(
    live: &Map<String, Value>,
    config: &Map<String, Value>,
    schema: &Schema,
) -> Result<Map<String, Value>, String> {
    match Shape::of(schema, None) {
        Shape::Map(fields) => merge_fields(Some(live), Some(config), fields),
        _ => Ok(config.clone()),
    }
}

fn merge_fields(
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
    fields: Fields<'_>,
) -> Result<Map<String, Value>, String> {
    let mut merged = Map::new();
    for (key, live, config) in zip(live, config) {
        let value = match fields.get(key) {
            Some(schema) => merge_values(live, config, schema)?,
            None => config.or(live).cloned(),
        };
        if let Some(value) = value {
            merged.insert(key.to_owned(), value);
        }
    }
    Ok(merged)
}

fn merge_values(
    live: Option<&Value>,
    config: Option<&Value>,
    schema: &Schema,
) -> Result<Option<Value>, String> {
    let (Some(old), Some(new)) = (live, config) else { return Ok(config.or(live).cloned()) };
    match Shape::of(schema, config) {
        Shape::Scalar(_) | Shape::AtomicMap(_) | Shape::AtomicList(_) => Ok(Some(new.clone())),
        Shape::Map(fields) => {
            let (old_map, new_map) = (as_map(live), as_map(config));
            if old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty) {
                return Ok(Some(new.clone()));
            }
            let merged = merge_fields(old_map, new_map, fields)?;
            Ok(if merged.is_empty() { None } else { Some(Value::Object(merged)) })
        }
        Shape::List(items) => {
            let (old_list, new_list) =
                (as_list(live).unwrap_or_default(), as_list(config).unwrap_or_default());
            if old_list.is_empty() && new_list.is_empty() {
                return Ok(Some(new.clone()));
            }
            if old == new {
                return Ok(Some(new.clone()));
            }
            let merged = merge_lists(old_list, new_list, items)?;
            Ok(if merged.is_empty() { None } else { Some(Value::Array(merged)) })
        }
    }
}

/// Where the items of a list stand; `None` where an element is repeated.
type Places<'a> = BTreeMap<&'a Element, Option<usize>>;

struct Lists<'a> {
    live: &'a [Value],
    config: &'a [Value],
    live_places: Places<'a>,
    config_places: Places<'a>,
    items: Items<'a>,
}

impl Lists<'_> {
    /// The item of both lists merged. A repeated live item is replaced by the configuration's.
    fn merged(&self, element: &Element) -> Result<Option<Value>, String> {
        let at = |list: &'_ [Value], places: &Places<'_>| -> Option<Value> {
            places.get(element).copied().flatten().and_then(|place| list.get(place)).cloned()
        };
        let (live, config) = (at(self.live, &self.live_places), at(self.config, &self.config_places));
        merge_values(live.as_ref(), config.as_ref(), self.items.schema)
    }
}

/// Merges two associative lists. The configuration's items keep their order; the others stay where they stood between them.
fn merge_lists(live: &[Value], config: &[Value], items: Items<'_>) -> Result<Vec<Value>, String> {
    let (live_elements, config_elements) = (items.elements(live)?, items.elements(config)?);
    let lists = Lists {
        live,
        config,
        live_places: places(&live_elements),
        config_places: places(&config_elements),
        items,
    };
    if let Some(element) =
        config_elements.iter().find(|element| lists.config_places.get(element) == Some(&None))
    {
        return Err(format!("duplicate entries for key {element}"));
    }
    let mut shared = config_elements.iter().filter(|element| lists.live_places.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let (mut at_live, mut at_config) = (0_usize, 0_usize);
    loop {
        let (left, right) = (live_elements.get(at_live), config_elements.get(at_config));
        if let (Some(left), Some(right)) = (left, right) {
            if left == right {
                done.insert(right);
                merged.extend(lists.merged(right)?);
                at_live += 1;
                at_config += 1;
                next_shared = shared.next();
                continue;
            }
            if lists.config_places.contains_key(left) && next_shared.is_some_and(|next| next != left) {
                // Shared, but its turn has not come.
                at_live += 1;
                continue;
            }
        }
        if let Some(left) = left {
            if !lists.config_places.contains_key(left) {
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
                merged.extend(lists.merged(right)?);
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

fn places(elements: &[Element]) -> Places<'_> {
    let mut places = Places::new();
    for (index, element) in elements.iter().enumerate() {
        places.entry(element).and_modify(|place| *place = None).or_insert(Some(index));
    }
    places
}
