//! Finds what to remove of a repository, part by part.

use super::catalog::check_catalog;
use super::client::Page;
use super::cursor::{PAGES_MAX, RemovalCursor, TagCursor};
use super::references::Manifest;
use super::repository::Repository;
use crate::error::Error;
use crate::registry::backend::RegistryPlace;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Manifests in a part of a repository that is removed: of tags, and of manifests that were seen before. It must be
/// greater than `REPORTED_MAX` of a scan.
const REMOVED_MANIFESTS: usize = if cfg!(test) { 8 } else { 1_000 };
/// Children of them that are read in a part. Their authors may name as many as they like.
const REMOVED_CHILDREN: usize = if cfg!(test) { 4 } else { 2_000 };
/// References in the manifests of a part. Many parts may be removed at a time.
const REMOVED_REFERENCES: usize = if cfg!(test) { 500 } else { 50_000 };

/// A part of a repository to delete. If the repository is small, it is all of it.
#[derive(Debug)]
pub(super) struct RemovalBatch {
    /// The digests in the order of deletion: children before the manifests that name them.
    pub waves: Vec<Vec<String>>,
    /// Manifests that name these and others, which are cached. They stay, unless the registry refuses to delete these
    /// before them.
    pub parents: Vec<String>,
    /// Where the next part begins.
    pub next: Option<RemovalCursor>,
}

/// A part of the manifests of a repository, for removal.
#[derive(Default)]
struct ManifestPart {
    manifests: BTreeMap<String, Arc<Manifest>>,
    /// Manifests that name these and others which were not read.
    parents: BTreeSet<String>,
    /// Manifests that were seen before and do not exist any more.
    gone: BTreeSet<String>,
    /// Children that were not read because there are too many. The next pass checks whether they exist.
    unasked: BTreeSet<String>,
    /// The last of the manifests seen before that is in this part.
    last_seen: String,
    /// The first manifest that was not read, because there are too many.
    unread: Option<String>,
}

/// The digests of some tags of a repository.
#[derive(Default)]
pub(super) struct Tagged {
    /// Where these tags begin.
    at: Option<TagCursor>,
    pub digests: BTreeSet<String>,
    /// Where the next tags begin.
    next: Option<TagCursor>,
}

