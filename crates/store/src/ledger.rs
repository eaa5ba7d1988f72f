//! The ledger's rows as Rust sees them: recomputed from objects and holds, and read.

use crate::Error;
use quota::{Account, Scope, ScopeKind};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Which row of the ledger: scope, domain, key. Empty names stand for the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// The scope.
    pub scope: Scope,
    /// The domain; empty in the row that counts all children.
    pub domain: String,
    /// The key; empty in the row that stands for the domain.
    pub key: String,
}

impl RowKey {
    pub(crate) fn new(scope: &Scope, domain: &str, key: &str) -> Self {
        Self { scope: scope.clone(), domain: domain.to_owned(), key: key.to_owned() }
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.scope.name, self.domain, self.key)
    }
}

/// A row of the ledger. Amounts are in units of 10⁻⁹.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The scope names the cluster.
    pub listed: bool,
    /// Resources of the cluster with a limit.
    pub limits: i64,
    /// Children and holds that count in the row.
    pub children: i64,
    /// The limit.
    pub hard: Option<i128>,
    /// What children and holds have.
    pub allocated: i128,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listed, limits, children, hard, allocated } = self;
        write!(f, "listed {listed}, limits {limits}, children {children}, allocated {allocated}n, hard ")?;
        match hard {
            Some(hard) => write!(f, "{hard}n"),
            None => f.write_str("none"),
        }
    }
}

/// Rows by key.
pub type Rows = BTreeMap<RowKey, Row>;

/// Adds what an object costs and grants.
pub(crate) fn add_account(rows: &mut Rows, account: &Account) {
    if let Some(scope) = &account.pays {
        rows.entry(RowKey::new(scope, "", "")).or_default().children += 1;
        for domain in account.costs.keys().chain(account.carries.keys()).collect::<BTreeSet<_>>() {
            rows.entry(RowKey::new(scope, domain, "")).or_default().children += 1;
            for (key, amount) in account.costs.get(domain).into_iter().flatten() {
                let row = rows.entry(RowKey::new(scope, domain, key)).or_default();
                row.allocated = row.allocated.saturating_add(amount.nanos());
            }
            for key in account.carries.get(domain).into_iter().flatten().collect::<BTreeSet<_>>() {
                rows.entry(RowKey::new(scope, domain, key)).or_default().children += 1;
            }
        }
    }
    let Some(grants) = &account.grants else { return };
    for (domain, limits) in &grants.domains {
        let row = rows.entry(RowKey::new(&grants.scope, domain, "")).or_default();
        row.listed = true;
        row.limits = i64::try_from(limits.hard.len()).unwrap_or(i64::MAX);
        for (key, hard) in &limits.hard {
            rows.entry(RowKey::new(&grants.scope, domain, key)).or_default().hard = Some(hard.nanos());
        }
    }
}

#[derive(sqlx::FromRow)]
struct Stored {
    scope: String,
    cluster: String,
    resource: String,
    listed: bool,
    limits: i64,
    children: i64,
    hard: Option<String>,
    allocated: String,
}

/// Reads the rows of one scope, or all.
pub(crate) async fn read(
    connection: &mut PgConnection,
    kind: ScopeKind,
    scope: Option<&str>,
) -> Result<Rows, sqlx::Error> {
    let query = "SELECT scope, cluster, resource, listed, limits, children, hard::text, allocated::text \
         FROM ledger WHERE $1::text IS NULL OR scope = $1";
    let stored: Vec<Stored> = sqlx::query_as(query).bind(scope).fetch_all(connection).await?;
    stored.into_iter().map(|stored| stored.row(kind)).collect()
}

/// Adds the holds of one scope, or all.
pub(crate) async fn add_holds(
    rows: &mut Rows,
    connection: &mut PgConnection,
    kind: ScopeKind,
    scope: Option<&str>,
) -> Result<(), sqlx::Error> {
    let query = "SELECT scope, cluster, resource, false AS listed, 0::bigint AS limits, sum(carried::int) AS children, \
         NULL::text AS hard, sum(amount)::text AS allocated \
         FROM holds WHERE $1::text IS NULL OR scope = $1 GROUP BY scope, cluster, resource";
    let stored: Vec<Stored> = sqlx::query_as(query).bind(scope).fetch_all(connection).await?;
    for stored in stored {
        let (place, held) = stored.row(kind)?;
        let row = rows.entry(place).or_default();
        row.children += held.children;
        row.allocated = row.allocated.saturating_add(held.allocated);
    }
    Ok(())
}

impl Stored {
    fn row(self, kind: ScopeKind) -> Result<(RowKey, Row), sqlx::Error> {
        let amount = |text: &str| {
            text.parse::<i128>()
                .map_err(|error| sqlx::Error::Decode(format!("amount {text:?}: {error}").into()))
        };
        let hard = self.hard.as_deref().map(amount).transpose()?;
        let allocated = amount(&self.allocated)?;
        let row = Row { listed: self.listed, limits: self.limits, children: self.children, hard, allocated };
        Ok((RowKey { scope: Scope::new(kind, self.scope), domain: self.cluster, key: self.resource }, row))
    }
}

/// Waits for the revision counter's lock, as every writer does.
pub(crate) async fn lock(connection: &mut PgConnection) -> Result<(), Error> {
    let locked = sqlx::query("SELECT v FROM rev WHERE id = 1 FOR UPDATE").fetch_one(connection).await;
    locked.map(drop).map_err(|error| crate::connect::unavailable(&error))
}
