//! How full the projects are, kept from the store's own watch. It is a hint for people, a moment behind: what is
//! admitted is decided by the ledger.

use crate::follow::{Index, Kept};
use crate::kinds::{NAMESPACE, PROJECT};
use business_types::account::PROJECT as PROJECT_SCOPE;
use business_types::{Held, LedgerStatus, NamespaceSpec, ProjectSpec};
use meta::quantity::{Quantity, ResourceList};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, RwLockReadGuard};
use store::quota::{Account, Amounts, Scope};
use store::{Entry, KindId, Store};
use uuid::Uuid;

/// Percent of a limit from which on a write is warned.
const HIGH: i128 = 80;
/// Percent of a limit from which on it is almost used up.
const VERY_HIGH: i128 = 95;

/// What is allocated of every project's limits: the sums of each kind by themselves, so that each is built by itself.
#[derive(Clone, Debug)]
pub struct Levels(Arc<[Part]>);

#[derive(Debug)]
struct Part {
    kind: KindId,
    sums: Kept<Sums>,
}

/// What of a project's allocation no object stands for, as its status tells.
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
    read: Reader,
    limits: HashMap<Box<str>, Amounts>,
    held: HashMap<Box<str>, Vec<Held>>,
    charges: HashMap<Uuid, Share>,
    allocated: HashMap<Box<str>, Amounts>,
}

/// Reads the part of an object that is counted.
type Reader = fn(&Entry) -> Result<Counted, serde_json::Error>;

/// What an object costs its project, without the room that a map has to spare: every namespace has one.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    project: Box<str>,
    amounts: Box<[(Box<str>, Packed)]>,
}

/// Amounts by resource.
type Packed = Box<[(Box<str>, Quantity)]>;

impl Share {
    fn of(project: Box<str>, amounts: Amounts) -> Self {
        let packed =
            |list: ResourceList| list.into_iter().map(|(key, amount)| (key.into(), amount)).collect();
        let amounts = amounts.into_iter().map(|(cluster, list)| (cluster.into(), packed(list)));
        Self { project, amounts: amounts.collect() }
    }
}

impl Default for Levels {
    fn default() -> Self {
        let part = |kind, read| Part { kind, sums: Kept::new(Sums::new(read)) };
        Self([part(PROJECT, Counted::project), part(NAMESPACE, Counted::namespace)].into())
    }
}

impl Levels {
    /// What to tell who grows a charge: the limits that are almost used up by it.
    pub fn warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        let Some(project) = after.pays.as_ref().filter(|scope| scope.kind == PROJECT_SCOPE) else {
            return Vec::new();
        };
        let all = self.read();
        let mut warnings = Vec::new();
        for (cluster, amounts) in &after.costs {
            for (resource, amount) in amounts {
                let own = before
                    .filter(|before| before.pays == after.pays)
                    .map_or(Quantity::ZERO, |before| of(Some(&before.costs), cluster, resource));
                if *amount > own {
                    let limit = Limit { project: &project.name, cluster, resource };
                    warnings.extend(all.warning(limit, *amount, own));
                }
            }
        }
        warnings
    }

    /// What is held against a project in a cluster without an object; `None` when that is nothing.
    pub fn unowned(&self, scope: &Scope, cluster: &str, resource: &str) -> Option<Unowned> {
        let all = self.read();
        let mut unowned = Unowned { amount: Quantity::ZERO, places: Vec::new() };
        for (held, amount) in all.held(Limit { project: &scope.name, cluster, resource }) {
            unowned.amount = unowned.amount.checked_add(amount)?;
            unowned.places.push(format!("{} ({})", held.namespace, held.state));
        }
        (!unowned.amount.is_zero()).then_some(unowned)
    }

    /// Whether this names something that is held without an object.
    pub fn holds(&self, uid: Uuid) -> bool {
        let all = self.read();
        all.0.iter().flat_map(|sums| sums.held.values().flatten()).any(|held| held.uid.parse() == Ok(uid))
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

/// The sums of all kinds.
struct All<'a>(Vec<RwLockReadGuard<'a, Sums>>);

