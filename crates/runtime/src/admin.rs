use crate::metrics::Healthchecks;
use crate::{Health, Metrics, Tasks};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

/// What the admin port serves.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Checks of `/livez`.
    pub live: Health,
    /// Checks of `/readyz`.
    pub ready: Health,
    /// Checks that are served only as `/livez/NAME`, such as those of a container beside this one. They are no part of
    /// `/livez`.
    pub individual: Health,
    /// `/metrics`.
    pub metrics: Metrics,
}

/// Serves `/livez`, `/readyz` (`?verbose`, `?exclude=NAME`), `/livez/NAME` and `/metrics` over plain HTTP until
/// shutdown.
pub async fn serve(listener: TcpListener, admin: Admin, tasks: Tasks) {
    let endpoints = [("livez", admin.live.clone()), ("readyz", admin.ready.clone())];
    admin.metrics.collect(Healthchecks { endpoints });
    let router = Router::new()
        .route(
            "/livez",
            get(|State(a): State<Admin>, uri: Uri| async move { health(&a.live, "livez", &uri) }),
        )
        .route(
            "/livez/{name}",
            get(|State(a): State<Admin>, Path(name): Path<String>| async move { single_check(&a, &name) }),
        )
        .route(
            "/healthz",
            get(|State(a): State<Admin>, uri: Uri| async move { health(&a.live, "healthz", &uri) }),
        )
        .route(
            "/readyz",
            get(|State(a): State<Admin>, uri: Uri| async move { health(&a.ready, "readyz", &uri) }),
        )
        .route("/metrics", get(|State(a): State<Admin>| async move { metrics(&a.metrics) }))
        .with_state(admin);
    let token = tasks.token();
    let served = axum::serve(listener, router).with_graceful_shutdown(token.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "serve the admin port");
    }
}

/// The response of a health endpoint, by the query of its URL.
pub fn health(health: &Health, endpoint: &str, uri: &Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let verbose = query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let exclude: Vec<String> =
        query.split('&').filter_map(|pair| pair.strip_prefix("exclude=")).map(str::to_owned).collect();
    let report = health.report(endpoint, verbose, &exclude);
    let code = if report.ok { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (code, headers, report.text).into_response()
}

/// The response for a single check.
fn single_check(admin: &Admin, name: &str) -> Response {
    match admin.live.one(name).or_else(|| admin.individual.one(name)) {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Ok(())) => "ok".into_response(),
        Some(Err(why)) => (StatusCode::INTERNAL_SERVER_ERROR, why).into_response(),
    }
}

/// The response of `/metrics`.
pub fn metrics(metrics: &Metrics) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (headers, metrics.encode()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_beside_is_asked_for_alone() {
        let admin = Admin {
            live: Health::new(),
            ready: Health::new(),
            individual: Health::new(),
            metrics: Metrics::new(),
        };
        admin.live.add("ping", || Ok(()));
        admin.individual.add("tunnel", || Err("gone".to_owned()));
        let code = |name: &str| single_check(&admin, name).status().as_u16();
        assert_eq!([code("ping"), code("tunnel"), code("other")], [200, 500, 404]);
        assert_eq!(health(&admin.live, "livez", &Uri::from_static("/livez")).status(), StatusCode::OK);
    }
}
