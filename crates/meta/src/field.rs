//! Field errors with the texts of `k8s.io/apimachinery/pkg/util/validation/field`.

use serde_json::Value;
use std::fmt;

/// The maximum number of field errors in a Status. There is no need to collect more.
pub const FIELD_ERRORS_MAX: usize = 100;
/// The maximum number of bytes of a value in an error.
const VALUE_BYTES_MAX: usize = 1024;
/// The maximum number of bytes of a key in a path: more than any valid key has.
const KEY_BYTES_MAX: usize = 512;
/// The maximum number of bytes of a path that is made of a body's own keys. One of them may have megabytes, and there
/// may be a report about each field below it.
pub(crate) const PATH_BYTES_MAX: usize = 1024;

/// A path into an object, printed as `spec.clusters[c1].hard[cpu]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Path(String);

impl Path {
    /// A path of one name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The path of a field below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The path of a map's value or an associative list's item.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{}]", self.0, shortened(key, KEY_BYTES_MAX)))
    }

    /// The path of a list's item.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a field. The names are those of `metav1.CauseType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `FieldValueRequired`
    Required,
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueNotSupported`
    NotSupported,
    /// `FieldValueDuplicate`
    Duplicate,
    /// `FieldValueNotFound`
    NotFound,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueTooLong`
    TooLong,
    /// `FieldValueTooMany`
    TooMany,
}

impl Cause {
    /// The text of `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }
}

/// An error of one field (`field.Error`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// What is wrong.
    pub cause: Cause,
    /// Path of the field.
    pub field: String,
    /// Message without the path, such as `Invalid value: "x": must be …`.
    pub message: String,
}

impl FieldError {
    /// A value that must be given.
    pub fn required(path: &Path, detail: &str) -> Self {
        Self::build(Cause::Required, path, "Required value", detail)
    }

    /// A value that is malformed or out of range.
    pub fn invalid(path: &Path, value: &Value, detail: &str) -> Self {
        Self::build(Cause::Invalid, path, &format!("Invalid value: {}", display_value(value)), detail)
    }

    /// A value outside a fixed set.
    pub fn not_supported(path: &Path, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {list}") };
        Self::build(
            Cause::NotSupported,
            path,
            &format!("Unsupported value: {}", display_value(value)),
            &detail,
        )
    }

    /// A duplicate value.
    pub fn duplicate(path: &Path, value: &Value) -> Self {
        Self::build(Cause::Duplicate, path, &format!("Duplicate value: {}", display_value(value)), "")
    }

    /// A reference to something that does not exist.
    pub fn not_found(path: &Path, value: &Value) -> Self {
        Self::build(Cause::NotFound, path, &format!("Not found: {}", display_value(value)), "")
    }

    /// A field that may not be set or changed.
    pub fn forbidden(path: &Path, detail: &str) -> Self {
        Self::build(Cause::Forbidden, path, "Forbidden", detail)
    }

    /// A value with too many bytes.
    pub fn too_long(path: &Path, bytes_max: usize) -> Self {
        Self::build(Cause::TooLong, path, "Too long", &format!("may not be more than {bytes_max} bytes"))
    }

    /// A list with too many items.
    pub fn too_many(path: &Path, items: usize, items_max: usize) -> Self {
        Self::build(
            Cause::TooMany,
            path,
            &format!("Too many: {items}"),
            &format!("must have at most {items_max} items"),
        )
    }

    fn build(cause: Cause, path: &Path, head: &str, detail: &str) -> Self {
        let message = if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") };
        Self { cause, field: path.to_string(), message }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

/// A value for an error message: strings as Go quotes them, everything else as JSON. A long value is cut off.
fn display_value(value: &Value) -> String {
    shortened(&value.as_str().map_or_else(|| value.to_string(), quoted), VALUE_BYTES_MAX)
}

/// A text, cut off after `bytes_max` bytes.
pub fn shortened(text: &str, bytes_max: usize) -> String {
    match text.get(..text.floor_char_boundary(bytes_max)) {
        Some(begin) if begin.len() < text.len() => format!("{begin}…"),
        _ => text.to_owned(),
    }
}

/// A text in quotes, with the escapes of Go's `strconv.Quote`.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len().saturating_add(2));
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if is_printable(character) => out.push(character),
            _ => {
                let code = u32::from(character);
                out.extend([match code {
                    0..0x20 | 0x7f => format!("\\x{code:02x}"),
                    0..0x1_0000 => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                }]);
            }
        }
    }
    out.push('"');
    out
}

/// Field errors in the order they were found. A check that finds nothing wrong returns an empty list.
pub type FieldErrors = Vec<FieldError>;

/// Whether a character is printable (`unicode.IsPrint`): a letter, mark, number, punctuation, symbol, or the ASCII
/// space.
pub(crate) fn is_printable(character: char) -> bool {
    // `escape_debug` escapes all characters that are not printable.
    character == ' ' || (!character.is_whitespace() && character.escape_debug().len() <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "abc…");
        assert_eq!(shortened("aéé", 4), "aé…");
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        let path = Path::new("f");
        for (value, want) in [
            (json!("a\u{7}\u{1}\"\\é\n"), r#""a\a\x01\"\\é\n""#),
            (json!("\u{202e}\u{a0}\u{e000}\u{10ffff}"), r#""\u202e\u00a0\ue000\U0010ffff""#),
            (json!({"a": "\u{7}"}), r#"{"a":"\u0007"}"#),
        ] {
            assert_eq!(FieldError::duplicate(&path, &value).message, format!("Duplicate value: {want}"));
        }
    }

    #[test]
    fn of_long_values_and_keys_the_beginning_is_shown() {
        for value in [json!("ä".repeat(10_000)), json!(vec!["a"; 10_000])] {
            let message = FieldError::invalid(&Path::new("f"), &value, "too long a story").message;
            assert!(message.len() < VALUE_BYTES_MAX + 64, "{message}");
            assert!(message.ends_with("…: too long a story"), "{message}");
        }
        assert!(Path::new("f").key(&"k".repeat(10_000)).to_string().ends_with("kk…]"));
    }
}
