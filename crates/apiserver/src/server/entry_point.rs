use crate::authz::RouteAccess;
use crate::request::RequestInfo;
use crate::routes::{Route, Routes};
use axum::body::Body;
use http::{HeaderMap, Request, Response};
use runtime::CertificateExpiry;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Filters all requests of a [`SecondaryListener`], before authentication, and the headers of all responses.
pub trait RequestFilter: Send + Sync + 'static {
    /// May replace credentials of another kind, such as cookies, by credentials that the authenticators know. An error
    /// is the response to a request that is refused.
    fn filter_request(&self, request: &mut Request<Body>) -> Result<(), Response<Body>>;

    /// May change the headers of a response, including those of refused requests.
    fn filter_response(&self, headers: &mut HeaderMap);
}

/// A further listener of the same server, for other clients. It serves the same resources and routes, and additional
/// routes of its own. It does not request client certificates.
pub struct SecondaryListener {
    /// Its listening socket.
    pub listener: TcpListener,
    /// PEM file with the serving certificate and its chain.
    pub certificate_file: PathBuf,
    /// PEM file with its private key.
    pub key_file: PathBuf,
    /// The metric for the end of that certificate.
    pub certificate_end: CertificateExpiry,
    /// Applied to each request and response.
    pub filter: Arc<dyn RequestFilter>,
    /// Routes that only this listener serves.
    pub routes: Vec<Route>,
}

impl std::fmt::Debug for SecondaryListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecondaryListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// The routes and the filter of a listener.
pub(super) struct EntryPoint {
    pub(super) routes: Routes,
    pub(super) filter: Option<Arc<dyn RequestFilter>>,
}

impl EntryPoint {
    /// Whether the route of a request ignores credentials.
    pub(super) fn ignores_credentials(&self, info: &RequestInfo) -> bool {
        let RequestInfo::Path(request) = info else { return false };
        self.routes.access(&request.path) == RouteAccess::PublicUnauthenticated
    }

    pub(super) fn filter_request(&self, request: &mut Request<Body>) -> Result<(), Response<Body>> {
        self.filter.as_ref().map_or(Ok(()), |filter| filter.filter_request(request))
    }

    pub(super) fn filter_response(&self, headers: &mut HeaderMap) {
        if let Some(filter) = &self.filter {
            filter.filter_response(headers);
        }
    }
}
