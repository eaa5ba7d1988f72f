//! The objects of one kind, ordered by path, found by name, tenant, label and field.

use super::filter::{Filter, TermSubject};
use crate::access::{Sight, Visibility};
use crate::model::{Attributes, Entry, Key};
use std::cmp::Ordering;
use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

/// An index is used if it finds at most one object in so many. Otherwise a scan in order is cheaper.
const INDEX_SELECTIVITY: usize = 8;

/// An object's path, which gives its position in lists: `namespace/name`, or `name` in cluster scope. Paths are
/// compared bytewise as one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Path {
    pub(crate) fn of(key: &Key) -> Self {
        Self { namespace: Arc::clone(&key.namespace), name: Arc::clone(&key.name) }
    }

    /// The path before all objects of a namespace.
    pub(crate) fn first_of(namespace: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from("") }
    }

    /// Reads `namespace/name` or `name`.
    pub(crate) fn parse(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let slash: &[u8] = if self.namespace.is_empty() { b"" } else { b"/" };
        self.namespace.bytes().chain(slash.iter().copied()).chain(self.name.bytes())
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.namespace == other.namespace {
            self.name.cmp(&other.name)
        } else {
            self.bytes().cmp(other.bytes())
        }
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

type Slot = u32;

/// The current objects of one kind. An object keeps its slot as long as it exists, so a change that keeps the
/// attributes touches neither the order nor the index.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    paths: BTreeMap<Path, Slot>,
    entries: Vec<Option<Arc<Entry>>>,
    free: Vec<Slot>,
    index: ValueIndex,
    /// The number of objects that callers see even if they do not see the namespace.
    broadly_visible: usize,
}

fn is_broadly_visible(attributes: &Attributes) -> bool {
    attributes.tenant_wide || attributes.public
}

