//! What is allocated of the limits of each scope, kept from the store's watch. It is a moment behind, and only a hint
//! for warnings and messages: the ledger decides what is admitted.

use crate::accounts::{KindAccounts, ReadAccount};
use crate::follow::{ObjectIndex, SharedIndex};
use business_types::account::{TENANT, fleet, scope_word};
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{HeldAmount, LedgerStatus};
use meta::quantity::{Quantity, ResourceList};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLockReadGuard};
use store::quota::{Account, Amounts, Grants, Scope};
use store::{Entry, KindId, Store};
use uuid::Uuid;

/// A write is warned if it allocates at least this percentage of a limit.
const WARN_PERCENT: i128 = 80;
/// From this percentage on, the warning says that the limit is almost used up.
const ALMOST_FULL_PERCENT: i128 = 95;
/// A stored body without this text has no holds in its status.
const LEDGER_FIELD: &str = "\"ledger\"";

/// What is allocated of every scope's limits. Each kind has an index of its own, so that each can be rebuilt by itself.
#[derive(Clone, Debug, Default)]
pub struct Allocations(Arc<[KindAllocations]>);

#[derive(Debug)]
struct KindAllocations {
    kind: KindId,
    index: SharedIndex<AllocationIndex>,
}

/// What is held against a limit without an object, as the status of the scope's object reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAllocation {
    /// The sum of the holds.
    pub amount: Quantity,
    /// The namespaces of the cluster that the holds are for, each with its state.
    pub namespaces: Vec<String>,
}

/// The sums over the objects of one kind.
#[derive(Debug)]
struct AllocationIndex {
    read: ReadAccount,
    objects: HashMap<Uuid, ObjectShare>,
    scopes: HashMap<Arc<Scope>, ScopeSums>,
}

/// The sums of one scope.
#[derive(Debug, Default)]
struct ScopeSums {
    limits: Amounts,
    allocated: Amounts,
    /// How many children use each domain, even without an amount.
    children: BTreeMap<Box<str>, u64>,
    holds: Vec<HeldAmount>,
}

/// What an object adds to the sums. It is packed without the spare capacity of maps, since there is one for each
/// namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct ObjectShare {
    pays: Option<Arc<Scope>>,
    costs: PackedAmounts,
    grants: Option<Box<GrantedLimits>>,
}

/// Amounts by domain and key.
type PackedAmounts = Box<[(Box<str>, Box<[(Box<str>, Quantity)]>)]>;

/// What an object adds to the scope that it sets the limits of.
#[derive(Debug, PartialEq, Eq)]
struct GrantedLimits {
    scope: Arc<Scope>,
    limits: Amounts,
    holds: Vec<HeldAmount>,
}

/// Identifies one limit.
#[derive(Clone, Copy)]
struct LimitKey<'a> {
    scope: &'a Scope,
    domain: &'a str,
    key: &'a str,
}

impl Allocations {
    /// The allocations of the scopes that the objects of these kinds pay or stand for.
    pub fn new(kinds: impl IntoIterator<Item = KindAccounts>) -> Self {
        let of_kind = |KindAccounts { kind, read }| KindAllocations {
            kind,
            index: SharedIndex::new(AllocationIndex::new(read)),
        };
        Self(kinds.into_iter().map(of_kind).collect())
    }

