//! The writes to a member cluster. The namespace comes first: the quota lies in it.

use super::build::{Prepared, Write};
use super::kind::NamespaceView;
use crate::error::Error;
use crate::member::{ClusterQuota, Member};
use std::sync::Arc;

/// What is in place after the writes.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The quota, as written or as seen.
    pub quota: Arc<ClusterQuota>,
}

/// Sends the writes. A conflict means that the cluster is not as it was read.
pub async fn apply(member: &Member, object: &NamespaceView, prepared: Prepared) -> Result<Applied, Error> {
    let Prepared { namespace, quota, seen } = prepared;
    let name = &object.spec.namespace;
    let namespace = match namespace {
        Write::Nothing => None,
        Write::Create(body) => Some(member.api.create_namespace(&body).await?),
        Write::Patch(body) => Some(member.api.patch_namespace(name, &body).await?),
    };
    if let Some(namespace) = namespace {
        member.observed.namespace(namespace, false);
    }
    let quota = match quota {
        Write::Nothing => None,
        Write::Create(body) => Some(member.api.create_quota(name, &body).await?),
        Write::Patch(body) => Some(member.api.patch_quota(name, &body).await?),
    };
    let quota = match quota {
        Some(quota) => {
            member.observed.quota(name, quota.clone(), false);
            Arc::new(quota)
        }
        None => seen.ok_or(Error::Unsettled)?,
    };
    Ok(Applied { quota })
}
