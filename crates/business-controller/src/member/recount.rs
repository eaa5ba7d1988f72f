//! Whether the usage that a quota shows was recounted since its limits changed, as far as its watch shows that.
//!
//! Admission counts in the quota itself, so a version lacks nothing that was admitted since the last recount. The
//! cluster's quota controller *replaces* the usage by what its informers show, which may lack what was admitted a
//! moment before; its write is conditional on the version of the quota that it has read, but does not say how old its
//! view of pods was. It recounts when limits change, when something is deleted, and everything from time to time.

use super::quota::ClusterQuota;
use super::weight;
use crate::kinds::revision;
use meta::quantity::{Quantity, ResourceList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Within this time a cluster has recounted a quota, unless configured otherwise: the default of its
/// `--resource-quota-sync-period`, 5 minutes, and time to work through all quotas.
pub const RECOUNT: Duration = Duration::from_mins(6);

/// Whether the usage that a quota shows is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageRecount {
    /// Everything that was admitted under other limits was counted since.
    Complete,
    /// The usage may lack something that was admitted before.
    Pending {
        /// The most that was in use when the limits changed. A resource that is missing here is unknown.
        most: ResourceList,
        /// The time until the recount is complete.
        left: Duration,
    },
}

/// What is known of one quota's earlier versions.
#[derive(Clone, Debug)]
struct QuotaHistory {
    /// The version that the watch has delivered last. It delivers every version in order; the answer to our own write
    /// may be ahead of it.
    last: Arc<ClusterQuota>,
    /// Since when every version was seen; `None` if that is so since admission has used the quota.
    seen_since: Option<Instant>,
    /// Since when admission uses these limits.
    since: Instant,
    /// The most that was in use at that time. A resource that is missing here is unknown.
    before: ResourceList,
    /// By how much usage has risen since the last quiet time.
    risen: ResourceList,
    /// The quota was recounted since then, so some of that rise may be missing.
    recounted: bool,
    /// When usage or limits changed last.
    busy: Instant,
    /// We have written a later version, and somebody charges more until the watch has delivered it.
    is_awaited: bool,
}

impl QuotaHistory {
    /// Nothing is known of earlier versions. If admission does not use the quota yet, there is nothing to know.
    fn new(quota: Arc<ClusterQuota>, now: Instant) -> Self {
        Self {
            seen_since: (!quota.status_hard.is_empty()).then_some(now),
            last: quota,
            since: now,
            before: ResourceList::new(),
            risen: ResourceList::new(),
            recounted: false,
            busy: now,
            is_awaited: false,
        }
    }

    /// The history with the next version that the watch has delivered.
    fn next(mut self, quota: Arc<ClusterQuota>, now: Instant, recount: Duration) -> Self {
        if now.saturating_duration_since(self.busy) >= recount {
            self.risen.clear();
            self.recounted = false;
        }
        let is_limited_anew = self.last.status_hard != quota.status_hard;
        if is_limited_anew {
            self.before = self.max_in_use(now, recount);
            self.since = now;
        }
        if is_limited_anew || self.last.status_used != quota.status_used {
            self.busy = now;
        }
        // A resource that was not limited before is counted for the first time, whoever was admitted before.
        self.recounted |= is_limited_anew && !self.last.status_hard.is_empty();
        for (resource, before) in &self.last.status_used {
            let used = quota.status_used.get(resource).copied().unwrap_or(Quantity::ZERO);
            // Admission never lowers the usage.
            self.recounted |= used < *before;
            if used > *before {
                let sum = self.risen.get(resource).copied().unwrap_or(Quantity::ZERO);
                let sum = used.checked_sub(*before).and_then(|more| sum.checked_add(more));
                self.risen.insert(resource.clone(), sum.unwrap_or(Quantity::MAX));
            }
        }
        self.last = quota;
        self
    }

    /// The history with a listed version: versions before it may have been missed. With the same seal it is still the
    /// same write of ours.
    fn relisted(self, quota: Arc<ClusterQuota>, now: Instant) -> Self {
        if *self.last == *quota {
            return self;
        }
        let is_as_written = quota.marks.seal.is_some() && is_same_write(&self.last, &quota);
        let first = Self::new(quota, now);
        if is_as_written { Self { since: self.since, before: self.before, ..first } } else { first }
    }

