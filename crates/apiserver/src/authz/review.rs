use super::Attributes;
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
/// How long a failure holds.
const FAILURE_TTL: Duration = Duration::from_millis(500);
/// How many answers are remembered, and how many of those to callers without credentials, who can ask for anything.
const CAPACITY: usize = 8192;
const STRANGERS_CAPACITY: usize = 1024;
/// Bytes of a request whose answer is remembered; longer ones are asked about each time.
const REMEMBERED_BYTES_MAX: usize = 1024;

/// What kube-apiserver says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewAnswer {
    /// Whether it allows.
    pub allowed: bool,
    /// Why not, if it says.
    pub reason: String,
}

/// Access reviews, each asked once in a while.
pub(super) struct Reviews {
    delegate: Delegate,
    cache: AnswerCache<Attributes, Reviewed>,
    /// Of callers without credentials, so that they push out nobody else's answers.
    strangers: AnswerCache<Attributes, Reviewed>,
    /// What such callers may ask at once.
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

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

impl Reviews {
    pub(super) fn new(delegate: Delegate) -> Self {
        let (cache, strangers) = (AnswerCache::new(CAPACITY), AnswerCache::new(STRANGERS_CAPACITY));
        Self { room: delegate.room(), delegate, cache, strangers }
    }

    /// The answer; a review that fails allows nothing and is a 500.
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
            let cache = if is_known { &self.cache } else { &self.strangers };
            cache.get_or_fetch(attributes, ask).await
        };
        reviewed.map_err(|failure| match failure {
            AccessReviewFailure::Failed => Status::internal("the access review failed"),
            AccessReviewFailure::Busy => Status::too_many_requests(1),
        })
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

/// Parsed terms where they parse; kube-apiserver makes what it can of the rest.
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
