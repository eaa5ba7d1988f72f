//! The audit's own arithmetic: the charges and grants of objects in whole units, and their sums for each row of each
//! scope. It shares no code with the store.

use crate::world::{StoredBody, TestKind, Units};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// The scope of all clusters.
pub(crate) const FLEET: i16 = 1;
/// Tenants.
pub(crate) const TENANT: i16 = 2;
/// Projects.
pub(crate) const PROJECT: i16 = 3;

/// Every project names it beside its clusters.
pub(crate) const REGISTRY: &str = "registry";

/// Ends the walk of a cycle: no tree is deeper.
const LEVELS_MAX: usize = 100;

/// A scope, as the ledger names it.
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

/// A row of a scope: an amount in a cluster, the cluster as such, or the whole scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) cluster: String,
    pub(crate) resource: String,
}

impl Cell {
    /// The row of a resource in a cluster; empty names stand for the whole.
    pub(crate) fn new(cluster: &str, resource: &str) -> Self {
        Self { cluster: cluster.to_owned(), resource: resource.to_owned() }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.resource)
    }
}

/// When limits may be put below what counts against them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Undercuts {
    /// Never.
    #[default]
    Never,
    /// Where there was no limit.
    Unlimited,
    /// Whenever they are.
    Always,
}

/// What an object costs in a row of its scope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) amount: i128,
    /// The object names the row, and be it for nothing.
    pub(crate) carried: bool,
}

impl Cost {
    const NAMED: Self = Self { amount: 0, carried: true };
}

/// The effect of an object on the ledger.
#[derive(Clone, Debug, Default)]
pub(crate) struct BookEntry {
    /// The scope that it pays.
    pub(crate) pays: Option<ScopeName>,
    /// What it costs there.
    pub(crate) costs: BTreeMap<Cell, Cost>,
    /// The scope that it gives limits to.
    pub(crate) grants: Option<ScopeName>,
    /// Those limits; a cluster is listed by its own row.
    pub(crate) limits: BTreeMap<Cell, Option<i128>>,
    /// When its limits may be below what counts against them.
    pub(crate) undercuts: Undercuts,
    /// It is the scope that it gives limits to.
    pub(crate) stands: bool,
    /// It accepts no new charges.
    pub(crate) shut: bool,
    /// Whose it is.
    pub(crate) tenant: String,
    /// The cluster and the place there that it has for itself.
    pub(crate) place: Option<Cell>,
}

impl BookEntry {
    /// What a body says.
    pub(crate) fn of(kind: TestKind, body: &StoredBody) -> Self {
        let shut = body.is_deleting() || body.status.locked == Some(true);
        let said = Self { shut, tenant: body.tenant(kind).to_owned(), ..Self::default() };
        match kind {
            TestKind::Cluster => Self { shut, ..Self::cluster(body) },
            TestKind::Tenant => {
                let mut tenant = Self { undercuts: Undercuts::Unlimited, ..said };
                tenant.pay(ScopeName::new(FLEET, "fleet"));
                tenant.stand(ScopeName::new(TENANT, body.name()));
                tenant.carve(body);
                tenant
            }
            TestKind::Project => {
                let (tenant, parent) = (&body.spec.tenant_id, &body.spec.parent_project_name);
                let mut project = said;
                project.pay(match parent.as_str() {
                    "" => ScopeName::new(TENANT, tenant),
                    parent => ScopeName::new(PROJECT, parent),
                });
                project.stand(ScopeName::new(PROJECT, body.name()));
                project.carve(body);
                project.cost(REGISTRY, &Units::new());
                project.limit(REGISTRY, &Units::new());
                project
            }
            TestKind::Namespace => {
                let spec = &body.spec;
                let place = Cell::new(&spec.cluster_name, &spec.namespace);
                let mut namespace = Self { place: Some(place), ..said };
                namespace.pay(ScopeName::new(PROJECT, &body.metadata.namespace));
                namespace.cost(&spec.cluster_name, &spec.hard);
                namespace.charge(&spec.cluster_name, body.charge());
                namespace
            }
        }
    }

