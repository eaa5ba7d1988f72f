//! How much memory a JSON tree takes: many times as much as its text. `{"":0}` takes 640 bytes.

use super::Media;
use serde_json::Value;

/// Bytes of a leaf node of the B-tree of a map, as the allocator rounds them.
const MAP_LEAF_BYTES: usize = 640;
/// A leaf holds this many entries or more.
const MAP_LEAF_ENTRIES_MIN: usize = 6;
/// Bytes of a value in a list.
const VALUE_BYTES: usize = size_of::<Value>();
/// The capacity of a list that has one item.
const LIST_CAPACITY_MIN: usize = 4;
/// The most bytes that one more item or entry takes: its share of a list that has doubled its capacity or of a leaf,
/// and its shortest text.
const ITEM_BYTES_MAX: usize = 128;

/// Bytes that one more entry takes in a map with this many entries.
pub(super) fn entry_bytes(entries: usize) -> usize {
    if entries.is_multiple_of(MAP_LEAF_ENTRIES_MIN) { MAP_LEAF_BYTES } else { 0 }
}

/// Bytes that one more item takes in a list with this many items. A full list doubles its capacity.
pub(super) fn item_bytes(items: usize) -> usize {
    match items {
        0 => LIST_CAPACITY_MIN * VALUE_BYTES,
        _ if items >= LIST_CAPACITY_MIN && items.is_power_of_two() => items.saturating_mul(VALUE_BYTES),
        _ => 0,
    }
}

/// Bytes that a copy of a value takes on the heap, in addition to the value itself.
pub(crate) fn heap_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items
            .iter()
            .fold(items.len().saturating_mul(VALUE_BYTES), |sum, item| sum.saturating_add(heap_bytes(item))),
        Value::Object(map) => {
            let leaves = map.len().div_ceil(MAP_LEAF_ENTRIES_MIN).saturating_mul(MAP_LEAF_BYTES);
            map.iter().fold(leaves, |sum, (key, value)| {
                sum.saturating_add(key.len()).saturating_add(heap_bytes(value))
            })
        }
    }
}

/// About the most bytes that a body takes in memory when it is decoded, estimated from its text alone. `None` if that
/// is not possible: YAML may have aliases.
pub fn memory_bytes_max(body: &[u8], media: Media) -> Option<usize> {
    let is_yaml = media == Media::Yaml;
    if is_yaml && body.contains(&b'&') && body.contains(&b'*') {
        return None;
    }
    let bytes = body.iter().map(|byte| match byte {
        b'{' => MAP_LEAF_BYTES,
        b'[' | b',' => ITEM_BYTES_MAX,
        // Block style of YAML: maps and lists without brackets.
        b':' | b'?' if is_yaml => MAP_LEAF_BYTES,
        b'-' | b'\n' if is_yaml => ITEM_BYTES_MAX,
        _ => 0,
    });
    Some(bytes.fold(body.len(), usize::saturating_add))
}
