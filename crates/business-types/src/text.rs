use meta::field::{FieldError, FieldErrors, Path};
use serde_json::json;

/// Validates a text by one of the rules of [`meta::name`].
pub(crate) fn by_rule(text: &str, rule: fn(&str) -> Vec<String>, path: &Path) -> FieldErrors {
    rule(text).iter().map(|wrong| FieldError::invalid(path, &json!(text), wrong)).collect()
}
