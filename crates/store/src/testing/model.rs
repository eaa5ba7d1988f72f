//! The rules in the plainest form: nothing is summed up beforehand, every question goes through all objects.

use crate::model::{Change, Key, KindId, State, Write};
use crate::quota::{Amounts, Charge, Claim, LimitsChange, QuotaChange, Shortage, Violation};
use crate::{Error, Revision};
use meta::quantity::Quantity;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A store in memory that takes one write at a time.
#[derive(Clone, Debug)]
pub struct Model {
    objects: BTreeMap<Key, Object>,
    holds: Vec<Charge>,
    claims: BTreeMap<Claim, Uuid>,
    events: Vec<(char, Key)>,
    scope_kind: KindId,
    children_max: usize,
    held: bool,
}

#[derive(Clone, Debug)]
struct Object {
    uid: Uuid,
    revision: Revision,
    tenant: String,
    deleting: bool,
    locked: bool,
    charge: Option<Charge>,
    limits: Option<Amounts>,
}

/// What a change of charge amounts to.
struct Effect {
    fresh: bool,
    grows: bool,
    keyed: bool,
}

impl Model {
    /// An empty store.
    pub fn new(scope_kind: KindId, children_max: usize) -> Self {
        Self {
            objects: BTreeMap::new(),
            holds: Vec::new(),
            claims: BTreeMap::new(),
            events: Vec::new(),
            scope_kind,
            children_max,
            held: false,
        }
    }

    /// Holds growth, or lets it go on.
    pub fn hold_growth(&mut self, held: bool) {
        self.held = held;
    }

    /// What has happened: `c`, `u` or `d`, and to whom.
    pub fn events(&self) -> &[(char, Key)] {
        &self.events
    }

    /// Keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// Decides a write. If it is made, its object is at `revision` afterwards.
    pub fn write(&mut self, write: &Write, revision: Revision) -> Result<(), Error> {
        let deleting = self.compare(write)?;
        if let Some(quota) = &write.quota {
            self.admit(write, quota, deleting)?;
        } else if matches!(write.change, Change::Delete { .. }) {
            refuse(self.in_use(&write.key))?;
        }
        self.make(write, revision);
        Ok(())
    }

    /// Compare-and-swap; tells whether the object was being deleted.
    fn compare(&self, write: &Write) -> Result<bool, Error> {
        let taken = |key: &Key| match self.objects.get(key) {
            Some(object) => Err(Error::AlreadyExists { deleting: object.deleting }),
            None => Ok(()),
        };
        let (expected, deleting) = match &write.change {
            Change::Create(_) => return taken(&write.key).map(|()| false),
            Change::Update { expected, state, .. } => (expected, state.deleting),
            Change::Delete { expected, last, .. } | Change::Move { expected, last, .. } => {
                (expected, last.deleting)
            }
        };
        let object = self.objects.get(&write.key).ok_or(Error::NotFound)?;
        if object.uid != write.uid || object.revision != *expected || (object.deleting && !deleting) {
            return Err(Error::Conflict);
        }
        if let Change::Move { to, .. } = &write.change {
            taken(to)?;
        }
        Ok(object.deleting)
    }

    fn admit(&self, write: &Write, quota: &QuotaChange, was_deleting: bool) -> Result<(), Error> {
        let state = new_state(&write.change);
        let effect = effect(quota);
        let own = write.key.kind == self.scope_kind;
        let deleted = matches!(write.change, Change::Delete { .. });
        let raises = own && !deleted && quota.limits.as_ref().is_some_and(raises);
        if effect.grows || raises {
            if !quota.admit || was_deleting || state.deleting {
                return Err(Error::Conflict);
            }
            if self.held {
                return Err(Error::Held);
            }
        }
        let mut violations = Vec::new();
        let after = quota.after.as_ref().filter(|charge| !charge.scope.is_empty());
        if let Some(after) = after
            && (effect.grows || effect.keyed)
        {
            let before = quota.before.as_ref().filter(|before| before.scope == after.scope);
            violations.extend(self.charge(write, before, after, &effect));
        }
        if own && !deleted {
            violations.extend(quota.limits.iter().flat_map(|limits| self.limits(&write.key.name, limits)));
        }
        if deleted {
            violations.extend(self.in_use(&write.key));
        } else if let Some(claim) = &quota.claim
            && let Some(holder) = self.claims.get(claim)
            && *holder != write.uid
        {
            violations.push(Violation::ClaimTaken { claim: claim.clone(), holder: *holder });
        }
        refuse(violations)
    }

