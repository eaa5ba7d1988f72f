//! What TKE keeps of one object, as it stands in its etcd: a key and a value. Pure.

use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// Bytes that a line of a dump may have: more than any object of TKE's etcd, which takes 1.5 MiB.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// The name of an object in TKE.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    /// The plural of its kind.
    pub resource: String,
    /// The project that it lies in; empty for one that lies in none.
    pub project: String,
    /// Its name.
    pub name: String,
}

/// One object, unjudged.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceRecord {
    /// Its name, as its key says.
    pub named: Named,
    /// Its JSON.
    pub value: Value,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name, as far as that is known.
    pub named: Named,
    /// What is wrong.
    pub why: String,
}

#[derive(Deserialize)]
struct Line {
    key: String,
    value: Value,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, project, name } = self;
        if project.is_empty() {
            write!(f, "{resource} {name}")
        } else {
            write!(f, "{resource} {project}/{name}")
        }
    }
}

impl Named {
    /// What a key names: `<prefix>/<resource>[/<project>]/<name>`. `None` for a key with another prefix.
    pub fn of_key(key: &str, prefix: &str) -> Option<Self> {
        let rest = key.strip_prefix(prefix.trim_end_matches('/'))?.strip_prefix('/')?;
        let (resource, project, name) = match rest.split('/').collect::<Vec<_>>().as_slice() {
            [resource, name] => (*resource, "", *name),
            [resource, project, name] => (*resource, *project, *name),
            _ => return None,
        };
        let named =
            Self { resource: resource.to_owned(), project: project.to_owned(), name: name.to_owned() };
        (!resource.is_empty() && !name.is_empty()).then_some(named)
    }
}

impl SourceRecord {
    /// Reads a line of a dump; `number` counts from 1.
    pub fn of_line(line: &[u8], number: usize, prefix: &str) -> Result<Self, Unreadable> {
        let unreadable = |why: String| {
            let named =
                Named { resource: "line".to_owned(), project: String::new(), name: number.to_string() };
            Unreadable { named, why }
        };
        if line.len() > LINE_BYTES_MAX {
            return Err(unreadable(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        let Line { key, value } =
            serde_json::from_slice(line).map_err(|error| unreadable(format!("it is no record: {error}")))?;
        let named = Named::of_key(&key, prefix)
            .ok_or_else(|| unreadable(format!("key {key:?} is none of {prefix}/RESOURCE[/PROJECT]/NAME")))?;
        Ok(Self { named, value })
    }

    /// Reads a pair of etcd.
    pub fn of_pair(key: &[u8], value: &[u8], prefix: &str) -> Result<Self, Unreadable> {
        let text = String::from_utf8_lossy(key);
        let Some(named) = Named::of_key(&text, prefix) else {
            let named = Named { resource: "key".to_owned(), project: String::new(), name: text.into_owned() };
            return Err(Unreadable { named, why: format!("it is none of {prefix}/RESOURCE[/PROJECT]/NAME") });
        };
        if value.starts_with(b"k8s\0") {
            let why = "it is stored as protobuf: start TKE with --storage-media-type=application/json and write \
                       the object once more";
            return Err(Unreadable { named, why: why.to_owned() });
        }
        match serde_json::from_slice(value) {
            Ok(value) => Ok(Self { named, value }),
            Err(error) => Err(Unreadable { named, why: format!("its value is no JSON: {error}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_an_object_with_or_without_a_project() {
        let of = |key: &str| Named::of_key(key, "/tke/business").map(|named| named.to_string());
        assert_eq!(of("/tke/business/projects/p").as_deref(), Some("projects p"));
        assert_eq!(of("/tke/business/namespaces/p/c-n").as_deref(), Some("namespaces p/c-n"));
        assert_eq!(Named::of_key("/a/projects/p", "/a/").unwrap().name, "p");
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
            assert_eq!(wrong.named.to_string(), "line 7", "{wrong:?}");
        }
        let long = vec![b' '; LINE_BYTES_MAX + 1];
        assert!(SourceRecord::of_line(&long, 1, "/p").unwrap_err().why.contains("longer"));
    }

    #[test]
    fn a_pair_in_protobuf_says_what_to_do() {
        let wrong = SourceRecord::of_pair(b"/p/projects/a", b"k8s\0\n", "/p").unwrap_err();
        assert!(wrong.why.contains("--storage-media-type"), "{wrong:?}");
        assert!(SourceRecord::of_pair(b"/p/projects/a", b"{}", "/p").is_ok());
    }
}
