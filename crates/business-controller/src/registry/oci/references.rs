//! The references of a manifest, as any client may read them. Registries parse with Go's JSON, which matches keys in
//! any case, takes duplicate keys, and accepts strings and numbers that other parsers refuse. So this parser refuses
//! nothing: it looks at all strings, and of the structure only at what is below `manifests`.

use business_types::registry::is_digest;
use std::collections::BTreeSet;
use std::iter::{Copied, Peekable};
use std::slice::Iter;

/// References that are accepted in a manifest. No real image has as many.
pub const MANIFEST_REFERENCES_MAX: usize = if cfg!(test) { 30 } else { 10_000 };

/// The digests that a manifest names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Digests that may be blobs: any string may be one.
    pub blobs: BTreeSet<String>,
    /// Digests of manifests, in an index.
    pub children: BTreeSet<String>,
}

/// A parsed manifest.
#[derive(Debug)]
pub struct Manifest {
    pub bytes: u64,
    pub references: References,
}

type Bytes<'a> = Peekable<Copied<Iter<'a, u8>>>;

impl References {
    /// The number of references.
    pub fn count(&self) -> usize {
        self.blobs.len().saturating_add(self.children.len())
    }

    /// Whether there are more than are accepted. Then not all of them were read.
    pub fn are_too_many(&self) -> bool {
        self.count() > MANIFEST_REFERENCES_MAX
    }

    /// Parses the references of a manifest, whatever its type is.
    pub fn of(manifest: &[u8]) -> Self {
        let mut found = Self::default();
        let mut bytes = manifest.iter().copied().peekable();
        let mut depth: usize = 0;
        // The depth at which the value of `manifests` began.
        let mut list: Option<usize> = None;
        let mut is_next = false;
        while !found.are_too_many()
            && let Some(byte) = bytes.next()
        {
            match byte {
                b'"' => {
                    let text = text(&mut bytes);
                    while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
                    if bytes.peek() == Some(&b':') {
                        is_next = is_manifests(&text);
                    } else if is_digest(&text) {
                        let is_child = list.is_some() || is_next;
                        let among = if is_child { &mut found.children } else { &mut found.blobs };
                        among.insert(text);
                    }
                }
                b'{' | b'[' => {
                    depth = depth.saturating_add(1);
                    if std::mem::take(&mut is_next) && list.is_none() {
                        list = Some(depth);
                    }
                }
                b'}' | b']' => {
                    if list == Some(depth) {
                        list = None;
                    }
                    depth = depth.saturating_sub(1);
                }
                b',' => is_next = false,
                _ => {}
            }
        }
        found
    }
}

/// The rest of a string. Invalid escapes become a character that no digest has.
fn text(bytes: &mut Bytes<'_>) -> String {
    let mut text = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => match bytes.next() {
                Some(b'u') => {
                    let digits: String = bytes.by_ref().take(4).map(char::from).collect();
                    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    let code = code.unwrap_or(char::REPLACEMENT_CHARACTER);
                    text.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(escaped) => text.push(escaped),
                None => break,
            },
            _ => text.push(byte),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether Go takes a key for `manifests`: it folds case, and also the long s.
fn is_manifests(key: &str) -> bool {
    let fold = |letter: char| if letter == '\u{17f}' { 's' } else { letter.to_ascii_lowercase() };
    key.chars().map(fold).eq("manifests".chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> String {
        format!("sha256:{number:064x}")
    }

    fn of(manifest: &str) -> (Vec<String>, Vec<String>) {
        let References { blobs, children } = References::of(manifest.as_bytes());
        (blobs.into_iter().collect(), children.into_iter().collect())
    }

    #[test]
    fn a_manifest_names_blobs_and_an_index_manifests() {
        let [a, b, c] = [1, 2, 3].map(digest);
        let image = format!(
            r#"{{"config": {{"digest": "{a}", "size": 1}}, "layers": [{{"digest" : "{b}"}}, {{"digest":"{b}"}}]}}"#
        );
        assert_eq!(of(&image), (vec![a.clone(), b.clone()], vec![]));
        let index = format!(
            r#"{{"manifests" : [{{"digest": "{a}", "platform": {{"os": "x"}}}}, {{"digest": "{b}"}}], "subject": {{"digest": "{c}"}}}}"#
        );
        assert_eq!(of(&index), (vec![c], vec![a, b]));
        for none in ["", "{}", "nonsense", "{\"", "{\"\\", "\"\\u12", r#"{"digest": "sha256:../../x"}"#, "]}"]
        {
            assert_eq!(of(none), (vec![], vec![]), "{none}");
        }
    }

    #[test]
    fn of_too_many_no_more_are_read_than_shows_that() {
        let names = |count: usize| (0..count).map(|name| format!(r#"{{"digest": "{}"}}"#, digest(name)));
        let index = |count| format!(r#"{{"manifests": [{}]}}"#, names(count).collect::<Vec<_>>().join(","));
        let most = References::of(index(MANIFEST_REFERENCES_MAX).as_bytes());
        assert!(most.count() == MANIFEST_REFERENCES_MAX && !most.are_too_many());
        let more = References::of(index(3 * MANIFEST_REFERENCES_MAX).as_bytes());
        assert!(more.count() == MANIFEST_REFERENCES_MAX + 1 && more.are_too_many());
    }

    #[test]
    fn what_a_registry_reads_otherwise_than_others_is_found_as_well() {
        let [a, b] = [1, 2].map(digest);
        let blobs = [
            format!(r#"{{"LAYERS": [{{"Digest": "{a}"}}], "layers": [], "Layers": [{{"digest": "{b}"}}]}}"#),
            format!(r#"{{"layers": [{{"digest": "{a}"}}], "layers": [{{"digest": "{b}", "digest": "x"}}]}}"#),
            format!(
                r#"{{"layers": [{{"digest": "\u0073{}"}}, {{"digest": "{b}"}}], "x": 1e999, "y": "\ud800"}}"#,
                a.trim_start_matches('s')
            ),
            format!(r#"{{"x": "a \" {b}", "layers": [{{"digest": "{a}"}}, "{b}"]}}"#),
        ];
        for manifest in blobs {
            assert_eq!(of(&manifest), (vec![a.clone(), b.clone()], vec![]), "{manifest}");
        }
        for key in ["Manifests", "MANIFESTS", "manife\u{17f}ts", r"\u006danifests"] {
            let index = format!(
                r#"{{"manifests": [], "{key}": [{{"digest": "{a}"}}], "layers": [{{"digest": "{b}"}}]}}"#
            );
            assert_eq!(of(&index), (vec![b.clone()], vec![a.clone()]), "{key}");
        }
        let mut odd = b"{\"x\": \"\xff\", \"layers\": [{\"digest\": \"".to_vec();
        odd.extend_from_slice(a.as_bytes());
        odd.extend_from_slice(b"\"}]}");
        assert_eq!(References::of(&odd).blobs, BTreeSet::from([a]));
    }
}
