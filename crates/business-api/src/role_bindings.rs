//! Which subjects the objects of a kind give roles, kept from the store's watch. A role at an object holds for the
//! object's descendants, too.

use self::tenant_roles::{RolesByTenant, TenantRoles};
use self::visibility_cache::{CallerKey, SubtreeKey, VisibilityCache};
use crate::follow::{ObjectIndex, SharedIndex};
use crate::rights::Role;
use crate::role_changes::RoleChanges;
use business_types::{Subject, SubjectKind};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use store::{Entry, KindId, Revision, Store};

/// The roles of a caller, by tenant.
pub mod tenant_roles;
/// The cached roles and visible objects of callers.
mod visibility_cache;

/// The most ancestors that are followed. The ledger refuses cycles, but the index may be a moment behind it.
const DEPTH_MAX: usize = 1024;

/// The namespace of a service account: its member cluster, empty for the host cluster, and the namespace's name.
pub type AccountNamespace = (Box<str>, Box<str>);

/// The roles that one object gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectBindings {
    /// The object's tenant. An object without a tenant gives no roles.
    pub tenant: Box<str>,
    /// The object's parent, of the same kind; empty for none.
    pub parent: Box<str>,
    /// The highest role of each subject, by the keys of [`crate::subjects`].
    pub subjects: BTreeMap<Box<str>, Role>,
    /// How many subjects the object lists. One that is listed twice counts twice.
    pub listed: usize,
    /// The namespaces of the service accounts that the object lists.
    pub account_namespaces: BTreeSet<AccountNamespace>,
    /// The member clusters of `account_namespaces` that the object may use.
    pub account_clusters: BTreeSet<Box<str>>,
}

/// A tenant that lists service accounts of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountListing {
    /// The tenant.
    pub tenant: Box<str>,
    /// One of the tenant's objects that list them.
    pub object: Arc<str>,
    /// Whether that object may use the member cluster of the namespace.
    pub uses_cluster: bool,
}

impl ObjectBindings {
    /// Adds an entry of the object's lists.
    pub fn bind(&mut self, subject: Box<str>, role: Role) {
        let bound = self.subjects.entry(subject).or_insert(role);
        *bound = role.max(*bound);
        self.listed = self.listed.saturating_add(1);
    }

    /// Adds the namespace of a subject that is a service account.
    pub fn add_account_namespace(&mut self, cluster: &str, subject: &Subject) {
        if subject.kind == SubjectKind::ServiceAccount {
            self.account_namespaces.insert((cluster.into(), subject.namespace.as_str().into()));
        }
    }
}

/// Reads the bindings of an object out of its name and its stored body.
pub type ReadBindings = fn(&str, &[u8]) -> ObjectBindings;

/// An index of the roles that the objects of a kind give. Clones share it.
#[derive(Clone, Debug)]
pub struct RoleBindings(SharedIndex<BindingIndex>);

#[derive(Debug)]
struct BindingIndex {
    read: ReadBindings,
    objects: HashMap<Arc<str>, ObjectBindings>,
    children: HashMap<Box<str>, BTreeSet<Arc<str>>>,
    subjects: HashMap<Box<str>, BTreeMap<Arc<str>, Role>>,
    /// How many subjects the objects of each tenant list together.
    listed: HashMap<Box<str>, usize>,
    /// The objects that list a service account, by the account's namespace.
    account_namespaces: HashMap<AccountNamespace, BTreeSet<Arc<str>>>,
    changes: RoleChanges,
    cache: VisibilityCache,
}

/// The roles that the objects of a tenant give a caller.
#[derive(Default)]
struct GivenRoles<'a> {
    highest: Option<Role>,
    /// The objects at which he has a role in a project. They and their descendants are what he sees.
    roots: BTreeSet<&'a Arc<str>>,
}

/// Values that an update has replaced. The caller drops them after it has released the lock.
type Replaced = (Option<ObjectBindings>, Vec<Arc<BTreeSet<String>>>);

impl RoleBindings {
    /// An index that has not been filled. It notifies the subscribers of `changes` when their roles change.
    pub fn new(read: ReadBindings, changes: RoleChanges) -> Self {
        Self(SharedIndex::new(BindingIndex::new(read, changes)))
    }

    /// A synced index without bindings, for when no kind gives roles.
    pub fn empty() -> Self {
        let bindings = Self::new(|_, _| ObjectBindings::default(), RoleChanges::default());
        bindings.0.publish(BindingIndex::new(|_, _| ObjectBindings::default(), RoleChanges::default()));
        bindings
    }

