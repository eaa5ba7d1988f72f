//! Writers: quota moves of every kind, each with a token of its own, each outcome logged.

use crate::log::{Line, LoggedOutcome};
use crate::replica::Replica;
use crate::world::{CLUSTERS, List, RESOURCES, StoredBody, Units, high_water};
use anyhow::Result;
use meta::selector::{FieldSelector, LabelSelector};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::model::{Before, Change, Growth, Write};
use store::quota::{HoldChange, HoldState};
use store::read::{At, ListQuery, Selection};
use store::{Access, Entry, Error, Key, KindId, Revision};
use uuid::Uuid;

/// Items that a writer remembers, so that it can come back to them, also with what it read long ago.
const MEMORY: usize = 200;

/// How many items are made together.
const LIST: std::ops::RangeInclusive<usize> = 2..=4;

/// Until a writer comes back whom the store could not serve.
const RETRY: Duration = Duration::from_millis(20);

/// The scope of a leaf's number: `leaf-3` below `mid-1` below `root`.
pub(crate) fn leaf(number: usize) -> String {
    format!("leaf-{number}")
}

/// The middle scope of a number.
pub(crate) fn middle(number: usize) -> String {
    format!("mid-{number}")
}

/// Number of middle scopes.
pub(crate) const MIDDLES: usize = 3;

struct Writer {
    replica: Replica,
    access: Access,
    random: StdRng,
    remembered: Vec<(Key, Arc<Entry>)>,
    /// Items that were given up and still count.
    given_up: Vec<Uuid>,
}

/// Writes until told to stop.
pub(crate) async fn run(replica: Replica, seed: u64) -> Result<()> {
    let mut writer = Writer {
        replica,
        access: Access::internal("stress"),
        random: StdRng::seed_from_u64(seed),
        remembered: Vec::new(),
        given_up: Vec::new(),
    };
    while !writer.replica.is_stopping() {
        for _ in 0..32 {
            writer.step().await?;
        }
    }
    Ok(())
}

impl Writer {
    async fn step(&mut self) -> Result<()> {
        match self.random.random_range(0..100) {
            0..38 => self.create().await,
            38..40 => self.adopt().await,
            40..44 => self.resize().await,
            44..50 => self.relocate().await,
            50..62 => self.confirm(false).await,
            62..65 => self.confirm(true).await,
            65..85 => self.delete().await,
            85..90 => self.abandon().await,
            90 => self.write_off().await,
            91..95 => self.resize_scope().await,
            95..98 => self.reparent().await,
            _ => self.lose_cluster().await,
        }
    }

    fn leaf(&mut self) -> String {
        leaf(self.random.random_range(0..self.replica.leaves))
    }

    fn units(&mut self) -> Units {
        RESOURCES.iter().map(|r| ((*r).to_owned(), self.random.random_range(1..6))).collect()
    }

    fn new_item(&mut self) -> StoredBody {
        let scope = self.leaf();
        let cluster = *CLUSTERS.choose(&mut self.random).unwrap_or(&CLUSTERS[0]);
        let name = format!("i{:012x}", self.random.random_range(0..1_u64 << 44));
        StoredBody::item(&name, &scope, cluster, self.units())
    }

    fn create_item(&self, body: &StoredBody) -> Write {
        let key = Key::new(self.replica.items, &body.scope, body.name());
        let change = Change::Create(body.state());
        Write { key, uid: Uuid::new_v4(), change, growth: Growth::Free, hold: None }
    }

    async fn create(&mut self) -> Result<()> {
        let body = self.new_item();
        let write = self.create_item(&body);
        let key = write.key.clone();
        if self.write("create", body.token, write).await? {
            self.remember(key).await;
        }
        Ok(())
    }

