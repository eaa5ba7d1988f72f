//! Routes at paths that belong to no resource: documents, health, pages, downloads.

use crate::authz::RouteAccess;
use crate::context::RequestContext;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::flow::Class;
use crate::request::RequestInfo;
use crate::response::{self, Style, rendered_response};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use meta::status::Status;
use serde_json::json;
use std::sync::Arc;

/// The methods of a route that is only read.
pub const GET: &[Method] = &[Method::GET, Method::HEAD];

/// A path that belongs to no resource, the callers that are let in, and the handler that answers.
#[derive(Clone)]
pub struct Route {
    /// Such as `/console`: without a slash at its end.
    pub path: String,
    /// The paths that it matches. The longest path wins.
    pub path_match: PathMatch,
    /// Its methods. Others are answered with 405.
    pub methods: &'static [Method],
    /// The callers that are let in.
    pub access: RouteAccess,
    /// Whether it answers from the store. Only then does the request's [`store::Access`] say what the caller sees.
    pub reads_store: bool,
    /// The class that it counts against. A stream ([`Class::Stream`]) has no deadline: its handler ends it when
    /// [`crate::stream_authorization::StreamAuthorization::revoked`] completes.
    pub class: Class,
    /// How its clients authenticate and how they are refused, if not as in Kubernetes. Not for a stream.
    pub dialect: Option<Arc<dyn Dialect>>,
    /// The paths that the index at `/` shows.
    pub listed: Vec<String>,
    /// The handler that answers.
    pub handler: Arc<dyn RouteHandler>,
}

/// The paths that a route matches. A trailing slash of a request is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// The path itself.
    Exact,
    /// The paths below it, without the path itself.
    Below,
    /// The path itself and the paths below it.
    Prefix,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route")
            .field("path", &self.path)
            .field("path_match", &self.path_match)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// Answers at a route. The future is dropped when the request's deadline passes.
pub trait RouteHandler: Send + Sync + 'static {
    /// Answers one authorized request.
    fn answer<'a>(
        &'a self,
        cx: &'a mut RequestContext,
        request: Request<Body>,
    ) -> BoxFuture<'a, Response<Body>>;
}

/// A handler that answers without waiting.
struct SyncHandler<F>(F);

impl<F> RouteHandler for SyncHandler<F>
where
    F: Fn(&RequestContext, &Request<Body>) -> Response<Body> + Send + Sync + 'static,
{
    fn answer<'a>(
        &'a self,
        cx: &'a mut RequestContext,
        request: Request<Body>,
    ) -> BoxFuture<'a, Response<Body>> {
        let response = (self.0)(cx, &request);
        Box::pin(std::future::ready(response))
    }
}

impl Route {
    /// A document at one path. It has only reads, counts against no limit, and does not read the store.
    pub fn document(
        path: impl Into<String>,
        access: RouteAccess,
        answer: impl Fn(&RequestContext, &Request<Body>) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        let path = path.into();
        Self {
            listed: vec![path.clone()],
            path,
            path_match: PathMatch::Exact,
            methods: GET,
            access,
            reads_store: false,
            class: Class::Exempt,
            dialect: None,
            handler: Arc::new(SyncHandler(answer)),
        }
    }

    /// The same route with this path match.
    #[must_use]
    pub fn with_path_match(self, path_match: PathMatch) -> Self {
        Self { path_match, ..self }
    }

    /// The same route with these paths in the index.
    #[must_use]
    pub fn with_index_paths(self, paths: impl IntoIterator<Item = String>) -> Self {
        Self { listed: paths.into_iter().collect(), ..self }
    }

    fn is_at(&self, path: &str) -> bool {
        match path.strip_prefix(self.path.as_str()) {
            Some("") => self.path_match != PathMatch::Below,
            Some(rest) => self.path_match != PathMatch::Exact && rest.starts_with('/'),
            None => false,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let is_disjoint = matches!(
            (self.path_match, other.path_match),
            (PathMatch::Exact, PathMatch::Below) | (PathMatch::Below, PathMatch::Exact)
        );
        self.path == other.path && !is_disjoint
    }
}

/// All routes of a server, and the index at `/`.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Longest path first.
    routes: Vec<Route>,
    index: Bytes,
}

