//! Repairs the ledger from the objects, while writes go on.

use crate::audit::{Accounts, Difference, LedgerSurvey, OBJECT_COLUMNS, ObjectRow, require_operator};
use crate::connect::{self, unavailable};
use crate::ledger::{self, Row, RowKey};
use crate::model::Key;
use crate::scopes::ScopeRoles;
use crate::store::Store;
use crate::{Access, Error, functions};
use quota::{Account, Claim, Scope};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Most attempts of one repair. An attempt fails if another repair was made in between.
const ATTEMPTS_MAX: usize = 3;

/// How far a repair may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Allocations and children only rise. The audit does this by itself.
    Raise,
    /// Everything becomes what the objects say. An operator asks for this.
    Rebuild,
}

impl Store {
    /// Repairs the ledger and the claims, of one scope or of all, and returns the differences that were found.
    ///
    /// The differences are found in a snapshot and repaired in one short step. Writes go on meanwhile, and change rows
    /// by as much as their objects. If another repair was made in between, the differences are searched again, and
    /// after some attempts this fails with [`Error::Unavailable`]. [`Error::Corrupt`] if it cannot be known what
    /// `scope` is charged.
    pub async fn repair(
        &self,
        access: &Access,
        accounts: &dyn Accounts,
        scope: Option<&Scope>,
        repair: Repair,
    ) -> Result<Vec<Difference>, Error> {
        require_operator(access)?;
        for _attempt in 0..ATTEMPTS_MAX {
            if let Some(differences) = self.repair_once(accounts, scope, repair).await? {
                tracing::warn!(
                    actor = access.actor(),
                    scope = scope.map(tracing::field::display),
                    differences = differences.len(),
                    ?repair,
                    "repaired the ledger"
                );
                return Ok(differences);
            }
        }
        Err(Error::Unavailable("others repair the ledger all the time".to_owned()))
    }

    /// `None` if another repair was made since the snapshot.
    async fn repair_once(
        &self,
        accounts: &dyn Accounts,
        scope: Option<&Scope>,
        repair: Repair,
    ) -> Result<Option<Vec<Difference>>, Error> {
        let mut survey = self.compare_ledger(accounts).await?;
        if let Some(scope) = scope.filter(|scope| survey.indeterminate.contains(*scope)) {
            return Err(Error::Corrupt(format!(
                "what {scope} is charged cannot be known: look at the audit's report"
            )));
        }
        let about = |difference: &Difference| {
            let unclaimed = matches!(difference, Difference::Claim { found: None, .. });
            scope.is_none() || difference.scope() == scope || unclaimed
        };
        let differences: Vec<_> =
            std::mem::take(&mut survey.report.differences).into_iter().filter(about).collect();
        let changes = LedgerChanges::from_differences(&survey, &differences, repair);
        let mut connection = connect::connect(self.url(), "store repair").await.map_err(unavailable)?;
        let made = changes.apply(&mut connection, self.scope_roles(), survey.repairs).await;
        Ok(made.map_err(unavailable)?.then_some(differences))
    }

    /// Repairs the columns of an object's row from its body. True if something was wrong.
    pub async fn repair_object(
        &self,
        access: &Access,
        accounts: &dyn Accounts,
        key: &Key,
    ) -> Result<bool, Error> {
        require_operator(access)?;
        let mut connection = connect::connect(self.url(), "store repair").await.map_err(unavailable)?;
        let query = format!("{OBJECT_COLUMNS} WHERE kind = $1 AND namespace = $2 AND name = $3");
        let stored: Option<ObjectRow> = sqlx::query_as(AssertSqlSafe(query))
            .bind(key.kind.0)
            .bind(&*key.namespace)
            .bind(&*key.name)
            .fetch_optional(&mut connection)
            .await
            .map_err(unavailable)?;
        let stored = stored.ok_or(Error::NotFound)?;
        let account = accounts.account(key.kind, stored.body()).map_err(Error::Corrupt)?;
        let Some(account) = account.filter(|account| !stored.wrong_columns(account).is_empty()) else {
            return Ok(false);
        };
        // Only if the body is still the one that was read: a writer of another body has set the columns, too.
        let update = "UPDATE objects SET tenant = $4, scope_kind = $5, scope = $6, deleting = $7, locked = $8 \
             WHERE kind = $1 AND namespace = $2 AND name = $3 AND uid = $9 AND body = $10";
        let body = String::from_utf8_lossy(stored.body());
        sqlx::query(update)
            .bind(key.kind.0)
            .bind(&*key.namespace)
            .bind(&*key.name)
            .bind(account.tenant)
            .bind(account.pays.as_ref().map(|scope| scope.kind.0))
            .bind(account.pays.as_ref().map(|scope| &scope.name))
            .bind(account.deleting)
            .bind(account.locked)
            .bind(stored.uid())
            .bind(body)
            .execute(&mut connection)
            .await
            .map_err(unavailable)?;
        Ok(true)
    }
}

