use crate::flow::Class;
use http::{Method, Uri};
use meta::selector::FieldSelector;
use meta::status::Status;
use std::borrow::Cow;
use std::sync::Arc;

/// Query strings and the values in them.
pub mod query;
mod parameters;
mod verb;

pub use parameters::Query;
pub use verb::Verb;

/// What a request asks for, parsed once from method and URL, as by `k8s.io/apiserver/pkg/endpoints/request`. Router,
/// authorizer, metrics and audit all use this value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestInfo {
    /// A path below `/apis/GROUP/VERSION/`.
    Resource(Arc<ResourceRequest>),
    /// Any other path.
    Path(Arc<PathRequest>),
}

/// A verb on a resource: that of a request, or a right that is checked without a request of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceRequest {
    /// Decoded path; empty for a right without a request.
    pub path: String,
    /// The verb.
    pub verb: Verb,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster scope and all namespaces.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Object name; empty for a collection.
    pub name: String,
    /// Subresource; empty for none. It includes the rest of the path: `status/x`.
    pub subresource: String,
    /// The selectors of a collection.
    pub selectors: Selectors,
}

/// The selectors of a list, watch or deletecollection, for authorizers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selectors {
    /// The name that the field selector of a list or watch requires; else empty.
    pub name: String,
    /// Raw field selector.
    pub fields: String,
    /// Raw label selector.
    pub labels: String,
}

/// A method on a path that belongs to no resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathRequest {
    /// Decoded path.
    pub path: String,
    /// The HTTP method in lower case.
    pub verb: Cow<'static, str>,
}

/// Longest accepted path and query. kube-apiserver forwards no longer ones that a client could need.
const URL_LIMIT: usize = 32 * 1024;

/// Most parameters of a query.
const QUERY_PAIRS_MAX: usize = 1_000;

/// Subresources of a core namespace: `namespaces/p/status` is no resource `status` in `p`.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Verbs that were once the first segment of a resource path. They are not served.
const PATH_VERBS: [&str; 2] = ["watch", "proxy"];

impl From<ResourceRequest> for RequestInfo {
    fn from(request: ResourceRequest) -> Self {
        Self::Resource(Arc::new(request))
    }
}

impl RequestInfo {
    /// Parses method and URL. After an error no router may serve the path. Only authorized callers get its Status.
    pub fn parse(method: &Method, uri: &Uri) -> Result<Self, Status> {
        if uri.path_and_query().is_some_and(|whole| whole.as_str().len() > URL_LIMIT) {
            return Err(Status::failure(
                414,
                "RequestURITooLong",
                format!("the URL is longer than {URL_LIMIT} bytes"),
            ));
        }
        let query = uri.query().unwrap_or_default();
        if query.split('&').count() > QUERY_PAIRS_MAX {
            let text = format!("the query has more than {QUERY_PAIRS_MAX} parameters");
            return Err(Status::bad_request(text));
        }
        let path = query::percent_decode(uri.path(), false)
            .ok_or_else(|| Status::bad_request("the path is not percent-encoded UTF-8"))?;
        let trimmed = path.trim_matches('/');
        let mut parts = trimmed.split('/');
        if let (Some("apis"), Some(group), Some(version), Some(first)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            let rest: Vec<&str> = std::iter::once(first).chain(parts).collect();
            let mut request = ResourceRequest::parse_resource_path(method, &rest)?;
            group.clone_into(&mut request.group);
            version.clone_into(&mut request.version);
            request.apply_query(method, query);
            request.path = path.into_owned();
            return Ok(request.into());
        }
        let request = PathRequest { verb: lower_case(method), path: path.into_owned() };
        Ok(Self::Path(Arc::new(request)))
    }

    /// The request for a resource, if it is one.
    pub fn resource(&self) -> Option<&ResourceRequest> {
        match self {
            Self::Resource(request) => Some(request),
            Self::Path(_) => None,
        }
    }

