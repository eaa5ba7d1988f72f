//! Brings the ledger back to what the objects say, one scope a transaction, while writes go on.

use crate::audit::{Accounts, Difference, Expected, OBJECT_COLUMNS, Stored, compare, operator};
use crate::connect::{self, unavailable};
use crate::ledger::{self, Row};
use crate::model::Key;
use crate::store::Store;
use crate::{Access, Error};
use quota::Scope;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgTransaction};

/// How far a repair may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Allocations and children only rise: what the audit does by itself.
    Raise,
    /// Everything becomes what the objects say: what an operator asks for.
    Rebuild,
}

impl Store {
    /// Repairs the ledger of a scope and the claims of its children, and tells what was different before.
    pub async fn repair(
        &self,
        access: &Access,
        accounts: &dyn Accounts,
        scope: &Scope,
        repair: Repair,
    ) -> Result<Vec<Difference>, Error> {
        operator(access)?;
        let mut connection =
            connect::connect(self.url(), "store repair").await.map_err(|error| unavailable(&error))?;
        let mut transaction = connection.begin().await.map_err(|error| unavailable(&error))?;
        ledger::lock(&mut transaction).await?;
        let expected = self.expected(&mut transaction, accounts, scope).await?;
        let found = ledger::read(&mut transaction, scope.kind, Some(&scope.name))
            .await
            .map_err(|error| unavailable(&error))?;
        let differences = compare(&found, &expected.rows);
        let repairing = async {
            for difference in &differences {
                write_row(&mut transaction, difference, repair).await?;
            }
            for (claim, uid) in &expected.claims {
                let query = "INSERT INTO claims (cluster, namespace, uid, kind, object_ns, object_name) \
                     SELECT $1, $2, uid, kind, namespace, name FROM objects WHERE uid = $3 AND scope = $4 \
                     ON CONFLICT DO NOTHING";
                sqlx::query(query)
                    .bind(&claim.domain)
                    .bind(&claim.place)
                    .bind(uid)
                    .bind(&scope.name)
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        };
        repairing.await.map_err(|error| unavailable(&error))?;
        tracing::warn!(
            actor = access.actor(),
            %scope,
            differences = differences.len(),
            ?repair,
            "repaired a ledger"
        );
        Ok(differences)
    }

    /// Brings the columns of an object's row to what its body says. True when something was wrong.
    pub async fn repair_object(
        &self,
        access: &Access,
        accounts: &dyn Accounts,
        key: &Key,
    ) -> Result<bool, Error> {
        operator(access)?;
        let mut connection =
            connect::connect(self.url(), "store repair").await.map_err(|error| unavailable(&error))?;
        let mut transaction = connection.begin().await.map_err(|error| unavailable(&error))?;
        ledger::lock(&mut transaction).await?;
        let query = format!("{OBJECT_COLUMNS} WHERE kind = $1 AND namespace = $2 AND name = $3");
        let stored: Option<Stored> = sqlx::query_as(AssertSqlSafe(query))
            .bind(key.kind.0)
            .bind(&*key.namespace)
            .bind(&*key.name)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(|error| unavailable(&error))?;
        let stored = stored.ok_or(Error::NotFound)?;
        let account = accounts.account(key.kind, stored.body()).map_err(Error::Corrupt)?;
        let Some(account) = account else { return Ok(false) };
        let wrong = !stored.wrong_columns(&account).is_empty();
        let scope = account.pays.map(|scope| scope.name);
        let update = "UPDATE objects SET tenant = $4, scope = $5, deleting = $6, locked = $7 \
             WHERE kind = $1 AND namespace = $2 AND name = $3 AND uid = $8";
        let updating = async {
            sqlx::query(update)
                .bind(key.kind.0)
                .bind(&*key.namespace)
                .bind(&*key.name)
                .bind(account.tenant)
                .bind(scope)
                .bind(account.deleting)
                .bind(account.locked)
                .bind(stored.uid())
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await
        };
        updating.await.map_err(|error| unavailable(&error))?;
        Ok(wrong)
    }

    /// What the scope, its children and its holds add up to.
    async fn expected(
        &self,
        connection: &mut PgConnection,
        accounts: &dyn Accounts,
        scope: &Scope,
    ) -> Result<Expected, Error> {
        let kind = self.standings().kind_of(scope).map_or(0, |kind| kind.0);
        let query =
            format!("{OBJECT_COLUMNS} WHERE scope = $1 OR (kind = $2 AND namespace = '' AND name = $1)");
        let stored: Vec<Stored> = sqlx::query_as(AssertSqlSafe(query))
            .bind(&scope.name)
            .bind(kind)
            .fetch_all(&mut *connection)
            .await
            .map_err(|error| unavailable(&error))?;
        let mut expected = Expected::default();
        for stored in &stored {
            if let Err(reason) = expected.add(stored, accounts) {
                let key = stored.key();
                return Err(Error::Corrupt(format!("{}/{}: {reason}", key.namespace, key.name)));
            }
        }
        expected.rows.retain(|row, _| row.scope == *scope);
        ledger::add_holds(&mut expected.rows, connection, scope.kind, Some(&scope.name))
            .await
            .map_err(|error| unavailable(&error))?;
        Ok(expected)
    }
}

async fn write_row(
    transaction: &mut PgTransaction<'_>,
    difference: &Difference,
    repair: Repair,
) -> Result<(), sqlx::Error> {
    let Difference::Ledger { row: key, found, expected } = difference else { return Ok(()) };
    let row = match repair {
        Repair::Rebuild => *expected,
        Repair::Raise => Row {
            children: found.children.max(expected.children),
            allocated: found.allocated.max(expected.allocated),
            ..*found
        },
    };
    let query = "INSERT INTO ledger AS g (scope, cluster, resource, listed, limits, children, hard, allocated, ceiling) \
         VALUES ($1, $2, $3, $4, $5, $6, $7::text::numeric, $8::text::numeric, \
                 CASE WHEN $8::text::numeric > $7::text::numeric THEN $8::text::numeric END) \
         ON CONFLICT (scope, cluster, resource) DO UPDATE SET listed = excluded.listed, limits = excluded.limits, \
             children = excluded.children, hard = excluded.hard, allocated = excluded.allocated, ceiling = excluded.ceiling";
    sqlx::query(query)
        .bind(&key.scope.name)
        .bind(&key.domain)
        .bind(&key.key)
        .bind(row.listed)
        .bind(row.limits)
        .bind(row.children)
        .bind(row.hard.map(|hard| hard.to_string()))
        .bind(row.allocated.to_string())
        .execute(&mut **transaction)
        .await?;
    let empty = "DELETE FROM ledger WHERE scope = $1 AND cluster = $2 AND resource = $3 AND NOT listed \
         AND limits = 0 AND children = 0 AND hard IS NULL AND allocated = 0";
    sqlx::query(empty)
        .bind(&key.scope.name)
        .bind(&key.domain)
        .bind(&key.key)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}
