//! A batch of writes as the arrays of `apply_batch` (see `sql/`): a scope, row or place that many writes touch is
//! named once.

/// What the writes do to quota.
mod charge;
/// The scopes, rows and places that they concern.
mod rows;

use crate::model::{Before, Change, NewState, Write};
use crate::scopes::Standings;
use crate::{Error, Key, Revision, connect, functions};
pub(crate) use charge::{Quota, asked};
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

/// What is the same for all batches of a writer.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) writer: Uuid,
    pub(crate) standings: Standings,
    pub(crate) children_max: i64,
    /// How many batches look first after one that was wrong about a row.
    pub(crate) wary_batches: u32,
    pub(crate) notify: bool,
    /// The next transaction may run in another session: nothing is prepared, and no state of the session is relied
    /// on.
    pub(crate) pooled: bool,
}

/// What is done before the rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Each row is looked at, and each write gets its own outcome.
    First,
    /// Nothing: the rows are taken to be as the writes say. If one is not, the call fails with [`MISTAKEN`], and
    /// nothing is done.
    Never,
    /// As [`Self::First`], and then everything is rolled back.
    Rehearse,
    /// As [`Self::First`], but everything is rolled back when a write is refused.
    Together,
}

/// The error of a batch of [`Look::Never`] that was wrong about a row.
const MISTAKEN: &str = "SB002";
/// The same when the row was to be new.
const UNIQUE_VIOLATION: &str = "23505";

/// How a rehearsal ends.
const REHEARSED: &str = "SB003";

/// Whether a call failed because a row was not as its write says, or the writes do not fit whole.
pub(crate) fn is_mistaken(error: &sqlx::Error) -> bool {
    connect::has_code(error, MISTAKEN) || connect::has_code(error, UNIQUE_VIOLATION)
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

/// What the writes of one batch ask for.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    entries: BatchEntries<'a>,
    quota: Quota<'a>,
}

/// The answer of the function, or of the table `batches`, which remembers it: an outcome for each entry.
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
        standings: &Standings,
    ) -> Result<Self, Error> {
        let mut batch = Self { entries: BatchEntries::default(), quota: Quota::new() };
        for write in writes {
            batch.entries.push(write)?;
            if charge::concerns_ledger(write, standings) {
                let entry = i32::try_from(batch.entries.op.len()).unwrap_or(i32::MAX);
                batch.quota.push(write, entry, standings)?;
            }
        }
        Ok(batch)
    }

    /// Runs it as one transaction.
    pub(crate) async fn apply(
        &self,
        connection: &mut PgConnection,
        rules: &Rules,
        seq: i64,
        look: Look,
    ) -> Result<BatchAnswer, Unapplied> {
        if !rules.pooled {
            return self.call(connection, rules, seq, look).await;
        }
        let mut transaction = connection.begin_with(connect::BEGIN_POOLED).await?;
        let answer = self.call(&mut transaction, rules, seq, look).await?;
        transaction.commit().await?;
        Ok(answer)
    }

    async fn call(
        &self,
        connection: &mut PgConnection,
        rules: &Rules,
        seq: i64,
        look: Look,
    ) -> Result<BatchAnswer, Unapplied> {
        let (together, grows) = self.quota.flags();
        let detail = if look == Look::Never { None } else { Some(self.quota.detail()?) };
        let query = sqlx::query(AssertSqlSafe(APPLY.as_str()))
            .persistent(!rules.pooled)
            .bind(rules.writer)
            .bind(seq)
            .bind(rules.children_max)
            .bind(rules.notify)
            .bind(rules.pooled)
            .bind(match look {
                Look::Rehearse => Some(true),
                Look::Together => None,
                Look::First | Look::Never => Some(false),
            })
            .bind(rules.standings.kinds())
            .bind(rules.standings.required())
            .bind(together)
            .bind(grows)
            .bind(detail);
        let row = self.quota.bind(self.entries.bind(query)).fetch_one(connection).await?;
        Ok(sqlx::FromRow::from_row(&row)?)
    }

    /// Decides the batch as it would be decided now, in one statement that is rolled back.
    pub(crate) async fn rehearse(
        &self,
        connection: &mut PgConnection,
        rules: &Rules,
    ) -> Result<BatchAnswer, Unapplied> {
        match self.call(connection, rules, 1, Look::Rehearse).await {
            Err(Unapplied::Database(error)) if connect::has_code(&error, REHEARSED) => rehearsed(&error),
            Err(error) => Err(error),
            Ok(_) => Err(Error::Corrupt("a rehearsal was not taken back".to_owned()).into()),
        }
    }

    /// Makes all writes or none, in one statement. The outcomes say which were refused.
    pub(crate) async fn together(
        &self,
        connection: &mut PgConnection,
        rules: &Rules,
    ) -> Result<BatchAnswer, Unapplied> {
        match self.call(connection, rules, 1, Look::Together).await {
            Err(Unapplied::Database(error)) if connect::has_code(&error, REHEARSED) => rehearsed(&error),
            answer => answer,
        }
    }
}

/// Why a batch has no answer.
#[derive(Debug)]
pub(crate) enum Unapplied {
    /// It cannot be put into a statement.
    Unsaid(Error),
    /// The database did not answer.
    Database(sqlx::Error),
}

impl From<Error> for Unapplied {
    fn from(error: Error) -> Self {
        Self::Unsaid(error)
    }
}

impl From<sqlx::Error> for Unapplied {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

fn rehearsed(error: &sqlx::Error) -> Result<BatchAnswer, Unapplied> {
    let told = error.as_database_error().and_then(|told| told.try_downcast_ref::<PgDatabaseError>());
    let answer = told.and_then(PgDatabaseError::detail).unwrap_or_default();
    serde_json::from_str(answer).map_err(|why| Error::Corrupt(format!("a rehearsal's answer: {why}")).into())
}

impl<'a> BatchEntries<'a> {
    /// Adds a write. The last of its entries is the one that is decided.
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
