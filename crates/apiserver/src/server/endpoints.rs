use crate::authz::RouteAccess;
use crate::caller::Caller;
use crate::context::RequestContext;
use crate::flow::Class;
use crate::response::{bytes_response, status_response};
use crate::routes::{Reach, Route};
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use meta::gvk::GroupResource;
use meta::status::Status;
use runtime::{Health, Metrics, admin};
use serde::Serialize;
use serde_json::{Map, json};

/// Where kubectl looks for the namespaces of a cluster.
const CORE_NAMESPACES: &str = "/api/v1/namespaces";

/// The answer at `/version`, in the words of `k8s.io/apimachinery/pkg/version`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Major version of Kubernetes that this server behaves like.
    pub major: String,
    /// Minor version.
    pub minor: String,
    /// That version of Kubernetes; the program's own version is its build.
    pub git_version: String,
    /// Its commit.
    pub git_commit: String,
    /// `clean` or `dirty`.
    pub git_tree_state: String,
    /// When it was built, RFC 3339.
    pub build_date: String,
    /// Always empty: clients of Go servers read it.
    pub go_version: String,
    /// `rustc`.
    pub compiler: String,
    /// Such as `linux/x86_64`.
    pub platform: String,
}

impl Default for Version {
    fn default() -> Self {
        Self {
            major: "1".to_owned(),
            minor: "36".to_owned(),
            // Helm and kubectl compare it, and not major and minor, with what they need.
            git_version: concat!("v1.36.0+tke-business-", env!("CARGO_PKG_VERSION")).to_owned(),
            git_commit: String::new(),
            git_tree_state: String::new(),
            build_date: "1970-01-01T00:00:00Z".to_owned(),
            go_version: String::new(),
            compiler: "rustc".to_owned(),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// The checks of a server.
pub(super) struct Checks {
    pub(super) live: Health,
    pub(super) ready: Health,
}

/// The server's own paths.
pub(super) fn routes(checks: &Checks, metrics: &Metrics, version: &Version) -> Vec<Route> {
    let mut routes = Vec::new();
    let health = [("livez", &checks.live), ("healthz", &checks.live), ("readyz", &checks.ready)];
    for (name, health) in health {
        let (all, each) = (health.clone(), health.clone());
        let path = format!("/{name}");
        routes.push(Route::document(path.as_str(), RouteAccess::Public, move |cx, request| {
            report(&all, name, cx, request.uri())
        }));
        let one_alone = move |cx: &RequestContext, request: &Request<Body>| one(&each, cx, request);
        let below =
            Route::document(path, RouteAccess::Authorized, one_alone).reaching(Reach::Below).listing([]);
        // It takes a place, for each name that somebody makes up costs a review.
        routes.push(Route { class: Class::Read, ..below });
    }
    let version = serde_json::to_vec_pretty(version).map_or_else(|_| Bytes::new(), Bytes::from);
    routes.push(Route::document("/version", RouteAccess::Authenticated, move |_, _| {
        bytes_response(StatusCode::OK, "application/json", version.clone())
    }));
    routes.push(Route::document("/whoami", RouteAccess::Authenticated, |cx, _| whoami(&cx.caller)));
    // kubectl asks for it after a 404 in a namespace, and shows a 404 from here instead of that one.
    let core = Route::document(CORE_NAMESPACES, RouteAccess::Authenticated, core_namespace);
    routes.push(core.reaching(Reach::Below).listing([]));
    let metrics = metrics.clone();
    routes.push(Route::document("/metrics", RouteAccess::Authorized, move |_, _| admin::metrics(&metrics)));
    routes
}

/// The caller as this server knows him, in the form in which kube-apiserver answers `kubectl auth whoami`.
fn whoami(caller: &Caller) -> Response<Body> {
    let Caller { name, uid, groups, extra, .. } = caller;
    let mut user =
        Map::from_iter([("username".to_owned(), json!(name)), ("groups".to_owned(), json!(groups))]);
    if !uid.is_empty() {
        user.insert("uid".to_owned(), json!(uid));
    }
    if !extra.is_empty() {
        user.insert("extra".to_owned(), json!(extra));
    }
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {"creationTimestamp": null},
        "status": {"userInfo": user},
    });
    bytes_response(StatusCode::OK, "application/json", review.to_string().into())
}

/// None is served, whatever its name, and this is not to be taken for one that does not exist.
fn core_namespace(cx: &RequestContext, request: &Request<Body>) -> Response<Body> {
    let below = cx.info.path().strip_prefix(CORE_NAMESPACES).unwrap_or_default().trim_matches('/');
    let status = if below.contains('/') {
        Status::no_such_path()
    } else {
        let namespaces = GroupResource::new("", "namespaces");
        Status::forbidden(&namespaces, below, "core namespaces are not served here")
    };
    status_response(&status, request.headers(), request.uri())
}

/// A caller without credentials learns only the verdict, and not what this server depends on.
fn report(health: &Health, name: &'static str, cx: &RequestContext, uri: &Uri) -> Response<Body> {
    let response = admin::health(health, name, uri);
    if cx.caller.is_known() {
        return response;
    }
    let failed = format!("{name} check failed\n");
    let ok = response.status() == StatusCode::OK;
    response.map(|_report| if ok { Body::from("ok") } else { Body::from(failed) })
}

/// One check alone, as `/readyz/NAME`.
fn one(health: &Health, cx: &RequestContext, request: &Request<Body>) -> Response<Body> {
    let name = cx.info.path().trim_matches('/').split_once('/').map_or("", |(_, name)| name);
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    match health.one(name) {
        Some(Ok(())) => (headers, "ok").into_response(),
        Some(Err(_told)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, headers, "internal server error: reason withheld\n")
                .into_response()
        }
        None => status_response(&Status::no_such_path(), request.headers(), request.uri()),
    }
}