    /// The warnings for a write that raises a charge: limits that are almost used up by it.
    pub fn warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        let Some(scope) = &after.pays else { return Vec::new() };
        let before = before.filter(|before| before.pays == after.pays).map(|before| &before.costs);
        let all = self.read();
        let sums = all.sums(scope);
        let mut warnings = Vec::new();
        for (domain, amounts) in &after.costs {
            for (key, amount) in amounts {
                let limit = LimitKey { scope, domain, key };
                let own = before.map_or(Quantity::ZERO, |costs| limit.of(costs));
                if *amount > own {
                    warnings.extend(sums.warning(limit, *amount, own));
                }
            }
        }
        warnings
    }

    /// What is held against a limit without an object; `None` if nothing is.
    pub fn held(&self, scope: &Scope, domain: &str, key: &str) -> Option<HeldAllocation> {
        let all = self.read();
        let sums = all.sums(scope);
        let mut held = HeldAllocation { amount: Quantity::ZERO, namespaces: Vec::new() };
        for (hold, amount) in sums.holds(LimitKey { scope, domain, key }) {
            held.amount = held.amount.checked_add(amount)?;
            held.namespaces.push(name_of(hold));
        }
        (!held.amount.is_zero()).then_some(held)
    }

    /// The namespaces of a cluster that count as children of a scope without an object, each with its state. With
    /// `lacking`, only those for which nothing of this key is held.
    pub fn held_children(&self, scope: &Scope, domain: &str, lacking: Option<&str>) -> Vec<String> {
        let all = self.read();
        let holds = all.scope(scope).flat_map(|sums| &sums.holds);
        holds
            .filter(|hold| hold.cluster_name == domain)
            .filter(|hold| lacking.is_none_or(|key| !hold.hard.contains_key(key)))
            .map(name_of)
            .collect()
    }

    /// What is left of a limit; `None` if there is no limit.
    pub fn remaining(&self, scope: &Scope, domain: &str, key: &str) -> Option<Quantity> {
        let all = self.read();
        let sums = all.sums(scope);
        let limit = LimitKey { scope, domain, key };
        let left = sums.hard(limit)?.checked_sub(sums.allocated(limit)?)?;
        Some(if left.is_negative() { Quantity::ZERO } else { left })
    }

    /// What is allocated in a domain of a scope, by key.
    pub fn allocated(&self, scope: &Scope, domain: &str) -> ResourceList {
        let all = self.read();
        let by_kind = all.scope(scope).filter_map(|sums| sums.allocated.get(domain));
        let mut total = ResourceList::new();
        for (key, amount) in by_kind.flatten() {
            let sum = total.entry(key.clone()).or_insert(Quantity::ZERO);
            *sum = amount.checked_add(*sum).unwrap_or(Quantity::MAX);
        }
        total
    }

    /// How many root projects a tenant has. Each of them uses the registry's domain, whether it is limited there or not.
    pub fn root_projects(&self, tenant: &str) -> u64 {
        let scope = Scope::new(TENANT, tenant);
        let all = self.read();
        let of_kind = |sums: &ScopeSums| sums.children.get(REGISTRY_DOMAIN).copied().unwrap_or_default();
        all.scope(&scope).map(of_kind).fold(0, u64::saturating_add)
    }

    /// The tenants that have root projects on a limited cluster and no ceiling there. What they take does not count
    /// against the cluster.
    pub fn unbounded_tenants(&self, cluster: &str) -> BTreeSet<String> {
        let all = self.read();
        let limits = |scope: &Scope| all.scope(scope).find_map(|sums| sums.limits.get(cluster));
        if limits(&fleet()).is_none_or(BTreeMap::is_empty) {
            return BTreeSet::new();
        }
        let scopes = all.0.iter().flat_map(|index| &index.scopes);
        let users =
            scopes.filter(|(scope, sums)| scope.kind == TENANT && sums.children.contains_key(cluster));
        users.filter(|(scope, _)| limits(scope).is_none()).map(|(scope, _)| scope.name.clone()).collect()
    }

    /// Whether a uid is that of a hold: against one scope, or against any scope if `scope` is `None`.
    pub fn is_hold(&self, uid: Uuid, scope: Option<&Scope>) -> bool {
        let all = self.read();
        let has_hold = |sums: &ScopeSums| sums.holds.iter().any(|hold| hold.uid.parse() == Ok(uid));
        match scope {
            Some(scope) => all.scope(scope).any(has_hold),
            None => all.0.iter().flat_map(|index| index.scopes.values()).any(has_hold),
        }
    }

    /// Follows all kinds for ever.
    pub async fn follow_all(self, store: Store) {
        let kinds = self.0.iter().map(|of| of.index.clone().follow(store.clone(), of.kind, "levels"));
        futures_util::future::join_all(kinds).await;
    }

    fn read(&self) -> AllKinds<'_> {
        AllKinds(self.0.iter().map(|of| of.index.read()).collect())
    }
}

