//! The quota rules in the simplest form: the model keeps no sums, and computes every answer from all objects.

use crate::model::{Change, Key, KindId, ScopeRole, Write};
use crate::{Error, Revision};
use meta::quantity::{Quantity, ResourceList};
use quota::{Account, Claim, Grants, Limits, Scope, Shortage, Undercut, Violation};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A store in memory that takes one write at a time.
#[derive(Clone, Debug)]
pub struct Model {
    objects: BTreeMap<Key, StoredObject>,
    holds: Vec<Account>,
    claims: BTreeMap<Claim, Uuid>,
    events: Vec<(char, Key)>,
    /// The kinds that stand for scopes.
    scope_roles: Vec<(KindId, ScopeRole)>,
    children_max: usize,
    held: bool,
}

#[derive(Clone, Debug)]
struct StoredObject {
    uid: Uuid,
    revision: Revision,
    account: Account,
}

/// A scope, with the limits that all objects grant to it.
struct ScopeView<'a> {
    /// The object that stands for it.
    account: Option<&'a Account>,
    limits: BTreeMap<&'a str, &'a Limits>,
}

/// What a change does in the scope that its object pays.
struct Effect {
    /// The object is new in the scope.
    fresh: bool,
    /// An amount rises, or a domain is new.
    grows: bool,
    /// The keys that the object carries change.
    keyed: bool,
}

impl Model {
    /// An empty store in which objects of these kinds stand for scopes.
    pub fn new(scope_roles: impl Into<Vec<(KindId, ScopeRole)>>, children_max: usize) -> Self {
        Self {
            objects: BTreeMap::new(),
            holds: Vec::new(),
            claims: BTreeMap::new(),
            events: Vec::new(),
            scope_roles: scope_roles.into(),
            children_max,
            held: false,
        }
    }

    /// Holds growth, or lets it go on.
    pub fn hold_growth(&mut self, held: bool) {
        self.held = held;
    }

    /// All events: `c`, `u` or `d`, and the object's key.
    pub fn events(&self) -> &[(char, Key)] {
        &self.events
    }

    /// Keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// Decides a write. If the write is made, its object is at `revision` afterwards.
    pub fn write(&mut self, write: &Write, revision: Revision) -> Result<(), Error> {
        let (before, after) = (write.change.before(), write.change.after());
        let raises = after.is_some_and(|after| after.grants.is_some() && raises(before, after));
        let effect = effect(before, after);
        let grows = effect.grows || raises;
        if grows && (!write.growth.is_allowed() || write.change.state().account.deleting) {
            return Err(Error::NotAdmitted);
        }
        let ends = [before, after].into_iter().flatten().any(|account| account.deleting);
        if write.change.destination().is_some() && (ends || write.hold.is_some()) {
            return Err(Error::NotAdmitted);
        }
        self.compare(write)?;
        if let Some(after) = after.filter(|_| effect.grows || effect.keyed) {
            refuse(self.scope_violation(after))?;
        }
        if grows && self.held {
            return Err(Error::Held);
        }
        self.admit(write)?;
        self.make(write, revision);
        Ok(())
    }

    /// Compare-and-swap.
    fn compare(&self, write: &Write) -> Result<(), Error> {
        let taken = |key: &Key| match self.objects.get(key) {
            Some(object) => Err(Error::AlreadyExists { deleting: object.account.deleting }),
            None => Ok(()),
        };
        let (expected, deleting) = match &write.change {
            // A scope that the writer cannot use is reported before a name that is taken.
            Change::Create(state) => {
                refuse(self.scope_violation(&state.account))?;
                return taken(&write.key);
            }
            Change::Update { expected, state, .. } | Change::Move { expected, state, .. } => {
                (expected, state.account.deleting)
            }
            Change::Delete { expected, last, .. } => (expected, last.account.deleting),
        };
        let object = self.objects.get(&write.key).ok_or(Error::NotFound)?;
        if object.uid != write.uid || object.revision != *expected || (object.account.deleting && !deleting) {
            return Err(Error::Conflict);
        }
        if let Change::Move { to, before, state, .. } = &write.change {
            if effect(Some(&before.account), Some(&state.account)).keyed {
                refuse(self.scope_violation(&state.account))?;
            }
            return taken(to);
        }
        Ok(())
    }