    /// A cluster gives what is explicit, and what was derived; of what is to be derived and was not, nothing.
    fn cluster(body: &StoredBody) -> Self {
        let mut hard = body.spec.hard.clone();
        for resource in body.spec.derived.resources.keys() {
            hard.insert(resource.clone(), body.status.capacity.get(resource).copied().unwrap_or_default());
        }
        let undercuts = if body.spec.derived.is_empty() { Undercuts::Unlimited } else { Undercuts::Always };
        let grants = Some(ScopeName::new(FLEET, "fleet"));
        let mut cluster = Self { grants, undercuts, ..Self::default() };
        cluster.limit(body.name(), &hard);
        cluster
    }

    fn pay(&mut self, scope: ScopeName) {
        self.pays = Some(scope);
        self.costs.insert(Cell::default(), Cost::NAMED);
    }

    fn stand(&mut self, scope: ScopeName) {
        self.grants = Some(scope);
        self.stands = true;
    }

    /// Charges exactly what it grants.
    fn carve(&mut self, body: &StoredBody) {
        for (cluster, hard) in &body.spec.clusters {
            self.cost(cluster, &hard.hard);
            self.limit(cluster, &hard.hard);
        }
    }

    fn cost(&mut self, cluster: &str, units: &Units) {
        self.costs.insert(Cell::new(cluster, ""), Cost::NAMED);
        let cost = |amount: &u64| Cost { amount: i128::from(*amount), carried: true };
        self.costs.extend(units.iter().map(|(key, amount)| (Cell::new(cluster, key), cost(amount))));
    }

    /// It costs other amounts than it names.
    fn charge(&mut self, cluster: &str, charged: &Units) {
        for (cell, cost) in &mut self.costs {
            if !cell.resource.is_empty() {
                cost.amount = 0;
            }
        }
        for (key, amount) in charged {
            self.costs.entry(Cell::new(cluster, key)).or_default().amount = i128::from(*amount);
        }
    }

    fn limit(&mut self, cluster: &str, units: &Units) {
        self.limits.insert(Cell::new(cluster, ""), None);
        let hard = |(key, amount): (&String, &u64)| (Cell::new(cluster, key), Some(i128::from(*amount)));
        self.limits.extend(units.iter().map(hard));
    }
}

/// What a row of a scope comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BookRow {
    /// Objects and holds that name it.
    pub(crate) children: i64,
    /// What they cost.
    direct: i128,
    /// What those of them that are scopes have above their limits.
    inherited: i128,
    /// The limit.
    pub(crate) hard: Option<i128>,
    /// Of the row of a cluster: the scope names it.
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

/// A scope.
#[derive(Clone, Debug, Default)]
struct Book {
    pays: Option<ScopeName>,
    shut: bool,
    /// Whose it is; nobody's where no object stands for it.
    owner: Option<String>,
    rows: BTreeMap<Cell, BookRow>,
}

/// An amount that counts without an object: the ledger's row, and what counts in it.
#[derive(Clone, Debug)]
pub(crate) struct HeldAmount {
    pub(crate) scope: ScopeName,
    pub(crate) cell: Cell,
    pub(crate) amount: i128,
    pub(crate) carried: bool,
}

/// All scopes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books(BTreeMap<ScopeName, Book>);

impl Books {
    /// A row.
    pub(crate) fn row(&self, scope: &ScopeName, cell: &Cell) -> BookRow {
        self.0.get(scope).and_then(|book| book.rows.get(cell)).copied().unwrap_or_default()
    }

    /// The rows of a scope.
    pub(crate) fn rows_of(&self, scope: &ScopeName) -> impl Iterator<Item = (&Cell, &BookRow)> {
        self.0.get(scope).into_iter().flat_map(|book| &book.rows)
    }

