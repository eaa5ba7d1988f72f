//! Texts of fixed sets.

use crate::field::{FIELD_ERRORS_MAX, FieldError, FieldErrors, Path};
use crate::object::Object;
use crate::schema::{Schema, StringFormat, Type};
use serde_json::{Value, json};

/// Parts of an object that nobody asks for: metadata has rules of its own, and a status is a report.
const NOT_ASKED_FOR: [&str; 2] = ["metadata", "status"];

/// What is wrong with the texts of fixed sets in what an object asks for: those that are outside their set, and those that
/// are required and missing. The object is in the schema's form.
pub fn check_words(object: &Object, schema: &Schema) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Type::Struct { fields, .. } = &schema.ty else { return errors };
    for (name, field) in fields.iter().filter(|(name, _)| !NOT_ASKED_FOR.contains(*name)) {
        if let Some(value) = object.as_map().get(*name) {
            Place::Part(name).check(value, &field.schema, &mut errors);
        }
    }
    errors
}

/// The fixed set of a text.
fn set_of(schema: &Schema) -> Option<&'static [&'static str]> {
    match &schema.ty {
        Type::String(StringFormat::Enum(words)) => Some(*words),
        _ => None,
    }
}

/// Where the walk is; printed only when something is wrong.
#[derive(Clone, Copy)]
enum Place<'a> {
    Part(&'a str),
    Field(&'a Self, &'a str),
    Key(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Place<'_> {
    fn path(self) -> Path {
        match self {
            Self::Part(name) => Path::new(name),
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
                    let place = Place::Field(&self, name);
                    let required = set_of(&field.schema).filter(|_| field.required);
                    match (map.get(*name).filter(|value| required.is_none() || **value != ""), required) {
                        (Some(value), _) => place.check(value, &field.schema, errors),
                        (None, Some(words)) => {
                            let detail = format!("must be one of {}", words.join(", "));
                            errors.push(FieldError::required(&place.path(), &detail));
                        }
                        (None, None) => {}
                    }
                }
            }
            (Type::Map { values, .. }, Value::Object(map)) => {
                for (key, value) in map {
                    Place::Key(&self, key).check(value, values, errors);
                }
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                for (index, value) in list.iter().enumerate() {
                    Place::Item(&self, index).check(value, items, errors);
                }
            }
            (Type::String(StringFormat::Enum(words)), Value::String(text))
                if !words.contains(&text.as_str()) =>
            {
                errors.push(FieldError::not_supported(&self.path(), &json!(text), words));
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
        check_words(&object, &schema()).iter().map(ToString::to_string).collect()
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
