//! Reads parts of stored bytes without parsing them.

use meta::object::splice_point;
use store::Entry;

/// The `resourceVersion` of an entry; empty after a dry run.
pub(super) fn resource_version(entry: &Entry) -> String {
    if entry.revision.0 == 0 { String::new() } else { entry.revision.to_string() }
}

/// The JSON of `metadata`, with its braces.
pub(super) fn metadata_object(body: &str) -> Option<&str> {
    let (start, end) =
        (splice_point(body)?.0.len().checked_sub(1)?, metadata_of(body)?.len().checked_add(2)?);
    body.get(start..)?.get(..end)
}

/// The bytes between the braces of `metadata`.
pub(super) fn metadata_of(body: &str) -> Option<&str> {
    let (_, tail) = splice_point(body)?;
    let (mut depth, mut in_string, mut escaped) = (1_u32, false, false);
    for (at, byte) in tail.bytes().enumerate() {
        if in_string {
            (in_string, escaped) = match byte {
                _ if escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' => depth = depth.saturating_add(1),
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return tail.get(..at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_cut_out_of_stored_bytes() {
        let body = r#"{"apiVersion":"g/v1","kind":"A","metadata":{"annotations":{"a":"}\"{\\"},"name":"x"},"spec":{}}"#;
        assert_eq!(metadata_of(body), Some(r#""annotations":{"a":"}\"{\\"},"name":"x""#));
        let object = r#"{"annotations":{"a":"}\"{\\"},"name":"x"}"#;
        assert_eq!(metadata_object(body), Some(object));
        assert_eq!(metadata_of(r#"{"metadata":{"#), None);
        assert_eq!(metadata_of(r#"{"metadata":{}}"#), Some(""));
    }
}
