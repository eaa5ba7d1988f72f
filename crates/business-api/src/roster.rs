//! The people to whom the objects of a kind give roles, kept from the store's own watch. A role at an object holds for
//! the objects below it, too.

use self::given::{GivenByTenant, GivenInTenant};
use self::sights::{Asking, Sights, Tree};
use crate::follow::{FollowedIndex, Kept};
use crate::rights::Role;
use crate::role_changes::RoleChanges;
use business_types::{Subject, SubjectKind};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use store::{Entry, KindId, Revision, Store};

/// What people are given.
pub mod given;
/// What callers see.
mod sights;

/// The most steps upwards. The ledger refuses circles, but what is kept here may be a moment behind.
const DEPTH_MAX: usize = 1024;

/// Where a service account lives: the member cluster, empty for the host cluster, and the namespace.
pub type AccountPlace = (Box<str>, Box<str>);

/// The roles that an object gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Giving {
    /// Its tenant; an object of none gives nothing.
    pub tenant: Box<str>,
    /// The object of the same kind that it lies below; empty for none.
    pub below: Box<str>,
    /// The highest role of each name, as [`crate::people`] writes them.
    pub people: BTreeMap<Box<str>, Role>,
    /// How many people it lists, each as often as it does.
    pub listed: usize,
    /// Where the service accounts live that it lists.
    pub account_places: BTreeSet<AccountPlace>,
    /// The member clusters that it may use, of those where they live.
    pub account_clusters: BTreeSet<Box<str>>,
}

/// A tenant that lists service accounts of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The tenant.
    pub tenant: Box<str>,
    /// One of its objects that list them.
    pub object: Arc<str>,
    /// Whether that object may use the member cluster of the place.
    pub uses_cluster: bool,
}

impl Giving {
    /// One more role.
    pub fn give(&mut self, person: Box<str>, role: Role) {
        let held = self.people.entry(person).or_insert(role);
        *held = role.max(*held);
        self.listed = self.listed.saturating_add(1);
    }

    /// Notes where somebody lives, if it is a service account.
    pub fn note_account_place(&mut self, cluster: &str, subject: &Subject) {
        if subject.kind == SubjectKind::ServiceAccount {
            self.account_places.insert((cluster.into(), subject.namespace.as_str().into()));
        }
    }
}

/// Reads it out of a stored object.
pub type ReadGiving = fn(&str, &[u8]) -> Giving;

/// The roles that people have by the objects of a kind.
#[derive(Clone, Debug)]
pub struct Roster(Kept<Given>);

#[derive(Debug)]
struct Given {
    read: ReadGiving,
    objects: HashMap<Arc<str>, Giving>,
    below: HashMap<Box<str>, BTreeSet<Arc<str>>>,
    people: HashMap<Box<str>, BTreeMap<Arc<str>, Role>>,
    /// How many people the objects of a tenant list together.
    listed: HashMap<Box<str>, usize>,
    /// The objects that list a service account, by where it lives.
    account_places: HashMap<AccountPlace, BTreeSet<Arc<str>>>,
    changes: RoleChanges,
    sights: Sights,
}

/// Old values that were replaced, to be dropped when nobody waits for the lock.
type Replaced = (Option<Giving>, Vec<Arc<BTreeSet<String>>>);

impl Roster {
    /// A roster without anybody. Those who wait in `changes` are told when their roles change.
    pub fn new(read: ReadGiving, changes: RoleChanges) -> Self {
        Self(Kept::new(Given::new(read, changes)))
    }

    /// Complete without anybody, where no kind gives roles.
    pub fn of_nobody() -> Self {
        let roster = Self::new(|_, _| Giving::default(), RoleChanges::default());
        roster.0.show(Given::new(|_, _| Giving::default(), RoleChanges::default()));
        roster
    }

    /// Whether all objects have been read. Until then nobody is known to have a role.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Follows the objects of a kind for ever. `who` names the reader to the store.
    pub async fn follow(self, store: Store, kind: KindId, who: &'static str) {
        self.0.follow(store, kind, who).await;
    }

    /// Waits until the state of the store at this revision is known here.
    pub async fn reach(&self, revision: Revision) {
        self.0.reach(revision).await;
    }

    /// Whether the store may have told others of a change that is not known here yet.
    pub fn is_behind(&self) -> bool {
        self.0.is_behind()
    }

    /// Waits until what the store has told others of by now is known here.
    pub async fn catch_up(&self) {
        self.0.catch_up().await;
    }

    /// The roles that these names are given, by tenant: within one, or in all.
    pub fn given(&self, people: &[Box<str>], within: Option<&str>) -> Arc<GivenByTenant> {
        self.0.read().given(people, within)
    }

    /// How many people the objects of a tenant list together.
    pub fn listed(&self, tenant: &str) -> usize {
        self.0.read().listed.get(tenant).copied().unwrap_or_default()
    }

