//! Whom the objects of a kind give a role, kept from the store's own watch. What is given at an object holds for those below
//! it, too.

use crate::follow::{FollowedIndex, Kept};
use crate::role_changes::RoleChanges;
use crate::roles::Role;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use store::{Entry, KindId, Revision, Store};

/// Steps upwards at most: a circle is for the ledger to refuse, and what is kept here may be a moment behind.
const DEPTH_MAX: usize = 1024;

/// Whom an object gives which role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Giving {
    /// Its tenant; what belongs to none gives nothing.
    pub tenant: Box<str>,
    /// The object of the same kind that it lies below; empty for none.
    pub below: Box<str>,
    /// By the names of [`crate::people`], the highest role of each.
    pub people: BTreeMap<Box<str>, Role>,
}

impl Giving {
    /// One more role.
    pub fn give(&mut self, person: Box<str>, role: Role) {
        let held = self.people.entry(person).or_insert(role);
        *held = role.max(*held);
    }
}

/// Reads it out of a stored object.
pub type ReadGiving = fn(&str, &[u8]) -> Giving;

/// Who has which role by the objects of a kind.
#[derive(Clone, Debug)]
pub struct Roster(Kept<Given>);

#[derive(Debug)]
struct Given {
    read: ReadGiving,
    objects: HashMap<Arc<str>, Giving>,
    below: HashMap<Box<str>, BTreeSet<Arc<str>>>,
    people: HashMap<Box<str>, BTreeMap<Arc<str>, Role>>,
    changes: RoleChanges,
}

/// What somebody is given in a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenInTenant {
    /// The highest role that he has somewhere in it.
    pub highest: Option<Role>,
    /// The objects at which he has one, and those below them; none is named for whom rules the tenant.
    pub objects: BTreeSet<String>,
}

impl Roster {
    /// Nobody yet. Who waits is told when he is given something else.
    pub fn new(read: ReadGiving, changes: RoleChanges) -> Self {
        Self(Kept::new(Given::new(read, changes)))
    }

    /// Complete without anybody, where no kind gives roles.
    pub fn of_nobody() -> Self {
        let roster = Self::new(|_, _| Giving::default(), RoleChanges::default());
        roster.0.show(Given::new(|_, _| Giving::default(), RoleChanges::default()));
        roster
    }

    /// Whether all objects have been read. Before, nobody is known to have a role.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Follows the objects of a kind for ever. `who` is told to the store.
    pub async fn follow(self, store: Store, kind: KindId, who: &'static str) {
        self.0.follow(store, kind, who).await;
    }

    /// Waits until what the store was at this revision is known here.
    pub async fn reach(&self, revision: Revision) {
        self.0.reach(revision).await;
    }

    /// What somebody of these names is given, by tenant: within one, or in all.
    pub fn given(&self, people: &[Box<str>], within: Option<&str>) -> BTreeMap<Arc<str>, GivenInTenant> {
        self.0.read().given(people, within)
    }

    /// The highest role that these names have at an object, and its tenant; none if there is no such object.
    pub fn at(&self, people: &[Box<str>], object: &str) -> Option<(Box<str>, Option<Role>)> {
        self.0.read().at(people, object)
    }

    /// The tenant of an object, and the object that it lies below.
    pub fn place(&self, object: &str) -> Option<(Box<str>, Box<str>)> {
        let held = self.0.read();
        held.objects.get(object).map(|giving| (giving.tenant.clone(), giving.below.clone()))
    }

    /// Whether an object lies somewhere below another one.
    pub fn is_below(&self, object: &str, above: &str) -> bool {
        self.0.read().upwards(object).skip(1).any(|(name, _)| name == above)
    }
}

impl FollowedIndex for Given {
    /// Nobody is told of what is filled aside.
    fn emptied(&self) -> Self {
        Self::new(self.read, RoleChanges::default())
    }

    fn take(&mut self, entry: &Entry, exists: bool) {
        let giving = exists.then(|| (self.read)(&entry.key.name, &entry.body));
        self.set(&entry.key.name, giving.filter(|giving| !giving.tenant.is_empty()));
    }

    /// What was missed may concern anybody.
    fn replace(&mut self, complete: Self) -> Self {
        let changes = self.changes.clone();
        let old = std::mem::replace(self, Self { changes, ..complete });
        self.changes.tell_everybody();
        old
    }
}

