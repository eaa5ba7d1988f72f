use super::{ReadObject, Writer};
use crate::tree::{
    CLUSTERS, EXTRA, EXTRAS, LEAF, MIDDLE, MIDDLES, RAISE, ROOT, TENANTS, extra, leaf, middle, root, some,
    tenant_of_extra, tenant_of_leaf,
};
use crate::world::{HardUnits, RESOURCES, StoredBody, TestKind};
use anyhow::Result;
use rand::RngExt;
use rand::seq::IndexedRandom;
use std::collections::BTreeMap;
use store::model::Growth;

impl Writer {
    /// Updates the limits of a project. A root is sometimes updated by a writer who may not create budget.
    async fn update_project(&mut self, op: &str, old: &ReadObject, mut new: StoredBody) -> Result<()> {
        let growth = self.growth(&mut new, Some(&old.body));
        self.update(op, old, &new, growth).await
    }

    /// A bound write of a root may grow only in clusters that have a ceiling. Other writes are not bound.
    fn growth(&mut self, new: &mut StoredBody, old: Option<&StoredBody>) -> Growth {
        new.bound = new.spec.parent_project_name.is_empty() && self.one_in(2);
        if !new.bound {
            return Growth::Free;
        }
        let before = old.into_iter().flat_map(|old| old.spec.clusters.keys());
        Growth::Within(new.spec.clusters.keys().chain(before).cloned().collect())
    }

    /// Random limits in some clusters.
    fn random_limits(&mut self) -> BTreeMap<String, HardUnits> {
        let mut clusters = BTreeMap::new();
        for cluster in CLUSTERS {
            if self.one_in(2) {
                let hard = some(&mut self.random, &EXTRA);
                clusters.insert(cluster.to_owned(), HardUnits { hard });
            }
        }
        clusters
    }

    /// Raises or lowers the limits of a project of the tree.
    pub(super) async fn resize_project(&mut self) -> Result<()> {
        let tenant = self.random.random_range(0..TENANTS.len());
        let (name, range) = match self.random.random_range(0..4) {
            0 => (root(tenant), ROOT),
            1 => (middle(tenant, self.random.random_range(0..MIDDLES)), MIDDLE),
            _ => (leaf(self.random.random_range(0..self.replica.leaves)), LEAF),
        };
        let Some(old) = self.read(TestKind::Project, &name).await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        let cluster = CLUSTERS.choose(&mut self.random).copied().unwrap_or_default();
        if let Some(hard) = new.spec.clusters.get_mut(cluster) {
            hard.hard = some(&mut self.random, &range);
        }
        self.update_project("resize project", &old, new).await
    }

    /// Raises a limit of a project in a cluster, to make room for a hold.
    pub(super) async fn raise_project(&mut self, name: &str, cluster: &str) -> Result<()> {
        let Some(old) = self.read(TestKind::Project, name).await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        let resource = RESOURCES.choose(&mut self.random).copied().unwrap_or_default();
        let limit = new.spec.clusters.get_mut(cluster).and_then(|hard| hard.hard.get_mut(resource));
        let Some(limit) = limit else { return Ok(()) };
        *limit += self.random.random_range(RAISE);
        self.update_project("raise project", &old, new).await
    }

    /// Moves a project below another one, or makes it a root. Two cases must be refused: a middle project below its own
    /// leaf, which is a cycle, and a project below another tenant's.
    pub(super) async fn reparent(&mut self) -> Result<()> {
        let number = self.random.random_range(0..self.replica.leaves);
        let tenant = tenant_of_leaf(number);
        let other = self.random.random_range(0..MIDDLES);
        let (name, parent) = match self.random.random_range(0..10) {
            0 | 1 => (middle(tenant, other), leaf(number)),
            2 => (leaf(number), String::new()),
            3 => (leaf(number), root(tenant)),
            4 => (leaf(number), middle((tenant + 1) % TENANTS.len(), other)),
            _ => (leaf(number), middle(tenant, other)),
        };
        let Some(old) = self.read(TestKind::Project, &name).await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        new.spec.parent_project_name = parent;
        self.update_project("re-parent", &old, new).await
    }

    /// Removes a cluster from a leaf, or adds it again.
    pub(super) async fn remove_or_add_cluster(&mut self) -> Result<()> {
        let name = leaf(self.random.random_range(0..self.replica.leaves));
        let Some(old) = self.read(TestKind::Project, &name).await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        let cluster = CLUSTERS.choose(&mut self.random).copied().unwrap_or_default();
        if new.spec.clusters.remove(cluster).is_none() {
            let hard = some(&mut self.random, &LEAF);
            new.spec.clusters.insert(cluster.to_owned(), HardUnits { hard });
        }
        self.update_project("lose cluster", &old, new).await
    }

    /// Locks or unlocks a project. Few are locked at a time.
    pub(super) async fn lock_or_unlock(&mut self) -> Result<()> {
        let number = self.random.random_range(0..self.replica.leaves);
        let name = if self.one_in(3) { middle(tenant_of_leaf(number), 0) } else { leaf(number) };
        let Some(old) = self.read(TestKind::Project, &name).await else { return Ok(()) };
        let locked = old.body.status.locked == Some(true);
        if !locked && !self.one_in(8) {
            return Ok(());
        }
        let mut new = old.body.clone().with_new_token();
        new.status.locked = Some(!locked);
        self.update("lock", &old, &new, Growth::Refused).await
    }

    /// Creates a project, changes it, or does the next step of its deletion.
    pub(super) async fn cycle_project(&mut self) -> Result<()> {
        let number = self.random.random_range(0..EXTRAS);
        let (name, tenant) = (extra(number), tenant_of_extra(number));
        let Some(old) = self.read(TestKind::Project, &name).await else {
            let at = TENANTS.iter().position(|one| *one == tenant);
            let parent = match (at, self.random.random_range(0..3)) {
                (Some(at), 0) => root(at),
                (Some(at), 1) => middle(at, 0),
                _ => String::new(),
            };
            let mut hard = self.random_limits();
            if self.one_in(8) {
                // Without a resource that the parent limits: it must be refused.
                for hard in hard.values_mut() {
                    hard.hard.pop_last();
                }
            }
            let mut body = StoredBody::project(&name, tenant, &parent, hard);
            let growth = self.growth(&mut body, None);
            return self.create_object("make project", TestKind::Project, &body, growth).await.map(drop);
        };
        if old.body.is_deleting() {
            return self.remove("remove project", &old, None).await;
        }
        let mut new = old.body.clone().with_new_token();
        if self.one_in(3) {
            new.delete();
            return self.update("mark project", &old, &new, Growth::Refused).await;
        }
        new.spec.clusters = self.random_limits();
        self.update_project("resize project", &old, new).await
    }
}