impl Repository<'_> {
    /// The manifests of a part. They stay cached until they do not answer any more: without an index, its children
    /// cannot be found.
    pub(super) async fn removal_batch(
        self,
        place: &RegistryPlace,
        cursor: &RemovalCursor,
    ) -> Result<RemovalBatch, Error> {
        let before = self.seen_manifests(place);
        let tagged = match cursor.tags.clone() {
            Some(at) => self.tagged_part(at).await?,
            None => Tagged::default(),
        };
        let part = self.read_part(&tagged.digests, &before, cursor).await?;
        let ManifestPart { manifests, parents, gone, unasked, last_seen, unread } = part;
        // Before they count as gone: another server at the registry's address may answer so to everything.
        if !gone.is_empty() {
            check_catalog(self.client).await?;
        }
        let is_more = tagged.next.is_some() || before.last().is_some_and(|last| *last > last_seen);
        let next = match unread {
            Some(from) => Some(RemovalCursor { tags: tagged.at, before: cursor.before.clone(), from }),
            None if is_more => {
                Some(RemovalCursor { tags: tagged.next, before: last_seen, from: String::new() })
            }
            None => None,
        };
        let waves = deletion_waves(&manifests);
        let seen = manifests.into_keys().chain(parents.iter().cloned()).chain(unasked);
        self.cache.record_manifests(&place.prefix(), self.name, seen, &gone);
        Ok(RemovalBatch { waves, parents: parents.into_iter().collect(), next })
    }

    /// Reads some of the manifests that have tags or were seen before, with their children. However much there is,
    /// something can be removed: people who push cannot keep a removal from ending.
    async fn read_part(
        self,
        tagged: &BTreeSet<String>,
        before: &BTreeSet<String>,
        cursor: &RemovalCursor,
    ) -> Result<ManifestPart, Error> {
        // Manifests with tags are known to exist.
        let rest = before.difference(tagged).filter(|digest| **digest > cursor.before);
        let rest: Vec<String> = rest.take(REMOVED_MANIFESTS).cloned().collect();
        let others = self.existing(&rest, usize::MAX).await?;
        let wanted = tagged.union(&others).filter(|digest| **digest >= cursor.from);
        let mut wanted: Vec<String> = wanted.cloned().collect();
        let last_seen = rest.last().unwrap_or(&cursor.before).clone();
        let mut part = ManifestPart { last_seen, ..ManifestPart::default() };
        part.gone.extend(rest.into_iter().filter(|digest| !others.contains(digest)));
        let (mut names, mut asked): (usize, usize) = (0, 0);
        let mut is_named = false;
        while !wanted.is_empty() {
            let mut level: BTreeMap<String, Arc<Manifest>> = BTreeMap::new();
            let mut next: BTreeSet<String> = BTreeSet::new();
            let take = |digest: String, manifest: Arc<Manifest>| {
                let children = &manifest.references.children;
                // No real image names as many. Its children are left to the registry's own garbage collection.
                let is_odd = manifest.references.are_too_many() || children.len() > REMOVED_CHILDREN;
                let count = if is_odd { 0 } else { children.difference(&next).count() };
                names = names.saturating_add(manifest.references.count());
                let is_much =
                    names > REMOVED_REFERENCES || next.len().saturating_add(count) > REMOVED_CHILDREN;
                if is_much && !level.is_empty() {
                    return Ok(false);
                }
                if !is_odd {
                    next.extend(children.iter().cloned());
                }
                level.insert(digest, manifest);
                Ok(true)
            };
            let unread = self.read_in_order(&wanted, take).await?;
            if !is_named {
                part.unread = unread.first().cloned();
            } else if !unread.is_empty() {
                // These parents stay, so that the next pass finds the other children by them, also under another
                // leader.
                part.parents.extend(std::mem::take(&mut part.manifests).into_keys());
                part.unasked.extend(unread.iter().cloned());
            }
            part.manifests.append(&mut level);
            next.retain(|digest| !part.manifests.contains_key(digest) && !part.parents.contains(digest));
            asked = asked.saturating_add(next.len());
            if asked > REMOVED_CHILDREN {
                part.unasked.extend(next);
                break;
            }
            is_named = true;
            wanted = self.to_be_read(next).await?;
        }
        Ok(part)
    }

    /// The first tags from there on of which at least one exists.
    pub(super) async fn tagged_part(self, from: TagCursor) -> Result<Tagged, Error> {
        let mut at = from;
        for _page in 0..PAGES_MAX {
            let Page { content: tags, next: next_page } = self.tags(at.path.clone()).await?;
            let some: Vec<String> = tags.iter().skip(at.skip).take(REMOVED_MANIFESTS).cloned().collect();
            let end = at.skip.saturating_add(some.len());
            let next = if end < tags.len() {
                Some(TagCursor { path: at.path.clone(), skip: end })
            } else {
                next_page.map(|path| TagCursor { path, skip: 0 })
            };
            let digests = self.existing(&some, usize::MAX).await?;
            match (digests.is_empty(), next) {
                (true, Some(next)) => at = next,
                (_, next) => return Ok(Tagged { at: Some(at), digests, next }),
            }
        }
        Err(self.too_many_tags())
    }
}

/// The digests in the order of deletion: children before their parents, the deepest first. If the removal is cut off,
/// the next leader finds what is left.
fn deletion_waves(manifests: &BTreeMap<String, Arc<Manifest>>) -> Vec<Vec<String>> {
    let mut parents: HashMap<&str, Vec<&str>> = HashMap::new();
    // How many children of a manifest are in no wave yet.
    let mut left: HashMap<&str, usize> = HashMap::new();
    let mut wave: Vec<&str> = Vec::new();
    for (digest, manifest) in manifests {
        let mut count: usize = 0;
        for child in manifest.references.children.iter().filter(|child| manifests.contains_key(*child)) {
            parents.entry(child.as_str()).or_default().push(digest.as_str());
            count = count.saturating_add(1);
        }
        if count == 0 {
            wave.push(digest.as_str());
        } else {
            left.insert(digest.as_str(), count);
        }
    }
    let mut waves: Vec<Vec<String>> = Vec::new();
    while !wave.is_empty() {
        let mut next: Vec<&str> = Vec::new();
        for parent in wave.iter().filter_map(|digest| parents.get(digest)).flatten() {
            let Some(count) = left.get_mut(parent) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                left.remove(parent);
                next.push(*parent);
            }
        }
        waves.push(wave.iter().map(|digest| (*digest).to_owned()).collect());
        wave = next;
    }
    // Content cannot name itself. If a registry has such a cycle, it goes last.
    if !left.is_empty() {
        waves.push(left.into_keys().map(str::to_owned).collect());
    }
    waves
}
