use super::verify::verify_history;
use crate::batch::BatchAnswer;
use crate::cache::inner::CacheInner;
use crate::connect::{self, StatementFailure, failure_text};
use crate::identity::DatabaseIdentity;
use crate::kinds::{KindName, id_at};
use crate::model::Revision;
use runtime::Backoff;
use sqlx::{Connection as _, PgConnection, Row as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// How long the outcome of a batch is asked for while the server answers: as long as the batch's callers wait.
const OUTCOME_DEADLINE: Duration = Duration::from_secs(30);
/// The same while the server does not answer. Afterwards the callers are told that the outcome is unknown, and the next
/// connection settles the batch before anything else is sent over it.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// The same while the server may be up: it says that it is starting, or only its answer does not come.
const SLOW_MAX: Duration = Duration::from_secs(10);
/// Longest time until a new connection can be used, with all checks.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
/// Longest time of a probe of the connection.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// How long a server that has run out of a resource counts as exhausted, if no write shows that it has recovered.
const EXHAUSTED_MAX: Duration = Duration::from_mins(10);
const RETRY_FLOOR: Duration = Duration::from_millis(50);
const RETRY_CEILING: Duration = Duration::from_secs(1);

/// Whether the database takes writes, as the writer last saw it.
#[derive(Debug)]
pub(crate) struct DatabaseHealth(Mutex<HealthState>);

#[derive(Debug)]
struct HealthState {
    state: Result<(), String>,
    /// The writer waits for a server that does not answer.
    silent: bool,
    /// The identity of the writer's last server, if it is known.
    server: Option<DatabaseIdentity>,
}

impl DatabaseHealth {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HealthState {
            state: Err("not connected yet".to_owned()),
            silent: false,
            server: None,
        }))
    }

    pub(crate) fn get(&self) -> Result<(), String> {
        self.lock().state.clone()
    }

    /// Why a write is refused at once instead of waiting for its turn: the server does not answer. `None` if it does.
    pub(crate) fn silence(&self) -> Option<String> {
        let health = self.lock();
        health.silent.then(|| health.state.clone().err().unwrap_or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: Result<(), String>) {
        let mut health = self.lock();
        if health.state.is_ok() != state.is_ok() {
            match &state {
                Ok(()) => tracing::info!("the database takes writes"),
                Err(reason) => tracing::warn!(reason, "the database takes no writes"),
            }
        }
        health.silent &= state.is_err();
        health.state = state;
    }

    fn set_silent(&self, silent: bool) {
        self.lock().silent = silent;
    }

    /// The identity of the writer's last server, if it is known.
    pub(super) fn server(&self) -> Option<DatabaseIdentity> {
        self.lock().server.clone()
    }

    /// Notes the identity of the current server. An unknown one changes nothing.
    fn set_server(&self, server: Option<DatabaseIdentity>) {
        let mut health = self.lock();
        health.server = server.or(health.server.take());
    }
}

/// What became of a batch whose connection was lost.
#[derive(Debug)]
pub(super) enum BatchOutcome {
    /// It was committed, with this answer.
    Committed(BatchAnswer),
    /// It was not committed and never will be, whatever its old backend still does.
    NotCommitted,
    /// The database did not answer in time.
    Unknown,
}

/// A batch by its writer and number.
#[derive(Clone, Copy, Debug)]
struct BatchId {
    writer: Uuid,
    seq: i64,
}

/// The server has run out of a resource, such as disk space.
#[derive(Debug)]
struct Exhaustion {
    reason: String,
    /// When a write failed because of it for the last time.
    at: Instant,
    /// The newest revision that was known at the first probe afterwards. At the failure itself, this replica may not
    /// know of earlier writes of other replicas yet.
    seen: Option<Revision>,
}

impl Exhaustion {
    /// Whether it has ended: another replica has written since, or it is long ago.
    fn is_over(&mut self, known: Revision) -> bool {
        known > *self.seen.get_or_insert(known) || self.at.elapsed() >= EXHAUSTED_MAX
    }
}

/// The writer's connection.
#[derive(Debug)]
pub(crate) struct WriterConnection {
    url: String,
    kinds: Arc<[KindName]>,
    state: Arc<DatabaseHealth>,
    cache: Arc<CacheInner>,
    connection: Option<PgConnection>,
    backoff: Backoff,
    retry_at: Option<(Instant, String)>,
    /// The connection was used, and no failure was reported since.
    used: bool,
    /// The server has run out of a resource, and no write has succeeded since.
    exhausted: Option<Exhaustion>,
    /// A batch whose outcome is not known yet.
    unsettled: Option<BatchId>,
}

