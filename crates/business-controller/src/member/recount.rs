//! How far the use that a quota shows is to be believed, by what its watch has told.
//!
//! Admission counts in the quota itself, so a version lacks nothing that was let in since the last count. The cluster's quota
//! controller *replaces* the use by what its informers show, which may lack what was let in a moment before; its write names
//! the version of the quota that it has read, and not how old its view of pods was. It counts when limits are changed, when
//! something goes, and everything anew from time to time.

use super::quota::ClusterQuota;
use super::weight;
use crate::kinds::revision;
use meta::quantity::{Quantity, ResourceList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// By then a cluster has counted again what was let in before, unless configured otherwise: the default of its
/// `--resource-quota-sync-period`, 5 minutes, and time to work through all quotas.
pub const RECOUNT: Duration = Duration::from_mins(6);

/// How far the use that a quota shows is to be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageRecount {
    /// Whatever was let in under other limits has been counted since.
    Complete,
    /// It may lack some of that.
    Pending {
        /// No more was in use when the limits changed; of what is not named here that is not known.
        most: ResourceList,
        /// Until it has been counted anew.
        left: Duration,
    },
}

/// What is known of how the use of a quota was counted.
#[derive(Clone, Debug)]
struct QuotaHistory {
    /// What the watch has told last. It tells every version, in order, and an answer to an own write may be ahead of it.
    last: Arc<ClusterQuota>,
    /// Since when every version was seen; `None`: since there is something to count.
    seen_since: Option<Instant>,
    /// Since when admission counts with these limits.
    since: Instant,
    /// No more was in use then; of what is not named here that is not known.
    before: ResourceList,
    /// By how much use has risen since it was quiet for the last time.
    risen: ResourceList,
    /// It was counted since then, so that some of that may be missing.
    recounted: bool,
    /// When use or limits have changed last.
    busy: Instant,
    /// A later version of ours is written, and more stays charged until the watch has told of it.
    is_awaited: bool,
}

impl QuotaHistory {
    /// Nothing is known of what was before. Where admission does not count with the quota yet, there is nothing to know.
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

    /// After this version, which comes next.
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
        // What was not limited before is counted for the first time, whoever had let it in.
        self.recounted |= is_limited_anew && !self.last.status_hard.is_empty();
        for (resource, before) in &self.last.status_used {
            let used = quota.status_used.get(resource).copied().unwrap_or(Quantity::ZERO);
            // Admission takes nothing away.
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

    /// After a list, before which versions may have been missed. With the same seal it is the same write of ours.
    fn relisted(self, quota: Arc<ClusterQuota>, now: Instant) -> Self {
        if *self.last == *quota {
            return self;
        }
        let is_as_written = quota.marks.seal.is_some() && is_same_write(&self.last, &quota);
        let first = Self::new(quota, now);
        if is_as_written { Self { since: self.since, before: self.before, ..first } } else { first }
    }

    /// What may be in use at the most. What was let in before a count may be missing in it.
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

/// What is known of the quotas of a cluster, by namespace. `recount` is within which time it counts everything anew.
#[derive(Debug, Default)]
pub(super) struct QuotaHistories {
    all: BTreeMap<String, QuotaHistory>,
    weight: usize,
}

/// Whether two versions come from the same write of ours, and admission counts with the same limits.
fn is_same_write(one: &ClusterQuota, other: &ClusterQuota) -> bool {
    one.uid == other.uid && one.marks.seal == other.marks.seal && one.status_hard == other.status_hard
}

fn weight_of(namespace: &str, history: &QuotaHistory) -> usize {
    weight::texts([namespace]).saturating_add(history.weight())
}

impl QuotaHistories {
    /// Takes in what the watch reports of a quota, in a list or by an event. Returns whether somebody waits for what
    /// [`QuotaHistories::recount_of`] answers now: of most writes nobody does, and a roll-out makes thousands.
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

    /// The quota is gone.
    pub(super) fn forget(&mut self, namespace: &str) {
        drop(self.take(namespace));
    }

    fn take(&mut self, namespace: &str) -> Option<QuotaHistory> {
        let history = self.all.remove(namespace)?;
        self.weight = self.weight.saturating_sub(weight_of(namespace, &history));
        Some(history)
    }

    /// Keeps those of these namespaces.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.all.retain(|namespace, _| is_kept(namespace));
        self.weight = weight::sum(self.all.iter().map(|(namespace, history)| weight_of(namespace, history)));
    }

    /// About how many bytes it takes, without the quotas.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The same as [`QuotaHistories::recount_of`], for whom it matters: what the watch has not told of this version yet is news then.
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

    /// Of this version of a quota. While the watch has not told what was written there last, nothing is known of it.
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
