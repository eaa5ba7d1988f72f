//! The one place that deletes a namespace of a cluster.

use super::build;
use super::kind::NamespaceView;
use super::target::Target;
use super::validate;
use crate::error::{CallFailure, Error};
use crate::member::ClusterNamespace;
use crate::seal::Origin;
use business_types::names;

/// The outcome of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The deletion has begun.
    Begun,
    /// The namespace is gone, was changed, or is another one by now: the observation was stale.
    Outdated,
}

/// Deletes exactly this namespace. The cluster lets us delete only what carries our mark and is not marked as adopted,
/// so what we have made is marked first. A namespace that somebody else has made is deleted without marking, by a
/// consent that only others can write there.
pub async fn remove(
    object: &NamespaceView,
    target: &Target,
    there: &ClusterNamespace,
    origin: Origin,
) -> Result<Removal, Error> {
    match delete(object, target, there, origin).await {
        Ok(()) => Ok(Removal::Begun),
        Err(Error::Member(CallFailure::Conflict(_) | CallFailure::NotFound)) => Ok(Removal::Outdated),
        Err(error) => Err(error),
    }
}

async fn delete(
    object: &NamespaceView,
    target: &Target,
    there: &ClusterNamespace,
    origin: Origin,
) -> Result<(), Error> {
    let (api, name) = (&target.member.api, &object.spec.namespace);
    let is_ours = origin != Origin::Replaced;
    if is_ours && (there.marks.adopted || !validate::is_marked(object, &there.marks)) {
        api.patch_namespace(name, &build::mark_patch(target, object, there, origin, None)).await?;
    }
    api.delete_namespace(name, &there.uid).await
}

/// A refused deletion: what the cluster said, and who can change that.
#[derive(Clone, Copy, Debug)]
pub struct DeletionRefusal<'a> {
    pub cluster: &'a str,
    pub there: &'a ClusterNamespace,
    pub origin: Origin,
    pub code: u16,
    pub message: &'a str,
}

impl DeletionRefusal<'_> {
    pub fn text(self) -> String {
        let Self { cluster, there, origin, code, message } = self;
        let said = format!("cluster {cluster} refused the deletion with {code}: {message}");
        if origin != Origin::Replaced {
            return said;
        }
        format!(
            "{said}. Whoever rules that cluster lets it go by annotating the namespace there with {}={}",
            names::DELETE_REPLACED_ANNOTATION,
            there.uid,
        )
    }
}
