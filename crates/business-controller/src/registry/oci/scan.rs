//! Scans the content below a prefix: manifests, and the sizes of all blobs that they name, each counted once.

use super::cache::OciCache;
use super::catalog::{check_catalog, repositories, too_many_repositories};
use super::client::{CALLS_CHUNK, PARALLEL, RegistryClient, too_large};
use super::cursor::TagCursor;
use super::references::{MANIFEST_REFERENCES_MAX, Manifest};
use super::repository::Repository;
use super::scan_memory::{ScanMemory, ScanRoom};
use crate::error::Error;
use crate::registry::backend::{Measured, RegistryPlace};
use business_types::registry::{ManifestName, UNTAGGED_MAX};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Manifests that are scanned below a prefix.
const MANIFESTS_MAX: usize = 100_000;
/// References in the manifests of a repository, and blobs below a prefix. Each takes some hundred bytes during the
/// scan.
const REFERENCES_MAX: usize = if cfg!(test) { 500 } else { 200_000 };
/// Manifests that are reported for an object, those without tags first.
const REPORTED_MAX: usize = if cfg!(test) { 4 } else { UNTAGGED_MAX };

/// Scans everything below the prefix of a place.
pub async fn scan(
    client: &RegistryClient,
    cache: &OciCache,
    memory: &ScanMemory,
    place: &RegistryPlace,
) -> Result<Measured, Error> {
    let prefix = &place.prefix();
    let mut room = memory.begin(prefix)?;
    let repositories = repositories(client, cache, place).await?;
    if !repositories.is_complete {
        return Err(too_many_repositories(prefix));
    }
    let repository_count = repositories.names.len();
    let mut measured = Measured::default();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut blobs: HashMap<String, u64> = HashMap::new();
    let mut with_tags: Vec<ManifestName> = Vec::new();
    let mut manifest_count: usize = 0;
    for name in repositories.names {
        let repository = Repository { client, cache, name: &name };
        let kept = repository_count.saturating_add(manifest_count);
        room.keep(kept.saturating_add(blobs.len()))?;
        let before = repository.seen_manifests(place);
        let tags = repository.list_tags(&mut room).await?;
        let tagged = repository.existing(&tags, usize::MAX).await?;
        drop(tags);
        let unreported = REPORTED_MAX.saturating_sub(with_tags.len());
        with_tags
            .extend(tagged.iter().take(unreported).filter_map(|digest| ManifestName::new(&name, digest)));
        let Manifests { manifests, untagged, names } =
            all_manifests(repository, &mut room, &tagged, &before).await?;
        measured.untagged.extend(untagged.iter().filter_map(|digest| ManifestName::new(&name, digest)));
        let named: BTreeSet<&String> =
            manifests.values().flat_map(|manifest| &manifest.references.blobs).collect();
        let is_counted = |digest: &str| blobs.contains_key(digest) || manifests.contains_key(digest);
        let asked: Vec<&String> = named.into_iter().filter(|digest| !is_counted(digest)).collect();
        for some in asked.chunks(CALLS_CHUNK) {
            let sizes: Vec<_> = some.iter().map(|digest| repository.size_of(digest)).collect();
            let sizes: Vec<_> = stream::iter(sizes).buffer_unordered(PARALLEL).try_collect().await?;
            // A blob that is not there may be in another repository, and counts there.
            blobs.extend(sizes.into_iter().flatten());
            room.keep(kept.saturating_add(names).saturating_add(blobs.len()))?;
        }
        blobs.extend(manifests.iter().map(|(digest, manifest)| (digest.clone(), manifest.bytes)));
        let digests: BTreeSet<String> = manifests.into_keys().collect();
        manifest_count = manifest_count.saturating_add(digests.len());
        if !digests.is_empty() {
            found.insert(name, digests);
        }
        if manifest_count > MANIFESTS_MAX {
            return Err(too_large(&format!("there are more than {MANIFESTS_MAX} manifests below {prefix}")));
        }
        if blobs.len() > REFERENCES_MAX {
            return Err(too_large(&format!("there are more than {REFERENCES_MAX} blobs below {prefix}")));
        }
    }
    // Before an empty result is believed: another server at the registry's address may answer so to everything.
    if repository_count > 0 && found.is_empty() {
        check_catalog(client).await?;
    }
    let unreported = REPORTED_MAX.saturating_sub(measured.untagged.len());
    measured.untagged.extend(with_tags.into_iter().take(unreported));
    measured.bytes = blobs.into_values().fold(0, u64::saturating_add);
    cache.replace_manifests(prefix, found);
    room.complete();
    Ok(measured)
}