    /// How many people an object lists.
    pub fn listed_at(&self, object: &str) -> usize {
        self.0.read().objects.get(object).map_or(0, |giving| giving.listed)
    }

    /// The other tenants that list a service account that lives there.
    pub fn others_list_accounts_in(&self, tenant: &str, cluster: &str, namespace: &str) -> Vec<Listing> {
        let place = (Box::from(cluster), Box::from(namespace));
        let held = self.0.read();
        let mut others: BTreeMap<&str, Listing> = BTreeMap::new();
        for object in held.account_places.get(&place).into_iter().flatten() {
            let Some(giving) = held.objects.get(object).filter(|giving| *giving.tenant != *tenant) else {
                continue;
            };
            let uses_cluster = giving.account_clusters.contains(cluster);
            let listing = Listing { tenant: giving.tenant.clone(), object: Arc::clone(object), uses_cluster };
            let known = others.entry(&*giving.tenant).or_insert_with(|| listing.clone());
            if uses_cluster && !known.uses_cluster {
                *known = listing;
            }
        }
        others.into_values().collect()
    }

    /// The tenant of an object, and the highest role that these names have at it; `None` if there is no such object.
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
    /// An index that is filled aside tells nobody.
    fn emptied(&self) -> Self {
        Self::new(self.read, RoleChanges::default())
    }

    fn take(&mut self, entry: &Entry, exists: bool) {
        drop(self.set(&entry.key.name, giving(self.read, entry, exists)));
    }

    /// Nothing else changes the index.
    fn take_shared(kept: &Kept<Self>, entry: &Entry, exists: bool) {
        let read = kept.read().read;
        let new = giving(read, entry, exists);
        let is_known = kept.read().objects.get(&entry.key.name) == new.as_ref();
        if !is_known {
            let replaced = kept.change(|given| given.set(&entry.key.name, new));
            drop(replaced);
        }
    }

    /// The changes that were missed may concern anybody.
    fn replace(&mut self, complete: Self) -> Self {
        let changes = self.changes.clone();
        let old = std::mem::replace(self, Self { changes, ..complete });
        self.changes.tell_everybody();
        old
    }
}

/// The roles that an object gives in its present state; `None` when it is gone, or of no tenant.
fn giving(read: ReadGiving, entry: &Entry, exists: bool) -> Option<Giving> {
    exists.then(|| read(&entry.key.name, &entry.body)).filter(|giving| !giving.tenant.is_empty())
}

impl Given {
    fn new(read: ReadGiving, changes: RoleChanges) -> Self {
        let (objects, below, people) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (listed, account_places, sights) = (HashMap::new(), HashMap::new(), Sights::default());
        Self { read, objects, below, people, listed, account_places, changes, sights }
    }

    fn given(&self, people: &[Box<str>], within: Option<&str>) -> Arc<GivenByTenant> {
        let asking = Asking::new(people, within);
        if let Some(given) = self.sights.of(&asking) {
            return given;
        }
        let given = Arc::new(self.work_out(people, within));
        self.sights.keep(asking, &given);
        given
    }

    fn work_out(&self, people: &[Box<str>], within: Option<&str>) -> GivenByTenant {
        let mut tenants: BTreeMap<&str, (Option<Role>, BTreeSet<&Arc<str>>)> = BTreeMap::new();
        for (object, role) in people.iter().filter_map(|person| self.people.get(person)).flatten() {
            let Some(giving) = self.objects.get(object) else { continue };
            if within.is_some_and(|tenant| tenant != &*giving.tenant) {
                continue;
            }
            let (highest, tops) = tenants.entry(&*giving.tenant).or_default();
            *highest = (*highest).max(Some(*role));
            if *role != Role::Administrator {
                tops.insert(object);
            }
        }
        let in_tenant = |(tenant, (highest, tops)): (&str, (Option<Role>, BTreeSet<&Arc<str>>))| {
            let tenant: Arc<str> = Arc::from(tenant);
            let objects = if tops.is_empty() {
                Arc::default()
            } else {
                let tops = tops.into_iter().map(Arc::clone).collect();
                let tree = Tree { tenant: Arc::clone(&tenant), tops };
                self.sights.tree(tree, |tree| self.with_those_below(tree))
            };
            (tenant, GivenInTenant { highest, objects })
        };
        tenants.into_iter().map(in_tenant).collect()
    }

    /// The objects at the top of a tree and all below them, each looked at once.
    fn with_those_below(&self, tree: &Tree) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&Arc<str>> = tree.tops.iter().collect();
        while let Some(object) = next.pop() {
            let is_there = self.objects.get(object).is_some_and(|giving| *giving.tenant == *tree.tenant);
            if is_there && seen.insert(object.to_string()) {
                next.extend(self.below.get(&**object).into_iter().flatten());
            }
        }
        seen
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

