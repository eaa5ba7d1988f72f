use crate::caller::{AUTHENTICATED, Caller, MASTERS, Via};
use crate::delegate::Delegate;
use crate::flow::Rank;
use crate::metrics::ServerMetrics;
use crate::request::{RequestInfo, ResourceRequest, Verb};
use futures_util::future::BoxFuture;
use meta::gvk::GroupResource;
use meta::status::Status;
use std::sync::Arc;
use std::time::Instant;
use store::{Access, Authorizer, Visibility};
use tokio::sync::watch;

/// Reviews by kube-apiserver, remembered for a while.
mod review;
/// Callers who were operators.
mod operators;
/// Callers who were not operators.
mod ordinary;
/// Answers that both of them remember for a while.
mod recent;

use operators::KnownOperators;
use ordinary::OrdinaryPeople;
pub use review::ReviewAnswer;
use review::Reviews;

/// The program's own rules, asked before any SubjectAccessReview, and the judge of what an allowed caller sees.
pub trait Policy: Send + Sync + 'static {
    /// What a caller may do and see, both as of one moment. `operator` is whether he holds the cross-tenant right
    /// ([`Policy::operator_right`], or `system:masters`).
    fn judge(&self, caller: &Caller, request: &RequestInfo, operator: bool) -> Ruling;

    /// Something to wait for before a ruling counts; the ruling is then asked for again. The rules may read something
    /// that is a moment behind the store, and a caller who has just been let in must not be refused. The wait ends by
    /// itself.
    fn catch_up<'a>(
        &'a self,
        _caller: &Caller,
        _request: &RequestInfo,
        _ruling: &Ruling,
    ) -> Option<BoxFuture<'a, ()>> {
        None
    }

    /// The cross-tenant right, on a resource at cluster scope.
    fn operator_right(&self) -> Right;

    /// Signals when what this caller sees may have changed for another reason than his credential and his rights;
    /// `None` if it never does. Open watches then ask again. It may signal too often, but never too late: when a
    /// visibility that was given is not given any more, the signal must have been sent.
    fn changes(&self, _caller: &Caller) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Something to wait for before a caller with [`Policy::changes`] is shown an event that the store has handed out;
    /// `None` if the rules know already what it and the events before it mean for them. They may read something that
    /// comes from the store as the event does, and the event may be the very one that takes the caller's sight away.
    /// When the wait ends, [`Policy::changes`] has signalled. It ends by itself. This is asked at each event: it must
    /// cost next to nothing.
    fn settle(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

/// What the program's own rules say of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// Whether it is allowed.
    pub verdict: AuthzVerdict,
    /// What an allowed caller sees. With [`Visibility::Nothing`] lists are empty and collections delete nothing,
    /// without a look at the database. If it is not known yet, an error that asks the client to wait: an incomplete
    /// list would be taken for the whole.
    pub sight: Result<Visibility, Box<Status>>,
}

/// What a built-in rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthzVerdict {
    /// Allowed.
    Allow,
    /// Refused, whatever the reviews say; the text ends the 403's message.
    Deny(String),
    /// Not for these rules to say.
    NoOpinion,
    /// It is not known yet: the answer asks the client to wait.
    Later(Box<Status>),
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

/// The callers who are let in at a path that is not of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admits {
    /// Everybody, known or not.
    Everybody,
    /// Everybody, and credentials are not looked at: bad ones are as good as none.
    Unasked,
    /// Everybody who is known, as `system:discovery` says, and whom [`Admits::Reviewed`] lets in.
    Authenticated,
    /// Callers whom the policy or a SubjectAccessReview allows the method and path.
    Reviewed,
}

/// Decides whether a request may go on, and what it sees. In this order: masters, paths open to all, the program's
/// own rules, documents open to everybody who is known, and SubjectAccessReview.
pub struct Authorization {
    policy: Arc<dyn Policy>,
    reviews: Option<Reviews>,
    operator: RequestInfo,
    ordinary: OrdinaryPeople,
    operators: KnownOperators,
    metrics: Arc<ServerMetrics>,
}

/// What is asked, by whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Who asks.
    pub caller: Arc<Caller>,
    /// What he asks.
    pub info: RequestInfo,
}