    /// Whether all objects have been read. Before that, no subject is known to have a role.
    pub fn has_synced(&self) -> bool {
        self.0.has_synced()
    }

    /// Follows the objects of a kind for ever. `who` is the reader's name for the store.
    pub async fn follow(self, store: Store, kind: KindId, who: &'static str) {
        self.0.follow(store, kind, who).await;
    }

    /// Waits until the index has reached a revision of the store.
    pub async fn wait_for(&self, revision: Revision) {
        self.0.wait_for(revision).await;
    }

    /// Whether the store may have sent other watches a change that the index does not have yet.
    pub fn is_behind(&self) -> bool {
        self.0.is_behind()
    }

    /// Waits until the index has every change that the store has sent to other watches by now.
    pub async fn catch_up(&self) {
        self.0.catch_up().await;
    }

    /// The roles of a caller who is these subjects: in one tenant, or in all.
    pub fn roles_by_tenant(&self, subjects: &[Box<str>], tenant: Option<&str>) -> Arc<RolesByTenant> {
        self.0.read().roles_by_tenant(subjects, tenant)
    }

    /// How many subjects the objects of a tenant list together.
    pub fn listed(&self, tenant: &str) -> usize {
        self.0.read().listed.get(tenant).copied().unwrap_or_default()
    }

    /// How many subjects an object lists.
    pub fn listed_at(&self, object: &str) -> usize {
        self.0.read().objects.get(object).map_or(0, |bindings| bindings.listed)
    }

    /// The other tenants that list a service account of a namespace.
    pub fn foreign_account_listings(
        &self,
        tenant: &str,
        cluster: &str,
        namespace: &str,
    ) -> Vec<AccountListing> {
        let account_namespace = (Box::from(cluster), Box::from(namespace));
        let index = self.0.read();
        let mut listings: BTreeMap<&str, AccountListing> = BTreeMap::new();
        for object in index.account_namespaces.get(&account_namespace).into_iter().flatten() {
            let Some(bindings) = index.objects.get(object).filter(|bindings| *bindings.tenant != *tenant)
            else {
                continue;
            };
            let uses_cluster = bindings.account_clusters.contains(cluster);
            let listing =
                AccountListing { tenant: bindings.tenant.clone(), object: Arc::clone(object), uses_cluster };
            let chosen = listings.entry(&*bindings.tenant).or_insert_with(|| listing.clone());
            if uses_cluster && !chosen.uses_cluster {
                *chosen = listing;
            }
        }
        listings.into_values().collect()
    }

    /// The tenant of an object, and the highest role there of a caller who is these subjects; `None` if the object does
    /// not exist.
    pub fn role_at(&self, subjects: &[Box<str>], object: &str) -> Option<(Box<str>, Option<Role>)> {
        self.0.read().role_at(subjects, object)
    }

    /// The tenant and the parent of an object.
    pub fn tenant_and_parent(&self, object: &str) -> Option<(Box<str>, Box<str>)> {
        let index = self.0.read();
        index.objects.get(object).map(|bindings| (bindings.tenant.clone(), bindings.parent.clone()))
    }

    /// Whether an object is a descendant of another one.
    pub fn is_descendant(&self, object: &str, ancestor: &str) -> bool {
        self.0.read().with_ancestors(object).skip(1).any(|(name, _)| name == ancestor)
    }
}

impl ObjectIndex for BindingIndex {
    /// An index that is being built notifies nobody.
    fn new_empty(&self) -> Self {
        Self::new(self.read, RoleChanges::default())
    }

    fn apply(&mut self, entry: &Entry, exists: bool) {
        drop(self.set(&entry.key.name, read_bindings(self.read, entry, exists)));
    }

    /// Only one task updates the index, so it does not change between the locks.
    fn apply_shared(shared: &SharedIndex<Self>, entry: &Entry, exists: bool) {
        let read = shared.read().read;
        let new = read_bindings(read, entry, exists);
        let is_unchanged = shared.read().objects.get(&entry.key.name) == new.as_ref();
        if !is_unchanged {
            let replaced = shared.update(|index| index.set(&entry.key.name, new));
            drop(replaced);
        }
    }

    /// Notifies all subscribers: the changes that were missed may affect any of them.
    fn replace(&mut self, complete: Self) -> Self {
        let changes = self.changes.clone();
        let old = std::mem::replace(self, Self { changes, ..complete });
        self.changes.notify_all();
        old
    }
}

/// The roles that an object gives in its present state; `None` if it does not exist any more, or has no tenant.
fn read_bindings(read: ReadBindings, entry: &Entry, exists: bool) -> Option<ObjectBindings> {
    exists.then(|| read(&entry.key.name, &entry.body)).filter(|bindings| !bindings.tenant.is_empty())
}

