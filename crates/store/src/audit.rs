//! Compares the ledger, the claims and the columns of objects with what the bodies say. It shares no sum with
//! the write path: everything is added up again, in one snapshot, from the objects themselves.

use crate::connect::{self, unavailable};
use crate::ledger::{self, Place, Row, Rows};
use crate::model::{Key, KindId};
use crate::quota::{Amounts, Charge, Claim};
use crate::store::Store;
use crate::{Access, Error, Revision, Visibility};
use futures_util::TryStreamExt as _;
use sqlx::{Connection as _, PgConnection};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// What a stored body says of its object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its tenant.
    pub tenant: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is locked.
    pub locked: bool,
    /// What it costs its scope; `None` for a kind without quota.
    pub charge: Option<Charge>,
    /// Its limits, if it is a scope.
    pub limits: Option<Amounts>,
    /// Its claim.
    pub claim: Option<Claim>,
}

/// Reads bodies for the audit. Whoever knows the kinds supplies it.
pub trait Accounts: Send + Sync {
    /// What a body says; the error says what is wrong with it.
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Account, String>;
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A row of the ledger.
    Ledger {
        /// Which.
        place: Place,
        /// What it is.
        found: Row,
        /// What the objects and holds add up to.
        expected: Row,
    },
    /// A claim.
    Claim {
        /// The place.
        claim: Claim,
        /// Who has it.
        found: Option<Uuid>,
        /// Who should have it.
        expected: Option<Uuid>,
    },
    /// A row of the objects.
    Object {
        /// Which.
        key: Key,
        /// What is wrong.
        reason: String,
    },
}

impl Difference {
    /// The scope whose ledger it is about.
    pub fn scope(&self) -> Option<&str> {
        match self {
            Self::Ledger { place, .. } => Some(&place.scope),
            Self::Claim { .. } | Self::Object { .. } => None,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger { place, found, expected } => {
                write!(f, "ledger {place}: found {found}; expected {expected}")
            }
            Self::Claim { claim, found, expected } => {
                let Claim { cluster, namespace } = claim;
                let holder =
                    |uid: &Option<Uuid>| uid.map_or_else(|| "nobody".to_owned(), |uid| uid.to_string());
                write!(
                    f,
                    "claim {cluster}/{namespace}: held by {}; expected {}",
                    holder(found),
                    holder(expected)
                )
            }
            Self::Object { key, reason } => {
                write!(f, "object {}/{} of kind {}: {reason}", key.namespace, key.name, key.kind.0)
            }
        }
    }
}

/// What an audit has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The revision of its snapshot.
    pub revision: Revision,
    /// Objects that were read.
    pub objects: u64,
    /// Everything that is not as it should be; empty is good.
    pub differences: Vec<Difference>,
}

/// A row of `objects`.
#[derive(Debug)]
pub(crate) struct Stored {
    kind: i16,
    namespace: String,
    name: String,
    uid: Uuid,
    tenant: String,
    scope: Option<String>,
    deleting: bool,
    locked: bool,
    body: String,
}

crate::row::columns!(Stored { kind, namespace, name, uid, tenant, scope, deleting, locked, body });

pub(crate) const OBJECT_COLUMNS: &str =
    "SELECT kind, namespace, name, uid, tenant, scope, deleting, locked, body FROM objects";

impl Store {
    /// Audits everything in one snapshot, while writes go on.
    pub async fn audit(&self, access: &Access, accounts: &dyn Accounts) -> Result<Report, Error> {
        operator(access)?;
        let mut connection =
            connect::connect(self.url(), "store audit").await.map_err(|error| unavailable(&error))?;
        let report =
            audit(&mut connection, accounts, self.scope_kind()).await.map_err(|error| unavailable(&error))?;
        for difference in &report.differences {
            tracing::error!(%difference, "the audit has found a difference");
        }
        Ok(report)
    }
}

/// What concerns all tenants is for those who see all.
pub(crate) fn operator(access: &Access) -> Result<(), Error> {
    if *access.visibility() == Visibility::Everything { Ok(()) } else { Err(Error::NotFound) }
}

