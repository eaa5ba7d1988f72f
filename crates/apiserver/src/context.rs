use crate::audit::AuditedChange;
use crate::authn::Authenticator;
use crate::authz::Authorization;
use crate::caller::Caller;
use crate::request::RequestInfo;
use crate::tenure::Tenure;
use std::sync::Arc;
use store::Access;
use tokio::time::Instant;

/// One authorized request, from the router to the audit log.
#[derive(Debug)]
pub struct RequestContext {
    /// What is asked.
    pub info: RequestInfo,
    /// By whom.
    pub caller: Arc<Caller>,
    /// The proof that he may, and what he sees.
    pub access: Access,
    /// Asked if a request turns out to need more than its verb's right; without it, there is no further right.
    pub authorization: Option<Arc<Authorization>>,
    /// Asked by a handler that obtains a credential by itself, such as a login.
    pub authenticator: Option<Arc<Authenticator>>,
    /// When an answer must be out; streams have their own.
    pub deadline: Instant,
    /// `Audit-ID` of the request.
    pub audit_id: Arc<str>,
    /// What the answer depends on, if it is a stream.
    pub tenure: Option<Box<Tenure>>,
    /// What a write did, for the audit log. The handler sets it.
    pub outcome: Option<AuditedChange>,
}

impl RequestContext {
    /// A request that is not a stream, and has no authorizer or authenticator to ask.
    pub fn new(info: RequestInfo, caller: Arc<Caller>, access: Access, deadline: Instant) -> Self {
        Self {
            info,
            caller,
            access,
            authorization: None,
            authenticator: None,
            deadline,
            audit_id: Arc::from(""),
            tenure: None,
            outcome: None,
        }
    }
}
