use super::verify::verify_history;
use crate::batch::BatchAnswer;
use crate::cache::inner::CacheInner;
use crate::connect::{self, StatementFailure, failure_text};
use crate::kinds::{KindName, number};
use crate::model::Revision;
use crate::identity::DatabaseIdentity;
use runtime::Backoff;
use sqlx::{Connection as _, PgConnection, Row as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// How long the fate of a batch is asked for while the server answers: as long as the batch's callers wait.
const FATE_DEADLINE: Duration = Duration::from_secs(30);
/// The same while the server does not answer. Then the callers are told that the outcome is unknown, and the batch is
/// settled by the next connection, before anything else is sent over it.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// The same while the server may be there: it says that it is starting, or it is only the answer that does not come.
const SLOW_MAX: Duration = Duration::from_secs(10);
/// How long it may take until a new connection can be used, all in all: the server answers each step or gives it up.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
/// How long a check of an idle connection may take.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);
/// How long a server that was out of something counts as such, if no write shows that it is well again.
const EXHAUSTED_MAX: Duration = Duration::from_mins(10);
const RETRY_FLOOR: Duration = Duration::from_millis(50);
const RETRY_CEILING: Duration = Duration::from_secs(1);

/// Whether the database takes writes, as the writer saw it last.
#[derive(Debug)]
pub(crate) struct DatabaseState(Mutex<LinkState>);

#[derive(Debug)]
struct LinkState {
    state: Result<(), String>,
    /// The writer waits for a server that does not answer.
    silent: bool,
    /// The server of the writer's last connection, where it tells.
    server: Option<DatabaseIdentity>,
}

impl DatabaseState {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LinkState {
            state: Err("not connected yet".to_owned()),
            silent: false,
            server: None,
        }))
    }

    pub(crate) fn get(&self) -> Result<(), String> {
        self.seen().state.clone()
    }

    /// Why a write is refused at once, instead of waiting for its turn; `None` if it is not.
    pub(crate) fn silence(&self) -> Option<String> {
        let seen = self.seen();
        seen.silent.then(|| seen.state.clone().err().unwrap_or_default())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, LinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: Result<(), String>) {
        let mut seen = self.seen();
        if seen.state.is_ok() != state.is_ok() {
            match &state {
                Ok(()) => tracing::info!("the database takes writes"),
                Err(reason) => tracing::warn!(reason, "the database takes no writes"),
            }
        }
        seen.silent &= state.is_err();
        seen.state = state;
    }

    fn set_silent(&self, silent: bool) {
        self.seen().silent = silent;
    }

    /// The server of the writer's last connection, where it tells.
    pub(super) fn server(&self) -> Option<DatabaseIdentity> {
        self.seen().server.clone()
    }

    /// A server that does not tell changes nothing.
    fn set_server(&self, server: Option<DatabaseIdentity>) {
        let mut seen = self.seen();
        seen.server = server.or(seen.server.take());
    }
}

/// What became of a batch whose connection was lost.
#[derive(Debug)]
pub(super) enum Fate {
    /// It was committed, with this answer.
    Committed(BatchAnswer),
    /// It was not committed and never will be, whatever its old backend still does.
    Never,
    /// The database did not tell in time.
    Unknown,
}

/// A batch by its writer and number.
#[derive(Clone, Copy, Debug)]
struct BatchId {
    writer: Uuid,
    seq: i64,
}

/// What a server is out of, as far as is known.
#[derive(Debug)]
struct Exhaustion {
    reason: String,
    /// When it was so for the last time.
    at: Instant,
    /// The newest revision that was known at the first look afterwards. At the failure itself, writes from before it
    /// may not have been heard of yet.
    seen: Option<Revision>,
}

impl Exhaustion {
    /// Whether it is over: another replica has written since, or it is long ago.
    fn is_over(&mut self, known: Revision) -> bool {
        known > *self.seen.get_or_insert(known) || self.at.elapsed() >= EXHAUSTED_MAX
    }
}

/// The writer's connection.
#[derive(Debug)]
pub(crate) struct Link {
    url: String,
    kinds: Arc<[KindName]>,
    state: Arc<DatabaseState>,
    cache: Arc<CacheInner>,
    connection: Option<PgConnection>,
    backoff: Backoff,
    retry_at: Option<(Instant, String)>,
    /// The connection was given out, and nobody has said since that a call on it failed.
    used: bool,
    /// The server was out of something, and no write has succeeded since.
    exhausted: Option<Exhaustion>,
    /// A batch whose fate is not known yet.
    unsettled: Option<BatchId>,
}