    fn charge(
        &self,
        write: &Write,
        before: Option<&Charge>,
        after: &Charge,
        effect: &Effect,
    ) -> Vec<Violation> {
        let name = || after.scope.clone();
        let Some(scope) = self.scope(&after.scope) else {
            return vec![Violation::ScopeMissing { scope: name() }];
        };
        if scope.tenant != new_state(&write.change).tenant {
            return vec![Violation::ScopeForeign { scope: name() }];
        }
        let mut violations = Vec::new();
        if effect.grows && scope.deleting {
            violations.push(Violation::ScopeTerminating { scope: name() });
        }
        if effect.grows && scope.locked {
            violations.push(Violation::ScopeLocked { scope: name() });
        }
        if effect.fresh {
            if self.children(&after.scope).count() >= self.children_max {
                let children_max = i64::try_from(self.children_max).unwrap_or_default();
                violations.push(Violation::TooManyChildren { scope: name(), children_max });
            }
            violations.extend(self.ancestors(write, &after.scope));
        }
        let none = Amounts::new();
        let limits = scope.limits.as_ref().unwrap_or(&none);
        for cluster in used(after) {
            let is_new = before.is_none_or(|before| !used(before).contains(cluster));
            if is_new && !limits.contains_key(cluster) {
                violations.push(Violation::ClusterNotListed { scope: name(), cluster: cluster.to_owned() });
            }
            let list = limits.get(cluster);
            for resource in list.into_iter().flatten().map(|(resource, _)| resource) {
                if effect.keyed && !carries(after, cluster, resource) {
                    let (cluster, resource) = (cluster.to_owned(), resource.clone());
                    violations.push(Violation::KeyMissing { scope: name(), cluster, resource });
                }
            }
            for (resource, want) in after.amounts.get(cluster).into_iter().flatten() {
                let own = before.map_or(0, |before| amount(before, cluster, resource));
                let hard = list.and_then(|list| list.get(resource)).map_or(AMOUNT_MAX, |hard| hard.nanos());
                let allocated = self.allocated(&after.scope, cluster, resource);
                if want.nanos() > own && allocated - own + want.nanos() > hard {
                    violations.push(Violation::DoesNotFit(Shortage {
                        scope: name(),
                        cluster: cluster.to_owned(),
                        resource: resource.clone(),
                        requested: *want,
                        hard: Quantity::from_nanos(hard, want.format()),
                        allocated: Quantity::from_nanos(allocated, want.format()),
                        would_fit: Quantity::from_nanos((hard - allocated + own).max(own), want.format()),
                    }));
                }
            }
        }
        violations
    }

    fn ancestors(&self, write: &Write, scope: &str) -> Option<Violation> {
        let own = (write.key.kind == self.scope_kind).then_some(&*write.key.name);
        let mut seen = BTreeSet::new();
        let mut up = scope.to_owned();
        loop {
            if own == Some(&*up) || !seen.insert(up.clone()) {
                return Some(Violation::Cycle { scope: scope.to_owned() });
            }
            let Some(object) = self.scope(&up) else {
                return Some(Violation::AncestorMissing { scope: up });
            };
            match &object.charge {
                Some(charge) if !charge.scope.is_empty() => up.clone_from(&charge.scope),
                _ => return None,
            }
        }
    }

    fn limits(&self, scope: &str, change: &LimitsChange) -> Vec<Violation> {
        let none = Amounts::new();
        let (before, after) =
            (change.before.as_ref().unwrap_or(&none), change.after.as_ref().unwrap_or(&none));
        let using =
            |cluster: &str| self.children(scope).filter(|child| used(child).contains(cluster)).count();
        let count = |number: usize| i64::try_from(number).unwrap_or_default();
        let mut violations = Vec::new();
        for cluster in before.keys().filter(|cluster| !after.contains_key(*cluster)) {
            let (scope, children) = (scope.to_owned(), count(using(cluster)));
            if children > 0 {
                violations.push(Violation::ClusterInUse { scope, cluster: cluster.clone(), children });
            }
        }
        for (cluster, list) in after {
            for (resource, hard) in list {
                let old = before.get(cluster).and_then(|list| list.get(resource));
                let allocated = self.allocated(scope, cluster, resource);
                if hard.nanos() < allocated && old.is_none_or(|old| hard < old) {
                    violations.push(Violation::BelowAllocated(Shortage {
                        scope: scope.to_owned(),
                        cluster: cluster.clone(),
                        resource: resource.clone(),
                        requested: *hard,
                        hard: old.copied().unwrap_or(Quantity::from_nanos(AMOUNT_MAX, hard.format())),
                        allocated: Quantity::from_nanos(allocated, hard.format()),
                        would_fit: Quantity::from_nanos(allocated, hard.format()),
                    }));
                }
                let carrying = self.children(scope).filter(|child| carries(child, cluster, resource)).count();
                let children = count(using(cluster)) - count(carrying);
                if old.is_none() && children > 0 {
                    let (scope, cluster, resource) = (scope.to_owned(), cluster.clone(), resource.clone());
                    violations.push(Violation::ChildrenLackKey { scope, cluster, resource, children });
                }
            }
        }
        violations
    }