/// Whether there is any content below the prefix of a place.
pub async fn has_content(
    client: &RegistryClient,
    cache: &OciCache,
    place: &RegistryPlace,
) -> Result<bool, Error> {
    let repositories = repositories(client, cache, place).await?;
    for name in &repositories.names {
        let repository = Repository { client, cache, name };
        let before: Vec<String> = repository.seen_manifests(place).into_iter().collect();
        let has_any = !repository.tagged_part(TagCursor::first(name)).await?.digests.is_empty()
            || !repository.existing(&before, 1).await?.is_empty();
        if has_any {
            return Ok(true);
        }
    }
    if !repositories.is_complete {
        return Err(too_many_repositories(&place.prefix()));
    }
    // Before an empty result is believed: another server at the registry's address may answer so to everything.
    if !repositories.names.is_empty() {
        check_catalog(client).await?;
    }
    Ok(false)
}

/// The existing manifests of a repository, by digest.
struct Manifests {
    manifests: BTreeMap<String, Arc<Manifest>>,
    /// Manifests that neither a tag nor another manifest leads to.
    untagged: BTreeSet<String>,
    /// How many they are, with all that they name.
    names: usize,
}

/// Reads the manifests with tags, those that were seen before, and those that an index names.
async fn all_manifests(
    repository: Repository<'_>,
    room: &mut ScanRoom<'_>,
    tagged: &BTreeSet<String>,
    before: &BTreeSet<String>,
) -> Result<Manifests, Error> {
    let name = repository.name;
    // Manifests with tags are known to exist.
    let rest: Vec<String> = before.difference(tagged).cloned().collect();
    let others = repository.existing(&rest, usize::MAX).await?;
    let mut wanted: Vec<String> = tagged.union(&others).cloned().collect();
    room.hold(wanted.len())?;
    let mut manifests: BTreeMap<String, Arc<Manifest>> = BTreeMap::new();
    let mut names: usize = 0;
    while !wanted.is_empty() {
        let mut next: BTreeSet<String> = BTreeSet::new();
        let take = |digest: String, manifest: Arc<Manifest>| {
            if manifest.references.are_too_many() {
                let message = format!("{name}@{digest} names more than {MANIFEST_REFERENCES_MAX} digests");
                return Err(too_large(&message));
            }
            names = names.saturating_add(manifest.references.count());
            if names > REFERENCES_MAX {
                let message = format!("the manifests in {name} name more than {REFERENCES_MAX} digests");
                return Err(too_large(&message));
            }
            next.extend(manifest.references.children.iter().cloned());
            manifests.insert(digest, manifest);
            room.hold(manifests.len().saturating_add(next.len()).saturating_add(names))?;
            Ok(true)
        };
        repository.read_in_order(&wanted, take).await?;
        next.retain(|digest| !manifests.contains_key(digest));
        if manifests.len().saturating_add(next.len()) > MANIFESTS_MAX {
            return Err(too_large(&format!("there are more than {MANIFESTS_MAX} manifests in {name}")));
        }
        wanted = repository.to_be_read(next).await?;
    }
    let named: BTreeSet<&String> =
        manifests.values().flat_map(|manifest| &manifest.references.children).collect();
    let untagged = others.iter().filter(|digest| !named.contains(digest)).cloned().collect();
    let names = names.saturating_add(manifests.len());
    Ok(Manifests { manifests, untagged, names })
}