    fn admit(&self, write: &Write) -> Result<(), Error> {
        let (before, after) = (write.change.before(), write.change.after());
        let effect = effect(before, after);
        let mut violations = Vec::new();
        if let Some((after, scope)) = paid_scope(after)
            && (effect.grows || effect.keyed)
        {
            let before = before.filter(|before| before.pays == after.pays);
            violations.extend(self.charge(write, scope, before, after, &effect));
        }
        match (after, self.role_of(write.key.kind)) {
            (None, Some(role)) => violations.extend(self.in_use(&write.key, role)),
            (after, _) => violations.extend(self.limits(before, after)),
        }
        for claim in after.into_iter().flat_map(|after| &after.claims) {
            if let Some(holder) = self.claims.get(claim).filter(|holder| **holder != write.uid) {
                violations.push(Violation::ClaimTaken { claim: claim.clone(), holder: *holder });
            }
        }
        refuse(violations)
    }

    fn charge(
        &self,
        write: &Write,
        to: &Scope,
        before: Option<&Account>,
        after: &Account,
        effect: &Effect,
    ) -> Vec<Violation> {
        let name = || to.clone();
        if let Some(violation) = self.scope_violation(after) {
            return vec![violation];
        }
        let Some(ScopeView { account, limits }) = self.scope(to) else { return Vec::new() };
        let mut violations = Vec::new();
        if effect.grows && account.is_some_and(|account| account.deleting) {
            violations.push(Violation::ScopeTerminating { scope: name() });
        }
        if effect.grows && account.is_some_and(|account| account.locked) {
            violations.push(Violation::ScopeLocked { scope: name() });
        }
        if effect.fresh {
            if self.children(to).count() >= self.children_max {
                let children_max = i64::try_from(self.children_max).unwrap_or_default();
                violations.push(Violation::TooManyChildren { scope: name(), children_max });
            }
            violations.extend(self.ancestors(write, to));
        }
        for cluster in used(after) {
            let is_new = before.is_none_or(|before| !used(before).contains(cluster));
            let list = limits.get(cluster);
            let more = |(resource, want): (&String, &Quantity)| {
                want.nanos() > before.map_or(0, |before| amount(before, cluster, resource))
            };
            let is_bound = write.growth.within().iter().any(|domain| domain == cluster)
                && (is_new
                    || after.costs.get(cluster).into_iter().flatten().any(more)
                    || Grants::raised(granted(write.change.before()), granted(Some(after)))
                        .any(|raised| raised == cluster));
            if list.is_none() && (is_bound || is_new && !self.is_open(to)) {
                violations.push(Violation::DomainNotListed { scope: name(), domain: cluster.to_owned() });
            }
            let mandatory = list.filter(|list| list.mandatory);
            for resource in mandatory.into_iter().flat_map(|list| list.hard.keys()) {
                if effect.keyed && !carries(after, cluster, resource) {
                    let (domain, key) = (cluster.to_owned(), resource.clone());
                    violations.push(Violation::KeyMissing { scope: name(), domain, key });
                }
            }
            for (resource, want) in after.costs.get(cluster).into_iter().flatten() {
                let own = before.map_or(0, |before| amount(before, cluster, resource));
                let hard =
                    list.and_then(|list| list.hard.get(resource)).map_or(AMOUNT_MAX, |hard| hard.nanos());
                let allocated = self.allocated(to, cluster, resource);
                // The excess of the object's own scope counts here already. A raise that fits takes it over.
                let taken =
                    granted(write.change.before()).map_or(0, |own| self.excess(own, cluster, resource));
                let delta = want.nanos() - own;
                if delta > 0 && allocated + (delta - taken).max(0) > hard {
                    let room = if allocated > hard { 0 } else { taken + hard - allocated };
                    violations.push(Violation::DoesNotFit(Shortage {
                        scope: name(),
                        domain: cluster.to_owned(),
                        key: resource.clone(),
                        requested: *want,
                        hard: Quantity::from_nanos(hard, want.format()),
                        allocated: Quantity::from_nanos(allocated, want.format()),
                        would_fit: Quantity::from_nanos(own + room, want.format()),
                    }));
                }
            }
        }
        violations
    }

    fn scope_violation(&self, account: &Account) -> Option<Violation> {
        let scope = account.pays.clone()?;
        match self.scope(&scope) {
            None => Some(Violation::ScopeMissing { scope }),
            Some(view) => {
                let is_foreign = view.account.is_some_and(|owner| owner.tenant != account.tenant);
                is_foreign.then_some(Violation::ScopeForeign { scope })
            }
        }
    }