    fn in_use(&self, key: &Key) -> Option<Violation> {
        let children = self.children(&key.name).count();
        (key.kind == self.scope_kind && children > 0).then(|| Violation::ScopeInUse {
            scope: key.name.to_string(),
            children: i64::try_from(children).unwrap_or_default(),
        })
    }

    fn make(&mut self, write: &Write, revision: Revision) {
        let old = self.objects.remove(&write.key);
        let quota = write.quota.as_ref();
        let state = new_state(&write.change);
        let object = Object {
            uid: write.uid,
            revision,
            tenant: state.tenant.clone(),
            deleting: state.deleting,
            locked: state.locked,
            charge: quota.map_or_else(|| old.as_ref().and_then(|o| o.charge.clone()), |q| q.after.clone()),
            limits: quota.map_or_else(
                || old.as_ref().and_then(|o| o.limits.clone()),
                |q| q.limits.as_ref().and_then(|limits| limits.after.clone()),
            ),
        };
        let claim = quota.and_then(|quota| quota.claim.clone());
        match &write.change {
            Change::Create(_) => self.put('c', &write.key, object),
            Change::Update { .. } => self.put('u', &write.key, object),
            Change::Move { to, .. } => {
                self.events.push(('d', write.key.clone()));
                self.put('c', to, object);
            }
            Change::Delete { .. } => {
                self.events.push(('d', write.key.clone()));
                let abandoned = quota.is_some_and(|quota| quota.abandon.is_some());
                if abandoned {
                    self.holds.extend(quota.and_then(|quota| quota.before.clone()));
                } else if let Some(claim) = &claim
                    && self.claims.get(claim) == Some(&write.uid)
                {
                    self.claims.remove(claim);
                }
                return;
            }
        }
        if let Some(claim) = claim {
            self.claims.insert(claim, write.uid);
        }
    }

    fn put(&mut self, op: char, key: &Key, object: Object) {
        self.events.push((op, key.clone()));
        self.objects.insert(key.clone(), object);
    }

    fn scope(&self, name: &str) -> Option<&Object> {
        self.objects.get(&Key::new(self.scope_kind, "", name))
    }

    fn children<'a>(&'a self, scope: &'a str) -> impl Iterator<Item = &'a Charge> {
        let charges = self.objects.values().filter_map(|object| object.charge.as_ref());
        charges.chain(&self.holds).filter(move |charge| charge.scope == scope)
    }

    fn allocated(&self, scope: &str, cluster: &str, resource: &str) -> i128 {
        self.children(scope).map(|charge| amount(charge, cluster, resource)).sum()
    }
}

fn refuse(violations: impl IntoIterator<Item = Violation>) -> Result<(), Error> {
    let violations: Vec<_> = violations.into_iter().collect();
    if violations.is_empty() { Ok(()) } else { Err(Error::Refused(violations)) }
}

const AMOUNT_MAX: i128 = (i64::MAX as i128) * 1_000_000_000;

fn new_state(change: &Change) -> &State {
    match change {
        Change::Create(state) | Change::Update { state, .. } | Change::Move { state, .. } => state,
        Change::Delete { last, .. } => last,
    }
}

fn amount(charge: &Charge, cluster: &str, resource: &str) -> i128 {
    charge.amounts.get(cluster).and_then(|list| list.get(resource)).map_or(0, |amount| amount.nanos())
}

fn carries(charge: &Charge, cluster: &str, resource: &str) -> bool {
    charge.keys.get(cluster).is_some_and(|keys| keys.iter().any(|key| key == resource))
}

fn used(charge: &Charge) -> BTreeSet<&str> {
    charge.amounts.keys().chain(charge.keys.keys()).map(String::as_str).collect()
}

fn effect(quota: &QuotaChange) -> Effect {
    let Some(after) = quota.after.as_ref().filter(|charge| !charge.scope.is_empty()) else {
        return Effect { fresh: false, grows: false, keyed: false };
    };
    let Some(before) = quota.before.as_ref().filter(|before| before.scope == after.scope) else {
        return Effect { fresh: true, grows: true, keyed: true };
    };
    let more = after.amounts.iter().any(|(cluster, list)| {
        list.iter().any(|(resource, want)| want.nanos() > amount(before, cluster, resource))
    });
    let keys = |charge: &Charge| -> BTreeSet<(String, String)> {
        let pairs = charge.keys.iter();
        pairs.flat_map(|(cluster, keys)| keys.iter().map(|key| (cluster.clone(), key.clone()))).collect()
    };
    let new_cluster = !used(after).is_subset(&used(before));
    let keyed = used(before) != used(after) || keys(before) != keys(after);
    Effect { fresh: false, grows: more || new_cluster, keyed }
}

fn raises(change: &LimitsChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return change.after.is_some() };
    let higher = before.iter().any(|(cluster, list)| {
        list.iter().any(|(resource, was)| {
            after.get(cluster).and_then(|list| list.get(resource)).is_none_or(|is| is > was)
        })
    });
    higher || after.keys().any(|cluster| !before.contains_key(cluster))
}
