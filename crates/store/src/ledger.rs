//! The ledger's rows as Rust sees them: recomputed from objects and holds, and read.

use crate::Error;
use crate::quota::{Amounts, Charge};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where a row of the ledger is: scope, cluster, resource. Empty names stand for the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The scope.
    pub scope: String,
    /// The member cluster; empty in the row that counts all children.
    pub cluster: String,
    /// The resource; empty in the row that stands for the cluster.
    pub resource: String,
}

impl Place {
    pub(crate) fn new(scope: &str, cluster: &str, resource: &str) -> Self {
        Self { scope: scope.to_owned(), cluster: cluster.to_owned(), resource: resource.to_owned() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.scope, self.cluster, self.resource)
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

/// Rows by place.
pub type Rows = BTreeMap<Place, Row>;

/// Counts a child.
pub(crate) fn add_charge(rows: &mut Rows, charge: &Charge) {
    if charge.scope.is_empty() {
        return;
    }
    rows.entry(Place::new(&charge.scope, "", "")).or_default().children += 1;
    for cluster in charge.amounts.keys().chain(charge.keys.keys()).collect::<BTreeSet<_>>() {
        rows.entry(Place::new(&charge.scope, cluster, "")).or_default().children += 1;
        for (resource, amount) in charge.amounts.get(cluster).into_iter().flatten() {
            let row = rows.entry(Place::new(&charge.scope, cluster, resource)).or_default();
            row.allocated = row.allocated.saturating_add(amount.nanos());
        }
        for resource in charge.keys.get(cluster).into_iter().flatten().collect::<BTreeSet<_>>() {
            rows.entry(Place::new(&charge.scope, cluster, resource)).or_default().children += 1;
        }
    }
}

/// Enters a scope's limits.
pub(crate) fn add_limits(rows: &mut Rows, scope: &str, limits: &Amounts) {
    for (cluster, list) in limits {
        let row = rows.entry(Place::new(scope, cluster, "")).or_default();
        row.listed = true;
        row.limits = i64::try_from(list.len()).unwrap_or(i64::MAX);
        for (resource, hard) in list {
            rows.entry(Place::new(scope, cluster, resource)).or_default().hard = Some(hard.nanos());
        }
    }
}

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

crate::row::columns!(Stored { scope, cluster, resource, listed, limits, children, hard, allocated });

/// Reads the rows of one scope, or all.
pub(crate) async fn read(connection: &mut PgConnection, scope: Option<&str>) -> Result<Rows, sqlx::Error> {
    let query = "SELECT scope, cluster, resource, listed, limits, children, hard::text, allocated::text \
         FROM ledger WHERE $1::text IS NULL OR scope = $1";
    let stored: Vec<Stored> = sqlx::query_as(query).bind(scope).fetch_all(connection).await?;
    stored.into_iter().map(Stored::row).collect()
}

/// Adds the holds of one scope, or all.
pub(crate) async fn add_holds(
    rows: &mut Rows,
    connection: &mut PgConnection,
    scope: Option<&str>,
) -> Result<(), sqlx::Error> {
    let query = "SELECT scope, cluster, resource, false AS listed, 0::bigint AS limits, sum(carried::int) AS children, \
         NULL::text AS hard, sum(amount)::text AS allocated \
         FROM holds WHERE $1::text IS NULL OR scope = $1 GROUP BY scope, cluster, resource";
    let stored: Vec<Stored> = sqlx::query_as(query).bind(scope).fetch_all(connection).await?;
    for stored in stored {
        let (place, held) = stored.row()?;
        let row = rows.entry(place).or_default();
        row.children += held.children;
        row.allocated = row.allocated.saturating_add(held.allocated);
    }
    Ok(())
}

impl Stored {
    fn row(self) -> Result<(Place, Row), sqlx::Error> {
        let amount = |text: &str| {
            text.parse::<i128>()
                .map_err(|error| sqlx::Error::Decode(format!("amount {text:?}: {error}").into()))
        };
        let hard = self.hard.as_deref().map(amount).transpose()?;
        let allocated = amount(&self.allocated)?;
        let row = Row { listed: self.listed, limits: self.limits, children: self.children, hard, allocated };
        Ok((Place { scope: self.scope, cluster: self.cluster, resource: self.resource }, row))
    }
}

/// Waits for the revision counter's lock, as every writer does.
pub(crate) async fn lock(connection: &mut PgConnection) -> Result<(), Error> {
    let locked = sqlx::query("SELECT v FROM rev WHERE id = 1 FOR UPDATE").fetch_one(connection).await;
    locked.map(drop).map_err(|error| crate::connect::unavailable(&error))
}
