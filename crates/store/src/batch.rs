//! A batch of writes as the arrays of `apply_batch` (see its migration): what many writes touch is named once.

/// Rows and indices of what the writes do to quota.
mod charge;

use crate::model::{Change, State, Write};
use crate::scopes::Standings;
use crate::writer::Pending;
use crate::{Error, connect};
use ::quota::Account;
pub(crate) use charge::{Quota, asked};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Connection as _, Postgres, postgres::PgConnection};
use uuid::Uuid;

const APPLY: &str = "SELECT base, outcome, detail FROM apply_batch($1, $2, $3, $4, $5, $6, \
     $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, \
     $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, \
     $33, $34, $35, $36, $37, $38, \
     $39, $40::text[]::numeric[], $41::text[]::numeric[], $42, $43, \
     $44, $45::text[]::numeric[], $46, $47, $48)";

/// What is the same for all batches of a writer.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) writer: Uuid,
    pub(crate) standings: Standings,
    pub(crate) children_max: i64,
    /// Batches that look first after one that was wrong about a row.
    pub(crate) wary_batches: u32,
    pub(crate) notify: bool,
    /// The next transaction may run in another session: nothing is prepared, and nothing of the session relied on.
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
}

/// The error of a batch of [`Look::Never`] that was wrong about a row.
const MISTAKEN: &str = "SB002";
/// The same about a row that is to be new.
const UNIQUE_VIOLATION: &str = "23505";

/// Whether a call failed because a row was not as its write says.
pub(crate) fn is_mistaken(error: &sqlx::Error) -> bool {
    connect::sqlstate(error).is_some_and(|code| code == MISTAKEN || code == UNIQUE_VIOLATION)
}

/// One change of one row of `objects` each.
#[derive(Debug, Default)]
struct Entries<'a> {
    op: Vec<i8>,
    kind: Vec<i16>,
    namespace: Vec<&'a str>,
    name: Vec<&'a str>,
    uid: Vec<Uuid>,
    expected: Vec<i64>,
    tenant: Vec<&'a str>,
    scope: Vec<Option<&'a str>>,
    deleting: Vec<bool>,
    locked: Vec<bool>,
    before: Vec<Option<String>>,
    body: Vec<&'a str>,
}

/// What the writes of one batch ask for.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    entries: Entries<'a>,
    quota: Quota<'a>,
}

/// What the function answered, or `batches` remembers.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Answer {
    pub(crate) base: i64,
    pub(crate) outcome: Vec<i16>,
    pub(crate) detail: Vec<Option<String>>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(writes: &'a [Pending], standings: &Standings) -> Result<Self, Error> {
        let mut batch = Self { entries: Entries::default(), quota: Quota::default() };
        for pending in writes {
            let write = &pending.write;
            batch.entries.push(write)?;
            let charged = [write.change.before(), write.change.after()].into_iter().flatten();
            let stands = standings.of(write.key.kind).is_some();
            if stands || charged.into_iter().any(Account::is_charged) {
                batch.quota.push(write, batch.entries.op.len() - 1, stands)?;
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
    ) -> Result<Answer, sqlx::Error> {
        if !rules.pooled {
            return self.call(connection, rules, seq, look).await;
        }
        let mut transaction = connection.begin_with(connect::BEGIN_POOLED).await?;
        let answer = self.call(&mut transaction, rules, seq, look).await?;
        transaction.commit().await?;
        Ok(answer)
    }

    /// Runs it as a part of a transaction.
    pub(crate) async fn call(
        &self,
        connection: &mut PgConnection,
        rules: &Rules,
        seq: i64,
        look: Look,
    ) -> Result<Answer, sqlx::Error> {
        let query = sqlx::query(APPLY)
            .persistent(!rules.pooled)
            .bind(rules.writer)
            .bind(seq)
            .bind(rules.standings.first().map_or(0, |kind| kind.0))
            .bind(rules.children_max)
            .bind(rules.notify)
            .bind(look == Look::Never);
        let row = self.quota.bind(self.entries.bind(query)).fetch_one(connection).await?;
        sqlx::FromRow::from_row(&row)
    }
}

impl<'a> Entries<'a> {
    fn push(&mut self, write: &'a Write) -> Result<(), Error> {
        let (op, expected, before) = match &write.change {
            Change::Create(_) => (b'c', 0, None),
            Change::Update { expected, before, .. } => (b'u', expected.0, Some(before)),
            Change::Delete { expected, before, .. } => (b'd', expected.0, Some(before)),
        };
        let State { body, account } = write.change.state();
        let before = before.map(|before| serde_json::to_string(&before.attributes)).transpose();
        self.before.push(before.map_err(|error| Error::Corrupt(format!("attributes: {error}")))?);
        self.op.push(i8::try_from(op).unwrap_or_default());
        self.kind.push(write.key.kind.0);
        self.namespace.push(&write.key.namespace);
        self.name.push(&write.key.name);
        self.uid.push(write.uid);
        self.expected.push(i64::try_from(expected).unwrap_or(-1));
        self.tenant.push(&account.tenant);
        self.scope.push(Some(account.pays.as_ref().map_or("", |scope| &scope.name)));
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
            .bind(&self.scope)
            .bind(&self.deleting)
            .bind(&self.locked)
            .bind(&self.before)
            .bind(&self.body)
    }
}