impl WriterConnection {
    pub(crate) fn new(
        url: String,
        kinds: Arc<[KindName]>,
        state: Arc<DatabaseHealth>,
        cache: Arc<CacheInner>,
    ) -> Self {
        let backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        Self {
            url,
            kinds,
            state,
            cache,
            connection: None,
            backoff,
            retry_at: None,
            used: false,
            exhausted: None,
            unsettled: None,
        }
    }

    /// The connection. Opens one if there is none, unless the last attempt has failed just now.
    pub(super) async fn get(&mut self) -> Result<&mut PgConnection, StatementFailure> {
        // No failure was reported, so the last call has succeeded.
        if std::mem::replace(&mut self.used, true) && self.connection.is_some() {
            self.exhausted = None;
            self.state.set(Ok(()));
        }
        if self.connection.is_none() {
            if let Some((at, reason)) = &self.retry_at
                && Instant::now() < *at
            {
                self.used = false;
                return Err(StatementFailure::Unavailable(reason.clone()));
            }
            match connect::with_timeout(OPEN_DEADLINE, self.open()).await {
                Ok(connection) => {
                    self.cache.handover.add_connection();
                    self.connection = Some(connection);
                    self.backoff.reset();
                    self.retry_at = None;
                }
                Err(reason) => {
                    self.used = false;
                    self.state.set(Err(reason.clone()));
                    self.retry_at = Some((Instant::now() + self.backoff.next_delay(), reason.clone()));
                    return Err(StatementFailure::Unavailable(reason));
                }
            }
        }
        match &mut self.connection {
            Some(connection) => Ok(connection),
            None => Err(StatementFailure::Unavailable("not connected".to_owned())),
        }
    }

    /// Connects. Then checks that the database has the same numbers for the kinds, settles an earlier batch, and checks
    /// that the server has the history that this replica knows.
    async fn open(&mut self) -> Result<PgConnection, String> {
        let mut connection =
            connect::connect(&self.url, "store writer").await.map_err(|error| failure_text(&error))?;
        self.register_kinds(&mut connection).await?;
        if let Some(batch) = self.unsettled {
            let outcome = settle(&mut connection, batch).await.map_err(|error| failure_text(&error))?;
            self.unsettled = None;
            let committed = matches!(outcome, BatchOutcome::Committed(_));
            tracing::warn!(
                seq = batch.seq,
                committed,
                "a batch is settled whose callers were told that it is unknown"
            );
        }
        self.verify_history(&mut connection).await?;
        Ok(connection)
    }

    async fn verify_history(&self, connection: &mut PgConnection) -> Result<(), String> {
        let server = verify_history(&self.cache, self.state.server().as_ref(), connection).await?;
        self.state.set_server(server);
        Ok(())
    }

    /// Registers the numbers of the kinds, or checks that the database has the same ones.
    async fn register_kinds(&self, connection: &mut PgConnection) -> Result<(), String> {
        let mut transaction = connection.begin().await.map_err(|error| failure_text(&error))?;
        for (index, kind) in self.kinds.iter().enumerate() {
            let id = id_at(index).map_or(0, |id| id.0);
            let query = "WITH added AS (INSERT INTO kinds (id, grp, resource) VALUES ($1, $2, $3) \
                 ON CONFLICT DO NOTHING RETURNING id) \
                 SELECT EXISTS (SELECT FROM added) OR EXISTS (SELECT FROM kinds WHERE id = $1 AND grp = $2 AND resource = $3)";
            let agreed: bool = sqlx::query_scalar(query)
                .persistent(false)
                .bind(id)
                .bind(&kind.group)
                .bind(&kind.resource)
                .fetch_one(&mut *transaction)
                .await
                .map_err(|error| failure_text(&error))?;
            if !agreed {
                let KindName { group, resource } = kind;
                return Err(format!("{resource}.{group} is not kind number {id} of this database"));
            }
        }
        transaction.commit().await.map_err(|error| failure_text(&error))
    }

    /// Drops the connection, which is lost or of no use.
    pub(super) fn drop_connection(&mut self, reason: &str) {
        self.connection = None;
        self.used = false;
        self.exhausted = None;
        self.state.set(Err(reason.to_owned()));
    }

    /// Notes that a call has failed. Drops an unfit connection: the host name may lead to another server by now.
    pub(super) fn report_failure(&mut self, failure: &StatementFailure) {
        self.used = false;
        match failure {
            StatementFailure::Unfit(reason) => self.drop_connection(reason),
            StatementFailure::Unavailable(reason) => self.state.set(Err(reason.clone())),
            StatementFailure::Exhausted(reason) => {
                self.exhausted = Some(Exhaustion { reason: reason.clone(), at: Instant::now(), seen: None });
                self.state.set(Err(reason.clone()));
            }
            StatementFailure::Lost(_) | StatementFailure::Fault(_) => {}
        }
    }

