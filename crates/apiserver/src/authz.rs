use crate::caller::{AUTHENTICATED, Caller, MASTERS, Via};
use crate::delegate::Delegate;
use crate::flow::PriorityLevel;
use crate::metrics::ServerMetrics;
use crate::request::{RequestInfo, ResourceRequest, Verb};
use futures_util::future::BoxFuture;
use meta::gvk::GroupResource;
use meta::status::Status;
use std::sync::Arc;
use std::time::Instant;
use store::{Access, Authorizer, Visibility};
use tokio::sync::watch;

/// Cached `SubjectAccessReviews` by kube-apiserver.
mod review;
/// Callers who were operators when kube-apiserver was last asked.
mod operators;
/// Callers who were not operators when kube-apiserver was last asked.
mod non_operators;
/// The set with a retention time that both use.
mod recent;

use non_operators::KnownNonOperators;
use operators::KnownOperators;
pub use review::ReviewAnswer;
use review::Reviews;

/// The program's own authorization rules. They are asked before any SubjectAccessReview, and they alone decide what an
/// allowed caller sees.
pub trait Policy: Send + Sync + 'static {
    /// What a caller may do and see, both from the same state of the rules. `operator` says whether he has the
    /// cross-tenant right ([`Policy::operator_right`]) or is in `system:masters`. An operator sees all tenants, so what
    /// the rules allow him must not depend on what he does not see.
    fn judge(&self, caller: &Caller, request: &RequestInfo, operator: bool) -> Ruling;

    /// A future to wait for before a ruling counts; afterwards the ruling is computed again. The rules may follow the
    /// store with a delay, and must not refuse somebody who was granted a role a moment ago. The future must complete
    /// by itself.
    fn catch_up<'a>(
        &'a self,
        _caller: &Caller,
        _request: &RequestInfo,
        _ruling: &Ruling,
    ) -> Option<BoxFuture<'a, ()>> {
        None
    }

    /// The right that makes a caller an operator, who sees all tenants. Its resource is checked at cluster scope.
    fn operator_right(&self) -> Right;

    /// Signals when what this caller sees may have changed for another reason than his credential and his rights;
    /// `None` if that cannot happen. Open watches then check again. It may signal too often but never too late: before
    /// [`Policy::judge`] stops returning a visibility that it has returned, the signal must have been sent.
    fn changes(&self, _caller: &Caller) -> Option<watch::Receiver<u64>> {
        None
    }

    /// A future to wait for before a caller with [`Policy::changes`] is shown an event that the store has delivered;
    /// `None` if the rules have processed that event and all before it. The rules may follow the same store, and the
    /// event may be the one after which the caller no longer sees its object. When the future completes,
    /// [`Policy::changes`] must have signalled. It must complete by itself. This is called for each event, so it must
    /// be cheap.
    fn settle(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

/// The answer of the program's own rules to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// Whether it is allowed.
    pub verdict: AuthzVerdict,
    /// What an allowed caller sees. With [`Visibility::Nothing`] lists are empty and collections delete nothing, and
    /// the database is not read. If it is not known yet, an error that asks the client to retry: the client would take
    /// an incomplete list for a complete one.
    pub visibility: Result<Visibility, Box<Status>>,
}

/// Whether the program's own rules allow a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthzVerdict {
    /// Allowed.
    Allow,
    /// Refused without a review; the text ends the message of the 403.
    Deny(String),
    /// These rules do not decide it.
    NoOpinion,
    /// It is not known yet; the status asks the client to retry.
    NotReady(Box<Status>),
}

/// A verb on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// Such as `operate`.
    pub verb: &'static str,
    /// API group of the resource.
    pub group: &'static str,
    /// Plural resource.
    pub resource: &'static str,
}

/// Which callers may use a route, that is, a path that is not of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteAccess {
    /// Everybody, including anonymous callers. Credentials are checked, and invalid ones refused.
    Public,
    /// Everybody. Credentials are ignored, even invalid ones.
    PublicUnauthenticated,
    /// Every authenticated caller, as with the role `system:discovery`, and whoever is [`RouteAccess::Authorized`].
    Authenticated,
    /// Callers whom the policy or a SubjectAccessReview allows the method at the path.
    Authorized,
}

/// The authorizer: decides whether a request is allowed and what its caller sees. It asks in this order:
/// `system:masters`, public routes, the program's own rules, routes for all authenticated callers, SubjectAccessReview.
pub struct Authorization {
    policy: Arc<dyn Policy>,
    reviews: Option<Reviews>,
    operator: RequestInfo,
    non_operators: KnownNonOperators,
    operators: KnownOperators,
    metrics: Arc<ServerMetrics>,
}

/// The attributes of a request that is to be authorized.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthorizationAttributes {
    /// Who makes the request.
    pub caller: Arc<Caller>,
    /// What he requests.
    pub info: RequestInfo,
}