impl Objects {
    /// Builds all indexes at once, which is much cheaper than one insert after another.
    pub(crate) fn build(entries: Vec<Arc<Entry>>) -> Self {
        let mut objects = Self::default();
        let mut terms = Vec::new();
        objects.paths = (0..).zip(&entries).map(|(slot, entry)| (Path::of(&entry.key), slot)).collect();
        for (slot, entry) in (0..).zip(&entries) {
            terms.extend(objects.index.terms(&entry.attributes).map(|term| posting(term, slot)));
        }
        objects.index.postings = terms.into_iter().collect();
        objects.broadly_visible =
            entries.iter().filter(|entry| is_broadly_visible(&entry.attributes)).count();
        objects.entries = entries.into_iter().map(Some).collect();
        objects
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Arc<Entry>> {
        self.at_slot(*self.paths.get(path)?)
    }

    /// Puts an object in. Returns it and its state before. Both share the memory of the name.
    pub(crate) fn put(&mut self, entry: Entry) -> (Arc<Entry>, Option<Arc<Entry>>) {
        let is_now = usize::from(is_broadly_visible(&entry.attributes));
        let (entry, old) = self.replace(entry);
        let was = old.as_ref().map_or(0, |old| usize::from(is_broadly_visible(&old.attributes)));
        self.broadly_visible = self.broadly_visible.saturating_add(is_now).saturating_sub(was);
        (entry, old)
    }

    fn replace(&mut self, mut entry: Entry) -> (Arc<Entry>, Option<Arc<Entry>>) {
        match self.paths.entry(Path::of(&entry.key)) {
            MapEntry::Occupied(occupied) => {
                let slot = *occupied.get();
                entry.key.name = Arc::clone(&occupied.key().name);
                let entry = Arc::new(entry);
                let old =
                    slot_mut(&mut self.entries, slot).and_then(|place| place.replace(Arc::clone(&entry)));
                if let Some(old) = old.as_ref().filter(|old| old.attributes != entry.attributes) {
                    self.index.remove(&old.attributes, slot);
                    self.index.insert(&entry.attributes, slot);
                }
                (entry, old)
            }
            MapEntry::Vacant(vacant) => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.entries.push(None);
                    Slot::try_from(self.entries.len() - 1).unwrap_or(Slot::MAX)
                });
                vacant.insert(slot);
                self.index.insert(&entry.attributes, slot);
                let entry = Arc::new(entry);
                if let Some(place) = slot_mut(&mut self.entries, slot) {
                    *place = Some(Arc::clone(&entry));
                }
                (entry, None)
            }
        }
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, path: &Path) -> Option<Arc<Entry>> {
        let slot = self.paths.remove(path)?;
        let old = slot_mut(&mut self.entries, slot)?.take()?;
        self.index.remove(&old.attributes, slot);
        self.free.push(slot);
        self.broadly_visible =
            self.broadly_visible.saturating_sub(usize::from(is_broadly_visible(&old.attributes)));
        Some(old)
    }

    /// Objects in order from `start` on, within a namespace if one is given.
    pub(crate) fn range<'a, 'n>(
        &'a self,
        start: Bound<&Path>,
        namespace: Option<&'n str>,
    ) -> impl Iterator<Item = (&'a Path, &'a Arc<Entry>)> + use<'a, 'n> {
        let first = namespace.map(Path::first_of);
        let from = match (start, &first) {
            (Bound::Unbounded, Some(first)) => Bound::Included(first.clone()),
            (start, _) => start.cloned(),
        };
        self.paths
            .range((from, Bound::Unbounded))
            .take_while(move |(path, _)| namespace.is_none_or(|namespace| *path.namespace == *namespace))
            .filter_map(|(path, slot)| Some((path, self.at_slot(*slot)?)))
    }

    /// The number of objects in [`Self::range`].
    pub(crate) fn count(&self, start: Bound<&Path>, namespace: Option<&str>) -> usize {
        match (start, namespace) {
            (Bound::Unbounded, None) => self.len(),
            (start, None) => self.paths.range((start.cloned(), Bound::Unbounded)).count(),
            (start, namespace) => self.range(start, namespace).count(),
        }
    }

    /// A few objects that include all matches, in no order. `None` if no index is selective enough.
    pub(crate) fn candidates(&self, filter: &Filter) -> Option<Vec<&Arc<Entry>>> {
        let namespace = filter.namespace().or_else(|| self.is_cluster_scoped().then_some(""));
        if let (Some(name), Some(namespace)) = (filter.name(), namespace) {
            let path = Path { namespace: Arc::from(namespace), name: Arc::from(name) };
            return Some(self.get(&path).into_iter().collect());
        }
        if let Some(seen) = self.visible_by_namespace(filter) {
            return Some(seen);
        }
        let slots = self.index.search(filter, self.len() / INDEX_SELECTIVITY)?;
        Some(slots.into_iter().filter_map(|slot| self.at_slot(slot)).collect())
    }

    /// The objects in the namespaces that the caller sees, or the cluster-scoped objects of the same names. `None` if
    /// they are many, or not all that the caller sees.
    fn visible_by_namespace(&self, filter: &Filter) -> Option<Vec<&Arc<Entry>>> {
        let Visibility::Tenants(sights) = filter.visibility() else { return None };
        if filter.namespace().is_some() || self.broadly_visible > 0 {
            return None;
        }
        let max = self.len() / INDEX_SELECTIVITY;
        let is_cluster_scoped = self.is_cluster_scoped();
        let mut found = Vec::new();
        for sight in sights.iter() {
            let Sight::Namespaces(namespaces) = &sight.sight else { return None };
            if namespaces.len() > max {
                return None;
            }
            for namespace in namespaces.iter() {
                if is_cluster_scoped {
                    found.extend(self.get(&Path { namespace: Arc::from(""), name: Arc::from(&**namespace) }));
                } else {
                    let left = (max + 1).saturating_sub(found.len());
                    found.extend(
                        self.range(Bound::Unbounded, Some(namespace)).take(left).map(|(_, entry)| entry),
                    );
                }
                if found.len() > max {
                    return None;
                }
            }
        }
        Some(found)
    }

    fn is_cluster_scoped(&self) -> bool {
        self.paths.first_key_value().is_some_and(|(path, _)| path.namespace.is_empty())
    }

    fn at_slot(&self, slot: Slot) -> Option<&Arc<Entry>> {
        self.entries.get(usize::try_from(slot).ok()?)?.as_ref()
    }
}

