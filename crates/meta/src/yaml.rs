//! YAML that is read alike by YAML 1.1 and 1.2 readers.
//!
//! The serializer quotes strings by the rules of YAML 1.2. Go's readers follow YAML 1.1 in part: there an unquoted `no`
//! is a boolean, `<<` merges maps and `1_000` is a number. For other readers `2026-01-02` is a date. kubectl would
//! refuse a whole kubeconfig because of a namespace with such a name.

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::Value;

/// Strings that are booleans or the merge key in YAML 1.1 only.
const YAML_1_1_WORDS: [&str; 17] =
    ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF", "<<"];
/// A string that begins with this character is written in double quotes by the serializer.
const QUOTE_MARK: char = '\u{1}';
/// The mark as the serializer escapes it.
const ESCAPED_QUOTE_MARK: &str = "\\x01";

/// Serializes a value as YAML that means the same in 1.1 and in 1.2.
pub fn to_string(value: &impl Serialize) -> Result<String, serde_yaml_ng::Error> {
    let text = serde_yaml_ng::to_string(value)?;
    let mut tree = serde_json::to_value(value).map_err(serde_yaml_ng::Error::custom)?;
    if !mark(&mut tree) {
        return Ok(text);
    }
    if text.contains(ESCAPED_QUOTE_MARK) {
        // Some string contains the mark itself. JSON is valid YAML, too.
        return serde_json::to_string_pretty(value).map_err(serde_yaml_ng::Error::custom);
    }
    Ok(serde_yaml_ng::to_string(&tree)?.replace(&format!("\"{ESCAPED_QUOTE_MARK}"), "\""))
}

/// Serializes one item of a list, as the lines below the list's key.
pub fn to_list_item(value: &impl Serialize) -> Result<String, serde_yaml_ng::Error> {
    let written = to_string(&[value])?;
    if written.starts_with("- ") {
        return Ok(written);
    }
    // It is JSON, which has to be indented more than its list.
    let json = serde_json::to_string_pretty(value).map_err(serde_yaml_ng::Error::custom)?;
    Ok(format!("- {}\n", json.replace('\n', "\n  ")))
}

/// Marks the strings and keys that have to be quoted. Returns whether there are any.
fn mark(value: &mut Value) -> bool {
    match value {
        Value::String(text) => mark_string(text),
        Value::Array(list) => list.iter_mut().map(mark).fold(false, std::ops::BitOr::bitor),
        Value::Object(map) => {
            let mut any = false;
            for (mut key, mut below) in std::mem::take(map) {
                any |= mark_string(&mut key);
                any |= mark(&mut below);
                map.insert(key, below);
            }
            any
        }
        _ => false,
    }
}

fn mark_string(text: &mut String) -> bool {
    let found = YAML_1_1_WORDS.contains(&text.as_str()) || is_old_number(text) || is_date(text);
    if found {
        text.insert(0, QUOTE_MARK);
    }
    found
}

/// Whether a string is a number only in YAML 1.1 or only for Go: `1_000`, `0X1F`, `12:30`. The serializer quotes other
/// numbers.
fn is_old_number(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_hexdigit() || b"xXoO_+-.:".contains(&byte);
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        || !text.bytes().all(is_letter)
    {
        return false;
    }
    let plain = text.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let radix = match unsigned.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0o" | "0O") => 8,
        Some("0b" | "0B") => 2,
        _ => return is_sexagesimal(unsigned) || (text.contains('_') && is_decimal(unsigned)),
    };
    let digits = unsigned.get(2..).unwrap_or_default();
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))
}

fn is_decimal(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit() || first == '.') && text.parse::<f64>().is_ok()
}

/// Whether a string is a sexagesimal number. Go writes such a string in quotes but does not read it as a number; other
/// readers do.
fn is_sexagesimal(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.contains(':') && text.split(':').all(is_part)
}

/// Whether a string is a date in YAML 1.1, with or without a time: `2026-01-02T03:04:05Z`.
fn is_date(text: &str) -> bool {
    if text.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.split(['T', 't', ' ', '\t']).next().unwrap_or_default().split('-');
    let [year, month, day] = [parts.next(), parts.next(), parts.next()];
    parts.next().is_none()
        && year.is_some_and(is_number)
        && [month, day]
            .iter()
            .all(|part| part.is_some_and(|part| (1..=2).contains(&part.len()) && is_number(part)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_yaml_1_1_reads_as_no_text_is_quoted() {
        for word in YAML_1_1_WORDS {
            assert_eq!(to_string(&json!({"namespace": word})).unwrap(), format!("namespace: \"{word}\"\n"));
            assert_eq!(to_string(&json!({word: "x"})).unwrap(), format!("\"{word}\": x\n"));
        }
        for number in
            ["1_000", "+1_0", "-_1", "0_8", "1_0.5e3", "0X1F", "0O17", "0B1", "0b_1", "12:30", "1:2:3"]
        {
            assert_eq!(to_string(&json!([number])).unwrap(), format!("- \"{number}\"\n"));
        }
    }

    #[test]
    fn a_date_stays_a_text() {
        for date in ["2026-01-02", "2026-1-2", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05.5 +1"] {
            assert_eq!(to_string(&json!({"time": date})).unwrap(), format!("time: \"{date}\"\n"));
        }
        for plain in ["2026-01", "2026-01-02-03", "2026-ab-02", "v2026-01-02", "abcd-01-02", "2026--"] {
            assert_eq!(to_string(&json!([plain])).unwrap(), format!("- {plain}\n"));
        }
    }

    #[test]
    fn all_else_stays_as_it_was() {
        for plain in ["nothing", "Yes!", "7a3c4a3e-0000", "10.0.0.1:443", "a_b", "1_a", "_1", "0x"] {
            assert_eq!(to_string(&json!([plain])).unwrap(), format!("- {plain}\n"));
        }
        for quoted in ["true", "12", "1.5", "017", "~", ""] {
            assert_eq!(to_string(&json!([quoted])).unwrap(), format!("- '{quoted}'\n"));
        }
        assert_eq!(to_string(&json!({"b": true, "m": 5, "z": null})).unwrap(), "b: true\nm: 5\nz: null\n");
    }

    #[test]
    fn a_text_with_the_mark_stays_what_it_is() {
        for odd in ["\u{1}no", "\"\\x01", "a\n\"\\x01b\n"] {
            let whole = json!({"a": "no", "on": [odd, {"y": odd}], odd: 1});
            let written = to_string(&whole).unwrap();
            assert_eq!(serde_yaml_ng::from_str::<Value>(&written).unwrap(), whole, "{written}");
            assert!(written.contains("\"no\""), "{written}");
        }
    }

    #[test]
    fn elements_one_by_one_are_the_list() {
        let plain = json!([{"a": {"b": ["no", 1, {}], "c": "x\n  y\n"}}, {}, {"on": "1_0", "z": []}]);
        let lines = |list: &Value| -> String {
            list.as_array().unwrap().iter().map(|value| to_list_item(value).unwrap()).collect()
        };
        assert_eq!(format!("items:\n{}", lines(&plain)), to_string(&json!({ "items": plain })).unwrap());
        let odd = json!([{"a": "no", "b": ["\u{1}no", {"c": "x\ny"}]}, {"d": "off"}]);
        let written = format!("items:\n{}", lines(&odd));
        assert_eq!(serde_yaml_ng::from_str::<Value>(&written).unwrap(), json!({ "items": odd }), "{written}");
    }
}
