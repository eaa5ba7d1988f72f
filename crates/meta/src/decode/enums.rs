//! Validates enum values.

use crate::field::{FIELD_ERRORS_MAX, FieldError, FieldErrors, Path};
use crate::object::Object;
use crate::schema::{Schema, StringFormat, Type};
use serde_json::{Value, json};

/// Top-level fields that are not validated: metadata has its own validation, and a status is only a report.
const EXEMPT_FIELDS: [&str; 2] = ["metadata", "status"];

/// Errors of an object's enum fields outside of metadata and status: values that are not in the enum, and required enum
/// fields that are missing or empty. The object must have been pruned.
pub fn check_enums(object: &Object, schema: &Schema) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Type::Struct { fields, .. } = &schema.ty else { return errors };
    for (name, field) in fields.iter().filter(|(name, _)| !EXEMPT_FIELDS.contains(*name)) {
        if let Some(value) = object.as_map().get(*name) {
            EnumPath::Root(name).check(value, &field.schema, &mut errors);
        }
    }
    errors
}

/// The values of an enum.
fn enum_values(schema: &Schema) -> Option<&'static [&'static str]> {
    match &schema.ty {
        Type::String(StringFormat::Enum(values)) => Some(*values),
        _ => None,
    }
}

/// The path of the value that is checked. It is formatted for error messages only.
#[derive(Clone, Copy)]
enum EnumPath<'a> {
    Root(&'a str),
    Field(&'a Self, &'a str),
    Key(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl EnumPath<'_> {
    fn path(self) -> Path {
        match self {
            Self::Root(name) => Path::new(name),
            Self::Field(above, name) => above.path().child(name),
            Self::Key(above, key) => above.path().key(key),
            Self::Item(above, index) => above.path().index(index),
        }
    }

    fn check(self, value: &Value, schema: &Schema, errors: &mut FieldErrors) {
        if errors.len() >= FIELD_ERRORS_MAX {
            return;
        }
        match (&schema.ty, value) {
            (Type::Struct { fields, .. }, Value::Object(map)) => {
                for (name, field) in fields {
                    let path = EnumPath::Field(&self, name);
                    let required = enum_values(&field.schema).filter(|_| field.required);
                    match (map.get(*name).filter(|value| required.is_none() || **value != ""), required) {
                        (Some(value), _) => path.check(value, &field.schema, errors),
                        (None, Some(values)) => {
                            let detail = format!("must be one of {}", values.join(", "));
                            errors.push(FieldError::required(&path.path(), &detail));
                        }
                        (None, None) => {}
                    }
                }
            }
            (Type::Map { values, .. }, Value::Object(map)) => {
                for (key, value) in map {
                    EnumPath::Key(&self, key).check(value, values, errors);
                }
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                for (index, value) in list.iter().enumerate() {
                    EnumPath::Item(&self, index).check(value, items, errors);
                }
            }
            (Type::String(StringFormat::Enum(values)), Value::String(text))
                if !values.contains(&text.as_str()) =>
            {
                errors.push(FieldError::not_supported(&self.path(), &json!(text), values));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::prune_and_check;
    use crate::schema::ListType;

    const MODES: &[&str] = &["Fast", "Slow"];

    fn schema() -> Schema {
        let mode = || Schema::one_of("Fast or Slow.", MODES);
        let part =
            Schema::object("", None, [("mode", mode().required()), ("name", Schema::string("").required())]);
        let fields = [
            ("mode", mode().optional()),
            ("modes", Schema::list("", ListType::Atomic, mode()).optional()),
            ("parts", Schema::list("", ListType::Atomic, part.clone()).optional()),
            ("named", Schema::map("", part).optional()),
        ];
        let spec = || Schema::object("", None, fields.clone()).optional();
        Schema::kind("g.v1.A", "", [("spec", spec()), ("status", spec())])
    }

    fn errors(spec: &Value) -> Vec<String> {
        let mut value = json!({"metadata": {"name": "a"}, "spec": spec, "status": {"mode": "Later"}});
        prune_and_check(&mut value, &schema()).unwrap();
        let object = Object::new(value).unwrap();
        check_enums(&object, &schema()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_text_is_one_of_its_set_wherever_it_stands() {
        let good = json!({"mode": "Slow", "modes": ["Fast"], "parts": [{"mode": "Fast"}], "named": {"a": {"mode": "Slow"}}});
        assert_eq!(errors(&good), [""; 0]);
        assert_eq!(errors(&json!({"mode": null})), [""; 0], "it is absent");
        let outside = |at: &str, text: &str| {
            format!("{at}: Unsupported value: \"{text}\": supported values: \"Fast\", \"Slow\"")
        };
        for text in ["slow", "Slow ", "x", ""] {
            assert_eq!(errors(&json!({ "mode": text })), [outside("spec.mode", text)]);
        }
        let wrong = json!({"modes": ["Fast", "x", null], "parts": [{"mode": "Fast"}, {"mode": "x"}], "named": {"a": {"mode": "x"}}});
        let all = [
            outside("spec.modes[1]", "x"),
            outside("spec.modes[2]", ""),
            outside("spec.named[a].mode", "x"),
            outside("spec.parts[1].mode", "x"),
        ];
        let mut found = errors(&wrong);
        found.sort_unstable();
        assert_eq!(found, all);
    }

    #[test]
    fn a_required_one_is_there() {
        let missing = |at: &str| format!("{at}.mode: Required value: must be one of Fast, Slow");
        for part in [json!(null), json!({}), json!({"mode": null}), json!({"mode": ""})] {
            assert_eq!(errors(&json!({"parts": [part]})), [missing("spec.parts[0]")], "{part}");
        }
        assert_eq!(errors(&json!({"named": {"a": null}})), [missing("spec.named[a]")]);
    }

    #[test]
    fn no_more_errors_are_collected_than_are_shown() {
        assert_eq!(errors(&json!({"modes": vec!["x"; 10_000]})).len(), FIELD_ERRORS_MAX);
    }
}
