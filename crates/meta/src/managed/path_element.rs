//! One element of a field path, as `FieldsV1` writes it (`fieldpath.PathElement`).

use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// A field of a struct, a key of a map, or an item of a list.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// `f:name`
    Field(String),
    /// `k:{"name":"a"}`: the item of an associative list that has these keys, sorted by name.
    Key(Vec<(String, Value)>),
    /// `v:"a"`: the item of a set that has this value.
    Value(Value),
    /// `i:0`: the item of a list at this index.
    Index(i64),
}

impl PathElement {
    /// Reads a key of `FieldsV1`. `None` for an unknown kind of element, which a later version may have.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err("key must be 2 characters long:".to_owned());
        };
        if !kind.ends_with(':') {
            return Err(format!("missing colon: {text}"));
        }
        let json = |error: serde_json::Error| error.to_string();
        Ok(Some(match kind {
            "f:" => Self::Field(rest.to_owned()),
            "v:" => Self::Value(serde_json::from_str(rest).map_err(json)?),
            "k:" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).map_err(json)?;
                Self::Key(keys.into_iter().collect())
            }
            "i:" => Self::Index(rest.parse().map_err(|_error| format!("invalid index: {text}"))?),
            _ => return Ok(None),
        }))
    }

    /// Its key in `FieldsV1`.
    pub fn to_key(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(keys) => {
                let map: Map<String, Value> = keys.iter().cloned().collect();
                format!("k:{}", go_json(&Value::Object(map)))
            }
            Self::Value(value) => format!("v:{}", go_json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Compares this element with a field of this name.
    pub(super) fn cmp_field(&self, name: &str) -> Ordering {
        match self {
            Self::Field(own) => own.as_str().cmp(name),
            _ => Ordering::Greater,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// JSON as Go writes it: with characters escaped that have a meaning in HTML or JavaScript.
fn go_json(value: &Value) -> String {
    let mut json = value.to_string();
    // These characters occur inside of strings only.
    for (character, escape) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if json.contains(character) {
            json = json.replace(character, escape);
        }
    }
    json
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let pairs = a.iter().zip(b).map(|((name, value), (other_name, other_value))| {
                    name.cmp(other_name).then_with(|| compare_values(value, other_value))
                });
                pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Compares values. Types are ordered numbers, strings, booleans, lists, maps, null; whole numbers and fractions
/// compare by value.
pub(super) fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x.cmp(&y),
            _ => x.as_f64().unwrap_or_default().total_cmp(&y.as_f64().unwrap_or_default()),
        },
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) => {
            let items = x.iter().zip(y).map(|(x, y)| compare_values(x, y));
            items.fold(Ordering::Equal, Ordering::then).then(x.len().cmp(&y.len()))
        }
        (Value::Object(x), Value::Object(y)) => {
            let items = x.iter().zip(y).map(|((k, x), (l, y))| k.cmp(l).then_with(|| compare_values(x, y)));
            items.fold(Ordering::Equal, Ordering::then).then(x.len().cmp(&y.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_go_writes_them_and_read_back() {
        for (key, want) in [
            (r#"v:"<&>""#, r#"v:"\u003c\u0026\u003e""#),
            (r#"k:{"name":"a>b"}"#, r#"k:{"name":"a\u003eb"}"#),
            (r#"v:"é\n""#, r#"v:"é\n""#),
        ] {
            let element = PathElement::parse(key).unwrap().unwrap();
            assert_eq!(element.to_key(), want);
            assert_eq!(PathElement::parse(want).unwrap().unwrap(), element);
        }
    }
}
