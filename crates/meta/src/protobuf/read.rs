//! Decodes bodies to JSON values. Bodies are not trusted: every length is checked, and the tables of fields limit the
//! depth.

use super::MAGIC;
use serde_json::{Map, Value};

/// Why bytes are not a message of the expected kind, with the messages of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It does not begin with the magic number.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// There is nothing after the magic number.
    #[error("empty body")]
    Empty,
    /// It ends too early.
    #[error("unexpected EOF")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A wire type that does not exist.
    #[error("proto: illegal wireType {0}")]
    WireType(u64),
    /// A field has the wrong wire type.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongType {
        /// Its wire type.
        wire: u64,
        /// Its name.
        field: &'static str,
    },
    /// This kind is not supported.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The kind in the body.
        kind: String,
        /// The `apiVersion` in the body.
        api_version: String,
    },
}

/// Number, name and type of each field.
type Fields = &'static [(u32, &'static str, Type)];

#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    Integer,
    /// A pointer to a string in Go: kept even if the string is empty.
    TextPointer,
    IntegerPointer,
    FlagPointer,
    Texts,
    Time,
    /// `FieldsV1`: a message that contains JSON.
    FieldSet,
    /// A map of strings.
    Map,
    Message(Fields),
    Messages(Fields),
}

const LIST_META: Fields = &[
    (1, "selfLink", Type::Text),
    (2, "resourceVersion", Type::Text),
    (3, "continue", Type::Text),
    (4, "remainingItemCount", Type::IntegerPointer),
];
const OWNER_REFERENCE: Fields = &[
    (1, "kind", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "controller", Type::FlagPointer),
    (7, "blockOwnerDeletion", Type::FlagPointer),
];
const MANAGED_FIELDS_ENTRY: Fields = &[
    (1, "manager", Type::Text),
    (2, "operation", Type::Text),
    (3, "apiVersion", Type::Text),
    (4, "time", Type::Time),
    (6, "fieldsType", Type::Text),
    (7, "fieldsV1", Type::FieldSet),
    (8, "subresource", Type::Text),
];
const OBJECT_META: Fields = &[
    (1, "name", Type::Text),
    (2, "generateName", Type::Text),
    (3, "namespace", Type::Text),
    (4, "selfLink", Type::Text),
    (5, "uid", Type::Text),
    (6, "resourceVersion", Type::Text),
    (7, "generation", Type::Integer),
    (8, "creationTimestamp", Type::Time),
    (9, "deletionTimestamp", Type::Time),
    (10, "deletionGracePeriodSeconds", Type::IntegerPointer),
    (11, "labels", Type::Map),
    (12, "annotations", Type::Map),
    (13, "ownerReferences", Type::Messages(OWNER_REFERENCE)),
    (14, "finalizers", Type::Texts),
    (17, "managedFields", Type::Messages(MANAGED_FIELDS_ENTRY)),
];
const PARTIAL_OBJECT_METADATA: Fields = &[(1, "metadata", Type::Message(OBJECT_META))];
const PARTIAL_OBJECT_METADATA_LIST: Fields =
    &[(1, "metadata", Type::Message(LIST_META)), (2, "items", Type::Messages(PARTIAL_OBJECT_METADATA))];
/// The same fields with their numbers swapped.
const PARTIAL_OBJECT_METADATA_LIST_V1BETA1: Fields =
    &[(1, "items", Type::Messages(PARTIAL_OBJECT_METADATA)), (2, "metadata", Type::Message(LIST_META))];
const STATUS_CAUSE: Fields =
    &[(1, "reason", Type::Text), (2, "message", Type::Text), (3, "field", Type::Text)];
const STATUS_DETAILS: Fields = &[
    (1, "name", Type::Text),
    (2, "group", Type::Text),
    (3, "kind", Type::Text),
    (4, "causes", Type::Messages(STATUS_CAUSE)),
    (5, "retryAfterSeconds", Type::Integer),
    (6, "uid", Type::Text),
];
const STATUS: Fields = &[
    (1, "metadata", Type::Message(LIST_META)),
    (2, "status", Type::Text),
    (3, "message", Type::Text),
    (4, "reason", Type::Text),
    (5, "details", Type::Message(STATUS_DETAILS)),
    (6, "code", Type::Integer),
];
const PRECONDITIONS: Fields = &[(1, "uid", Type::TextPointer), (2, "resourceVersion", Type::TextPointer)];
const DELETE_OPTIONS: Fields = &[
    (1, "gracePeriodSeconds", Type::IntegerPointer),
    (2, "preconditions", Type::Message(PRECONDITIONS)),
    (3, "orphanDependents", Type::FlagPointer),
    (4, "propagationPolicy", Type::TextPointer),
    (5, "dryRun", Type::Texts),
    (6, "ignoreStoreReadErrorWithClusterBreakingPotential", Type::FlagPointer),
];
const TYPE_META: Fields = &[(1, "apiVersion", Type::Text), (2, "kind", Type::Text)];