impl Given {
    fn new(read: ReadGiving, changes: RoleChanges) -> Self {
        let (objects, below, people) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { read, objects, below, people, changes }
    }

    fn given(&self, people: &[Box<str>], within: Option<&str>) -> BTreeMap<Arc<str>, GivenInTenant> {
        let mut tenants: BTreeMap<Arc<str>, GivenInTenant> = BTreeMap::new();
        for (object, role) in people.iter().filter_map(|person| self.people.get(person)).flatten() {
            let Some(giving) = self.objects.get(object) else { continue };
            if within.is_some_and(|tenant| tenant != &*giving.tenant) {
                continue;
            }
            let given = tenants.entry(Arc::from(&*giving.tenant)).or_default();
            given.highest = given.highest.max(Some(*role));
            if *role != Role::Administrator {
                self.with_those_below(object, &giving.tenant, &mut given.objects);
            }
        }
        tenants
    }

    /// An object and those of its tenant that lie below it, each looked at once.
    fn with_those_below(&self, object: &Arc<str>, tenant: &str, seen: &mut BTreeSet<String>) {
        let mut next = vec![object];
        while let Some(object) = next.pop() {
            let is_there = self.objects.get(object).is_some_and(|giving| &*giving.tenant == tenant);
            if is_there && seen.insert(object.to_string()) {
                next.extend(self.below.get(&**object).into_iter().flatten());
            }
        }
    }

    fn at(&self, people: &[Box<str>], object: &str) -> Option<(Box<str>, Option<Role>)> {
        let tenant = self.objects.get(object)?.tenant.clone();
        let lines = self.upwards(object).take_while(|(_, giving)| giving.tenant == tenant);
        let roles =
            lines.filter_map(|(_, giving)| people.iter().filter_map(|name| giving.people.get(name)).max());
        let highest = roles.max().copied();
        Some((tenant, highest))
    }

    /// An object, and those above it.
    fn upwards<'a>(&'a self, object: &'a str) -> impl Iterator<Item = (&'a str, &'a Giving)> {
        let of = |name: &'a str| self.objects.get(name).map(|giving| (name, giving));
        std::iter::successors(of(object), move |(_, giving)| of(&giving.below)).take(DEPTH_MAX)
    }

    /// Takes an object in its present state; none when it is gone.
    fn set(&mut self, object: &Arc<str>, new: Option<Giving>) {
        let old = self.objects.get(object);
        if old == new.as_ref() {
            return;
        }
        let mut told: HashSet<Box<str>> = HashSet::new();
        let place = |giving: &Giving| (giving.tenant.clone(), giving.below.clone());
        if old.map(place) != new.as_ref().map(place) {
            // Whoever is given something above sees one object less, or one more.
            told.extend(self.above(old));
            told.extend(self.above(new.as_ref()));
        }
        let people = |giving: Option<&Giving>| giving.map(|giving| giving.people.clone()).unwrap_or_default();
        told.extend(people(old).into_keys());
        told.extend(people(new.as_ref()).into_keys());
        self.forget(object);
        if let Some(new) = new {
            if !new.below.is_empty() {
                self.below.entry(new.below.clone()).or_default().insert(Arc::clone(object));
            }
            for (person, role) in &new.people {
                self.people.entry(person.clone()).or_default().insert(Arc::clone(object), *role);
            }
            self.objects.insert(Arc::clone(object), new);
        }
        for person in told {
            self.changes.tell(&person);
        }
    }

    /// Whoever is given something above an object.
    fn above(&self, giving: Option<&Giving>) -> Vec<Box<str>> {
        let above = giving.into_iter().flat_map(|giving| self.upwards(&giving.below));
        above.flat_map(|(_, giving)| giving.people.keys().cloned()).collect()
    }

    fn forget(&mut self, object: &Arc<str>) {
        let Some(old) = self.objects.remove(object) else { return };
        if let Some(below) = self.below.get_mut(&old.below) {
            below.remove(object);
            if below.is_empty() {
                self.below.remove(&old.below);
            }
        }
        for person in old.people.keys() {
            let Some(given) = self.people.get_mut(person) else { continue };
            given.remove(object);
            if given.is_empty() {
                self.people.remove(person);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