/// Everything that the authorizer must know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthorizationRequest {
    /// Caller and request.
    pub attributes: AuthorizationAttributes,
    /// Which callers may use the route; [`RouteAccess::Authorized`] for a resource.
    pub access: RouteAccess,
    /// Whether the answer is made from the store, so that the visibility is needed.
    pub reads_store: bool,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}

impl Authorization {
    /// Without a kube-apiserver, whatever the policy does not allow is refused.
    pub(crate) fn new(policy: Arc<dyn Policy>, kube: Option<Delegate>, metrics: Arc<ServerMetrics>) -> Self {
        let Right { verb, group, resource } = policy.operator_right();
        let operator = ResourceRequest {
            verb: Verb::Other(verb),
            group: group.to_owned(),
            resource: resource.to_owned(),
            ..ResourceRequest::default()
        };
        let reviews = kube.map(Reviews::new);
        Self {
            policy,
            reviews,
            operator: operator.into(),
            non_operators: KnownNonOperators::default(),
            operators: KnownOperators::default(),
            metrics,
        }
    }

    /// Returns the proof that a request is allowed, or the status that refuses it. A handler calls this when a request
    /// turns out to need more than the right for its verb, such as an update that creates.
    pub async fn authorize(&self, attributes: &AuthorizationAttributes) -> Result<Access, Status> {
        let attributes = attributes.clone();
        let reads_store = attributes.info.resource().is_some();
        self.admit(&AuthorizationRequest { attributes, access: RouteAccess::Authorized, reads_store }).await
    }

    pub(crate) async fn admit(&self, request: &AuthorizationRequest) -> Result<Access, Status> {
        store::authorize(self, request).await
    }

    /// An error unless a caller may impersonate somebody with this attribute. The program's own rules can refuse it but
    /// not allow it: a rule that allows everything on this server's objects must not allow impersonation.
    pub(crate) async fn may_impersonate(&self, attributes: &AuthorizationAttributes) -> Result<(), Status> {
        let AuthorizationAttributes { caller, .. } = attributes;
        if caller.in_group(MASTERS) {
            return Ok(());
        }
        match self.policy.judge(caller, &attributes.info, false).verdict {
            AuthzVerdict::Deny(reason) => Err(forbidden(attributes, &reason)),
            AuthzVerdict::NotReady(status) => Err(*status),
            AuthzVerdict::Allow | AuthzVerdict::NoOpinion => self.check_by_review(attributes).await,
        }
    }

    /// The priority of a caller as far as it is known without asking kube-apiserver.
    pub(crate) fn priority_level(&self, caller: &Caller) -> PriorityLevel {
        if caller.in_group(MASTERS) {
            PriorityLevel::Master
        } else if is_reviewed(caller) && self.operators.contains(caller, Instant::now()) {
            PriorityLevel::Operator
        } else {
            PriorityLevel::Ordinary
        }
    }

    /// Counts a request that was rejected by an in-flight limit after it had been authorized.
    pub(crate) fn record_too_many_requests(&self) {
        self.metrics.record_termination("too many");
    }

    /// See [`Policy::changes`].
    pub(crate) fn changes(&self, caller: &Caller) -> Option<watch::Receiver<u64>> {
        self.policy.changes(caller)
    }

