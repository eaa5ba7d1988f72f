use crate::text::by_rule;
use meta::field::{FieldError, FieldErrors, Path};
use meta::name;
use meta::object::Object;
use serde_json::json;

/// The maximum number of bytes of all values together.
pub const DATA_BYTES_MAX: usize = 1024 * 1024;

/// Validates the data of a ConfigMap by the rules of the core kind.
pub fn config_map(object: &Object) -> FieldErrors {
    let (data, binary) = (Path::new("data"), Path::new("binaryData"));
    let mut errors = FieldErrors::new();
    let mut bytes = 0_usize;
    for (key, value) in object.string_map(&["data"]) {
        let at = data.key(key);
        errors.extend(by_rule(key, name::config_map_key, &at));
        if object.get(&["binaryData", key]).is_some() {
            errors.push(FieldError::invalid(&at, &json!(key), "duplicate of key present in binaryData"));
        }
        bytes = bytes.saturating_add(value.len());
    }
    for (key, value) in object.string_map(&["binaryData"]) {
        errors.extend(by_rule(key, name::config_map_key, &binary.key(key)));
        bytes = bytes.saturating_add(decoded_bytes(value));
    }
    if bytes > DATA_BYTES_MAX {
        errors.push(FieldError::too_long(&data, DATA_BYTES_MAX));
    }
    errors
}

/// The number of bytes of a base64 text. The decoder has checked that it is valid.
fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len().saturating_mul(3) / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn wrong(data: &Value, binary: &Value) -> Vec<String> {
        let object = Object::new(json!({"data": data, "binaryData": binary})).unwrap();
        config_map(&object).iter().map(|error| error.field.clone()).collect()
    }

    #[test]
    fn keys_and_sizes_are_those_of_the_core_kind() {
        assert_eq!(wrong(&json!({"a.b_c-D": "1"}), &json!({"blob": "AAEC"})), [""; 0]);
        assert_eq!(wrong(&json!({"a b": "1"}), &json!({"..x": ""})), ["data[a b]", "binaryData[..x]"]);
        assert_eq!(wrong(&json!({"a": "1"}), &json!({"a": ""})), ["data[a]"]);
        let half = "x".repeat(DATA_BYTES_MAX / 2);
        // Four letters are three bytes.
        let bytes = |end: &str| "AAAA".repeat(DATA_BYTES_MAX / 6) + end;
        assert_eq!(wrong(&json!({"a": half}), &json!({"b": bytes("AAA=")})), [""; 0]);
        assert_eq!(wrong(&json!({"a": half}), &json!({"b": bytes("AAAA")})), ["data"]);
        assert_eq!([decoded_bytes(""), decoded_bytes("AA=="), decoded_bytes("AAECAw==")], [0, 1, 4]);
    }
}
