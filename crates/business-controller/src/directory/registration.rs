//! Records which cluster a name stands for: the uid of its `kube-system`, in the status of its `MemberCluster`.

use super::description::{ClusterDescription, description_patch};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::kinds::{ChangeSource, ObjectKey as _, RootKey};
use crate::member_cluster::kind::{BusinessMemberCluster, MemberClusterView};
use serde_json::json;

/// How often recording is tried if somebody else writes the object at the same time.
const ROUNDS_MAX: usize = 4;

/// A cluster whose uid is known.
#[derive(Clone, Copy, Debug)]
pub struct IdentifiedCluster<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub described: &'a ClusterDescription,
}

/// Records the uid for a name, and returns the uid that is recorded now: that of another cluster if one was recorded
/// before. The ledger does not let two names stand for one cluster.
pub async fn register(cx: &Context, cluster: IdentifiedCluster<'_>) -> Result<Option<String>, Error> {
    for _ in 1..ROUNDS_MAX {
        match put_on_record(cx, cluster).await {
            // The object has just been created by somebody else, changed, or deleted: try again.
            Err(Error::Api(CallFailure::Conflict(_) | CallFailure::Exists | CallFailure::NotFound)) => {}
            ended => return ended,
        }
    }
    put_on_record(cx, cluster).await
}

async fn put_on_record(cx: &Context, cluster: IdentifiedCluster<'_>) -> Result<Option<String>, Error> {
    let IdentifiedCluster { name, uid, described } = cluster;
    let key = RootKey::new(None, name);
    cx.fleet().permit()?;
    let object = match cx.business.get::<BusinessMemberCluster>(&key).await? {
        Some(object) => object,
        None => cx.business.create::<BusinessMemberCluster>(&key, described.body()).await?,
    };
    if !object.status.uid.is_empty() {
        return Ok(Some(object.status.uid));
    }
    if object.is_deleting() {
        return Ok(None);
    }
    cx.fleet().permit()?;
    let written = cx.business.patch_status(&object, json!({ "uid": uid })).await?;
    cx.objects.member_clusters.upsert(written, ChangeSource::OwnWrite);
    tracing::info!(cluster = name, uid, "member cluster registered");
    Ok(Some(uid.to_owned()))
}

/// Merges the description of a cluster into its object.
pub async fn describe(
    cx: &Context,
    object: &MemberClusterView,
    described: &ClusterDescription,
) -> Result<(), Error> {
    let Some(patch) = description_patch(object, described).filter(|_| !object.is_deleting()) else {
        return Ok(());
    };
    cx.fence_of(object.key.name()).permit()?;
    match cx.business.merge_patch(object, patch).await {
        Ok(written) => {
            cx.objects.member_clusters.upsert(written, ChangeSource::OwnWrite);
            Ok(())
        }
        // Somebody else was faster. It is tried again after the next read of the source.
        Err(CallFailure::Conflict(_) | CallFailure::NotFound) => Ok(()),
        Err(failure) => Err(Error::Api(failure)),
    }
}

/// The uid that is recorded for a name, read from the API.
pub async fn recorded(cx: &Context, name: &str) -> Result<Option<String>, Error> {
    let found = cx.business.get::<BusinessMemberCluster>(&RootKey::new(None, name)).await?;
    Ok(found.map(|object| object.status.uid).filter(|uid| !uid.is_empty()))
}
