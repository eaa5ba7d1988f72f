//! The charge, compared with what the member cluster may admit. Pure.
//!
//! The charge is a high-water mark: it covers everything that the member cluster may still admit. It falls only when
//! the cluster's admission enforces the lower quota. Per resource it does not fall below what is in use, nor below what
//! was in use when the quota was lowered and may not be counted yet.

use super::kind::NamespaceView;
use crate::member::ClusterQuota;
use crate::member::recount::UsageRecount;
use crate::seal::Sealed;
use business_types::resources;
use meta::quantity::{Quantity, ResourceList};
use std::time::Duration;

/// Whether the amounts are equal as a cluster stores them: it rounds them up to whole thousandths.
pub fn are_equal_as_stored(kept: &ResourceList, asked: &ResourceList) -> bool {
    let is_kept = |((resource, kept), (other, asked)): ((&String, &Quantity), (&String, &Quantity))| {
        resource == other && *kept == asked.in_thousandths()
    };
    kept.len() == asked.len() && kept.iter().zip(asked).all(is_kept)
}

/// Whether the member cluster's admission enforces exactly what the object asks for, and nothing older.
pub fn is_enforced(object: &NamespaceView, quota: &ClusterQuota, sealed: Option<&Sealed>) -> bool {
    let is_of_this = |sealed: &Sealed| {
        sealed.object == object.uid
            && sealed.generation == object.generation
            && sealed.hard == object.spec.hard
    };
    sealed.is_some_and(is_of_this)
        && !quota.deleting
        && !quota.scoped
        && are_equal_as_stored(&quota.spec_hard, &object.spec.hard)
        && are_equal_as_stored(&quota.status_hard, &object.spec.hard)
}

/// The lower charge that can be confirmed now; `None` if there is none.
pub fn charge(
    object: &NamespaceView,
    quota: &ClusterQuota,
    sealed: Option<&Sealed>,
    counted: &UsageRecount,
) -> Option<ResourceList> {
    let old = object.status.cached_spec_hard.as_ref()?;
    if !is_enforced(object, quota, sealed) {
        return None;
    }
    let mut new = ResourceList::new();
    for (key, hard) in &object.spec.hard {
        let mark = old.get(key).unwrap_or(hard);
        // Usage that is not counted yet may be anything up to the granted amount. What no quota ever counts is not
        // enforced anywhere.
        let uncounted = resources::is_never_counted(key).then_some(hard);
        let used = quota.status_used.get(key).or(uncounted).unwrap_or(mark);
        let before = match counted {
            UsageRecount::Complete => used,
            UsageRecount::Pending { most, .. } => most.get(key).or(uncounted).unwrap_or(mark),
        };
        let in_use = (*used).max(*before);
        // The cluster admits the amount as it stores it.
        let limit = hard.in_thousandths().min(*mark);
        new.insert(key.clone(), (*hard).max(limit).max(in_use.min(*mark)));
    }
    (new != *old).then_some(new)
}

/// How long the charge stays higher only because the cluster has not counted usage again; `None` if it does not.
pub fn time_to_recount(
    object: &NamespaceView,
    quota: &ClusterQuota,
    sealed: Option<&Sealed>,
    counted: &UsageRecount,
) -> Option<Duration> {
    let UsageRecount::Pending { left, .. } = counted else { return None };
    let later = charge(object, quota, sealed, &UsageRecount::Complete);
    (later.is_some() && later != charge(object, quota, sealed, counted)).then_some(*left)
}

/// The most that a quota admits, or has admitted.
pub fn max_admitted(quota: &ClusterQuota) -> ResourceList {
    let used = quota.status_used.iter().filter(|(resource, _)| quota.status_hard.contains_key(*resource));
    let used: ResourceList = used.map(|(resource, amount)| (resource.clone(), *amount)).collect();
    max_per_resource([&quota.spec_hard, &quota.status_hard, &used])
}

/// What the cluster may admit, or has admitted, beyond the charge of the object.
pub fn excess(object: &NamespaceView, quota: &ClusterQuota, sealed: Option<&ResourceList>) -> ResourceList {
    let none = ResourceList::new();
    let charged = object.status.charged(&object.spec);
    let exposed = max_per_resource([&max_admitted(quota), sealed.unwrap_or(&none)]);
    let beyond = exposed.into_iter().filter_map(|(resource, amount)| {
        // If the difference is out of range, the whole amount counts.
        let left = charged.get(&resource).and_then(|charged| amount.checked_sub(*charged)).unwrap_or(amount);
        (left > Quantity::ZERO).then_some((resource, left))
    });
    beyond.collect()
}

/// Whether we have granted more by a quota that was sealed with these values than the object is charged. The charge is
/// never lower than what its cluster has from us, so the database or the cluster was restored.
pub fn is_beyond_charge(object: &NamespaceView, sealed: &Sealed) -> bool {
    let charged = object.status.charged(&object.spec);
    let is_more = |(resource, hard): (&String, &Quantity)| {
        *hard > charged.get(resource).copied().unwrap_or(Quantity::ZERO)
    };
    sealed.hard.iter().any(is_more)
}

/// The largest amount of each resource.
pub fn max_per_resource<'a>(lists: impl IntoIterator<Item = &'a ResourceList>) -> ResourceList {
    let mut most = ResourceList::new();
    for (resource, amount) in lists.into_iter().flatten() {
        match most.get_mut(resource) {
            Some(held) if *amount > *held => *held = *amount,
            Some(_) => {}
            None => drop(most.insert(resource.clone(), *amount)),
        }
    }
    most
}

#[cfg(test)]
mod tests;