/// One limit of a project.
#[derive(Clone, Copy)]
struct Limit<'a> {
    project: &'a str,
    cluster: &'a str,
    resource: &'a str,
}

impl All<'_> {
    fn warning(&self, limit: Limit<'_>, amount: Quantity, own: Quantity) -> Option<String> {
        let hard = self.0.iter().find_map(|sums| sums.hard(limit))?;
        let mut others = Quantity::ZERO.checked_sub(own)?;
        for sums in &self.0 {
            let allocated = of(sums.allocated.get(limit.project), limit.cluster, limit.resource);
            others = others.checked_add(allocated)?;
        }
        for (_, held) in self.held(limit) {
            others = others.checked_add(held)?;
        }
        let allocated = others.checked_add(amount)?;
        let percent = allocated.nanos().checked_mul(100)?.checked_div(hard.nanos())?;
        let almost = if percent >= VERY_HIGH { "almost used up: " } else { "" };
        let Limit { project, cluster, resource } = limit;
        (percent >= HIGH && allocated <= hard).then(|| {
            format!(
                "{almost}{percent}% of {resource} of project {project} on cluster {cluster} is allocated: {allocated} of {hard}"
            )
        })
    }

    fn held<'a>(&'a self, limit: Limit<'a>) -> impl Iterator<Item = (&'a Held, Quantity)> {
        let all = self.0.iter().flat_map(move |sums| sums.held.get(limit.project).into_iter().flatten());
        let there = all.filter(move |held| held.cluster_name == limit.cluster);
        there.filter_map(move |held| Some((held, *held.hard.get(limit.resource)?)))
    }
}

impl Index for Sums {
    fn emptied(&self) -> Self {
        Self::new(self.read)
    }

    fn take(&mut self, entry: &Entry, exists: bool) {
        let name = &*entry.key.name;
        let counted = if exists { self.counted(entry) } else { None };
        let Counted { charge, limits, held } = counted.unwrap_or_default();
        self.charge(entry.uid, charge.map(|(project, amounts)| Share::of(project, amounts)));
        if let Some(limits) = limits {
            self.limits.insert(name.into(), limits);
        } else {
            self.limits.remove(name);
        }
        if held.is_empty() {
            self.held.remove(name);
        } else {
            self.held.insert(name.into(), held);
        }
    }
}

impl Sums {
    fn new(read: Reader) -> Self {
        let (limits, held) = (HashMap::new(), HashMap::new());
        Self { read, limits, held, charges: HashMap::new(), allocated: HashMap::new() }
    }

    fn counted(&self, entry: &Entry) -> Option<Counted> {
        (self.read)(entry)
            .inspect_err(|error| tracing::error!(%error, "a stored body does not read as its kind"))
            .ok()
    }

    fn hard(&self, limit: Limit<'_>) -> Option<Quantity> {
        self.limits.get(limit.project)?.get(limit.cluster)?.get(limit.resource).copied()
    }

    fn charge(&mut self, object: Uuid, share: Option<Share>) {
        if self.charges.get(&object) == share.as_ref() {
            return;
        }
        if let Some(old) = self.charges.remove(&object) {
            self.add(&old, Quantity::checked_sub);
        }
        if let Some(new) = share {
            self.add(&new, Quantity::checked_add);
            self.charges.insert(object, new);
        }
    }

    fn add(&mut self, share: &Share, combine: fn(Quantity, Quantity) -> Option<Quantity>) {
        let allocated = self.allocated.entry(share.project.clone()).or_default();
        for (cluster, amounts) in &share.amounts {
            let sums = allocated.entry(cluster.to_string()).or_default();
            for (resource, amount) in amounts {
                let sum = sums.entry(resource.to_string()).or_insert(Quantity::ZERO);
                *sum = combine(*sum, *amount).unwrap_or(*sum);
            }
            sums.retain(|_resource, sum| !sum.is_zero());
        }
        allocated.retain(|_cluster, sums| !sums.is_empty());
        if allocated.is_empty() {
            self.allocated.remove(&share.project);
        }
    }
}

