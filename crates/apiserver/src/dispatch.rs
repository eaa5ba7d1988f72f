//! Which handler answers: routes on the parsed request alone, with the 404 and 405 of a Go API server.

use crate::authn::Caller;
use crate::discovery::Documents;
use crate::openapi::About;
use crate::request::RequestInfo;
use crate::resource::{Resource, Subresource};
use crate::{discovery, response, verbs};
use axum::body::Body;
use http::{Method, Request, Response};
use meta::status::Status;
use std::sync::Arc;
use store::Access;
use tokio::time::Instant;

/// What all requests share.
#[derive(Clone, Debug)]
pub struct Api {
    /// Every kind served, in the order of discovery.
    pub resources: Vec<Arc<Resource>>,
    /// Where objects are kept.
    pub store: store::Store,
    /// The clock.
    pub clock: runtime::Clock,
    /// Told when the server drains: watches end cleanly.
    pub draining: tokio_util::sync::CancellationToken,
    /// Discovery and OpenAPI, computed once.
    pub documents: Arc<Documents>,
}

impl Api {
    /// Puts an API together; discovery and OpenAPI documents are computed here.
    pub fn new(
        resources: Vec<Arc<Resource>>,
        store: store::Store,
        clock: runtime::Clock,
        draining: tokio_util::sync::CancellationToken,
        about: &About,
    ) -> Self {
        let documents = Arc::new(Documents::new(&resources, about));
        Self { resources, store, clock, draining, documents }
    }
}

/// One authorized request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// What is asked.
    pub info: Arc<RequestInfo>,
    /// By whom.
    pub caller: Arc<Caller>,
    /// The proof that he may, and what he sees.
    pub access: Access,
    /// When an answer must be out; watches have their own.
    pub deadline: Instant,
    /// `Audit-ID` of the request.
    pub audit_id: Arc<str>,
}

/// What is done to what.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) resource: Arc<Resource>,
    pub(crate) subresource: Option<Subresource>,
    /// Empty for cluster scope and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Get,
    List,
    Watch,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// Answers one authorized request.
pub async fn dispatch(api: &Arc<Api>, cx: RequestContext, request: Request<Body>) -> Response<Body> {
    if !cx.info.is_resource {
        return discovery::answer(&api.documents, &cx.info.path, &request);
    }
    match route(&api.resources, &cx.info, request.method()) {
        // Boxed: a verb's future is large, and what wraps it moves it.
        Ok(route) => Box::pin(verbs::run(api, cx, route, request)).await,
        Err(status) => {
            response::failure(&status, &response::Style::of_error(request.headers(), request.uri()))
        }
    }
}

/// The path below `/apis/GROUP/VERSION`, cut as [`RequestInfo`] cuts it.
struct Target<'a> {
    group: &'a str,
    version: &'a str,
    namespace: Option<&'a str>,
    resource: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

fn target(path: &str) -> Option<Target<'_>> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        return None;
    }
    let ["apis", group, version, rest @ ..] = segments.as_slice() else { return None };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, below @ ..] if !matches!(below, [] | ["status" | "finalize", ..]) => {
            (Some(*namespace), below)
        }
        _ => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (resource, None, None),
        [resource, name] => (resource, Some(*name), None),
        [resource, name, subresource] => (resource, Some(*name), Some(*subresource)),
        _ => return None,
    };
    Some(Target { group, version, namespace, resource, name, subresource })
}

fn route(resources: &[Arc<Resource>], info: &RequestInfo, method: &Method) -> Result<Route, Status> {
    let target = target(&info.path).ok_or_else(Status::no_such_path)?;
    let resource = resources
        .iter()
        .find(|r| {
            r.gvk.group == target.group && r.gvk.version == target.version && r.plural == target.resource
        })
        .ok_or_else(Status::no_such_path)?;
    let namespaced = resource.namespaced;
    let scope_fits = match target.namespace {
        Some(_) => namespaced,
        None => !namespaced || target.name.is_none(),
    };
    let agrees = info.resource == target.resource
        && info.namespace == target.namespace.unwrap_or_default()
        && target.name.is_none_or(|name| name == info.name)
        && info.subresource == target.subresource.unwrap_or_default();
    if !scope_fits || !agrees {
        return Err(Status::no_such_path());
    }
    let subresource = match target.subresource {
        None => None,
        Some(name) => Some(*resource.subresource(name).ok_or_else(Status::no_such_path)?),
    };
    let everywhere = namespaced && target.namespace.is_none();
    let verb = match (target.name.is_some(), subresource.is_some(), method.as_str()) {
        (false, _, "GET") if info.verb == "watch" => Verb::Watch,
        (false, _, "GET") => Verb::List,
        (false, _, "POST") if !everywhere => Verb::Create,
        (false, _, "DELETE") if !everywhere => Verb::DeleteCollection,
        (true, _, "GET") => Verb::Get,
        (true, _, "PUT") => Verb::Update,
        (true, _, "PATCH") => Verb::Patch,
        (true, false, "DELETE") => Verb::Delete,
        _ => return Err(Status::method_not_allowed()),
    };
    Ok(Route {
        verb,
        resource: Arc::clone(resource),
        subresource,
        namespace: target.namespace.unwrap_or_default().to_owned(),
        name: target.name.unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
pub(crate) mod tests;