impl LimitKey<'_> {
    fn of(self, amounts: &Amounts) -> Quantity {
        amounts.get(self.domain).and_then(|list| list.get(self.key)).copied().unwrap_or(Quantity::ZERO)
    }
}

/// The indexes of all kinds, locked for reading.
struct AllKinds<'a>(Vec<RwLockReadGuard<'a, AllocationIndex>>);

impl AllKinds<'_> {
    /// The sums of a scope, by kind.
    fn scope<'a>(&'a self, scope: &Scope) -> impl Iterator<Item = &'a ScopeSums> {
        self.0.iter().filter_map(|index| index.scopes.get(scope))
    }

    fn sums(&self, scope: &Scope) -> SumsByKind<'_> {
        SumsByKind(self.scope(scope).collect())
    }
}

/// The sums of one scope, by kind. The scope is looked up once for all of its limits.
struct SumsByKind<'a>(Vec<&'a ScopeSums>);

impl SumsByKind<'_> {
    fn hard(&self, limit: LimitKey<'_>) -> Option<Quantity> {
        self.0.iter().find_map(|sums| sums.limits.get(limit.domain)?.get(limit.key)).copied()
    }

    fn warning(&self, limit: LimitKey<'_>, amount: Quantity, own: Quantity) -> Option<String> {
        let LimitKey { scope, domain, key } = limit;
        let hard = self.hard(limit)?;
        let allocated = self.allocated(limit)?.checked_sub(own)?.checked_add(amount)?;
        let percent = allocated.nanos().checked_mul(100)?.checked_div(hard.nanos())?;
        let almost = if percent >= ALMOST_FULL_PERCENT { "almost used up: " } else { "" };
        (percent >= WARN_PERCENT && allocated <= hard).then(|| {
            let (word, name) = (scope_word(scope.kind), &scope.name);
            let place = match domain {
                REGISTRY_DOMAIN => "in the registry".to_owned(),
                cluster => format!("on cluster {cluster}"),
            };
            format!(
                "{almost}{percent}% of {key} of {word} {name} {place} is allocated: {allocated} of {hard}"
            )
        })
    }

    fn allocated(&self, limit: LimitKey<'_>) -> Option<Quantity> {
        let by_kind = self.0.iter().map(|sums| limit.of(&sums.allocated));
        let held = self.holds(limit).map(|(_, amount)| amount);
        by_kind.chain(held).try_fold(Quantity::ZERO, Quantity::checked_add)
    }

    fn holds<'a>(&'a self, limit: LimitKey<'a>) -> impl Iterator<Item = (&'a HeldAmount, Quantity)> {
        let of_scope = self.0.iter().flat_map(|sums| &sums.holds);
        of_scope
            .filter(move |hold| hold.cluster_name == limit.domain)
            .filter_map(move |hold| Some((hold, *hold.hard.get(limit.key)?)))
    }
}

impl ObjectIndex for AllocationIndex {
    fn new_empty(&self) -> Self {
        Self::new(self.read)
    }

    fn apply(&mut self, entry: &Entry, exists: bool) {
        if let Some(new) = self.changed_share(entry, exists) {
            self.set(entry, new);
        }
    }

    /// Only one task updates the index, so it does not change between the locks.
    fn apply_shared(shared: &SharedIndex<Self>, entry: &Entry, exists: bool) {
        let changed = shared.read().changed_share(entry, exists);
        if let Some(new) = changed {
            shared.update(|index| index.set(entry, new));
        }
    }
}

impl AllocationIndex {
    fn new(read: ReadAccount) -> Self {
        Self { read, objects: HashMap::new(), scopes: HashMap::new() }
    }

