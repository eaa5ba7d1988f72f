//! Reads values of objects by JSON pointer.

use serde_json::Value;

/// The elements of a list; none where there is no list.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A text; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Every value of a key, wherever it is.
pub(crate) fn found<'a>(value: &'a Value, key: &str, into: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => {
            into.extend(map.get(key));
            map.values().for_each(|value| found(value, key, into));
        }
        Value::Array(values) => values.iter().for_each(|value| found(value, key, into)),
        _ => {}
    }
}