impl BindingIndex {
    fn new(read: ReadBindings, changes: RoleChanges) -> Self {
        let (objects, children, subjects) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (listed, account_namespaces, cache) =
            (HashMap::new(), HashMap::new(), VisibilityCache::default());
        Self { read, objects, children, subjects, listed, account_namespaces, changes, cache }
    }

    fn roles_by_tenant(&self, subjects: &[Box<str>], tenant: Option<&str>) -> Arc<RolesByTenant> {
        let key = CallerKey::new(subjects, tenant);
        if let Some(roles) = self.cache.get(&key) {
            return roles;
        }
        let roles = Arc::new(self.compute_roles(subjects, tenant));
        self.cache.insert(key, &roles);
        roles
    }

    fn compute_roles(&self, subjects: &[Box<str>], only: Option<&str>) -> RolesByTenant {
        let mut tenants: BTreeMap<&str, GivenRoles<'_>> = BTreeMap::new();
        for (object, role) in subjects.iter().filter_map(|subject| self.subjects.get(subject)).flatten() {
            let Some(bindings) = self.objects.get(object) else { continue };
            if only.is_some_and(|tenant| tenant != &*bindings.tenant) {
                continue;
            }
            let given = tenants.entry(&*bindings.tenant).or_default();
            given.highest = given.highest.max(Some(*role));
            if *role != Role::Administrator {
                given.roots.insert(object);
            }
        }
        let in_tenant = |(tenant, GivenRoles { highest, roots }): (&str, GivenRoles<'_>)| {
            let tenant: Arc<str> = Arc::from(tenant);
            let objects = if roots.is_empty() {
                Arc::default()
            } else {
                let roots = roots.into_iter().map(Arc::clone).collect();
                let key = SubtreeKey { tenant: Arc::clone(&tenant), roots };
                self.cache.subtree(key, |key| self.with_descendants(key))
            };
            (tenant, TenantRoles { highest, objects })
        };
        tenants.into_iter().map(in_tenant).collect()
    }

    /// The roots of a subtree and all their descendants. Each object is visited once.
    fn with_descendants(&self, subtree: &SubtreeKey) -> BTreeSet<String> {
        let mut visited = BTreeSet::new();
        let mut next: Vec<&Arc<str>> = subtree.roots.iter().collect();
        while let Some(object) = next.pop() {
            let is_in_tenant =
                self.objects.get(object).is_some_and(|bindings| *bindings.tenant == *subtree.tenant);
            if is_in_tenant && visited.insert(object.to_string()) {
                next.extend(self.children.get(&**object).into_iter().flatten());
            }
        }
        visited
    }

    fn role_at(&self, subjects: &[Box<str>], object: &str) -> Option<(Box<str>, Option<Role>)> {
        let tenant = self.objects.get(object)?.tenant.clone();
        let lineage = self.with_ancestors(object).take_while(|(_, bindings)| bindings.tenant == tenant);
        let roles = lineage.filter_map(|(_, bindings)| {
            subjects.iter().filter_map(|subject| bindings.subjects.get(subject)).max()
        });
        let highest = roles.max().copied();
        Some((tenant, highest))
    }