    fn ancestors(&self, write: &Write, scope: &Scope) -> Option<Violation> {
        let own = self.role_of(write.key.kind).map(|role| Scope::new(role.scope, &*write.key.name));
        let mut seen = BTreeSet::new();
        let mut up = scope.clone();
        loop {
            if own.as_ref() == Some(&up) || !seen.insert(up.clone()) {
                return Some(Violation::Cycle { scope: scope.clone() });
            }
            let Some(ScopeView { account, .. }) = self.scope(&up) else {
                return Some(Violation::AncestorMissing { scope: up });
            };
            up = account?.pays.clone()?;
        }
    }

    fn limits(&self, before: Option<&Account>, after: Option<&Account>) -> Vec<Violation> {
        let Some(Grants { scope, .. }) = granted(after).or(granted(before)) else { return Vec::new() };
        let none = BTreeMap::new();
        let (before, after) = (before.map_or(&none, limits_of), after.map_or(&none, limits_of));
        let using =
            |cluster: &str| self.children(scope).filter(|child| used(child).contains(cluster)).count();
        let count = |number: usize| i64::try_from(number).unwrap_or_default();
        let mut violations = Vec::new();
        for cluster in before.keys().filter(|cluster| !after.contains_key(*cluster)) {
            let (scope, children) = (scope.clone(), count(using(cluster)));
            if children > 0 && !self.is_open(&scope) {
                violations.push(Violation::DomainInUse { scope, domain: cluster.clone(), children });
            }
        }
        for (cluster, list) in after {
            for (resource, hard) in &list.hard {
                let old = before.get(cluster).and_then(|list| list.hard.get(resource));
                let allocated = self.allocated(scope, cluster, resource);
                let is_taken = match list.undercut {
                    Undercut::Refused => false,
                    Undercut::WhereUnlimited => old.is_none(),
                    Undercut::Taken => true,
                };
                if hard.nanos() < allocated && old.is_none_or(|old| hard < old) && !is_taken {
                    let fits = old.map_or(allocated, |old| allocated.min(old.nanos()));
                    violations.push(Violation::BelowAllocated(Shortage {
                        scope: scope.clone(),
                        domain: cluster.clone(),
                        key: resource.clone(),
                        requested: *hard,
                        hard: old.copied().unwrap_or(Quantity::from_nanos(AMOUNT_MAX, hard.format())),
                        allocated: Quantity::from_nanos(allocated, hard.format()),
                        would_fit: Quantity::from_nanos(fits, hard.format()),
                    }));
                }
                let carrying = self.children(scope).filter(|child| carries(child, cluster, resource)).count();
                let children = count(using(cluster)) - count(carrying);
                if old.is_none() && list.mandatory && children > 0 {
                    let (scope, domain, key) = (scope.clone(), cluster.clone(), resource.clone());
                    violations.push(Violation::ChildrenLackKey { scope, domain, key, children });
                }
            }
        }
        violations
    }

    fn in_use(&self, key: &Key, role: ScopeRole) -> Option<Violation> {
        let scope = Scope::new(role.scope, &*key.name);
        let children = self.children(&scope).count();
        (children > 0)
            .then(|| Violation::ScopeInUse { scope, children: i64::try_from(children).unwrap_or_default() })
    }

    fn make(&mut self, write: &Write, revision: Revision) {
        let old = self.objects.remove(&write.key);
        let account = write.change.state().account.clone();
        let object = StoredObject { uid: write.uid, revision, account };
        match &write.change {
            Change::Create(_) => self.put('c', &write.key, object),
            Change::Update { .. } => self.put('u', &write.key, object),
            Change::Move { to, .. } => {
                self.events.push(('d', write.key.clone()));
                self.put('c', to, object);
            }
            Change::Delete { .. } => {
                self.events.push(('d', write.key.clone()));
                let Some(StoredObject { account, .. }) = old else { return };
                if write.hold.is_some() {
                    self.holds.push(account);
                } else {
                    self.claims.retain(|claim, uid| *uid != write.uid || !account.claims.contains(claim));
                }
                return;
            }
        }
        for claim in &write.change.state().account.claims {
            self.claims.insert(claim.clone(), write.uid);
        }
    }

    fn put(&mut self, op: char, key: &Key, object: StoredObject) {
        self.events.push((op, key.clone()));
        self.objects.insert(key.clone(), object);
    }

    fn role_of(&self, kind: KindId) -> Option<ScopeRole> {
        self.scope_roles.iter().find(|(stands, _)| *stands == kind).map(|(_, role)| *role)
    }

    fn is_open(&self, scope: &Scope) -> bool {
        self.scope_roles.iter().any(|(_, role)| role.scope == scope.kind && !role.required)
    }