    /// The most that may be in use. What was admitted before a recount may be missing in the usage.
    fn max_in_use(&self, now: Instant, recount: Duration) -> ResourceList {
        if self.seen_since.is_some_and(|since| now.saturating_duration_since(since) < recount) {
            return ResourceList::new();
        }
        let ClusterQuota { status_hard, status_used, .. } = &*self.last;
        let limited = status_used.iter().filter(|(resource, _)| status_hard.contains_key(*resource));
        let most = limited.filter_map(|(resource, used)| {
            let missing = self.risen.get(resource).copied().filter(|_| self.recounted);
            Some((resource.clone(), used.checked_add(missing.unwrap_or(Quantity::ZERO))?))
        });
        most.collect()
    }

    fn weight(&self) -> usize {
        let texts = [&self.before, &self.risen].into_iter().flat_map(BTreeMap::keys);
        weight::of(self).saturating_add(weight::texts(texts))
    }
}

/// The histories of the quotas of a cluster, by namespace. `recount` is the time within which it recounts everything.
#[derive(Debug, Default)]
pub(super) struct QuotaHistories {
    all: BTreeMap<String, QuotaHistory>,
    weight: usize,
}

/// Whether two versions come from the same write of ours, and admission uses the same limits.
fn is_same_write(one: &ClusterQuota, other: &ClusterQuota) -> bool {
    one.uid == other.uid && one.marks.seal == other.marks.seal && one.status_hard == other.status_hard
}

fn weight_of(namespace: &str, history: &QuotaHistory) -> usize {
    weight::texts([namespace]).saturating_add(history.weight())
}

impl QuotaHistories {
    /// Records a version that the watch has delivered, in a list or as an event. Returns whether somebody waits for
    /// what [`QuotaHistories::recount_of`] returns now: for most writes nobody does, and a roll-out makes thousands.
    pub(super) fn observe(
        &mut self,
        namespace: &str,
        quota: Arc<ClusterQuota>,
        in_list: bool,
        recount: Duration,
    ) -> bool {
        let is_known = |known: &QuotaHistory| {
            revision(&quota.resource_version) <= revision(&known.last.resource_version)
                && known.last.uid == quota.uid
        };
        if !in_list && self.all.get(namespace).is_some_and(is_known) {
            return false;
        }
        let known = self.all.get(namespace);
        let is_awaited = known.is_some_and(|known| known.is_awaited);
        let is_another = known.is_some_and(|known| !is_same_write(&known.last, &quota));
        let now = Instant::now();
        let mut next = match self.take(namespace) {
            Some(before) if in_list => before.relisted(quota, now),
            Some(before) if before.last.uid == quota.uid => before.next(quota, now, recount),
            Some(_) | None => QuotaHistory::new(quota, now),
        };
        next.is_awaited = is_awaited && !is_another;
        self.weight = self.weight.saturating_add(weight_of(namespace, &next));
        self.all.insert(namespace.to_owned(), next);
        is_awaited && is_another
    }

    /// Removes the history of a quota that is gone.
    pub(super) fn forget(&mut self, namespace: &str) {
        drop(self.take(namespace));
    }

    fn take(&mut self, namespace: &str) -> Option<QuotaHistory> {
        let history = self.all.remove(namespace)?;
        self.weight = self.weight.saturating_sub(weight_of(namespace, &history));
        Some(history)
    }

    /// Keeps the histories of these namespaces only.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.all.retain(|namespace, _| is_kept(namespace));
        self.weight = weight::sum(self.all.iter().map(|(namespace, history)| weight_of(namespace, history)));
    }

    /// The estimated bytes, without the quotas.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The same as [`QuotaHistories::recount_of`], for a caller that charges more until then: the watch's delivery of
    /// this version counts as a change.
    pub(super) fn recount_awaited(
        &mut self,
        namespace: &str,
        quota: &ClusterQuota,
        recount: Duration,
    ) -> UsageRecount {
        if let Some(history) = self.all.get_mut(namespace) {
            history.is_awaited = !is_same_write(&history.last, quota);
        }
        self.recount_of(namespace, quota, recount)
    }

    /// Whether the usage in this version of a quota is complete. While the watch has not delivered our last write,
    /// nothing is known.
    pub(super) fn recount_of(
        &self,
        namespace: &str,
        quota: &ClusterQuota,
        recount: Duration,
    ) -> UsageRecount {
        let is_of = |history: &&QuotaHistory| is_same_write(&history.last, quota);
        let Some(history) = self.all.get(namespace).filter(is_of) else {
            return UsageRecount::Pending { most: ResourceList::new(), left: recount };
        };
        let left = recount.saturating_sub(history.since.elapsed());
        if left.is_zero() {
            UsageRecount::Complete
        } else {
            UsageRecount::Pending { most: history.before.clone(), left }
        }
    }
}

#[cfg(test)]
mod tests;
