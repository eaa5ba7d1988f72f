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

/// Namespaces that a writer remembers, so that it can come back to them, also with what it read long ago.
const MEMORY: usize = 200;
/// How many namespaces are made together.
const LIST: std::ops::RangeInclusive<usize> = 2..=4;
/// What a namespace may use.
const AMOUNT: std::ops::Range<u64> = 1..6;
/// Names of namespaces: so few that now and then one is taken.
const NAMES: u32 = 8_000;
/// What is found without an object: it counts also above limits.
const ORPHAN: std::ops::Range<u64> = 1..50;

/// Where namespaces are made.
struct ProjectOfTree {
    name: String,
    tenant: &'static str,
    number: usize,
}

impl Writer {
    /// A project for namespaces.
    fn project(&mut self) -> ProjectOfTree {
        if self.one_in(12) {
            let number = self.random.random_range(0..EXTRAS);
            return ProjectOfTree { name: extra(number), tenant: tenant_of_extra(number), number };
        }
        let number = self.random.random_range(0..self.replica.leaves);
        let tenant = TENANTS.get(tenant_of_leaf(number)).copied().unwrap_or_default();
        ProjectOfTree { name: leaf(number), tenant, number }
    }

    /// A leaf, of one tenant in most cases: what is another's is to be refused.
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

    /// Makes namespaces in several projects together, as an adoption does: all of them or none.
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
        let told = match &answers {
            Err(error) => vec![self.told("adopt", error)?; list.size],
            Ok(answers) => match answers.iter().find_map(|answer| answer.as_ref().err()) {
                // Those that could have been made say so; none was.
                Some(refusal) => vec![self.told("adopt", refusal)?; list.size],
                None => answers.iter().flatten().map(|revision| LoggedOutcome::Done(revision.0)).collect(),
            },
        };
        for (body, told) in bodies.iter().zip(&told) {
            self.note("adopt", body.token, *told)?;
        }
        if told.contains(&LoggedOutcome::Unavailable) {
            tokio::time::sleep(RETRY).await;
        }
        if answers.is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            for body in &bodies {
                self.remember(body.key(KIND)).await;
            }
        }
        Ok(())
    }

    /// Reads a namespace again, so that it can be written; `None` when it is gone or the database is away.
    async fn namespace(&mut self) -> Option<ReadObject> {
        if self.remembered.is_empty() || self.one_in(10) {
            self.find().await;
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

    /// Remembers a namespace that somebody else has made: those of replicas that died would stay for ever.
    async fn find(&mut self) {
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

    /// Raises or lowers a namespace's spec: its charge follows upwards only.
    pub(super) async fn resize(&mut self) -> Result<()> {
        let Some(old) = self.namespace().await else { return Ok(()) };
        let mut new = old.body.clone().fresh();
        new.status.cached_spec_hard = Some(old.body.charge().clone());
        new.spec.hard = some(&mut self.random, &AMOUNT);
        new.status.cached_spec_hard = Some(new.high_water());
        self.update("resize", &old, &new, Growth::Free).await
    }

    /// Moves a namespace to another project. Whoever comes back to its old place finds nothing there.
    pub(super) async fn relocate(&mut self) -> Result<()> {
        let Some(old) = self.namespace().await else { return Ok(()) };
        let mut new = old.body.clone().fresh();
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

    /// Lowers the charge to the spec, as a controller confirms it; `stale` with what was read long ago.
    pub(super) async fn confirm(&mut self, stale: bool) -> Result<()> {
        let Some(mut old) = self.namespace().await else { return Ok(()) };
        let first = self.remembered.iter().find(|entry| entry.key == old.entry.key).filter(|_| stale);
        if let Some(first) = first.and_then(|entry| ReadObject::of(old.kind, Arc::clone(entry))) {
            old = first;
        }
        let mut new = old.body.clone().fresh();
        let charge = if new.is_deleting() { Units::new() } else { new.spec.hard.clone() };
        new.status.cached_spec_hard = Some(charge);
        let op = if stale { "confirm stale" } else { "confirm" };
        self.update(op, &old, &new, Growth::Refused).await
    }

    /// One step of a deletion: mark, confirm that nothing is left, remove.
    pub(super) async fn delete(&mut self) -> Result<()> {
        let Some(old) = self.namespace().await else { return Ok(()) };
        let mut new = old.body.clone().fresh();
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
        // Few, or the projects fill up with what counts without an object.
        if !old.body.is_deleting() || old.body.charge().is_empty() || !self.one_in(10) {
            return Ok(());
        }
        let hold = HoldChange { state: HoldState::Abandoned, reason: "stress".to_owned() };
        self.remove("abandon", &old, Some(hold)).await
    }

    /// Finds something in a cluster that no object stands for, or stops counting such a thing.
    pub(super) async fn count_without_object(&mut self) -> Result<()> {
        if self.one_in(3) {
            let ProjectOfTree { name, number, .. } = self.project();
            let cluster = cluster_of(&mut self.random, number);
            let found = some(&mut self.random, &ORPHAN);
            let units = found.into_iter().map(|(key, amount)| Ok((key, amount.to_string().parse()?)));
            let amounts = BTreeMap::from([(cluster.to_owned(), units.collect::<Result<_>>()?)]);
            let scope = Scope::new(business_types::account::PROJECT, name);
            let (uid, state, reason) = (Uuid::new_v4(), HoldState::Orphaned, "stress".to_owned());
            let hold = Hold { uid, scope, claim: None, amounts, state, reason };
            // Whether it was counted is seen in the history of holds.
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
