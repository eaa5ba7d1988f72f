//! A batch of writes as the arrays of `apply_batch` (see its migration): what many writes touch is named once.

/// Rows and indices of what the writes do to quota.
mod charge;

use crate::model::{Change, State};
use crate::writer::Pending;
use crate::{Attributes, Error, Key, connect};
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) writer: Uuid,
    pub(crate) scope_kind: i16,
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

/// What the writes of one batch ask for, and where each write's entries are.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    entries: Entries<'a>,
    quota: Quota<'a>,
    places: Vec<Place>,
}

/// Indices of a write's entries: the one that bears the outcome, and the one that bears the revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) outcome: usize,
    pub(crate) revision: usize,
}

/// What the function answered, or `batches` remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) base: i64,
    pub(crate) outcome: Vec<i16>,
    pub(crate) detail: Vec<Option<String>>,
}

crate::row::columns!(Answer { base, outcome, detail });

impl<'a> Batch<'a> {
    pub(crate) fn new(writes: &'a [Pending], scope_kind: i16) -> Result<Self, Error> {
        let mut batch = Self {
            entries: Entries::default(),
            quota: Quota::default(),
            places: Vec::with_capacity(writes.len()),
        };
        for pending in writes {
            let write = &pending.write;
            let scope = write.quota.as_ref().map(|q| q.after.as_ref().map_or("", |charge| &*charge.scope));
            let entries = &mut batch.entries;
            let place = match &write.change {
                Change::Create(state) => entries.push(b'c', &write.key, write.uid, 0, None, scope, state)?,
                Change::Update { expected, before, state } => {
                    entries.push(b'u', &write.key, write.uid, expected.0, Some(before), scope, state)?
                }
                Change::Delete { expected, before, last } => {
                    entries.push(b'd', &write.key, write.uid, expected.0, Some(before), None, last)?
                }
                Change::Move { expected, before, last, to, state } => {
                    let outcome =
                        entries.push(b'd', &write.key, write.uid, expected.0, Some(before), None, last)?;
                    let created = entries.push(b'c', to, write.uid, 0, None, scope, state)?;
                    Place { revision: created.revision, ..outcome }
                }
            };
            batch.places.push(place);
            if write.quota.is_some() || write.key.kind.0 == scope_kind {
                batch.quota.push(write, place, scope_kind)?;
            }
        }
        Ok(batch)
    }

    /// Number of entries, each of which takes a revision.
    pub(crate) fn len(&self) -> usize {
        self.entries.op.len()
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
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
            .bind(rules.scope_kind)
            .bind(rules.children_max)
            .bind(rules.notify)
            .bind(look == Look::Never);
        let row = self.quota.bind(self.entries.bind(query)).fetch_one(connection).await?;
        sqlx::FromRow::from_row(&row)
    }
}

impl<'a> Entries<'a> {
    #[expect(clippy::too_many_arguments, reason = "the columns of one row")]
    fn push(
        &mut self,
        op: u8,
        key: &'a Key,
        uid: Uuid,
        expected: u64,
        before: Option<&Attributes>,
        scope: Option<&'a str>,
        state: &'a State,
    ) -> Result<Place, Error> {
        let before = before.map(serde_json::to_string).transpose();
        self.before.push(before.map_err(|error| Error::Corrupt(format!("attributes: {error}")))?);
        self.op.push(i8::try_from(op).unwrap_or_default());
        self.kind.push(key.kind.0);
        self.namespace.push(&key.namespace);
        self.name.push(&key.name);
        self.uid.push(uid);
        self.expected.push(i64::try_from(expected).unwrap_or(-1));
        self.tenant.push(&state.tenant);
        self.scope.push(scope);
        self.deleting.push(state.deleting);
        self.locked.push(state.locked);
        self.body.push(&state.body);
        let at = self.op.len() - 1;
        Ok(Place { outcome: at, revision: at })
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