    /// Bytes of the parts that a URL can make long.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Resource(request) => {
                request.path.len() + request.selectors.fields.len() + request.selectors.labels.len()
            }
            Self::Path(request) => request.path.len(),
        }
    }

    /// Decoded path.
    pub fn path(&self) -> &str {
        match self {
            Self::Resource(request) => &request.path,
            Self::Path(request) => &request.path,
        }
    }

    /// The verb of Kubernetes; for a path that belongs to no resource, the HTTP method in lower case.
    pub fn verb(&self) -> &str {
        match self {
            Self::Resource(request) => request.verb.as_str(),
            Self::Path(request) => &request.verb,
        }
    }
}

impl ResourceRequest {
    /// The class that it counts against.
    pub fn class(&self) -> Class {
        match self.verb {
            Verb::Watch => Class::Stream,
            verb if verb.is_read() => Class::Read,
            _ => Class::Write,
        }
    }

    /// The name of the object for an authorizer: that of the URL, or the one that a selector requires.
    pub fn object_name(&self) -> &str {
        if self.name.is_empty() { &self.selectors.name } else { &self.name }
    }

    /// The same request with another verb.
    #[must_use]
    pub fn with_verb(&self, verb: Verb) -> Self {
        Self { verb, ..self.clone() }
    }

    /// Parses the path below `/apis/GROUP/VERSION/`. Two paths never mean the same object, so that router and
    /// authorizer cannot disagree.
    fn parse_resource_path(method: &Method, rest: &[&str]) -> Result<Self, Status> {
        if rest.iter().any(|part| part.is_empty() || part.contains('\0')) {
            return Err(Status::no_such_path());
        }
        let mut request = Self { verb: verb(method), ..Self::default() };
        let parts = match rest {
            [verb, ..] if PATH_VERBS.contains(verb) => return Err(Status::no_such_path()),
            // Namespaces belong to the core group: no other group has an object at `namespaces/p`.
            ["namespaces", _] => return Err(Status::no_such_path()),
            ["namespaces", _, third, ..] if NAMESPACE_SUBRESOURCES.contains(third) => {
                return Err(Status::no_such_path());
            }
            ["namespaces", namespace, own @ ..] if !own.is_empty() => {
                check_segment(namespace)?;
                (*namespace).clone_into(&mut request.namespace);
                own
            }
            parts => parts,
        };
        if let [resource, named @ ..] = parts {
            (*resource).clone_into(&mut request.resource);
            if let [name, below @ ..] = named {
                check_segment(name)?;
                (*name).clone_into(&mut request.name);
                request.subresource = below.join("/");
            }
        }
        Ok(request)
    }

    /// Sets the verb and the selectors of a collection.
    fn apply_query(&mut self, method: &Method, query: &str) {
        if !self.name.is_empty() {
            return;
        }
        let collection = match *method {
            Method::GET | Method::HEAD if query::flag(query, "watch") => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            Method::DELETE => Verb::DeleteCollection,
            _ => return,
        };
        self.verb = if *method == Method::HEAD { Verb::Other(collection.as_str()) } else { collection };
        if query.is_empty() {
            return;
        }
        let first = |key| query::first(query, key).unwrap_or_default().into_owned();
        self.selectors.fields = first("fieldSelector");
        self.selectors.labels = first("labelSelector");
        if collection != Verb::DeleteCollection
            && let Ok(selector) = self.selectors.fields.parse::<FieldSelector>()
            && let Some(name) = selector.exact("metadata.name")
            && check_segment(name).is_ok()
        {
            name.clone_into(&mut self.selectors.name);
        }
    }
}

fn verb(method: &Method) -> Verb {
    match *method {
        Method::POST => Verb::Create,
        Method::GET => Verb::Get,
        Method::HEAD => Verb::Other("get"),
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other(""),
    }
}

fn lower_case(method: &Method) -> Cow<'static, str> {
    match *method {
        Method::GET => Cow::Borrowed("get"),
        Method::HEAD => Cow::Borrowed("head"),
        Method::POST => Cow::Borrowed("post"),
        _ => Cow::Owned(method.as_str().to_ascii_lowercase()),
    }
}

/// `content.IsPathSegmentName` of Go.
fn check_segment(name: &str) -> Result<(), Status> {
    let why = match name {
        "." => "may not be '.'",
        ".." => "may not be '..'",
        _ if name.contains('%') => "may not contain '%'",
        _ if name.contains('/') => "may not contain '/'",
        _ => return Ok(()),
    };
    Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}")))
}

#[cfg(test)]
mod tests;
