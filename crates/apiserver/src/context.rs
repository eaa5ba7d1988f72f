use crate::audit::AuditedChange;
use crate::authn::Authenticator;
use crate::authz::Authorization;
use crate::caller::Caller;
use crate::request::RequestInfo;
use crate::stream_authorization::StreamAuthorization;
use std::sync::Arc;
use store::Access;
use tokio::time::Instant;

/// One authorized request, from the router to the audit log.
#[derive(Debug)]
pub struct RequestContext {
    /// The parsed request.
    pub info: RequestInfo,
    /// Who makes it.
    pub caller: Arc<Caller>,
    /// The proof that he is authorized, and what he sees.
    pub access: Access,
    /// For requests that turn out to need more than the right for their verb. Without it, such rights are refused.
    pub authorization: Option<Arc<Authorization>>,
    /// For handlers that obtain a credential by themselves, such as a login.
    pub authenticator: Option<Arc<Authenticator>>,
    /// When the request times out; a stream has a lifetime of its own.
    pub deadline: Instant,
    /// `Audit-ID` of the request.
    pub audit_id: Arc<str>,
    /// What must still be allowed while the answer is sent, if that is a stream.
    pub stream_authorization: Option<Box<StreamAuthorization>>,
    /// What a write did, for the audit log. The handler sets it.
    pub outcome: Option<AuditedChange>,
}

impl RequestContext {
    /// A context without an authorizer and an authenticator, for a request that is not a stream.
    pub fn new(info: RequestInfo, caller: Arc<Caller>, access: Access, deadline: Instant) -> Self {
        Self {
            info,
            caller,
            access,
            authorization: None,
            authenticator: None,
            deadline,
            audit_id: Arc::from(""),
            stream_authorization: None,
            outcome: None,
        }
    }
}