    /// See [`Policy::settle`].
    pub(crate) fn settle(&self) -> Option<BoxFuture<'_, ()>> {
        self.policy.settle()
    }

    /// Whether a caller who is no operator still sees what he saw, by the program's own rules. While the rules are not
    /// ready, the answer is yes.
    pub(crate) fn is_still_visible(
        &self,
        AuthorizationAttributes { caller, info }: &AuthorizationAttributes,
        seen: &Visibility,
    ) -> bool {
        let Ruling { verdict, visibility } = self.policy.judge(caller, info, false);
        match (verdict, visibility) {
            (AuthzVerdict::Deny(_), _) => false,
            (_, Ok(visibility)) => visibility == *seen,
            (_, Err(_not_ready)) => true,
        }
    }

    async fn check(&self, request: &AuthorizationRequest, verdict: AuthzVerdict) -> Result<(), Status> {
        let AuthorizationRequest { attributes, access, .. } = request;
        match verdict {
            AuthzVerdict::Allow => return Ok(()),
            AuthzVerdict::Deny(reason) => return Err(forbidden(attributes, &reason)),
            AuthzVerdict::NotReady(status) => return Err(*status),
            AuthzVerdict::NoOpinion => {}
        }
        if *access == RouteAccess::Authenticated && attributes.caller.in_group(AUTHENTICATED) {
            return Ok(());
        }
        self.check_by_review(attributes).await
    }

    async fn check_by_review(&self, attributes: &AuthorizationAttributes) -> Result<(), Status> {
        match self.review(attributes).await? {
            ReviewAnswer { allowed: true, .. } => Ok(()),
            ReviewAnswer { reason, .. } => Err(forbidden(attributes, &reason)),
        }
    }

    /// Asks kube-apiserver for a review of a caller whom it may know.
    async fn review(&self, attributes: &AuthorizationAttributes) -> Result<ReviewAnswer, Status> {
        match &self.reviews {
            Some(reviews) if is_reviewed(&attributes.caller) => {
                reviews.review(attributes, &self.metrics.delegated_authz).await
            }
            _ => Ok(ReviewAnswer::default()),
        }
    }

    async fn is_operator(&self, caller: &Arc<Caller>) -> Result<bool, Status> {
        if caller.in_group(MASTERS) {
            return Ok(true);
        }
        if !is_reviewed(caller) {
            return Ok(false);
        }
        let operator = AuthorizationAttributes { caller: Arc::clone(caller), info: self.operator.clone() };
        let answer = self.review(&operator).await.map(|answer| answer.allowed);
        if let Ok(is_operator) = answer {
            self.operators.note(caller, is_operator, Instant::now());
        }
        if caller.via != Via::ClusterJwt {
            return answer;
        }
        match answer {
            Ok(is_operator) => {
                self.non_operators.note(caller, is_operator, Instant::now());
                Ok(is_operator)
            }
            Err(_unanswered) if self.non_operators.contains(caller, Instant::now()) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Authorizer for Authorization {
    type Request = AuthorizationRequest;
    type Refusal = Status;

    async fn decide(&self, request: &AuthorizationRequest) -> Result<(Arc<str>, Visibility), Status> {
        let AuthorizationAttributes { caller, info } = &request.attributes;
        let judge = |operator| self.policy.judge(caller, info, operator);
        let mut ruling = judge(false);
        if let Some(caught_up) = self.policy.catch_up(caller, info, &ruling) {
            caught_up.await;
            ruling = judge(false);
        }
        let Ruling { mut verdict, visibility } = ruling;
        // kube-apiserver is asked at most once whether the caller is an operator, and only if it matters.
        let mut operator = None;
        let is_open = matches!(request.access, RouteAccess::Public | RouteAccess::PublicUnauthenticated);
        if !caller.in_group(MASTERS) && !is_open {
            // What is allowed to a caller may rest on what he does not see. An operator sees it.
            if verdict != AuthzVerdict::NoOpinion && info.resource().is_some() {
                let is_operator = self.is_operator(caller).await?;
                operator = Some(is_operator);
                if is_operator {
                    verdict = judge(true).verdict;
                }
            }
            self.check(request, verdict).await?;
        }
        if !request.reads_store {
            return Ok((Arc::from(caller.name.as_str()), Visibility::Nothing));
        }
        let is_operator = match operator {
            Some(known) => known,
            None => self.is_operator(caller).await?,
        };
        let visibility = if is_operator { judge(true).visibility } else { visibility };
        let visibility = visibility.map_err(|not_ready| *not_ready)?;
        Ok((Arc::from(caller.name.as_str()), visibility))
    }
}

/// Whether kube-apiserver may be asked about a caller. It is not asked about users of a token issuer that the cluster
/// does not trust, nor about users known by a password of this server: these are not users of the cluster, even if a
/// name is the same.
fn is_reviewed(caller: &Caller) -> bool {
    !matches!(caller.via, Via::Jwt | Via::Password)
}

/// The 403 with the exact message of a Go API server.
fn forbidden(attributes: &AuthorizationAttributes, reason: &str) -> Status {
    let user = quoted(&attributes.caller.name);
    match &attributes.info {
        RequestInfo::Resource(request) => {
            let why = with_reason(&cannot(&user, request), reason);
            let resource = GroupResource::new(request.group.as_str(), request.resource.as_str());
            Status::forbidden(&resource, request.object_name(), &why)
        }
        RequestInfo::Path(request) => {
            let cannot = format!("User {user} cannot {} path {}", request.verb, quoted(&request.path));
            let why = with_reason(&cannot, reason);
            let mut status = Status::failure(403, "Forbidden", format!("forbidden: {why}"));
            status.details = Some(meta::status::StatusDetails::default());
            status
        }
    }
}

fn cannot(user: &str, request: &ResourceRequest) -> String {
    let resource = if request.subresource.is_empty() {
        quoted(&request.resource)
    } else {
        quoted(&format!("{}/{}", request.resource, request.subresource))
    };
    let scope = if request.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", quoted(&request.namespace))
    };
    let group = quoted(&request.group);
    format!("User {user} cannot {} resource {resource} in API group {group} {scope}", request.verb)
}

fn with_reason(cannot: &str, reason: &str) -> String {
    let why = cannot.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if reason.is_empty() { why } else { format!("{why}: {reason}") }
}

/// As Go's `%q` does for the characters that occur in names.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests;
