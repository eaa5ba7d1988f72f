//! What was seen before below prefixes. It is lost with the process.

use super::references::Manifest;
use super::turn::Turn;
use crate::registry::backend::RegistryPlace;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Digests that manifests name whose content is remembered: what most of their memory goes to.
const NAMES_MAX: usize = 500_000;
/// A manifest that names more is read anew each time.
const NAMES_OF_ONE_MAX: usize = 256;
/// Blobs whose size is remembered.
const SIZES_MAX: usize = 200_000;

/// What was seen before: no list shows a manifest that has lost its tag, and every manifest has to be removed by its digest.
#[derive(Debug)]
pub struct Known {
    /// By prefix.
    below: Mutex<HashMap<String, Below>>,
    /// By digest, whose content never changes.
    contents: Mutex<Memory<Arc<Manifest>>>,
    /// Bytes of blobs by repository and digest, as the registry says: what a manifest says of them is its author's, and what
    /// another repository has he may not know.
    sizes: Mutex<Memory<u64>>,
}

/// What is known below a prefix.
#[derive(Debug, Default)]
struct Below {
    /// Digests of manifests by repository. None is empty.
    repositories: BTreeMap<String, BTreeSet<String>>,
    round: Option<Round>,
    /// With which part of a repository its removal goes on, where nothing of those before it could be removed.
    turns: BTreeMap<String, Turn>,
    /// Repositories of which every part has had its turn, and nothing was removed since.
    kept: BTreeSet<String>,
}

/// A look through all repositories below a prefix, which may take several passes.
#[derive(Debug)]
struct Round {
    /// The object's whose content is removed.
    uid: String,
    /// Nothing could be pushed any more when it began.
    is_closed: bool,
    /// The last repository that it has come to.
    behind: String,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            below: Mutex::default(),
            contents: Mutex::new(Memory::new(NAMES_MAX)),
            sizes: Mutex::new(Memory::new(SIZES_MAX)),
        }
    }
}

impl Known {
    /// Nothing is left below this prefix.
    pub fn forget(&self, prefix: &str) {
        lock(&self.below).remove(prefix);
        lock(&self.contents).forget(prefix);
        lock(&self.sizes).forget(prefix);
    }

    /// Behind which repository the removal goes on. What was looked at while something could still be pushed is looked at anew.
    pub fn goes_on(&self, place: &RegistryPlace, is_closed: bool) -> String {
        let below = lock(&self.below);
        let round = below.get(&place.prefix()).and_then(|below| below.round.as_ref());
        let same = round.filter(|round| round.uid == place.uid && round.is_closed == is_closed);
        same.map(|round| round.behind.clone()).unwrap_or_default()
    }

    /// The removal has come so far.
    pub fn has_come_to(&self, place: &RegistryPlace, is_closed: bool, repository: &str) {
        let round = Round { uid: place.uid.clone(), is_closed, behind: repository.to_owned() };
        lock(&self.below).entry(place.prefix()).or_default().round = Some(round);
    }

    /// All repositories were looked at, and the next look begins anew. Whether anything has answered: what does is known until it
    /// answers no more.
    pub fn ends_round(&self, place: &RegistryPlace) -> bool {
        let mut below = lock(&self.below);
        let Some(below) = below.get_mut(&place.prefix()) else { return false };
        below.round = None;
        !below.repositories.is_empty()
    }

    /// With which part the removal of a repository goes on; `None` for the first one.
    pub fn turn(&self, prefix: &str, repository: &str) -> Option<Turn> {
        lock(&self.below).get(prefix)?.turns.get(repository).cloned()
    }

    pub fn turns_to(&self, prefix: &str, repository: &str, turn: Option<Turn>) {
        let mut below = lock(&self.below);
        let turns = &mut below.entry(prefix.to_owned()).or_default().turns;
        match turn {
            Some(turn) => drop(turns.insert(repository.to_owned(), turn)),
            None => drop(turns.remove(repository)),
        }
    }

    /// Whether every part of a repository has had its turn and nothing was removed since.
    pub fn is_kept(&self, prefix: &str, repository: &str) -> bool {
        lock(&self.below).get(prefix).is_some_and(|below| below.kept.contains(repository))
    }

    pub fn keeps(&self, prefix: &str, repository: &str, is_kept: bool) {
        let mut below = lock(&self.below);
        let kept = &mut below.entry(prefix.to_owned()).or_default().kept;
        if is_kept {
            kept.insert(repository.to_owned());
        } else {
            kept.remove(repository);
        }
    }

    /// Manifests of a repository that were seen before.
    pub fn before(&self, prefix: &str, repository: &str) -> BTreeSet<String> {
        let below = lock(&self.below);
        below.get(prefix).and_then(|below| below.repositories.get(repository)).cloned().unwrap_or_default()
    }

    /// These were seen in a repository, and those have gone.
    pub fn sees(
        &self,
        prefix: &str,
        repository: &str,
        digests: impl IntoIterator<Item = String>,
        gone: &BTreeSet<String>,
    ) {
        let mut below = lock(&self.below);
        let repositories = &mut below.entry(prefix.to_owned()).or_default().repositories;
        let mut seen = repositories.remove(repository).unwrap_or_default();
        seen.retain(|digest| !gone.contains(digest));
        seen.extend(digests);
        if !seen.is_empty() {
            repositories.insert(repository.to_owned(), seen);
        }
    }