    /// Checks whether the database takes writes, so that its health is known while nobody writes. The check writes
    /// nothing, so a server that has run out of a resource passes it, too.
    pub(super) async fn probe(&mut self) {
        let Ok(connection) = self.get().await else { return };
        let asking = async {
            let row = sqlx::raw_sql("SHOW transaction_read_only").fetch_one(connection).await?;
            row.try_get::<String, _>(0)
        };
        let asked = tokio::time::timeout(PROBE_DEADLINE, asking).await;
        self.used = false;
        match asked {
            Ok(Ok(read_only)) if read_only == "off" => {
                let known = self.cache.newest_known();
                let lasting = self.exhausted.take_if(|exhaustion| !exhaustion.is_over(known));
                // Other failures, such as a lock timeout, count as over once the server answers.
                self.state.set(lasting.as_ref().map_or(Ok(()), |lasting| Err(lasting.reason.clone())));
                self.exhausted = lasting;
            }
            Ok(Ok(_)) => self.drop_connection("PostgreSQL is read-only"),
            Ok(Err(error)) => self.drop_connection(&error.to_string()),
            Err(_elapsed) => self.drop_connection("PostgreSQL does not answer"),
        }
    }

    /// Finds out whether a batch was committed, by making sure that it cannot be committed any more. If its row can be
    /// inserted as cancelled, it never will be. If the row exists already, it was.
    pub(super) async fn resolve_outcome(&mut self, writer: Uuid, seq: i64) -> BatchOutcome {
        let batch = BatchId { writer, seq };
        self.unsettled = Some(batch);
        let end = Instant::now() + OUTCOME_DEADLINE;
        let outcome = timeout_at(end, self.query_outcome(batch)).await.unwrap_or(BatchOutcome::Unknown);
        self.state.set_silent(false);
        outcome
    }

    async fn query_outcome(&mut self, batch: BatchId) -> BatchOutcome {
        let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        let mut last_answer = Instant::now();
        loop {
            match connect::connect(&self.url, "store writer").await {
                Ok(mut connection) => {
                    self.state.set_silent(false);
                    match settle(&mut connection, batch).await {
                        Ok(outcome) => {
                            self.unsettled = None;
                            match self.verify_history(&mut connection).await {
                                Ok(()) => {
                                    self.cache.handover.add_connection();
                                    self.connection = Some(connection);
                                    self.state.set(Ok(()));
                                }
                                Err(reason) => self.state.set(Err(reason)),
                            }
                            return outcome;
                        }
                        Err(error) => tracing::warn!(%error, seq = batch.seq, "ask for the fate of a batch"),
                    }
                    last_answer = Instant::now();
                }
                Err(error) => {
                    tracing::debug!(%error, seq = batch.seq, "connect to ask for the fate of a batch");
                    self.state.set_silent(true);
                    if last_answer.elapsed() >= unreachable_wait_max(&error) {
                        return BatchOutcome::Unknown;
                    }
                }
            }
            backoff.wait().await;
        }
    }
}

/// How long to wait for a server that this error keeps us from connecting to.
fn unreachable_wait_max(error: &sqlx::Error) -> Duration {
    let may_come_back = match error {
        sqlx::Error::Io(io) => io.kind() == std::io::ErrorKind::TimedOut,
        sqlx::Error::Database(database) => database.code().is_some_and(|code| code == "57P03"),
        _ => false,
    };
    if may_come_back { SLOW_MAX } else { SILENCE_MAX }
}

/// Makes sure that a batch is either committed or never will be.
async fn settle(connection: &mut PgConnection, batch: BatchId) -> Result<BatchOutcome, sqlx::Error> {
    let cancel = "INSERT INTO batches (writer, seq, cancelled, base) \
         SELECT $1, $2, true, v FROM (SELECT v FROM rev ORDER BY v DESC LIMIT 1) r ON CONFLICT DO NOTHING";
    let mut transaction = connection.begin().await?;
    let cancelled = sqlx::query(cancel)
        .persistent(false)
        .bind(batch.writer)
        .bind(batch.seq)
        .execute(&mut *transaction)
        .await?;
    let outcome = if cancelled.rows_affected() == 1 {
        BatchOutcome::NotCommitted
    } else {
        // An UPDATE instead of a SELECT: the batch's own backend may have ended before the synchronous standby had the
        // commit, and only a transaction that has written waits for the standby.
        let query = "UPDATE batches SET created = created WHERE writer = $1 AND seq = $2 AND NOT cancelled \
             RETURNING base, outcome, detail";
        let row: Option<BatchAnswer> = sqlx::query_as(query)
            .persistent(false)
            .bind(batch.writer)
            .bind(batch.seq)
            .fetch_optional(&mut *transaction)
            .await?;
        row.map_or(BatchOutcome::NotCommitted, BatchOutcome::Committed)
    };
    transaction.commit().await?;
    Ok(outcome)
}