impl Routes {
    /// An error if two routes match the same path, or if no request can reach a route.
    pub fn new(mut routes: Vec<Route>) -> Result<Self, Error> {
        routes.sort_by(|a, b| b.path.len().cmp(&a.path.len()).then_with(|| a.path.cmp(&b.path)));
        for pair in routes.windows(2) {
            if let [one, other] = pair
                && one.overlaps(other)
            {
                return Err(Error::Settings(format!("two routes at {}", one.path)));
            }
        }
        for Route { path, class, dialect, .. } in &routes {
            if *class == Class::Stream && dialect.is_some() {
                return Err(Error::Settings(format!("the stream at {path:?} cannot have a dialect")));
            }
            let below_version = path.strip_prefix("/apis/").is_some_and(|rest| rest.split('/').count() > 2);
            if !path.starts_with('/') || path.ends_with('/') || path.contains("//") || below_version {
                return Err(Error::Settings(format!("no request reaches a route at {path:?}")));
            }
        }
        let mut listed: Vec<&String> = routes.iter().flat_map(|route| &route.listed).collect();
        listed.sort_unstable();
        listed.dedup();
        let index = json!({ "paths": listed }).to_string().into();
        Ok(Self { routes, index })
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Route> {
        let path = path.trim_end_matches('/');
        self.routes.iter().find(|route| route.is_at(path))
    }

    /// The dialect of a path, if its route has one.
    pub(crate) fn dialect(&self, info: &RequestInfo) -> Option<Arc<dyn Dialect>> {
        let RequestInfo::Path(request) = info else { return None };
        self.find(&request.path)?.dialect.clone()
    }

    /// The callers that are let in at a path. The index and the discovery paths are for every authenticated caller:
    /// clients accept a 404 of a discovery path, but take a 403 for a failure. Only a caller with the right to any
    /// other path learns that it is not served.
    pub(crate) fn access(&self, path: &str) -> RouteAccess {
        match self.find(path) {
            Some(route) => route.access,
            None if path == "/" || is_discovery(path) => RouteAccess::Authenticated,
            None => RouteAccess::Authorized,
        }
    }

    /// Answers an authorized request at a path that belongs to no resource.
    pub async fn answer(&self, cx: &mut RequestContext, request: Request<Body>) -> Response<Body> {
        let route = self.find(cx.info.path());
        let methods = route.map_or(GET, |route| route.methods);
        if !methods.contains(request.method()) {
            let style = Style::of_error(request.headers(), request.uri());
            return response::error_response(&Status::method_not_allowed(), &style);
        }
        match route {
            Some(route) => route.handler.answer(cx, request).await,
            None if cx.info.path() == "/" => self.index(StatusCode::OK, request.headers(), request.uri()),
            None => self.index(StatusCode::NOT_FOUND, request.headers(), request.uri()),
        }
    }

    fn index(&self, code: StatusCode, headers: &HeaderMap, uri: &Uri) -> Response<Body> {
        rendered_response(code, BytesMut::from(&*self.index), &Style::of_document(headers, uri))
    }
}

/// Whether the cluster role `system:discovery` allows this path.
fn is_discovery(path: &str) -> bool {
    let below =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    ["/api", "/apis", "/openapi"].into_iter().any(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> Route {
        Route::document(path, RouteAccess::Public, |_, _| Response::default())
    }

    #[test]
    fn the_longest_path_wins_and_only_whole_segments_count() {
        let below = route("/readyz").with_path_match(PathMatch::Below).with_index_paths([]);
        let routes =
            vec![route("/a").with_path_match(PathMatch::Prefix), route("/a/b"), route("/readyz"), below];
        let routes = Routes::new(routes).unwrap();
        for (path, want) in [
            ("/a", Some("/a")),
            ("/a/", Some("/a")),
            ("/a/c", Some("/a")),
            ("/a/b", Some("/a/b")),
            ("/a/b/", Some("/a/b")),
            ("/a/b/c", Some("/a")),
            ("/ab", None),
            ("/readyz/x", Some("/readyz")),
            ("/readyzx", None),
            ("//a", None),
            ("/", None),
        ] {
            assert_eq!(routes.find(path).map(|route| route.path.as_str()), want, "{path}");
        }
        assert_eq!(routes.index, r#"{"paths":["/a","/a/b","/readyz"]}"#);
        assert_eq!(routes.access("/"), RouteAccess::Authenticated);
        for discovery in ["/api", "/api/v1", "/apis/g/v2", "/openapi/v4"] {
            assert_eq!(routes.access(discovery), RouteAccess::Authenticated, "{discovery}");
        }
        assert_eq!(routes.access("/nowhere"), RouteAccess::Authorized);
        assert_eq!(routes.access("/apisx"), RouteAccess::Authorized);
    }

    #[test]
    fn a_route_that_no_request_reaches_is_refused() {
        for path in ["/a/", "a", "", "/apis/g/v1/x", "/a//b"] {
            assert!(Routes::new(vec![route(path)]).is_err(), "{path}");
        }
        assert!(Routes::new(vec![route("/a"), route("/a").with_path_match(PathMatch::Prefix)]).is_err());
        assert!(Routes::new(vec![route("/apis/g/v1")]).is_ok());
    }
}
