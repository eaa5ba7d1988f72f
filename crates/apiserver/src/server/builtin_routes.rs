use crate::authz::RouteAccess;
use crate::caller::Caller;
use crate::context::RequestContext;
use crate::flow::Class;
use crate::response::{bytes_response, status_response};
use crate::routes::{PathMatch, Route};
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use meta::gvk::GroupResource;
use meta::status::Status;
use runtime::{Health, Metrics, admin};
use serde::Serialize;
use serde_json::{Map, json};

/// The path at which kubectl expects the namespaces of a cluster.
const CORE_NAMESPACES: &str = "/api/v1/namespaces";

/// The response at `/version`, with the fields of `k8s.io/apimachinery/pkg/version`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Major version of Kubernetes that this server behaves like.
    pub major: String,
    /// Minor version.
    pub minor: String,
    /// That version of Kubernetes, with the program's own version as build metadata.
    pub git_version: String,
    /// The commit of the program.
    pub git_commit: String,
    /// `clean` or `dirty`.
    pub git_tree_state: String,
    /// When it was built, RFC 3339.
    pub build_date: String,
    /// Always empty: clients of Go servers expect the field.
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
            // Helm and kubectl compare this field, not major and minor, with the versions that they support.
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

/// The health checks of a server.
pub(super) struct HealthChecks {
    pub(super) live: Health,
    pub(super) ready: Health,
}

/// The routes that every server has.
pub(super) fn routes(checks: &HealthChecks, metrics: &Metrics, version: &Version) -> Vec<Route> {
    let mut routes = Vec::new();
    let health = [("livez", &checks.live), ("healthz", &checks.live), ("readyz", &checks.ready)];
    for (name, health) in health {
        let (for_report, for_single) = (health.clone(), health.clone());
        let path = format!("/{name}");
        routes.push(Route::document(path.as_str(), RouteAccess::Public, move |cx, request| {
            report(&for_report, name, cx, request.uri())
        }));
        let single =
            move |cx: &RequestContext, request: &Request<Body>| single_check(&for_single, cx, request);
        let subpath = Route::document(path, RouteAccess::Authorized, single)
            .with_path_match(PathMatch::Below)
            .with_index_paths([]);
        // It counts as a read, because each name that a client makes up may cost a review.
        routes.push(Route { class: Class::Read, ..subpath });
    }
    let version = serde_json::to_vec_pretty(version).map_or_else(|_| Bytes::new(), Bytes::from);
    routes.push(Route::document("/version", RouteAccess::Authenticated, move |_, _| {
        bytes_response(StatusCode::OK, "application/json", version.clone())
    }));
    routes.push(Route::document("/whoami", RouteAccess::Authenticated, |cx, _| whoami(&cx.caller)));
    // After a 404 in a namespace kubectl requests the namespace itself, and would show a 404 from here instead.
    let core = Route::document(CORE_NAMESPACES, RouteAccess::Authenticated, core_namespace);
    routes.push(core.with_path_match(PathMatch::Below).with_index_paths([]));
    let metrics = metrics.clone();
    routes.push(Route::document("/metrics", RouteAccess::Authorized, move |_, _| admin::metrics(&metrics)));
    routes
}

/// The caller as this server has authenticated him, in the format of `kubectl auth whoami`.
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

/// Core namespaces are not served here. The response is a 403, since a 404 would say that the namespace does not exist.
fn core_namespace(cx: &RequestContext, request: &Request<Body>) -> Response<Body> {
    let subpath = cx.info.path().strip_prefix(CORE_NAMESPACES).unwrap_or_default().trim_matches('/');
    let status = if subpath.contains('/') {
        Status::no_such_path()
    } else {
        let namespaces = GroupResource::new("", "namespaces");
        Status::forbidden(&namespaces, subpath, "core namespaces are not served here")
    };
    status_response(&status, request.headers(), request.uri())
}

/// The report of all checks. An anonymous caller sees only the result, and not what this server depends on.
fn report(health: &Health, name: &'static str, cx: &RequestContext, uri: &Uri) -> Response<Body> {
    let response = admin::health(health, name, uri);
    if cx.caller.is_known() {
        return response;
    }
    let failed = format!("{name} check failed\n");
    let ok = response.status() == StatusCode::OK;
    response.map(|_report| if ok { Body::from("ok") } else { Body::from(failed) })
}

/// The result of one check, as at `/readyz/NAME`.
fn single_check(health: &Health, cx: &RequestContext, request: &Request<Body>) -> Response<Body> {
    let name = cx.info.path().trim_matches('/').split_once('/').map_or("", |(_, name)| name);
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    match health.one(name) {
        Some(Ok(())) => (headers, "ok").into_response(),
        Some(Err(_withheld)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, headers, "internal server error: reason withheld\n")
                .into_response()
        }
        None => status_response(&Status::no_such_path(), request.headers(), request.uri()),
    }
}
