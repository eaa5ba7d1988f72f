//! Compares the ledger, the claims and the columns of objects with the objects' bodies. It shares no sum with the
//! write path: it adds everything up again from the objects, in one snapshot.

use crate::connect::{self, unavailable};
use crate::ledger::{self, Parents, Row, RowKey, Rows};
use crate::model::{Key, KindId};
use crate::scopes::ScopeRoles;
use crate::store::Store;
use crate::{Access, Error, Revision, Visibility};
use futures_util::TryStreamExt as _;
use quota::{Account, Claim, Scope, ScopeKind};
use sqlx::{Connection as _, PgConnection, PgTransaction};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// Longest silence of the server while it sends the objects.
const SILENCE: Duration = Duration::from_secs(30);

/// Reads accounts out of bodies for the audit. The program that knows the kinds implements it.
pub trait Accounts: Send + Sync {
    /// The account of an object with this body; `None` for a kind that this program does not know. The error says what
    /// is wrong with the body.
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Option<Account>, String>;
}

/// A difference between the database and what the objects say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A row of the ledger.
    Ledger {
        /// The key of the row.
        row: RowKey,
        /// The row in the database.
        found: Row,
        /// The sum of the objects and holds.
        expected: Row,
    },
    /// A claim.
    Claim {
        /// The place.
        claim: Claim,
        /// The uid that has it.
        found: Option<Uuid>,
        /// The uid that should have it.
        expected: Option<Uuid>,
    },
    /// A row of the objects.
    Object {
        /// The object's key.
        key: Key,
        /// What is wrong.
        reason: String,
    },
    /// Scopes that pay each other in a cycle: no scope above grants what they give away, and their charges cannot be
    /// known.
    Cycle {
        /// Each pays the next, the last one the first.
        scopes: Vec<Scope>,
    },
}

impl Difference {
    /// The scope whose ledger it is about. For a cycle: one of its scopes.
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Ledger { row, .. } => Some(&row.scope),
            Self::Cycle { scopes } => scopes.first(),
            Self::Claim { .. } | Self::Object { .. } => None,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger { row, found, expected } => {
                write!(f, "ledger {row}: found {found}; expected {expected}")
            }
            Self::Claim { claim, found, expected } => {
                let Claim { domain, place } = claim;
                let holder =
                    |uid: &Option<Uuid>| uid.map_or_else(|| "nobody".to_owned(), |uid| uid.to_string());
                write!(f, "claim {domain}/{place}: held by {}; expected {}", holder(found), holder(expected))
            }
            Self::Object { key, reason } => {
                write!(f, "object {}/{} of kind {}: {reason}", key.namespace, key.name, key.kind.0)
            }
            Self::Cycle { scopes } => {
                let names: Vec<&str> =
                    scopes.iter().chain(scopes.first()).map(|scope| scope.name.as_str()).collect();
                write!(f, "circle of scopes: {}: one of them needs another parent", names.join(" pays "))
            }
        }
    }
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// The revision of the audit's snapshot.
    pub revision: Revision,
    /// The number of objects that were read.
    pub objects: u64,
    /// All differences; empty if all is well.
    pub differences: Vec<Difference>,
    /// The number of objects of kinds that this program does not know, by kind: a later release writes, too. The audit
    /// neither judges nor repairs the scopes that they pay.
    pub unknown: BTreeMap<KindId, u64>,
}

/// A row of `objects`.
#[derive(Debug)]
pub(crate) struct ObjectRow {
    kind: i16,
    namespace: String,
    name: String,
    uid: Uuid,
    tenant: String,
    scope_kind: Option<i16>,
    scope: Option<String>,
    deleting: bool,
    locked: bool,
    body: String,
}

crate::row::columns!(ObjectRow {
    kind,
    namespace,
    name,
    uid,
    tenant,
    scope_kind,
    scope,
    deleting,
    locked,
    body
});

pub(crate) const OBJECT_COLUMNS: &str =
    "SELECT kind, namespace, name, uid, tenant, scope_kind, scope, deleting, locked, body FROM objects";

impl Store {
    /// Audits everything in one snapshot, while writes go on.
    pub async fn audit(&self, access: &Access, accounts: &dyn Accounts) -> Result<AuditReport, Error> {
        require_operator(access)?;
        Ok(self.compare_ledger(accounts).await?.report)
    }