/// Changes of the ledger's rows, column by column, and claims to add.
#[derive(Debug, Default)]
pub(crate) struct LedgerChanges {
    kind: Vec<i16>,
    scope: Vec<String>,
    domain: Vec<String>,
    key: Vec<String>,
    children: Vec<i64>,
    allocated: Vec<String>,
    listed: Vec<bool>,
    mandatory: Vec<bool>,
    limits: Vec<i64>,
    hard: Vec<Option<String>>,
    old_listed: Vec<bool>,
    old_limits: Vec<i64>,
    old_hard: Vec<Option<String>>,
    claims: Vec<(Claim, Uuid)>,
}

impl LedgerChanges {
    fn from_differences(survey: &LedgerSurvey, differences: &[Difference], repair: Repair) -> Self {
        let had = ledger::inherited_excess(&survey.found, &survey.parents);
        let has = ledger::inherited_excess(&survey.expected, &survey.parents);
        let mut changes = Self::default();
        for difference in differences {
            match difference {
                Difference::Ledger { row, found, expected } => {
                    // Without inherited excess: the function carries excess upwards by itself, from the current rows.
                    let own = |row_of: &Row, inherited: &BTreeMap<RowKey, i128>| {
                        row_of.allocated - inherited.get(row).copied().unwrap_or_default()
                    };
                    let allocated = own(expected, &has) - own(found, &had);
                    changes.add(row, found, expected, allocated, repair);
                }
                Difference::Claim { claim, expected: Some(uid), .. } => {
                    changes.claims.push((claim.clone(), *uid));
                }
                Difference::Claim { .. } | Difference::Object { .. } | Difference::Cycle { .. } => {}
            }
        }
        changes
    }

    fn add(&mut self, key: &RowKey, found: &Row, expected: &Row, allocated: i128, repair: Repair) {
        let children = expected.children - found.children;
        let (children, allocated, limits) = match repair {
            Repair::Rebuild => (children, allocated, expected),
            Repair::Raise => (children.max(0), allocated.max(0), found),
        };
        self.kind.push(key.scope.kind.0);
        self.scope.push(key.scope.name.clone());
        self.domain.push(key.domain.clone());
        self.key.push(key.key.clone());
        self.children.push(children);
        self.allocated.push(allocated.to_string());
        self.listed.push(limits.listed);
        self.mandatory.push(limits.mandatory);
        self.limits.push(limits.limits);
        self.hard.push(limits.hard.map(|hard| hard.to_string()));
        self.old_listed.push(found.listed);
        self.old_limits.push(found.limits);
        self.old_hard.push(found.hard.map(|hard| hard.to_string()));
    }

    /// The changes that new objects make to the ledger.
    pub(crate) fn from_accounts<'a>(accounts: impl Iterator<Item = (Uuid, &'a Account)>) -> Self {
        let (mut changes, mut rows) = (Self::default(), ledger::Rows::new());
        for (uid, account) in accounts {
            ledger::add_account(&mut rows, account);
            changes.claims.extend(account.claims.iter().map(|claim| (claim.clone(), uid)));
        }
        let none = Row::default();
        for (key, row) in &rows {
            changes.add(key, &none, row, row.allocated, Repair::Rebuild);
        }
        changes
    }

    /// Applies the changes, unless the ledger was repaired more than `repairs` times. Returns whether it did.
    async fn apply(
        self,
        connection: &mut PgConnection,
        scope_roles: &ScopeRoles,
        repairs: i64,
    ) -> Result<bool, sqlx::Error> {
        let query = format!(
            "SELECT {}($1, $2, $3, $4, $5, $6, $7, $8::text[]::numeric[], $9, $10, $11, $12::text[]::numeric[], $13, $14, \
             $15::text[]::numeric[], $16, $17, $18)",
            functions::name("repair_ledger")
        );
        let query = sqlx::query(AssertSqlSafe(query)).bind(repairs).bind(scope_roles.kinds());
        self.bind(query).fetch_one(connection).await?.try_get(0)
    }

    /// Binds the arguments of `repair_ledger` behind the kinds.
    pub(crate) fn bind(self, query: Query<'_, Postgres, PgArguments>) -> Query<'_, Postgres, PgArguments> {
        let (claims, uids): (Vec<Claim>, Vec<Uuid>) = self.claims.into_iter().unzip();
        let (domains, places): (Vec<String>, Vec<String>) =
            claims.into_iter().map(|claim| (claim.domain, claim.place)).unzip();
        query
            .bind(self.kind)
            .bind(self.scope)
            .bind(self.domain)
            .bind(self.key)
            .bind(self.children)
            .bind(self.allocated)
            .bind(self.listed)
            .bind(self.mandatory)
            .bind(self.limits)
            .bind(self.hard)
            .bind(self.old_listed)
            .bind(self.old_limits)
            .bind(self.old_hard)
            .bind(domains)
            .bind(places)
            .bind(uids)
    }
}
