//! What no object stands for: growth that is held after a divergence of history, and amounts that count until
//! they are written off.

use crate::audit::operator;
use crate::connect::{self, unavailable};
use crate::divergence::DIVERGED;
use crate::ledger;
use crate::quota::{Amounts, Claim};
use crate::store::Store;
use crate::{Access, Error, Revision};
use meta::quantity::{Format, Quantity};
use sqlx::{Connection as _, PgConnection};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Amounts of a scope without an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The object's that is gone; of an orphan, whatever names it for good.
    pub uid: Uuid,
    /// The scope that is charged.
    pub scope: String,
    /// The place in a member cluster that it keeps, if it has one.
    pub claim: Option<Claim>,
    /// What counts.
    pub amounts: Amounts,
    /// Whether the audit has found it. Otherwise somebody has given an object up.
    pub orphaned: bool,
    /// Why.
    pub reason: String,
}

/// Growth that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthHold {
    /// Why.
    pub reason: String,
    /// The history that it is held in: another divergence begins another one.
    pub epoch: Uuid,
    /// What is older than this revision is another history's.
    pub since: Revision,
}

impl GrowthHold {
    /// Whether it waits for the audit that follows a divergence of history. Otherwise an operator holds it.
    pub fn waits_for_audit(&self) -> bool {
        self.reason.starts_with(DIVERGED)
    }
}

struct Stored {
    uid: Uuid,
    scope: String,
    cluster: String,
    resource: String,
    amount: String,
    namespace: String,
    state: String,
    reason: String,
}

crate::row::columns!(Stored { uid, scope, cluster, resource, amount, namespace, state, reason });

impl Store {
    /// Why growth is held; `None` when it is not.
    pub async fn growth_held(&self, access: &Access) -> Result<Option<String>, Error> {
        Ok(self.growth_hold(access).await?.map(|hold| hold.reason))
    }

    /// The hold on growth, if there is one.
    pub async fn growth_hold(&self, access: &Access) -> Result<Option<GrowthHold>, Error> {
        operator(access)?;
        let mut connection = self.operate().await?;
        // A new epoch begins with a compaction of everything before it.
        let query = "SELECT r.held, r.held_reason, r.epoch, c.compacted FROM rev r, compaction c \
             WHERE r.id = 1 AND c.id = 1";
        let (held, reason, epoch, compacted): (bool, String, Uuid, i64) =
            sqlx::query_as(query).fetch_one(&mut connection).await.map_err(|error| unavailable(&error))?;
        let since = Revision(u64::try_from(compacted).unwrap_or_default());
        Ok(held.then_some(GrowthHold { reason, epoch, since }))
    }

    /// Lets growth go on that was held, unless history has diverged once more since. Whether it did.
    pub async fn release_growth(&self, access: &Access, hold: &GrowthHold) -> Result<bool, Error> {
        operator(access)?;
        let mut connection = self.operate().await?;
        let query = "UPDATE rev SET held = false, held_reason = '' WHERE id = 1 AND held AND epoch = $1";
        let done = sqlx::query(query)
            .bind(hold.epoch)
            .execute(&mut connection)
            .await
            .map_err(|error| unavailable(&error))?;
        let released = done.rows_affected() == 1;
        if released {
            tracing::warn!(actor = access.actor(), reason = hold.reason, "growth goes on");
        }
        Ok(released)
    }

    /// Holds growth for a reason, or lets it go on.
    pub async fn hold_growth(&self, access: &Access, reason: Option<&str>) -> Result<(), Error> {
        operator(access)?;
        let mut connection = self.operate().await?;
        sqlx::query("UPDATE rev SET held = $1, held_reason = $2 WHERE id = 1")
            .bind(reason.is_some())
            .bind(reason.unwrap_or_default())
            .execute(&mut connection)
            .await
            .map_err(|error| unavailable(&error))?;
        tracing::warn!(actor = access.actor(), reason, "growth is held, or no longer");
        Ok(())
    }

    /// The holds of a scope, or all.
    pub async fn holds(&self, access: &Access, scope: Option<&str>) -> Result<Vec<Hold>, Error> {
        operator(access)?;
        let query = "SELECT uid, scope, cluster, resource, amount::text, namespace, state, reason \
             FROM holds WHERE $1::text IS NULL OR scope = $1 ORDER BY created, uid, cluster, resource";
        let stored: Vec<Stored> = sqlx::query_as(query)
            .bind(scope)
            .fetch_all(&mut self.operate().await?)
            .await
            .map_err(|error| unavailable(&error))?;
        let mut holds: BTreeMap<Uuid, Hold> = BTreeMap::new();
        let mut order = Vec::new();
        for row in stored {
            let hold = holds.entry(row.uid).or_insert_with(|| {
                order.push(row.uid);
                row.begin()
            });
            row.add_to(hold)?;
        }
        Ok(order.iter().filter_map(|uid| holds.remove(uid)).collect())
    }

    /// Stops counting a hold: its cluster namespace is gone, or an operator vouches for it.
    pub async fn write_off(&self, access: &Access, uid: Uuid) -> Result<(), Error> {
        operator(access)?;
        let mut connection = self.operate().await?;
        let mut transaction = connection.begin().await.map_err(|error| unavailable(&error))?;
        ledger::lock(&mut transaction).await?;
        let writing = async {
            let gone = release(&mut transaction, uid).await?;
            transaction.commit().await?;
            Ok(gone)
        };
        let rows = writing.await.map_err(|error: sqlx::Error| unavailable(&error))?;
        tracing::warn!(actor = access.actor(), %uid, rows, "wrote a hold off");
        if rows == 0 { Err(Error::NotFound) } else { Ok(()) }
    }