    /// These are all manifests below a prefix, by repository.
    pub fn sees_all(&self, prefix: &str, repositories: BTreeMap<String, BTreeSet<String>>) {
        lock(&self.below).insert(prefix.to_owned(), Below { repositories, ..Below::default() });
    }

    pub fn repositories_before(&self, prefix: &str) -> Vec<String> {
        let below = lock(&self.below);
        below.get(prefix).into_iter().flat_map(|below| below.repositories.keys().cloned()).collect()
    }

    /// The content of a manifest, which may have been seen in another repository below the same prefix.
    pub fn content(&self, repository: &str, digest: &str) -> Option<Arc<Manifest>> {
        lock(&self.contents).get(prefix_of(repository), digest)
    }

    pub fn keep(&self, repository: &str, digest: &str, manifest: &Arc<Manifest>) {
        let names = manifest.names.count();
        if names <= NAMES_OF_ONE_MAX {
            let weight = names.saturating_add(1);
            lock(&self.contents).keep(prefix_of(repository), digest, Arc::clone(manifest), weight);
        }
    }

    /// Bytes of a blob of a repository.
    pub fn size(&self, repository: &str, digest: &str) -> Option<u64> {
        lock(&self.sizes).get(prefix_of(repository), &format!("{repository}@{digest}"))
    }

    pub fn keep_size(&self, repository: &str, digest: &str, bytes: u64) {
        let name = format!("{repository}@{digest}");
        lock(&self.sizes).keep(prefix_of(repository), &name, bytes, 1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `TENANT/NAME` of a repository below it.
fn prefix_of(repository: &str) -> &str {
    let end = repository.match_indices('/').nth(1).map(|(end, _)| end);
    end.and_then(|end| repository.get(..end)).unwrap_or(repository)
}

/// What is remembered by prefix and name, up to a weight of all together. Behind that the prefix with most forgets all of its own:
/// whoever has much there does it at his own expense.
#[derive(Debug)]
struct Memory<T> {
    by_prefix: HashMap<String, Remembered<T>>,
    weight: usize,
    max: usize,
}

/// The same of one prefix.
#[derive(Debug)]
struct Remembered<T> {
    values: HashMap<String, T>,
    weight: usize,
}

impl<T: Clone> Memory<T> {
    fn new(max: usize) -> Self {
        Self { by_prefix: HashMap::new(), weight: 0, max }
    }

    fn get(&self, prefix: &str, name: &str) -> Option<T> {
        self.by_prefix.get(prefix)?.values.get(name).cloned()
    }

    /// What has a name weighs the same each time.
    fn keep(&mut self, prefix: &str, name: &str, value: T, weight: usize) {
        let held = self
            .by_prefix
            .entry(prefix.to_owned())
            .or_insert_with(|| Remembered { values: HashMap::new(), weight: 0 });
        if held.values.insert(name.to_owned(), value).is_none() {
            held.weight = held.weight.saturating_add(weight);
            self.weight = self.weight.saturating_add(weight);
        }
        while self.weight > self.max {
            let most = self.by_prefix.iter().max_by_key(|(_, held)| held.weight);
            let Some(prefix) = most.map(|(prefix, _)| prefix.clone()) else { return };
            self.forget(&prefix);
        }
    }

    fn forget(&mut self, prefix: &str) {
        if let Some(held) = self.by_prefix.remove(prefix) {
            self.weight = self.weight.saturating_sub(held.weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::oci::references::References;

    #[test]
    fn whoever_has_most_forgets_his_own() {
        let mut memory = Memory::new(10);
        memory.keep("t/small", "a", 1, 3);
        for name in 0..100 {
            memory.keep("t/large", &name.to_string(), name, 2);
            assert!(memory.weight <= 10, "{}", memory.weight);
        }
        memory.keep("t/small", "a", 1, 3);
        assert_eq!((memory.get("t/small", "a"), memory.get("t/large", "0")), (Some(1), None));
        memory.forget("t/large");
        assert_eq!(memory.weight, 3, "what is there already weighs once");
        memory.keep("t/small", "b", 1, 11);
        assert_eq!((memory.get("t/small", "b"), memory.weight), (None, 0));
    }

    #[test]
    fn contents_are_remembered_as_far_as_there_is_room_for_what_they_name() {
        let known = Known::default();
        let names = |count: usize| {
            let blobs = (0..count).map(|name| format!("sha256:{name:064x}")).collect();
            Arc::new(Manifest { bytes: 1, names: References { blobs, ..References::default() } })
        };
        let (most, more) = (names(NAMES_OF_ONE_MAX), names(NAMES_OF_ONE_MAX + 1));
        known.keep("t/other/a", "b", &names(1));
        known.keep("t/web/a", "more", &more);
        for image in 0..2 * NAMES_MAX / NAMES_OF_ONE_MAX {
            known.keep("t/web/a", &image.to_string(), &most);
        }
        assert!(lock(&known.contents).weight <= NAMES_MAX);
        assert!(known.content("t/web/a", "more").is_none());
        assert!(known.content("t/other/c", "b").is_some() && known.content("t/web/a", "b").is_none());
    }

    #[test]
    fn a_prefix_has_two_parts() {
        for (repository, prefix) in
            [("t/web/a", "t/web"), ("t/web/a/b", "t/web"), ("t/web", "t/web"), ("t", "t")]
        {
            assert_eq!(prefix_of(repository), prefix);
        }
    }
}