    /// Takes an object in its present state; `None` when it is gone.
    fn set(&mut self, object: &Arc<str>, new: Option<Giving>) -> Replaced {
        let old = self.objects.get(object);
        if old == new.as_ref() {
            return Replaced::default();
        }
        let place = |giving: &Giving| (giving.tenant.clone(), giving.below.clone());
        let has_moved = old.map(place) != new.as_ref().map(place);
        // An index that is filled aside has nobody to tell.
        let is_heard = !self.sights.is_empty() || !self.changes.is_empty();
        let mut above = HashSet::new();
        if has_moved && is_heard {
            for giving in old.into_iter().chain(new.as_ref()) {
                self.climb(&giving.below, &mut above);
            }
        }
        let old = self.forget(object);
        if let Some(new) = new {
            self.add(object, new);
        }
        let trees = if is_heard {
            self.tell(&Change { object, old: old.as_ref(), has_moved, above })
        } else {
            Vec::new()
        };
        (old, trees)
    }

    /// The names of an object and of all above it. A circle ends.
    fn climb(&self, from: &str, names: &mut HashSet<Arc<str>>) {
        let mut next = self.objects.get_key_value(from);
        while let Some((name, giving)) = next {
            if !names.insert(Arc::clone(name)) {
                return;
            }
            next = self.objects.get_key_value(&*giving.below);
        }
    }

    /// Forgets what was worked out for the people whom a change concerns, and tells those of them who wait. Others are
    /// not even listed: above a project may be as many people as a tenant has.
    fn tell(&self, change: &Change<'_>) -> Vec<Arc<BTreeSet<String>>> {
        let Change { object, old, has_moved, above } = change;
        let new = self.objects.get(*object);
        let role = |giving: Option<&Giving>, person: &str| giving?.people.get(person).copied();
        let is_concerned = |person: &str| {
            let (before, after) = (role(*old, person), role(new, person));
            // People with a role above see one object less, or one more.
            before != after || *has_moved && (after.is_some() || self.is_given_one_of(person, above))
        };
        let parent = new.map_or("", |new| &*new.below);
        // The objects below an object come or go with it.
        let has_changed =
            |tree: &BTreeSet<String>| *has_moved && (tree.contains(&***object) || tree.contains(parent));
        let trees = self.sights.forget(is_concerned, has_changed);

        let named = above.iter().filter_map(|name| self.objects.get(name)).chain(*old).chain(new);
        let named = named.flat_map(|giving| giving.people.keys());
        let waiting = self.changes.len();
        if named.clone().take(waiting).count() == waiting {
            self.changes.tell_those(is_concerned);
            return trees;
        }
        for person in named.filter(|person| is_concerned(person)) {
            self.changes.tell(person);
        }
        trees
    }

    fn is_given_one_of(&self, person: &str, objects: &HashSet<Arc<str>>) -> bool {
        let Some(given) = self.people.get(person) else { return false };
        if given.len() < objects.len() {
            given.keys().any(|object| objects.contains(object))
        } else {
            objects.iter().any(|object| given.contains_key(object))
        }
    }

    fn add(&mut self, object: &Arc<str>, new: Giving) {
        if !new.below.is_empty() {
            self.below.entry(new.below.clone()).or_default().insert(Arc::clone(object));
        }
        for (person, role) in &new.people {
            self.people.entry(person.clone()).or_default().insert(Arc::clone(object), *role);
        }
        for place in &new.account_places {
            self.account_places.entry(place.clone()).or_default().insert(Arc::clone(object));
        }
        if new.listed > 0 {
            let listed = self.listed.entry(new.tenant.clone()).or_default();
            *listed = listed.saturating_add(new.listed);
        }
        self.objects.insert(Arc::clone(object), new);
    }

    fn forget(&mut self, object: &Arc<str>) -> Option<Giving> {
        let old = self.objects.remove(object)?;
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
        for place in &old.account_places {
            let Some(listing) = self.account_places.get_mut(place) else { continue };
            listing.remove(object);
            if listing.is_empty() {
                self.account_places.remove(place);
            }
        }
        if let Some(listed) = self.listed.get_mut(&old.tenant) {
            *listed = listed.saturating_sub(old.listed);
            if *listed == 0 {
                self.listed.remove(&old.tenant);
            }
        }
        Some(old)
    }
}

/// A change of an object.
struct Change<'a> {
    object: &'a Arc<str>,
    old: Option<&'a Giving>,
    /// Whether it lies elsewhere, has come or gone.
    has_moved: bool,
    /// The objects that it lay below, and those that it lies below now.
    above: HashSet<Arc<str>>,
}

#[cfg(test)]
pub(crate) mod tests;
