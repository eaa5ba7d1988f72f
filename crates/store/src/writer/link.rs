use crate::batch::Answer;
use crate::connect::{self, Failure};
use crate::store::{KindName, number};
use runtime::Backoff;
use sqlx::PgConnection;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long the fate of a batch is asked for: as long as its callers wait.
const FATE_DEADLINE: Duration = Duration::from_secs(30);
/// How long a check of an idle connection may take.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);
const RETRY_FLOOR: Duration = Duration::from_millis(50);
const RETRY_CEILING: Duration = Duration::from_secs(1);

/// Rows of writers that have not written for so long that no backend of theirs can be left.
const FORGET_BATCHES: &str = "DELETE FROM batches WHERE created < now() - interval '1 day'";

/// Whether the database takes writes, as the writer saw it last.
#[derive(Debug)]
pub(crate) struct DatabaseState(Mutex<Result<(), String>>);

impl DatabaseState {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Err("not connected yet".to_owned())))
    }

    pub(crate) fn get(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: Result<(), String>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_ok() != state.is_ok() {
            match &state {
                Ok(()) => tracing::info!("the database takes writes"),
                Err(reason) => tracing::warn!(reason, "the database takes no writes"),
            }
        }
        *held = state;
    }
}

/// What became of a batch whose connection was lost.
#[derive(Debug)]
pub(super) enum Fate {
    /// It was committed, with this answer.
    Committed(Answer),
    /// It was not and never will be, whatever its old backend still does.
    Never,
    /// The database did not tell in time.
    Unknown,
}

/// The writer's connection.
#[derive(Debug)]
pub(super) struct Link {
    url: String,
    kinds: Arc<[KindName]>,
    state: Arc<DatabaseState>,
    connection: Option<PgConnection>,
    backoff: Backoff,
    retry_at: Option<(Instant, String)>,
}

impl Link {
    pub(super) fn new(url: String, kinds: Arc<[KindName]>, state: Arc<DatabaseState>) -> Self {
        let backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        Self { url, kinds, state, connection: None, backoff, retry_at: None }
    }

    /// The connection; opened if there is none and the last refusal is not too fresh.
    pub(super) async fn get(&mut self) -> Result<&mut PgConnection, Failure> {
        if self.connection.is_none() {
            if let Some((at, reason)) = &self.retry_at
                && Instant::now() < *at
            {
                return Err(Failure::Unavailable(reason.clone()));
            }
            match self.open().await {
                Ok(connection) => {
                    self.connection = Some(connection);
                    self.backoff.reset();
                    self.retry_at = None;
                }
                Err(reason) => {
                    self.state.set(Err(reason.clone()));
                    self.retry_at = Some((Instant::now() + self.backoff.next_delay(), reason.clone()));
                    return Err(Failure::Unavailable(reason));
                }
            }
        }
        match &mut self.connection {
            Some(connection) => Ok(connection),
            None => Err(Failure::Unavailable("not connected".to_owned())),
        }
    }

    /// Connects, and makes sure that this program and the database mean the same by the kinds' numbers.
    async fn open(&self) -> Result<PgConnection, String> {
        let told = |error: sqlx::Error| match Failure::of(&error) {
            Failure::Lost(text)
            | Failure::Unavailable(text)
            | Failure::Unfit(text)
            | Failure::Fault(text) => text,
        };
        let mut connection = connect::connect(&self.url, "store writer").await.map_err(told)?;
        for (index, kind) in self.kinds.iter().enumerate() {
            let id = number(index).map_or(0, |id| id.0);
            let query = "WITH added AS (INSERT INTO kinds (id, grp, resource) VALUES ($1, $2, $3) \
                 ON CONFLICT DO NOTHING RETURNING id) \
                 SELECT EXISTS (SELECT FROM added) OR EXISTS (SELECT FROM kinds WHERE id = $1 AND grp = $2 AND resource = $3)";
            let agreed: bool = sqlx::query_scalar(query)
                .bind(id)
                .bind(&kind.group)
                .bind(&kind.resource)
                .fetch_one(&mut connection)
                .await
                .map_err(told)?;
            if !agreed {
                let KindName { group, resource } = kind;
                return Err(format!("{resource}.{group} is not kind number {id} of this database"));
            }
        }
        sqlx::query(FORGET_BATCHES).execute(&mut connection).await.map_err(told)?;
        Ok(connection)
    }

    /// Forgets the connection.
    pub(super) fn lost(&mut self, reason: &str) {
        self.connection = None;
        self.state.set(Err(reason.to_owned()));
    }

    /// A call failed on a connection that lives. One that is unfit is left: the name may lead to another server by now.
    pub(super) fn failed(&mut self, failure: &Failure) {
        match failure {
            Failure::Unfit(reason) => self.lost(reason),
            Failure::Unavailable(reason) => self.state.set(Err(reason.clone())),
            Failure::Lost(_) | Failure::Fault(_) => {}
        }
    }

    /// Looks whether the database takes writes, so that health is known while nobody writes.
    pub(super) async fn check(&mut self) {
        let Ok(connection) = self.get().await else { return };
        let query = sqlx::query_scalar::<_, String>("SHOW transaction_read_only").fetch_one(connection);
        match tokio::time::timeout(CHECK_DEADLINE, query).await {
            Ok(Ok(read_only)) if read_only == "off" => self.state.set(Ok(())),
            Ok(Ok(_)) => self.lost("PostgreSQL is read-only"),
            Ok(Err(error)) => self.lost(&error.to_string()),
            Err(_elapsed) => self.lost("PostgreSQL does not answer"),
        }
    }

    /// Finds out what became of a batch, by making sure that it cannot be committed any more: if its row can be
    /// inserted as cancelled, it never will be; if the row is there already, it was.
    pub(super) async fn fate(&mut self, writer: Uuid, seq: i64) -> Fate {
        let deadline = tokio::time::Instant::now() + FATE_DEADLINE;
        let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        let asking = async {
            loop {
                match self.ask_fate(writer, seq).await {
                    Ok(fate) => return fate,
                    Err(error) => tracing::warn!(%error, seq, "ask for the fate of a batch"),
                }
                backoff.wait().await;
            }
        };
        tokio::time::timeout_at(deadline, asking).await.unwrap_or(Fate::Unknown)
    }

    async fn ask_fate(&mut self, writer: Uuid, seq: i64) -> Result<Fate, sqlx::Error> {
        let mut connection = connect::connect(&self.url, "store writer").await?;
        let cancelled = sqlx::query(
            "INSERT INTO batches (writer, seq, cancelled) VALUES ($1, $2, true) ON CONFLICT DO NOTHING",
        )
        .bind(writer)
        .bind(seq)
        .execute(&mut connection)
        .await?;
        let fate = if cancelled.rows_affected() == 1 {
            Fate::Never
        } else {
            let query =
                "SELECT base, outcome, detail FROM batches WHERE writer = $1 AND seq = $2 AND NOT cancelled";
            let row: Option<Answer> =
                sqlx::query_as(query).bind(writer).bind(seq).fetch_optional(&mut connection).await?;
            row.map_or(Fate::Never, Fate::Committed)
        };
        self.connection = Some(connection);
        self.state.set(Ok(()));
        Ok(fate)
    }
}
