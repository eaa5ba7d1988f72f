//! The history in the database: replays every event with the audit's own arithmetic, and checks the ledger.

use crate::audit;
use crate::books::BookEntry;
use crate::findings::{Finding, Findings};
use crate::replay::{Event, Replay};
use crate::world::{StoredBody, TestKind};
use anyhow::{Context, Result, ensure};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection as _, Row as _};
use std::collections::BTreeMap;
use std::time::Duration;

/// Events that are read at once.
const PAGE: i64 = 5_000;
/// A server that hangs is given up.
const DEADLINE: Duration = Duration::from_secs(5);

/// An event, as far as calls and watches are compared with it.
#[derive(Clone, Debug)]
pub(crate) struct RecordedEvent {
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) created: bool,
}

/// The history of a database from some moment on.
#[derive(Debug)]
pub(crate) struct Record {
    url: String,
    connection: Option<PgConnection>,
    /// By revision.
    pub(crate) written: BTreeMap<u64, RecordedEvent>,
    replay: Replay,
    /// The revision at which it begins.
    pub(crate) first: u64,
    last: u64,
    /// How often ledger and objects were compared.
    pub(crate) looks: u64,
    pub(crate) findings: Findings,
}

impl Record {
    /// Begins with what is there.
    pub(crate) async fn begin(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        let mut replay = Replay::default();
        let mut snapshot = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let last: i64 = sqlx::query_scalar("SELECT max(v) FROM rev").fetch_one(&mut *snapshot).await?;
        let query = "SELECT k.resource, o.uid, o.body FROM objects o JOIN kinds k ON k.id = o.kind \
             WHERE k.resource = ANY($1)";
        let resources = TestKind::ALL.map(TestKind::resource).to_vec();
        for row in sqlx::query(query).bind(resources).fetch_all(&mut *snapshot).await? {
            let body: StoredBody = serde_json::from_str(row.try_get("body")?)?;
            let kind = TestKind::of_resource(row.try_get("resource")?)?;
            replay.census.put(row.try_get("uid")?, BookEntry::of(kind, &body));
        }
        snapshot.rollback().await?;
        Ok(Self {
            url: url.to_owned(),
            connection: Some(connection),
            written: BTreeMap::new(),
            replay,
            first: last.unsigned_abs(),
            last: last.unsigned_abs(),
            looks: 0,
            findings: Findings::default(),
        })
    }

    /// Reads on and looks, if the database lets it.
    pub(crate) async fn read_more(&mut self) -> Result<()> {
        match tokio::time::timeout(DEADLINE, self.read_and_look()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.downcast_ref::<sqlx::Error>().is_none() => Err(error),
            // It is failing over.
            Ok(Err(_)) | Err(_) => {
                self.connection = None;
                Ok(())
            }
        }
    }

    /// Reads to the end and looks for the last time, in a moment in which nobody has written.
    pub(crate) async fn conclude(&mut self) -> Result<()> {
        loop {
            self.read_and_look().await?;
            let before = self.last;
            let mut connection = self.connection.take().context("no connection")?;
            let census = audit::compare_ledger_and_objects(&mut connection, &mut self.findings).await?;
            self.connection = Some(connection);
            self.read_and_look().await?;
            if self.last == before {
                self.replay.finish();
                audit::compare_history(&census, &self.replay.census, &mut self.findings);
                return Ok(());
            }
        }
    }

    async fn read_and_look(&mut self) -> Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => PgConnection::connect(&self.url).await?,
        };
        let query = "SELECT e.rv, k.resource, e.op::text AS op, e.name, e.uid, e.body \
             FROM events e JOIN kinds k ON k.id = e.kind WHERE e.rv > $1 ORDER BY e.rv LIMIT $2";
        loop {
            let rows = sqlx::query(query)
                .bind(i64::try_from(self.last)?)
                .bind(PAGE)
                .fetch_all(&mut connection)
                .await?;
            self.replay.read_holds(&mut connection).await?;
            for row in &rows {
                self.take(row)?;
            }
            if rows.is_empty() {
                break;
            }
        }
        audit::compare_ledger_and_objects(&mut connection, &mut self.findings).await?;
        self.looks += 1;
        self.connection = Some(connection);
        Ok(())
    }

    fn take(&mut self, row: &PgRow) -> Result<()> {
        let revision = row.try_get::<i64, _>("rv")?.unsigned_abs();
        ensure!(revision > self.last, "event {revision} after {}", self.last);
        self.last = revision;
        let (resource, name): (String, String) = (row.try_get("resource")?, row.try_get("name")?);
        let op: &str = row.try_get("op")?;
        if let Ok(kind) = TestKind::of_resource(&resource) {
            let body: StoredBody = serde_json::from_str(row.try_get("body")?)?;
            let event = Event { revision, kind, uid: row.try_get("uid")?, body: &body, leaves: op == "d" };
            self.replay.step(&event, &mut self.findings);
        }
        self.written.insert(revision, RecordedEvent { resource, name, created: op == "c" });
        Ok(())
    }

    /// The newest revision of a resource.
    pub(crate) fn newest(&self, resource: &str) -> u64 {
        let newest = self.written.iter().rev().find(|(_, written)| written.resource == resource);
        newest.map_or(0, |(revision, _)| *revision)
    }

    /// Adds a finding.
    pub(crate) fn add_finding(&mut self, finding: Finding, what: impl FnOnce() -> String) {
        self.findings.add(finding, what);
    }
}
