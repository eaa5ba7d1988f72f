use crate::authz::RouteAccess;
use crate::request::RequestInfo;
use crate::routes::{Route, Routes};
use axum::body::Body;
use http::{HeaderMap, Request, Response};
use runtime::CertificateEnd;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The gate of a [`SideDoor`]: requests pass it before anything else looks at them.
pub trait Gate: Send + Sync + 'static {
    /// Turns a request into one that the server understands: the door's own sort of credentials become credentials
    /// that the authenticators know. A request that it refuses goes no further.
    fn enter(&self, request: &mut Request<Body>) -> Result<(), Response<Body>>;

    /// The last look at the headers of each answer, refusals included.
    fn leave(&self, headers: &mut HeaderMap);
}

/// A further socket of the same server, for callers who come another way. They have the same resources, and routes of their
/// own beside the server's. No client certificate is asked for there.
pub struct SideDoor {
    /// Its listening socket.
    pub listener: TcpListener,
    /// PEM file with the serving certificate and its chain.
    pub certificate_file: PathBuf,
    /// PEM file with its private key.
    pub key_file: PathBuf,
    /// Told when that certificate ends.
    pub certificate_end: CertificateEnd,
    /// The gate that each request passes.
    pub gate: Arc<dyn Gate>,
    /// Served here alone.
    pub routes: Vec<Route>,
}

impl std::fmt::Debug for SideDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SideDoor").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// The way by which a request comes in.
pub(super) struct Door {
    pub(super) routes: Routes,
    pub(super) gate: Option<Arc<dyn Gate>>,
}

impl Door {
    /// Whether credentials are not looked at.
    pub(super) fn is_unasked(&self, info: &RequestInfo) -> bool {
        matches!(info, RequestInfo::Path(asked) if self.routes.access(&asked.path) == RouteAccess::PublicUnauthenticated)
    }

    pub(super) fn enter(&self, request: &mut Request<Body>) -> Result<(), Response<Body>> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate.enter(request))
    }

    pub(super) fn leave(&self, headers: &mut HeaderMap) {
        if let Some(gate) = &self.gate {
            gate.leave(headers);
        }
    }
}
