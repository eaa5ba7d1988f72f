use super::Shared;
use crate::request::RequestInfo;
use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use runtime::{Health, admin};
use serde::Serialize;

/// What `/version` says, in the words of `k8s.io/apimachinery/pkg/version`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Major version of Kubernetes that this server behaves like.
    pub major: String,
    /// Minor version.
    pub minor: String,
    /// The program's own version.
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
            git_version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
            git_commit: String::new(),
            git_tree_state: String::new(),
            build_date: "1970-01-01T00:00:00Z".to_owned(),
            go_version: String::new(),
            compiler: "rustc".to_owned(),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// The server's own paths; `None` for the handler's.
pub(super) fn answer<H>(
    shared: &Shared<H>,
    info: &RequestInfo,
    request: &Request<Body>,
) -> Option<Response<Body>> {
    if info.is_resource || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let (first, check) = match info.path.trim_matches('/').split_once('/') {
        Some((first, check)) => (first, check),
        None => (info.path.trim_matches('/'), ""),
    };
    let uri = request.uri();
    match (first, check) {
        ("livez" | "healthz", "") => Some(admin::health(&shared.live, first_name(first), uri)),
        ("readyz", "") => Some(admin::health(&shared.ready, "readyz", uri)),
        ("livez" | "healthz", check) => one(&shared.live, check),
        ("readyz", check) => one(&shared.ready, check),
        ("version", "") => Some(json(&shared.settings.version)),
        ("metrics", "") => Some(admin::metrics(&shared.registry)),
        _ => None,
    }
}

fn first_name(path: &str) -> &'static str {
    if path == "livez" { "livez" } else { "healthz" }
}

/// One check alone, as `/readyz/NAME`.
fn one(health: &Health, name: &str) -> Option<Response<Body>> {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Some(match health.one(name)? {
        Ok(()) => (headers, "ok").into_response(),
        Err(reason) => {
            tracing::debug!(check = name, reason, "health check failed");
            (StatusCode::INTERNAL_SERVER_ERROR, headers, "internal server error: reason withheld\n")
                .into_response()
        }
    })
}

fn json(value: &impl Serialize) -> Response<Body> {
    let body = serde_json::to_vec_pretty(value).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
