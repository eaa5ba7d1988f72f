//! Reading: text to a JSON tree, with a report of keys that stand twice.

use super::weight::{next_entry, next_item};
use super::{DEPTH_MAX, DecodeError, Media, STRICT_ERRORS_MAX};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// How many times its text a tree may take in memory, and how much beside it: neither aliases of YAML nor many small maps
/// may take what other requests need. A list of 10,000 small maps of maps takes half of it, with its fields' owners.
const TREE_TIMES: usize = 16;
const TREE_BESIDE: usize = 32 * 1024 * 1024;

/// What the reader of YAML keeps of a part of a document before the first value is read.
const YAML_EVENT: usize = 128;

/// Most bytes times brackets of a YAML document: the time to read one that is all nested is in proportion, and a
/// fraction of a second at the limit. JSON has no such limit.
const YAML_COST_MAX: usize = 1 << 28;

/// Reads a body as plain JSON, with a `duplicate field "…"` for each repeated key; the last one counts.
pub fn decode_value(body: &[u8], media: Media) -> Result<(Value, Vec<String>), DecodeError> {
    // Apply bodies are declared as YAML and are nearly always JSON.
    let looks_like_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    match media {
        Media::Json => read_json(body),
        Media::Yaml if looks_like_json => read_json(body).or_else(|_error| read_yaml(body)),
        Media::Yaml => read_yaml(body),
    }
}

fn read_json(body: &[u8]) -> Result<(Value, Vec<String>), DecodeError> {
    let mut reader = Reader::new(body);
    let mut source = serde_json::Deserializer::from_slice(body);
    let value = Slot(&mut reader).deserialize(&mut source).map_err(syntax)?;
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
    let mut reader = Reader::new(body);
    let is_part = |pair: &&[u8]| matches!(pair, [b',' | b':' | b'\n' | b'[' | b'{', _] | [b'-' | b'?', b' ']);
    let parts = body.windows(2).filter(is_part).count();
    if parts.saturating_mul(YAML_EVENT) > reader.budget {
        return Err(DecodeError::Syntax(
            "error converting YAML to JSON: too many parts for a document of this size; send it as JSON"
                .to_owned(),
        ));
    }
    let value = Slot(&mut reader)
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

struct Reader {
    path: Vec<DocumentStep>,
    duplicates: Vec<String>,
    /// Bytes of memory that the tree may still take.
    budget: usize,
}

impl Reader {
    fn new(body: &[u8]) -> Self {
        let budget = body.len().saturating_mul(TREE_TIMES).saturating_add(TREE_BESIDE);
        Self { path: Vec::new(), duplicates: Vec::new(), budget }
    }

    fn spend<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.budget = self
            .budget
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
                DocumentStep::Key(key) if path.is_empty() => path.push_str(key),
                DocumentStep::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                DocumentStep::Index(index) => path.extend(["[", &index.to_string(), "]"]),
            }
        }
        let dot = if path.is_empty() { "" } else { "." };
        let report = format!("duplicate field \"{path}{dot}{key}\"");
        if !self.duplicates.contains(&report) {
            self.duplicates.push(report);
        }
    }
}

/// A place in the tree that is yet to be read.
struct Slot<'r>(&'r mut Reader);

impl<'de> DeserializeSeed<'de> for Slot<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        if self.0.path.len() > DEPTH_MAX {
            return Err(D::Error::custom(format!("exceeded max depth of {DEPTH_MAX}")));
        }
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Slot<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.spend(0)?;
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom(format!("unsupported value: {value}")))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.0.spend(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.spend(0)?;
        let mut list = Vec::new();
        loop {
            self.0.path.push(DocumentStep::Index(list.len()));
            let item = items.next_element_seed(Slot(&mut *self.0))?;
            self.0.path.pop();
            match item {
                Some(item) => {
                    self.0.spend(next_item(list.len()))?;
                    list.push(item);
                }
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.spend(0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(MapKey)? {
            self.0.spend(key.len())?;
            if map.contains_key(&key) {
                self.0.report_duplicate(&key);
            } else {
                self.0.spend(next_entry(map.len()))?;
            }
            self.0.path.push(DocumentStep::Key(key));
            let value = entries.next_value_seed(Slot(&mut *self.0))?;
            if let Some(DocumentStep::Key(key)) = self.0.path.pop() {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}

/// A map's key; YAML's numbers and booleans become text, as Go's converter makes them.
struct MapKey;

impl<'de> DeserializeSeed<'de> for MapKey {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<String, D::Error> {
        source.deserialize_any(self)
    }
}

impl Visitor<'_> for MapKey {
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
