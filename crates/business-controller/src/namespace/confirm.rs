//! When less may be charged than before. Pure.
//!
//! The charge is a high-water mark: it covers everything that the member cluster may still let in. It falls only
//! when the cluster's admission counts with the lower quota, and per resource not below what is in use.

use super::kind::NamespaceView;
use crate::member::ClusterQuota;
use meta::quantity::ResourceList;

/// Whether the member cluster's admission counts with exactly what the object asks for.
pub fn is_enforced(object: &NamespaceView, quota: &ClusterQuota) -> bool {
    quota.marks.uid.as_deref() == Some(&object.uid)
        && quota.generation == Some(object.generation)
        && !quota.deleting
        && !quota.scoped
        && quota.spec_hard == object.spec.hard
        && quota.status_hard == object.spec.hard
}

/// The lower charge that can be confirmed now; `None` when there is none.
pub fn charge(object: &NamespaceView, quota: &ClusterQuota) -> Option<ResourceList> {
    let old = object.status.cached_spec_hard.as_ref()?;
    if !is_enforced(object, quota) {
        return None;
    }
    let mut new = ResourceList::new();
    for (key, hard) in &object.spec.hard {
        let before = old.get(key).unwrap_or(hard);
        // Use that is not counted yet may be anything up to what was granted.
        let used = quota.status_used.get(key).unwrap_or(before);
        new.insert(key.clone(), (*hard).max((*used).min(*before)));
    }
    (new != *old).then_some(new)
}

#[cfg(test)]
mod tests;
