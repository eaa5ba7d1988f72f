//! Parses text into a JSON tree and reports duplicate keys.

use super::memory::{entry_bytes, item_bytes};
use super::{DEPTH_MAX, DecodeError, Media, STRICT_ERRORS_MAX};
use crate::field::{PATH_BYTES_MAX, shortened};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// A tree may take this many bytes of memory per byte of its text, and [`TREE_BYTES_BASE`] more. So neither YAML
/// aliases nor many small maps use up the memory that other requests need. A list of 10,000 small maps of maps with its
/// managed fields takes half of it.
const TREE_BYTES_PER_BODY_BYTE: usize = 16;
const TREE_BYTES_BASE: usize = 32 * 1024 * 1024;

/// Bytes that the YAML reader keeps per event of a document before it returns the first value.
const YAML_EVENT_BYTES: usize = 128;

/// The largest product of bytes and brackets of a YAML document. The time to read a deeply nested document is
/// proportional to it: a fraction of a second at the limit. JSON needs no such limit.
const YAML_COST_MAX: usize = 1 << 28;

/// Parses a body. Also returns a `duplicate field "…"` for each repeated key, of which the last one counts.
pub fn decode_value(body: &[u8], media: Media) -> Result<(Value, Vec<String>), DecodeError> {
    // The bodies of applies are declared as YAML, but are nearly always JSON.
    let looks_like_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    match media {
        Media::Json => read_json(body),
        Media::Yaml if looks_like_json => read_json(body).or_else(|_error| read_yaml(body)),
        Media::Yaml => read_yaml(body),
    }
}

fn read_json(body: &[u8]) -> Result<(Value, Vec<String>), DecodeError> {
    let mut reader = TreeReader::new(body);
    let mut source = serde_json::Deserializer::from_slice(body);
    let value = ValueSeed(&mut reader).deserialize(&mut source).map_err(syntax)?;
    source.end().map_err(syntax)?;
    Ok((value, reader.duplicates))
}

fn read_yaml(body: &[u8]) -> Result<(Value, Vec<String>), DecodeError> {
    let brackets = body.iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if brackets.saturating_mul(body.len()) > YAML_COST_MAX {
        return Err(DecodeError::Syntax(
            "error converting YAML to JSON: too many brackets for a document of this size; \
                 send it as JSON"
                .to_owned(),
        ));
    }
    let mut reader = TreeReader::new(body);
    let is_event =
        |pair: &&[u8]| matches!(pair, [b',' | b':' | b'\n' | b'[' | b'{', _] | [b'-' | b'?', b' ']);
    let events = body.windows(2).filter(is_event).count();
    if events.saturating_mul(YAML_EVENT_BYTES) > reader.memory_left {
        return Err(DecodeError::Syntax(
            "error converting YAML to JSON: too many parts for a document of this size; send it as JSON"
                .to_owned(),
        ));
    }
    let value = ValueSeed(&mut reader)
        .deserialize(serde_yaml_ng::Deserializer::from_slice(body))
        .map_err(|error| DecodeError::Syntax(format!("error converting YAML to JSON: {error}")))?;
    Ok((value, reader.duplicates))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn syntax(error: serde_json::Error) -> DecodeError {
    DecodeError::Syntax(error.to_string())
}

enum DocumentStep {
    Key(String),
    Index(usize),
}

struct TreeReader {
    path: Vec<DocumentStep>,
    duplicates: Vec<String>,
    /// Bytes of memory that the tree may still take.
    memory_left: usize,
}

impl TreeReader {
    fn new(body: &[u8]) -> Self {
        let memory_left = body.len().saturating_mul(TREE_BYTES_PER_BODY_BYTE).saturating_add(TREE_BYTES_BASE);
        Self { path: Vec::new(), duplicates: Vec::new(), memory_left }
    }

    fn charge<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.memory_left = self
            .memory_left
            .checked_sub(bytes.saturating_add(1))
            .ok_or_else(|| E::custom("the document takes too much memory once it is read"))?;
        Ok(())
    }

    fn report_duplicate(&mut self, key: &str) {
        if self.duplicates.len() >= STRICT_ERRORS_MAX {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                DocumentStep::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&shortened(key, PATH_BYTES_MAX));
                }
                DocumentStep::Index(index) => path.extend(["[", &index.to_string(), "]"]),
            }
            if path.len() > PATH_BYTES_MAX {
                path = shortened(&path, PATH_BYTES_MAX);
                break;
            }
        }
        let dot = if path.is_empty() { "" } else { "." };
        let key = shortened(key, PATH_BYTES_MAX);
        let report = format!("duplicate field \"{path}{dot}{key}\"");
        if !self.duplicates.contains(&report) {
            self.duplicates.push(report);
        }
    }
}

/// Deserializes one value of the tree.
struct ValueSeed<'r>(&'r mut TreeReader);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        if self.0.path.len() > DEPTH_MAX {
            return Err(D::Error::custom(format!("exceeded max depth of {DEPTH_MAX}")));
        }
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.charge(0)?;
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom(format!("unsupported value: {value}")))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.0.charge(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.charge(0)?;
        let mut list = Vec::new();
        loop {
            self.0.path.push(DocumentStep::Index(list.len()));
            let item = items.next_element_seed(ValueSeed(&mut *self.0))?;
            self.0.path.pop();
            match item {
                Some(item) => {
                    self.0.charge(item_bytes(list.len()))?;
                    list.push(item);
                }
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.charge(0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(KeySeed)? {
            self.0.charge(key.len())?;
            if map.contains_key(&key) {
                self.0.report_duplicate(&key);
            } else {
                self.0.charge(entry_bytes(map.len()))?;
            }
            self.0.path.push(DocumentStep::Key(key));
            let value = entries.next_value_seed(ValueSeed(&mut *self.0))?;
            if let Some(DocumentStep::Key(key)) = self.0.path.pop() {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}

/// Deserializes a map's key. Numbers and booleans of YAML become strings, as in Go's converter.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<String, D::Error> {
        source.deserialize_any(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is text, a number or a boolean")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        Ok(key.to_owned())
    }

    fn visit_string<E: Error>(self, key: String) -> Result<String, E> {
        Ok(key)
    }

    fn visit_bool<E: Error>(self, key: bool) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_i64<E: Error>(self, key: i64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_u64<E: Error>(self, key: u64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_f64<E: Error>(self, key: f64) -> Result<String, E> {
        Ok(key.to_string())
    }
}
