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
    // In YAML also the block style, maps and lists without brackets.
    let maps = count(body, |byte| byte == b'{' || is_yaml && matches!(byte, b':' | b'?'));
    let items = count(body, |byte| matches!(byte, b'[' | b',') || is_yaml && matches!(byte, b'-' | b'\n'));
    let map_bytes = maps.saturating_mul(MAP_LEAF_BYTES);
    Some(body.len().saturating_add(map_bytes).saturating_add(items.saturating_mul(ITEM_BYTES_MAX)))
}

/// How many bytes are counted. Without a branch for each byte the processor looks at many of them at once.
fn count(body: &[u8], is_counted: impl Fn(u8) -> bool) -> usize {
    body.iter().map(|byte| usize::from(is_counted(*byte))).sum()
}