fn slot_mut(entries: &mut [Option<Arc<Entry>>], slot: Slot) -> Option<&mut Option<Arc<Entry>>> {
    entries.get_mut(usize::try_from(slot).ok()?)
}

/// Slots by a hash of a term: a tenant, a label with its value, or a field with its value. Two terms with the same hash
/// only make a search longer, as the filter checks everything that is found.
#[derive(Debug, Default)]
struct ValueIndex {
    postings: BTreeSet<u64>,
    hasher: RandomState,
}

#[derive(Hash)]
enum Term<'a> {
    Tenant(&'a str),
    Public,
    Label(&'a str, &'a str),
    Field(usize, &'a str),
}

fn posting(term: u32, slot: Slot) -> u64 {
    u64::from(term) << 32 | u64::from(slot)
}

impl ValueIndex {
    fn hash(&self, term: &Term<'_>) -> u32 {
        u32::try_from(self.hasher.hash_one(term) >> 32).unwrap_or_default()
    }

    /// The terms of an object. An absent field has no term, as too many objects would share it.
    fn terms<'a>(&'a self, attributes: &'a Attributes) -> impl Iterator<Item = u32> + 'a {
        let tenant = attributes.tenant.iter().map(|tenant| Term::Tenant(tenant));
        let tenant = tenant.chain(attributes.public.then_some(Term::Public));
        let labels = attributes.labels.iter().map(|(key, value)| Term::Label(key, value));
        let fields = attributes.fields.iter().enumerate();
        let fields = fields.filter(|(_, value)| !value.is_empty()).map(|(at, value)| Term::Field(at, value));
        tenant.chain(labels).chain(fields).map(|term| self.hash(&term))
    }

    fn insert(&mut self, attributes: &Attributes, slot: Slot) {
        let terms: Vec<u32> = self.terms(attributes).collect();
        self.postings.extend(terms.into_iter().map(|term| posting(term, slot)));
    }

    fn remove(&mut self, attributes: &Attributes, slot: Slot) {
        let terms: Vec<u32> = self.terms(attributes).collect();
        for term in terms {
            self.postings.remove(&posting(term, slot));
        }
    }

    fn slots(&self, term: u32) -> impl Iterator<Item = Slot> {
        self.postings
            .range(posting(term, 0)..=posting(term, Slot::MAX))
            .map(|posting| Slot::try_from(posting & u64::from(Slot::MAX)).unwrap_or_default())
    }

    /// The slots of the most selective condition, if they are at most `max`.
    fn search(&self, filter: &Filter, max: usize) -> Option<BTreeSet<Slot>> {
        let mut best: Option<(usize, Vec<u32>)> = None;
        for terms in self.conditions(filter) {
            let limit = best.as_ref().map_or(max, |(count, _)| *count);
            let count = terms.iter().flat_map(|term| self.slots(*term)).take(limit + 1).count();
            if count <= limit {
                best = Some((count, terms));
            }
        }
        let (_, terms) = best?;
        Some(terms.into_iter().flat_map(|term| self.slots(term)).collect())
    }

    /// Conditions that every match meets. A condition is a list of terms; it is met by an object with at least one of
    /// them.
    fn conditions(&self, filter: &Filter) -> Vec<Vec<u32>> {
        let tenant = match filter.visibility() {
            Visibility::Tenants(sights) => {
                let tenants = sights.iter().map(|sight| Term::Tenant(&sight.tenant));
                Some(tenants.chain([Term::Public]).map(|term| self.hash(&term)).collect())
            }
            Visibility::Everything | Visibility::Nothing => None,
        };
        let terms = filter.equalities().filter_map(|(subject, values)| match subject {
            TermSubject::Label(key) => {
                Some(values.iter().map(|value| self.hash(&Term::Label(key, value))).collect())
            }
            TermSubject::Field(field) => {
                let at = filter.fields().iter().position(|known| *known == field)?;
                if values.iter().any(String::is_empty) {
                    return None;
                }
                Some(values.iter().map(|value| self.hash(&Term::Field(at, value))).collect())
            }
        });
        tenant.into_iter().chain(terms).collect()
    }
}
