//! JSON and YAML bodies to objects: strictness, pruning, defaults.
//!
//! `value` reads the text, `shape` brings it into the schema's form, and `defaults` fills in defaults; `weight` is what that
//! takes in memory.

mod defaults;
mod shape;
mod value;
mod weight;

pub use defaults::apply_defaults;
pub(crate) use shape::is_line_break;
pub use shape::prune_and_check;
pub use value::decode_value;
pub use weight::most_weight;
pub(crate) use weight::weight;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`, one document.
    Yaml,
}

/// What happens to fields that the schema does not know, and to fields that are given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the client is warned.
    #[default]
    Warn,
    /// They are an error.
    Strict,
}

/// A body that cannot be read. The text is what a Go server says behind `cannot be handled as a Project: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No JSON or YAML.
    #[error("{0}")]
    Syntax(String),
    /// A value of the wrong type.
    #[error("json: cannot unmarshal {found} into Go {} of type {wanted}", go_place(field))]
    Type {
        /// The JSON type that was there.
        found: String,
        /// The innermost struct and the field's path, such as `ProjectSpec.spec.clusters`; empty for the whole body.
        field: String,
        /// The type the schema wants.
        wanted: String,
    },
    /// A value of the right JSON type that does not parse: a quantity, a time.
    #[error("{field}: {message}")]
    Value {
        /// The field's path.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// Unknown or duplicate fields under [`FieldValidation::Strict`].
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
}

/// Levels of nesting that a body may have.
pub const DEPTH_MAX: usize = 100;
/// Unknown or duplicate fields that are reported.
pub const STRICT_ERRORS_MAX: usize = 100;

fn go_place(field: &str) -> String {
    if field.is_empty() { "value".to_owned() } else { format!("struct field {field}") }
}

#[cfg(test)]
mod tests;
