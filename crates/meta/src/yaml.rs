//! YAML as kubectl reads it.
//!
//! The serialiser quotes by YAML 1.2. Go's readers follow YAML 1.1 in parts: a plain `no` is a boolean to them, `<<` merges
//! maps and `1_000` is a number, and to others `2026-01-02` is a date. A whole kubeconfig is refused for a namespace of such a name.

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::Value;

/// Words that are booleans, or merge maps, in YAML 1.1 only.
const WORDS: [&str; 17] =
    ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF", "<<"];
/// Put before a text, it makes the serialiser write it in double quotes.
const MARK: char = '\u{1}';
/// The mark as the serialiser writes it.
const WRITTEN_MARK: &str = "\\x01";

/// Writes YAML that says the same in 1.1 and in 1.2.
pub fn text(value: &impl Serialize) -> Result<String, serde_yaml_ng::Error> {
    let text = serde_yaml_ng::to_string(value)?;
    let mut tree = serde_json::to_value(value).map_err(serde_yaml_ng::Error::custom)?;
    if !mark(&mut tree) {
        return Ok(text);
    }
    if text.contains(WRITTEN_MARK) {
        // A text already has the mark. JSON is YAML, too.
        return serde_json::to_string_pretty(value).map_err(serde_yaml_ng::Error::custom);
    }
    Ok(serde_yaml_ng::to_string(&tree)?.replace(&format!("\"{WRITTEN_MARK}"), "\""))
}

/// Writes one element of a list, as it stands in lines of its own below the list's key.
pub fn element(value: &impl Serialize) -> Result<String, serde_yaml_ng::Error> {
    let written = text(&[value])?;
    if written.starts_with("- ") {
        return Ok(written);
    }
    // It is JSON, which has to stand further in than its list.
    let json = serde_json::to_string_pretty(value).map_err(serde_yaml_ng::Error::custom)?;
    Ok(format!("- {}\n", json.replace('\n', "\n  ")))
}

/// Marks the texts and keys that have to be quoted. Returns whether there are any.
fn mark(value: &mut Value) -> bool {
    match value {
        Value::String(text) => mark_text(text),
        Value::Array(list) => list.iter_mut().map(mark).fold(false, std::ops::BitOr::bitor),
        Value::Object(map) => {
            let mut any = false;
            for (mut key, mut below) in std::mem::take(map) {
                any |= mark_text(&mut key);
                any |= mark(&mut below);
                map.insert(key, below);
            }
            any
        }
        _ => false,
    }
}

fn mark_text(text: &mut String) -> bool {
    let found = WORDS.contains(&text.as_str()) || is_old_number(text) || is_date(text);
    if found {
        text.insert(0, MARK);
    }
    found
}

/// Whether it is a number in YAML 1.1 only, or to Go only: `1_000`, `0X1F`, `12:30`. All others are quoted anyway.
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

/// Go only writes them quoted; other readers take them for numbers.
fn is_sexagesimal(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.contains(':') && text.split(':').all(is_part)
}

/// Whether it is a date in YAML 1.1, maybe with a time behind it: `2026-01-02T03:04:05Z`.
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
        for word in WORDS {
            assert_eq!(text(&json!({"namespace": word})).unwrap(), format!("namespace: \"{word}\"\n"));
            assert_eq!(text(&json!({word: "x"})).unwrap(), format!("\"{word}\": x\n"));
        }
        for number in
            ["1_000", "+1_0", "-_1", "0_8", "1_0.5e3", "0X1F", "0O17", "0B1", "0b_1", "12:30", "1:2:3"]
        {
            assert_eq!(text(&json!([number])).unwrap(), format!("- \"{number}\"\n"));
        }
    }

    #[test]
    fn a_date_stays_a_text() {
        for date in ["2026-01-02", "2026-1-2", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05.5 +1"] {
            assert_eq!(text(&json!({"time": date})).unwrap(), format!("time: \"{date}\"\n"));
        }
        for plain in ["2026-01", "2026-01-02-03", "2026-ab-02", "v2026-01-02", "abcd-01-02", "2026--"] {
            assert_eq!(text(&json!([plain])).unwrap(), format!("- {plain}\n"));
        }
    }

    #[test]
    fn all_else_stays_as_it_was() {
        for plain in ["nothing", "Yes!", "7a3c4a3e-0000", "10.0.0.1:443", "a_b", "1_a", "_1", "0x"] {
            assert_eq!(text(&json!([plain])).unwrap(), format!("- {plain}\n"));
        }
        for quoted in ["true", "12", "1.5", "017", "~", ""] {
            assert_eq!(text(&json!([quoted])).unwrap(), format!("- '{quoted}'\n"));
        }
        assert_eq!(text(&json!({"b": true, "m": 5, "z": null})).unwrap(), "b: true\nm: 5\nz: null\n");
    }

    #[test]
    fn a_text_with_the_mark_stays_what_it_is() {
        for odd in ["\u{1}no", "\"\\x01", "a\n\"\\x01b\n"] {
            let whole = json!({"a": "no", "on": [odd, {"y": odd}], odd: 1});
            let written = text(&whole).unwrap();
            assert_eq!(serde_yaml_ng::from_str::<Value>(&written).unwrap(), whole, "{written}");
            assert!(written.contains("\"no\""), "{written}");
        }
    }

    #[test]
    fn elements_one_by_one_are_the_list() {
        let plain = json!([{"a": {"b": ["no", 1, {}], "c": "x\n  y\n"}}, {}, {"on": "1_0", "z": []}]);
        let lines = |list: &Value| -> String {
            list.as_array().unwrap().iter().map(|value| element(value).unwrap()).collect()
        };
        assert_eq!(format!("items:\n{}", lines(&plain)), text(&json!({ "items": plain })).unwrap());
        let odd = json!([{"a": "no", "b": ["\u{1}no", {"c": "x\ny"}]}, {"d": "off"}]);
        let written = format!("items:\n{}", lines(&odd));
        assert_eq!(serde_yaml_ng::from_str::<Value>(&written).unwrap(), json!({ "items": odd }), "{written}");
    }
}
