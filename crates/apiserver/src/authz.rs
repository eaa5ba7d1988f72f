use crate::authn::{AUTHENTICATED, Caller, Via};
use crate::metrics::ServerMetrics;
use crate::request::RequestInfo;
use meta::gvk::GroupResource;
use meta::status::Status;
use std::sync::Arc;
use store::{Access, Authorizer, Visibility};

/// Reviews by kube-apiserver, remembered for a while.
mod review;

pub use review::Answer;
use review::Reviews;

/// The program's own rules, asked before any SubjectAccessReview, and the judge of what an allowed caller sees.
pub trait Policy: Send + Sync + 'static {
    /// Allows by a built-in rule, refuses for good, or leaves it to the reviews.
    fn decide(&self, caller: &Caller, request: &RequestInfo) -> Verdict;

    /// What an allowed caller sees. `operator` tells whether he holds the cross-tenant right
    /// ([`Policy::operator_right`], or `system:masters`). [`Visibility::Nothing`] lets lists answer empty and
    /// collections delete nothing without touching the database.
    fn visibility(&self, caller: &Caller, request: &RequestInfo, operator: bool) -> Visibility;

    /// The cross-tenant right: verb, group and resource of a SubjectAccessReview at cluster scope.
    fn operator_right(&self) -> (&'static str, &'static str, &'static str);
}

/// What a built-in rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed.
    Allow,
    /// Refused, whatever the reviews say; the text ends the 403's message.
    Deny(String),
    /// Not for these rules to say.
    NoOpinion,
}

/// May do anything without being asked: kube-apiserver's own probes must not depend on a review.
pub(crate) const MASTERS: &str = "system:masters";

/// Open to everybody, letter by letter.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Decides whether a request may go on, and what it sees: masters, paths open to all, the program's own rules,
/// documents open to everybody who is known, and SubjectAccessReview.
#[derive(Debug)]
pub struct Authorization {
    policy: PolicyBox,
    reviews: Option<Reviews>,
    operator: Arc<RequestInfo>,
    metrics: Arc<ServerMetrics>,
}

/// What is asked, by whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Who asks.
    pub caller: Arc<Caller>,
    /// What he asks.
    pub info: Arc<RequestInfo>,
}

#[derive(Clone)]
struct PolicyBox(Arc<dyn Policy>);

impl std::fmt::Debug for PolicyBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Policy")
    }
}

impl Authorization {
    /// Without a kube-apiserver to ask, what the policy does not allow is refused.
    pub(crate) fn new(
        policy: Arc<dyn Policy>,
        kube: Option<kube::Client>,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        let (verb, group, resource) = policy.operator_right();
        let operator = RequestInfo {
            is_resource: true,
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            ..RequestInfo::default()
        };
        let reviews = kube.map(Reviews::new);
        Self { policy: PolicyBox(policy), reviews, operator: Arc::new(operator), metrics }
    }

    /// The proof that a caller may do something, or the answer that he may not. A handler that finds that a
    /// request does more than its verb says (an update that creates) asks again.
    pub async fn authorize(&self, attributes: &Attributes) -> Result<Access, Status> {
        store::authorize(self, attributes).await
    }

    /// Whether a caller may act as somebody with this attribute. The program's own rules can refuse it but not grant
    /// it: a rule that lets somebody do anything with this server's objects must not make him anybody he likes.
    pub(crate) async fn may_impersonate(&self, attributes: &Attributes) -> Result<(), Status> {
        self.decided(attributes, false).await
    }

    async fn is_allowed(&self, attributes: &Attributes) -> Result<(), Status> {
        self.decided(attributes, true).await
    }

    async fn decided(&self, attributes: &Attributes, policy_grants: bool) -> Result<(), Status> {
        let Attributes { caller, info } = attributes;
        if caller.in_group(MASTERS) || (!info.is_resource && ALWAYS_ALLOWED.contains(&info.path.as_str())) {
            return Ok(());
        }
        match self.policy.0.decide(caller, info) {
            Verdict::Allow if !policy_grants => {}
            Verdict::Allow => return Ok(()),
            Verdict::Deny(reason) => return Err(forbidden(attributes, &reason)),
            Verdict::NoOpinion => {}
        }
        if !info.is_resource && is_document(&info.path, &info.verb) && caller.in_group(AUTHENTICATED) {
            return Ok(());
        }
        match self.review(attributes).await? {
            Answer { allowed: true, .. } => Ok(()),
            Answer { reason, .. } => Err(forbidden(attributes, &reason)),
        }
    }

    /// Users of a token issuer are none of the cluster's users, even if their names are the same: kube-apiserver
    /// is not asked about them.
    async fn review(&self, attributes: &Attributes) -> Result<Answer, Status> {
        match &self.reviews {
            Some(reviews) if attributes.caller.via != Via::Jwt => {
                reviews.review(attributes, &self.metrics.delegated_authz).await
            }
            _ => Ok(Answer::default()),
        }
    }

    async fn is_operator(&self, caller: &Arc<Caller>) -> Result<bool, Status> {
        if caller.in_group(MASTERS) {
            return Ok(true);
        }
        let operator = Attributes { caller: Arc::clone(caller), info: Arc::clone(&self.operator) };
        Ok(self.review(&operator).await?.allowed)
    }
}

impl Authorizer for Authorization {
    type Request = Attributes;
    type Refusal = Status;

    async fn decide(&self, attributes: &Attributes) -> Result<(Arc<str>, Visibility), Status> {
        self.is_allowed(attributes).await?;
        let Attributes { caller, info } = attributes;
        let visibility = if info.is_resource {
            let operator = self.is_operator(caller).await?;
            self.policy.0.visibility(caller, info, operator)
        } else {
            Visibility::Nothing
        };
        Ok((Arc::from(caller.name.as_str()), visibility))
    }
}

/// Discovery, OpenAPI and version, as `system:discovery` gives them to everybody who is known.
fn is_document(path: &str, verb: &str) -> bool {
    let below =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    matches!(verb, "get" | "head")
        && (path == "/" || below("/apis") || below("/openapi") || below("/version"))
}

/// The 403 of a Go API server, letter by letter.
fn forbidden(attributes: &Attributes, reason: &str) -> Status {
    let Attributes { caller, info } = attributes;
    let user = quoted(&caller.name);
    let mut why = if info.is_resource {
        let mut resource = info.resource.clone();
        if !info.subresource.is_empty() {
            resource = format!("{resource}/{}", info.subresource);
        }
        let scope = if info.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quoted(&info.namespace))
        };
        let (resource, group) = (quoted(&resource), quoted(&info.group));
        format!("User {user} cannot {} resource {resource} in API group {group} {scope}", info.verb)
    } else {
        format!("User {user} cannot {} path {}", info.verb, quoted(&info.path))
    };
    why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    if info.is_resource {
        let resource = GroupResource::new(info.group.as_str(), info.resource.as_str());
        return Status::forbidden(&resource, &info.name, &why);
    }
    let mut status = Status::failure(403, "Forbidden", format!("forbidden: {why}"));
    status.details = Some(meta::status::Details::default());
    status
}

/// Go's `%q`, for the texts that names are made of.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests;
