//! A second implementation of the ledger for the audit: charges and limits of objects in whole units, and their sums for
//! each row of each scope. It shares no code with the store.

use crate::world::{StoredBody, TestKind, Units};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// The kind of the scope of all member clusters.
pub(crate) const FLEET: i16 = 1;
/// The kind of the scope of a tenant.
pub(crate) const TENANT: i16 = 2;
/// The kind of the scope of a project.
pub(crate) const PROJECT: i16 = 3;

/// The domain that each project has beside its clusters.
pub(crate) const REGISTRY: &str = "registry";

/// More levels than any tree has. It ends the walk through a cycle of parents.
const LEVELS_MAX: usize = 100;

/// The name of a scope in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScopeName {
    pub(crate) kind: i16,
    pub(crate) name: String,
}

impl ScopeName {
    /// The scope of a kind and a name.
    pub(crate) fn new(kind: i16, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }
}

impl fmt::Display for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            FLEET => "fleet",
            TENANT => "tenant",
            PROJECT => "project",
            _ => "scope",
        };
        write!(f, "{word} {}", self.name)
    }
}

/// A row of a scope: a resource in a cluster; a cluster, if `resource` is empty; or the whole scope, if both are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) cluster: String,
    pub(crate) resource: String,
}

impl Cell {
    /// The row of a resource in a cluster.
    pub(crate) fn new(cluster: &str, resource: &str) -> Self {
        Self { cluster: cluster.to_owned(), resource: resource.to_owned() }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.resource)
    }
}

/// Whether a limit may be below what is allocated already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Undercut {
    /// It may not.
    #[default]
    Refused,
    /// Only where there was no limit before.
    WhereUnlimited,
    /// It may.
    Accepted,
}

/// The charge of an object in a row of its scope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) amount: i128,
    /// Whether the object names the row, also with the amount 0.
    pub(crate) carried: bool,
}

impl Cost {
    const NAMED: Self = Self { amount: 0, carried: true };
}

/// The effect of one object on the ledger.
#[derive(Clone, Debug, Default)]
pub(crate) struct BookEntry {
    /// The scope that the object is charged to.
    pub(crate) pays: Option<ScopeName>,
    /// The charges there.
    pub(crate) costs: BTreeMap<Cell, Cost>,
    /// The scope that the object sets limits of.
    pub(crate) grants: Option<ScopeName>,
    /// These limits. A listed cluster has a row without a resource.
    pub(crate) limits: BTreeMap<Cell, Option<i128>>,
    pub(crate) undercut: Undercut,
    /// Whether the object stands for the scope `grants`: a tenant or a project.
    pub(crate) is_scope: bool,
    /// Whether the scope accepts no growth, because it is locked or being deleted.
    pub(crate) is_closed: bool,
    /// The tenant of the object.
    pub(crate) tenant: String,
    /// The namespace of a cluster that the object claims: `resource` is its name.
    pub(crate) claim: Option<Cell>,
}

impl BookEntry {
    /// The effect of an object with this body.
    pub(crate) fn of(kind: TestKind, body: &StoredBody) -> Self {
        let is_closed = body.is_deleting() || body.status.locked == Some(true);
        let entry = Self { is_closed, tenant: body.tenant(kind).to_owned(), ..Self::default() };
        match kind {
            TestKind::Cluster => Self { is_closed, ..Self::cluster(body) },
            TestKind::Tenant => {
                let mut tenant = Self { undercut: Undercut::WhereUnlimited, ..entry };
                tenant.charge_to(ScopeName::new(FLEET, "fleet"));
                tenant.stand_for(ScopeName::new(TENANT, body.name()));
                tenant.charge_and_limit(body);
                tenant
            }
            TestKind::Project => {
                let (tenant, parent) = (&body.spec.tenant_id, &body.spec.parent_project_name);
                let mut project = entry;
                project.charge_to(match parent.as_str() {
                    "" => ScopeName::new(TENANT, tenant),
                    parent => ScopeName::new(PROJECT, parent),
                });
                project.stand_for(ScopeName::new(PROJECT, body.name()));
                project.charge_and_limit(body);
                project.add_costs(REGISTRY, &Units::new());
                project.add_limits(REGISTRY, &Units::new());
                project
            }
            TestKind::Namespace => {
                let spec = &body.spec;
                let claim = Cell::new(&spec.cluster_name, &spec.namespace);
                let mut namespace = Self { claim: Some(claim), ..entry };
                namespace.charge_to(ScopeName::new(PROJECT, &body.metadata.namespace));
                namespace.add_costs(&spec.cluster_name, &spec.hard);
                namespace.replace_costs(&spec.cluster_name, body.charge());
                namespace
            }
        }
    }

