//! The limit of what a tenant's objects may take in the store.

use crate::access::{Access, Visibility};
use crate::cache::inner::CacheInner;
use crate::cache::objects::Path;
use crate::error::Error;
use crate::footprint::{Footprint, Footprints, bytes};
use crate::model::{Entry, Growth, Revision, Write};
use crate::read::At;
use prometheus_client::metrics::counter::Counter;
use runtime::Metrics;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Writes to objects that are being deleted may exceed a tenant's limit of bytes by one part in so many.
const DELETING_PART: u64 = 8;

/// Keeps callers who are confined to tenants from filling the store. It counts the objects in this replica's cache, and
/// the writes of this replica that the cache does not have yet. It does not count what other replicas write at the
/// moment.
#[derive(Clone, Debug)]
pub(crate) struct TenantLimiter {
    limit: Footprint,
    uncached: Arc<Mutex<UncachedUsage>>,
    refused: Counter,
}

impl TenantLimiter {
    pub(crate) fn new(limit: Footprint, metrics: &Metrics) -> Self {
        let help = "Writes refused as their tenant has as much as a tenant may";
        let refused = metrics.register("store_tenant_full", help, Counter::default());
        Self { limit, uncached: Arc::default(), refused }
    }

    /// Reserves what a write adds, until the reservation is dropped or the cache has the write. Two sorts of writes are
    /// not limited: those of callers who see everything, and those with [`Growth::Refused`], such as a status or a
    /// deletion. If the tenant seems full, the cache is brought up to date first, so that objects that are gone do not
    /// count.
    pub(crate) async fn reserve(
        &self,
        access: &Access,
        cache: &CacheInner,
        write: &Write,
    ) -> Result<Option<Reservation>, Error> {
        let is_limited = !matches!(access.visibility(), Visibility::Everything)
            && write.growth != Growth::Refused
            && !write.change.state().account.tenant.is_empty()
            && self.limit != Footprint::UNLIMITED;
        if !is_limited {
            return Ok(None);
        }
        if let Ok(reservation) = self.try_reserve(cache, write) {
            return Ok(reservation);
        }
        cache.wait_until_fresh(At::Latest).await?;
        self.try_reserve(cache, write).inspect_err(|error| {
            self.refused.inc();
            let tenant = &*write.change.state().account.tenant;
            tracing::info!(tenant, %error, "a tenant has as much as a tenant may");
        })
    }

    fn try_reserve(&self, cache: &CacheInner, write: &Write) -> Result<Option<Reservation>, Error> {
        let tenant = &*write.change.state().account.tenant;
        // Locked before the cache is read, so that each write is counted here or in the cache.
        let mut uncached = lock(&self.uncached);
        let (cached, before) = uncached.usage(cache, tenant, write);
        let after = Footprint { objects: 1, bytes: bytes(write.change.state().body.as_bytes()) };
        let more = after.minus(before);
        let sum = cached.plus(uncached.by_tenant.of(tenant)).plus(more);
        let most = if write.growth == Growth::Deleting { self.limit_for_deleting() } else { self.limit };
        for (word, amount, sum, most) in [
            ("objects", more.objects, sum.objects, most.objects),
            ("bytes", more.bytes, sum.bytes, most.bytes),
        ] {
            if amount > 0 && sum > most {
                return Err(Error::Full { tenant: tenant.to_owned(), asked: amount, most, word });
            }
        }
        if more.is_nothing() {
            return Ok(None);
        }
        uncached.by_tenant.add(tenant, more);
        let delta = Some(UsageDelta { tenant: Box::from(tenant), more });
        Ok(Some(Reservation { uncached: Arc::clone(&self.uncached), delta }))
    }

    /// The limit for objects that are being deleted. A full tenant can still remove finalizers, which may write more
    /// bytes of managers' names than it removes.
    fn limit_for_deleting(&self) -> Footprint {
        self.limit.plus(Footprint { objects: 0, bytes: self.limit.bytes / DELETING_PART })
    }
}

fn lock(uncached: &Mutex<UncachedUsage>) -> MutexGuard<'_, UncachedUsage> {
    uncached.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Usage that the cache does not have yet: of writes under way, and of committed writes that are not applied yet.
#[derive(Debug, Default)]
struct UncachedUsage {
    by_tenant: Footprints,
    /// Committed writes by the revision at which the cache counts them.
    committed: BTreeMap<Revision, UsageDelta>,
    /// The generation of the cache to which the revisions belong.
    generation: u64,
}

/// What a write adds to a tenant's usage.
#[derive(Debug)]
struct UsageDelta {
    tenant: Box<str>,
    more: Footprint,
}

impl UncachedUsage {
    /// The tenant's usage in the cache, and the part of it that is the object before the write. That part is empty for
    /// a create, and for an object that comes from another tenant. Writes that the cache has by now are dropped here.
    fn usage(&mut self, cache: &CacheInner, tenant: &str, write: &Write) -> (Footprint, Footprint) {
        let (key, state) = (&write.key, cache.read());
        let later = self.committed.split_off(&Revision(state.revision.0.saturating_add(1)));
        let seen = std::mem::replace(&mut self.committed, later);
        let of_other_generation =
            (self.generation != state.generation).then(|| std::mem::take(&mut self.committed));
        self.generation = state.generation;
        for delta in seen.into_values().chain(of_other_generation.into_iter().flat_map(BTreeMap::into_values))
        {
            self.by_tenant.take(&delta.tenant, delta.more);
        }
        let current = || state.objects(key.kind).and_then(|objects| objects.get(&Path::of(key)));
        let is_its = |entry: &&Arc<Entry>| entry.attributes.tenant.as_deref() == Some(tenant);
        let before = write.change.before().and_then(|_| current()).filter(is_its);
        let before = before.map(|entry| Footprint::of(entry));
        (state.footprints().of(tenant), before.unwrap_or_default())
    }
}

/// The reserved usage of a write. Dropping it without a commit gives it back.
#[derive(Debug)]
pub(crate) struct Reservation {
    uncached: Arc<Mutex<UncachedUsage>>,
    delta: Option<UsageDelta>,
}

impl Reservation {
    /// The write was made. The cache counts it from this revision on.
    pub(crate) fn commit(mut self, revision: Revision) {
        if let Some(delta) = self.delta.take() {
            let mut uncached = lock(&self.uncached);
            if let Some(other) = uncached.committed.insert(revision, delta) {
                uncached.by_tenant.take(&other.tenant, other.more);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(delta) = self.delta.take() {
            lock(&self.uncached).by_tenant.take(&delta.tenant, delta.more);
        }
    }
}
