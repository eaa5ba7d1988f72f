//! Scans the content below a prefix: manifests, and the sizes of all blobs that they name, each counted once.

use super::cache::OciCache;
use super::client::{Call, PARALLEL, RegistryClient, unusable};
use super::cursor::{PAGE, RemovalCursor, TagCursor, tags_path};
use super::references::{MANIFEST_REFERENCES_MAX, Manifest, References};
use super::scan_memory::{ScanMemory, ScanRoom};
use crate::digest::sha256;
use crate::error::{CallFailure, Error};
use crate::registry::backend::{Measured, RegistryPlace, TOO_MUCH};
use business_types::registry::{ManifestName, UNTAGGED_MAX, is_digest, is_repository_component};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Pages that are read of a list.
const PAGES_MAX: usize = 200;
/// Manifests in a part of a repository that is removed: of tags, and of manifests that were seen before. It must be
/// greater than `REPORTED_MAX`.
const REMOVED_MANIFESTS: usize = if cfg!(test) { 8 } else { 1_000 };
/// Children of them that are read in a part. Their authors may name as many as they like.
const REMOVED_CHILDREN: usize = if cfg!(test) { 4 } else { 2_000 };
/// References in the manifests of a part. Many parts may be removed at a time.
const REMOVED_REFERENCES: usize = if cfg!(test) { 500 } else { 50_000 };
/// Manifests that are scanned below a prefix.
const MANIFESTS_MAX: usize = 100_000;
/// References in the manifests of a repository, and blobs below a prefix. Each takes some hundred bytes during the
/// scan.
const REFERENCES_MAX: usize = if cfg!(test) { 500 } else { 200_000 };
/// Manifests that are reported for an object, those without tags first.
const REPORTED_MAX: usize = if cfg!(test) { 4 } else { UNTAGGED_MAX };
/// Calls that are prepared at a time: each takes several thousand bytes.
pub const CALLS_CHUNK: usize = if cfg!(test) { 3 } else { 200 };

