//! How full the scopes of quota are, kept from the store's own watch. It is a hint for people, a moment behind: what is
//! admitted is decided by the ledger.

use crate::accounts::{KindAccounts, ReadAccount};
use crate::follow::{FollowedIndex, Kept};
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

/// Percent of a limit from which on a write is warned.
const HIGH: i128 = 80;
/// Percent of a limit from which on it is almost used up.
const VERY_HIGH: i128 = 95;
/// The text in a stored body that shows that the object's status reports holds.
const LEDGER: &str = "\"ledger\"";

/// What is allocated of every scope's limits. The sums of each kind are kept apart, so that each can be built by
/// itself.
#[derive(Clone, Debug, Default)]
pub struct Levels(Arc<[Part]>);

#[derive(Debug)]
struct Part {
    kind: KindId,
    sums: Kept<Sums>,
}

/// The part of a scope's allocation that no object stands for, as the scope's own status reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unowned {
    /// How much.
    pub amount: Quantity,
    /// The places in the cluster that it is held for.
    pub places: Vec<String>,
}

/// What the objects of one kind add up to.
#[derive(Debug)]
struct Sums {
    read: ReadAccount,
    shares: HashMap<Uuid, Share>,
    scopes: HashMap<Arc<Scope>, Level>,
}

/// What is known of a scope.
#[derive(Debug, Default)]
struct Level {
    limits: Amounts,
    allocated: Amounts,
    /// How many children use each domain, even with no amount.
    users: BTreeMap<Box<str>, u64>,
    held: Vec<HeldAmount>,
}

/// What an object adds. It is packed without the spare room of a map, since every namespace has one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    pays: Option<Arc<Scope>>,
    costs: Packed,
    grants: Option<Box<Granted>>,
}

/// Amounts by domain and key.
type Packed = Box<[(Box<str>, Box<[(Box<str>, Quantity)]>)]>;

/// The part of a share that only scopes have.
#[derive(Debug, PartialEq, Eq)]
struct Granted {
    scope: Arc<Scope>,
    limits: Amounts,
    held: Vec<HeldAmount>,
}

/// One limit of a scope.
#[derive(Clone, Copy)]
struct Limit<'a> {
    scope: &'a Scope,
    domain: &'a str,
    key: &'a str,
}

impl Levels {
    /// Levels of the scopes that these kinds pay and grant.
    pub fn new(kinds: impl IntoIterator<Item = KindAccounts>) -> Self {
        let part = |KindAccounts { kind, read }| Part { kind, sums: Kept::new(Sums::new(read)) };
        Self(kinds.into_iter().map(part).collect())
    }