/// The part of an object that is counted.
#[derive(Default)]
struct Counted {
    /// The project that is charged, and what.
    charge: Option<(Box<str>, Amounts)>,
    limits: Option<Amounts>,
    held: Vec<Held>,
}

/// The part of a stored body that is counted: what is not named here is passed over unread.
#[derive(Deserialize)]
struct Body<S, T> {
    spec: S,
    #[serde(default)]
    status: T,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Mark {
    cached_spec_hard: Option<ResourceList>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    ledger: LedgerStatus,
}

impl Counted {
    fn project(entry: &Entry) -> Result<Self, serde_json::Error> {
        let Body { spec, status } = serde_json::from_slice::<Body<ProjectSpec, Told>>(&entry.body)?;
        let amounts: Amounts =
            spec.clusters.into_iter().map(|(cluster, quota)| (cluster, quota.hard)).collect();
        let parent: Box<str> = spec.parent_project_name.into();
        let charge = (!parent.is_empty()).then(|| (parent, amounts.clone()));
        Ok(Self { charge, limits: Some(amounts), held: status.ledger.held })
    }

    fn namespace(entry: &Entry) -> Result<Self, serde_json::Error> {
        let Body { spec, status } = serde_json::from_slice::<Body<NamespaceSpec, Mark>>(&entry.body)?;
        let amounts = Amounts::from([(spec.cluster_name, status.cached_spec_hard.unwrap_or(spec.hard))]);
        Ok(Self { charge: Some(((&*entry.key.namespace).into(), amounts)), ..Self::default() })
    }
}

fn of(amounts: Option<&Amounts>, cluster: &str, resource: &str) -> Quantity {
    amounts.and_then(|a| a.get(cluster)?.get(resource)).copied().unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use store::{Attributes, Key, Revision};

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
        Account { pays: Some(Scope::new(PROJECT_SCOPE, "p")), costs, ..Account::default() }
    }

    #[test]
    fn growth_is_warned_when_a_limit_is_almost_used_up() {
        let levels = Levels::default();
        set(
            &levels,
            PROJECT,
            "",
            "p",
            Some(&json!({"metadata": {}, "spec": {"clusters": {"c": {"hard": {"pods": "20"}}}}})),
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
    }

    #[test]
    fn what_no_object_stands_for_is_named_and_counts() {
        let (levels, p) = (Levels::default(), Scope::new(PROJECT_SCOPE, "p"));
        let uid = Uuid::from_u128(7);
        let held = |cluster: &str, namespace: &str, pods: &str| {
            json!({"uid": uid.to_string(), "state": "orphaned", "clusterName": cluster, "namespace": namespace,
                   "hard": {"pods": pods}, "reason": "found"})
        };
        let project = |held: Value| {
            json!({"metadata": {}, "spec": {"clusters": {"c": {"hard": {"pods": "20"}}}},
                   "status": {"ledger": {"held": held}}})
        };
        let all = json!([held("c", "one", "4"), held("c", "two", "11"), held("d", "three", "1")]);
        set(&levels, PROJECT, "", "p", Some(&project(all)));
        let unowned = levels.unowned(&p, "c", "pods").unwrap();
        assert_eq!(unowned.amount.to_string(), "15");
        assert_eq!(unowned.places, ["one (orphaned)", "two (orphaned)"]);
        assert_eq!(levels.unowned(&p, "c", "cpu"), None);
        assert!(levels.holds(uid) && !levels.holds(Uuid::nil()));
        assert_eq!(levels.warnings(None, &charge("1")).len(), 1, "16 of 20");
        set(&levels, PROJECT, "", "p", Some(&project(json!([]))));
        assert_eq!(levels.unowned(&p, "c", "pods"), None);
    }
}
