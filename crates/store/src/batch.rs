//! A batch of writes as the array arguments of `apply_batch` (see `sql/`). The arrays name a scope, ledger row or place
//! once, however many writes touch it.

/// The changes that the writes make to quota.
mod charge;
/// The arrays of scopes, ledger rows and places.
mod rows;

use crate::model::{Before, Change, NewState, Write};
use crate::scopes::ScopeRoles;
use crate::{Error, Key, Revision, connect, functions};
pub(crate) use charge::QuotaChanges;
use quota::Account;
use sqlx::postgres::{PgArguments, PgDatabaseError};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection as _, Postgres, postgres::PgConnection};
use std::sync::LazyLock;
use uuid::Uuid;

/// The call of the function. Amounts are sent as texts.
static APPLY: LazyLock<String> = LazyLock::new(|| {
    let types = |number: usize| match number {
        11 => "::text::json",
        35 | 36 | 42 => "::text[]::numeric[]",
        _ => "",
    };
    let arguments: Vec<String> = (1..=ARGUMENTS).map(|n| format!("${n}{}", types(n))).collect();
    format!("SELECT base, outcome, detail FROM {}({})", functions::name("apply_batch"), arguments.join(", "))
});
const ARGUMENTS: usize = 49;

/// The settings that are the same for all batches of a writer.
#[derive(Clone, Debug)]
pub(crate) struct WriterConfig {
    pub(crate) writer: Uuid,
    pub(crate) scope_roles: ScopeRoles,
    pub(crate) children_max: i64,
    /// How many batches are [`BatchMode::Checked`] after a [`BatchMode::Optimistic`] one has failed.
    pub(crate) checked_batches: u32,
    pub(crate) notify: bool,
    /// A proxy may run the next transaction in another session: nothing is prepared, and nothing relies on the
    /// session's state.
    pub(crate) pooled: bool,
}

/// How the function decides a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchMode {
    /// It reads each row before it writes, and decides each write by itself.
    Checked,
    /// It writes without a check. If a row is not as its write says, or the writes do not fit all together, the call
    /// fails with [`NOT_AS_EXPECTED`] or [`UNIQUE_VIOLATION`], and nothing is written.
    Optimistic,
    /// As [`Self::Checked`], and then everything is rolled back.
    DryRun,
    /// As [`Self::Checked`], but everything is rolled back when a write is refused.
    AllOrNothing,
}

/// A batch of [`BatchMode::Optimistic`] failed: a row is not as its write says, or the sums do not fit.
const NOT_AS_EXPECTED: &str = "SB002";
/// A batch of [`BatchMode::Optimistic`] failed: a row that its write creates exists.
const UNIQUE_VIOLATION: &str = "23505";

/// The function has rolled everything back. The error's detail is its answer.
const ROLLED_BACK: &str = "SB003";

/// Whether an optimistic batch failed so that it must be sent again as [`BatchMode::Checked`].
pub(crate) fn needs_checked_retry(error: &sqlx::Error) -> bool {
    connect::has_code(error, NOT_AS_EXPECTED) || connect::has_code(error, UNIQUE_VIOLATION)
}

/// One entry for each change of a row of `objects`. A move has two: the deletion at the old key, and right behind it
/// the row at the new one.
#[derive(Debug, Default)]
struct BatchEntries<'a> {
    op: Vec<i8>,
    kind: Vec<i16>,
    namespace: Vec<&'a str>,
    name: Vec<&'a str>,
    uid: Vec<Uuid>,
    expected: Vec<i64>,
    tenant: Vec<&'a str>,
    scope_kind: Vec<Option<i16>>,
    scope: Vec<Option<&'a str>>,
    deleting: Vec<bool>,
    locked: Vec<bool>,
    before: Vec<Option<String>>,
    body: Vec<&'a str>,
}

/// One element of [`BatchEntries`].
struct Row<'a> {
    op: u8,
    key: &'a Key,
    uid: Uuid,
    expected: Revision,
    account: &'a Account,
    before: Option<&'a Before>,
    body: &'a str,
}

/// The arguments of one batch.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    entries: BatchEntries<'a>,
    quota: QuotaChanges<'a>,
}

/// The answer of the function, which the table `batches` keeps, too: an outcome for each entry.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct BatchAnswer {
    pub(crate) base: i64,
    pub(crate) outcome: Vec<i16>,
    pub(crate) detail: Vec<Option<String>>,
}

crate::row::columns!(BatchAnswer { base, outcome, detail });

impl<'a> Batch<'a> {
    pub(crate) fn new(
        writes: impl IntoIterator<Item = &'a Write>,
        scope_roles: &ScopeRoles,
    ) -> Result<Self, Error> {
        let mut batch = Self { entries: BatchEntries::default(), quota: QuotaChanges::new() };
        for write in writes {
            batch.entries.push(write)?;
            if charge::affects_ledger(write, scope_roles) {
                let entry = i32::try_from(batch.entries.op.len()).unwrap_or(i32::MAX);
                batch.quota.push(write, entry, scope_roles)?;
            }
        }
        Ok(batch)
    }

    /// Runs it as one transaction.
    pub(crate) async fn apply(
        &self,
        connection: &mut PgConnection,
        config: &WriterConfig,
        seq: i64,
        mode: BatchMode,
    ) -> Result<BatchAnswer, ApplyError> {
        if !config.pooled {
            return self.call(connection, config, seq, mode).await;
        }
        let mut transaction = connection.begin_with(connect::BEGIN_POOLED).await?;
        let answer = self.call(&mut transaction, config, seq, mode).await?;
        transaction.commit().await?;
        Ok(answer)
    }

