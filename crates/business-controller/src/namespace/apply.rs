//! Sends the writes to a member cluster. The namespace comes first: the quota is in it, and its seal has the
//! namespace's uid.

use super::build;
use super::kind::NamespaceView;
use super::target::{Target, still_owns_place};
use super::verdict::{NamespaceStep, Plan, QuotaStep};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::member::template_metadata::TemplateMetadata;
use crate::member::watch_store::UpdateSource;
use crate::member::{ClusterNamespace, ClusterQuota};
use std::sync::Arc;

/// What is in the cluster after the writes.
#[derive(Clone, Debug)]
pub struct AppliedObjects {
    pub namespace_uid: String,
    /// The quota as written, or as seen if nothing was written.
    pub quota: Arc<ClusterQuota>,
}

/// The outcome of the writes.
#[derive(Clone, Debug)]
pub enum ApplyOutcome {
    /// Everything is in place.
    Applied(AppliedObjects),
    /// A namespace with this uid was created while another uid is on record. Until the new uid is on record, only the
    /// seal of its quota distinguishes the namespace from one that somebody else creates. Whether it has the quota is
    /// checked afterwards.
    Recreated { uid: String },
    /// The object was moved to another project. Passes over its new key do the rest.
    Moved,
}

/// Sends the writes. A namespace that is written gets the labels and annotations of its template. A conflict means that
/// the cluster is not as it was read.
pub async fn apply(
    cx: &Context,
    target: &Target,
    object: &NamespaceView,
    plan: &Plan,
    template_metadata: Option<&TemplateMetadata>,
) -> Result<ApplyOutcome, Error> {
    let namespace_uid = match &plan.namespace {
        NamespaceStep::Keep { uid } => uid.clone(),
        NamespaceStep::Create => {
            record_observed(target, create(cx, target, object, template_metadata).await?)
        }
        NamespaceStep::Mark { from, .. } => {
            let body = build::mark_patch(target, object, from, plan.origin, template_metadata);
            record_observed(target, target.member.api.patch_namespace(&object.spec.namespace, &body).await?)
        }
    };
    let quota = match &plan.quota {
        QuotaStep::Keep { seen } => Arc::clone(seen),
        _ if is_recreation(object, plan) => {
            if still_owns_place(cx, object)
                && let Err(error) = write_quota(target, object, plan, &namespace_uid).await
            {
                tracing::debug!(error = error.text(), "a namespace that was made anew has no quota yet");
            }
            return Ok(ApplyOutcome::Recreated { uid: namespace_uid });
        }
        // The object may have been moved to another project meanwhile.
        _ if !still_owns_place(cx, object) => return Ok(ApplyOutcome::Moved),
        QuotaStep::Create | QuotaStep::Update { .. } => {
            write_quota(target, object, plan, &namespace_uid).await?
        }
    };
    Ok(ApplyOutcome::Applied(AppliedObjects { namespace_uid, quota }))
}

/// Whether the plan creates a namespace while another one is on record.
fn is_recreation(object: &NamespaceView, plan: &Plan) -> bool {
    plan.namespace == NamespaceStep::Create && object.status.cluster_namespace.is_some()
}

/// From the first try on, something may have been created for the object, unless the cluster says that it was not.
async fn create(
    cx: &Context,
    target: &Target,
    object: &NamespaceView,
    template_metadata: Option<&TemplateMetadata>,
) -> Result<ClusterNamespace, Error> {
    let body = build::new_namespace(target, object, template_metadata);
    let never_created = &cx.objects.namespaces.memory.never_created;
    let term = never_created.forget(&object.uid);
    let result = target.member.api.create_namespace(&object.spec.namespace, &body).await;
    let nothing_was_made = match &result {
        Ok(_) | Err(Error::Member(CallFailure::Unavailable(_))) => false,
        Err(_) => true,
    };
    if let Some(term) = term.filter(|_| nothing_was_made) {
        never_created.remember(&object.uid, term);
    }
    result
}

fn record_observed(target: &Target, namespace: ClusterNamespace) -> String {
    let uid = namespace.uid.clone();
    target.member.observed.upsert_namespace(namespace, UpdateSource::OwnWrite);
    uid
}

async fn write_quota(
    target: &Target,
    object: &NamespaceView,
    plan: &Plan,
    namespace_uid: &str,
) -> Result<Arc<ClusterQuota>, Error> {
    let (api, name) = (&target.member.api, &object.spec.namespace);
    let quota = match &plan.quota {
        QuotaStep::Update { from, .. } => {
            let body = build::quota_patch(target, object, from, namespace_uid, plan.origin);
            api.patch_quota(name, &body).await?
        }
        QuotaStep::Create | QuotaStep::Keep { .. } => {
            let body = build::new_quota(target, object, namespace_uid, plan.origin);
            api.create_quota(name, &body).await?
        }
    };
    target.member.observed.upsert_quota(name, quota.clone(), UpdateSource::OwnWrite);
    Ok(Arc::new(quota))
}
