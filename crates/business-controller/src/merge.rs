//! Merge patches (RFC 7386).

use serde_json::{Map, Value};

/// The merge patch that makes `new` out of `old`; `None` when they are equal.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(before) => {
                        if let Some(inner) = difference(before, value) {
                            patch.insert(key.clone(), inner);
                        }
                    }
                    None => drop(patch.insert(key.clone(), value.clone())),
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) => (old != new).then(|| new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let Value::Object(map) = target else { return };
        for (key, value) in patch {
            if value.is_null() {
                map.remove(key);
            } else {
                merged(map.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }

    fn status() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)];
        let tree = leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| json!(map)),
            ]
        });
        prop::collection::btree_map("[a-d]", tree, 0..4).prop_map(|map| json!(map))
    }

    proptest! {
        #[test]
        fn the_difference_makes_the_new_out_of_the_old(old in status(), new in status()) {
            let mut got = old.clone();
            if let Some(patch) = difference(&old, &new) {
                merged(&mut got, &patch);
            }
            prop_assert_eq!(got, new);
        }
    }
}