    /// What an object adds to the sums now; `None` if it adds the same as before.
    fn changed_share(&self, entry: &Entry, exists: bool) -> Option<ObjectShare> {
        let read = |entry: &Entry| {
            self.share(entry).map_err(|error| {
                tracing::error!(%error, kind = entry.key.kind.0, "a stored body does not read as its kind");
            })
        };
        let new = if exists { read(entry).unwrap_or_default() } else { ObjectShare::default() };
        (self.objects.get(&entry.uid) != Some(&new)).then_some(new)
    }

    fn set(&mut self, entry: &Entry, new: ObjectShare) {
        if let Some(old) = self.objects.remove(&entry.uid) {
            self.subtract(&old);
        }
        if new != ObjectShare::default() {
            self.add(&new);
            self.objects.insert(entry.uid, new);
        }
    }

    fn share(&self, entry: &Entry) -> Result<ObjectShare, serde_json::Error> {
        let Account { pays, costs, grants, .. } = (self.read)(&entry.body)?;
        let holds = if grants.is_some() { stored_holds(&entry.body)? } else { Vec::new() };
        let grants = grants.map(|Grants { scope, domains }| {
            let limits = domains.into_iter().map(|(domain, limits)| (domain, limits.hard)).collect();
            Box::new(GrantedLimits { scope: self.interned(scope), limits, holds })
        });
        Ok(ObjectShare { pays: pays.map(|scope| self.interned(scope)), costs: packed(costs), grants })
    }

    /// The scope as the index has it already, so that all objects share one copy.
    fn interned(&self, scope: Scope) -> Arc<Scope> {
        self.scopes.get_key_value(&scope).map_or_else(|| Arc::new(scope), |(known, _)| Arc::clone(known))
    }

    fn add(&mut self, share: &ObjectShare) {
        if let Some(scope) = &share.pays {
            let sums = self.scope_mut(scope);
            sums.allocate(&share.costs, i128::wrapping_add);
            for (domain, _) in &share.costs {
                *sums.children.entry(domain.clone()).or_default() += 1;
            }
        }
        if let Some(granted) = &share.grants {
            let sums = self.scope_mut(&granted.scope);
            sums.limits.extend(granted.limits.clone());
            sums.holds.extend(granted.holds.iter().cloned());
        }
    }

    fn subtract(&mut self, share: &ObjectShare) {
        if let Some(scope) = &share.pays {
            let sums = self.scope_mut(scope);
            sums.allocate(&share.costs, i128::wrapping_sub);
            for (domain, _) in &share.costs {
                sums.remove_child(domain);
            }
            self.remove_if_empty(scope);
        }
        if let Some(granted) = &share.grants {
            let sums = self.scope_mut(&granted.scope);
            sums.limits.retain(|domain, _| !granted.limits.contains_key(domain));
            sums.holds.retain(|hold| !granted.holds.contains(hold));
            self.remove_if_empty(&granted.scope);
        }
    }

    fn scope_mut(&mut self, scope: &Arc<Scope>) -> &mut ScopeSums {
        self.scopes.entry(Arc::clone(scope)).or_default()
    }

    fn remove_if_empty(&mut self, scope: &Scope) {
        let is_empty =
            |sums: &ScopeSums| sums.limits.is_empty() && sums.children.is_empty() && sums.holds.is_empty();
        if self.scopes.get(scope).is_some_and(is_empty) {
            self.scopes.remove(scope);
        }
    }
}

impl ScopeSums {
    fn remove_child(&mut self, domain: &str) {
        if let Some(children) = self.children.get_mut(domain) {
            *children = children.saturating_sub(1);
            if *children == 0 {
                self.children.remove(domain);
            }
        }
    }

