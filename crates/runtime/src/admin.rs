use crate::metrics::Healthchecks;
use crate::{Health, Metrics, Tasks};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A connection is closed after this time. Otherwise one whose client is gone without saying so, or that never asks
/// anything, would stay for ever. Clients connect again.
const LIFETIME: Duration = Duration::from_mins(10);
/// How long the requests of a connection that is closed may take.
const DRAIN: Duration = Duration::from_secs(2);
/// Pause after accepting failed, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    serve_connections(listener, router, &tasks.token(), LIFETIME).await;
}

/// Serves until the token is cancelled; then lets requests in flight finish.
async fn serve_connections(
    listener: TcpListener,
    router: Router,
    closing: &CancellationToken,
    lifetime: Duration,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _address)) => {
                    connections.spawn(connection(stream, router.clone(), closing.clone(), lifetime));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept a connection of the admin port");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_ended) = connections.join_next() => {}
            () = closing.cancelled() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router, closing: CancellationToken, lifetime: Duration) {
    let http = Builder::new(TokioExecutor::new());
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = served.as_mut() => Some(ended),
        () = closing.cancelled() => None,
        () = tokio::time::sleep(lifetime) => None,
    };
    let ended = if let Some(ended) = ended {
        Ok(ended)
    } else {
        served.as_mut().graceful_shutdown();
        tokio::time::timeout(DRAIN, served).await
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection of the admin port ended"),
        Err(_elapsed) => tracing::debug!("a connection of the admin port was cut off"),
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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

    #[tokio::test]
    async fn a_connection_is_closed_some_time_whatever_comes_on_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/livez", get(|| async { "ok" }));
        let closing = CancellationToken::new();
        let (token, lifetime) = (closing.clone(), Duration::from_millis(200));
        let served = tokio::spawn(async move { serve_connections(listener, router, &token, lifetime).await });
        for (sent, begins) in
            [("", ""), ("GET /livez HT", ""), ("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200")]
        {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            // It may also be reset.
            let _ended = tokio::time::timeout(Duration::from_secs(30), read).await.unwrap();
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.starts_with(begins) && answer.is_empty() == begins.is_empty(), "{sent}: {answer}");
        }
        closing.cancel();
        tokio::time::timeout(Duration::from_secs(30), served).await.unwrap().unwrap();
    }
}
