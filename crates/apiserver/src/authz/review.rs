use super::AuthorizationAttributes;
use crate::authn::impersonation;
use crate::cache::AnswerCache;
use crate::delegate::{self, Delegate};
use crate::metrics::DelegationMetrics;
use crate::request::{RequestInfo, ResourceRequest};
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
    SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldSelectorRequirement, LabelSelectorRequirement};
use meta::selector::{FieldSelector, LabelSelector};
use meta::status::Status;
use std::time::Duration;
use tokio::sync::Semaphore;

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The message of the 503 after a failed review.
const NOT_ANSWERED: &str = "kube-apiserver does not answer who may do this";
/// How long a failure is cached.
const FAILURE_TTL: Duration = Duration::from_millis(500);
/// How many answers are cached. Answers about anonymous callers and answers about impersonation have caches of their
/// own, because anybody can cause any number of them.
const CAPACITY: usize = 8192;
const ANONYMOUS_CAPACITY: usize = 1024;
const IMPERSONATIONS_CAPACITY: usize = 1024;
/// The bytes of memory that the answers may take, including their callers.
const WEIGHT: usize = 32 * 1024 * 1024;
const ANONYMOUS_WEIGHT: usize = 4 * 1024 * 1024;
const IMPERSONATIONS_WEIGHT: usize = 4 * 1024 * 1024;
/// Answers to requests with more bytes than this are not cached.
const CACHEABLE_BYTES_MAX: usize = 1024;

/// The answer of kube-apiserver to a SubjectAccessReview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewAnswer {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Why it is not allowed, if kube-apiserver says so.
    pub reason: String,
}

/// Asks for `SubjectAccessReviews`, and caches the answers.
pub(super) struct Reviews {
    delegate: Delegate,
    cache: AnswerCache<AuthorizationAttributes, ReviewOutcome>,
    /// Answers about anonymous callers. In a cache of their own they evict no others.
    anonymous: AnswerCache<AuthorizationAttributes, ReviewOutcome>,
    /// Answers about impersonation, separate for the same reason.
    impersonations: AnswerCache<AuthorizationAttributes, ReviewOutcome>,
    /// Limits the concurrent reviews for anonymous callers.
    anonymous_permits: Semaphore,
}

type ReviewOutcome = Result<ReviewAnswer, AccessReviewFailure>;

#[derive(Clone, Copy, Debug)]
enum AccessReviewFailure {
    /// The review failed.
    Failed,
    /// Too many reviews for anonymous callers are in flight.
    Busy,
}

