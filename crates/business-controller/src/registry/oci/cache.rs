//! What was seen below prefixes, and where removals go on. It is lost when the process ends.

use super::cursor::RemovalCursor;
use super::references::Manifest;
use crate::registry::backend::RegistryPlace;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Digests of manifests that are remembered, each with some 150 bytes.
const SEEN_MAX: usize = if cfg!(test) { 10_000 } else { 300_000 };
/// What something was removed from within this time is remembered whatever else there is: nothing else may lead to the
/// rest of it.
const REMOVAL_PATIENCE: Duration = Duration::from_mins(10);
/// References in cached manifests: they take most of the memory.
const REFERENCES_MAX: usize = 500_000;
/// A manifest with more references is not cached.
const REFERENCES_PER_MANIFEST_MAX: usize = 256;
/// Blobs whose size is cached.
const SIZES_MAX: usize = 200_000;

/// What was seen below prefixes. No list shows a manifest that has lost its tag, but each manifest has to be deleted by
/// its digest.
#[derive(Debug)]
pub struct OciCache {
    /// By prefix.
    prefixes: Mutex<HashMap<String, PrefixState>>,
    /// Parsed manifests by digest. Their content never changes.
    manifests: Mutex<PrefixCache<Arc<Manifest>>>,
    /// Sizes of blobs by repository and digest, from the registry. The sizes in a manifest are only claims of its
    /// author, who may also not know what another repository has.
    sizes: Mutex<PrefixCache<u64>>,
}

/// What is known of a prefix.
#[derive(Debug, Default)]
struct PrefixState {
    /// Digests of manifests by repository. No set is empty.
    repositories: BTreeMap<String, BTreeSet<String>>,
    /// How many digests these are.
    seen: usize,
    /// When manifests were removed last.
    removed_at: Option<Instant>,
    round: Option<RemovalRound>,
    /// Where the removal of a repository goes on, if nothing before could be removed.
    cursors: BTreeMap<String, RemovalCursor>,
    /// Repositories of which every part was tried, and nothing was removed since.
    undeletable: BTreeSet<String>,
}

/// A removal's round over all repositories below a prefix. It may take several passes.
#[derive(Debug)]
struct RemovalRound {
    /// The uid of the object whose content is removed.
    uid: String,
    /// Whether nothing could be pushed any more when the round began.
    is_closed: bool,
    /// The last repository that was handled.
    last_repository: String,
}

impl PrefixState {
    fn of(repositories: BTreeMap<String, BTreeSet<String>>) -> Self {
        let mut state = Self { repositories, ..Self::default() };
        state.count();
        state
    }

    fn count(&mut self) {
        self.seen = self.repositories.values().map(BTreeSet::len).sum();
    }

    fn is_being_removed(&self) -> bool {
        self.removed_at.is_some_and(|at| at.elapsed() < REMOVAL_PATIENCE)
    }
}

impl Default for OciCache {
    fn default() -> Self {
        Self {
            prefixes: Mutex::default(),
            manifests: Mutex::new(PrefixCache::new(REFERENCES_MAX)),
            sizes: Mutex::new(PrefixCache::new(SIZES_MAX)),
        }
    }
}

impl OciCache {
    /// Forgets a prefix that has no content any more.
    pub fn forget(&self, prefix: &str) {
        lock(&self.prefixes).remove(prefix);
        lock(&self.manifests).forget(prefix);
        lock(&self.sizes).forget(prefix);
    }

    /// After which repository the removal goes on. A round from a time when something could still be pushed does not
    /// count.
    pub fn resume_after(&self, place: &RegistryPlace, is_closed: bool) -> String {
        let prefixes = lock(&self.prefixes);
        let round = prefixes.get(&place.prefix()).and_then(|state| state.round.as_ref());
        let same = round.filter(|round| round.uid == place.uid && round.is_closed == is_closed);
        same.map(|round| round.last_repository.clone()).unwrap_or_default()
    }

    /// Records how far the removal has come.
    pub fn record_progress(&self, place: &RegistryPlace, is_closed: bool, repository: &str) {
        let round =
            RemovalRound { uid: place.uid.clone(), is_closed, last_repository: repository.to_owned() };
        lock(&self.prefixes).entry(place.prefix()).or_default().round = Some(round);
    }

