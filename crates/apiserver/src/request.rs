use http::{Method, Uri};
use meta::selector::FieldSelector;
use meta::status::Status;
use std::borrow::Cow;

/// Query strings and the values in them.
pub mod query;

/// What a request asks for, parsed once from method and URL (`k8s.io/apiserver/pkg/endpoints/request`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestInfo {
    /// Whether it is below `/apis/GROUP/VERSION/`.
    pub is_resource: bool,
    /// Decoded path.
    pub path: String,
    /// Kubernetes verb; the lower-case HTTP method for a non-resource request.
    pub verb: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster scope and all namespaces.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Subresource; empty for none. What follows it in the path belongs to it: `status/x`.
    pub subresource: String,
    /// Object name; empty for a collection. A list or watch that a field selector pins to one name has it, too.
    pub name: String,
    /// Raw field selector, for the authorizer.
    pub field_selector: String,
    /// Raw label selector, for the authorizer.
    pub label_selector: String,
}

/// Longest path and query taken. kube-apiserver forwards no longer ones that a client of ours could mean.
const URL_LIMIT: usize = 32 * 1024;

/// Subresources of a core namespace: `namespaces/p/status` is no resource `status` in `p`.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Verbs that were once the first segment of a resource path; no such route is served.
const PATH_VERBS: [&str; 2] = ["watch", "proxy"];

impl RequestInfo {
    /// Reads method and URL. An error is a path that no router may serve; its Status is for whoever is let in.
    pub fn parse(method: &Method, uri: &Uri) -> Result<Self, Status> {
        if uri.path_and_query().is_some_and(|whole| whole.as_str().len() > URL_LIMIT) {
            return Err(Status::failure(
                414,
                "RequestURITooLong",
                format!("the URL is longer than {URL_LIMIT} bytes"),
            ));
        }
        let path = query::percent_decode(uri.path(), false)
            .ok_or_else(|| Status::bad_request("the path is not percent-encoded UTF-8"))?;
        let trimmed = path.trim_matches('/');
        let mut parts = trimmed.split('/');
        if let (Some("apis"), Some(group), Some(version), Some(first)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            let rest: Vec<&str> = std::iter::once(first).chain(parts).collect();
            let mut info = Self::resource(method, &rest)?;
            group.clone_into(&mut info.group);
            version.clone_into(&mut info.version);
            info.apply_query(uri.query().unwrap_or_default());
            info.path = path.into_owned();
            return Ok(info);
        }
        Ok(Self { verb: lower_case(method).into_owned(), path: path.into_owned(), ..Self::default() })
    }

    /// Whether the answer is a stream that outlives every deadline.
    pub fn is_long_running(&self) -> bool {
        self.is_resource && self.verb == "watch"
    }

    /// Whether the request changes something.
    pub fn is_write(&self) -> bool {
        self.is_resource && !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// The path below the group's version. Two URLs never mean the same object, so that router and
    /// authorizer cannot disagree.
    fn resource(method: &Method, rest: &[&str]) -> Result<Self, Status> {
        if rest.iter().any(|part| part.is_empty() || part.contains('\0')) {
            return Err(Status::no_such_path());
        }
        let mut info = Self { is_resource: true, verb: verb(method).to_owned(), ..Self::default() };
        let parts = match rest {
            [verb, ..] if PATH_VERBS.contains(verb) => return Err(Status::no_such_path()),
            // Another group's namespaces are not the core's: there is no object at `namespaces/p`.
            ["namespaces", _] => return Err(Status::no_such_path()),
            ["namespaces", _, third, ..] if NAMESPACE_SUBRESOURCES.contains(third) => {
                return Err(Status::no_such_path());
            }
            ["namespaces", namespace, own @ ..] if !own.is_empty() => {
                check_segment(namespace)?;
                (*namespace).clone_into(&mut info.namespace);
                own
            }
            parts => parts,
        };
        if let [resource, named @ ..] = parts {
            (*resource).clone_into(&mut info.resource);
            if let [name, below @ ..] = named {
                check_segment(name)?;
                (*name).clone_into(&mut info.name);
                info.subresource = below.join("/");
            }
        }
        Ok(info)
    }

    fn apply_query(&mut self, query: &str) {
        if !self.name.is_empty() {
            return;
        }
        let collection = match self.verb.as_str() {
            "get" if query::flag(query, "watch") => "watch",
            "get" => "list",
            "delete" => "deletecollection",
            _ => return,
        };
        collection.clone_into(&mut self.verb);
        if query.is_empty() {
            return;
        }
        self.field_selector = query::first(query, "fieldSelector").unwrap_or_default().into_owned();
        self.label_selector = query::first(query, "labelSelector").unwrap_or_default().into_owned();
        if self.verb != "deletecollection"
            && let Ok(selector) = self.field_selector.parse::<FieldSelector>()
            && let Some(name) = selector.exact("metadata.name")
            && check_segment(name).is_ok()
        {
            name.clone_into(&mut self.name);
        }
    }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
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

/// `content.IsPathSegmentName`. A slash cannot come here: the path was split at it.
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
