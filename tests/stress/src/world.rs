//! The objects of the test: scopes in a tree and items charged to them, with the least in their bodies that
//! the audit needs.

use meta::quantity::{Format, Quantity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::model::NewState;
use store::quota::{Account, Amounts, Claim, Grants, Limits, Scope, ScopeKind};
use store::{Attributes, Kind, ScopeRole};
use uuid::Uuid;

/// Member clusters.
pub(crate) const CLUSTERS: [&str; 2] = ["c1", "c2"];
/// Resources that every scope limits.
pub(crate) const RESOURCES: [&str; 2] = ["cpu", "pods"];
/// What scopes are.
const SCOPES: ScopeKind = ScopeKind(1);
/// The kind of their objects.
const SCOPE: &str = "Scope";
/// The tenant of everything.
const TENANT: &str = "t";

/// Whole units by resource.
pub(crate) type Units = BTreeMap<String, u64>;

/// What a body holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredBody {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    metadata: Metadata,
    /// Unique to this write: what was stored can be told from what was not.
    pub(crate) token: Uuid,
    /// The scope that is charged; empty for a root.
    pub(crate) scope: String,
    /// Whether the object is being deleted.
    pub(crate) deleting: bool,
    /// A scope's hard limits by cluster; an item's spec in its one cluster.
    pub(crate) hard: BTreeMap<String, Units>,
    /// An item's charge, the high-water mark. A scope is charged what it may give away.
    pub(crate) charge: BTreeMap<String, Units>,
    /// The cluster namespace that an item claims.
    pub(crate) claim: Option<(String, String)>,
    /// The list that an item was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) list: Option<List>,
}

/// Items that are made together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List {
    /// Which.
    pub(crate) id: Uuid,
    /// How many they are.
    pub(crate) size: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Metadata {
    name: String,
}

impl StoredBody {
    /// A scope with the same limits in each of its clusters.
    pub(crate) fn scope(name: &str, parent: &str, hard: BTreeMap<String, Units>) -> Self {
        let body = Self { scope: parent.to_owned(), charge: hard.clone(), hard, ..Self::named(SCOPE, name) };
        body.fresh()
    }

    /// An item of a scope in one cluster.
    pub(crate) fn item(name: &str, scope: &str, cluster: &str, hard: Units) -> Self {
        let hard = BTreeMap::from([(cluster.to_owned(), hard)]);
        let claim = Some((cluster.to_owned(), name.to_owned()));
        Self { scope: scope.to_owned(), charge: hard.clone(), hard, claim, ..Self::named("Item", name) }
            .fresh()
    }

    /// The same as a part of a list.
    pub(crate) fn in_list(self, list: List) -> Self {
        Self { list: Some(list), ..self }
    }

    fn named(kind: &str, name: &str) -> Self {
        let metadata = Metadata { name: name.to_owned() };
        Self { api_version: "stress/v1".to_owned(), kind: kind.to_owned(), metadata, ..Self::default() }
    }

    /// The same under a token of its own.
    pub(crate) fn fresh(mut self) -> Self {
        self.token = Uuid::new_v4();
        self
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// As the store takes it.
    pub(crate) fn state(&self) -> NewState {
        NewState { body: serde_json::to_string(self).unwrap_or_default(), account: self.account() }
    }

    /// What it means to the ledger: a scope is charged what it may give away, an item its high-water mark.
    pub(crate) fn account(&self) -> Account {
        let limits = |hard| Limits::new(hard, true);
        let domains = amounts(&self.hard).into_iter().map(|(domain, hard)| (domain, limits(hard))).collect();
        let is_scope = self.kind == SCOPE;
        Account {
            tenant: TENANT.to_owned(),
            deleting: self.deleting,
            locked: false,
            pays: (!self.scope.is_empty()).then(|| Scope::new(SCOPES, &self.scope)),
            costs: amounts(&self.charge),
            carries: self
                .hard
                .iter()
                .map(|(c, units)| (c.clone(), units.keys().cloned().collect()))
                .collect(),
            grants: is_scope.then(|| Grants { scope: Scope::new(SCOPES, self.name()), domains }),
            claims: self.claim.clone().into_iter().map(|(domain, place)| Claim { domain, place }).collect(),
        }
    }
}

fn amounts(units: &BTreeMap<String, Units>) -> Amounts {
    let quantity = |n: &u64| Quantity::from_nanos(i128::from(*n) * 1_000_000_000, Format::DecimalSi);
    units
        .iter()
        .map(|(cluster, units)| {
            (cluster.clone(), units.iter().map(|(r, n)| (r.clone(), quantity(n))).collect())
        })
        .collect()
}

/// The greater of both, key by key.
pub(crate) fn high_water(
    charge: &BTreeMap<String, Units>,
    hard: &BTreeMap<String, Units>,
) -> BTreeMap<String, Units> {
    let mut high = charge.clone();
    for (cluster, units) in hard {
        let slot = high.entry(cluster.clone()).or_default();
        for (resource, n) in units {
            let old = slot.entry(resource.clone()).or_default();
            *old = (*old).max(*n);
        }
    }
    high
}

/// One of the two kinds.
#[derive(Debug)]
pub(crate) struct TestKind {
    resource: &'static str,
    is_scope: bool,
}

impl TestKind {
    /// The kind of scopes.
    pub(crate) fn scopes() -> Self {
        Self { resource: "scopes", is_scope: true }
    }

    /// The kind of items.
    pub(crate) fn items() -> Self {
        Self { resource: "items", is_scope: false }
    }
}

impl Kind for TestKind {
    fn group(&self) -> &'static str {
        "stress"
    }

    fn resource(&self) -> &str {
        self.resource
    }

    fn stands_for(&self) -> Option<ScopeRole> {
        self.is_scope.then_some(ScopeRole { scope: SCOPES, required: true })
    }

    fn fields(&self) -> &'static [&'static str] {
        &["scope"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let scope = serde_json::from_slice::<StoredBody>(body).map(|b| b.scope).unwrap_or_default();
        Attributes { tenant: Some(TENANT.into()), fields: Box::new([scope.into()]), ..Attributes::default() }
    }
}