/// Scans everything below the prefix of a place.
pub async fn scan(
    client: &RegistryClient,
    cache: &OciCache,
    memory: &ScanMemory,
    place: &RegistryPlace,
) -> Result<Measured, Error> {
    let prefix = &place.prefix();
    let mut room = memory.begin(prefix)?;
    let (repositories, true) = repositories(client, cache, place).await? else {
        return Err(too_many_repositories(prefix));
    };
    let repository_count = repositories.len();
    let mut measured = Measured::default();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut blobs: HashMap<String, u64> = HashMap::new();
    let mut with_tags: Vec<ManifestName> = Vec::new();
    let mut manifest_count: usize = 0;
    for repository in repositories {
        let kept = repository_count.saturating_add(manifest_count);
        room.keep(kept.saturating_add(blobs.len()))?;
        let before = seen_manifests(cache, place, &repository);
        let tags = list_tags(client, &mut room, &repository).await?;
        let tagged = existing(client, &repository, &tags, usize::MAX).await?;
        drop(tags);
        let unreported = REPORTED_MAX.saturating_sub(with_tags.len());
        with_tags.extend(
            tagged.iter().take(unreported).filter_map(|digest| ManifestName::new(&repository, digest)),
        );
        let Manifests { manifests, untagged, names } =
            all_manifests(client, cache, &mut room, &repository, &tagged, &before).await?;
        measured.untagged.extend(untagged.iter().filter_map(|digest| ManifestName::new(&repository, digest)));
        let named: BTreeSet<&String> =
            manifests.values().flat_map(|manifest| &manifest.references.blobs).collect();
        let is_counted = |digest: &str| blobs.contains_key(digest) || manifests.contains_key(digest);
        let asked: Vec<&String> = named.into_iter().filter(|digest| !is_counted(digest)).collect();
        for some in asked.chunks(CALLS_CHUNK) {
            let sizes: Vec<_> =
                some.iter().map(|digest| size_of(client, cache, &repository, digest)).collect();
            let sizes: Vec<_> = stream::iter(sizes).buffer_unordered(PARALLEL).try_collect().await?;
            // A blob that is not there may be in another repository, and counts there.
            blobs.extend(sizes.into_iter().flatten());
            room.keep(kept.saturating_add(names).saturating_add(blobs.len()))?;
        }
        blobs.extend(manifests.iter().map(|(digest, manifest)| (digest.clone(), manifest.bytes)));
        let digests: BTreeSet<String> = manifests.into_keys().collect();
        manifest_count = manifest_count.saturating_add(digests.len());
        if !digests.is_empty() {
            found.insert(repository, digests);
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
    let (repositories, is_complete) = repositories(client, cache, place).await?;
    for repository in &repositories {
        let before: Vec<String> = seen_manifests(cache, place, repository).into_iter().collect();
        let has_any =
            !tagged_part(client, repository, TagCursor::first(repository)).await?.digests.is_empty()
                || !existing(client, repository, &before, 1).await?.is_empty();
        if has_any {
            return Ok(true);
        }
    }
    if !is_complete {
        return Err(too_many_repositories(&place.prefix()));
    }
    // Before an empty result is believed: another server at the registry's address may answer so to everything.
    if !repositories.is_empty() {
        check_catalog(client).await?;
    }
    Ok(false)
}

/// The repositories below the prefix of a place, from the catalogue and from what is known otherwise. Also whether the
/// list is complete.
pub async fn repositories(
    client: &RegistryClient,
    cache: &OciCache,
    place: &RegistryPlace,
) -> Result<(BTreeSet<String>, bool), Error> {
    let prefix = &place.prefix();
    let below = format!("{prefix}/");
    let (listed, is_complete) = list_repositories(client, prefix).await?;
    let mut repositories: BTreeSet<String> = listed.into_iter().collect();
    repositories.extend(cache.seen_repositories(prefix));
    let told = place.untagged.iter().map(ManifestName::repository);
    repositories.extend(told.filter(|name| name.starts_with(&below)).map(str::to_owned));
    Ok((repositories, is_complete))
}

/// A part of a repository to delete. If the repository is small, it is all of it.
#[derive(Debug)]
pub struct RemovalBatch {
    /// The digests in the order of deletion: children before the manifests that name them.
    pub waves: Vec<Vec<String>>,
    /// Manifests that name these and others, which are cached. They stay, unless the registry refuses to delete these
    /// before them.
    pub parents: Vec<String>,
    /// Where the next part begins.
    pub next: Option<RemovalCursor>,
}

/// The manifests of a part. They stay cached until they do not answer any more: without an index, its children cannot
/// be found.
pub async fn removal_batch(
    client: &RegistryClient,
    cache: &OciCache,
    place: &RegistryPlace,
    repository: &str,
    cursor: &RemovalCursor,
) -> Result<RemovalBatch, Error> {
    let before = seen_manifests(cache, place, repository);
    let tagged = match cursor.tags.clone() {
        Some(at) => tagged_part(client, repository, at).await?,
        None => Tagged::default(),
    };
    let part = read_part(client, cache, repository, &tagged.digests, &before, cursor).await?;
    let ManifestPart { manifests, parents, gone, unasked, last_seen, unread } = part;
    // Before they count as gone: another server at the registry's address may answer so to everything.
    if !gone.is_empty() {
        check_catalog(client).await?;
    }
    let is_more = tagged.next.is_some() || before.last().is_some_and(|last| *last > last_seen);
    let next = match unread {
        Some(from) => Some(RemovalCursor { tags: tagged.at, before: cursor.before.clone(), from }),
        None if is_more => Some(RemovalCursor { tags: tagged.next, before: last_seen, from: String::new() }),
        None => None,
    };
    let waves = deletion_waves(&manifests);
    let seen = manifests.into_keys().chain(parents.iter().cloned()).chain(unasked);
    cache.record_manifests(&place.prefix(), repository, seen, &gone);
    Ok(RemovalBatch { waves, parents: parents.into_iter().collect(), next })
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

/// Checks that the registry itself answers: it has a catalogue.
pub async fn check_catalog(client: &RegistryClient) -> Result<(), Error> {
    catalogue(client, "/v2/_catalog?n=1".to_owned()).await.map(drop)
}

/// Manifests of a repository that may be in no list.
fn seen_manifests(cache: &OciCache, place: &RegistryPlace, repository: &str) -> BTreeSet<String> {
    let told = place.untagged.iter().filter(|name| name.repository() == repository);
    let mut before = cache.seen_manifests(&place.prefix(), repository);
    before.extend(told.map(|name| name.digest().to_owned()));
    before
}

fn too_large(message: &str) -> Error {
    Error::Registry(CallFailure::Refused { code: TOO_MUCH, message: message.to_owned() })
}

/// Whether there is too much content.
pub fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::Registry(CallFailure::Refused { code: TOO_MUCH, .. }))
}

pub fn too_many_repositories(prefix: &str) -> Error {
    too_large(&format!("the registry lists too many repositories around {prefix}"))
}

fn too_many_tags(repository: &str) -> Error {
    too_large(&format!("{repository} has too many tags"))
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
    client: &RegistryClient,
    cache: &OciCache,
    room: &mut ScanRoom<'_>,
    repository: &str,
    tagged: &BTreeSet<String>,
    before: &BTreeSet<String>,
) -> Result<Manifests, Error> {
    // Manifests with tags are known to exist.
    let rest: Vec<String> = before.difference(tagged).cloned().collect();
    let others = existing(client, repository, &rest, usize::MAX).await?;
    let mut wanted: Vec<String> = tagged.union(&others).cloned().collect();
    room.hold(wanted.len())?;
    let mut manifests: BTreeMap<String, Arc<Manifest>> = BTreeMap::new();
    let mut names: usize = 0;
    while !wanted.is_empty() {
        let mut next: BTreeSet<String> = BTreeSet::new();
        let take = |digest: String, manifest: Arc<Manifest>| {
            if manifest.references.are_too_many() {
                let message =
                    format!("{repository}@{digest} names more than {MANIFEST_REFERENCES_MAX} digests");
                return Err(too_large(&message));
            }
            names = names.saturating_add(manifest.references.count());
            if names > REFERENCES_MAX {
                let message =
                    format!("the manifests in {repository} name more than {REFERENCES_MAX} digests");
                return Err(too_large(&message));
            }
            next.extend(manifest.references.children.iter().cloned());
            manifests.insert(digest, manifest);
            room.hold(manifests.len().saturating_add(next.len()).saturating_add(names))?;
            Ok(true)
        };
        read_in_order(client, cache, repository, &wanted, take).await?;
        next.retain(|digest| !manifests.contains_key(digest));
        if manifests.len().saturating_add(next.len()) > MANIFESTS_MAX {
            return Err(too_large(&format!("there are more than {MANIFESTS_MAX} manifests in {repository}")));
        }
        wanted = to_be_read(client, cache, repository, next).await?;
    }
    let named: BTreeSet<&String> =
        manifests.values().flat_map(|manifest| &manifest.references.children).collect();
    let untagged = others.iter().filter(|digest| !named.contains(digest)).cloned().collect();
    let names = names.saturating_add(manifests.len());
    Ok(Manifests { manifests, untagged, names })
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

/// Reads some of the manifests that have tags or were seen before, with their children. However much there is,
/// something can be removed: people who push cannot keep a removal from ending.
async fn read_part(
    client: &RegistryClient,
    cache: &OciCache,
    repository: &str,
    tagged: &BTreeSet<String>,
    before: &BTreeSet<String>,
    cursor: &RemovalCursor,
) -> Result<ManifestPart, Error> {
    // Manifests with tags are known to exist.
    let rest = before.difference(tagged).filter(|digest| **digest > cursor.before);
    let rest: Vec<String> = rest.take(REMOVED_MANIFESTS).cloned().collect();
    let others = existing(client, repository, &rest, usize::MAX).await?;
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
            let is_much = names > REMOVED_REFERENCES || next.len().saturating_add(count) > REMOVED_CHILDREN;
            if is_much && !level.is_empty() {
                return Ok(false);
            }
            if !is_odd {
                next.extend(children.iter().cloned());
            }
            level.insert(digest, manifest);
            Ok(true)
        };
        let unread = read_in_order(client, cache, repository, &wanted, take).await?;
        if !is_named {
            part.unread = unread.first().cloned();
        } else if !unread.is_empty() {
            // These parents stay, so that the next pass finds the other children by them, also under another leader.
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
        wanted = to_be_read(client, cache, repository, next).await?;
    }
    Ok(part)
}

/// Reads existing manifests in their order, until `take` refuses one. Returns that one and the rest.
async fn read_in_order<'a>(
    client: &RegistryClient,
    cache: &OciCache,
    repository: &str,
    digests: &'a [String],
    mut take: impl FnMut(String, Arc<Manifest>) -> Result<bool, Error>,
) -> Result<&'a [String], Error> {
    let mut count: usize = 0;
    for some in digests.chunks(CALLS_CHUNK) {
        let reads: Vec<_> = some.iter().map(|digest| manifest(client, cache, repository, digest)).collect();
        let mut reads = stream::iter(reads).buffered(PARALLEL);
        while let Some(read) = reads.try_next().await? {
            if let Some((digest, manifest)) = read
                && !take(digest, manifest)?
            {
                return Ok(digests.get(count..).unwrap_or_default());
            }
            count = count.saturating_add(1);
        }
    }
    Ok(&[])
}