    /// Makes items in several scopes together, as an adoption does: all of them or none.
    async fn adopt(&mut self) -> Result<()> {
        let list = List { id: Uuid::new_v4(), size: self.random.random_range(LIST) };
        let items: Vec<StoredBody> = (0..list.size).map(|_| self.new_item().in_list(list.clone())).collect();
        let writes: Vec<Write> = items.iter().map(|body| self.create_item(body)).collect();
        let keys: Vec<Key> = writes.iter().map(|write| write.key.clone()).collect();
        let answers = self.replica.store.write_together(&self.access, writes, false).await;
        let told = match &answers {
            Err(error) => vec![self.told("adopt", error)?; list.size],
            Ok(answers) => match answers.iter().find_map(|answer| answer.as_ref().err()) {
                // Those that could have been made say so; none was.
                Some(refusal) => vec![self.told("adopt", refusal)?; list.size],
                None => answers.iter().flatten().map(|revision| LoggedOutcome::Done(revision.0)).collect(),
            },
        };
        for (body, told) in items.iter().zip(&told) {
            self.note("adopt", body.token, *told)?;
        }
        if told.contains(&LoggedOutcome::Unavailable) {
            tokio::time::sleep(RETRY).await;
        }
        if answers.is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            for key in keys {
                self.remember(key).await;
            }
        }
        Ok(())
    }

    /// Reads an item again, so that it can be written; `None` when it is gone or the database is away.
    async fn item(&mut self) -> Option<(Key, Arc<Entry>, StoredBody)> {
        if self.remembered.is_empty() || self.random.random_range(0..10) == 0 {
            self.find().await;
        }
        let index = self.random.random_range(0..self.remembered.len().max(1));
        let (key, _) = self.remembered.get(index)?.clone();
        match self.replica.store.get(&self.access, &key, At::Latest).await {
            Ok(entry) => {
                let body = serde_json::from_slice(&entry.body).ok()?;
                Some((key, entry, body))
            }
            Err(Error::NotFound) => {
                self.remembered.swap_remove(index);
                None
            }
            Err(_) => None,
        }
    }

    /// Remembers an item that somebody else has made: those of replicas that died would stay for ever.
    async fn find(&mut self) {
        let selection = Selection {
            kind: self.replica.items,
            namespace: Some(self.leaf()),
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

    /// Stops counting an item that was given up.
    async fn write_off(&mut self) -> Result<()> {
        let Some(uid) = self.given_up.pop() else { return Ok(()) };
        match self.replica.store.write_off(&self.access, uid).await {
            Ok(()) | Err(Error::NotFound) => {}
            Err(_) => self.given_up.push(uid),
        }
        Ok(())
    }

    /// Raises or lowers an item's spec: its charge follows upwards only.
    async fn resize(&mut self) -> Result<()> {
        let Some((key, entry, old)) = self.item().await else { return Ok(()) };
        let mut new = old.clone().fresh();
        let units = self.units();
        for kept in new.hard.values_mut() {
            kept.clone_from(&units);
        }
        new.charge = high_water(&old.charge, &new.hard);
        self.update("resize", &key, &entry, (&old, &new), true).await
    }

    /// Moves an item to another scope. Whoever comes back to its old place finds nothing there.
    async fn relocate(&mut self) -> Result<()> {
        let Some((key, entry, old)) = self.item().await else { return Ok(()) };
        let mut new = old.clone().fresh();
        new.scope = self.leaf();
        let to = Key::new(key.kind, &new.scope, &key.name);
        let Ok(last) = String::from_utf8(entry.body.to_vec()) else { return Ok(()) };
        let change = Change::Move {
            to: to.clone(),
            expected: entry.revision,
            before: before(&entry, &old),
            last,
            state: new.state(),
        };
        let write = Write { key, uid: entry.uid, change, growth: Growth::Free, hold: None };
        if self.write("move", new.token, write).await? {
            self.remember(to).await;
        }
        Ok(())
    }

    /// Lowers the charge to the spec, as a controller confirms it; `stale` with what was read long ago.
    async fn confirm(&mut self, stale: bool) -> Result<()> {
        let Some((key, mut entry, mut old)) = self.item().await else { return Ok(()) };
        if stale && let Some((_, first)) = self.remembered.iter().find(|(k, _)| *k == key) {
            entry = Arc::clone(first);
            let Ok(body) = serde_json::from_slice(&entry.body) else { return Ok(()) };
            old = body;
        }
        let mut new = old.clone().fresh();
        new.charge = if old.deleting { BTreeMap::new() } else { old.hard.clone() };
        self.update(if stale { "confirm stale" } else { "confirm" }, &key, &entry, (&old, &new), false).await
    }

    /// One step of a deletion: mark, confirm that nothing is left, remove.
    async fn delete(&mut self) -> Result<()> {
        let Some((key, entry, old)) = self.item().await else { return Ok(()) };
        let mut new = old.clone().fresh();
        if !old.deleting {
            new.deleting = true;
            return self.update("mark", &key, &entry, (&old, &new), false).await;
        }
        if !old.charge.is_empty() {
            new.charge = BTreeMap::new();
            return self.update("release", &key, &entry, (&old, &new), false).await;
        }
        self.remove("remove", &key, &entry, &old, false).await
    }

    async fn abandon(&mut self) -> Result<()> {
        let Some((key, entry, old)) = self.item().await else { return Ok(()) };
        // Holds of replicas that die stay for ever: only few, or the scopes fill up with them.
        if !old.deleting || old.charge.is_empty() || self.random.random_range(0..10) > 0 {
            return Ok(());
        }
        self.given_up.push(entry.uid);
        self.remove("abandon", &key, &entry, &old, true).await
    }

    async fn remove(
        &mut self,
        op: &str,
        key: &Key,
        entry: &Entry,
        old: &StoredBody,
        give_up: bool,
    ) -> Result<()> {
        let last = old.clone().fresh();
        let hold = give_up.then(|| HoldChange { state: HoldState::Abandoned, reason: "stress".to_owned() });
        let change =
            Change::Delete { expected: entry.revision, before: before(entry, old), last: last.state() };
        let write = Write { key: key.clone(), uid: entry.uid, change, growth: Growth::Refused, hold };
        self.write(op, last.token, write).await?;
        Ok(())
    }

    async fn scope(&mut self, name: &str) -> Option<(Key, Arc<Entry>, StoredBody)> {
        let key = Key::new(self.replica.scopes, "", name);
        let entry = self.replica.store.get(&self.access, &key, At::Latest).await.ok()?;
        let body = serde_json::from_slice(&entry.body).ok()?;
        Some((key, entry, body))
    }

    async fn resize_scope(&mut self) -> Result<()> {
        let name = self.leaf();
        let Some((key, entry, old)) = self.scope(&name).await else { return Ok(()) };
        let mut new = old.clone().fresh();
        for units in new.hard.values_mut() {
            for amount in units.values_mut() {
                *amount = self.random.random_range(40..120);
            }
        }
        new.charge.clone_from(&new.hard);
        self.update("resize scope", &key, &entry, (&old, &new), true).await
    }

    /// Moves a scope below another: a middle one below a leaf would make a circle, and must be refused.
    async fn reparent(&mut self) -> Result<()> {
        let circle = self.random.random_range(0..4) == 0;
        let (name, parent) = if circle {
            (middle(self.random.random_range(0..MIDDLES)), self.leaf())
        } else {
            (self.leaf(), middle(self.random.random_range(0..MIDDLES)))
        };
        let Some((key, entry, old)) = self.scope(&name).await else { return Ok(()) };
        let mut new = old.clone().fresh();
        new.scope = parent;
        self.update("re-parent", &key, &entry, (&old, &new), true).await
    }

    /// Drops a cluster from a scope, or lists it again.
    async fn lose_cluster(&mut self) -> Result<()> {
        let name = self.leaf();
        let Some((key, entry, old)) = self.scope(&name).await else { return Ok(()) };
        let mut new = old.clone().fresh();
        let [first, second] = CLUSTERS;
        if new.hard.remove(second).is_none() {
            let units = new.hard.get(first).cloned().unwrap_or_default();
            new.hard.insert(second.to_owned(), units);
        }
        new.charge.clone_from(&new.hard);
        self.update("lose cluster", &key, &entry, (&old, &new), true).await
    }

    async fn update(
        &mut self,
        op: &str,
        key: &Key,
        entry: &Entry,
        (old, new): (&StoredBody, &StoredBody),
        may_grow: bool,
    ) -> Result<()> {
        let before = before(entry, old);
        let change = Change::Update { expected: entry.revision, before, state: new.state() };
        let write =
            Write { key: key.clone(), uid: entry.uid, change, growth: Growth::when(may_grow), hold: None };
        self.write(op, new.token, write).await?;
        Ok(())
    }

    async fn remember(&mut self, key: Key) {
        if let Ok(entry) = self.replica.store.get(&self.access, &key, At::Latest).await {
            if self.remembered.len() >= MEMORY {
                let index = self.random.random_range(0..self.remembered.len());
                self.remembered.swap_remove(index);
            }
            self.remembered.push((key, entry));
        }
    }

    /// Writes and logs; tells whether it is done.
    async fn write(&mut self, op: &str, token: Uuid, write: Write) -> Result<bool> {
        let told = match self.replica.store.write(&self.access, write).await {
            Ok(Revision(revision)) => LoggedOutcome::Done(revision),
            Err(error) => self.told(op, &error)?,
        };
        self.note(op, token, told)?;
        if told == LoggedOutcome::Unavailable {
            tokio::time::sleep(RETRY).await;
        }
        Ok(matches!(told, LoggedOutcome::Done(_)))
    }

    fn note(&self, op: &str, token: Uuid, told: LoggedOutcome) -> Result<()> {
        self.replica.log.line(&Line::Write { op: op.to_owned(), token, told })
    }

    /// What an error says of the write.
    fn told(&self, op: &str, error: &Error) -> Result<LoggedOutcome> {
        Ok(match error {
            Error::Unknown => LoggedOutcome::Unknown,
            Error::Unavailable(_) | Error::Busy | Error::Starting | Error::Held => LoggedOutcome::Unavailable,
            Error::NotFound
            | Error::AlreadyExists { .. }
            | Error::Conflict
            | Error::NotAdmitted
            | Error::Refused(_)
            | Error::Corrupt(_) => LoggedOutcome::No,
            other => {
                self.replica.log.line(&Line::Broken { what: format!("{op}: unexpected error: {other}") })?;
                LoggedOutcome::No
            }
        })
    }
}

fn before(entry: &Entry, body: &StoredBody) -> Before {
    Before { attributes: entry.attributes.clone(), account: body.account() }
}

/// The tree of scopes, made before the replicas start: a root, [`MIDDLES`] below it, leaves below those.
pub(crate) fn tree(leaves: usize) -> Vec<StoredBody> {
    let limits = |n: u64| -> BTreeMap<String, Units> {
        let units: Units = RESOURCES.iter().map(|r| ((*r).to_owned(), n)).collect();
        CLUSTERS.iter().map(|c| ((*c).to_owned(), units.clone())).collect()
    };
    let mut bodies = vec![StoredBody::scope("root", "", limits(4000))];
    bodies.extend((0..MIDDLES).map(|m| StoredBody::scope(&middle(m), "root", limits(1000))));
    bodies.extend((0..leaves).map(|l| StoredBody::scope(&leaf(l), &middle(l % MIDDLES), limits(80))));
    bodies
}

/// The write that creates a scope of the tree.
pub(crate) fn create_scope(kind: KindId, body: &StoredBody, name: &str) -> Write {
    let change = Change::Create(body.state());
    Write { key: Key::new(kind, "", name), uid: Uuid::new_v4(), change, growth: Growth::Free, hold: None }
}