    /// An object and its ancestors, nearest first.
    fn with_ancestors<'a>(&'a self, object: &'a str) -> impl Iterator<Item = (&'a str, &'a ObjectBindings)> {
        let get = |name: &'a str| self.objects.get(name).map(|bindings| (name, bindings));
        std::iter::successors(get(object), move |(_, bindings)| get(&bindings.parent)).take(DEPTH_MAX)
    }

    /// Stores the bindings of an object; `None` removes them.
    fn set(&mut self, object: &Arc<str>, new: Option<ObjectBindings>) -> Replaced {
        let old = self.objects.get(object);
        if old == new.as_ref() {
            return Replaced::default();
        }
        let location = |bindings: &ObjectBindings| (bindings.tenant.clone(), bindings.parent.clone());
        let has_moved = old.map(location) != new.as_ref().map(location);
        // An index that is being built has neither cached entries nor subscribers.
        let has_readers = !self.cache.is_empty() || !self.changes.is_empty();
        let mut ancestors = HashSet::new();
        if has_moved && has_readers {
            for bindings in old.into_iter().chain(new.as_ref()) {
                self.collect_lineage(&bindings.parent, &mut ancestors);
            }
        }
        let old = self.remove(object);
        if let Some(new) = new {
            self.add(object, new);
        }
        let subtrees = if has_readers {
            self.notify(&BindingChange { object, old: old.as_ref(), has_moved, ancestors })
        } else {
            Vec::new()
        };
        (old, subtrees)
    }

    /// Adds the names of an object and of its ancestors. Stops at a name that is already there, so that a cycle ends.
    fn collect_lineage(&self, object: &str, names: &mut HashSet<Arc<str>>) {
        let mut next = self.objects.get_key_value(object);
        while let Some((name, bindings)) = next {
            if !names.insert(Arc::clone(name)) {
                return;
            }
            next = self.objects.get_key_value(&*bindings.parent);
        }
    }

    /// Removes the affected subjects' cached roles, and notifies their subscribers. Returns the removed subtrees. If
    /// more subjects are listed than subscribed, it goes through the subscribers instead: the objects above a project
    /// may list as many people as a tenant has.
    fn notify(&self, change: &BindingChange<'_>) -> Vec<Arc<BTreeSet<String>>> {
        let BindingChange { object, old, has_moved, ancestors } = change;
        let new = self.objects.get(*object);
        let role =
            |bindings: Option<&ObjectBindings>, subject: &str| bindings?.subjects.get(subject).copied();
        let is_affected = |subject: &str| {
            let (before, after) = (role(*old, subject), role(new, subject));
            // A subject with a role at an ancestor sees one object less, or one more.
            before != after || *has_moved && (after.is_some() || self.has_role_at_any(subject, ancestors))
        };
        let parent = new.map_or("", |new| &*new.parent);
        // The descendants of the object move with it.
        let has_changed = |subtree: &BTreeSet<String>| {
            *has_moved && (subtree.contains(&***object) || subtree.contains(parent))
        };
        let subtrees = self.cache.invalidate(is_affected, has_changed);

        let listing = ancestors.iter().filter_map(|name| self.objects.get(name)).chain(*old).chain(new);
        let listed = listing.flat_map(|bindings| bindings.subjects.keys());
        let subscribed = self.changes.len();
        if listed.clone().take(subscribed).count() == subscribed {
            self.changes.notify_matching(is_affected);
            return subtrees;
        }
        for subject in listed.filter(|subject| is_affected(subject)) {
            self.changes.notify(subject);
        }
        subtrees
    }

    fn has_role_at_any(&self, subject: &str, objects: &HashSet<Arc<str>>) -> bool {
        let Some(roles) = self.subjects.get(subject) else { return false };
        if roles.len() < objects.len() {
            roles.keys().any(|object| objects.contains(object))
        } else {
            objects.iter().any(|object| roles.contains_key(object))
        }
    }

    fn add(&mut self, object: &Arc<str>, new: ObjectBindings) {
        if !new.parent.is_empty() {
            self.children.entry(new.parent.clone()).or_default().insert(Arc::clone(object));
        }
        for (subject, role) in &new.subjects {
            self.subjects.entry(subject.clone()).or_default().insert(Arc::clone(object), *role);
        }
        for namespace in &new.account_namespaces {
            self.account_namespaces.entry(namespace.clone()).or_default().insert(Arc::clone(object));
        }
        if new.listed > 0 {
            let listed = self.listed.entry(new.tenant.clone()).or_default();
            *listed = listed.saturating_add(new.listed);
        }
        self.objects.insert(Arc::clone(object), new);
    }

    fn remove(&mut self, object: &Arc<str>) -> Option<ObjectBindings> {
        let old = self.objects.remove(object)?;
        unlist(&mut self.children, &old.parent, object);
        for subject in old.subjects.keys() {
            let Some(roles) = self.subjects.get_mut(subject) else { continue };
            roles.remove(object);
            if roles.is_empty() {
                self.subjects.remove(subject);
            }
        }
        for namespace in &old.account_namespaces {
            unlist(&mut self.account_namespaces, namespace, object);
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

/// Removes an object from those that are listed under a key; a key without objects goes, too.
fn unlist<K: Eq + Hash>(listing: &mut HashMap<K, BTreeSet<Arc<str>>>, key: &K, object: &Arc<str>) {
    let Some(objects) = listing.get_mut(key) else { return };
    objects.remove(object);
    if objects.is_empty() {
        listing.remove(key);
    }
}

/// A change of one object's bindings.
struct BindingChange<'a> {
    object: &'a Arc<str>,
    old: Option<&'a ObjectBindings>,
    /// Whether the object was created or deleted, or has another tenant or parent.
    has_moved: bool,
    /// The object's ancestors before and after the change.
    ancestors: HashSet<Arc<str>>,
}

#[cfg(test)]
pub(crate) mod tests;
