//! How much of a store a tenant's objects may take.

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

/// Writes to objects that are being deleted may exceed a tenant's bytes by this part of them.
const ENDING_PART: u64 = 8;

/// Keeps callers who are confined to tenants from filling the store. It counts what this replica has seen, what it is writing
/// and what it has written; what other replicas write at the moment comes on top.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    most: Footprint,
    unseen: Arc<Mutex<Unseen>>,
    refused: Counter,
}

impl Room {
    pub(crate) fn new(most: Footprint, metrics: &Metrics) -> Self {
        let help = "Writes refused as their tenant has as much as a tenant may";
        let refused = metrics.register("store_tenant_full", help, Counter::default());
        Self { most, unseen: Arc::default(), refused }
    }

    /// Reserves room for what a write adds, until the reservation is dropped or the cache has the write. A caller who
    /// sees everything is not limited, and neither is a write that its author cannot help: a status, a deletion.
    /// Nobody is refused because of objects that are gone: if there seems to be no room, the cache is brought up to
    /// date first.
    pub(crate) async fn reserve(
        &self,
        access: &Access,
        cache: &CacheInner,
        write: &Write,
    ) -> Result<Option<Reservation>, Error> {
        let is_limited = !matches!(access.visibility(), Visibility::Everything)
            && write.growth != Growth::Refused
            && !write.change.state().account.tenant.is_empty()
            && self.most != Footprint::UNLIMITED;
        if !is_limited {
            return Ok(None);
        }
        if let Ok(reservation) = self.find(cache, write) {
            return Ok(reservation);
        }
        cache.wait_until_fresh(At::Latest).await?;
        self.find(cache, write).inspect_err(|error| {
            self.refused.inc();
            let tenant = &*write.change.state().account.tenant;
            tracing::info!(tenant, %error, "a tenant has as much as a tenant may");
        })
    }

    fn find(&self, cache: &CacheInner, write: &Write) -> Result<Option<Reservation>, Error> {
        let tenant = &*write.change.state().account.tenant;
        // Locked before the cache is read: no write moves from here to the cache in between.
        let mut unseen = lock(&self.unseen);
        let (kept, before) = unseen.look(cache, tenant, write);
        let after = Footprint { objects: 1, bytes: bytes(write.change.state().body.as_bytes()) };
        let more = after.minus(before);
        let sum = kept.plus(unseen.of_tenants.of(tenant)).plus(more);
        let most = if write.growth == Growth::Ending { self.most_of_ending() } else { self.most };
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
        unseen.of_tenants.add(tenant, more);
        let added = Some(Added { tenant: Box::from(tenant), more });
        Ok(Some(Reservation { all: Arc::clone(&self.unseen), added }))
    }

    /// The limit for objects that are being deleted. A full tenant can still remove finalizers, which may write more
    /// bytes of managers' names than it removes.
    fn most_of_ending(&self) -> Footprint {
        self.most.plus(Footprint { objects: 0, bytes: self.most.bytes / ENDING_PART })
    }
}

fn lock(unseen: &Mutex<Unseen>) -> MutexGuard<'_, Unseen> {
    unseen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the cache does not have yet: writes under way, and those whose events it waits for.
#[derive(Debug, Default)]
struct Unseen {
    of_tenants: Footprints,
    /// Writes that were made, by the revisions at which the cache counts them.
    made: BTreeMap<Revision, Added>,
    /// The generation of the cache to which the revisions belong.
    generation: u64,
}

#[derive(Debug)]
struct Added {
    tenant: Box<str>,
    more: Footprint,
}

impl Unseen {
    /// The tenant's footprint in the cache, and the part of it that is the object before the write. That part is
    /// nothing for a create, and for an object that comes from another tenant. Writes that the cache has by now are
    /// forgotten here.
    fn look(&mut self, cache: &CacheInner, tenant: &str, write: &Write) -> (Footprint, Footprint) {
        let (key, state) = (&write.key, cache.read());
        let later = self.made.split_off(&Revision(state.revision.0.saturating_add(1)));
        let seen = std::mem::replace(&mut self.made, later);
        let void = (self.generation != state.generation).then(|| std::mem::take(&mut self.made));
        self.generation = state.generation;
        for added in seen.into_values().chain(void.into_iter().flat_map(BTreeMap::into_values)) {
            self.of_tenants.take(&added.tenant, added.more);
        }
        let there = || state.objects(key.kind).and_then(|objects| objects.get(&Path::of(key)));
        let is_its = |entry: &&Arc<Entry>| entry.attributes.tenant.as_deref() == Some(tenant);
        let before = write.change.before().and_then(|_| there()).filter(is_its);
        let before = before.map(|entry| Footprint::of(entry));
        (state.footprints().of(tenant), before.unwrap_or_default())
    }
}

/// Room that a write takes. Without a commit it is given back.
#[derive(Debug)]
pub(crate) struct Reservation {
    all: Arc<Mutex<Unseen>>,
    added: Option<Added>,
}

impl Reservation {
    /// The write was made: the cache counts it from this revision on.
    pub(crate) fn commit(mut self, revision: Revision) {
        if let Some(added) = self.added.take() {
            let mut unseen = lock(&self.all);
            if let Some(other) = unseen.made.insert(revision, added) {
                unseen.of_tenants.take(&other.tenant, other.more);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(added) = self.added.take() {
            lock(&self.all).of_tenants.take(&added.tenant, added.more);
        }
    }
}
