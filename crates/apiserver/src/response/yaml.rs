//! Lists as YAML, element by element. The bytes are those of a list that is written at once.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

/// The keys under which lists and tables have their elements.
const LIST_KEYS: [&str; 2] = ["items", "rows"];

/// The lines before and after a list's elements, from the JSON around them.
pub(super) fn envelope(head: &[u8], end: &[u8], is_empty: bool) -> (Bytes, Bytes) {
    let json = [head, end].concat();
    let mut whole: Map<String, Value> = serde_json::from_slice(&json).unwrap_or_default();
    let key = LIST_KEYS.into_iter().find(|key| whole.remove(*key).is_some()).unwrap_or("items");
    // The keys are sorted.
    let (before, after): (Map<String, Value>, Map<String, Value>) =
        whole.into_iter().partition(|(name, _)| name.as_str() < key);
    let list = if is_empty { " []" } else { "" };
    (Bytes::from(format!("{}{key}:{list}\n", lines(&before))), Bytes::from(lines(&after)))
}

fn lines(map: &Map<String, Value>) -> String {
    if map.is_empty() { String::new() } else { meta::yaml::to_string(map).unwrap_or_default() }
}

/// Replaces the JSON of one element, from `from` to the end of the buffer, by its lines of YAML.
pub(super) fn rewrite_element(out: &mut BytesMut, from: usize) {
    let json = out.get(from..).unwrap_or_default();
    let written =
        serde_json::from_slice::<Value>(json).ok().and_then(|value| meta::yaml::to_list_item(&value).ok());
    // JSON is valid YAML.
    let lines = written.unwrap_or_else(|| format!("- {}\n", String::from_utf8_lossy(json)));
    out.truncate(from);
    out.put_slice(lines.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(head: &str, items: &[&str]) -> String {
        let (before, after) = envelope(head.as_bytes(), b"]}", items.is_empty());
        let mut out = BytesMut::from(&*before);
        for item in items {
            let from = out.len();
            out.put_slice(item.as_bytes());
            rewrite_element(&mut out, from);
        }
        out.put_slice(&after);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn a_list_in_pieces_is_the_list_as_a_whole() {
        let list = r#"{"kind":"AList","apiVersion":"g/v1","metadata":{"resourceVersion":"5"},"items":["#;
        let table = r#"{"kind":"Table","apiVersion":"m/v1","metadata":{},"columnDefinitions":[{"name":"Name"}],"rows":["#;
        let items = [
            r#"{"kind":"A","metadata":{"name":"no","labels":{"a":"1_0"}},"spec":{"l":["x",{"y":2}]}}"#,
            "{}",
        ];
        for (head, items) in [(list, &items[..]), (list, &[][..]), (table, &items[..]), (table, &[][..])] {
            let json = format!("{head}{}]}}", items.join(","));
            let whole: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(written(head, items), meta::yaml::to_string(&whole).unwrap());
        }
    }
}
