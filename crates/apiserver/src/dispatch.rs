use crate::authn::Caller;
use crate::request::RequestInfo;
use crate::resource::Resource;
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
