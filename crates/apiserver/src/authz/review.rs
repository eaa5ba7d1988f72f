use super::Attributes;
use crate::authn::impersonation;
use crate::cache::AnswerCache;
use crate::delegate::{self, Delegate};
use crate::metrics::Delegated;
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
/// What the client is told of a review that fails.
const UNANSWERED: &str = "kube-apiserver does not answer who may do this";
/// How long a failure holds.
const FAILURE_TTL: Duration = Duration::from_millis(500);
/// How many answers are remembered. Answers to callers without credentials, who can ask for anything, and answers
/// about impersonation, which anybody can ask for with any name, are kept apart.
const CAPACITY: usize = 8192;
const STRANGERS_CAPACITY: usize = 1024;
const IMPERSONATIONS_CAPACITY: usize = 1024;
/// The bytes of memory that they may take, with those who ask.
const WEIGHT: usize = 32 * 1024 * 1024;
const STRANGERS_WEIGHT: usize = 4 * 1024 * 1024;
const IMPERSONATIONS_WEIGHT: usize = 4 * 1024 * 1024;
/// Bytes of a request whose answer is remembered; longer ones are asked about each time.
const REMEMBERED_BYTES_MAX: usize = 1024;

/// The answer of kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewAnswer {
    /// Whether it allows.
    pub allowed: bool,
    /// Why not, if it says.
    pub reason: String,
}

/// Access reviews, whose answers are remembered for a while.
pub(super) struct Reviews {
    delegate: Delegate,
    cache: AnswerCache<Attributes, Reviewed>,
    /// Answers to callers without credentials, apart so that they push out nobody else's.
    strangers: AnswerCache<Attributes, Reviewed>,
    /// Answers about impersonation, apart for the same reason.
    impersonations: AnswerCache<Attributes, Reviewed>,
    /// Room for the reviews of callers without credentials.
    room: Semaphore,
}

type Reviewed = Result<ReviewAnswer, AccessReviewFailure>;

#[derive(Clone, Copy, Debug)]
enum AccessReviewFailure {
    /// The review failed.
    Failed,
    /// Too many callers without credentials ask at once.
    Busy,
}

/// What an answer takes. Answers to one caller share him, and each counts him: he may be gone everywhere else.
fn weigh(Attributes { caller, info }: &Attributes, reviewed: &Reviewed) -> usize {
    let reason = reviewed.as_ref().map_or(0, |answer| answer.reason.len());
    // The key is there twice.
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
            room: delegate.room(),
            delegate,
            cache: AnswerCache::new(CAPACITY, WEIGHT, weigh),
            strangers: AnswerCache::new(STRANGERS_CAPACITY, STRANGERS_WEIGHT, weigh),
            impersonations: AnswerCache::new(IMPERSONATIONS_CAPACITY, IMPERSONATIONS_WEIGHT, weigh),
        }
    }

    /// The answer. A review that fails allows nothing; the client gets a 503.
    pub(super) async fn review(
        &self,
        attributes: &Attributes,
        metrics: &Delegated,
    ) -> Result<ReviewAnswer, Status> {
        let is_known = attributes.caller.is_known();
        let ask = || async {
            let permit = (!is_known).then(|| self.room.try_acquire());
            match permit.transpose() {
                Ok(_permit) => self.ask(attributes, metrics).await,
                Err(_full) => (Err(AccessReviewFailure::Busy), Duration::ZERO),
            }
        };
        let reviewed = if attributes.info.bytes() > REMEMBERED_BYTES_MAX {
            Box::pin(ask()).await.0
        } else {
            self.cache(attributes).get_or_fetch(attributes, ask).await
        };
        reviewed.map_err(|failure| match failure {
            AccessReviewFailure::Failed => Status::unavailable(UNANSWERED, 1),
            AccessReviewFailure::Busy => Status::too_many_requests(1),
        })
    }

    /// The cache that remembers the answer.
    fn cache(&self, Attributes { caller, info }: &Attributes) -> &AnswerCache<Attributes, Reviewed> {
        if !caller.is_known() {
            return &self.strangers;
        }
        let impersonates = info.resource().is_some_and(|asked| asked.verb == impersonation::VERB);
        if impersonates { &self.impersonations } else { &self.cache }
    }

    async fn ask(&self, attributes: &Attributes, metrics: &Delegated) -> (Reviewed, Duration) {
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

fn spec(attributes: &Attributes) -> SubjectAccessReviewSpec {
    let Attributes { caller, info } = attributes;
    let mut spec = SubjectAccessReviewSpec {
        user: Some(caller.name.clone()),
        uid: some(&caller.uid),
        groups: Some(caller.groups.clone()),
        extra: (!caller.extra.is_empty()).then(|| caller.extra.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    match info {
        RequestInfo::Resource(asked) => spec.resource_attributes = Some(resource(asked)),
        RequestInfo::Path(asked) => {
            let (path, verb) = (Some(asked.path.clone()), Some(asked.verb.clone().into_owned()));
            spec.non_resource_attributes = Some(NonResourceAttributes { path, verb });
        }
    }
    spec
}

fn resource(asked: &ResourceRequest) -> ResourceAttributes {
    ResourceAttributes {
        namespace: some(&asked.namespace),
        verb: some(asked.verb.as_str()),
        group: some(&asked.group),
        version: some(&asked.version),
        resource: some(&asked.resource),
        subresource: some(&asked.subresource),
        name: some(asked.object_name()),
        field_selector: field_selector(&asked.selectors.fields),
        label_selector: label_selector(&asked.selectors.labels),
    }
}

/// The parsed terms if the selector parses; else the text, of which kube-apiserver makes what it can.
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

    fn asked(verb: Verb, name: &str) -> Attributes {
        let caller = Caller { name: "support".to_owned(), via: Via::Certificate, ..Caller::default() };
        let resource = "users".to_owned();
        let asked = ResourceRequest { verb, resource, name: name.to_owned(), ..ResourceRequest::default() };
        Attributes { caller: Arc::new(caller), info: asked.into() }
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
        let reviews = Reviews::new(Delegate { client, strangers: 1, ttl: Duration::from_hours(1) });
        let metrics = ServerMetrics::new(&Metrics::new(), &[]);
        let review = async |attributes: &Attributes| {
            assert!(!reviews.review(attributes, &metrics.delegated_authz).await.unwrap().allowed);
            count.load(Ordering::SeqCst)
        };
        let other = asked(Verb::Get, "jane");
        assert_eq!(review(&other).await, 1);
        for number in 0..CAPACITY {
            review(&asked(impersonation::VERB, &number.to_string())).await;
        }
        let last = asked(impersonation::VERB, &(CAPACITY - 1).to_string());
        assert_eq!(review(&last).await, CAPACITY + 1, "it is remembered");
        assert_eq!(review(&other).await, CAPACITY + 1, "and so is everything else");
    }
}