/// The manifests that have to be read. A cached one may be from another repository, so this repository is asked whether
/// it has it.
async fn to_be_read(
    client: &RegistryClient,
    cache: &OciCache,
    repository: &str,
    digests: BTreeSet<String>,
) -> Result<Vec<String>, Error> {
    let (read, unread): (Vec<String>, Vec<String>) =
        digests.into_iter().partition(|digest| cache.manifest(repository, digest).is_some());
    let mut wanted = existing(client, repository, &read, usize::MAX).await?;
    wanted.extend(unread);
    Ok(wanted.into_iter().collect())
}

/// The digests of existing tags or digests, until `max` were found.
async fn existing(
    client: &RegistryClient,
    repository: &str,
    references: &[String],
    max: usize,
) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    for some in references.chunks(CALLS_CHUNK) {
        let heads: Vec<_> = some.iter().map(|reference| digest_of(client, repository, reference)).collect();
        let mut answers = stream::iter(heads).buffer_unordered(PARALLEL);
        while let Some(answer) = answers.try_next().await? {
            found.extend(answer);
            if found.len() >= max {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

/// The digest of a tag or digest; `None` if it does not exist.
async fn digest_of(
    client: &RegistryClient,
    repository: &str,
    reference: &str,
) -> Result<Option<String>, Error> {
    let path = format!("/v2/{repository}/manifests/{reference}");
    let Some(answer) = client.head(path, pull(repository)).await? else { return Ok(None) };
    let digest = answer.header("docker-content-digest").unwrap_or(reference);
    if !is_digest(digest) {
        return Err(unusable(&format!("the registry does not say what {repository}:{reference} is")));
    }
    Ok(Some(digest.to_owned()))
}

fn pull(repository: &str) -> String {
    format!("repository:{repository}:pull")
}

/// Reads a manifest, or takes it from the cache; `None` if it does not exist. An index may name what was never pushed.
async fn manifest(
    client: &RegistryClient,
    cache: &OciCache,
    repository: &str,
    digest: &str,
) -> Result<Option<(String, Arc<Manifest>)>, Error> {
    if let Some(manifest) = cache.manifest(repository, digest) {
        return Ok(Some((digest.to_owned(), manifest)));
    }
    let path = format!("/v2/{repository}/manifests/{digest}");
    let _room = client.manifest_room().await;
    let answer = client.call(&Call { method: Method::GET, path, scope: pull(repository) }).await?;
    match answer.status {
        StatusCode::OK => {}
        _ if answer.is_not_found() => return Ok(None),
        _ => return Err(answer.failure()),
    }
    // Other content would have other references, and would be cached.
    if digest.strip_prefix("sha256:").is_some_and(|hex| sha256(&answer.body) != hex) {
        return Err(unusable(&format!(
            "the registry answers with something else than {repository}@{digest}"
        )));
    }
    let bytes = u64::try_from(answer.body.len()).unwrap_or(u64::MAX);
    let manifest = Arc::new(Manifest { bytes, references: References::of(&answer.body) });
    cache.cache_manifest(repository, digest, &manifest);
    Ok(Some((digest.to_owned(), manifest)))
}

/// A blob and its size; `None` if it does not exist here, such as a layer that is kept elsewhere.
async fn size_of(
    client: &RegistryClient,
    cache: &OciCache,
    repository: &str,
    digest: &str,
) -> Result<Option<(String, u64)>, Error> {
    if let Some(bytes) = cache.blob_size(repository, digest) {
        return Ok(Some((digest.to_owned(), bytes)));
    }
    let path = format!("/v2/{repository}/blobs/{digest}");
    let Some(bytes) = client.blob_size(path, pull(repository)).await? else { return Ok(None) };
    cache.cache_blob_size(repository, digest, bytes);
    Ok(Some((digest.to_owned(), bytes)))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Catalog {
    repositories: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tags {
    tags: Option<Vec<String>>,
}

/// The names of the repositories below a prefix, and whether the list is complete. Registries sort them by bytes, or by
/// path components. In both orders, names with the prefix are consecutive.
///
/// The list starts after a name that no repository can have and that sorts before all names below the prefix. If it
/// started after the prefix itself, distribution 3 would begin in its storage at `PREFIX/_manifests`, and skip each
/// component that begins with a digit. Registries that take only the name of an existing repository (Harbor) take
/// neither.
async fn list_repositories(client: &RegistryClient, prefix: &str) -> Result<(Vec<String>, bool), Error> {
    let mut path = format!("/v2/_catalog?n={PAGE}&last={prefix}/-");
    let (mut found, below) = (Vec::new(), format!("{prefix}/"));
    // If a page ends at a repository with a tag `_manifests`, the next page of distribution has
    // `REPOSITORY/_manifests/tags`.
    let is_ours = |name: &String| name.starts_with(&below) && name.split('/').all(is_repository_component);
    for _page in 0..PAGES_MAX {
        let (page, next) = catalogue(client, path).await?;
        let names = page.repositories.unwrap_or_default();
        let is_past = names.last().is_some_and(|last| !last.starts_with(prefix) && last.as_str() > prefix);
        found.extend(names.into_iter().filter(is_ours));
        match next.filter(|_| !is_past) {
            Some(next) => path = next,
            None => return Ok((found, true)),
        }
    }
    Ok((found, false))
}

/// A page of the catalogue, and the path of the next one. A missing catalogue is not an empty one.
async fn catalogue(client: &RegistryClient, path: String) -> Result<(Catalog, Option<String>), Error> {
    page(client, path, "registry:catalog:*").await?.ok_or_else(|| {
        Error::Registry(CallFailure::Refused {
            code: 404,
            message: "the registry does not list its repositories: /v2/_catalog has to be allowed to the controller"
                .to_owned(),
        })
    })
}

/// All tags of a repository.
async fn list_tags(
    client: &RegistryClient,
    room: &mut ScanRoom<'_>,
    repository: &str,
) -> Result<Vec<String>, Error> {
    let mut path = tags_path(repository);
    let mut found = Vec::new();
    for _page in 0..PAGES_MAX {
        let (tags, next) = tags(client, repository, path).await?;
        found.extend(tags);
        room.hold(found.len())?;
        match next {
            Some(next) => path = next,
            None => return Ok(found),
        }
    }
    Err(too_many_tags(repository))
}

/// The digests of some tags of a repository.
#[derive(Default)]
struct Tagged {
    /// Where these tags begin.
    at: Option<TagCursor>,
    digests: BTreeSet<String>,
    /// Where the next tags begin.
    next: Option<TagCursor>,
}

/// The first tags from there on of which at least one exists.
async fn tagged_part(client: &RegistryClient, repository: &str, from: TagCursor) -> Result<Tagged, Error> {
    let mut at = from;
    for _page in 0..PAGES_MAX {
        let (tags, next_page) = tags(client, repository, at.path.clone()).await?;
        let some: Vec<String> = tags.iter().skip(at.skip).take(REMOVED_MANIFESTS).cloned().collect();
        let end = at.skip.saturating_add(some.len());
        let next = if end < tags.len() {
            Some(TagCursor { path: at.path.clone(), skip: end })
        } else {
            next_page.map(|path| TagCursor { path, skip: 0 })
        };
        let digests = existing(client, repository, &some, usize::MAX).await?;
        match (digests.is_empty(), next) {
            (true, Some(next)) => at = next,
            (_, next) => return Ok(Tagged { at: Some(at), digests, next }),
        }
    }
    Err(too_many_tags(repository))
}

/// A page of tags, and the path of the next one.
async fn tags(
    client: &RegistryClient,
    repository: &str,
    path: String,
) -> Result<(Vec<String>, Option<String>), Error> {
    let page = page::<Tags>(client, path, &pull(repository)).await?;
    Ok(page.map(|(page, next)| (page.tags.unwrap_or_default(), next)).unwrap_or_default())
}

/// A page of a list, and the path of the next one; `None` if the registry says that there is no such list.
async fn page<T: DeserializeOwned>(
    client: &RegistryClient,
    path: String,
    scope: &str,
) -> Result<Option<(T, Option<String>)>, Error> {
    let answer = client.call(&Call { method: Method::GET, path, scope: scope.to_owned() }).await?;
    match answer.status {
        StatusCode::OK => {
            let page = serde_json::from_slice(&answer.body).map_err(|error| {
                Error::Registry(CallFailure::Unavailable(format!(
                    "a list of the registry cannot be read: {error}"
                )))
            })?;
            Ok(Some((page, answer.next_page()?)))
        }
        _ if answer.is_not_found() => Ok(None),
        _ => Err(answer.failure()),
    }
}