    /// A cluster limits the fleet to its explicit amounts and its derived ones. An amount that is not derived yet is 0.
    fn cluster(body: &StoredBody) -> Self {
        let mut hard = body.spec.hard.clone();
        for resource in body.spec.derived.resources.keys() {
            hard.insert(resource.clone(), body.status.capacity.get(resource).copied().unwrap_or_default());
        }
        let undercut =
            if body.spec.derived.is_empty() { Undercut::WhereUnlimited } else { Undercut::Accepted };
        let grants = Some(ScopeName::new(FLEET, "fleet"));
        let mut cluster = Self { grants, undercut, ..Self::default() };
        cluster.add_limits(body.name(), &hard);
        cluster
    }

    fn charge_to(&mut self, scope: ScopeName) {
        self.pays = Some(scope);
        self.costs.insert(Cell::default(), Cost::NAMED);
    }

    fn stand_for(&mut self, scope: ScopeName) {
        self.grants = Some(scope);
        self.is_scope = true;
    }

    /// A tenant or project is charged what it limits its own scope to.
    fn charge_and_limit(&mut self, body: &StoredBody) {
        for (cluster, hard) in &body.spec.clusters {
            self.add_costs(cluster, &hard.hard);
            self.add_limits(cluster, &hard.hard);
        }
    }

    fn add_costs(&mut self, cluster: &str, units: &Units) {
        self.costs.insert(Cell::new(cluster, ""), Cost::NAMED);
        let cost = |amount: &u64| Cost { amount: i128::from(*amount), carried: true };
        self.costs.extend(units.iter().map(|(key, amount)| (Cell::new(cluster, key), cost(amount))));
    }

    /// Replaces the amounts, but not which rows are named.
    fn replace_costs(&mut self, cluster: &str, charged: &Units) {
        for (cell, cost) in &mut self.costs {
            if !cell.resource.is_empty() {
                cost.amount = 0;
            }
        }
        for (key, amount) in charged {
            self.costs.entry(Cell::new(cluster, key)).or_default().amount = i128::from(*amount);
        }
    }

    fn add_limits(&mut self, cluster: &str, units: &Units) {
        self.limits.insert(Cell::new(cluster, ""), None);
        let hard = |(key, amount): (&String, &u64)| (Cell::new(cluster, key), Some(i128::from(*amount)));
        self.limits.extend(units.iter().map(hard));
    }
}

/// The sums of a row of a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BookRow {
    /// The number of objects and holds that name the row.
    pub(crate) children: i64,
    /// The sum of their charges.
    direct: i128,
    /// The sum of the excesses of the child scopes.
    inherited: i128,
    /// The limit.
    pub(crate) hard: Option<i128>,
    /// Whether the scope lists the cluster, in the row of a cluster.
    pub(crate) listed: bool,
}

impl BookRow {
    /// The sum that counts against the limit.
    pub(crate) fn total(&self) -> i128 {
        self.direct + self.inherited
    }

    /// The excess over the limit.
    pub(crate) fn excess(&self) -> i128 {
        self.hard.map_or(0, |hard| (self.total() - hard).max(0))
    }
}

/// The rows of a scope.
#[derive(Clone, Debug, Default)]
struct Book {
    pays: Option<ScopeName>,
    is_closed: bool,
    /// Its tenant; `None` if no object stands for the scope.
    owner: Option<String>,
    rows: BTreeMap<Cell, BookRow>,
}

/// A hold: an amount that is charged to a row without an object.
#[derive(Clone, Debug)]
pub(crate) struct HeldAmount {
    pub(crate) scope: ScopeName,
    pub(crate) cell: Cell,
    pub(crate) amount: i128,
    pub(crate) carried: bool,
}

/// The rows of all scopes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books(BTreeMap<ScopeName, Book>);

impl Books {
    /// The sums of a row.
    pub(crate) fn row(&self, scope: &ScopeName, cell: &Cell) -> BookRow {
        self.0.get(scope).and_then(|book| book.rows.get(cell)).copied().unwrap_or_default()
    }

    /// The rows of a scope.
    pub(crate) fn rows_of(&self, scope: &ScopeName) -> impl Iterator<Item = (&Cell, &BookRow)> {
        self.0.get(scope).into_iter().flat_map(|book| &book.rows)
    }