    async fn call(
        &self,
        connection: &mut PgConnection,
        config: &WriterConfig,
        seq: i64,
        mode: BatchMode,
    ) -> Result<BatchAnswer, ApplyError> {
        let detail = if mode == BatchMode::Optimistic { None } else { Some(self.quota.detail()?) };
        let query = sqlx::query(AssertSqlSafe(APPLY.as_str()))
            .persistent(!config.pooled)
            .bind(config.writer)
            .bind(seq)
            .bind(config.children_max)
            .bind(config.notify)
            .bind(config.pooled)
            .bind(match mode {
                BatchMode::DryRun => Some(true),
                BatchMode::AllOrNothing => None,
                BatchMode::Checked | BatchMode::Optimistic => Some(false),
            })
            .bind(config.scope_roles.kinds())
            .bind(config.scope_roles.required())
            .bind(self.quota.are_independent())
            .bind(self.quota.grows())
            .bind(detail);
        let row = self.quota.bind(self.entries.bind(query)).fetch_one(connection).await?;
        Ok(sqlx::FromRow::from_row(&row)?)
    }

    /// Decides the batch as it would be decided now, in one statement that is rolled back.
    pub(crate) async fn dry_run(
        &self,
        connection: &mut PgConnection,
        config: &WriterConfig,
    ) -> Result<BatchAnswer, ApplyError> {
        match self.call(connection, config, 1, BatchMode::DryRun).await {
            Err(ApplyError::Database(error)) if connect::has_code(&error, ROLLED_BACK) => {
                rolled_back_answer(&error)
            }
            Err(error) => Err(error),
            Ok(_) => Err(Error::Corrupt("a rehearsal was not taken back".to_owned()).into()),
        }
    }

    /// Makes all writes or none, in one statement. The outcomes say which writes were refused.
    pub(crate) async fn apply_all_or_nothing(
        &self,
        connection: &mut PgConnection,
        config: &WriterConfig,
    ) -> Result<BatchAnswer, ApplyError> {
        match self.call(connection, config, 1, BatchMode::AllOrNothing).await {
            Err(ApplyError::Database(error)) if connect::has_code(&error, ROLLED_BACK) => {
                rolled_back_answer(&error)
            }
            answer => answer,
        }
    }
}

/// Why a batch has no answer.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// The batch cannot be put into a statement.
    Invalid(Error),
    /// The database has returned an error, or no answer.
    Database(sqlx::Error),
}

impl From<Error> for ApplyError {
    fn from(error: Error) -> Self {
        Self::Invalid(error)
    }
}

impl From<sqlx::Error> for ApplyError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

fn rolled_back_answer(error: &sqlx::Error) -> Result<BatchAnswer, ApplyError> {
    let database = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    let answer = database.and_then(PgDatabaseError::detail).unwrap_or_default();
    serde_json::from_str(answer).map_err(|why| Error::Corrupt(format!("a rehearsal's answer: {why}")).into())
}

impl<'a> BatchEntries<'a> {
    /// Adds a write. A write with several entries is decided by its last one.
    fn push(&mut self, write: &'a Write) -> Result<(), Error> {
        let Write { key, uid, change, .. } = write;
        let (uid, state) = (*uid, change.state());
        let row =
            |op, account, body| Row { op, key, uid, expected: Revision(0), account, before: None, body };
        let NewState { body, account } = state;
        match change {
            Change::Create(_) => self.add(&row(b'c', account, body)),
            Change::Update { expected, before, .. } => {
                self.add(&Row { expected: *expected, before: Some(before), ..row(b'u', account, body) })
            }
            Change::Delete { expected, before, .. } => {
                self.add(&Row { expected: *expected, before: Some(before), ..row(b'd', account, body) })
            }
            Change::Move { to, expected, before, last, .. } => {
                let leaves = row(b'd', &before.account, last);
                self.add(&Row { expected: *expected, before: Some(before), ..leaves })?;
                self.add(&Row { key: to, ..row(b'm', account, body) })
            }
        }
    }

    fn add(&mut self, row: &Row<'a>) -> Result<(), Error> {
        let Row { op, key, uid, expected, account, before, body } = *row;
        let before = before.map(|before| serde_json::to_string(&before.attributes)).transpose();
        self.before.push(before.map_err(|error| Error::Corrupt(format!("attributes: {error}")))?);
        self.op.push(i8::try_from(op).unwrap_or_default());
        self.kind.push(key.kind.0);
        self.namespace.push(&key.namespace);
        self.name.push(&key.name);
        self.uid.push(uid);
        self.expected.push(i64::try_from(expected.0).unwrap_or(-1));
        self.tenant.push(&account.tenant);
        self.scope_kind.push(account.pays.as_ref().map(|scope| scope.kind.0));
        self.scope.push(account.pays.as_ref().map(|scope| scope.name.as_str()));
        self.deleting.push(account.deleting);
        self.locked.push(account.locked);
        self.body.push(body);
        Ok(())
    }

    fn bind<'q>(&'q self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(&self.op)
            .bind(&self.kind)
            .bind(&self.namespace)
            .bind(&self.name)
            .bind(&self.uid)
            .bind(&self.expected)
            .bind(&self.tenant)
            .bind(&self.scope_kind)
            .bind(&self.scope)
            .bind(&self.deleting)
            .bind(&self.locked)
            .bind(&self.before)
            .bind(&self.body)
    }
}