    /// Ends the round: the next pass starts a new one. Returns whether manifests are still known; those that do not
    /// answer any more are forgotten.
    pub fn finish_round(&self, place: &RegistryPlace) -> bool {
        let mut prefixes = lock(&self.prefixes);
        let Some(state) = prefixes.get_mut(&place.prefix()) else { return false };
        state.round = None;
        !state.repositories.is_empty()
    }

    /// Where the removal of a repository goes on; `None` at its beginning.
    pub fn cursor(&self, prefix: &str, repository: &str) -> Option<RemovalCursor> {
        lock(&self.prefixes).get(prefix)?.cursors.get(repository).cloned()
    }

    pub fn set_cursor(&self, prefix: &str, repository: &str, cursor: Option<RemovalCursor>) {
        let mut prefixes = lock(&self.prefixes);
        let cursors = &mut prefixes.entry(prefix.to_owned()).or_default().cursors;
        match cursor {
            Some(cursor) => drop(cursors.insert(repository.to_owned(), cursor)),
            None => drop(cursors.remove(repository)),
        }
    }

    /// Whether every part of a repository was tried, and nothing was removed since.
    pub fn is_undeletable(&self, prefix: &str, repository: &str) -> bool {
        lock(&self.prefixes).get(prefix).is_some_and(|state| state.undeletable.contains(repository))
    }

    pub fn set_undeletable(&self, prefix: &str, repository: &str, is_undeletable: bool) {
        let mut prefixes = lock(&self.prefixes);
        let undeletable = &mut prefixes.entry(prefix.to_owned()).or_default().undeletable;
        if is_undeletable {
            undeletable.insert(repository.to_owned());
        } else {
            undeletable.remove(repository);
        }
    }

    /// Manifests of a repository that were seen before.
    pub fn seen_manifests(&self, prefix: &str, repository: &str) -> BTreeSet<String> {
        let prefixes = lock(&self.prefixes);
        prefixes.get(prefix).and_then(|state| state.repositories.get(repository)).cloned().unwrap_or_default()
    }

    /// Records manifests that were seen in a repository, and forgets those that have gone.
    pub fn record_manifests(
        &self,
        prefix: &str,
        repository: &str,
        digests: impl IntoIterator<Item = String>,
        gone: &BTreeSet<String>,
    ) {
        let mut prefixes = lock(&self.prefixes);
        let state = prefixes.entry(prefix.to_owned()).or_default();
        let mut seen = state.repositories.remove(repository).unwrap_or_default();
        seen.retain(|digest| !gone.contains(digest));
        seen.extend(digests);
        if !seen.is_empty() {
            state.repositories.insert(repository.to_owned(), seen);
        }
        state.removed_at = Some(Instant::now());
        state.count();
        forget_most(&mut prefixes);
    }

    /// Records all manifests below a prefix, by repository.
    pub fn replace_manifests(&self, prefix: &str, repositories: BTreeMap<String, BTreeSet<String>>) {
        let mut prefixes = lock(&self.prefixes);
        prefixes.insert(prefix.to_owned(), PrefixState::of(repositories));
        forget_most(&mut prefixes);
    }

    pub fn seen_repositories(&self, prefix: &str) -> Vec<String> {
        let prefixes = lock(&self.prefixes);
        prefixes.get(prefix).into_iter().flat_map(|state| state.repositories.keys().cloned()).collect()
    }

    /// A parsed manifest. It may have been seen in another repository below the same prefix.
    pub fn manifest(&self, repository: &str, digest: &str) -> Option<Arc<Manifest>> {
        lock(&self.manifests).get(prefix_of(repository), digest)
    }

    pub fn cache_manifest(&self, repository: &str, digest: &str, manifest: &Arc<Manifest>) {
        let names = manifest.references.count();
        if names <= REFERENCES_PER_MANIFEST_MAX {
            let weight = names.saturating_add(1);
            lock(&self.manifests).keep(prefix_of(repository), digest, Arc::clone(manifest), weight);
        }
    }

    /// The size of a blob in a repository.
    pub fn blob_size(&self, repository: &str, digest: &str) -> Option<u64> {
        lock(&self.sizes).get(prefix_of(repository), &format!("{repository}@{digest}"))
    }

    pub fn cache_blob_size(&self, repository: &str, digest: &str, bytes: u64) {
        let name = format!("{repository}@{digest}");
        lock(&self.sizes).keep(prefix_of(repository), &name, bytes, 1);
    }
}

