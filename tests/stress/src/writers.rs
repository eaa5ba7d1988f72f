//! Writers change objects of all kinds at random and log the outcome of each write with its unique token.

/// Writes of namespaces.
mod namespaces;
/// Writes of projects.
mod projects;
/// Writes of tenants and clusters.
mod budgets;

use crate::log::{Line, LoggedOutcome};
use crate::replica::Replica;
use crate::world::{StoredBody, TestKind};
use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use store::model::{Before, Change, Growth, Write};
use store::quota::HoldChange;
use store::read::At;
use store::{Access, Entry, Error, Key, Revision};
use uuid::Uuid;

/// The pause of a writer after the store was unavailable.
const RETRY: Duration = Duration::from_millis(20);

struct Writer {
    replica: Replica,
    access: Access,
    random: StdRng,
    /// Namespaces that it has written, as it read them first.
    remembered: Vec<Arc<Entry>>,
}

/// An object as a writer has read it.
struct ReadObject {
    kind: TestKind,
    entry: Arc<Entry>,
    body: StoredBody,
}

impl ReadObject {
    fn of(kind: TestKind, entry: Arc<Entry>) -> Option<Self> {
        let body = serde_json::from_slice(&entry.body).ok()?;
        Some(Self { kind, entry, body })
    }

    fn before(&self) -> Result<Before> {
        let account = self.body.state(self.kind)?.account;
        Ok(Before { attributes: self.entry.attributes.clone(), account })
    }
}

/// Writes until the replica stops.
pub(crate) async fn run(replica: Replica, seed: u64) -> Result<()> {
    let access = Access::internal("stress");
    let random = StdRng::seed_from_u64(seed);
    let mut writer = Writer { replica, access, random, remembered: Vec::new() };
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
            0..34 => self.create().await,
            34..36 => self.adopt().await,
            36..40 => self.resize().await,
            40..46 => self.relocate().await,
            46..55 => self.confirm(false).await,
            55..58 => self.confirm(true).await,
            58..76 => self.delete().await,
            76..80 => self.abandon().await,
            80..82 => self.add_or_write_off_hold().await,
            82..87 => self.resize_project().await,
            87..89 => self.reparent().await,
            89 => self.remove_or_add_cluster().await,
            90 => self.lock_or_unlock().await,
            91..93 => self.cycle_project().await,
            93..97 => self.set_ceiling().await,
            97 => self.cycle_tenant().await,
            _ => self.change_capacity().await,
        }
    }

    /// True with a probability of `1/times`.
    fn one_in(&mut self, times: u32) -> bool {
        self.random.random_range(0..times) == 0
    }

    async fn read(&self, kind: TestKind, name: &str) -> Option<ReadObject> {
        let key = Key::new(kind.id(), "", name);
        let entry = self.replica.store.get(&self.access, &key, At::Latest).await.ok()?;
        ReadObject::of(kind, entry)
    }

    async fn create_object(
        &mut self,
        op: &str,
        kind: TestKind,
        body: &StoredBody,
        growth: Growth,
    ) -> Result<bool> {
        let change = Change::Create(body.state(kind)?);
        let write = Write { key: body.key(kind), uid: Uuid::new_v4(), change, growth, hold: None };
        self.write(op, body.token, write).await
    }

    async fn update(&mut self, op: &str, old: &ReadObject, new: &StoredBody, growth: Growth) -> Result<()> {
        let ReadObject { kind, entry, .. } = old;
        let (expected, before) = (entry.revision, old.before()?);
        let change = Change::Update { expected, before, state: new.state(*kind)? };
        let write = Write { key: entry.key.clone(), uid: entry.uid, change, growth, hold: None };
        self.write(op, new.token, write).await.map(drop)
    }

    async fn remove(&mut self, op: &str, old: &ReadObject, hold: Option<HoldChange>) -> Result<()> {
        let ReadObject { kind, entry, body } = old;
        let last = body.clone().with_new_token();
        let (expected, before) = (entry.revision, old.before()?);
        let change = Change::Delete { expected, before, last: last.state(*kind)? };
        let growth = Growth::Refused;
        let write = Write { key: entry.key.clone(), uid: entry.uid, change, growth, hold };
        self.write(op, last.token, write).await.map(drop)
    }

    /// Writes, and logs the outcome; returns whether the write succeeded.
    async fn write(&mut self, op: &str, token: Uuid, write: Write) -> Result<bool> {
        let outcome = match self.replica.store.write(&self.access, write).await {
            Ok(Revision(revision)) => LoggedOutcome::Done(revision),
            Err(error) => self.outcome_of(op, &error)?,
        };
        self.log(op, token, outcome)?;
        if outcome == LoggedOutcome::Unavailable {
            tokio::time::sleep(RETRY).await;
        }
        Ok(matches!(outcome, LoggedOutcome::Done(_)))
    }

    fn log(&self, op: &str, token: Uuid, outcome: LoggedOutcome) -> Result<()> {
        self.replica.log.line(&Line::Write { op: op.to_owned(), token, told: outcome })
    }

    /// Whether a write with this error was stored.
    fn outcome_of(&self, op: &str, error: &Error) -> Result<LoggedOutcome> {
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