/// A request for admission, and for sight of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Demand {
    /// Who asks for what.
    pub attributes: Attributes,
    /// Who is let in there.
    pub admits: Admits,
    /// Whether the answer is made from the store.
    pub sees: bool,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}

impl Authorization {
    /// Without a kube-apiserver to ask, what the policy does not allow is refused.
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
            ordinary: OrdinaryPeople::default(),
            operators: KnownOperators::default(),
            metrics,
        }
    }

    /// The proof that a caller may do something with a resource, or the answer that he may not. A handler that finds
    /// that a request does more than its verb says (an update that creates) asks again.
    pub async fn authorize(&self, attributes: &Attributes) -> Result<Access, Status> {
        let attributes = attributes.clone();
        let sees = attributes.info.resource().is_some();
        self.admit(&Demand { attributes, admits: Admits::Reviewed, sees }).await
    }

    pub(crate) async fn admit(&self, demand: &Demand) -> Result<Access, Status> {
        store::authorize(self, demand).await
    }

    /// Whether a caller may act as somebody with this attribute. The program's own rules can refuse it but not grant
    /// it: a rule that lets somebody do anything with this server's objects must not let him act as anybody.
    pub(crate) async fn may_impersonate(&self, attributes: &Attributes) -> Result<(), Status> {
        let Attributes { caller, .. } = attributes;
        if caller.in_group(MASTERS) {
            return Ok(());
        }
        match self.policy.judge(caller, &attributes.info, false).verdict {
            AuthzVerdict::Deny(reason) => Err(forbidden(attributes, &reason)),
            AuthzVerdict::Later(status) => Err(*status),
            AuthzVerdict::Allow | AuthzVerdict::NoOpinion => self.reviewed(attributes).await,
        }
    }

    /// The rank of a caller before anybody is asked about him.
    pub(crate) fn rank(&self, caller: &Caller) -> Rank {
        if caller.in_group(MASTERS) {
            Rank::Master
        } else if self.operators.contains(caller, Instant::now()) {
            Rank::Operator
        } else {
            Rank::Ordinary
        }
    }

    /// A request found no room after it was let in.
    pub(crate) fn found_no_room(&self) {
        self.metrics.terminated("too many");
    }

    /// See [`Policy::changes`].
    pub(crate) fn changes(&self, caller: &Caller) -> Option<watch::Receiver<u64>> {
        self.policy.changes(caller)
    }

    /// See [`Policy::settle`].
    pub(crate) fn settle(&self) -> Option<BoxFuture<'_, ()>> {
        self.policy.settle()
    }

    /// Whether the program's own rules still let a caller, who is no operator, see what he saw. While they cannot tell,
    /// they do.
    pub(crate) fn still_shows(&self, Attributes { caller, info }: &Attributes, seen: &Visibility) -> bool {
        let Ruling { verdict, sight } = self.policy.judge(caller, info, false);
        match (verdict, sight) {
            (AuthzVerdict::Deny(_), _) => false,
            (_, Ok(sight)) => sight == *seen,
            (_, Err(_later)) => true,
        }
    }

    async fn check(&self, demand: &Demand, verdict: AuthzVerdict) -> Result<(), Status> {
        let Demand { attributes, admits, .. } = demand;
        match verdict {
            AuthzVerdict::Allow => return Ok(()),
            AuthzVerdict::Deny(reason) => return Err(forbidden(attributes, &reason)),
            AuthzVerdict::Later(status) => return Err(*status),
            AuthzVerdict::NoOpinion => {}
        }
        if *admits == Admits::Authenticated && attributes.caller.in_group(AUTHENTICATED) {
            return Ok(());
        }
        self.reviewed(attributes).await
    }

    async fn reviewed(&self, attributes: &Attributes) -> Result<(), Status> {
        match self.review(attributes).await? {
            ReviewAnswer { allowed: true, .. } => Ok(()),
            ReviewAnswer { reason, .. } => Err(forbidden(attributes, &reason)),
        }
    }

    /// Asks kube-apiserver for a review, but not about users who are not the cluster's, even if their names are the
    /// same: those of a token issuer that the cluster does not believe, and those who are known by a password of this
    /// server.
    async fn review(&self, attributes: &Attributes) -> Result<ReviewAnswer, Status> {
        match &self.reviews {
            Some(reviews) if !matches!(attributes.caller.via, Via::Jwt | Via::Password) => {
                reviews.review(attributes, &self.metrics.delegated_authz).await
            }
            _ => Ok(ReviewAnswer::default()),
        }
    }

    async fn is_operator(&self, caller: &Arc<Caller>) -> Result<bool, Status> {
        if caller.in_group(MASTERS) {
            return Ok(true);
        }
        let operator = Attributes { caller: Arc::clone(caller), info: self.operator.clone() };
        let answer = self.review(&operator).await.map(|answer| answer.allowed);
        if let Ok(operates) = answer {
            self.operators.note(caller, operates, Instant::now());
        }
        if caller.via != Via::ClusterJwt {
            return answer;
        }
        match answer {
            Ok(operates) => {
                self.ordinary.note(caller, operates, Instant::now());
                Ok(operates)
            }
            Err(_unanswered) if self.ordinary.contains(caller, Instant::now()) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Authorizer for Authorization {
    type Request = Demand;
    type Refusal = Status;

    async fn decide(&self, demand: &Demand) -> Result<(Arc<str>, Visibility), Status> {
        let Attributes { caller, info } = &demand.attributes;
        let judge = |operator| self.policy.judge(caller, info, operator);
        let mut ruling = judge(false);
        if let Some(caught_up) = self.policy.catch_up(caller, info, &ruling) {
            caught_up.await;
            ruling = judge(false);
        }
        let Ruling { mut verdict, sight } = ruling;
        // Whether the caller is an operator is asked once, and only if it matters.
        let mut operator = None;
        let is_open = matches!(demand.admits, Admits::Everybody | Admits::Unasked);
        if !caller.in_group(MASTERS) && !is_open {
            if matches!(verdict, AuthzVerdict::Deny(_) | AuthzVerdict::Later(_)) && info.resource().is_some()
            {
                let operates = self.is_operator(caller).await?;
                operator = Some(operates);
                if operates {
                    verdict = judge(true).verdict;
                }
            }
            self.check(demand, verdict).await?;
        }
        if !demand.sees {
            return Ok((Arc::from(caller.name.as_str()), Visibility::Nothing));
        }
        let operates = match operator {
            Some(known) => known,
            None => self.is_operator(caller).await?,
        };
        let sight = if operates { judge(true).sight } else { sight };
        let visibility = sight.map_err(|later| *later)?;
        Ok((Arc::from(caller.name.as_str()), visibility))
    }
}

/// The 403 of a Go API server, letter by letter.
fn forbidden(attributes: &Attributes, reason: &str) -> Status {
    let user = quoted(&attributes.caller.name);
    match &attributes.info {
        RequestInfo::Resource(asked) => {
            let why = explained(&cannot(&user, asked), reason);
            let resource = GroupResource::new(asked.group.as_str(), asked.resource.as_str());
            Status::forbidden(&resource, asked.object_name(), &why)
        }
        RequestInfo::Path(asked) => {
            let cannot = format!("User {user} cannot {} path {}", asked.verb, quoted(&asked.path));
            let why = explained(&cannot, reason);
            let mut status = Status::failure(403, "Forbidden", format!("forbidden: {why}"));
            status.details = Some(meta::status::Details::default());
            status
        }
    }
}

fn cannot(user: &str, asked: &ResourceRequest) -> String {
    let resource = if asked.subresource.is_empty() {
        quoted(&asked.resource)
    } else {
        quoted(&format!("{}/{}", asked.resource, asked.subresource))
    };
    let scope = if asked.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", quoted(&asked.namespace))
    };
    let group = quoted(&asked.group);
    format!("User {user} cannot {} resource {resource} in API group {group} {scope}", asked.verb)
}

fn explained(cannot: &str, reason: &str) -> String {
    let why = cannot.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if reason.is_empty() { why } else { format!("{why}: {reason}") }
}

/// Go's `%q`, for the texts that names are made of.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests;