    pub(crate) async fn compare_ledger(&self, accounts: &dyn Accounts) -> Result<LedgerSurvey, Error> {
        let taking = async {
            let mut connection = connect::connect(self.url(), "store audit").await?;
            let limits = "SET statement_timeout = '10min'; SET idle_in_transaction_session_timeout = '10min'";
            sqlx::raw_sql(limits).execute(&mut connection).await?;
            let mut snapshot =
                connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            let survey = LedgerSurvey::take(&mut snapshot, accounts, self.scope_roles()).await?;
            snapshot.rollback().await?;
            Ok::<_, sqlx::Error>(survey)
        };
        taking.await.map_err(unavailable)
    }
}

/// Fails unless the caller sees everything: only such a caller may do what concerns all tenants.
pub(crate) fn require_operator(access: &Access) -> Result<(), Error> {
    if *access.visibility() == Visibility::Everything { Ok(()) } else { Err(Error::NotFound) }
}

/// The ledger of one snapshot, and what it should be.
#[derive(Debug, Default)]
pub(crate) struct LedgerSurvey {
    pub(crate) report: AuditReport,
    /// How often the ledger was repaired before the snapshot.
    pub(crate) repairs: i64,
    pub(crate) found: Rows,
    pub(crate) expected: Rows,
    pub(crate) parents: Parents,
    pub(crate) claims: BTreeMap<Claim, Uuid>,
    /// Scopes whose charges cannot be known, with the scopes above them: an object that pays them is of an unknown kind
    /// or cannot be read, or they are in a cycle.
    pub(crate) indeterminate: BTreeSet<Scope>,
    /// The objects of unknown kinds, and those that cannot be read.
    unreadable: BTreeSet<Uuid>,
}

impl LedgerSurvey {
    async fn take(
        snapshot: &mut PgTransaction<'_>,
        accounts: &dyn Accounts,
        scope_roles: &ScopeRoles,
    ) -> Result<Self, sqlx::Error> {
        let mut survey = Self::default();
        let counters = sqlx::query_as("SELECT v, repairs FROM rev").fetch_one(&mut **snapshot).await?;
        let (revision, repairs): (i64, i64) = counters;
        survey.repairs = repairs;
        survey.report.revision = Revision(u64::try_from(revision).unwrap_or_default());
        {
            let mut stream = sqlx::query_as::<_, ObjectRow>(OBJECT_COLUMNS).fetch(&mut **snapshot);
            while let Some(stored) = connect::within(SILENCE, stream.try_next()).await? {
                survey.report.objects += 1;
                if let Err(reason) = survey.add(&stored, accounts) {
                    survey.report.differences.push(Difference::Object { key: stored.key(), reason });
                }
            }
        }
        ledger::add_holds(&mut survey.expected, snapshot).await?;
        survey.break_cycles();
        ledger::add_excess(&mut survey.expected, &survey.parents);
        // When several holds name one place, one of them has the claim.
        let held = "SELECT DISTINCT ON (h.domain, h.place) h.domain, h.place, h.uid \
             FROM holds h LEFT JOIN claims c ON c.domain = h.domain AND c.place = h.place \
             WHERE h.place <> '' AND h.domain <> '' \
             ORDER BY h.domain, h.place, c.uid IS DISTINCT FROM h.uid, h.created, h.uid";
        for (claim, uid) in claims(snapshot, held).await? {
            // An object at the same place has the claim.
            survey.claims.entry(claim).or_insert(uid);
        }
        survey.found = ledger::read(snapshot).await?;
        let claims = claims(snapshot, "SELECT domain, place, uid FROM claims").await?;
        survey.include_ancestors();
        survey.compare(scope_roles, &claims);
        Ok(survey)
    }

