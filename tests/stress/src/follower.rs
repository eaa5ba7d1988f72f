//! The parent's own reading of history, straight from the table.

use crate::world::StoredBody;
use anyhow::{Result, ensure};
use sqlx::Row;
use sqlx::postgres::PgConnection;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// Everything that was ever stored.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Revisions by kind, in order.
    pub(crate) by_kind: BTreeMap<i16, Vec<u64>>,
    /// Revisions at which a token was stored.
    pub(crate) tokens: HashMap<Uuid, Vec<u64>>,
    /// The state that the events add up to: revision by key.
    pub(crate) state: BTreeMap<(i16, String, String), u64>,
    /// The token of what lies at a key.
    lying: BTreeMap<(i16, String, String), Uuid>,
    /// An object has left its place with the last event; the next one must be its arrival.
    leaving: Option<Uuid>,
    /// Moves.
    pub(crate) moves: u64,
    /// What was made of each list.
    lists: HashMap<Uuid, Made>,
    /// The last revision read.
    pub(crate) last: u64,
}

/// What was made of a list, which is whole at the end.
#[derive(Debug, Default)]
struct Made {
    size: usize,
    revisions: Vec<u64>,
}

impl Made {
    /// All of it, once, in one batch.
    fn is_whole(&self) -> bool {
        let follows = |pair: &[u64]| matches!(pair, [one, next] if *next == one + 1);
        self.revisions.len() == self.size && self.revisions.windows(2).all(follows)
    }
}

impl History {
    /// Reads on from where it stopped; tells how many events came.
    pub(crate) async fn read(&mut self, connection: &mut PgConnection) -> Result<usize> {
        let rows = sqlx::query(
            "SELECT rv, kind, op::text AS op, namespace, name, uid, body FROM events WHERE rv > $1 ORDER BY rv LIMIT 20000",
        )
        .bind(i64::try_from(self.last)?)
        .fetch_all(connection)
        .await?;
        for row in &rows {
            let revision = u64::try_from(row.try_get::<i64, _>("rv")?)?;
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
            // What moves away is shown as it was; whoever deletes writes a last state.
            if op == "d" && self.lying.get(&key) == Some(&body.token) {
                self.leaving = Some(uid);
            } else {
                self.tokens.entry(body.token).or_default().push(revision);
            }
            if op == "d" {
                self.state.remove(&key);
                self.lying.remove(&key);
            } else {
                self.state.insert(key.clone(), revision);
                self.lying.insert(key, body.token);
            }
        }
        Ok(rows.len())
    }

    /// How many lists were made.
    pub(crate) fn lists(&self) -> usize {
        self.lists.len()
    }

    /// Lists of which not all was made, or something twice, or not at once.
    pub(crate) fn torn(&self) -> Vec<String> {
        let torn = self.lists.iter().filter(|(_, made)| !made.is_whole());
        torn.map(|(id, Made { size, revisions })| format!("list {id}: {size} items, made at {revisions:?}"))
            .collect()
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
