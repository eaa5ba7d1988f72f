//! Refuses U+0000: JSON may contain it, but a PostgreSQL text may not.

use meta::field::{Cause, Path, shortened};
use meta::status::{Status, StatusCause};
use serde_json::Value;

/// The most bytes of a name in the path that an error shows.
const NAME_BYTES_MAX: usize = 512;

/// Refuses a document with a NUL in a string or a key. The error names the field. `body` is the text of the document:
/// if it contains nothing that could be a NUL, as most do, the document is not searched.
pub(crate) fn check(body: &[u8], document: &Value) -> Result<(), Status> {
    if !may_contain_nul(body) {
        return Ok(());
    }
    match find(document) {
        None => Ok(()),
        Some(steps) => Err(refusal(&path(steps))),
    }
}

fn refusal(path: &Path) -> Status {
    const WHY: &str = "a text must not contain the character U+0000";
    Status::bad_request(format!("{path}: {WHY}")).with_causes(vec![StatusCause {
        reason: Cause::Invalid.reason().to_owned(),
        message: WHY.to_owned(),
        field: path.to_string(),
    }])
}

/// Whether a body contains the character itself or an escape of JSON or YAML for it: `\u0000`, `\x00`, `\0` or
/// `\U00000000`.
fn may_contain_nul(body: &[u8]) -> bool {
    memchr::memchr2_iter(b'\\', 0, body).any(|at| match body.get(at..) {
        Some([0, ..] | [b'\\', b'0', ..]) => true,
        Some([b'\\', b'x', rest @ ..]) => rest.starts_with(b"00"),
        Some([b'\\', b'u', rest @ ..]) => rest.starts_with(b"0000"),
        Some([b'\\', b'U', rest @ ..]) => rest.starts_with(b"00000000"),
        _ => false,
    })
}

/// A step from a value to one in it.
enum Step<'a> {
    Field(&'a str),
    /// A key that contains a NUL itself.
    Key(&'a str),
    Index(usize),
}

/// The steps to the first NUL, the innermost first. They become a path only where there is one: a path for each value
/// would take minutes below a key of a megabyte.
fn find(value: &Value) -> Option<Vec<Step<'_>>> {
    match value {
        Value::String(text) => text.contains('\0').then(Vec::new),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| Some(from(Step::Index(index), find(item)?)))
        }
        Value::Object(fields) => fields.iter().find_map(|(key, value)| {
            if key.contains('\0') {
                return Some(vec![Step::Key(key)]);
            }
            Some(from(Step::Field(key), find(value)?))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn from<'a>(step: Step<'a>, mut below: Vec<Step<'a>>) -> Vec<Step<'a>> {
    below.push(step);
    below
}

fn path(steps: Vec<Step<'_>>) -> Path {
    steps.into_iter().rev().fold(Path::default(), |at, step| match step {
        Step::Field(name) => at.child(&shortened(name, NAME_BYTES_MAX)),
        Step::Key(key) => at.key(&key.replace('\0', "\\u0000")),
        Step::Index(index) => at.index(index),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::decode::{Media, decode_value};

    fn refused(body: &str, media: Media) -> Option<String> {
        let (value, _) = decode_value(body.as_bytes(), media).unwrap();
        check(body.as_bytes(), &value).err().map(|status| status.message)
    }

    #[test]
    fn a_nul_is_refused_by_the_place_where_it_is() {
        let why = |path: &str| Some(format!("{path}: a text must not contain the character U+0000"));
        for (body, media, want) in [
            (r#"{"spec":{"a":["x","y\u0000"]}}"#, Media::Json, why("spec.a[1]")),
            (r#"{"spec":{"a\u0000b":1}}"#, Media::Json, why("spec[a\\u0000b]")),
            (r#"{"a":"\\u0000","b":"\u00002"}"#, Media::Json, why("b")),
            (r#"{"a":"\\u0000"}"#, Media::Json, None),
            (r#"{"a":"\u0001\u00e4"}"#, Media::Json, None),
            ("a: \"x\\0\"", Media::Yaml, why("a")),
            ("a: \"\\x00\"", Media::Yaml, why("a")),
            ("a: [\"\\u0000\"]", Media::Yaml, why("a[0]")),
            ("a: '\\0'", Media::Yaml, None),
        ] {
            assert_eq!(refused(body, media), want, "{body}");
        }
    }

    /// With a path for each value this would take minutes.
    #[test]
    fn a_long_key_with_many_values_is_searched_at_once() {
        let body = format!(r#"{{"{}":[{}"\\u0000","\u0000"]}}"#, "k".repeat(1 << 20), "0,".repeat(1 << 19));
        let message = refused(&body, Media::Json).unwrap();
        assert!(message.contains("k…[524289]: a text must not") && message.len() < 1_000, "{message}");
    }
}
