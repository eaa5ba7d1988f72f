//! Checks one snapshot: computes the sums of objects and holds with the audit's own code, and compares them with every
//! ledger row and every claim.

use crate::books::{BookEntry, Cell, Census, HeldAmount, ScopeName};
use crate::findings::{Finding, Findings};
use crate::world::{StoredBody, TestKind};
use anyhow::Result;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// A row of the ledger, in whole units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LedgerRow {
    listed: bool,
    children: i64,
    hard: Option<i128>,
    allocated: i128,
    excess: i128,
    /// Up to which amount the row may be above its limit: exactly the one that it has.
    ceiling: Option<i128>,
}

impl fmt::Display for LedgerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listed, children, hard, allocated, excess, ceiling } = self;
        write!(f, "{allocated} of {hard:?}, excess {excess}, ceiling {ceiling:?}, ")?;
        write!(f, "children {children}, listed {listed}")
    }
}

type LedgerRows = BTreeMap<(ScopeName, Cell), LedgerRow>;

/// All data that one check reads.
struct Snapshot {
    objects: Vec<PgRow>,
    holds: Vec<PgRow>,
    ledger: Vec<PgRow>,
    claims: Vec<PgRow>,
}

/// Compares in one snapshot; returns the sums of the objects.
pub(crate) async fn compare_ledger_and_objects(
    connection: &mut PgConnection,
    findings: &mut Findings,
) -> Result<Census> {
    let snapshot = Snapshot::take(connection).await?;
    let mut census = Census::default();
    let mut claims: BTreeMap<Cell, Uuid> = BTreeMap::new();
    for row in &snapshot.objects {
        let body: StoredBody = serde_json::from_str(row.try_get("body")?)?;
        let uid: Uuid = row.try_get("uid")?;
        let entry = BookEntry::of(TestKind::of_resource(row.try_get("resource")?)?, &body);
        if let Some(place) = &entry.claim
            && let Some(other) = claims.insert(place.clone(), uid)
        {
            findings.add(Finding::Difference, || format!("{uid} and {other} are both at {place}"));
        }
        if census.entries.contains_key(&uid) {
            findings.add(Finding::Difference, || format!("{uid} lies at two places"));
        }
        census.put(uid, entry);
    }
    for row in &snapshot.holds {
        census.books.hold(&held(row)?, 1);
        let (cluster, place): (&str, &str) = (row.try_get("domain")?, row.try_get("place")?);
        if !place.is_empty() && !cluster.is_empty() {
            claims.entry(Cell::new(cluster, place)).or_insert(row.try_get("uid")?);
        }
    }
    for unlimited in census.unlimited() {
        findings.add(Finding::OverCommit, || unlimited);
    }
    compare_ledger(&census, &snapshot.ledger, findings)?;
    let stored = snapshot.claims.iter().map(claim).collect::<sqlx::Result<BTreeMap<_, _>>>()?;
    compare(&claims, &stored, |place| format!("claim {place}"), findings);
    Ok(census)
}

/// Checks that the replayed history equals the stored objects.
pub(crate) fn compare_history(now: &Census, history: &Census, findings: &mut Findings) {
    let rows = |census: &Census| -> BTreeMap<_, _> {
        census
            .books
            .rows()
            .map(|(scope, cell, row)| ((scope.clone(), cell.clone()), format!("{row:?}")))
            .collect()
    };
    let what = |(scope, cell): &(ScopeName, Cell)| format!("at the end of history {scope} {cell}");
    compare(&rows(now), &rows(history), what, findings);
}

impl Snapshot {
    async fn take(connection: &mut PgConnection) -> Result<Self> {
        let mut snapshot = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let objects = "SELECT k.resource, o.uid, o.body FROM objects o JOIN kinds k ON k.id = o.kind \
             WHERE k.resource = ANY($1)";
        let holds = "SELECT uid, scope_kind, scope, domain, key, (amount / 1000000000)::bigint AS amount, carried, place \
             FROM holds";
        let ledger = "SELECT scope_kind, scope, domain, key, listed, children, (hard / 1000000000)::bigint AS hard, \
             (allocated / 1000000000)::bigint AS allocated, (excess / 1000000000)::bigint AS excess, \
             (ceiling / 1000000000)::bigint AS ceiling FROM ledger";
        let resources = TestKind::ALL.map(TestKind::resource).to_vec();
        let taken = Self {
            objects: sqlx::query(objects).bind(resources).fetch_all(&mut *snapshot).await?,
            holds: sqlx::query(holds).fetch_all(&mut *snapshot).await?,
            ledger: sqlx::query(ledger).fetch_all(&mut *snapshot).await?,
            claims: sqlx::query("SELECT domain, place, uid FROM claims").fetch_all(&mut *snapshot).await?,
        };
        snapshot.rollback().await?;
        Ok(taken)
    }
}

fn ledger_key(row: &PgRow) -> sqlx::Result<(ScopeName, Cell)> {
    let scope = ScopeName::new(row.try_get("scope_kind")?, row.try_get("scope")?);
    Ok((scope, Cell::new(row.try_get("domain")?, row.try_get("key")?)))
}

fn held(row: &PgRow) -> sqlx::Result<HeldAmount> {
    let (scope, cell) = ledger_key(row)?;
    let amount = i128::from(row.try_get::<i64, _>("amount")?);
    Ok(HeldAmount { scope, cell, amount, carried: row.try_get("carried")? })
}

fn claim(row: &PgRow) -> sqlx::Result<(Cell, Uuid)> {
    Ok((Cell::new(row.try_get("domain")?, row.try_get("place")?), row.try_get("uid")?))
}

fn compare_ledger(census: &Census, ledger: &[PgRow], findings: &mut Findings) -> Result<()> {
    let mut stored = LedgerRows::new();
    for row in ledger {
        let limit = |name: &str| row.try_get::<Option<i64>, _>(name).map(|amount| amount.map(i128::from));
        let amount = |name: &str| row.try_get::<i64, _>(name).map(i128::from);
        let found = LedgerRow {
            listed: row.try_get("listed")?,
            children: row.try_get("children")?,
            hard: limit("hard")?,
            allocated: amount("allocated")?,
            excess: amount("excess")?,
            ceiling: limit("ceiling")?,
        };
        if found != LedgerRow::default() {
            stored.insert(ledger_key(row)?, found);
        }
    }
    let rows = census.books.rows().map(|(scope, cell, row)| {
        let excess = row.excess();
        let expected = LedgerRow {
            listed: row.listed,
            children: row.children,
            hard: row.hard,
            allocated: row.total(),
            excess,
            ceiling: (excess > 0).then(|| row.total()),
        };
        ((scope.clone(), cell.clone()), expected)
    });
    compare(&rows.collect(), &stored, |(scope, cell)| format!("{scope} {cell}"), findings);
    Ok(())
}

/// Compares what the objects say with what is stored beside them.
fn compare<K: Ord, V: PartialEq + fmt::Display>(
    objects: &BTreeMap<K, V>,
    stored: &BTreeMap<K, V>,
    what: impl Fn(&K) -> String,
    findings: &mut Findings,
) {
    let told = |value: Option<&V>| value.map_or_else(|| "nothing".to_owned(), V::to_string);
    for key in objects.keys().chain(stored.keys().filter(|key| !objects.contains_key(*key))) {
        let (expected, found) = (objects.get(key), stored.get(key));
        if expected != found {
            findings.add(Finding::Difference, || {
                format!("{}: objects {}; stored {}", what(key), told(expected), told(found))
            });
        }
    }
}