/// Forgets what was seen below the prefixes that have most, until no more is remembered than there is room for.
fn forget_most(prefixes: &mut HashMap<String, PrefixState>) {
    let mut all: usize = prefixes.values().map(|state| state.seen).sum();
    while all > SEEN_MAX {
        let others = prefixes.values_mut().filter(|state| state.seen > 0 && !state.is_being_removed());
        let Some(most) = others.max_by_key(|state| state.seen) else { return };
        all = all.saturating_sub(most.seen);
        (most.repositories, most.seen) = (BTreeMap::new(), 0);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The prefix `TENANT/NAME` of a repository.
fn prefix_of(repository: &str) -> &str {
    let end = repository.match_indices('/').nth(1).map(|(end, _)| end);
    end.and_then(|end| repository.get(..end)).unwrap_or(repository)
}

/// Cached values by prefix and name, with a maximal total weight. If that is exceeded, the heaviest prefix loses all
/// its entries: large content costs only its own owner.
#[derive(Debug)]
struct PrefixCache<T> {
    by_prefix: HashMap<String, PrefixEntries<T>>,
    weight: usize,
    max: usize,
}

/// The entries of a prefix.
#[derive(Debug)]
struct PrefixEntries<T> {
    values: HashMap<String, T>,
    weight: usize,
}

impl<T: Clone> PrefixCache<T> {
    fn new(max: usize) -> Self {
        Self { by_prefix: HashMap::new(), weight: 0, max }
    }

    fn get(&self, prefix: &str, name: &str) -> Option<T> {
        self.by_prefix.get(prefix)?.values.get(name).cloned()
    }

    /// Caches a value. A name has the same weight each time.
    fn keep(&mut self, prefix: &str, name: &str, value: T, weight: usize) {
        let held = self
            .by_prefix
            .entry(prefix.to_owned())
            .or_insert_with(|| PrefixEntries { values: HashMap::new(), weight: 0 });
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
        let mut memory = PrefixCache::new(10);
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

    #[tokio::test(start_paused = true)]
    async fn manifests_are_remembered_as_far_as_there_is_room_and_while_they_are_removed() {
        let cache = OciCache::default();
        let digests = |count: usize| (0..count).map(|name| format!("sha256:{name:064x}"));
        let finds = |prefix: &str, count: usize| {
            let found: BTreeSet<String> = digests(count).collect();
            cache.replace_manifests(prefix, BTreeMap::from([("a".to_owned(), found)]));
        };
        let seen = |prefix: &str| cache.seen_manifests(prefix, "a").len();
        let half = SEEN_MAX / 2;
        finds("t/small", 1);
        finds("t/large", half);
        cache.record_manifests("t/going", "a", digests(half), &BTreeSet::new());
        assert_eq!((seen("t/small"), seen("t/large"), seen("t/going")), (1, 0, half));
        finds("t/large", half - 1);
        finds("t/small", 2);
        assert_eq!((seen("t/small"), seen("t/large"), seen("t/going")), (2, 0, half), "it is being removed");
        finds("t/large", half - 2);
        tokio::time::advance(REMOVAL_PATIENCE).await;
        finds("t/small", 3);
        assert_eq!((seen("t/small"), seen("t/large"), seen("t/going")), (3, half - 2, 0));
    }

    #[test]
    fn contents_are_remembered_as_far_as_there_is_room_for_what_they_name() {
        let cache = OciCache::default();
        let names = |count: usize| {
            let blobs = (0..count).map(|name| format!("sha256:{name:064x}")).collect();
            Arc::new(Manifest { bytes: 1, references: References { blobs, ..References::default() } })
        };
        let (most, more) = (names(REFERENCES_PER_MANIFEST_MAX), names(REFERENCES_PER_MANIFEST_MAX + 1));
        cache.cache_manifest("t/other/a", "b", &names(1));
        cache.cache_manifest("t/web/a", "more", &more);
        for image in 0..2 * REFERENCES_MAX / REFERENCES_PER_MANIFEST_MAX {
            cache.cache_manifest("t/web/a", &image.to_string(), &most);
        }
        assert!(lock(&cache.manifests).weight <= REFERENCES_MAX);
        assert!(cache.manifest("t/web/a", "more").is_none());
        assert!(cache.manifest("t/other/c", "b").is_some() && cache.manifest("t/web/a", "b").is_none());
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
