use super::Writer;
use crate::tree::{BOUNDED, CAPACITY, CEILING, CLUSTERS, GUEST, GUESTS, derived, some};
use crate::world::{HardUnits, StoredBody, TestKind};
use anyhow::Result;
use rand::seq::IndexedRandom;
use std::collections::BTreeMap;
use store::model::Growth;

impl Writer {
    /// Sets, raises, lowers or removes the ceiling of a tenant in a cluster. A new ceiling may be below what the
    /// tenant's root projects have.
    pub(super) async fn set_ceiling(&mut self) -> Result<()> {
        let tenant = BOUNDED.choose(&mut self.random).copied().unwrap_or_default();
        let cluster = CLUSTERS.choose(&mut self.random).copied().unwrap_or_default();
        let Some(old) = self.read(TestKind::Tenant, tenant).await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        let is_removed = self.one_in(3) && new.spec.clusters.remove(cluster).is_some();
        if !is_removed {
            let mut hard = some(&mut self.random, &CEILING);
            // Changes one amount only in most cases, because a change of both is often refused.
            if let Some((resource, amount)) =
                old.body.spec.clusters.get(cluster).and_then(|old| old.hard.first_key_value())
                && !self.one_in(3)
            {
                hard.insert(resource.clone(), *amount);
            }
            new.spec.clusters.insert(cluster.to_owned(), HardUnits { hard });
        }
        let op = if is_removed { "take a ceiling away" } else { "set a ceiling" };
        self.update(op, &old, &new, Growth::Free).await
    }

    /// Creates a tenant, changes its ceilings, or does the next step of its deletion.
    pub(super) async fn cycle_tenant(&mut self) -> Result<()> {
        let name = GUESTS.choose(&mut self.random).copied().unwrap_or_default();
        let mut ceilings = BTreeMap::new();
        for cluster in CLUSTERS {
            if !self.one_in(3) {
                let hard = some(&mut self.random, &GUEST);
                ceilings.insert(cluster.to_owned(), HardUnits { hard });
            }
        }
        let Some(old) = self.read(TestKind::Tenant, name).await else {
            let body = StoredBody::of_tenant(name, ceilings);
            return self.create_object("make tenant", TestKind::Tenant, &body, Growth::Free).await.map(drop);
        };
        if old.body.is_deleting() {
            return self.remove("remove tenant", &old, None).await;
        }
        let mut new = old.body.clone().with_new_token();
        if self.one_in(2) {
            new.delete();
            return self.update("mark tenant", &old, &new, Growth::Refused).await;
        }
        new.spec.clusters = ceilings;
        self.update("set ceilings", &old, &new, Growth::Free).await
    }

    /// Changes the amounts of a cluster. A derived amount may fall below what is granted.
    pub(super) async fn change_capacity(&mut self) -> Result<()> {
        let cluster = CLUSTERS.choose(&mut self.random).copied().unwrap_or_default();
        let Some(old) = self.read(TestKind::Cluster, cluster).await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        for (resource, amount) in some(&mut self.random, &CAPACITY) {
            if derived(cluster).contains(&resource.as_str()) {
                new.status.capacity.insert(resource, amount);
            } else if !(self.one_in(6) && new.spec.hard.remove(&resource).is_some()) {
                new.spec.hard.insert(resource, amount);
            }
        }
        self.update("change capacity", &old, &new, Growth::Free).await
    }
}