    fn scope(&self, scope: &Scope) -> Option<ScopeView<'_>> {
        let role = self.scope_roles.iter().find(|(_, role)| role.scope == scope.kind);
        let account = role.and_then(|(kind, _)| self.objects.get(&Key::new(*kind, "", &scope.name)));
        if role.is_some_and(|(_, role)| role.required) && account.is_none() {
            return None;
        }
        let all = self.objects.values().filter_map(|object| object.account.grants.as_ref());
        let granted = all.filter(|grants| grants.scope == *scope);
        let limits =
            granted.flat_map(|grants| grants.domains.iter().map(|(domain, limits)| (&**domain, limits)));
        Some(ScopeView { account: account.map(|object| &object.account), limits: limits.collect() })
    }

    /// The excess of a scope: by how much its children are above its limit.
    fn excess(&self, grants: &Grants, domain: &str, key: &str) -> i128 {
        let hard = grants.domains.get(domain).and_then(|limits| limits.hard.get(key));
        hard.map_or(0, |hard| (self.allocated(&grants.scope, domain, key) - hard.nanos()).max(0))
    }

    fn children<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Account> {
        let accounts = self.objects.values().map(|object| &object.account);
        accounts.chain(&self.holds).filter(move |account| account.pays.as_ref() == Some(scope))
    }

    fn allocated(&self, scope: &Scope, domain: &str, key: &str) -> i128 {
        let of = |account: &Account| {
            amount(account, domain, key)
                + granted(Some(account)).map_or(0, |own| self.excess(own, domain, key))
        };
        self.children(scope).map(of).sum()
    }
}

fn refuse(violations: impl IntoIterator<Item = Violation>) -> Result<(), Error> {
    let violations: Vec<_> = violations.into_iter().collect();
    if violations.is_empty() { Ok(()) } else { Err(Error::Refused(violations)) }
}

const AMOUNT_MAX: i128 = (i64::MAX as i128) * 1_000_000_000;

fn paid_scope(account: Option<&Account>) -> Option<(&Account, &Scope)> {
    Some((account?, account?.pays.as_ref()?))
}

fn limits_of(account: &Account) -> &BTreeMap<String, Limits> {
    const NONE: &BTreeMap<String, Limits> = &BTreeMap::new();
    account.grants.as_ref().map_or(NONE, |grants| &grants.domains)
}

fn granted(account: Option<&Account>) -> Option<&Grants> {
    account?.grants.as_ref()
}

fn amount(account: &Account, domain: &str, key: &str) -> i128 {
    account.costs.get(domain).and_then(|list| list.get(key)).map_or(0, |amount| amount.nanos())
}

fn carries(account: &Account, domain: &str, key: &str) -> bool {
    account.carries.get(domain).is_some_and(|keys| keys.iter().any(|carried| carried == key))
}

fn used(account: &Account) -> BTreeSet<&str> {
    account.costs.keys().chain(account.carries.keys()).map(String::as_str).collect()
}

fn effect(before: Option<&Account>, after: Option<&Account>) -> Effect {
    let Some((after, scope)) = paid_scope(after) else {
        return Effect { fresh: false, grows: false, keyed: false };
    };
    let Some(before) = before.filter(|before| before.pays.as_ref() == Some(scope)) else {
        return Effect { fresh: true, grows: true, keyed: true };
    };
    let more = after
        .costs
        .iter()
        .any(|(domain, list)| list.iter().any(|(key, want)| want.nanos() > amount(before, domain, key)));
    let keys = |account: &Account| -> BTreeSet<(String, String)> {
        let pairs = account.carries.iter();
        pairs.flat_map(|(domain, keys)| keys.iter().map(|key| (domain.clone(), key.clone()))).collect()
    };
    let new_domain = !used(after).is_subset(&used(before));
    let keyed = used(before) != used(after) || keys(before) != keys(after);
    Effect { fresh: false, grows: more || new_domain, keyed }
}

fn raises(before: Option<&Account>, after: &Account) -> bool {
    let Some(before) = before else { return true };
    let (before, after) = (limits_of(before), limits_of(after));
    let higher = |old: &ResourceList, new: &Limits| {
        old.iter().any(|(key, was)| new.hard.get(key).is_none_or(|is| is > was))
    };
    before.iter().any(|(domain, list)| after.get(domain).is_some_and(|limits| higher(&list.hard, limits)))
        || after.keys().any(|domain| !before.contains_key(domain))
}
