use super::{RETRY, ReadObject, Writer};
use crate::log::LoggedOutcome;
use crate::tree::{EXTRAS, TENANTS, cluster_of, extra, leaf, some, tenant_of_extra, tenant_of_leaf};
use crate::world::{List, StoredBody, TestKind, Units};
use anyhow::Result;
use meta::selector::{FieldSelector, LabelSelector};
use rand::RngExt;
use rand::seq::IndexedRandom;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::hold::Hold;
use store::model::{Change, Growth, Write};
use store::quota::{HoldChange, HoldState, Scope};
use store::read::{At, ListQuery, Selection};
use store::{Error, Key};
use uuid::Uuid;

/// The number of namespaces that a writer remembers, to write them again, also with an outdated version.
const MEMORY: usize = 200;
/// How many namespaces an adoption creates.
const LIST: std::ops::RangeInclusive<usize> = 2..=4;
/// The amounts of a namespace.
const AMOUNT: std::ops::Range<u64> = 1..6;
/// The number of names: so few that writers sometimes choose the same.
const NAMES: u32 = 8_000;
/// The amounts of an orphaned hold, which may exceed limits.
const ORPHAN: std::ops::Range<u64> = 1..50;

/// A project for namespaces.
struct ProjectOfTree {
    name: String,
    tenant: &'static str,
    number: usize,
}

impl Writer {
    /// A random project.
    fn project(&mut self) -> ProjectOfTree {
        if self.one_in(12) {
            let number = self.random.random_range(0..EXTRAS);
            return ProjectOfTree { name: extra(number), tenant: tenant_of_extra(number), number };
        }
        let number = self.random.random_range(0..self.replica.leaves);
        let tenant = TENANTS.get(tenant_of_leaf(number)).copied().unwrap_or_default();
        ProjectOfTree { name: leaf(number), tenant, number }
    }

    /// A leaf project, mostly of this tenant: moves to another tenant must be refused.
    fn leaf_of(&mut self, tenant: &str) -> String {
        loop {
            let number = self.random.random_range(0..self.replica.leaves);
            if TENANTS.get(tenant_of_leaf(number)) == Some(&tenant) || self.one_in(20) {
                return leaf(number);
            }
        }
    }

    fn new_namespace(&mut self) -> StoredBody {
        let project = self.project();
        let name = format!("n{:04}", self.random.random_range(0..NAMES));
        let cluster = cluster_of(&mut self.random, project.number);
        let hard = some(&mut self.random, &AMOUNT);
        StoredBody::namespace(&project.name, &name, cluster, hard).owned_by(project.tenant)
    }

    pub(super) async fn create(&mut self) -> Result<()> {
        let body = self.new_namespace();
        if self.create_object("create", TestKind::Namespace, &body, Growth::Free).await? {
            self.remember(body.key(TestKind::Namespace)).await;
        }
        Ok(())
    }