    /// The warnings for a write that grows a charge: limits that it almost uses up.
    pub fn warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        let Some(scope) = &after.pays else { return Vec::new() };
        let before = before.filter(|before| before.pays == after.pays).map(|before| &before.costs);
        let all = self.read();
        let mut warnings = Vec::new();
        for (domain, amounts) in &after.costs {
            for (key, amount) in amounts {
                let limit = Limit { scope, domain, key };
                let own = before.map_or(Quantity::ZERO, |costs| limit.of(costs));
                if *amount > own {
                    warnings.extend(all.warning(limit, *amount, own));
                }
            }
        }
        warnings
    }

    /// What is held against a scope in a domain without an object; `None` if nothing is.
    pub fn unowned(&self, scope: &Scope, domain: &str, key: &str) -> Option<Unowned> {
        let all = self.read();
        let mut unowned = Unowned { amount: Quantity::ZERO, places: Vec::new() };
        for (held, amount) in all.held(Limit { scope, domain, key }) {
            unowned.amount = unowned.amount.checked_add(amount)?;
            unowned.places.push(format!("{} ({})", held.namespace, held.state));
        }
        (!unowned.amount.is_zero()).then_some(unowned)
    }

    /// What is left of a scope's limit; `None` where there is no limit.
    pub fn remaining(&self, scope: &Scope, domain: &str, key: &str) -> Option<Quantity> {
        let all = self.read();
        let limit = Limit { scope, domain, key };
        let hard = *all.levels(scope).find_map(|level| level.limits.get(domain)?.get(key))?;
        let left = hard.checked_sub(all.allocated(limit)?)?;
        Some(if left.is_negative() { Quantity::ZERO } else { left })
    }

    /// What is allocated of a scope in a domain, by key.
    pub fn allocated(&self, scope: &Scope, domain: &str) -> ResourceList {
        let all = self.read();
        let given = all.levels(scope).filter_map(|level| level.allocated.get(domain));
        let mut sums = ResourceList::new();
        for (key, amount) in given.flatten() {
            let sum = sums.entry(key.clone()).or_insert(Quantity::ZERO);
            *sum = amount.checked_add(*sum).unwrap_or(*sum);
        }
        sums
    }

    /// Tenants whose root projects use a limited cluster on which the tenant has no ceiling: what they take is not
    /// counted against the cluster.
    pub fn unbounded(&self, cluster: &str) -> BTreeSet<String> {
        let all = self.read();
        let limits = |scope: &Scope| all.levels(scope).find_map(|level| level.limits.get(cluster));
        if limits(&fleet()).is_none_or(BTreeMap::is_empty) {
            return BTreeSet::new();
        }
        let scopes = all.0.iter().flat_map(|sums| &sums.scopes);
        let users = scopes.filter(|(scope, level)| scope.kind == TENANT && level.users.contains_key(cluster));
        users.filter(|(scope, _)| limits(scope).is_none()).map(|(scope, _)| scope.name.clone()).collect()
    }

    /// Whether this names something that is held without an object, against one scope or, without one, against any.
    pub fn holds(&self, uid: Uuid, against: Option<&Scope>) -> bool {
        let all = self.read();
        let is_there = |level: &Level| level.held.iter().any(|held| held.uid.parse() == Ok(uid));
        match against {
            Some(scope) => all.levels(scope).any(is_there),
            None => all.0.iter().flat_map(|sums| sums.scopes.values()).any(is_there),
        }
    }

    /// Follows all kinds for ever.
    pub async fn follow_all(self, store: Store) {
        let parts = self.0.iter().map(|part| part.sums.clone().follow(store.clone(), part.kind, "levels"));
        futures_util::future::join_all(parts).await;
    }

    fn read(&self) -> All<'_> {
        All(self.0.iter().map(|part| part.sums.read()).collect())
    }
}

impl Limit<'_> {
    fn of(self, amounts: &Amounts) -> Quantity {
        amounts.get(self.domain).and_then(|list| list.get(self.key)).copied().unwrap_or(Quantity::ZERO)
    }
}

/// The sums of all kinds.
struct All<'a>(Vec<RwLockReadGuard<'a, Sums>>);