    /// Every row in which there is something.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&ScopeName, &Cell, &BookRow)> {
        let all = self.0.iter().flat_map(|(scope, book)| book.rows.iter().map(move |(c, r)| (scope, c, r)));
        all.filter(|(_, _, row)| **row != BookRow::default())
    }

    /// Whether the scope takes nothing new.
    pub(crate) fn is_shut(&self, scope: &ScopeName) -> bool {
        self.0.get(scope).is_some_and(|book| book.shut)
    }

    /// Whose the scope is; `None` where no object stands for it.
    pub(crate) fn owner(&self, scope: &ScopeName) -> Option<&str> {
        self.0.get(scope).and_then(|book| book.owner.as_deref())
    }

    /// Puts the second in the place of the first.
    pub(crate) fn change(&mut self, before: Option<&BookEntry>, after: Option<&BookEntry>) {
        if let Some(before) = before {
            self.count(before, -1);
            self.clear(before);
        }
        if let Some(after) = after {
            self.count(after, 1);
            self.set(after);
        }
    }

    /// Counts an amount without an object, or (`sign` -1) no longer.
    pub(crate) fn hold(&mut self, held: &HeldAmount, sign: i8) {
        self.shift(&held.scope, &held.cell, |row| {
            row.direct += held.amount * i128::from(sign);
            row.children += i64::from(held.carried) * i64::from(sign);
        });
    }

    fn count(&mut self, entry: &BookEntry, sign: i8) {
        let Some(scope) = &entry.pays else { return };
        for (cell, cost) in &entry.costs {
            self.shift(scope, cell, |row| {
                row.direct += cost.amount * i128::from(sign);
                row.children += i64::from(cost.carried) * i64::from(sign);
            });
        }
    }

    fn clear(&mut self, entry: &BookEntry) {
        let Some(scope) = &entry.grants else { return };
        for cell in entry.limits.keys() {
            self.shift(scope, cell, |row| (row.hard, row.listed) = (None, false));
        }
        if entry.stands {
            let book = self.0.entry(scope.clone()).or_default();
            (book.shut, book.owner, book.pays) = (false, None, None);
        }
    }

    /// Whom a scope pays changes while it has no limits, so that nothing of it counts above.
    fn set(&mut self, entry: &BookEntry) {
        let Some(scope) = &entry.grants else { return };
        if entry.stands {
            let book = self.0.entry(scope.clone()).or_default();
            (book.shut, book.owner, book.pays) = (entry.shut, Some(entry.tenant.clone()), entry.pays.clone());
        }
        for (cell, hard) in &entry.limits {
            self.shift(scope, cell, |row| (row.hard, row.listed) = (*hard, cell.resource.is_empty()));
        }
    }

    /// Changes a row; what lies above its limit counts above.
    fn shift(&mut self, scope: &ScopeName, cell: &Cell, change: impl FnOnce(&mut BookRow)) {
        let book = self.0.entry(scope.clone()).or_default();
        let row = book.rows.entry(cell.clone()).or_default();
        let before = row.excess();
        change(row);
        let more = row.excess() - before;
        let pays = book.pays.clone();
        self.carry(pays, cell, more);
    }

    fn carry(&mut self, mut to: Option<ScopeName>, cell: &Cell, mut more: i128) {
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

/// Objects by uid, with what they add up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    pub(crate) books: Books,
    pub(crate) entries: BTreeMap<Uuid, BookEntry>,
}

impl Census {
    /// Puts an object in its place.
    pub(crate) fn put(&mut self, uid: Uuid, entry: BookEntry) {
        let before = self.entries.get(&uid);
        self.books.change(before, Some(&entry));
        self.entries.insert(uid, entry);
    }

    /// Takes an object away.
    pub(crate) fn take(&mut self, uid: Uuid) -> Option<BookEntry> {
        let entry = self.entries.remove(&uid)?;
        self.books.change(Some(&entry), None);
        Some(entry)
    }

    /// Objects that do not name what their scope limits: nothing keeps them within it.
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
