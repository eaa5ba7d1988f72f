//! A record: one object as TKE's etcd has it, with key and value. Pure.

use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// The most bytes of a line of a dump: more than any object of TKE's etcd, whose limit is 1.5 MiB.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// The identity of an object in TKE.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The plural of its kind.
    pub resource: String,
    /// Its project; empty for an object outside of projects.
    pub project: String,
    /// Its name.
    pub name: String,
}

/// One object, unchecked.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceRecord {
    /// Its identity, by its key.
    pub object_ref: ObjectRef,
    /// Its JSON.
    pub value: Value,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRecord {
    /// Its identity, as far as that is known.
    pub object_ref: ObjectRef,
    /// The reason.
    pub why: String,
}

#[derive(Deserialize)]
struct Line {
    key: String,
    value: Value,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, project, name } = self;
        if project.is_empty() {
            write!(f, "{resource} {name}")
        } else {
            write!(f, "{resource} {project}/{name}")
        }
    }
}

impl ObjectRef {
    /// Parses a key `<prefix>/<resource>[/<project>]/<name>`. `None` for any other key.
    pub fn of_key(key: &str, prefix: &str) -> Option<Self> {
        let rest = key.strip_prefix(prefix.trim_end_matches('/'))?.strip_prefix('/')?;
        let (resource, project, name) = match rest.split('/').collect::<Vec<_>>().as_slice() {
            [resource, name] => (*resource, "", *name),
            [resource, project, name] => (*resource, *project, *name),
            _ => return None,
        };
        let object_ref =
            Self { resource: resource.to_owned(), project: project.to_owned(), name: name.to_owned() };
        (!resource.is_empty() && !name.is_empty()).then_some(object_ref)
    }
}

impl SourceRecord {
    /// Parses a line of a dump; `number` counts from 1.
    pub fn of_line(line: &[u8], number: usize, prefix: &str) -> Result<Self, UnreadableRecord> {
        let unreadable = |why: String| {
            let object_ref =
                ObjectRef { resource: "line".to_owned(), project: String::new(), name: number.to_string() };
            UnreadableRecord { object_ref, why }
        };
        if line.len() > LINE_BYTES_MAX {
            return Err(unreadable(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        let Line { key, value } =
            serde_json::from_slice(line).map_err(|error| unreadable(format!("it is no record: {error}")))?;
        let object_ref = ObjectRef::of_key(&key, prefix)
            .ok_or_else(|| unreadable(format!("key {key:?} is none of {prefix}/RESOURCE[/PROJECT]/NAME")))?;
        Ok(Self { object_ref, value })
    }

    /// Parses a key and its value from etcd.
    pub fn of_key_value(key: &[u8], value: &[u8], prefix: &str) -> Result<Self, UnreadableRecord> {
        let text = String::from_utf8_lossy(key);
        let Some(object_ref) = ObjectRef::of_key(&text, prefix) else {
            let object_ref =
                ObjectRef { resource: "key".to_owned(), project: String::new(), name: text.into_owned() };
            return Err(UnreadableRecord {
                object_ref,
                why: format!("it is none of {prefix}/RESOURCE[/PROJECT]/NAME"),
            });
        };
        if value.starts_with(b"k8s\0") {
            let why = "it is stored as protobuf: start TKE with --storage-media-type=application/json and write \
                       the object once more";
            return Err(UnreadableRecord { object_ref, why: why.to_owned() });
        }
        match serde_json::from_slice(value) {
            Ok(value) => Ok(Self { object_ref, value }),
            Err(error) => Err(UnreadableRecord { object_ref, why: format!("its value is no JSON: {error}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_an_object_with_or_without_a_project() {
        let of = |key: &str| ObjectRef::of_key(key, "/tke/business").map(|object_ref| object_ref.to_string());
        assert_eq!(of("/tke/business/projects/p").as_deref(), Some("projects p"));
        assert_eq!(of("/tke/business/namespaces/p/c-n").as_deref(), Some("namespaces p/c-n"));
        assert_eq!(ObjectRef::of_key("/a/projects/p", "/a/").unwrap().name, "p");
        for other in
            ["/tke/businessprojects/p", "/tke/business/projects", "/other/projects/p", "/tke/business//p"]
        {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(of("/tke/business/a/b/c/d"), None);
    }

    #[test]
    fn a_line_that_is_no_record_says_which_it_is() {
        let line = br#"{"key":"/p/projects/a","value":{"kind":"Project"},"version":2}"#;
        assert_eq!(SourceRecord::of_line(line, 1, "/p").unwrap().value["kind"], "Project");
        for bad in [&b"{"[..], b"[]", br#"{"key":"/p/projects/a"}"#, br#"{"key":"/q/projects/a","value":{}}"#]
        {
            let wrong = SourceRecord::of_line(bad, 7, "/p").unwrap_err();
            assert_eq!(wrong.object_ref.to_string(), "line 7", "{wrong:?}");
        }
        let long = vec![b' '; LINE_BYTES_MAX + 1];
        assert!(SourceRecord::of_line(&long, 1, "/p").unwrap_err().why.contains("longer"));
    }

    #[test]
    fn a_pair_in_protobuf_says_what_to_do() {
        let wrong = SourceRecord::of_key_value(b"/p/projects/a", b"k8s\0\n", "/p").unwrap_err();
        assert!(wrong.why.contains("--storage-media-type"), "{wrong:?}");
        assert!(SourceRecord::of_key_value(b"/p/projects/a", b"{}", "/p").is_ok());
    }
}
