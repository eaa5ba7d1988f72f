//! The rows of the ledger: computed from objects and holds, and read from the database.

use quota::{Account, Scope, ScopeKind};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The key of a row of the ledger. An empty name stands for a whole scope or domain.
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
    /// The scope lists the domain.
    pub listed: bool,
    /// An object that uses the domain must carry each of its limited keys.
    pub mandatory: bool,
    /// The number of keys of the domain with a limit.
    pub limits: i64,
    /// The number of children and holds that count in the row.
    pub children: i64,
    /// The limit; `None` if unlimited.
    pub hard: Option<i128>,
    /// The sum of the amounts of children and holds, and of the children's excess.
    pub allocated: i128,
    /// By how much `allocated` is above the limit.
    pub excess: i128,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listed, mandatory, limits, children, hard, allocated, excess } = self;
        write!(f, "listed {listed}, mandatory {mandatory}, limits {limits}, children {children}, ")?;
        write!(f, "allocated {allocated}n, excess {excess}n, hard ")?;
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
        row.mandatory = limits.mandatory;
        row.limits = i64::try_from(limits.hard.len()).unwrap_or(i64::MAX);
        for (key, hard) in &limits.hard {
            rows.entry(RowKey::new(&grants.scope, domain, key)).or_default().hard = Some(hard.nanos());
        }
    }
}

/// The rows of a ledger with these accounts.
pub fn of_accounts(accounts: &[Account]) -> Rows {
    let (mut rows, mut parents) = (Rows::new(), Parents::new());
    for account in accounts {
        add_account(&mut rows, account);
        if let (Some(grants), Some(parent)) = (&account.grants, &account.pays) {
            parents.insert(grants.scope.clone(), parent.clone());
        }
    }
    add_excess(&mut rows, &parents);
    rows
}

/// The scope that each scope pays.
pub(crate) type Parents = BTreeMap<Scope, Scope>;

/// The cycles of scopes that pay each other: in each cycle, every scope pays the next one, and the last one the first.
pub(crate) fn cycles(parents: &Parents) -> Vec<Vec<Scope>> {
    let (mut seen, mut cycles) = (BTreeSet::new(), Vec::new());
    for start in parents.keys() {
        let (mut path, mut next) = (Vec::new(), Some(start));
        while let Some(scope) = next.filter(|scope| seen.insert(*scope)) {
            path.push(scope);
            next = parents.get(scope);
        }
        if let Some(first) = next.and_then(|met| path.iter().position(|scope| *scope == met)) {
            cycles.push(path.into_iter().skip(first).cloned().collect());
        }
    }
    cycles
}

/// Carries excess upwards: an amount above a limit also counts in the scope that is paid.
pub(crate) fn add_excess(rows: &mut Rows, parents: &Parents) {
    let over = |row: &Row| row.hard.map_or(0, |hard| row.allocated.saturating_sub(hard).max(0));
    let mut changed: Vec<RowKey> =
        rows.iter().filter(|(_, row)| over(row) > 0).map(|(key, _)| key.clone()).collect();
    while let Some(key) = changed.pop() {
        let Some(row) = rows.get_mut(&key) else { continue };
        let more = over(row) - row.excess;
        row.excess = over(row);
        if let Some(parent) = parents.get(&key.scope).filter(|_| more != 0) {
            let above = RowKey { scope: parent.clone(), ..key };
            let row = rows.entry(above.clone()).or_default();
            row.allocated = row.allocated.saturating_add(more);
            changed.push(above);
        }
    }
}

/// The part of each row's allocation that is the excess of the scopes that pay it.
pub(crate) fn inherited_excess(rows: &Rows, parents: &Parents) -> BTreeMap<RowKey, i128> {
    let mut inherited = BTreeMap::new();
    for (key, row) in rows.iter().filter(|(_, row)| row.excess != 0) {
        if let Some(parent) = parents.get(&key.scope) {
            *inherited.entry(RowKey { scope: parent.clone(), ..key.clone() }).or_default() += row.excess;
        }
    }
    inherited
}

struct LedgerRow {
    scope_kind: i16,
    scope: String,
    domain: String,
    key: String,
    listed: bool,
    mandatory: bool,
    limits: i64,
    children: i64,
    hard: Option<String>,
    allocated: String,
    excess: String,
}

crate::row::columns!(LedgerRow {
    scope_kind,
    scope,
    domain,
    key,
    listed,
    mandatory,
    limits,
    children,
    hard,
    allocated,
    excess,
});

/// Reads all rows.
pub(crate) async fn read(connection: &mut PgConnection) -> Result<Rows, sqlx::Error> {
    let query = "SELECT scope_kind, scope, domain, key, listed, mandatory, limits, children, hard::text, \
         allocated::text, excess::text FROM ledger";
    let stored: Vec<LedgerRow> = sqlx::query_as(query).fetch_all(connection).await?;
    stored.into_iter().map(LedgerRow::row).collect()
}

/// Adds the amounts of the holds to the rows.
pub(crate) async fn add_holds(rows: &mut Rows, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let query = "SELECT scope_kind, scope, domain, key, false AS listed, false AS mandatory, 0::bigint AS limits, \
         sum(carried::int) AS children, NULL::text AS hard, sum(amount)::text AS allocated, '0' AS excess \
         FROM holds GROUP BY scope_kind, scope, domain, key";
    let stored: Vec<LedgerRow> = sqlx::query_as(query).fetch_all(connection).await?;
    for stored in stored {
        let (key, held) = stored.row()?;
        let row = rows.entry(key).or_default();
        row.children += held.children;
        row.allocated = row.allocated.saturating_add(held.allocated);
    }
    Ok(())
}

impl LedgerRow {
    fn row(self) -> Result<(RowKey, Row), sqlx::Error> {
        let amount = |text: &str| {
            text.parse::<i128>()
                .map_err(|error| sqlx::Error::Decode(format!("amount {text:?}: {error}").into()))
        };
        let row = Row {
            listed: self.listed,
            mandatory: self.mandatory,
            limits: self.limits,
            children: self.children,
            hard: self.hard.as_deref().map(amount).transpose()?,
            allocated: amount(&self.allocated)?,
            excess: amount(&self.excess)?,
        };
        let scope = Scope::new(ScopeKind(self.scope_kind), self.scope);
        Ok((RowKey { scope, domain: self.domain, key: self.key }, row))
    }
}
