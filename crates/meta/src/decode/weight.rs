//! What documents take in memory, which is many times their text: `{"":0}` takes 640 bytes.

use super::Media;
use serde_json::Value;

/// A leaf of the tree that a map is kept in, as the allocator gives it.
const LEAF: usize = 640;
/// A leaf holds as many entries, or more.
const LEAF_ENTRIES: usize = 6;
/// A value, in a list.
const SLOT: usize = size_of::<Value>();
/// A list has room for so many as soon as it has one.
const LIST_MIN: usize = 4;
/// What another item or entry takes: a slot of a list that has doubled or the share of a leaf, and the least text.
const NEXT: usize = 128;

/// What a map of so many entries takes for one more.
pub(super) fn next_entry(entries: usize) -> usize {
    if entries.is_multiple_of(LEAF_ENTRIES) { LEAF } else { 0 }
}

/// What a list of so many items takes for one more. It doubles.
pub(super) fn next_item(items: usize) -> usize {
    match items {
        0 => LIST_MIN * SLOT,
        _ if items >= LIST_MIN && items.is_power_of_two() => items.saturating_mul(SLOT),
        _ => 0,
    }
}

/// What a copy of a value takes beside the value itself.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => {
            items.iter().fold(items.len().saturating_mul(SLOT), |sum, item| sum.saturating_add(weight(item)))
        }
        Value::Object(map) => {
            let leaves = map.len().div_ceil(LEAF_ENTRIES).saturating_mul(LEAF);
            map.iter()
                .fold(leaves, |sum, (key, value)| sum.saturating_add(key.len()).saturating_add(weight(value)))
        }
    }
}

/// About the most that a body takes in memory when it is read, from its text alone; `None` if the text does not say: YAML
/// may have aliases.
pub fn most_weight(body: &[u8], media: Media) -> Option<usize> {
    let is_yaml = media == Media::Yaml;
    if is_yaml && body.contains(&b'&') && body.contains(&b'*') {
        return None;
    }
    let beside = body.iter().map(|byte| match byte {
        b'{' => LEAF,
        b'[' | b',' => NEXT,
        // Maps and lists without brackets.
        b':' | b'?' if is_yaml => LEAF,
        b'-' | b'\n' if is_yaml => NEXT,
        _ => 0,
    });
    Some(beside.fold(body.len(), usize::saturating_add))
}