    /// All rows that are not empty.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&ScopeName, &Cell, &BookRow)> {
        let all = self.0.iter().flat_map(|(scope, book)| book.rows.iter().map(move |(c, r)| (scope, c, r)));
        all.filter(|(_, _, row)| **row != BookRow::default())
    }

    /// Whether the scope accepts no growth.
    pub(crate) fn is_closed(&self, scope: &ScopeName) -> bool {
        self.0.get(scope).is_some_and(|book| book.is_closed)
    }

    /// The tenant of a scope; `None` if no object stands for the scope.
    pub(crate) fn owner(&self, scope: &ScopeName) -> Option<&str> {
        self.0.get(scope).and_then(|book| book.owner.as_deref())
    }

    /// Replaces the effect of an object.
    fn replace(&mut self, before: Option<&BookEntry>, after: Option<&BookEntry>) {
        if let Some(before) = before {
            self.add_costs(before, -1);
            self.remove_limits(before);
        }
        if let Some(after) = after {
            self.add_costs(after, 1);
            self.set_limits(after);
        }
    }

    /// Adds a hold, or removes it if `sign` is -1.
    pub(crate) fn hold(&mut self, held: &HeldAmount, sign: i8) {
        self.update_row(&held.scope, &held.cell, |row| {
            row.direct += held.amount * i128::from(sign);
            row.children += i64::from(held.carried) * i64::from(sign);
        });
    }

    fn add_costs(&mut self, entry: &BookEntry, sign: i8) {
        let Some(scope) = &entry.pays else { return };
        for (cell, cost) in &entry.costs {
            self.update_row(scope, cell, |row| {
                row.direct += cost.amount * i128::from(sign);
                row.children += i64::from(cost.carried) * i64::from(sign);
            });
        }
    }

    fn remove_limits(&mut self, entry: &BookEntry) {
        let Some(scope) = &entry.grants else { return };
        for cell in entry.limits.keys() {
            self.update_row(scope, cell, |row| (row.hard, row.listed) = (None, false));
        }
        if entry.is_scope {
            let book = self.0.entry(scope.clone()).or_default();
            (book.is_closed, book.owner, book.pays) = (false, None, None);
        }
    }

    /// The parent changes first: without limits the scope has no excess that would count in a parent.
    fn set_limits(&mut self, entry: &BookEntry) {
        let Some(scope) = &entry.grants else { return };
        if entry.is_scope {
            let book = self.0.entry(scope.clone()).or_default();
            (book.is_closed, book.owner, book.pays) =
                (entry.is_closed, Some(entry.tenant.clone()), entry.pays.clone());
        }
        for (cell, hard) in &entry.limits {
            self.update_row(scope, cell, |row| (row.hard, row.listed) = (*hard, cell.resource.is_empty()));
        }
    }

    /// Changes a row and adds the change of its excess to the parent scopes.
    fn update_row(&mut self, scope: &ScopeName, cell: &Cell, change: impl FnOnce(&mut BookRow)) {
        let book = self.0.entry(scope.clone()).or_default();
        let row = book.rows.entry(cell.clone()).or_default();
        let before = row.excess();
        change(row);
        let more = row.excess() - before;
        let pays = book.pays.clone();
        self.add_excess(pays, cell, more);
    }

    fn add_excess(&mut self, mut to: Option<ScopeName>, cell: &Cell, mut more: i128) {
        for _level in 0..LEVELS_MAX {
            let Some(scope) = to.take().filter(|_| more != 0) else { return };
            let book = self.0.entry(scope).or_default();
            let row = book.rows.entry(cell.clone()).or_default();
            let before = row.excess();
            row.inherited += more;
            more = row.excess() - before;
            to.clone_from(&book.pays);
        }
    }
}

/// The effects of all objects by uid, and their sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    pub(crate) books: Books,
    pub(crate) entries: BTreeMap<Uuid, BookEntry>,
}

impl Census {
    /// Adds or replaces an object.
    pub(crate) fn put(&mut self, uid: Uuid, entry: BookEntry) {
        let before = self.entries.get(&uid);
        self.books.replace(before, Some(&entry));
        self.entries.insert(uid, entry);
    }

    /// Removes an object.
    pub(crate) fn take(&mut self, uid: Uuid) -> Option<BookEntry> {
        let entry = self.entries.remove(&uid)?;
        self.books.replace(Some(&entry), None);
        Some(entry)
    }

    /// Objects that do not name a resource that their scope limits, so that the limit would not apply to them.
    pub(crate) fn unlimited(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in self.entries.values() {
            let Some(scope) = &entry.pays else { continue };
            let names = |cell: &Cell| entry.costs.get(cell).is_some_and(|cost| cost.carried);
            for (cell, row) in self.books.rows_of(scope) {
                if row.hard.is_some() && names(&Cell::new(&cell.cluster, "")) && !names(cell) {
                    let who = entry.grants.as_ref().map(ToString::to_string).unwrap_or_default();
                    found.push(format!("{who} does not name {cell}, which {scope} limits"));
                }
            }
        }
        found
    }
}