/// Decodes the object of a body to JSON. A body without a kind is of `default_kind`.
pub fn decode(body: &[u8], default_kind: &str) -> Result<Value, WireError> {
    let unknown = body.strip_prefix(MAGIC).ok_or(WireError::NoMagic)?;
    if unknown.is_empty() {
        return Err(WireError::Empty);
    }
    let (mut types, mut raw) = (Map::new(), &b""[..]);
    let mut rest = unknown;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, value) => types.extend(message(value.bytes("TypeMeta")?, TYPE_META)?),
            (2, value) => raw = value.bytes("Raw")?,
            _ => {}
        }
    }
    let text = |name: &str| types.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = if text("kind").is_empty() { default_kind } else { text("kind") };
    let fields = match kind {
        "DeleteOptions" => DELETE_OPTIONS,
        "PartialObjectMetadata" => PARTIAL_OBJECT_METADATA,
        "PartialObjectMetadataList" if text("apiVersion") == "meta.k8s.io/v1beta1" => {
            PARTIAL_OBJECT_METADATA_LIST_V1BETA1
        }
        "PartialObjectMetadataList" => PARTIAL_OBJECT_METADATA_LIST,
        "Status" => STATUS,
        other => {
            let (kind, api_version) = (other.to_owned(), text("apiVersion").to_owned());
            return Err(WireError::UnknownKind { kind, api_version });
        }
    };
    let mut object = message(raw, fields)?;
    object.append(&mut types);
    Ok(Value::Object(object))
}

/// Decodes an event of a watch, which comes without its length.
pub fn decode_event(event: &[u8]) -> Result<Value, WireError> {
    let (mut op, mut object) = (Value::Null, Value::Null);
    let mut rest = event;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, value) => op = text(value.bytes("Type")?),
            (2, value) => {
                let mut extension = value.bytes("Object")?;
                while !extension.is_empty() {
                    if let (1, value) = field(&mut extension)? {
                        object = decode(value.bytes("Raw")?, "")?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Value::Object(Map::from_iter([("type".to_owned(), op), ("object".to_owned(), object)])))
}

/// The encoded value of a field, by its wire type.
enum WireValue<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    fn wrong_type(&self, field: &'static str) -> WireError {
        let wire = match self {
            Self::Number(_) => 0,
            Self::Fixed(wire) => *wire,
            Self::Bytes(_) => 2,
        };
        WireError::WrongType { wire, field }
    }

    fn bytes(self, field: &'static str) -> Result<&'a [u8], WireError> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(self.wrong_type(field)) }
    }

    fn integer(self, field: &'static str) -> Result<i64, WireError> {
        if let Self::Number(value) = self { Ok(value.cast_signed()) } else { Err(self.wrong_type(field)) }
    }
}

/// Takes the first field from the front: its number and its value.
fn field<'a>(rest: &mut &'a [u8]) -> Result<(u64, WireValue<'a>), WireError> {
    let key = varint(rest)?;
    let value = match key & 7 {
        0 => WireValue::Number(varint(rest)?),
        wire @ 1 => {
            take(rest, size_of::<u64>())?;
            WireValue::Fixed(wire)
        }
        2 => {
            let length = usize::try_from(varint(rest)?).unwrap_or(usize::MAX);
            WireValue::Bytes(take(rest, length)?)
        }
        wire @ 5 => {
            take(rest, size_of::<u32>())?;
            WireValue::Fixed(wire)
        }
        other => return Err(WireError::WireType(other)),
    };
    Ok((key >> 3, value))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], WireError> {
    rest.split_off(..length).ok_or(WireError::Truncated)
}

fn varint(rest: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first().ok_or(WireError::Truncated)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(WireError::Overflow)
}

fn text(bytes: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(bytes).into_owned())
}

fn message(mut rest: &[u8], fields: Fields) -> Result<Map<String, Value>, WireError> {
    let mut object = Map::new();
    while !rest.is_empty() {
        let (number, value) = field(&mut rest)?;
        if let Some((_, name, ty)) = fields.iter().find(|(known, ..)| u64::from(*known) == number) {
            insert_field(&mut object, name, *ty, value)?;
        }
    }
    Ok(object)
}

fn insert_field(
    object: &mut Map<String, Value>,
    name: &'static str,
    ty: Type,
    wire: WireValue<'_>,
) -> Result<(), WireError> {
    let value = match ty {
        Type::Integer | Type::IntegerPointer => Value::from(wire.integer(name)?),
        Type::FlagPointer => Value::from(wire.integer(name)? != 0),
        Type::Text | Type::TextPointer | Type::Texts => text(wire.bytes(name)?),
        Type::Time => time(wire.bytes(name)?)?,
        Type::FieldSet => field_set(wire.bytes(name)?)?,
        Type::Message(fields) | Type::Messages(fields) => Value::Object(message(wire.bytes(name)?, fields)?),
        Type::Map => {
            let entry = message(wire.bytes(name)?, &[(1, "key", Type::Text), (2, "value", Type::Text)])?;
            let text_of = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Some(map) = map.as_object_mut() {
                map.insert(text_of("key"), Value::String(text_of("value")));
            }
            return Ok(());
        }
    };
    match ty {
        Type::Texts | Type::Messages(_) => {
            let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Some(list) = list.as_array_mut() {
                list.push(value);
            }
        }
        // Go's JSON leaves these out.
        Type::Text if value == "" => {}
        Type::Integer if value == 0 => {}
        Type::Time if value.is_null() => {}
        _ => {
            object.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// Decodes a `Timestamp`. An empty one is an absent time.
fn time(mut rest: &[u8]) -> Result<Value, WireError> {
    if rest.is_empty() {
        return Ok(Value::Null);
    }
    let mut seconds = 0;
    while !rest.is_empty() {
        if let (1, value) = field(&mut rest)? {
            seconds = value.integer("Seconds")?;
        }
    }
    Ok(Value::String(crate::time::rfc3339(seconds)))
}

/// Decodes `FieldsV1`. Anything but JSON becomes a string.
fn field_set(mut rest: &[u8]) -> Result<Value, WireError> {
    let mut json = Value::Null;
    while !rest.is_empty() {
        if let (1, value) = field(&mut rest)? {
            let raw = value.bytes("Raw")?;
            json = serde_json::from_slice(raw).unwrap_or_else(|_no_json| text(raw));
        }
    }
    Ok(json)
}