/// The bytes of memory that an answer takes. Answers about one caller share the `Arc`, but each counts it fully: it may
/// be the last one.
fn weight_of(
    AuthorizationAttributes { caller, info }: &AuthorizationAttributes,
    reviewed: &ReviewOutcome,
) -> usize {
    let reason = reviewed.as_ref().map_or(0, |answer| answer.reason.len());
    // The cache holds the key twice.
    caller.weight().saturating_add(info.bytes().saturating_mul(2)).saturating_add(reason)
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

impl Reviews {
    pub(super) fn new(delegate: Delegate) -> Self {
        Self {
            anonymous_permits: delegate.unauthenticated_permits(),
            delegate,
            cache: AnswerCache::new(CAPACITY, WEIGHT, weight_of),
            anonymous: AnswerCache::new(ANONYMOUS_CAPACITY, ANONYMOUS_WEIGHT, weight_of),
            impersonations: AnswerCache::new(IMPERSONATIONS_CAPACITY, IMPERSONATIONS_WEIGHT, weight_of),
        }
    }

    /// The answer about a request. A failed review allows nothing: the client gets a 503.
    pub(super) async fn review(
        &self,
        attributes: &AuthorizationAttributes,
        metrics: &DelegationMetrics,
    ) -> Result<ReviewAnswer, Status> {
        let is_known = attributes.caller.is_known();
        let ask = || async {
            let permit = (!is_known).then(|| self.anonymous_permits.try_acquire());
            match permit.transpose() {
                Ok(_permit) => self.ask(attributes, metrics).await,
                Err(_full) => (Err(AccessReviewFailure::Busy), Duration::ZERO),
            }
        };
        let reviewed = if attributes.info.bytes() > CACHEABLE_BYTES_MAX {
            Box::pin(ask()).await.0
        } else {
            self.cache(attributes).get_or_fetch(attributes, ask).await
        };
        reviewed.map_err(|failure| match failure {
            AccessReviewFailure::Failed => Status::unavailable(NOT_ANSWERED, 1),
            AccessReviewFailure::Busy => Status::too_many_requests(1),
        })
    }

    /// The cache for the answer.
    fn cache(
        &self,
        AuthorizationAttributes { caller, info }: &AuthorizationAttributes,
    ) -> &AnswerCache<AuthorizationAttributes, ReviewOutcome> {
        if !caller.is_known() {
            return &self.anonymous;
        }
        let impersonates = info.resource().is_some_and(|request| request.verb == impersonation::VERB);
        if impersonates { &self.impersonations } else { &self.cache }
    }

    async fn ask(
        &self,
        attributes: &AuthorizationAttributes,
        metrics: &DelegationMetrics,
    ) -> (ReviewOutcome, Duration) {
        let review = SubjectAccessReview { spec: spec(attributes), ..SubjectAccessReview::default() };
        let reviewed: Result<SubjectAccessReview, String> =
            delegate::review(&self.delegate.client, PATH, &review, metrics).await;
        match reviewed.map(|review| review.status.unwrap_or_default()) {
            Ok(status) => {
                let allowed = status.allowed && status.denied != Some(true);
                (Ok(ReviewAnswer { allowed, reason: status.reason.unwrap_or_default() }), self.delegate.ttl)
            }
            Err(error) => {
                tracing::warn!(error, user = attributes.caller.name, "access review failed");
                (Err(AccessReviewFailure::Failed), FAILURE_TTL)
            }
        }
    }
}

fn spec(attributes: &AuthorizationAttributes) -> SubjectAccessReviewSpec {
    let AuthorizationAttributes { caller, info } = attributes;
    let mut spec = SubjectAccessReviewSpec {
        user: Some(caller.name.clone()),
        uid: some(&caller.uid),
        groups: Some(caller.groups.clone()),
        extra: (!caller.extra.is_empty()).then(|| caller.extra.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    match info {
        RequestInfo::Resource(request) => spec.resource_attributes = Some(resource(request)),
        RequestInfo::Path(request) => {
            let (path, verb) = (Some(request.path.clone()), Some(request.verb.clone().into_owned()));
            spec.non_resource_attributes = Some(NonResourceAttributes { path, verb });
        }
    }
    spec
}

fn resource(request: &ResourceRequest) -> ResourceAttributes {
    ResourceAttributes {
        namespace: some(&request.namespace),
        verb: some(request.verb.as_str()),
        group: some(&request.group),
        version: some(&request.version),
        resource: some(&request.resource),
        subresource: some(&request.subresource),
        name: some(request.object_name()),
        field_selector: field_selector(&request.selectors.fields),
        label_selector: label_selector(&request.selectors.labels),
    }
}

/// The parsed terms if the selector can be parsed; otherwise the raw text, for kube-apiserver to interpret.
fn field_selector(text: &str) -> Option<FieldSelectorAttributes> {
    if text.is_empty() {
        return None;
    }
    let requirements = text.parse::<FieldSelector>().map(|s| s.for_review()).unwrap_or_default();
    if requirements.is_empty() {
        return Some(FieldSelectorAttributes { raw_selector: some(text), requirements: None });
    }
    let requirements = requirements
        .into_iter()
        .map(|term| FieldSelectorRequirement {
            key: term.key,
            operator: term.operator.to_owned(),
            values: Some(term.values),
        })
        .collect();
    Some(FieldSelectorAttributes { raw_selector: None, requirements: Some(requirements) })
}

fn label_selector(text: &str) -> Option<LabelSelectorAttributes> {
    if text.is_empty() {
        return None;
    }
    let requirements = text.parse::<LabelSelector>().map(|s| s.for_review()).unwrap_or_default();
    if requirements.is_empty() {
        return Some(LabelSelectorAttributes { raw_selector: some(text), requirements: None });
    }
    let requirements = requirements
        .into_iter()
        .map(|term| LabelSelectorRequirement {
            key: term.key,
            operator: term.operator.to_owned(),
            values: (!term.values.is_empty()).then_some(term.values),
        })
        .collect();
    Some(LabelSelectorAttributes { raw_selector: None, requirements: Some(requirements) })
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{Caller, Via};
    use crate::metrics::ServerMetrics;
    use crate::request::Verb;
    use axum::body::Body;
    use http::{Request, Response};
    use runtime::Metrics;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn attributes_of(verb: Verb, name: &str) -> AuthorizationAttributes {
        let caller = Caller { name: "support".to_owned(), via: Via::Certificate, ..Caller::default() };
        let resource = "users".to_owned();
        let request = ResourceRequest { verb, resource, name: name.to_owned(), ..ResourceRequest::default() };
        AuthorizationAttributes { caller: Arc::new(caller), info: request.into() }
    }

    #[tokio::test]
    async fn whoever_asks_to_be_many_pushes_out_nobody_elses_answers() {
        const REFUSED: &str = r#"{"spec":{},"status":{"allowed":false}}"#;
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let service = tower::service_fn(move |_request: Request<kube::client::Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, std::io::Error>(Response::new(Body::from(REFUSED))) }
        });
        let client = kube::Client::new(service, "default");
        let reviews =
            Reviews::new(Delegate { client, unauthenticated_reviews: 1, ttl: Duration::from_hours(1) });
        let metrics = ServerMetrics::new(&Metrics::new(), &[]);
        let review = async |attributes: &AuthorizationAttributes| {
            assert!(!reviews.review(attributes, &metrics.delegated_authz).await.unwrap().allowed);
            count.load(Ordering::SeqCst)
        };
        let other = attributes_of(Verb::Get, "jane");
        assert_eq!(review(&other).await, 1);
        for number in 0..CAPACITY {
            review(&attributes_of(impersonation::VERB, &number.to_string())).await;
        }
        let last = attributes_of(impersonation::VERB, &(CAPACITY - 1).to_string());
        assert_eq!(review(&last).await, CAPACITY + 1, "it is remembered");
        assert_eq!(review(&other).await, CAPACITY + 1, "and so is everything else");
    }
}