    /// A sum may be greater than any amount in range, so that what is added can be subtracted again.
    fn allocate(&mut self, costs: &PackedAmounts, combine: fn(i128, i128) -> i128) {
        for (domain, amounts) in costs {
            let sums = self.allocated.entry(domain.to_string()).or_default();
            for (key, amount) in amounts {
                let sum = sums.entry(key.to_string()).or_insert(Quantity::ZERO);
                let format = if sum.is_zero() { amount.format() } else { sum.format() };
                *sum = Quantity::from_nanos(combine(sum.nanos(), amount.nanos()), format);
            }
            sums.retain(|_key, sum| !sum.is_zero());
        }
        self.allocated.retain(|_domain, sums| !sums.is_empty());
    }
}

/// A hold by its namespace and state. An excess beside an object has no namespace of its own; its reason names it.
fn name_of(hold: &HeldAmount) -> String {
    if hold.namespace.is_empty() {
        return hold.reason.clone();
    }
    format!("{} ({})", hold.namespace, hold.state)
}

fn packed(amounts: Amounts) -> PackedAmounts {
    let list = |list: ResourceList| list.into_iter().map(|(key, amount)| (key.into(), amount)).collect();
    amounts.into_iter().map(|(domain, amounts)| (domain.into(), list(amounts))).collect()
}