async fn audit(
    connection: &mut PgConnection,
    accounts: &dyn Accounts,
    scope_kind: Option<KindId>,
) -> Result<Report, sqlx::Error> {
    sqlx::raw_sql("SET statement_timeout = '10min'; SET idle_in_transaction_session_timeout = '10min'")
        .execute(&mut *connection)
        .await?;
    let mut snapshot = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let revision: i64 = sqlx::query_scalar("SELECT v FROM rev").fetch_one(&mut *snapshot).await?;
    let mut report =
        Report { revision: Revision(u64::try_from(revision).unwrap_or_default()), ..Report::default() };
    let mut expected = Expected::default();
    {
        let mut stream = sqlx::query_as::<_, Stored>(OBJECT_COLUMNS).fetch(&mut *snapshot);
        while let Some(stored) = stream.try_next().await? {
            report.objects += 1;
            if let Err(reason) = expected.add(&stored, accounts, scope_kind) {
                report.differences.push(Difference::Object { key: stored.key(), reason });
            }
        }
    }
    ledger::add_holds(&mut expected.rows, &mut snapshot, None).await?;
    let held = "SELECT DISTINCT cluster, namespace, uid FROM holds WHERE namespace <> '' AND cluster <> ''";
    for (claim, uid) in claims(&mut snapshot, held).await? {
        // An object at the same place has it.
        expected.claims.entry(claim).or_insert(uid);
    }
    let found = ledger::read(&mut snapshot, None).await?;
    let found_claims = claims(&mut snapshot, "SELECT cluster, namespace, uid FROM claims").await?;
    snapshot.rollback().await?;
    report.differences.extend(compare(&found, &expected.rows));
    let places: std::collections::BTreeSet<&Claim> =
        found_claims.keys().chain(expected.claims.keys()).collect();
    for claim in places {
        let (found, expected) = (found_claims.get(claim).copied(), expected.claims.get(claim).copied());
        if found != expected {
            report.differences.push(Difference::Claim { claim: claim.clone(), found, expected });
        }
    }
    Ok(report)
}

async fn claims(
    connection: &mut PgConnection,
    query: &'static str,
) -> Result<BTreeMap<Claim, Uuid>, sqlx::Error> {
    let rows: Vec<(String, String, Uuid)> = sqlx::query_as(query).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(cluster, namespace, uid)| (Claim { cluster, namespace }, uid)).collect())
}

/// The rows that differ.
pub(crate) fn compare(found: &Rows, expected: &Rows) -> Vec<Difference> {
    let places: std::collections::BTreeSet<&Place> = found.keys().chain(expected.keys()).collect();
    let rows = places.into_iter().map(|place| {
        let (found, expected) = (found.get(place), expected.get(place));
        (place, found.copied().unwrap_or_default(), expected.copied().unwrap_or_default())
    });
    rows.filter(|(_, found, expected)| found != expected)
        .map(|(place, found, expected)| Difference::Ledger { place: place.clone(), found, expected })
        .collect()
}

/// What the objects add up to.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) rows: Rows,
    pub(crate) claims: BTreeMap<Claim, Uuid>,
}

impl Expected {
    /// Adds an object; the error says what its row has wrong.
    pub(crate) fn add(
        &mut self,
        stored: &Stored,
        accounts: &dyn Accounts,
        scope_kind: Option<KindId>,
    ) -> Result<(), String> {
        let account = accounts.account(KindId(stored.kind), stored.body.as_bytes())?;
        if let Some(charge) = &account.charge {
            ledger::add_charge(&mut self.rows, charge);
        }
        if let (Some(limits), true) = (&account.limits, scope_kind == Some(KindId(stored.kind))) {
            ledger::add_limits(&mut self.rows, &stored.name, limits);
        }
        let mut wrong = stored.wrong_columns(&account);
        if let Some(claim) = account.claim
            && let Some(other) = self.claims.insert(claim, stored.uid)
        {
            wrong.push(format!("claims what {other} claims"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

impl Stored {
    pub(crate) fn key(&self) -> Key {
        Key::new(KindId(self.kind), &self.namespace, &self.name)
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.body.as_bytes()
    }

    pub(crate) fn uid(&self) -> Uuid {
        self.uid
    }

    /// The columns that are not what the body says.
    pub(crate) fn wrong_columns(&self, account: &Account) -> Vec<String> {
        let scope = account.charge.as_ref().map(|charge| &*charge.scope).filter(|scope| !scope.is_empty());
        let mut wrong = Vec::new();
        if self.tenant != account.tenant {
            wrong.push(format!("tenant is {:?} in the row, {:?} in the body", self.tenant, account.tenant));
        }
        if self.scope.as_deref() != scope {
            wrong.push(format!("scope is {:?} in the row, {scope:?} in the body", self.scope));
        }
        if self.deleting != account.deleting {
            wrong.push(format!("deleting is {} in the row", self.deleting));
        }
        if self.locked != account.locked {
            wrong.push(format!("locked is {} in the row", self.locked));
        }
        wrong
    }
}
