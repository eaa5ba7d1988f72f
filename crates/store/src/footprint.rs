//! The number and the bytes of objects in the store, by tenant. Quota counts what objects cost; this counts what is
//! stored, as many objects cost nothing.

use crate::model::Entry;
use std::collections::HashMap;

/// How much objects take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Their number.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Footprint {
    /// No limit.
    pub const UNLIMITED: Self = Self { objects: u64::MAX, bytes: u64::MAX };

    pub(crate) fn of(entry: &Entry) -> Self {
        Self { objects: 1, bytes: bytes(&entry.body) }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_sub(other.objects),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    pub(crate) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

pub(crate) fn bytes(body: &[u8]) -> u64 {
    u64::try_from(body.len()).unwrap_or(u64::MAX)
}

/// Footprints by tenant. A tenant without objects is not in it.
#[derive(Debug, Default)]
pub(crate) struct Footprints(HashMap<Box<str>, Footprint>);

impl Footprints {
    /// The footprint of a tenant.
    pub(crate) fn of(&self, tenant: &str) -> Footprint {
        self.0.get(tenant).copied().unwrap_or_default()
    }

    /// Counts an object that was created, changed or deleted.
    pub(crate) fn change(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        if let Some((tenant, entry)) = new.and_then(owned) {
            self.add(tenant, Footprint::of(entry));
        }
        if let Some((tenant, entry)) = old.and_then(owned) {
            self.take(tenant, Footprint::of(entry));
        }
    }

    pub(crate) fn add(&mut self, tenant: &str, more: Footprint) {
        match self.0.get_mut(tenant) {
            Some(footprint) => *footprint = footprint.plus(more),
            None => {
                self.0.insert(Box::from(tenant), more);
            }
        }
    }

    pub(crate) fn take(&mut self, tenant: &str, less: Footprint) {
        if let Some(footprint) = self.0.get_mut(tenant) {
            *footprint = footprint.minus(less);
            if footprint.is_nothing() {
                self.0.remove(tenant);
            }
        }
    }
}

/// The tenant that owns an entry, if there is one, and the entry.
fn owned(entry: &Entry) -> Option<(&str, &Entry)> {
    Some((entry.attributes.tenant.as_deref()?, entry))
}
