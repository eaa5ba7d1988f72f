//! The parent reads the history directly from the table.

use crate::books::BookEntry;
use crate::findings::{Finding, Findings};
use crate::replay::{Event, Replay};
use crate::world::{StoredBody, TestKind};
use anyhow::{Result, ensure};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// Events that are read at once.
const PAGE: usize = 20_000;

/// Everything that was stored since the test began.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Revisions by kind, in order.
    pub(crate) by_kind: BTreeMap<i16, Vec<u64>>,
    /// Revisions at which a token was stored.
    pub(crate) tokens: HashMap<Uuid, Vec<u64>>,
    /// The state that the events add up to: revision by key.
    pub(crate) state: BTreeMap<(i16, String, String), u64>,
    /// The token of what lies at a key.
    token_at: BTreeMap<(i16, String, String), Uuid>,
    /// An object has left its place with the last event; the next one must be its arrival.
    leaving: Option<Uuid>,
    /// Moves.
    pub(crate) moves: u64,
    /// What was made of each list.
    lists: HashMap<Uuid, ListWrites>,
    /// The audit's books, as far as history was read.
    pub(crate) replay: Replay,
    /// The last revision read.
    pub(crate) last: u64,
}

/// What was made of a list, which is whole at the end.
#[derive(Debug, Default)]
struct ListWrites {
    size: usize,
    revisions: Vec<u64>,
}

impl ListWrites {
    /// All of it, once, in one batch.
    fn is_whole(&self) -> bool {
        let follows = |pair: &[u64]| matches!(pair, [one, next] if *next == one + 1);
        self.revisions.len() == self.size && self.revisions.windows(2).all(follows)
    }
}

impl History {
    /// Begins with what is there: whatever is above a limit now is there by right.
    pub(crate) async fn begin(connection: &mut PgConnection) -> Result<Self> {
        let mut history = Self::default();
        let mut snapshot = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let revision: i64 = sqlx::query_scalar("SELECT max(v) FROM rev").fetch_one(&mut *snapshot).await?;
        history.last = revision.unsigned_abs();
        let query = "SELECT kind, namespace, name, uid, rv, body FROM objects";
        for row in sqlx::query(query).fetch_all(&mut *snapshot).await? {
            let body: StoredBody = serde_json::from_str(row.try_get("body")?)?;
            let key: (i16, String, String) =
                (row.try_get("kind")?, row.try_get("namespace")?, row.try_get("name")?);
            history.token_at.insert(key.clone(), body.token);
            let entry = BookEntry::of(TestKind::of_id(row.try_get("kind")?)?, &body);
            history.replay.census.put(row.try_get("uid")?, entry);
            history.state.insert(key, row.try_get::<i64, _>("rv")?.unsigned_abs());
        }
        snapshot.rollback().await?;
        Ok(history)
    }

    /// Reads on from where it stopped; tells whether there is more. What contradicts itself is found, and ends it.
    pub(crate) async fn read(
        &mut self,
        connection: &mut PgConnection,
        findings: &mut Findings,
    ) -> Result<bool> {
        let rows = sqlx::query(
            "SELECT rv, kind, op::text AS op, namespace, name, uid, body FROM events WHERE rv > $1 ORDER BY rv LIMIT $2",
        )
        .bind(i64::try_from(self.last)?)
        .bind(i64::try_from(PAGE)?)
        .fetch_all(&mut *connection)
        .await?;
        self.replay.read_holds(connection).await?;
        for row in &rows {
            if let Err(error) = self.take(row, findings) {
                findings.add(Finding::History, || error.to_string());
                return Ok(false);
            }
        }
        Ok(rows.len() == PAGE)
    }

    fn take(&mut self, row: &PgRow, findings: &mut Findings) -> Result<()> {
        let revision = row.try_get::<i64, _>("rv")?.unsigned_abs();
        ensure!(revision > self.last, "event {revision} after {}", self.last);
        self.last = revision;
        let kind: i16 = row.try_get("kind")?;
        let (namespace, name): (String, String) = (row.try_get("namespace")?, row.try_get("name")?);
        self.by_kind.entry(kind).or_default().push(revision);
        let body: StoredBody = serde_json::from_str(row.try_get("body")?)?;
        let uid: Uuid = row.try_get("uid")?;
        let key = (kind, namespace, name);
        let op: &str = row.try_get("op")?;
        let present = self.state.contains_key(&key);
        match op {
            "c" => ensure!(!present, "{key:?} was created twice"),
            "u" => ensure!(present, "{key:?} was updated and does not exist"),
            _ => ensure!(present, "{key:?} was deleted and does not exist"),
        }
        // Who arrives is not made.
        if let (Some(list), "c", None) = (&body.list, op, self.leaving) {
            let made = self.lists.entry(list.id).or_default();
            made.size = list.size;
            made.revisions.push(revision);
        }
        if let Some(left) = self.leaving.take() {
            ensure!(
                op == "c" && uid == left,
                "{left} left its place before event {revision} and came to none"
            );
            self.moves += 1;
        }
        let leaves = op == "d";
        let event = Event { revision, kind: TestKind::of_id(kind)?, uid, body: &body, leaves };
        self.replay.step(&event, findings);
        // What moves away is shown as it was; whoever deletes writes a last state.
        if leaves && self.token_at.get(&key) == Some(&body.token) {
            self.leaving = Some(uid);
        } else {
            self.tokens.entry(body.token).or_default().push(revision);
        }
        if leaves {
            self.state.remove(&key);
            self.token_at.remove(&key);
        } else {
            self.state.insert(key.clone(), revision);
            self.token_at.insert(key, body.token);
        }
        Ok(())
    }

    /// How many lists were made.
    pub(crate) fn lists(&self) -> usize {
        self.lists.len()
    }

    /// Looks for lists of which not all was made, or something twice, or not at once.
    pub(crate) fn find_torn(&self, findings: &mut Findings) {
        for (id, ListWrites { size, revisions }) in self.lists.iter().filter(|(_, made)| !made.is_whole()) {
            findings.add(Finding::Torn, || format!("list {id}: {size} namespaces, made at {revisions:?}"));
        }
    }

    /// Number and exclusive or of a kind's revisions in `(after, to]`.
    pub(crate) fn between(&self, kind: i16, after: u64, to: u64) -> (u64, u64) {
        let Some(revisions) = self.by_kind.get(&kind) else { return (0, 0) };
        let first = revisions.partition_point(|r| *r <= after);
        let end = revisions.partition_point(|r| *r <= to);
        let range = revisions.get(first..end).unwrap_or_default();
        (u64::try_from(range.len()).unwrap_or_default(), range.iter().fold(0, |xor, r| xor ^ r))
    }
}
