//! The one place where a namespace of a cluster is deleted.

use super::build;
use super::kind::NamespaceView;
use super::target::Target;
use super::validate;
use crate::error::{CallFailure, Error};
use crate::member::ClusterNamespace;
use crate::seal::Origin;
use business_types::names;

/// What became of a namespace that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Its deletion has begun.
    Begun,
    /// It is gone, has changed, or is another one by now: what was seen of it is old.
    Outdated,
}

/// Deletes exactly this namespace. The cluster lets us delete what carries our mark and is not marked as adopted, so what we
/// have made is marked first. What somebody else has made goes as it stands: by a consent that only others can write there.
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

/// What the cluster has said instead of deleting it, and who can change that.
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
