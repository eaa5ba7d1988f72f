//! How full the projects are, kept from the store's own watch. It is a hint for people, a moment behind: what is
//! admitted is decided by the ledger.

use crate::follow::{Follower, follow};
use crate::kinds::{NAMESPACE, PROJECT};
use business_types::{NamespaceSpec, ProjectSpec, charge};
use meta::quantity::{Quantity, ResourceList};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use store::quota::{Amounts, Charge};
use store::{Entry, KindId, Store};

/// Percent of a limit from which on a write is warned.
const HIGH: i128 = 80;
/// Percent of a limit from which on it is almost used up.
const VERY_HIGH: i128 = 95;

/// What is allocated of every project's limits.
#[derive(Clone, Debug, Default)]
pub struct Levels(Arc<RwLock<Sums>>);

/// The part of the sums that comes from one kind.
struct Part {
    levels: Levels,
    kind: KindId,
}

#[derive(Debug, Default)]
struct Sums {
    limits: HashMap<Box<str>, Amounts>,
    charges: HashMap<(KindId, Box<str>), Charge>,
    allocated: HashMap<Box<str>, Amounts>,
}

impl Levels {
    /// What to tell who grows a charge: the limits that are almost used up by it.
    pub fn warnings(&self, before: Option<&Charge>, after: &Charge) -> Vec<String> {
        let sums = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut warnings = Vec::new();
        for (cluster, amounts) in &after.amounts {
            for (resource, amount) in amounts {
                let own = before
                    .filter(|before| before.scope == after.scope)
                    .map_or(Quantity::ZERO, |before| of(Some(&before.amounts), cluster, resource));
                if *amount > own {
                    warnings.extend(sums.warning(&after.scope, cluster, resource, *amount, own));
                }
            }
        }
        warnings
    }

    /// Follows both kinds for ever.
    pub async fn follow_all(self, store: Store) {
        let of = |kind| follow(store.clone(), kind, "levels", Part { levels: self.clone(), kind });
        tokio::join!(of(PROJECT), of(NAMESPACE));
    }

    fn change(&self, change: impl FnOnce(&mut Sums)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Follower for Part {
    fn clear(&self) {
        self.levels.change(|sums| sums.clear(self.kind));
    }

    fn take(&self, entry: &Entry, exists: bool) {
        self.levels.change(|sums| sums.take(self.kind, entry, exists));
    }
}

impl Sums {
    fn warning(
        &self,
        scope: &str,
        cluster: &str,
        resource: &str,
        amount: Quantity,
        own: Quantity,
    ) -> Option<String> {
        let hard = *self.limits.get(scope)?.get(cluster)?.get(resource)?;
        let others = of(self.allocated.get(scope), cluster, resource).checked_sub(own)?;
        let allocated = others.checked_add(amount)?;
        let percent = allocated.nanos().checked_mul(100)?.checked_div(hard.nanos())?;
        let almost = if percent >= VERY_HIGH { "almost used up: " } else { "" };
        (percent >= HIGH && allocated <= hard).then(|| {
            format!(
                "{almost}{percent}% of {resource} of project {scope} on cluster {cluster} is allocated: {allocated} of {hard}"
            )
        })
    }

    fn take(&mut self, kind: KindId, entry: &Entry, exists: bool) {
        let name = &*entry.key.name;
        let key: Box<str> = format!("{}/{name}", entry.key.namespace).into();
        let counted = if exists { Counted::read(kind, entry) } else { None };
        let Counted { charge, limits } = counted.unwrap_or_default();
        self.charge(kind, key, charge.filter(|charge| !charge.scope.is_empty()));
        if let Some(limits) = limits {
            self.limits.insert(name.into(), limits);
        } else if kind == PROJECT {
            self.limits.remove(name);
        }
    }

    fn charge(&mut self, kind: KindId, key: Box<str>, charge: Option<Charge>) {
        let key = (kind, key);
        if self.charges.get(&key) == charge.as_ref() {
            return;
        }
        if let Some(old) = self.charges.remove(&key) {
            self.add(&old, Quantity::checked_sub);
        }
        if let Some(new) = charge {
            self.add(&new, Quantity::checked_add);
            self.charges.insert(key, new);
        }
    }

    fn add(&mut self, charge: &Charge, combine: fn(Quantity, Quantity) -> Option<Quantity>) {
        let allocated = self.allocated.entry(charge.scope.as_str().into()).or_default();
        for (cluster, amounts) in &charge.amounts {
            let sums = allocated.entry(cluster.clone()).or_default();
            for (resource, amount) in amounts {
                let sum = sums.entry(resource.clone()).or_insert(Quantity::ZERO);
                *sum = combine(*sum, *amount).unwrap_or(*sum);
            }
            sums.retain(|_resource, sum| !sum.is_zero());
        }
        allocated.retain(|_cluster, sums| !sums.is_empty());
        if allocated.is_empty() {
            self.allocated.remove(charge.scope.as_str());
        }
    }

    fn clear(&mut self, kind: KindId) {
        let keys: Vec<Box<str>> =
            self.charges.keys().filter(|(of, _)| *of == kind).map(|(_, key)| key.clone()).collect();
        for key in keys {
            self.charge(kind, key, None);
        }
        if kind == PROJECT {
            self.limits.clear();
        }
    }
}

/// The part of an object that is counted.
#[derive(Default)]
struct Counted {
    charge: Option<Charge>,
    limits: Option<Amounts>,
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

impl Counted {
    fn read(kind: KindId, entry: &Entry) -> Option<Self> {
        let counted = if kind == PROJECT { Self::project(&entry.body) } else { Self::namespace(entry) };
        counted.inspect_err(|error| tracing::error!(%error, "a stored body does not read as its kind")).ok()
    }

    fn project(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Body { spec, status: IgnoredAny } =
            serde_json::from_slice::<Body<ProjectSpec, IgnoredAny>>(body)?;
        let amounts = charge::limits(&spec);
        let charge =
            Charge { scope: spec.parent_project_name, amounts: amounts.clone(), ..Charge::default() };
        Ok(Self { charge: Some(charge), limits: Some(amounts) })
    }

    fn namespace(entry: &Entry) -> Result<Self, serde_json::Error> {
        let Body { spec, status } = serde_json::from_slice::<Body<NamespaceSpec, Mark>>(&entry.body)?;
        let amounts = Amounts::from([(spec.cluster_name, status.cached_spec_hard.unwrap_or(spec.hard))]);
        let charge = Charge { scope: entry.key.namespace.to_string(), amounts, ..Charge::default() };
        Ok(Self { charge: Some(charge), limits: None })
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
            uid: uuid::Uuid::nil(),
            revision: Revision(1),
            body: body.map(ToString::to_string).unwrap_or_default().into(),
            attributes: Attributes::default(),
        };
        levels.change(|sums| sums.take(kind, &entry, body.is_some()));
    }

    fn charge(pods: &str) -> Charge {
        let amounts = [("c".to_owned(), [("pods".to_owned(), pods.parse().unwrap())].into())].into();
        Charge { scope: "p".to_owned(), amounts, ..Charge::default() }
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
        set(&levels, NAMESPACE, "p", "b", Some(&namespace("15")));
        levels.change(|sums| sums.clear(NAMESPACE));
        assert_eq!(levels.warnings(None, &charge("15")), [""; 0]);
        set(&levels, PROJECT, "", "p", None);
        assert_eq!(levels.warnings(None, &charge("20")), [""; 0], "no limit any more");
    }
}
