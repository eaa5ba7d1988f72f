use crate::kinds::Kind;
use http::{Method, Uri};
use meta::selector::{FieldSelector, LabelSelector};
use meta::status::Status;
use std::time::Duration;

/// A write is given up after this time unless it says another.
const PATIENCE: Duration = Duration::from_mins(1);

/// Which object, or which objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    /// Empty for all, and for what lies in none.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
}

impl Target {
    /// Reads a path below that of a cluster: `/api/v1/…` or `/apis/GROUP/v1/…`.
    pub fn of(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        if parts.next()? != "v1" {
            return None;
        }
        let rest: Vec<&str> = parts.collect();
        let target = |kind, namespace: &str, name: &str| {
            Some(Self { kind, namespace: namespace.to_owned(), name: name.to_owned() })
        };
        let find = |plural| Kind::find(group, plural);
        match *rest.as_slice() {
            [plural] => target(find(plural)?, "", ""),
            [plural, name] => target(find(plural).filter(|kind| !kind.is_namespaced())?, "", name),
            ["namespaces", namespace, plural] => {
                target(find(plural).filter(|kind| kind.is_namespaced())?, namespace, "")
            }
            ["namespaces", namespace, plural, name] => {
                target(find(plural).filter(|kind| kind.is_namespaced())?, namespace, name)
            }
            _ => None,
        }
    }
}

/// What a query asks for.
#[derive(Clone, Debug)]
pub struct Query {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub watch: bool,
    pub bookmarks: bool,
    pub resource_version: Option<u64>,
    /// How long the server tries.
    pub timeout: Duration,
    /// How long a watch goes on.
    pub watch_timeout: Option<Duration>,
    pub manager: String,
    pub force: bool,
}

impl Query {
    pub fn of(uri: &Uri) -> Result<Self, Status> {
        let mut query = Self {
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
            watch: false,
            bookmarks: false,
            resource_version: None,
            timeout: PATIENCE,
            watch_timeout: None,
            manager: String::new(),
            force: false,
        };
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            query.take(name, &decoded(value)).map_err(|why| Status::bad_request(format!("{name}: {why}")))?;
        }
        Ok(query)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        match name {
            "labelSelector" => self.labels = value.parse().map_err(|error| text(&error))?,
            "fieldSelector" => self.fields = value.parse().map_err(|error| text(&error))?,
            "watch" => self.watch = matches!(value, "" | "1" | "true"),
            "allowWatchBookmarks" => self.bookmarks = value == "true",
            "resourceVersion" if value.is_empty() => {}
            "resourceVersion" => self.resource_version = Some(value.parse().map_err(|error| text(&error))?),
            "timeoutSeconds" => {
                self.watch_timeout = Some(Duration::from_secs(value.parse().map_err(|error| text(&error))?));
            }
            "timeout" => {
                let seconds = value.strip_suffix('s').ok_or("seconds are expected")?;
                self.timeout = Duration::from_secs(seconds.parse().map_err(|error| text(&error))?);
            }
            "fieldManager" => value.clone_into(&mut self.manager),
            "force" => self.force = value == "true",
            "dryRun" => return Err("nothing is rehearsed here".to_owned()),
            // Pages: a server may give all of a list at once.
            _ => {}
        }
        Ok(())
    }
}

/// What stands behind percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = after;
                }
                _ => bytes.push(b'%'),
            },
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The verb of a request, as audit logs name it.
pub fn verb(method: &Method, target: &Target, query: &Query) -> Option<&'static str> {
    match (method, target.name.is_empty()) {
        (&Method::GET, true) if query.watch => Some("watch"),
        (&Method::GET, true) => Some("list"),
        (&Method::GET, false) => Some("get"),
        (&Method::POST, true) => Some("create"),
        (&Method::PATCH, false) => Some("patch"),
        (&Method::DELETE, false) => Some("delete"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_an_object_or_a_collection() {
        let of = |path: &str| Target::of(path).map(|target| (target.kind, target.namespace, target.name));
        let found = |kind, namespace: &str, name: &str| Some((kind, namespace.to_owned(), name.to_owned()));
        assert_eq!(of("/api/v1/namespaces"), found(Kind::Namespace, "", ""));
        assert_eq!(of("/api/v1/namespaces/a"), found(Kind::Namespace, "", "a"));
        assert_eq!(of("/api/v1/namespaces/a/resourcequotas/a"), found(Kind::ResourceQuota, "a", "a"));
        assert_eq!(
            of("/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings"),
            found(Kind::RoleBinding, "a", "")
        );
        assert_eq!(of("/api/v1/resourcequotas"), found(Kind::ResourceQuota, "", ""));
        for unknown in ["/api/v1/resourcequotas/a", "/api/v1/widgets", "/api/v2/namespaces", "/healthz"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_query_is_read_and_what_is_wrong_is_told() {
        let uri: Uri = "/x?labelSelector=a%2Fb%3Dc&watch=true&timeout=4s&resourceVersion=7".parse().unwrap();
        let query = Query::of(&uri).unwrap();
        assert_eq!(query.labels, "a/b=c".parse().unwrap());
        assert!(query.watch);
        assert_eq!((query.timeout, query.resource_version), (Duration::from_secs(4), Some(7)));
        assert_eq!(Query::of(&"/x?timeout=4".parse().unwrap()).unwrap_err().code, 400);
    }
}