    /// Charges a cluster namespace that no object stands for to the scope that it is labelled with, even above the
    /// scope's limits. Doing it again with other amounts charges those instead.
    pub async fn hold_orphan(&self, access: &Access, hold: &Hold) -> Result<(), Error> {
        operator(access)?;
        let kind = self.scope_kind().map_or(0, |kind| kind.0);
        let mut connection = self.operate().await?;
        let mut transaction = connection.begin().await.map_err(|error| unavailable(&error))?;
        ledger::lock(&mut transaction).await?;
        let writing = async {
            let found =
                "SELECT EXISTS (SELECT FROM objects WHERE kind = $1 AND namespace = '' AND name = $2)";
            let scope: bool =
                sqlx::query_scalar(found).bind(kind).bind(&hold.scope).fetch_one(&mut *transaction).await?;
            if scope {
                release(&mut transaction, hold.uid).await?;
                insert_orphan(&mut transaction, hold).await?;
            }
            transaction.commit().await?;
            Ok(scope)
        };
        let scope = writing.await.map_err(|error: sqlx::Error| unavailable(&error))?;
        if scope { Ok(()) } else { Err(Error::NotFound) }
    }

    async fn operate(&self) -> Result<PgConnection, Error> {
        connect::connect(self.url(), "store operator").await.map_err(|error| unavailable(&error))
    }
}

/// Takes a hold out of the ledger; tells how many rows it had.
async fn release(connection: &mut PgConnection, uid: Uuid) -> Result<u64, sqlx::Error> {
    let lowered = "UPDATE ledger g SET allocated = g.allocated - h.amount, children = g.children - h.carried::int, \
         ceiling = CASE WHEN g.allocated - h.amount > g.hard THEN g.allocated - h.amount END \
         FROM holds h WHERE h.uid = $1 AND g.scope = h.scope AND g.cluster = h.cluster AND g.resource = h.resource";
    let empty = "DELETE FROM ledger g USING holds h WHERE h.uid = $1 AND g.scope = h.scope AND NOT g.listed \
         AND g.limits = 0 AND g.children = 0 AND g.hard IS NULL AND g.allocated = 0";
    for statement in [lowered, empty, "DELETE FROM claims WHERE uid = $1"] {
        sqlx::query(statement).bind(uid).execute(&mut *connection).await?;
    }
    let gone = sqlx::query("DELETE FROM holds WHERE uid = $1").bind(uid).execute(connection).await?;
    Ok(gone.rows_affected())
}

async fn insert_orphan(connection: &mut PgConnection, hold: &Hold) -> Result<(), sqlx::Error> {
    let mut rows = vec![("", "", "0".to_owned())];
    for (cluster, amounts) in &hold.amounts {
        rows.push((cluster, "", "0".to_owned()));
        rows.extend(amounts.iter().map(|(resource, amount)| (&**cluster, &**resource, amount.nanos_text())));
    }
    let insert = "INSERT INTO holds (uid, scope, cluster, resource, amount, carried, namespace, state, reason) \
         VALUES ($1, $2, $3, $4, $5::text::numeric, true, $6, 'orphaned', $7)";
    let charge = "INSERT INTO ledger AS g (scope, cluster, resource, children, allocated) \
         VALUES ($1, $2, $3, 1, $4::text::numeric) ON CONFLICT (scope, cluster, resource) DO UPDATE SET \
         children = g.children + 1, allocated = g.allocated + excluded.allocated, \
         ceiling = CASE WHEN g.allocated + excluded.allocated > g.hard THEN g.allocated + excluded.allocated END";
    let namespace = hold.claim.as_ref().map_or("", |claim| &*claim.namespace);
    for (cluster, resource, amount) in rows {
        sqlx::query(insert)
            .bind(hold.uid)
            .bind(&hold.scope)
            .bind(cluster)
            .bind(resource)
            .bind(&amount)
            .bind(namespace)
            .bind(&hold.reason)
            .execute(&mut *connection)
            .await?;
        sqlx::query(charge)
            .bind(&hold.scope)
            .bind(cluster)
            .bind(resource)
            .bind(&amount)
            .execute(&mut *connection)
            .await?;
    }
    if let Some(claim) = &hold.claim {
        let query = "INSERT INTO claims (cluster, namespace, uid, kind, object_ns, object_name) \
             VALUES ($1, $2, $3, 0, '', '') ON CONFLICT DO NOTHING";
        sqlx::query(query)
            .bind(&claim.cluster)
            .bind(&claim.namespace)
            .bind(hold.uid)
            .execute(connection)
            .await?;
    }
    Ok(())
}

impl Stored {
    fn begin(&self) -> Hold {
        Hold {
            uid: self.uid,
            scope: self.scope.clone(),
            claim: None,
            amounts: Amounts::new(),
            orphaned: self.state == "orphaned",
            reason: self.reason.clone(),
        }
    }

    fn add_to(self, hold: &mut Hold) -> Result<(), Error> {
        if self.cluster.is_empty() {
            return Ok(());
        }
        if !self.namespace.is_empty() {
            hold.claim = Some(Claim { cluster: self.cluster.clone(), namespace: self.namespace });
        }
        let amounts = hold.amounts.entry(self.cluster).or_default();
        if !self.resource.is_empty() {
            let amount = Quantity::from_nanos_text(&self.amount, Format::DecimalSi)
                .map_err(|error| Error::Corrupt(format!("hold {}: {error}", hold.uid)))?;
            amounts.insert(self.resource, amount);
        }
        Ok(())
    }
}
