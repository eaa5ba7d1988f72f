use super::Attributes;
use crate::cache::Cache;
use crate::delegate;
use crate::metrics::Delegated;
use crate::request::RequestInfo;
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
    SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldSelectorRequirement, LabelSelectorRequirement};
use meta::selector::{FieldSelector, LabelSelector};
use meta::status::Status;
use std::time::Duration;

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// How long an answer holds, and a failure.
const TTL: Duration = Duration::from_secs(10);
const FAILURE_TTL: Duration = Duration::from_millis(500);
/// How many answers are remembered.
const CAPACITY: usize = 8192;

/// What kube-apiserver says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether it allows.
    pub allowed: bool,
    /// Why not, if it says.
    pub reason: String,
}

/// Access reviews, each asked once in a while.
pub(super) struct Reviews {
    client: kube::Client,
    cache: Cache<Attributes, Result<Answer, ()>>,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

impl Reviews {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, cache: Cache::new(CAPACITY) }
    }

    /// The answer; a review that fails allows nothing and is a 500.
    pub(super) async fn review(
        &self,
        attributes: &Attributes,
        metrics: &Delegated,
    ) -> Result<Answer, Status> {
        let fetch = || async {
            let review = SubjectAccessReview { spec: spec(attributes), ..SubjectAccessReview::default() };
            let reviewed: Result<SubjectAccessReview, String> =
                delegate::review(&self.client, PATH, &review, metrics).await;
            match reviewed.map(|review| review.status.unwrap_or_default()) {
                Ok(status) => {
                    let allowed = status.allowed && status.denied != Some(true);
                    (Ok(Answer { allowed, reason: status.reason.unwrap_or_default() }), TTL)
                }
                Err(error) => {
                    tracing::warn!(error, user = attributes.caller.name, "access review failed");
                    (Err(()), FAILURE_TTL)
                }
            }
        };
        self.cache
            .get_or_fetch(attributes, fetch)
            .await
            .map_err(|()| Status::internal("the access review failed"))
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
    if info.is_resource {
        spec.resource_attributes = Some(resource(info));
    } else {
        let (path, verb) = (Some(info.path.clone()), Some(info.verb.clone()));
        spec.non_resource_attributes = Some(NonResourceAttributes { path, verb });
    }
    spec
}

fn resource(info: &RequestInfo) -> ResourceAttributes {
    ResourceAttributes {
        namespace: some(&info.namespace),
        verb: some(&info.verb),
        group: some(&info.group),
        version: some(&info.version),
        resource: some(&info.resource),
        subresource: some(&info.subresource),
        name: some(&info.name),
        field_selector: field_selector(&info.field_selector),
        label_selector: label_selector(&info.label_selector),
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
