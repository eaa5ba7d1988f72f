//! What a tenant's objects take of a store, and how much they may. Quota counts what objects mean; this counts what is kept, as
//! many objects mean nothing to anybody's quota.

use crate::access::{Access, Visibility};
use crate::cache::inner::CacheInner;
use crate::cache::objects::Path;
use crate::error::Error;
use crate::model::{Entry, Write};
use prometheus_client::metrics::counter::Counter;
use runtime::Metrics;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What objects take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Their number.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Footprint {
    /// Whatever there is room for.
    pub const UNLIMITED: Self = Self { objects: u64::MAX, bytes: u64::MAX };

    fn of(entry: &Entry) -> Self {
        Self { objects: 1, bytes: bytes(&entry.body) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_sub(other.objects),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

fn bytes(body: &[u8]) -> u64 {
    u64::try_from(body.len()).unwrap_or(u64::MAX)
}

/// Footprints by tenant. Who has none is not in it.
#[derive(Debug, Default)]
pub(crate) struct Footprints(HashMap<Box<str>, Footprint>);

impl Footprints {
    /// Of a tenant.
    pub(crate) fn of(&self, tenant: &str) -> Footprint {
        self.0.get(tenant).copied().unwrap_or_default()
    }

    /// An object has come, changed or gone.
    pub(crate) fn change(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        if let Some((tenant, entry)) = new.and_then(owned) {
            self.add(tenant, Footprint::of(entry));
        }
        if let Some((tenant, entry)) = old.and_then(owned) {
            self.take(tenant, Footprint::of(entry));
        }
    }

    fn add(&mut self, tenant: &str, more: Footprint) {
        match self.0.get_mut(tenant) {
            Some(footprint) => *footprint = footprint.plus(more),
            None => {
                self.0.insert(Box::from(tenant), more);
            }
        }
    }

    fn take(&mut self, tenant: &str, less: Footprint) {
        if let Some(footprint) = self.0.get_mut(tenant) {
            *footprint = footprint.minus(less);
            if footprint.is_nothing() {
                self.0.remove(tenant);
            }
        }
    }
}

fn owned(entry: &Entry) -> Option<(&str, &Entry)> {
    Some((entry.attributes.tenant.as_deref()?, entry))
}

/// Keeps callers who are confined to tenants from filling the store. It counts what this replica has seen and what it is
/// writing; what other replicas write at the moment comes on top.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    most: Footprint,
    coming: Arc<Mutex<Footprints>>,
    refused: Counter,
}

impl Room {
    pub(crate) fn new(most: Footprint, metrics: &Metrics) -> Self {
        let help = "Writes refused as their tenant has as much as a tenant may";
        let refused = metrics.register("store_tenant_full", help, Counter::default());
        Self { most, coming: Arc::default(), refused }
    }

    /// Room for what a write adds, until the answer is dropped. Who sees everything is not limited, and neither is a write that
    /// may grow nothing: a status, a deletion.
    pub(crate) fn enter(
        &self,
        access: &Access,
        cache: &CacheInner,
        write: &Write,
    ) -> Result<Option<Coming>, Error> {
        let tenant = &*write.change.state().account.tenant;
        let is_limited = !matches!(access.visibility(), Visibility::Everything) && write.growth.is_some();
        if !is_limited || tenant.is_empty() || self.most == Footprint::UNLIMITED {
            return Ok(None);
        }
        let (kept, before) = look(cache, tenant, write);
        let after = Footprint { objects: 1, bytes: bytes(write.change.state().body.as_bytes()) };
        let more = after.minus(before);
        let mut coming = lock(&self.coming);
        let sum = kept.plus(coming.of(tenant)).plus(more);
        for (word, amount, sum, most) in [
            ("objects", more.objects, sum.objects, self.most.objects),
            ("bytes", more.bytes, sum.bytes, self.most.bytes),
        ] {
            if amount > 0 && sum > most {
                self.refused.inc();
                tracing::info!(tenant, most, word, "a tenant has as much as a tenant may");
                return Err(Error::Full { tenant: tenant.to_owned(), asked: amount, most, word });
            }
        }
        if more.is_nothing() {
            return Ok(None);
        }
        coming.add(tenant, more);
        Ok(Some(Coming { all: Arc::clone(&self.coming), tenant: Box::from(tenant), more }))
    }
}

fn lock(footprints: &Mutex<Footprints>) -> MutexGuard<'_, Footprints> {
    footprints.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a tenant has, and of that the object that a write begins from; a create begins from nothing.
fn look(cache: &CacheInner, tenant: &str, write: &Write) -> (Footprint, Footprint) {
    let (key, state) = (&write.key, cache.read());
    let there = || state.objects(key.kind).and_then(|objects| objects.get(&Path::of(key)));
    let before = write.change.before().and_then(|_| there()).map(|entry| Footprint::of(entry));
    (state.footprints().of(tenant), before.unwrap_or_default())
}

/// Room that a write takes while it is under way.
#[derive(Debug)]
pub(crate) struct Coming {
    all: Arc<Mutex<Footprints>>,
    tenant: Box<str>,
    more: Footprint,
}

impl Drop for Coming {
    fn drop(&mut self) {
        lock(&self.all).take(&self.tenant, self.more);
    }
}