    /// Creates namespaces in several projects, all or none, as an adoption does.
    pub(super) async fn adopt(&mut self) -> Result<()> {
        const KIND: TestKind = TestKind::Namespace;
        let list = List { id: Uuid::new_v4(), size: self.random.random_range(LIST) };
        let mut bodies = Vec::new();
        let mut writes = Vec::new();
        for _ in 0..list.size {
            let body = self.new_namespace().in_list(list.clone());
            let change = Change::Create(body.state(KIND)?);
            let (key, uid) = (body.key(KIND), Uuid::new_v4());
            writes.push(Write { key, uid, change, growth: Growth::Free, hold: None });
            bodies.push(body);
        }
        let answers = self.replica.store.write_together(&self.access, writes, false).await;
        let outcomes = match &answers {
            Err(error) => vec![self.outcome_of("adopt", error)?; list.size],
            Ok(answers) => match answers.iter().find_map(|answer| answer.as_ref().err()) {
                // Some answers are successes, but none is stored.
                Some(refusal) => vec![self.outcome_of("adopt", refusal)?; list.size],
                None => answers.iter().flatten().map(|revision| LoggedOutcome::Done(revision.0)).collect(),
            },
        };
        for (body, outcome) in bodies.iter().zip(&outcomes) {
            self.log("adopt", body.token, *outcome)?;
        }
        if outcomes.contains(&LoggedOutcome::Unavailable) {
            tokio::time::sleep(RETRY).await;
        }
        if answers.is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            for body in &bodies {
                self.remember(body.key(KIND)).await;
            }
        }
        Ok(())
    }

    /// The latest version of a remembered namespace; `None` if it is gone or the database is unavailable.
    async fn namespace(&mut self) -> Option<ReadObject> {
        if self.remembered.is_empty() || self.one_in(10) {
            self.remember_other().await;
        }
        let index = self.random.random_range(0..self.remembered.len().max(1));
        let key = self.remembered.get(index)?.key.clone();
        match self.replica.store.get(&self.access, &key, At::Latest).await {
            Ok(entry) => ReadObject::of(TestKind::Namespace, entry),
            Err(Error::NotFound) => {
                self.remembered.swap_remove(index);
                None
            }
            Err(_) => None,
        }
    }

    /// Remembers a namespace of another writer. Otherwise those of killed replicas would never be deleted.
    async fn remember_other(&mut self) {
        let project = self.project().name;
        let selection = Selection {
            kind: TestKind::Namespace.id(),
            namespace: Some(project),
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
        };
        let query = ListQuery { selection, at: At::Any, limit: None, continue_token: None };
        if let Ok(page) = self.replica.store.list(&self.access, &query).await
            && let Some(entry) = page.items.choose(&mut self.random)
        {
            let key = entry.key.clone();
            self.remember(key).await;
        }
    }

    async fn remember(&mut self, key: Key) {
        if let Ok(entry) = self.replica.store.get(&self.access, &key, At::Latest).await {
            if self.remembered.len() >= MEMORY {
                let index = self.random.random_range(0..self.remembered.len());
                self.remembered.swap_remove(index);
            }
            self.remembered.push(entry);
        }
    }

    /// Raises or lowers the spec of a namespace. The charge is raised at once, and lowered by [`Writer::confirm`].
    pub(super) async fn resize(&mut self) -> Result<()> {
        let Some(old) = self.namespace().await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        new.status.cached_spec_hard = Some(old.body.charge().clone());
        new.spec.hard = some(&mut self.random, &AMOUNT);
        new.status.cached_spec_hard = Some(new.high_water());
        self.update("resize", &old, &new, Growth::Free).await
    }

    /// Moves a namespace to another project.
    pub(super) async fn relocate(&mut self) -> Result<()> {
        let Some(old) = self.namespace().await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        new.metadata.namespace = self.leaf_of(&old.body.spec.tenant_id);
        let to = new.key(old.kind);
        let ReadObject { kind, entry, .. } = &old;
        let Ok(last) = String::from_utf8(entry.body.to_vec()) else { return Ok(()) };
        let (expected, before) = (entry.revision, old.before()?);
        let change = Change::Move { to: to.clone(), expected, before, last, state: new.state(*kind)? };
        let (key, uid) = (entry.key.clone(), entry.uid);
        let write = Write { key, uid, change, growth: Growth::Free, hold: None };
        if self.write("move", new.token, write).await? {
            self.remember(to).await;
        }
        Ok(())
    }

    /// Lowers the charge to the spec, as the controller does; with an outdated version if `stale`.
    pub(super) async fn confirm(&mut self, stale: bool) -> Result<()> {
        let Some(mut old) = self.namespace().await else { return Ok(()) };
        let first = self.remembered.iter().find(|entry| entry.key == old.entry.key).filter(|_| stale);
        if let Some(first) = first.and_then(|entry| ReadObject::of(old.kind, Arc::clone(entry))) {
            old = first;
        }
        let mut new = old.body.clone().with_new_token();
        let charge = if new.is_deleting() { Units::new() } else { new.spec.hard.clone() };
        new.status.cached_spec_hard = Some(charge);
        let op = if stale { "confirm stale" } else { "confirm" };
        self.update(op, &old, &new, Growth::Refused).await
    }

    /// The next step of a deletion: set the deletion timestamp, release the charge, remove the object.
    pub(super) async fn delete(&mut self) -> Result<()> {
        let Some(old) = self.namespace().await else { return Ok(()) };
        let mut new = old.body.clone().with_new_token();
        if !old.body.is_deleting() {
            new.delete();
            return self.update("mark", &old, &new, Growth::Refused).await;
        }
        if !old.body.charge().is_empty() {
            new.status.cached_spec_hard = Some(Units::new());
            return self.update("release", &old, &new, Growth::Refused).await;
        }
        self.remove("remove", &old, None).await
    }

    pub(super) async fn abandon(&mut self) -> Result<()> {
        let Some(old) = self.namespace().await else { return Ok(()) };
        // Only a few, because their holds fill the projects.
        if !old.body.is_deleting() || old.body.charge().is_empty() || !self.one_in(10) {
            return Ok(());
        }
        let hold = HoldChange { state: HoldState::Abandoned, reason: "stress".to_owned() };
        self.remove("abandon", &old, Some(hold)).await
    }

    /// Adds a hold for an orphaned namespace, or writes a hold off.
    pub(super) async fn add_or_write_off_hold(&mut self) -> Result<()> {
        if self.one_in(3) {
            let ProjectOfTree { name, number, .. } = self.project();
            let cluster = cluster_of(&mut self.random, number);
            let found = some(&mut self.random, &ORPHAN);
            let units = found.into_iter().map(|(key, amount)| Ok((key, amount.to_string().parse()?)));
            let amounts = BTreeMap::from([(cluster.to_owned(), units.collect::<Result<_>>()?)]);
            let scope = Scope::new(business_types::account::PROJECT, name);
            let (uid, state, reason) = (Uuid::new_v4(), HoldState::Orphaned, "stress".to_owned());
            let hold = Hold { uid, scope, claim: None, amounts, state, reason };
            // The history of holds shows whether it was stored.
            drop(self.replica.store.hold(&self.access, &hold).await);
            return self.raise_project(&hold.scope.name, cluster).await;
        }
        if let Ok(holds) = self.replica.store.holds(&self.access, None).await
            && let Some(hold) = holds.choose(&mut self.random)
        {
            drop(self.replica.store.write_off(&self.access, hold.uid).await);
        }
        Ok(())
    }
}
