//! Structural schemas.
//!
//! Each kind has one schema. Decoding and pruning, strict field validation, defaults, OpenAPI v2 and v3, strategic
//! merge patch, and server-side apply all use it.

use serde_json::Value;
use std::collections::BTreeMap;

mod metadata;

/// The schema of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// What the value means, with its unit. `kubectl explain` shows it.
    pub description: &'static str,
    /// Its type.
    pub ty: Type,
    /// The value of the field where it is absent or null.
    pub default: Option<Value>,
    /// The maximum number of characters of a string (`maxLength`). It is published. Validation, which may be stricter,
    /// enforces it.
    pub max_length: Option<usize>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A struct. It has declared fields only, and each field has its own owners.
    Struct {
        /// Fields by JSON name.
        fields: BTreeMap<&'static str, Field>,
        /// Name of the shared OpenAPI definition, such as `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`;
        /// `None` for an anonymous struct, which is written in place.
        definition: Option<&'static str>,
        /// Owned as one value by server-side apply (`x-kubernetes-map-type: atomic`).
        atomic: bool,
    },
    /// A map with any keys.
    Map {
        /// The schema of the values.
        values: Box<Schema>,
        /// Owned as one value by server-side apply.
        atomic: bool,
    },
    /// A list.
    List {
        /// The schema of the items.
        items: Box<Schema>,
        /// How the list is merged.
        list: ListType,
    },
    /// A string.
    String(StringFormat),
    /// A signed integer.
    Integer {
        /// Whether it is an `int32`; else it is an `int64`.
        narrow: bool,
    },
    /// A boolean.
    Boolean,
    /// A resource quantity: a JSON string or number, stored in canonical text.
    Quantity,
    /// Any JSON, kept as it is (`x-kubernetes-preserve-unknown-fields`).
    Any,
}

/// The format of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringFormat {
    /// Free text.
    Plain,
    /// `metav1.Time`: RFC 3339, whole seconds.
    Time,
    /// `metav1.MicroTime`: RFC 3339, six digits.
    MicroTime,
    /// Base64 bytes.
    Bytes,
    /// One of these values. [`crate::decode::check_enums`] enforces it outside the status.
    Enum(&'static [&'static str]),
}

/// How a list is merged by strategic merge patch and server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value (`x-kubernetes-list-type: atomic`).
    Atomic,
    /// A set of scalars (`set`).
    Set,
    /// Objects that are identified by these keys (`map`).
    Map(&'static [&'static str]),
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The schema of its value.
    pub schema: Schema,
    /// Listed in OpenAPI's `required`.
    pub required: bool,
    /// Written even when empty, as Go does for a field without `omitempty`.
    pub always: bool,
    /// Responses may contain null, which then differs in meaning from an empty value.
    pub nullable: bool,
}

impl Field {
    /// The same field, but nullable.
    #[must_use]
    pub fn or_null(self) -> Self {
        Self { nullable: true, ..self }
    }
}

impl Schema {
    /// A schema without a default.
    pub fn new(description: &'static str, ty: Type) -> Self {
        Self { description, ty, default: None, max_length: None }
    }

    /// A string of any text.
    pub fn string(description: &'static str) -> Self {
        Self::new(description, Type::String(StringFormat::Plain))
    }

    /// A time in whole seconds.
    pub fn time(description: &'static str) -> Self {
        Self::new(description, Type::String(StringFormat::Time))
    }

    /// A 64-bit integer.
    pub fn integer(description: &'static str) -> Self {
        Self::new(description, Type::Integer { narrow: false })
    }

    /// A boolean.
    pub fn boolean(description: &'static str) -> Self {
        Self::new(description, Type::Boolean)
    }

    /// A resource quantity.
    pub fn quantity(description: &'static str) -> Self {
        Self::new(description, Type::Quantity)
    }

    /// A granular map.
    pub fn map(description: &'static str, values: Self) -> Self {
        Self::new(description, Type::Map { values: Box::new(values), atomic: false })
    }

    /// A list.
    pub fn list(description: &'static str, list: ListType, items: Self) -> Self {
        Self::new(description, Type::List { items: Box::new(items), list })
    }

    /// A granular struct from `(name, field)` pairs.
    pub fn object(
        description: &'static str,
        definition: Option<&'static str>,
        fields: impl IntoIterator<Item = (&'static str, Field)>,
    ) -> Self {
        Self::new(
            description,
            Type::Struct { fields: fields.into_iter().collect(), definition, atomic: false },
        )
    }

    /// The same schema with a default.
    #[must_use]
    pub fn with_default(mut self, value: Value) -> Self {
        self.default = Some(value);
        self
    }

    /// The same string of at most so many characters.
    #[must_use]
    pub fn at_most(self, characters: usize) -> Self {
        Self { max_length: Some(characters), ..self }
    }

    /// An optional field of this schema.
    pub fn optional(self) -> Field {
        Field { schema: self, required: false, always: false, nullable: false }
    }

    /// A field of this schema that OpenAPI lists as required.
    pub fn required(self) -> Field {
        Field { schema: self, required: true, always: false, nullable: false }
    }

    /// A field of this schema that is written even when empty.
    pub fn always(self) -> Field {
        Field { schema: self, required: false, always: true, nullable: false }
    }

    /// A list of strings.
    pub fn strings(description: &'static str, list: ListType) -> Self {
        Self::list(description, list, Self::string(""))
    }

    /// A 32-bit integer.
    pub fn int32(description: &'static str) -> Self {
        Self::new(description, Type::Integer { narrow: true })
    }

    /// One of a fixed set of strings.
    pub fn one_of(description: &'static str, values: &'static [&'static str]) -> Self {
        Self::new(description, Type::String(StringFormat::Enum(values)))
    }

    /// Any JSON value.
    pub fn any(description: &'static str) -> Self {
        Self::new(description, Type::Any)
    }

    /// The same struct or map, owned as one value by server-side apply.
    #[must_use]
    pub fn into_atomic(mut self) -> Self {
        if let Type::Struct { atomic, .. } | Type::Map { atomic, .. } = &mut self.ty {
            *atomic = true;
        }
        self
    }

    /// A field that OpenAPI lists as required and that is written even when empty.
    pub fn required_always(self) -> Field {
        Field { schema: self, required: true, always: true, nullable: false }
    }

    /// The schema of a struct's field or a map's value.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match &self.ty {
            Type::Struct { fields, .. } => fields.get(name).map(|field| &field.schema),
            Type::Map { values, .. } => Some(values),
            _ => None,
        }
    }

    /// The schema of a list's items.
    pub fn items(&self) -> Option<&Self> {
        match &self.ty {
            Type::List { items, .. } => Some(items),
            _ => None,
        }
    }
}