    /// Adds an object. The error says what is wrong with its row.
    fn add(&mut self, stored: &ObjectRow, accounts: &dyn Accounts) -> Result<(), String> {
        let kind = KindId(stored.kind);
        let account = accounts.account(kind, stored.body.as_bytes());
        let Ok(Some(account)) = account else {
            self.unreadable.insert(stored.uid);
            self.indeterminate.extend(stored.scope());
            return account.map(|_none| *self.report.unknown.entry(kind).or_default() += 1);
        };
        ledger::add_account(&mut self.expected, &account);
        let mut wrong = stored.wrong_columns(&account);
        if let (Some(grants), Some(pays)) = (account.grants, account.pays) {
            self.parents.insert(grants.scope, pays);
        }
        for claim in account.claims {
            if let Some(other) = self.claims.insert(claim, stored.uid) {
                wrong.push(format!("claims what {other} claims"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Removes the cycles from the tree of scopes, so that every walk upwards ends.
    fn break_cycles(&mut self) {
        for scopes in ledger::cycles(&self.parents) {
            for scope in &scopes {
                self.parents.remove(scope);
                self.indeterminate.insert(scope.clone());
            }
            self.report.differences.push(Difference::Cycle { scopes });
        }
    }

    /// Adds the scopes above an indeterminate scope: they are indeterminate, too.
    fn include_ancestors(&mut self) {
        let mut below: Vec<Scope> = self.indeterminate.iter().cloned().collect();
        while let Some(scope) = below.pop() {
            if let Some(parent) = self.parents.get(&scope)
                && self.indeterminate.insert(parent.clone())
            {
                below.push(parent.clone());
            }
        }
    }

    /// Whether it is known which objects pay a scope and grant to it.
    fn is_determinate(&self, scope: &Scope, scope_roles: &ScopeRoles) -> bool {
        let known = self.report.unknown.is_empty() || scope_roles.kind_of(scope).is_some();
        known && !self.indeterminate.contains(scope)
    }

    fn compare(&mut self, scope_roles: &ScopeRoles, claims: &BTreeMap<Claim, Uuid>) {
        let keys: BTreeSet<&RowKey> = self.found.keys().chain(self.expected.keys()).collect();
        let mut differences = Vec::new();
        for row in keys.into_iter().filter(|row| self.is_determinate(&row.scope, scope_roles)) {
            let found = self.found.get(row).copied().unwrap_or_default();
            let expected = self.expected.get(row).copied().unwrap_or_default();
            if found != expected {
                differences.push(Difference::Ledger { row: row.clone(), found, expected });
            }
        }
        let places: BTreeSet<&Claim> = claims.keys().chain(self.claims.keys()).collect();
        for claim in places {
            let (found, expected) = (claims.get(claim).copied(), self.claims.get(claim).copied());
            if found != expected && !found.is_some_and(|uid| self.unreadable.contains(&uid)) {
                differences.push(Difference::Claim { claim: claim.clone(), found, expected });
            }
        }
        self.report.differences.extend(differences);
    }
}

async fn claims(
    connection: &mut PgConnection,
    query: &'static str,
) -> Result<BTreeMap<Claim, Uuid>, sqlx::Error> {
    let rows: Vec<(String, String, Uuid)> = sqlx::query_as(query).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(domain, place, uid)| (Claim { domain, place }, uid)).collect())
}

impl ObjectRow {
    pub(crate) fn key(&self) -> Key {
        Key::new(KindId(self.kind), &self.namespace, &self.name)
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.body.as_bytes()
    }

    pub(crate) fn uid(&self) -> Uuid {
        self.uid
    }

    fn scope(&self) -> Option<Scope> {
        Some(Scope::new(ScopeKind(self.scope_kind?), self.scope.as_deref()?))
    }

    /// The columns that differ from the body's account.
    pub(crate) fn wrong_columns(&self, account: &Account) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.tenant != account.tenant {
            wrong.push(format!("tenant is {:?} in the row, {:?} in the body", self.tenant, account.tenant));
        }
        if self.scope() != account.pays {
            wrong.push(format!("scope is {:?} in the row, {:?} in the body", self.scope(), account.pays));
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

#[cfg(test)]
mod tests {
    use super::*;
    use quota::ScopeKind;

    #[test]
    fn all_ancestors_of_all_indeterminate_scopes_are_indeterminate() {
        let scope = |name: &str| Scope::new(ScopeKind(1), name);
        let mut survey = LedgerSurvey::default();
        for (child, parent) in [("a", "b"), ("b", "c"), ("y", "z")] {
            survey.parents.insert(scope(child), scope(parent));
        }
        // The last one, which has no parent, is looked at first.
        survey.indeterminate = ["a", "y", "~"].map(scope).into();
        survey.include_ancestors();
        assert_eq!(survey.indeterminate, ["a", "b", "c", "y", "z", "~"].map(scope).into());
    }
}