/// The holds that the status of a stored object reports.
fn stored_holds(body: &[u8]) -> Result<Vec<HeldAmount>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct StoredObject {
        status: Option<StoredStatus>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct StoredStatus {
        ledger: Option<LedgerStatus>,
    }
    if !std::str::from_utf8(body).is_ok_and(|body| body.contains(LEDGER_FIELD)) {
        return Ok(Vec::new());
    }
    let StoredObject { status } = serde_json::from_slice(body)?;
    Ok(status.and_then(|status| status.ledger).unwrap_or_default().held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::account::{self, PROJECT as SCOPE};
    use business_types::{ChargedNamespace, ChargedProject};
    use serde_json::{Value, json};
    use store::{Attributes, Key, Revision};

    const PROJECT: KindId = KindId(1);
    const NAMESPACE: KindId = KindId(2);

    fn allocations() -> Allocations {
        Allocations::new([
            KindAccounts { kind: PROJECT, read: account::of_stored::<ChargedProject> },
            KindAccounts { kind: NAMESPACE, read: account::of_stored::<ChargedNamespace> },
        ])
    }

    fn set(allocations: &Allocations, kind: KindId, namespace: &str, name: &str, body: Option<&Value>) {
        let entry = Entry {
            key: Key::new(kind, namespace, name),
            uid: Uuid::from_u128(name.bytes().fold(0, |sum, byte| sum * 256 + u128::from(byte))),
            revision: Revision(1),
            body: body.map(ToString::to_string).unwrap_or_default().into(),
            attributes: Attributes::default(),
        };
        let of_kind = allocations.0.iter().find(|of_kind| of_kind.kind == kind).unwrap();
        of_kind.index.update(|index| index.apply(&entry, body.is_some()));
    }

    fn charge(pods: &str) -> Account {
        let costs = [("c".to_owned(), [("pods".to_owned(), pods.parse().unwrap())].into())].into();
        Account { pays: Some(Scope::new(SCOPE, "p")), costs, ..Account::default() }
    }

    #[test]
    fn a_tenants_root_projects_are_counted_whatever_they_use() {
        let allocations = allocations();
        let project = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        for (name, spec) in [
            ("a", json!({"tenantID": "t"})),
            ("b", json!({"tenantID": "t", "clusters": {"c": {}, "d": {}}})),
            ("k", json!({"tenantID": "t", "parentProjectName": "a"})),
        ] {
            set(&allocations, PROJECT, "", name, Some(&project(name, spec)));
        }
        assert_eq!((allocations.root_projects("t"), allocations.root_projects("u")), (2, 0));
        set(&allocations, PROJECT, "", "a", None);
        assert_eq!(allocations.root_projects("t"), 1);
    }

    #[test]
    fn growth_is_warned_when_a_limit_is_almost_used_up() {
        let allocations = allocations();
        set(
            &allocations,
            PROJECT,
            "",
            "p",
            Some(&json!({"metadata": {"name": "p"}, "spec": {"clusters": {"c": {"hard": {"pods": "20"}}}}})),
        );
        let namespace = |pods: &str| json!({"metadata": {"namespace": "p"}, "spec": {"clusterName": "c", "hard": {"pods": pods}}});
        set(&allocations, NAMESPACE, "p", "a", Some(&namespace("10")));
        set(&allocations, NAMESPACE, "p", "a", Some(&namespace("14")));
        assert_eq!(allocations.warnings(None, &charge("1")), [""; 0]);
        assert_eq!(
            allocations.warnings(None, &charge("2")),
            ["80% of pods of project p on cluster c is allocated: 16 of 20"]
        );
        assert!(allocations.warnings(None, &charge("5"))[0].starts_with("almost used up: 95%"));
        assert_eq!(allocations.warnings(None, &charge("7")), [""; 0], "it will be refused");
        assert_eq!(
            allocations.warnings(Some(&charge("14")), &charge("16")).len(),
            1,
            "its own part counts once"
        );
        assert_eq!(allocations.warnings(Some(&charge("18")), &charge("16")), [""; 0], "no growth");
        set(&allocations, NAMESPACE, "p", "a", None);
        assert_eq!(allocations.warnings(None, &charge("15")), [""; 0]);
        set(&allocations, PROJECT, "", "p", None);
        assert_eq!(allocations.warnings(None, &charge("20")), [""; 0], "no limit any more");
        let left: usize =
            allocations.read().0.iter().map(|index| index.scopes.len() + index.objects.len()).sum();
        assert_eq!(left, 0, "nothing is left");
    }

    #[test]
    fn what_goes_out_of_range_comes_back() {
        let (allocations, p) = (allocations(), Scope::new(SCOPE, "p"));
        let pods = || allocations.allocated(&p, "c").get("pods").copied();
        let most = json!({"metadata": {"namespace": "p"}, "spec": {"clusterName": "c", "hard": {"pods": Quantity::MAX.to_string()}}});
        for name in ["a", "b"] {
            set(&allocations, NAMESPACE, "p", name, Some(&most));
            assert_eq!(pods(), Some(Quantity::MAX));
        }
        set(&allocations, NAMESPACE, "p", "a", None);
        assert_eq!(pods(), Some(Quantity::MAX), "b is still there");
        set(&allocations, NAMESPACE, "p", "b", None);
        assert_eq!(pods(), None);
    }

    #[test]
    fn what_no_object_stands_for_is_named_and_counts() {
        let (allocations, p) = (allocations(), Scope::new(SCOPE, "p"));
        let uid = Uuid::from_u128(7);
        let held = |cluster: &str, namespace: &str, pods: &str| {
            json!({"uid": uid.to_string(), "state": "orphaned", "clusterName": cluster, "namespace": namespace,
                   "hard": {"pods": pods}, "reason": "found"})
        };
        let project = |held: Value| {
            json!({"metadata": {"name": "p"}, "spec": {"clusters": {"c": {"hard": {"pods": "20"}}}},
                   "status": {"ledger": {"held": held}}})
        };
        let all = json!([held("c", "one", "4"), held("c", "two", "11"), held("d", "three", "1")]);
        set(&allocations, PROJECT, "", "p", Some(&project(all)));
        let found = allocations.held(&p, "c", "pods").unwrap();
        assert_eq!(found.amount.to_string(), "15");
        assert_eq!(found.namespaces, ["one (orphaned)", "two (orphaned)"]);
        assert_eq!(allocations.held(&p, "c", "cpu"), None);
        assert!(allocations.is_hold(uid, None) && !allocations.is_hold(Uuid::nil(), None));
        assert!(
            allocations.is_hold(uid, Some(&p)) && !allocations.is_hold(uid, Some(&Scope::new(SCOPE, "q")))
        );
        assert_eq!(allocations.warnings(None, &charge("1")).len(), 1, "16 of 20");
        set(&allocations, PROJECT, "", "p", Some(&project(json!([]))));
        assert_eq!(allocations.held(&p, "c", "pods"), None);
    }
}