impl All<'_> {
    fn levels<'a>(&'a self, scope: &Scope) -> impl Iterator<Item = &'a Level> {
        self.0.iter().filter_map(|sums| sums.scopes.get(scope))
    }

    fn warning(&self, limit: Limit<'_>, amount: Quantity, own: Quantity) -> Option<String> {
        let Limit { scope, domain, key } = limit;
        let hard = *self.levels(scope).find_map(|level| level.limits.get(domain)?.get(key))?;
        let allocated = self.allocated(limit)?.checked_sub(own)?.checked_add(amount)?;
        let percent = allocated.nanos().checked_mul(100)?.checked_div(hard.nanos())?;
        let almost = if percent >= VERY_HIGH { "almost used up: " } else { "" };
        (percent >= HIGH && allocated <= hard).then(|| {
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

    fn allocated(&self, limit: Limit<'_>) -> Option<Quantity> {
        let given = self.levels(limit.scope).map(|level| limit.of(&level.allocated));
        let held = self.held(limit).map(|(_, held)| held);
        given.chain(held).try_fold(Quantity::ZERO, Quantity::checked_add)
    }

    fn held<'a>(&'a self, limit: Limit<'a>) -> impl Iterator<Item = (&'a HeldAmount, Quantity)> {
        let there = self.levels(limit.scope).flat_map(|level| &level.held);
        there
            .filter(move |held| held.cluster_name == limit.domain)
            .filter_map(move |held| Some((held, *held.hard.get(limit.key)?)))
    }
}

impl FollowedIndex for Sums {
    fn emptied(&self) -> Self {
        Self::new(self.read)
    }

    fn take(&mut self, entry: &Entry, exists: bool) {
        if let Some(new) = self.news(entry, exists) {
            self.put(entry, new);
        }
    }

    /// Nothing else changes the index, so the news stays right until it is put in.
    fn take_shared(kept: &Kept<Self>, entry: &Entry, exists: bool) {
        let news = kept.read().news(entry, exists);
        if let Some(new) = news {
            kept.change(|sums| sums.put(entry, new));
        }
    }
}

impl Sums {
    fn new(read: ReadAccount) -> Self {
        Self { read, shares: HashMap::new(), scopes: HashMap::new() }
    }

    /// What an object adds now; `None` if that is known already.
    fn news(&self, entry: &Entry, exists: bool) -> Option<Share> {
        let read = |entry: &Entry| {
            self.share(entry).map_err(|error| {
                tracing::error!(%error, kind = entry.key.kind.0, "a stored body does not read as its kind");
            })
        };
        let new = if exists { read(entry).unwrap_or_default() } else { Share::default() };
        (self.shares.get(&entry.uid) != Some(&new)).then_some(new)
    }

    fn put(&mut self, entry: &Entry, new: Share) {
        if let Some(old) = self.shares.remove(&entry.uid) {
            self.subtract(&old);
        }
        if new != Share::default() {
            self.add(&new);
            self.shares.insert(entry.uid, new);
        }
    }

    fn share(&self, entry: &Entry) -> Result<Share, serde_json::Error> {
        let Account { pays, costs, grants, .. } = (self.read)(&entry.body)?;
        let held = if grants.is_some() { held(&entry.body)? } else { Vec::new() };
        let grants = grants.map(|Grants { scope, domains }| {
            let limits = domains.into_iter().map(|(domain, limits)| (domain, limits.hard)).collect();
            Box::new(Granted { scope: self.known(scope), limits, held })
        });
        Ok(Share { pays: pays.map(|scope| self.known(scope)), costs: packed(costs), grants })
    }

    /// The same scope, which is kept once.
    fn known(&self, scope: Scope) -> Arc<Scope> {
        self.scopes.get_key_value(&scope).map_or_else(|| Arc::new(scope), |(known, _)| Arc::clone(known))
    }

    fn add(&mut self, share: &Share) {
        if let Some(scope) = &share.pays {
            let level = self.level(scope);
            level.allocate(&share.costs, Quantity::checked_add);
            for (domain, _) in &share.costs {
                *level.users.entry(domain.clone()).or_default() += 1;
            }
        }
        if let Some(granted) = &share.grants {
            let level = self.level(&granted.scope);
            level.limits.extend(granted.limits.clone());
            level.held.extend(granted.held.iter().cloned());
        }
    }

    fn subtract(&mut self, share: &Share) {
        if let Some(scope) = &share.pays {
            let level = self.level(scope);
            level.allocate(&share.costs, Quantity::checked_sub);
            for (domain, _) in &share.costs {
                level.leave(domain);
            }
            self.forget_if_empty(scope);
        }
        if let Some(granted) = &share.grants {
            let level = self.level(&granted.scope);
            level.limits.retain(|domain, _| !granted.limits.contains_key(domain));
            level.held.retain(|held| !granted.held.contains(held));
            self.forget_if_empty(&granted.scope);
        }
    }

    fn level(&mut self, scope: &Arc<Scope>) -> &mut Level {
        self.scopes.entry(Arc::clone(scope)).or_default()
    }

    fn forget_if_empty(&mut self, scope: &Scope) {
        let empty =
            |level: &Level| level.limits.is_empty() && level.users.is_empty() && level.held.is_empty();
        if self.scopes.get(scope).is_some_and(empty) {
            self.scopes.remove(scope);
        }
    }
}

impl Level {
    fn leave(&mut self, domain: &str) {
        if let Some(users) = self.users.get_mut(domain) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.users.remove(domain);
            }
        }
    }

    fn allocate(&mut self, costs: &Packed, combine: fn(Quantity, Quantity) -> Option<Quantity>) {
        for (domain, amounts) in costs {
            let sums = self.allocated.entry(domain.to_string()).or_default();
            for (key, amount) in amounts {
                let sum = sums.entry(key.to_string()).or_insert(Quantity::ZERO);
                *sum = combine(*sum, *amount).unwrap_or(*sum);
            }
            sums.retain(|_key, sum| !sum.is_zero());
        }
        self.allocated.retain(|_domain, sums| !sums.is_empty());
    }
}

fn packed(amounts: Amounts) -> Packed {
    let list = |list: ResourceList| list.into_iter().map(|(key, amount)| (key.into(), amount)).collect();
    amounts.into_iter().map(|(domain, amounts)| (domain.into(), list(amounts))).collect()
}

