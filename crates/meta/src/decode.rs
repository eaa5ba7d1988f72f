//! Decodes JSON and YAML bodies: strict field validation, pruning, defaults.
//!
//! `parse` turns text into a JSON tree, `prune` prunes the tree by a schema, `defaults` sets defaults, `enums`
//! validates enum values, and `memory` estimates how much memory a tree takes.

mod defaults;
mod enums;
mod memory;
mod parse;
mod prune;

pub use defaults::apply_defaults;
pub use enums::check_enums;
pub(crate) use memory::heap_bytes;
pub use memory::memory_bytes_max;
pub use parse::decode_value;
pub(crate) use prune::is_line_break;
pub use prune::prune_and_check;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`, one document.
    Yaml,
}

/// What happens to unknown fields and to duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the client is warned.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Why a body cannot be decoded. The text is what a Go server says after `cannot be handled as a Project: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not JSON or YAML.
    #[error("{0}")]
    Syntax(String),
    /// A value of the wrong type.
    #[error("json: cannot unmarshal {found} into Go {} of type {wanted}", go_target(field))]
    Type {
        /// The JSON type of the value.
        found: String,
        /// The innermost struct and the field's path, such as `ProjectSpec.spec.clusters`; empty for the whole body.
        field: String,
        /// The type in the schema.
        wanted: String,
    },
    /// A value of the right JSON type that cannot be parsed, such as a quantity or a time.
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

/// The maximum nesting depth of a body.
pub const DEPTH_MAX: usize = 100;
/// The maximum number of unknown or duplicate fields that are reported.
pub const STRICT_ERRORS_MAX: usize = 100;

fn go_target(field: &str) -> String {
    if field.is_empty() { "value".to_owned() } else { format!("struct field {field}") }
}

#[cfg(test)]
mod tests;
