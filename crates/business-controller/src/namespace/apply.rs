//! The writes to a member cluster. The namespace comes first: the quota lies in it, and is sealed with its uid.

use super::build;
use super::kind::NamespaceView;
use super::site::{Site, is_there};
use super::verdict::{NamespaceStep, Plan, QuotaStep};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::member::template_metadata::TemplateMetadata;
use crate::member::{ClusterNamespace, ClusterQuota};
use std::sync::Arc;

/// What is in place after the writes.
#[derive(Clone, Debug)]
pub struct Applied {
    pub namespace_uid: String,
    /// The quota, as written or as seen.
    pub quota: Arc<ClusterQuota>,
}

/// What became of the writes.
#[derive(Clone, Debug)]
pub enum Written {
    /// Everything is in place.
    InPlace(Applied),
    /// A namespace with this uid was made while another one is on record. Until this one is, its quota's seal alone tells it from what
    /// somebody else makes. Whether it has the quota is seen afterwards.
    MadeAnew { uid: String },
    /// The object does not lie any more where it was: what is left to do is done from there.
    Elsewhere,
}

/// Sends the writes; a namespace that is written gets the labels and annotations of its template. A conflict means that the cluster is not as it was read.
pub async fn apply(
    cx: &Context,
    site: &Site,
    object: &NamespaceView,
    plan: &Plan,
    dressing: Option<&TemplateMetadata>,
) -> Result<Written, Error> {
    let namespace_uid = match &plan.namespace {
        NamespaceStep::Keep { uid } => uid.clone(),
        NamespaceStep::Create => noted(site, create(cx, site, object, dressing).await?),
        NamespaceStep::Mark { from, .. } => {
            let body = build::marks(site, object, from, plan.origin, dressing);
            noted(site, site.member.api.patch_namespace(&object.spec.namespace, &body).await?)
        }
    };
    let quota = match &plan.quota {
        QuotaStep::Keep { seen } => Arc::clone(seen),
        _ if is_anew(object, plan) => {
            if is_there(cx, object)
                && let Err(error) = write_quota(site, object, &plan.quota, &namespace_uid, plan).await
            {
                tracing::debug!(error = error.text(), "a namespace that was made anew has no quota yet");
            }
            return Ok(Written::MadeAnew { uid: namespace_uid });
        }
        // Meanwhile it may have gone to another project.
        _ if !is_there(cx, object) => return Ok(Written::Elsewhere),
        step => write_quota(site, object, step, &namespace_uid, plan).await?,
    };
    Ok(Written::InPlace(Applied { namespace_uid, quota }))
}

/// Whether it makes a namespace while another one is on record.
fn is_anew(object: &NamespaceView, plan: &Plan) -> bool {
    plan.namespace == NamespaceStep::Create && object.status.cluster_namespace.is_some()
}

/// From the first try on, something may have been made for the object, unless the cluster says that it was not.
async fn create(
    cx: &Context,
    site: &Site,
    object: &NamespaceView,
    dressing: Option<&TemplateMetadata>,
) -> Result<ClusterNamespace, Error> {
    let body = build::new_namespace(site, object, dressing);
    let untried = &cx.objects.namespaces.memory.untried;
    let was_untried_in = untried.forget(&object.uid);
    let result = site.member.api.create_namespace(&object.spec.namespace, &body).await;
    let nothing_was_made = match &result {
        Ok(_) | Err(Error::Member(CallFailure::Unavailable(_))) => false,
        Err(_) => true,
    };
    if let Some(held) = was_untried_in.filter(|_| nothing_was_made) {
        untried.remember(&object.uid, held);
    }
    result
}

fn noted(site: &Site, namespace: ClusterNamespace) -> String {
    let uid = namespace.uid.clone();
    site.member.observed.upsert_namespace(namespace, false);
    uid
}

async fn write_quota(
    site: &Site,
    object: &NamespaceView,
    step: &QuotaStep,
    namespace_uid: &str,
    plan: &Plan,
) -> Result<Arc<ClusterQuota>, Error> {
    let (api, name) = (&site.member.api, &object.spec.namespace);
    let quota = match step {
        QuotaStep::Update { from, .. } => {
            let body = build::quota(site, object, from, namespace_uid, plan.origin);
            api.patch_quota(name, &body).await?
        }
        QuotaStep::Create | QuotaStep::Keep { .. } => {
            let body = build::new_quota(site, object, namespace_uid, plan.origin);
            api.create_quota(name, &body).await?
        }
    };
    site.member.observed.upsert_quota(name, quota.clone(), false);
    Ok(Arc::new(quota))
}
