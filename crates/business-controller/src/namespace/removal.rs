//! The one place where a namespace of a cluster is deleted.

use super::build;
use super::kind::NamespaceView;
use super::site::Site;
use super::validate;
use crate::error::Error;
use crate::member::ClusterNamespace;
use crate::seal::Origin;

/// Deletes exactly this namespace. The cluster lets us delete only what carries our mark and is not marked as adopted, so
/// it is marked first.
pub async fn remove(
    object: &NamespaceView,
    site: &Site,
    there: &ClusterNamespace,
    origin: Origin,
) -> Result<(), Error> {
    let (api, name) = (&site.member.api, &object.spec.namespace);
    if there.marks.adopted || !validate::is_marked(object, &there.marks) {
        api.patch_namespace(name, &build::marks(site, object, there, origin, None)).await?;
    }
    api.delete_namespace(name, &there.uid).await
}