impl Link {
    pub(crate) fn new(
        url: String,
        kinds: Arc<[KindName]>,
        state: Arc<DatabaseState>,
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

    /// The connection; opened if there is none and the last refusal is not too fresh.
    pub(super) async fn get(&mut self) -> Result<&mut PgConnection, StatementFailure> {
        // No failure was reported, so the last call has worked.
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
            match connect::in_time(OPEN_DEADLINE, self.open()).await {
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

    /// Connects, and makes sure that this program and the database mean the same by the kinds' numbers, that no batch
    /// of the past is undecided, and that the history is the one that this replica knows.
    async fn open(&mut self) -> Result<PgConnection, String> {
        let mut connection =
            connect::connect(&self.url, "store writer").await.map_err(|error| failure_text(&error))?;
        self.agree(&mut connection).await?;
        if let Some(batch) = self.unsettled {
            let fate = settle(&mut connection, batch).await.map_err(|error| failure_text(&error))?;
            self.unsettled = None;
            let committed = matches!(fate, Fate::Committed(_));
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

    /// Gives the kinds their numbers, or finds that they have them.
    async fn agree(&self, connection: &mut PgConnection) -> Result<(), String> {
        let mut transaction = connection.begin().await.map_err(|error| failure_text(&error))?;
        for (index, kind) in self.kinds.iter().enumerate() {
            let id = number(index).map_or(0, |id| id.0);
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

    /// Forgets the connection.
    pub(super) fn lost(&mut self, reason: &str) {
        self.connection = None;
        self.used = false;
        self.exhausted = None;
        self.state.set(Err(reason.to_owned()));
    }

    /// A call failed on a live connection. An unfit connection is given up: the name may lead to another server by
    /// now.
    pub(super) fn failed(&mut self, failure: &StatementFailure) {
        self.used = false;
        match failure {
            StatementFailure::Unfit(reason) => self.lost(reason),
            StatementFailure::Unavailable(reason) => self.state.set(Err(reason.clone())),
            StatementFailure::Exhausted(reason) => {
                self.exhausted = Some(Exhaustion { reason: reason.clone(), at: Instant::now(), seen: None });
                self.state.set(Err(reason.clone()));
            }
            StatementFailure::Lost(_) | StatementFailure::Fault(_) => {}
        }
    }

    /// Looks whether the database takes writes, so that health is known while nobody writes. It writes nothing: a
    /// server that was out of something answers this, too.
    pub(super) async fn check(&mut self) {
        let Ok(connection) = self.get().await else { return };
        let asking = async {
            let row = sqlx::raw_sql("SHOW transaction_read_only").fetch_one(connection).await?;
            row.try_get::<String, _>(0)
        };
        let asked = tokio::time::timeout(CHECK_DEADLINE, asking).await;
        self.used = false;
        match asked {
            Ok(Ok(read_only)) if read_only == "off" => {
                let known = self.cache.newest_known();
                let lasting = self.exhausted.take_if(|exhaustion| !exhaustion.is_over(known));
                // What has failed meanwhile, such as a lock, has passed.
                self.state.set(lasting.as_ref().map_or(Ok(()), |lasting| Err(lasting.reason.clone())));
                self.exhausted = lasting;
            }
            Ok(Ok(_)) => self.lost("PostgreSQL is read-only"),
            Ok(Err(error)) => self.lost(&error.to_string()),
            Err(_elapsed) => self.lost("PostgreSQL does not answer"),
        }
    }

    /// Finds out what became of a batch, by making sure that it cannot be committed any more: if its row can be
    /// inserted as cancelled, it never will be; if the row is there already, it was.
    pub(super) async fn fate(&mut self, writer: Uuid, seq: i64) -> Fate {
        let batch = BatchId { writer, seq };
        self.unsettled = Some(batch);
        let end = Instant::now() + FATE_DEADLINE;
        let fate = timeout_at(end, self.ask_fate(batch)).await.unwrap_or(Fate::Unknown);
        self.state.set_silent(false);
        fate
    }

    async fn ask_fate(&mut self, batch: BatchId) -> Fate {
        let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        let mut heard = Instant::now();
        loop {
            match connect::connect(&self.url, "store writer").await {
                Ok(mut connection) => {
                    self.state.set_silent(false);
                    match settle(&mut connection, batch).await {
                        Ok(fate) => {
                            self.unsettled = None;
                            match self.verify_history(&mut connection).await {
                                Ok(()) => {
                                    self.cache.handover.add_connection();
                                    self.connection = Some(connection);
                                    self.state.set(Ok(()));
                                }
                                Err(reason) => self.state.set(Err(reason)),
                            }
                            return fate;
                        }
                        Err(error) => tracing::warn!(%error, seq = batch.seq, "ask for the fate of a batch"),
                    }
                    heard = Instant::now();
                }
                Err(error) => {
                    tracing::debug!(%error, seq = batch.seq, "connect to ask for the fate of a batch");
                    self.state.set_silent(true);
                    if heard.elapsed() >= patience(&error) {
                        return Fate::Unknown;
                    }
                }
            }
            backoff.wait().await;
        }
    }
}

/// How long a server that cannot be connected to is waited for.
fn patience(error: &sqlx::Error) -> Duration {
    let comes_back = match error {
        sqlx::Error::Io(io) => io.kind() == std::io::ErrorKind::TimedOut,
        sqlx::Error::Database(told) => told.code().is_some_and(|code| code == "57P03"),
        _ => false,
    };
    if comes_back { SLOW_MAX } else { SILENCE_MAX }
}

/// Makes sure that a batch is either committed or never will be.
async fn settle(connection: &mut PgConnection, batch: BatchId) -> Result<Fate, sqlx::Error> {
    let cancel = "INSERT INTO batches (writer, seq, cancelled, base) \
         SELECT $1, $2, true, v FROM (SELECT v FROM rev ORDER BY v DESC LIMIT 1) r ON CONFLICT DO NOTHING";
    let mut transaction = connection.begin().await?;
    let cancelled = sqlx::query(cancel)
        .persistent(false)
        .bind(batch.writer)
        .bind(batch.seq)
        .execute(&mut *transaction)
        .await?;
    let fate = if cancelled.rows_affected() == 1 {
        Fate::Never
    } else {
        // Written, not read: the batch's own backend may have ended before the synchronous standby had the commit, and
        // only a transaction that has written waits for the standby.
        let query = "UPDATE batches SET created = created WHERE writer = $1 AND seq = $2 AND NOT cancelled \
             RETURNING base, outcome, detail";
        let row: Option<BatchAnswer> = sqlx::query_as(query)
            .persistent(false)
            .bind(batch.writer)
            .bind(batch.seq)
            .fetch_optional(&mut *transaction)
            .await?;
        row.map_or(Fate::Never, Fate::Committed)
    };
    transaction.commit().await?;
    Ok(fate)
}
