//! An API object as a JSON tree.
//!
//! Keys are sorted, so equal objects have equal bytes. In most kinds only `apiVersion` and `kind` come before
//! `metadata`, so `resourceVersion` can be inserted into stored bytes without parsing them (see `splice_point`).

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A JSON object with typed access to `metadata`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Object(Map<String, Value>);

/// The `resourceVersion` is inserted into a stored body after this text.
pub const SPLICE_AFTER: &str = "\"metadata\":{";

impl Object {
    /// Takes a JSON object. Any other JSON value is returned as the error.
    pub fn new(value: Value) -> Result<Self, Value> {
        match value {
            Value::Object(map) => Ok(Self(map)),
            other => Err(other),
        }
    }

    /// The JSON object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The JSON object, mutable.
    pub fn as_map_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    /// The JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// The value at a path of map keys.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        let (last, parents) = path.split_last()?;
        let mut map = &self.0;
        for key in parents {
            map = map.get(*key)?.as_object()?;
        }
        map.get(*last)
    }

    /// The string at a path; empty when absent or of another type.
    pub fn text(&self, path: &[&str]) -> &str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Sets the value at a path. Creates the maps on the way, also in place of other values.
    pub fn set(&mut self, path: &[&str], value: Value) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut map = &mut self.0;
        for key in parents {
            // A key that is there already is not copied: almost all parents are.
            if !map.get(*key).is_some_and(Value::is_object) {
                map.insert((*key).to_owned(), Value::Object(Map::new()));
            }
            let Some(Value::Object(next)) = map.get_mut(*key) else { return };
            map = next;
        }
        if let Some(slot) = map.get_mut(*last) {
            *slot = value;
        } else {
            map.insert((*last).to_owned(), value);
        }
    }

    /// Removes and returns the value at a path.
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        let mut map = &mut self.0;
        for key in parents {
            map = map.get_mut(*key)?.as_object_mut()?;
        }
        map.remove(*last)
    }

    /// Copies the value at a path from another object, if it differs; removes it here if it is absent there.
    pub fn copy_from(&mut self, other: &Self, path: &[&str]) {
        match other.get(path) {
            Some(value) if self.get(path) == Some(value) => {}
            Some(value) => self.set(path, value.clone()),
            None => {
                self.remove(path);
            }
        }
    }

    /// Moves the value at a path here from another object; removes it here if it is absent there.
    pub fn take_from(&mut self, other: &mut Self, path: &[&str]) {
        match other.remove(path) {
            Some(value) => self.set(path, value),
            None => {
                self.remove(path);
            }
        }
    }

    /// The value at a path, deserialized. `Ok(None)` when absent or null.
    pub fn decode<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, serde_json::Error> {
        match self.get(path) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::deserialize(value).map(Some),
        }
    }

    /// `metadata.name`
    pub fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    /// `metadata.namespace`
    pub fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    /// `metadata.uid`
    pub fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }

    /// `metadata.resourceVersion`
    pub fn resource_version(&self) -> &str {
        self.text(&["metadata", "resourceVersion"])
    }

    /// `metadata.generation`; 0 when absent.
    pub fn generation(&self) -> i64 {
        self.get(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default()
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn is_deleting(&self) -> bool {
        !self.text(&["metadata", "deletionTimestamp"]).is_empty()
    }

    /// `metadata.finalizers`
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.strings(&["metadata", "finalizers"])
    }

    /// The strings of a list; other items are skipped.
    pub fn strings(&self, path: &[&str]) -> impl Iterator<Item = &str> {
        self.get(path).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The string values of a map such as `metadata.labels`.
    pub fn string_map(&self, path: &[&str]) -> impl Iterator<Item = (&str, &str)> {
        self.get(path)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| value.as_str().map(|text| (key.as_str(), text)))
    }

    /// `metadata.labels`
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.string_map(&["metadata", "labels"])
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.get(&["metadata", "annotations", key]).and_then(Value::as_str)
    }

    /// The object's JSON without `metadata.resourceVersion`, as the store keeps it.
    pub fn to_stored(&self) -> String {
        let mut copy = self.clone();
        copy.remove(&["metadata", "resourceVersion"]);
        copy.0.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        Value::Object(copy.0).to_string()
    }

    /// Reads a stored body as it is, without a `resourceVersion`.
    pub fn from_body(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body).map(Self)
    }

    /// Reads a stored body and sets its `resourceVersion`.
    pub fn from_stored(body: &[u8], resource_version: u64) -> Result<Self, serde_json::Error> {
        let mut object = Self::from_body(body)?;
        object.set(&["metadata", "resourceVersion"], Value::String(resource_version.to_string()));
        Ok(object)
    }
}

/// Splits a stored body where `"resourceVersion":"N",` has to be inserted. `None` if it is not a stored body.
pub fn splice_point(body: &str) -> Option<(&str, &str)> {
    let first = body.find(SPLICE_AFTER)?;
    // A map that sorts before the metadata may have a key of that name.
    let at = if body.get(1..first)?.contains('{') { top_level_metadata(body)? } else { first };
    body.split_at_checked(at.checked_add(SPLICE_AFTER.len())?)
}

/// The position of the object's own `metadata`.
fn top_level_metadata(body: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => {
                if !in_string && depth == 1 && body.get(at..)?.starts_with(SPLICE_AFTER) {
                    return Some(at);
                }
                in_string = !in_string;
            }
            b'{' if !in_string => depth = depth.saturating_add(1),
            b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stored_body_takes_its_revision_back() {
        let object = Object::new(json!({"kind": "A", "apiVersion": "g/v1", "spec": {"metadata": {}},
            "metadata": {"name": "a", "resourceVersion": "7"}}))
        .unwrap();
        let stored = object.to_stored();
        let (head, tail) = splice_point(&stored).unwrap();
        assert_eq!(head, r#"{"apiVersion":"g/v1","kind":"A","metadata":{"#);
        assert_eq!(tail, r#""name":"a"},"spec":{"metadata":{}}}"#);
        assert_eq!(Object::from_stored(stored.as_bytes(), 7).unwrap(), object);
    }

    #[test]
    fn a_value_that_is_set_gets_the_maps_that_lead_to_it() {
        let mut object = Object::new(json!({"metadata": {"name": "a"}, "spec": "text"})).unwrap();
        object.set(&["metadata", "name"], json!("b"));
        object.set(&["metadata", "generation"], json!(1));
        object.set(&["spec", "a", "b"], json!(2));
        object.set(&["kind"], json!("K"));
        let want = json!({"kind": "K", "metadata": {"name": "b", "generation": 1}, "spec": {"a": {"b": 2}}});
        assert_eq!(object.into_value(), want);
    }

    #[test]
    fn the_revision_goes_into_the_objects_own_metadata() {
        let object = Object::new(json!({"kind": "A", "data": {"a": "}{\\\"", "metadata": {"b": 1}},
            "metadata": {"name": "a"}, "spec": {}}))
        .unwrap();
        let stored = object.to_stored();
        assert_eq!(splice_point(&stored).unwrap().1, r#""name":"a"},"spec":{}}"#);
        assert_eq!(splice_point(r#"{"data":{"metadata":{}}}"#), None);
    }
}
