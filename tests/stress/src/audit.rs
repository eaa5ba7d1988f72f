//! The audit: its own arithmetic over the bodies, in whole units, against the ledger and against the limits.

use crate::world::StoredBody;
use anyhow::Result;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What one look at one snapshot found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Amounts above their limit.
    pub(crate) over_commits: Vec<String>,
    /// Differences between the ledger and the objects.
    pub(crate) differences: Vec<String>,
}

type Totals = BTreeMap<(String, String, String), i128>;

/// Compares in one snapshot.
pub(crate) async fn look(connection: &mut PgConnection, scopes: i16) -> Result<Findings> {
    let mut snapshot = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let objects = sqlx::query("SELECT kind, name, uid, body FROM objects").fetch_all(&mut *snapshot).await?;
    let holds = sqlx::query(
        "SELECT scope, domain, key, (amount / 1000000000)::bigint AS amount FROM holds WHERE key <> ''",
    )
    .fetch_all(&mut *snapshot)
    .await?;
    let ledger = sqlx::query(
        "SELECT scope, domain, key, (allocated / 1000000000)::bigint AS allocated,
                (hard / 1000000000)::bigint AS hard FROM ledger WHERE key <> ''",
    )
    .fetch_all(&mut *snapshot)
    .await?;
    snapshot.rollback().await?;

    let mut findings = Findings::default();
    let mut charged = Totals::new();
    let mut limits = Totals::new();
    let mut places: BTreeMap<Uuid, String> = BTreeMap::new();
    for row in &objects {
        if let Some(other) = places.insert(row.try_get("uid")?, row.try_get("name")?) {
            findings.differences.push(format!("{other} lies at two places"));
        }
        let body: StoredBody = serde_json::from_str(row.try_get("body")?)?;
        for (cluster, units) in &body.charge {
            for (resource, n) in units {
                let key = (body.scope.clone(), cluster.clone(), resource.clone());
                *charged.entry(key).or_default() += i128::from(*n);
            }
        }
        if row.try_get::<i16, _>("kind")? == scopes {
            for (cluster, units) in &body.hard {
                for (resource, n) in units {
                    limits.insert((row.try_get("name")?, cluster.clone(), resource.clone()), i128::from(*n));
                }
            }
        }
    }
    for row in &holds {
        let key = (row.try_get("scope")?, row.try_get("domain")?, row.try_get("key")?);
        *charged.entry(key).or_default() += i128::from(row.try_get::<i64, _>("amount")?);
    }
    charged.retain(|(scope, _, _), n| !scope.is_empty() && *n != 0);

    for (key, amount) in &charged {
        if let Some(limit) = limits.get(key)
            && amount > limit
        {
            findings.over_commits.push(format!("{key:?}: {amount} of {limit}"));
        }
    }
    let mut allocated = Totals::new();
    let mut hard = Totals::new();
    for row in &ledger {
        let key: (String, String, String) =
            (row.try_get("scope")?, row.try_get("domain")?, row.try_get("key")?);
        let amount = i128::from(row.try_get::<i64, _>("allocated")?);
        if amount != 0 {
            allocated.insert(key.clone(), amount);
        }
        if let Some(limit) = row.try_get::<Option<i64>, _>("hard")? {
            hard.insert(key, i128::from(limit));
        }
    }
    compare("allocated", &charged, &allocated, &mut findings.differences);
    compare("hard", &limits, &hard, &mut findings.differences);
    Ok(findings)
}

fn compare(what: &str, objects: &Totals, ledger: &Totals, differences: &mut Vec<String>) {
    for key in objects.keys().chain(ledger.keys().filter(|key| !objects.contains_key(*key))) {
        let (from_objects, from_ledger) = (objects.get(key), ledger.get(key));
        if from_objects != from_ledger {
            differences.push(format!("{what} {key:?}: objects {from_objects:?}, ledger {from_ledger:?}"));
        }
    }
}