/// The holds that an object's status reports.
fn held(body: &[u8]) -> Result<Vec<HeldAmount>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct LedgerBody {
        status: Option<ToldLedger>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ToldLedger {
        ledger: Option<LedgerStatus>,
    }
    if !std::str::from_utf8(body).is_ok_and(|body| body.contains(LEDGER)) {
        return Ok(Vec::new());
    }
    let LedgerBody { status } = serde_json::from_slice(body)?;
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

    fn levels() -> Levels {
        Levels::new([
            KindAccounts { kind: PROJECT, read: account::of_stored::<ChargedProject> },
            KindAccounts { kind: NAMESPACE, read: account::of_stored::<ChargedNamespace> },
        ])
    }

    fn set(levels: &Levels, kind: KindId, namespace: &str, name: &str, body: Option<&Value>) {
        let entry = Entry {
            key: Key::new(kind, namespace, name),
            uid: Uuid::from_u128(name.bytes().fold(0, |sum, byte| sum * 256 + u128::from(byte))),
            revision: Revision(1),
            body: body.map(ToString::to_string).unwrap_or_default().into(),
            attributes: Attributes::default(),
        };
        let part = levels.0.iter().find(|part| part.kind == kind).unwrap();
        part.sums.change(|sums| sums.take(&entry, body.is_some()));
    }

    fn charge(pods: &str) -> Account {
        let costs = [("c".to_owned(), [("pods".to_owned(), pods.parse().unwrap())].into())].into();
        Account { pays: Some(Scope::new(SCOPE, "p")), costs, ..Account::default() }
    }

    #[test]
    fn growth_is_warned_when_a_limit_is_almost_used_up() {
        let levels = levels();
        set(
            &levels,
            PROJECT,
            "",
            "p",
            Some(&json!({"metadata": {"name": "p"}, "spec": {"clusters": {"c": {"hard": {"pods": "20"}}}}})),
        );
        let namespace = |pods: &str| json!({"metadata": {"namespace": "p"}, "spec": {"clusterName": "c", "hard": {"pods": pods}}});
        set(&levels, NAMESPACE, "p", "a", Some(&namespace("10")));
        set(&levels, NAMESPACE, "p", "a", Some(&namespace("14")));
        assert_eq!(levels.warnings(None, &charge("1")), [""; 0]);
        assert_eq!(
            levels.warnings(None, &charge("2")),
            ["80% of pods of project p on cluster c is allocated: 16 of 20"]
        );
        assert!(levels.warnings(None, &charge("5"))[0].starts_with("almost used up: 95%"));
        assert_eq!(levels.warnings(None, &charge("7")), [""; 0], "it will be refused");
        assert_eq!(levels.warnings(Some(&charge("14")), &charge("16")).len(), 1, "its own part counts once");
        assert_eq!(levels.warnings(Some(&charge("18")), &charge("16")), [""; 0], "no growth");
        set(&levels, NAMESPACE, "p", "a", None);
        assert_eq!(levels.warnings(None, &charge("15")), [""; 0]);
        set(&levels, PROJECT, "", "p", None);
        assert_eq!(levels.warnings(None, &charge("20")), [""; 0], "no limit any more");
        let left: usize = levels.read().0.iter().map(|sums| sums.scopes.len() + sums.shares.len()).sum();
        assert_eq!(left, 0, "nothing is left");
    }

    #[test]
    fn what_no_object_stands_for_is_named_and_counts() {
        let (levels, p) = (levels(), Scope::new(SCOPE, "p"));
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
        set(&levels, PROJECT, "", "p", Some(&project(all)));
        let unowned = levels.unowned(&p, "c", "pods").unwrap();
        assert_eq!(unowned.amount.to_string(), "15");
        assert_eq!(unowned.places, ["one (orphaned)", "two (orphaned)"]);
        assert_eq!(levels.unowned(&p, "c", "cpu"), None);
        assert!(levels.holds(uid, None) && !levels.holds(Uuid::nil(), None));
        assert!(levels.holds(uid, Some(&p)) && !levels.holds(uid, Some(&Scope::new(SCOPE, "q"))));
        assert_eq!(levels.warnings(None, &charge("1")).len(), 1, "16 of 20");
        set(&levels, PROJECT, "", "p", Some(&project(json!([]))));
        assert_eq!(levels.unowned(&p, "c", "pods"), None);
    }
}
